"""The measured runs behind a quote: the nearest first, each with its source and how it differs."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from service.catalog import evidence
from service.estimation import parameters
from service.quotes import examples
from service.specs.load import run_of

CASES = Path(__file__).parents[1] / "cases" / "measured_public.jsonl"


def case(name: str) -> dict[str, Any]:
    return next(row for row in map(json.loads, CASES.read_text().splitlines()) if row["id"] == name)


def test_a_measured_run_is_its_own_nearest() -> None:
    row = case("llmfoundry-mpt-7b-a100-sxm4-80gb-8gpu-s2048-mb6-amp-bf16")
    run = run_of(row["spec"])
    near = evidence.nearest(run, parameters.count(run))
    assert near[0].row["id"] == row["id"]
    assert near[0].distance == 0 and near[0].differences == {}
    assert near[0].row["measured"] == {"throughput.input_tokens_per_second": row["measured"]["throughput.input_tokens_per_second"]}
    assert [n.distance for n in near] == sorted(n.distance for n in near)
    assert len({n.row["group"] for n in near}) == len(near)


def test_every_measured_row_has_a_public_source() -> None:
    for row in evidence.measured():
        assert any(row["source"].get(place) for place in ("repo", "arxiv", "url")), row["id"]
        assert row["step_seconds"] > 0


def test_evidence_of_a_quote(client: TestClient) -> None:
    spec = copy.deepcopy(examples.SPEC)
    spec.pop("efficiency", None)
    quote = client.post("/v1/quotes", json=spec).json()
    answer = client.get(f"/v1/quotes/{quote['id']}/evidence", params={"limit": 3})
    assert answer.status_code == 200
    body = answer.json()
    assert len(body["items"]) == 3
    assert {"field", "run", "measured_run"} == set(body["items"][0]["differences"][0])
    assert "measured step times" in body["fitted_on"]
    assert body["interval_basis"]
    assert client.get("/v1/quotes/0193aaaa-0000-7000-8000-000000000000/evidence").status_code == 404
