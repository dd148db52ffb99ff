"""What a body's gates cost grows with its length, and what they tell of it has an end."""

from __future__ import annotations

import contextlib
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from service.kit import documents
from service.kit.documents import MAXIMUM_FAULTS, MAXIMUM_HINTS, MAXIMUM_KEYS, MAXIMUM_REFUSED
from service.kit.problems import Invalid, MalformedBody
from service.plans import space
from service.quotes import examples
from service.scaling.endpoints import compute_speedup
from service.scaling.schemas import SpeedupRequest
from service.specs.load import parse
from tests.growth.measure import grows_in_proportion


def refusal(content: bytes) -> Invalid | MalformedBody | None:
    try:
        parse(documents.parse(content))
    except (Invalid, MalformedBody) as problem:
        return problem
    return None


def of(document: Any) -> bytes:
    return json.dumps(document).encode()


BODIES: dict[str, Callable[[int], bytes]] = {
    "unknown fields": lambda n: of({**examples.SPEC, **{f"model_{i}": 1 for i in range(min(n, MAXIMUM_KEYS - 20))}}),
    "long unknown fields": lambda n: of({**examples.SPEC, **{"batch_" * (n // 20) + str(i): 1 for i in range(20)}}),
    "unknown fields of parts": lambda n: of({**examples.SPEC, "data": {f"samples{i}": 1 for i in range(min(n, MAXIMUM_KEYS))}}),
    "objects": lambda n: of({**examples.SPEC, "reserves": {"ablation_runs": [{"nam": "a"} for _ in range(n)]}}),
    "empty lists": lambda n: b"[" + b"[]," * n + b"[]]",
    "empty objects": lambda n: b"[" + b"{}," * n + b"{}]",
    "numbers too large": lambda n: b"[" + b"1e999," * n + b"1]",
    "long integers": lambda n: b"[" + b"9" * n + b"]",
    "a key again and again": lambda n: b"{" + b'"a":1,' * n + b'"a":1}',
    "texts without end": lambda n: of({"name": "x" * n, "labels": [[]] * 70}),
    "half pairs": lambda n: b"[" + b'"\\ud800",' * n + b'""]',
    "depth": lambda n: b"[" * n,
    "lengths that are none": lambda n: of({**examples.SPEC, "data": {"samples": 8, "target_tokens": ["x"] * n, "packing": "none"}}),
    "lengths": lambda n: of({**examples.SPEC, "data": {"samples": 8, "target_tokens": [5] * n, "packing": "none"}}),
}


@pytest.mark.parametrize("kind", BODIES)
def test_a_body_is_refused_in_time_proportional_to_its_length(kind: str) -> None:
    grows_in_proportion(BODIES[kind], refusal, 1_000, most=100_000)


def test_as_many_faults_are_told_as_the_contract_says_and_the_nearest_name_of_the_first() -> None:
    problem = refusal(BODIES["unknown fields"](5_000))
    assert isinstance(problem, Invalid)
    assert len(problem.errors) == MAXIMUM_FAULTS
    told = [fault.pointer for fault in problem.errors if "nearest known one" in fault.detail]
    assert told == [f"/model_{i}" for i in range(MAXIMUM_HINTS)]
    assert problem.errors[0].detail == "unknown field; the nearest known one is 'model'"


def test_more_keys_than_an_object_may_have_are_refused_where_they_stand() -> None:
    whole = {f"k{i}": 1 for i in range(MAXIMUM_KEYS)}
    assert documents.parse(of({"document": whole})) == {"document": whole}
    with pytest.raises(Invalid) as caught:
        documents.parse(of({"document": {"summary": {**whole, "one more": 1}}}))
    assert [(fault.pointer, fault.detail) for fault in caught.value.errors] == [("/document/summary", "an object may have 10000 keys")]


@pytest.mark.parametrize("kind", ["numbers too large", "half pairs"])
def test_a_body_with_more_refused_values_than_are_looked_at_is_refused_as_a_whole(kind: str) -> None:
    with pytest.raises(Invalid) as caught:
        documents.examine(BODIES[kind](MAXIMUM_REFUSED + 1))
    assert [(fault.pointer, fault.detail) for fault in caught.value.errors] == [("", "more than 10000 values of the body are refused")]
    _, faults = documents.examine(BODIES[kind](MAXIMUM_REFUSED))
    assert len(faults) == MAXIMUM_REFUSED


def test_a_refusal_holds_no_more_memory_than_the_document_did() -> None:
    """12 MB of unknown fields took 1.15 GB; a parsed document of short values takes about 20 times its text."""
    content = of([{f"k{i}": 1 for i in range(MAXIMUM_KEYS)} for _ in range(20)])
    tracemalloc.start()
    try:
        assert refusal(content) is not None
        assert tracemalloc.get_traced_memory()[1] < 25 * len(content)
    finally:
        tracemalloc.stop()


def test_values_to_try_are_told_apart_in_time_proportional_to_their_length() -> None:
    def values(n: int) -> dict[str, list[Any]]:
        return {"activation_checkpointing": [{"a": [0] * (n // 256), "b": i} for i in range(256)]}

    def read(free: dict[str, list[Any]]) -> None:
        with contextlib.suppress(Invalid):
            space.read(free)

    grows_in_proportion(values, read, 100_000, most=400_000)


def test_stages_that_are_not_there_are_compared_with_those_that_are_only_at_first() -> None:
    """100 names of 100 letters against 100: every pair took seconds."""
    asked = SpeedupRequest.model_validate(
        {"stage_seconds": {f"{i:03}" + "ab" * 48: 1 for i in range(100)}, "speedups": {f"{i:03}" + "ba" * 48: 2 for i in range(100)}}
    )

    class Given:
        def read(self, _: Any) -> SpeedupRequest:
            return asked

    with pytest.raises(Invalid) as caught:
        compute_speedup(Given())  # type: ignore[arg-type]
    assert sum("nearest" in fault.detail for fault in caught.value.errors) == MAXIMUM_HINTS


def test_the_limits_of_bodies_and_answers_stand_in_the_openapi_document() -> None:
    document = json.loads((Path(__file__).resolve().parents[2] / "openapi" / "openapi.json").read_text())
    bodies = [o["requestBody"] for operations in document["paths"].values() for o in operations.values() if "requestBody" in o]
    assert len(bodies) > 10
    for body in bodies:
        assert body["description"] == (
            "At most 32 MiB unless the deployment says otherwise (413); 64 levels of nesting and 10000 keys in one object "
            "(422, with a pointer)."
        )
    schemas = document["components"]["schemas"]
    assert schemas["Problem"]["properties"]["errors"]["maxItems"] == MAXIMUM_FAULTS == 50
    assert "20000 attempts of jobs in all and 1000 of one run" in schemas["Actuals"]["properties"]["document"]["description"]
    assert schemas["Recorded"]["properties"]["ignored"]["maxItems"] == 1001
    labels = [p for p in document["paths"]["/v1/quotes"]["get"]["parameters"] if p["name"] == "label.<key>"]
    assert "20 of them at most" in labels[0]["description"]
