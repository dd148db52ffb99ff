"""Every endpoint that takes a list or a text of any length answers in time proportional to it, or refuses it in that time.

Bodies grow to the limits that the OpenAPI document states; a new endpoint with a body or a list in its query needs a case here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL
from starlette.testclient import TestClient

from service.app import create_app
from service.kit import migration
from service.quotes import examples
from tests.conftest import settings_for
from tests.growth import test_readers as documents
from tests.growth.measure import grows_in_proportion

JSON = {"content-type": "application/json"}
SPEC = examples.SPEC


@dataclass(frozen=True)
class Case:
    """A request that grows: its path, its body (or query) for n, and where n begins and ends."""

    endpoint: str
    kind: str
    make: Callable[[int], Any]
    n: int
    most: int
    path: str = ""


def with_data(**data: Any) -> dict[str, Any]:
    return {**SPEC, "data": data}


def datasets(n: int) -> dict[str, Any]:
    return {**SPEC, "data": {**SPEC["data"], "datasets": [{"name": f"d{i}", "weight": 1.0} for i in range(n)]}}


def suites(n: int) -> dict[str, Any]:
    one = {"kind": "downstream", "tokens": 1_000_000}
    return {**SPEC, "evaluation": {"interval_steps": 50, "suites": [{"name": f"s{i}", **one} for i in range(n)]}}


def ablations(n: int) -> dict[str, Any]:
    runs = [{"name": f"a{i}", "kind": "sweep", "count": 3, "device_hours": 10} for i in range(n)]
    return {**SPEC, "reserves": {"ablation_runs": runs}}


def lengths(n: int) -> dict[str, Any]:
    return with_data(samples=n, epochs=1, prompt_tokens=[100 + i % 900 for i in range(n)], target_tokens=[50] * n, packing="none")


def packed(n: int) -> dict[str, Any]:
    return with_data(samples=n, epochs=1, prompt_tokens=[100 + i for i in range(n)], target_tokens=[50] * n, packing="packed")


def histogram(n: int) -> dict[str, Any]:
    return with_data(lengths={"histogram": [[100 + i, 50, 3] for i in range(n)]}, epochs=1, packing="packed")


def layers(n: int) -> dict[str, Any]:
    """A config whose layers are listed one by one, in a pattern that never repeats as a whole."""
    config = {
        "model_type": "qwen3", "hidden_size": 512, "num_hidden_layers": n, "num_attention_heads": 8, "num_key_value_heads": 4,
        "intermediate_size": 1024, "vocab_size": 32000, "head_dim": 64, "use_sliding_window": True, "sliding_window": 128,
        "layer_types": [["full_attention", "sliding_attention"][(i * i // 7) % 2] for i in range(n)],
    }  # fmt: skip
    return {**SPEC, "model": {"hf_config": config}, "parallelism": {}}


def long_config(n: int) -> dict[str, Any]:
    config = {"model_type": "llama", "architectures": ["x"] * n, "quantization_config": {"modules_to_not_convert": ["lm_head"] * n}}
    return {**SPEC, "model": {"hf_config": config}}


def batch(n: int) -> dict[str, Any]:
    return {"specs": [{**SPEC, "sequence_length": 1024 + i} for i in range(n)]}


def batch_of_strangers(n: int) -> dict[str, Any]:
    return {"specs": [{"hardware": {"device": f"h{i}"}, **{f"modl{j}": i for j in range(100)}} for i in range(n)]}


def batch_of_unknown_devices(n: int) -> dict[str, Any]:
    return {"specs": [{**SPEC, "hardware": {**SPEC["hardware"], "device": f"h{i}00-sxm"}} for i in range(n)]}


def measurements(n: int) -> dict[str, Any]:
    values = [{"code": "device_hours.run", "value": 10.0 + i, "method": f"m{i}"} for i in range(n)]
    return {"attempt": 1, "outcome": "failed", "source": f"s{n}", "measurements": values}


def unknown_codes(n: int) -> dict[str, Any]:
    return {"measurements": [{"code": f"device_hour.{i}", "value": 1.0} for i in range(n)]}


def restarts(n: int) -> dict[str, Any]:
    """One job, requeued again and again, in its scheduler's words."""
    record = documents.sacct_tries(1)["jobs"][0]
    jobs = [{**record, "time": {**record["time"], "start": 1767000100 + 7200 * i, "end": 1767003700 + 7200 * i}} for i in range(n)]
    return {"format": "sacct_json", "document": {"jobs": jobs}}


def running(n: int) -> dict[str, Any]:
    """Jobs that have not ended, and one that has: every one is noted."""
    jobs = [{**job, "state": {"current": ["RUNNING"]}} for job in documents.sacct_json(n)["jobs"]]
    return {"format": "sacct_json", "document": {"jobs": [*jobs, *documents.sacct_tries(1)["jobs"]]}, "job_id": "1"}


def strangers(n: int) -> dict[str, Any]:
    return {"format": "sacct_json", "document": documents.sacct_json(n)}


def entry(n: int) -> dict[str, Any]:
    return {"stage": "training", "device_hours": 1, "effect": {f"metric {i}": 0.5 for i in range(n)}}


def rates(n: int) -> dict[str, Any]:
    one = {"resource": "device_hour", "amount": "2.50", "currency": "USD"}
    return {"name": f"p{n}", "rates": [{**one, "device": f"d{i}"} for i in range(n)]}


def stages(n: int) -> dict[str, Any]:
    return {"stage_seconds": {f"s{i}": 10 for i in range(n)}, "speedups": {f"s{i}": 2 for i in range(n)}}


def unknown_stages(n: int) -> dict[str, Any]:
    return {"stage_seconds": {f"s{i}" * 20: 10 for i in range(n)}, "speedups": {f"t{i}" * 20: 2 for i in range(n)}}


def tries(n: int) -> dict[str, Any]:
    spec = {key: value for key, value in SPEC.items() if key != "parallelism"}
    return {"spec": spec, "free": {"parallelism.tensor": [1, 2, 4], "batch.micro_batch_size": list(range(1, n + 1))}, "limit": 5}


def patch(n: int) -> dict[str, Any]:
    return {"spec": {f"unknown{i}": i for i in range(n)}}


QUOTE, PREVIEW, BATCH = "POST /v1/quotes", "POST /v1/quotes/preview", "POST /v1/quotes/batch"
ACTUALS, BY_REFERENCE = "POST /v1/quotes/{quote_id}/actuals", "POST /v1/actuals"
CASES = [
    Case(QUOTE, "lengths", lengths, 20_000, 250_000),
    Case(PREVIEW, "packed", packed, 20_000, 250_000),
    Case(PREVIEW, "histogram", histogram, 10_000, 25_000),
    Case(PREVIEW, "datasets", datasets, 250, 250),
    Case(PREVIEW, "suites", suites, 250, 250),
    Case(PREVIEW, "ablations", ablations, 250, 250),
    Case(PREVIEW, "layers", layers, 500, 2_000),
    Case(PREVIEW, "long config", long_config, 10_000, 100_000),
    Case(PREVIEW, "name", lambda n: {**SPEC, "name": "x" * n}, 200_000, 2_000_000),
    Case(BATCH, "runs", batch, 10, 10),
    Case(BATCH, "strangers", batch_of_strangers, 50, 100),
    Case(BATCH, "unknown devices", batch_of_unknown_devices, 50, 250),
    Case("POST /v1/quotes/{quote_id}/revisions", "unknown fields", patch, 500, 2_500),
    Case("POST /v1/plans", "values", tries, 64, 64),
    Case(ACTUALS, "measurements", measurements, 125, 125),
    Case(ACTUALS, "unknown codes", unknown_codes, 125, 125),
    Case(ACTUALS, "restarts", restarts, 100, 250),
    Case(ACTUALS, "running jobs", running, 1_000, 5_000),
    Case(BY_REFERENCE, "strangers", strangers, 1_000, 4_000),
    Case("POST /v1/projects", "rates", rates, 50, 50),
    Case("POST /v1/projects/{project_id}/entries", "effects", entry, 500, 2_500),
    Case("POST /v1/scaling/speedup", "stages", stages, 25, 25),
    Case("POST /v1/scaling/speedup", "unknown stages", unknown_stages, 25, 25),
    Case("POST /v1/keys", "scopes", lambda n: {"scopes": ["quotes:read"] * n}, 5_000, 50_000),
    Case("GET /v1/quotes", "labels", lambda n: "&".join(f"label.k{i}=v" for i in range(n)), 500, 500),
    Case("GET /v1/quotes", "unknown parameters", lambda n: "&".join(f"modl{i}=v" for i in range(n)), 500, 500),
    Case("GET /v1/accuracy", "groups", lambda n: "&".join(f"group_by=label.k{i}" for i in range(n)), 500, 500),
]
# Bodies of a fixed number of numbers and short names.
FIXED = {"POST /v1/keys/{key_id}/rotate", "POST /v1/calibrations", "POST /v1/backtests", "POST /v1/scaling/compute-optimal"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, dict[str, str]]]:
    """A client, and the ids that paths name."""
    url = URL.create("sqlite", database=str(tmp_path_factory.mktemp("growth") / "x.db"))
    migration.upgrade(url)
    with TestClient(create_app(settings_for(url))) as client:
        quote = client.post("/v1/quotes", json=SPEC).json()["id"]
        project = client.post("/v1/projects", json={"name": "growth"}).json()["id"]
        yield client, {"quote_id": quote, "project_id": project}


def test_every_endpoint_that_takes_a_list_or_a_text_is_measured(served: tuple[TestClient, dict[str, str]]) -> None:
    paths = json.loads((Path(__file__).resolve().parents[2] / "openapi" / "openapi.json").read_text())["paths"]
    needed = set()
    for path, operations in paths.items():
        for method, operation in operations.items():
            lists = [p for p in operation.get("parameters", []) if p["schema"].get("type") == "array" or "<" in p["name"]]
            if "requestBody" in operation or lists:
                needed.add(f"{method.upper()} {path}")
    assert needed - FIXED == {case.endpoint for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.endpoint} {case.kind}")
def test_an_endpoint_answers_in_time_proportional_to_what_it_is_sent(case: Case, served: tuple[TestClient, dict[str, str]]) -> None:
    client, ids = served
    method, path = case.endpoint.split()
    path = path.format(**ids)

    def make(n: int) -> Any:
        made = case.make(n)
        return made if method == "GET" else json.dumps(made).encode()

    def ask(made: Any) -> None:
        answer = client.get(path, params=made) if method == "GET" else client.post(path, content=made, headers=JSON)
        assert answer.status_code < 500 and answer.status_code not in {401, 403, 405, 415, 429}

    grows_in_proportion(make, ask, case.n, case.most)
