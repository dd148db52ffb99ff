"""Hostile input is refused or answered, never a 5xx, and never half stored."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import URL
from starlette.testclient import TestClient

from service.app import create_app
from service.kit import migration
from service.quotes import examples
from tests.conftest import settings_for

JSON = {"content-type": "application/json"}
HUGE = "9" * 400


def paths(document: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield at
    children = document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    for key, value in children:
        yield from paths(value, (*at, key))


def replaced(document: Any, path: tuple[str | int, ...], value: Any) -> Any:
    if not path:
        return value
    copied = copy.copy(document)
    copied[path[0]] = replaced(document[path[0]], path[1:], value)
    return copied


RICH: dict[str, Any] = {
    **examples.SPEC,
    "method": {"kind": "qlora", "objective": "sft", "lora": {"rank": 16, "alpha": 32, "target_modules": ["q_proj", "v_proj"]}},
    "data": {"samples": 1000, "epochs": 3, "prompt_tokens": 400, "target_tokens": 100, "packing": "none"},
    "software": {"stack": "deepspeed", "cpu_offload": ["optimizer"]},
    "checkpointing": {"interval_steps": 100, "retain_last": 3, "storage_bytes_per_second": 1e9},
    "evaluation": {"interval_steps": 50, "suites": [{"name": "mmlu", "kind": "downstream", "tokens": 1000000}]},
    "reserves": {"rerun_fraction": 0.1, "ablation_runs": [{"name": "lr", "kind": "sweep", "count": 3, "device_hours": 10}]},
    "rates": [{"resource": "device_hour", "device": "h100-sxm-80gb", "amount": "2.50", "currency": "USD", "date": "2026-01-01"}],
    "interval_coverage": 0.9,
}
PLACES = list(paths(RICH))

RAW = [
    "null", "true", "-1", "0", "1e400", HUGE, "-" + HUGE, "9223372036854775807", "9223372036854775808", "1e18", "1e19", "1e308", "5e-324",
    "0.1", "-0.0", '""', '"\\u0000"', '"\\ud800"', '"x"', '"' + "x" * 10000 + '"', "[]", "{}", "[[[]]]", "[" * 80 + "]" * 80,
    '{"a":1,"a":2}', "[null]", '{"":""}', "[1e400]",
]  # fmt: skip


@pytest.fixture
def quiet(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.mark.parametrize("raw", RAW, ids=range(len(RAW)))
def test_every_place_of_a_spec_with_every_bad_value(quiet: TestClient, raw: str) -> None:
    specs = [json.dumps(replaced(RICH, path, "@")).replace('"@"', raw, 1) for path in PLACES if path]
    if quiet.app.state.database.sqlite:  # type: ignore[attr-defined]
        for body in specs:  # priced one by one: what fails says which
            answer = quiet.post("/v1/quotes/preview", content=body, headers=JSON)
            assert answer.status_code in (200, 400, 422), body[:3000]
            if answer.status_code == 422:
                assert answer.json()["errors"], body[:3000]
    answer = quiet.post("/v1/quotes/batch", content=f'{{"specs":[{",".join(specs)}]}}', headers=JSON)
    assert answer.status_code in (201, 422), answer.text[:3000]


@pytest.mark.parametrize("raw", [*RAW, "", "{", "NaN", '{"specs":NaN}', "\x00", '"', "{}{}", "[]]"], ids=range(len(RAW) + 8))
@pytest.mark.parametrize("path", ["/v1/quotes", "/v1/quotes/preview", "/v1/quotes/batch"])
def test_every_body_that_is_none(quiet: TestClient, path: str, raw: str) -> None:
    for body in (raw, f'{{"specs":{raw}}}', f'{{"specs":[{raw}]}}'):
        answer = quiet.post(path, content=body, headers=JSON)
        assert answer.status_code in (201, 400, 422), (body[:500], answer.text[:500])
        if answer.status_code == 201:
            assert "problem" in answer.json()["items"][0]


@pytest.mark.parametrize("name", ["name", "project"])
@pytest.mark.parametrize("length", [199, 200, 201, 5000])
def test_text_is_as_long_as_its_column(quiet: TestClient, name: str, length: int) -> None:
    assert quiet.post("/v1/quotes", json={**examples.SPEC, name: "\U0001f600" * length}).status_code == (201 if length <= 200 else 422)


def test_a_name_in_a_config_is_as_long_as_its_column(quiet: TestClient) -> None:
    config = {
        "model_type": "gpt2",
        "_name_or_path": "x" * 5000,
        "n_embd": 64,
        "n_layer": 2,
        "n_head": 2,
        "n_positions": 128,
        "vocab_size": 1000,
    }
    answer = quiet.post("/v1/quotes", json={**examples.SPEC, "model": {"hf_config": config}, "sequence_length": 128})
    assert answer.status_code == 201, answer.text


@pytest.mark.parametrize(
    "query",
    [
        "model=%F0%9F%98%80",
        "model=%FF%FE",
        "label.=x",
        "label=x",
        "project=%27%3B--",
        "external_ref=:",
        "external_ref=a:%0A",
        "limit=%30%31",
    ],
)
def test_queries_of_every_kind(quiet: TestClient, query: str) -> None:
    assert quiet.get(f"/v1/quotes?{query}").status_code in (200, 422)


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["zero3", "lora", "packed", "h100-sxm-80gb"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=10) | st.sampled_from(["tokens", "kind", "preset"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    url = URL.create("sqlite", database=str(tmp_path_factory.mktemp("hostile") / "x.db"))
    migration.upgrade(url)
    with TestClient(create_app(settings_for(url)), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="module")
def revisions(shared: TestClient) -> str:
    return shared.post("/v1/quotes", json=RICH).headers["location"] + "/revisions"


@given(patch=st.dictionaries(st.sampled_from([*RICH, "x"]), anything, max_size=3))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_revision_with_any_patch(shared: TestClient, revisions: str, patch: Any) -> None:
    answer = shared.post(revisions, content=json.dumps({"spec": patch}), headers=JSON)
    assert answer.status_code in (201, 422), answer.text[:1000]


@given(content=st.binary(max_size=200))
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_bytes(shared: TestClient, content: bytes) -> None:
    assert shared.post("/v1/quotes", content=content, headers=JSON).status_code in (400, 422)
