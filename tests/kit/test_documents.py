"""The gate every body passes: what JSON is taken, and what is refused before a model sees it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field
from starlette.testclient import TestClient

from service.kit import documents
from service.kit.documents import RequestModel, parse, pointer, validate
from service.kit.limits import LARGE_BYTES, Way
from service.kit.problems import Invalid, MalformedBody


def faults(content: bytes) -> list[tuple[str, str]]:
    with pytest.raises(Invalid) as caught:
        parse(content)
    return [(fault.pointer, fault.detail) for fault in caught.value.errors]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(json_values)
def test_takes_every_ordinary_document_as_json_loads_does(document: Any) -> None:
    assert parse(json.dumps(document).encode()) == document
    assert parse(json.dumps(document, ensure_ascii=False).encode()) == document
    assert json.loads(documents.dump(document)) == document


@pytest.mark.parametrize(
    ("text", "value"), [("1e8", 100_000_000), ("1.0", 1), ("-0.0", 0), ("8192.0", 8192), ("9007199254740993", 9007199254740993)]
)
def test_an_integral_float_is_an_integer(text: str, value: int) -> None:
    found = parse(text.encode())
    assert found == value
    assert isinstance(found, int)


@pytest.mark.parametrize("text", ["0.5", "1e30", "123456789012345678901234567890"])
def test_what_no_64_bit_integer_holds_is_a_float(text: str) -> None:
    found = parse(text.encode())
    assert isinstance(found, float)
    assert found == float(text)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"a":1,}',
        b"{'a':1}",
        b'{"a":NaN}',
        b"[Infinity]",
        b"-Infinity",
        b"\xff\xfe{}",
        b'"\xc3"',
        b"\xef\xbb\xbf{}",
        b"01",
        b'{"a" 1}',
        b"1 2",
    ],
)
def test_what_is_not_json_is_malformed(content: bytes) -> None:
    with pytest.raises(MalformedBody):
        parse(content)


def test_a_key_that_stands_twice_is_refused_where_it_stands() -> None:
    assert faults(b'{"a":{"b":1,"b":1}}') == [("/a/b", "the key stands twice in its object")]
    assert faults(b'[{"x/y":1,"x/y":2}]')[0][0] == "/0/x~1y"


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" + "0" * 400, "-" + "9" * 5000, "1e99999999"])
def test_a_number_beyond_a_double_is_refused_where_it_stands(number: str) -> None:
    assert faults(f'{{"data":{{"total_tokens":{number}}}}}'.encode()) == [("/data/total_tokens", "the number is too large")]


@pytest.mark.parametrize("text", [r"\u0000", r"a\u0000b", r"\ud800", r"\udfff\ud800", r"\ud83d x"])
def test_text_that_postgresql_cannot_hold_is_refused(text: str) -> None:
    assert [where for where, _ in faults(f'{{"name":["{text}"]}}'.encode())] == ["/name/0"]
    assert [where for where, _ in faults(f'{{"labels":{{"{text}":"x"}}}}'.encode())] == ["/labels"]


def test_a_surrogate_pair_is_a_character() -> None:
    assert parse(rb'"\ud83d\ude00"') == "\N{GRINNING FACE}"


@pytest.mark.parametrize("depth", [documents.MAXIMUM_DEPTH + 2, 900, 100_000])
def test_deep_nesting_is_refused(depth: int) -> None:
    assert "nested deeper" in faults(b"[" * depth + b"]" * depth)[0][1]
    assert "nested deeper" in faults(b'{"a":' * depth + b"1" + b"}" * depth)[0][1]


def test_wide_is_not_deep() -> None:
    assert parse(b"[" + b"[]," * 500 + b"[]]") == [[]] * 501


def test_pointers_are_escaped_as_rfc_6901_says() -> None:
    assert pointer(("a/b", "m~n", 0)) == "/a~1b/m~0n/0"


class Inner(RequestModel):
    total_tokens: int = Field(ge=1)
    ratio: float | None = None


class Outer(RequestModel):
    model: str
    data: Inner | None = None
    rows: list[Inner] = Field(default=[])


def test_an_unknown_field_is_refused_with_the_nearest_known_name() -> None:
    with pytest.raises(Invalid) as caught:
        validate(Outer, {"model": "x", "data": {"total_token": 1, "total_tokens": 1}})
    assert [(fault.pointer, fault.detail) for fault in caught.value.errors] == [
        ("/data/total_token", "unknown field; the nearest known one is 'total_tokens'")
    ]


@pytest.mark.parametrize(
    ("document", "where"),
    [
        ({}, "/model"),
        ({"model": 1}, "/model"),
        ({"model": "x", "data": {"total_tokens": "5"}}, "/data/total_tokens"),
        ({"model": "x", "data": {"total_tokens": True}}, "/data/total_tokens"),
        ({"model": "x", "data": {"total_tokens": 1.5}}, "/data/total_tokens"),
        ({"model": "x", "data": {"total_tokens": 1, "ratio": "0.5"}}, "/data/ratio"),
        ({"model": "x", "rows": [{"total_tokens": 1}, {"total_tokens": 0}]}, "/rows/1/total_tokens"),
        ({"model": "x", "rows": [7]}, "/rows/0"),
        ([], ""),
        ("text", ""),
        (None, ""),
    ],
)
def test_a_bad_value_is_pointed_at_and_not_echoed(document: Any, where: str) -> None:
    with pytest.raises(Invalid) as caught:
        validate(Outer, document)
    assert [fault.pointer for fault in caught.value.errors] == [where]


def test_pointers_count_from_where_the_document_stands() -> None:
    with pytest.raises(Invalid) as caught:
        validate(Outer, {}, at=("specs", 3))
    assert caught.value.errors[0].pointer == "/specs/3/model"


def test_a_short_name_is_answered_with_what_it_may_stand_for() -> None:
    devices = ["a10-24gb", "a100-sxm-40gb", "a100-sxm-80gb", "a100-pcie-40gb", "h100-sxm-80gb"]
    told = documents.nearest("A100", devices)
    assert all(name in told for name in devices[1:4]) and "a10-24gb" not in told and "h100" not in told
    assert documents.nearest("A100 SXM 80GB", devices) == "; the nearest known one is 'a100-sxm-80gb'"
    assert documents.nearest("a100-smx-80gb", devices) == "; the nearest known one is 'a100-sxm-80gb'"
    assert documents.nearest("?", []) == ""


def test_a_long_body_gives_way_while_it_is_parsed_and_is_the_same_document() -> None:
    content = json.dumps({"lengths": list(range(10_000)), "shares": [0.5] * 10, "names": ["a"]}).encode()
    slept: list[float] = []
    way = Way(lambda: True, sleep=slept.append)
    assert documents.Body(content, way).json() == documents.Body(content).json() == json.loads(content)
    assert slept


def test_a_long_body_waits_among_the_heavy_requests_wherever_it_is_sent(client: TestClient) -> None:
    limits = client.app.state.limits  # type: ignore[attr-defined]
    asked: list[int] = []
    lane = limits.lane

    async def seen(scope: object, body_bytes: int = 0) -> None:
        await lane(scope, body_bytes)
        asked.append(len(scope["releases"]))  # type: ignore[index]

    limits.lane = seen
    for spaces in (0, LARGE_BYTES):
        answer = client.post("/v1/quotes/preview", content=b"{" + b" " * spaces + b"}", headers={"Content-Type": "application/json"})
        assert answer.status_code == 422
    assert asked[1] == asked[0] + 1
