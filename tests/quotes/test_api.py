"""Quotes over HTTP: made, kept, found again, revised, and never changed."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from sqlalchemy import select, text
from starlette.testclient import TestClient

from service import __version__
from service.kit.database import Database
from service.kit.merge_patch import patched
from service.quotes import examples, quoting, repository

SPEC = examples.SPEC


def spec(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(SPEC), **changes}


def items(quote: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {item["code"]: item for item in quote["items"]}


def test_a_quote_is_made_and_found_again(client: TestClient) -> None:
    made = client.post("/v1/quotes", json=SPEC)
    assert made.status_code == 201
    quote = made.json()
    assert made.headers["location"] == f"/v1/quotes/{quote['id']}"
    assert quote["status"] == "open"
    assert quote["engine_version"] == __version__
    assert quote["created_at"].endswith("Z")
    assert quote["supersedes_id"] is None
    assert quote["resolved"]["parameters"]["total"] == 8_030_261_248  # Llama 3.1 8B as published
    # 6 x 8.03e9 x 15e12, and at 40 % of 989.4 TFLOP/s
    assert items(quote)["compute.6nd"]["expected"] == pytest.approx(6 * 8_030_261_248 * 15e12, rel=1e-12)
    found = client.get(made.headers["location"])
    assert found.status_code == 200
    assert found.json() == quote


def test_a_preview_is_the_same_quote_and_not_kept(client: TestClient) -> None:
    preview = client.post("/v1/quotes/preview", json=SPEC)
    assert preview.status_code == 200
    quote = client.post("/v1/quotes", json=SPEC).json()
    nothing = {"id": None, "created_at": None}
    assert preview.json() == {**quote, **nothing}
    assert list(preview.json()) == list(quote)
    assert len(client.get("/v1/quotes").json()["items"]) == 1


def test_the_spec_of_a_quote_posted_again_gives_the_same_items(client: TestClient) -> None:
    first = client.post("/v1/quotes/preview", json=SPEC).json()
    second = client.post("/v1/quotes/preview", json=first["spec"]).json()
    assert second["items"] == first["items"]
    assert second["spec"] == first["spec"]


def test_an_etag_saves_the_body_until_the_status_changes(client: TestClient) -> None:
    path = client.post("/v1/quotes", json=SPEC).headers["location"]
    tag = client.get(path).headers["etag"]
    for header in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        unchanged = client.get(path, headers={"If-None-Match": header})
        assert unchanged.status_code == 304, header
        assert unchanged.content == b""
        assert unchanged.headers["etag"] == tag
    assert client.get(path, headers={"If-None-Match": '"other"'}).status_code == 200
    client.post(path + "/revisions", json={"spec": {"sequence_length": 4096}})
    changed = client.get(path, headers={"If-None-Match": tag})
    assert changed.status_code == 200
    assert changed.json()["status"] == "superseded"


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("application/json", 200),
        ("*/*", 200),
        ("text/html, application/*;q=0.8", 200),
        ("", 200),
        ("application/xml", 406),
        ("application/json;q=0", 406),
    ],
)
def test_what_a_client_accepts(client: TestClient, accept: str, status: int) -> None:
    path = client.post("/v1/quotes", json=SPEC).headers["location"]
    assert client.get(path, headers={"Accept": accept}).status_code == status


def test_a_spec_is_kept_to_the_last_character(client: TestClient) -> None:
    name = 'na\u00efve "quoted" \\ \u2028 \U0001f600 <script>'
    made = client.post("/v1/quotes", json=spec(name=name, labels={"k\u00e9y/~1": "v\u00e4lue"})).json()
    found = client.get(f"/v1/quotes/{made['id']}").json()
    assert found["spec"]["name"] == name
    assert found["spec"]["labels"] == {"k\u00e9y/~1": "v\u00e4lue"}
    assert client.get("/v1/quotes", params={"label.k\u00e9y/~1": "v\u00e4lue"}).json()["items"][0]["id"] == made["id"]


# Lists


def test_pages_are_newest_first_and_lose_nothing(client: TestClient) -> None:
    made = [client.post("/v1/quotes", json=spec(name=f"run {index}")).json()["id"] for index in range(7)]
    seen: list[str] = []
    query = "/v1/quotes?limit=3&project=search-assistant"
    while query:
        answer = client.get(query)
        page = answer.json()
        seen += [quote["id"] for quote in page["items"]]
        if len(seen) == 3:
            made.append(client.post("/v1/quotes", json=spec(name="new while paging")).json()["id"])
        if page["next_cursor"] is None:
            assert "link" not in answer.headers
            break
        assert answer.headers["link"].endswith('; rel="next"')
        query = answer.headers["link"].split(">")[0].removeprefix("<")
        assert "project=search-assistant" in query and page["next_cursor"] in query
    assert seen == made[-2::-1]


def test_a_page_that_ends_exactly_has_no_next(client: TestClient) -> None:
    for _ in range(2):
        client.post("/v1/quotes", json=SPEC)
    assert client.get("/v1/quotes?limit=2").json()["next_cursor"] is None
    assert client.get("/v1/quotes?limit=1").json()["next_cursor"] is not None


@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "",
        "AAAA",
        "bnVsbA",
        "W10",
        "WyJ4IiwieSJd",
        "WyIyMDI2LTAxLTAxVDAwOjAwOjAwKzAwOjAwIiwieCJd",
        "é",
        "%00",
        "a" * 501,
        "W1tbW1tbW1tbW1tb",
    ],
)
def test_a_bad_cursor_is_422(client: TestClient, cursor: str) -> None:
    answer = client.get("/v1/quotes", params={"cursor": cursor})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["parameter"] == "cursor"


def test_filters_narrow_and_combine(client: TestClient) -> None:
    base = {"data": {"total_tokens": 10**9}, "sequence_length": 2048}
    h100 = {"device": "h100-sxm-80gb", "device_count": 8}
    specs = [
        {**base, "model": {"preset": "llama-3.1-8b"}, "hardware": h100, "project": "a", "labels": {"team": "x", "env": "prod"}},
        {
            **base,
            "model": {"preset": "gpt2-xl"},
            "hardware": h100,
            "labels": {"team": "y"},
            "external_ref": {"system": "slurm", "id": "c/1:2"},
        },
        {**base, "model": {"preset": "llama-3.1-8b"}, "method": {"kind": "lora", "lora": {"rank": 16}}, "project": "a"},
        {**base, "model": {"parameter_count": 10**9}},
    ]
    ids = [client.post("/v1/quotes", json=each).json()["id"] for each in specs]
    moments = [client.get(f"/v1/quotes/{quote_id}").json()["created_at"] for quote_id in ids]
    client.post(f"/v1/quotes/{ids[2]}/revisions", json={"spec": {"project": "b"}})

    def found(**query: str) -> set[int]:
        answer = client.get("/v1/quotes", params=query)
        assert answer.status_code == 200, answer.text
        return {ids.index(quote["id"]) for quote in answer.json()["items"] if quote["id"] in ids}

    assert found() == {0, 1, 2, 3}
    assert found(model="llama-3.1-8b") == {0, 2}
    assert found(device="h100-sxm-80gb") == {0, 1}
    assert found(method="lora") == {2}
    assert found(project="a") == {0, 2}
    assert found(project="a", method="full") == {0}
    assert found(**{"label.team": "x"}) == {0}
    assert found(**{"label.team": "x", "label.env": "prod"}) == {0}
    assert found(**{"label.team": "x", "label.env": "test"}) == set()
    assert found(external_ref="slurm:c/1:2") == {1}
    assert found(external_ref="slurm:c/1") == set()
    assert found(status="superseded") == {2}
    assert found(status="open") == {0, 1, 3}
    assert found(status="measured") == set()
    assert found(created_after=moments[1]) == {2, 3}
    assert found(created_before=moments[1]) == {0}
    assert found(created_after=moments[0], created_before=moments[3]) == {1, 2}
    assert client.get("/v1/quotes?external_ref=slurm").status_code == 422


# Batches


def test_the_good_ones_of_a_batch_are_kept(client: TestClient) -> None:
    bad: list[Any] = [{}, 3, None, [], spec(modle={}), spec(sequence_length="x")]
    answer = client.post("/v1/quotes/batch", json={"specs": [SPEC, *bad, spec(name="last")]})
    assert answer.status_code == 201
    entries = answer.json()["items"]
    assert [entry["index"] for entry in entries] == list(range(8))
    assert ["quote" in entry for entry in entries] == [True] + [False] * 6 + [True]
    for entry in entries[1:-1]:
        assert entry["problem"]["status"] == 422
        assert entry["problem"]["errors"]
    assert entries[5]["problem"]["errors"][0]["pointer"] == "/modle"
    stored = client.get("/v1/quotes").json()["items"]
    assert {quote["id"] for quote in stored} == {entries[0]["quote"]["id"], entries[-1]["quote"]["id"]}
    assert next(quote for quote in stored if quote["id"] == entries[-1]["quote"]["id"]) == entries[-1]["quote"]


def test_a_refused_value_in_one_spec_leaves_the_others_alone(client: TestClient) -> None:
    good = json.dumps(SPEC)
    too_large = '{"model": {"preset": "gpt2-xl"}, "data": {"total_tokens": 1e400}}'
    twice = '{"name": "a", "name": "b"}'
    body = f'{{"specs": [{good}, {too_large}, {twice}, {good}]}}'
    headers = {"content-type": "application/json", "Idempotency-Key": "k"}
    answer = client.post("/v1/quotes/batch", content=body, headers=headers)
    assert answer.status_code == 201
    assert client.post("/v1/quotes/batch", content=body, headers=headers).text == answer.text
    assert client.post("/v1/quotes/batch", content=body.replace("1e400", "1e401"), headers=headers).status_code == 422
    entries = answer.json()["items"]
    assert ["quote" in entry for entry in entries] == [True, False, False, True]
    assert entries[1]["problem"]["errors"] == [{"pointer": "/data/total_tokens", "detail": "the number is too large"}]
    assert entries[2]["problem"]["errors"][0]["pointer"] == "/name"


@pytest.mark.parametrize("body", [{}, {"specs": []}, {"specs": [SPEC] * 1001}, {"specs": SPEC}, {"specs": [SPEC], "spec": 1}, []])
def test_a_batch_holds_1_to_1000_specs(client: TestClient, body: Any) -> None:
    assert client.post("/v1/quotes/batch", json=body).status_code == 422
    assert client.get("/v1/quotes").json()["items"] == []


def test_a_batch_is_one_transaction(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    add = repository.add

    def fail(connection: Any, new: Any) -> None:
        add(connection, new)
        raise TimeoutError

    monkeypatch.setattr(repository, "add", fail)
    assert client.post("/v1/quotes/batch", json={"specs": [SPEC, SPEC]}).status_code == 503
    monkeypatch.undo()
    assert client.get("/v1/quotes").json()["items"] == []


# Revisions


def test_a_revision_supersedes_and_leaves_the_old_one_as_it_was(client: TestClient, database: Database) -> None:
    first = client.post("/v1/quotes", json=SPEC).json()
    answer = client.post(f"/v1/quotes/{first['id']}/revisions", json={"spec": {"batch": {"micro_batch_size": 2}, "project": None}})
    assert answer.status_code == 201
    second = answer.json()
    assert answer.headers["location"] == f"/v1/quotes/{second['id']}"
    assert second["supersedes_id"] == first["id"]
    assert second["status"] == "open"
    assert second["spec"]["batch"]["micro_batch_size"] == 2
    assert second["spec"]["batch"]["gradient_accumulation_steps"] == 16
    assert "project" not in second["spec"]
    assert client.get(f"/v1/quotes/{first['id']}").json() == {**first, "status": "superseded"}


def test_a_second_revision_of_one_quote_says_that_it_stands_beside_the_first(client: TestClient) -> None:
    """It holds nothing of the first one's changes; a revision of the newest quote is not warned of."""
    first = client.post("/v1/quotes", json=SPEC).json()
    one = client.post(f"/v1/quotes/{first['id']}/revisions", json={"spec": {"sequence_length": 4096}}).json()
    two = client.post(f"/v1/quotes/{first['id']}/revisions", json={"spec": {"name": "b"}}).json()
    three = client.post(f"/v1/quotes/{two['id']}/revisions", json={"spec": {"name": "c"}}).json()
    told = {quote["id"]: [w["detail"] for w in quote["warnings"] if w["code"] == "superseded_before"] for quote in (first, one, two, three)}
    assert not told[first["id"]] and not told[one["id"]] and not told[three["id"]]
    assert one["id"] in told[two["id"]][0]
    assert two["spec"]["sequence_length"] == first["spec"]["sequence_length"]


def test_what_was_default_is_default_again_after_a_revision(client: TestClient) -> None:
    """The patch meets the spec as it came, not the defaults that were filled in then."""
    first = client.post(
        "/v1/quotes", json=spec(hardware={"device": "h100-sxm-80gb", "device_count": 8}, batch={"micro_batch_size": 1})
    ).json()
    assert first["resolved"]["global_batch_size"] == 8
    second = client.post(f"/v1/quotes/{first['id']}/revisions", json={"spec": {"hardware": {"device_count": 16}}}).json()
    assert second["resolved"]["global_batch_size"] == 16
    assert second["provenance"] == first["provenance"]


def test_a_revision_is_checked_like_a_spec(client: TestClient) -> None:
    path = client.post("/v1/quotes", json=SPEC).headers["location"] + "/revisions"
    for body, where in [
        ({"spec": {"sequence_length": "x"}}, "/spec/sequence_length"),
        ({"spec": {"model": None}}, "/spec/model"),
        ({"spec": {"sequence_lenght": 1}}, "/spec/sequence_lenght"),
        ({"specs": {}}, "/specs"),
        ({}, ""),
        ({"spec": []}, "/spec"),
        ({"pilot": {"measurements": []}}, "/pilot/measurements"),
        ({"pilot": {"measurements": [{"code": "time.steps", "value": 1}]}}, "/pilot/measurements/0/code"),
        ({"pilot": {"measurements": [{"code": "time.step", "value": 0}]}}, "/pilot/measurements/0/value"),
        ({"pilot": {"measurements": [{"code": "time.step", "value": 1}] * 2}}, "/pilot/measurements/1/code"),
        (
            {"pilot": {"measurements": [{"code": "time.step", "value": 1}, {"code": "throughput.input_tokens_per_second", "value": 1}]}},
            "/pilot/measurements",
        ),
    ]:
        answer = client.post(path, json=body)
        assert answer.status_code == 422, body
        assert answer.json()["errors"][0]["pointer"] == where
    assert len(client.get("/v1/quotes").json()["items"]) == 1


PILOT = {"spec": {}, "pilot": {"measurements": [{"code": "time.step", "value": 21.5, "method": "mean of steps 10 to 60"}]}}


def test_a_pilots_step_time_replaces_the_prior(client: TestClient) -> None:
    first = client.post("/v1/quotes", json=spec(efficiency=None)).json()
    second = client.post(f"/v1/quotes/{first['id']}/revisions", json=PILOT).json()
    step = items(second)["time.step"]
    assert step["expected"] == 21.5
    assert step["basis"] == "pilot"
    assert items(second)["time.training"]["expected"] == pytest.approx(21.5 * second["resolved"]["steps"], rel=1e-12)
    assert items(first)["time.step"]["expected"] != 21.5
    assert first["pilot"] is None
    assert second["pilot"] == PILOT["pilot"]


def test_a_pilots_peak_replaces_the_estimate(client: TestClient) -> None:
    first = client.post("/v1/quotes", json=SPEC).json()
    body = {"pilot": {"measurements": [{"code": "memory.peak_allocated", "value": 5.5e10, "scope": "max"}]}}
    second = client.post(f"/v1/quotes/{first['id']}/revisions", json=body).json()
    peak = items(second)["memory.peak_allocated"]
    assert peak["expected"] == pytest.approx(5.5e10, rel=1e-9)
    assert peak["basis"] == "pilot"


def test_a_pilot_holds_while_nothing_of_the_step_changes(client: TestClient) -> None:
    first = client.post("/v1/quotes", json=SPEC).json()
    piloted = client.post(f"/v1/quotes/{first['id']}/revisions", json=PILOT).json()
    renamed = client.post(f"/v1/quotes/{piloted['id']}/revisions", json={"spec": {"name": "another"}}).json()
    assert items(renamed)["time.step"]["basis"] == "pilot"
    changed = client.post(f"/v1/quotes/{piloted['id']}/revisions", json={"spec": {"sequence_length": 4096}}).json()
    assert items(changed)["time.step"]["basis"] != "pilot"
    assert "pilot_dropped" in {warning["code"] for warning in changed["warnings"]}


# RFC 7396, appendix A: every example of the standard.
MERGES = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "patch", "result"), MERGES)
def test_merge_patches_are_those_of_rfc_7396(target: Any, patch: Any, result: Any) -> None:
    before = copy.deepcopy((target, patch))
    assert patched(target, patch) == result
    assert (target, patch) == before


# Rows


def test_a_row_never_changes(client: TestClient, database: Database) -> None:
    first = client.post("/v1/quotes", json=SPEC, headers={"Idempotency-Key": "k"}).json()

    def row() -> Any:
        with database.read() as connection:
            return connection.execute(select(repository.quotes).where(repository.quotes.c.id == first["id"])).one()

    before = row()
    client.post(f"/v1/quotes/{first['id']}/revisions", json=PILOT)
    client.post("/v1/quotes", json=SPEC, headers={"Idempotency-Key": "k"})
    client.get(f"/v1/quotes/{first['id']}")
    assert row() == before


def test_columns_hold_what_learning_asks_of_the_items(client: TestClient, database: Database) -> None:
    quote = client.post("/v1/quotes", json=SPEC).json()
    items = {item["code"]: item for item in quote["items"]}
    with database.read() as connection:
        row = connection.execute(text("SELECT step_basis, training_seconds, wall_clock_seconds FROM quotes")).one()
    assert row == (items["time.step"]["basis"], items["time.training"]["expected"], items["time.wall_clock"]["expected"])


def test_columns_of_items_without_a_number_are_null(client: TestClient, database: Database) -> None:
    assert client.post("/v1/quotes", json={"model": {"preset": "gpt2-xl"}, "data": {"total_tokens": 1000}}).status_code == 201
    with database.read() as connection:
        row = connection.execute(text("SELECT step_basis, training_seconds, wall_clock_seconds FROM quotes")).one()
    assert row == (None, None, None)


def test_a_stored_quote_takes_less_than_a_seventh_of_its_answer(client: TestClient, database: Database) -> None:
    answer = client.post("/v1/quotes", json=SPEC)
    with database.read() as connection:
        size = connection.execute(text("SELECT length(document) + length(received) FROM quotes")).scalar_one()
    assert size < len(answer.content) / 7


def test_columns_hold_what_lists_filter_by(client: TestClient, database: Database) -> None:
    client.post("/v1/quotes", json=SPEC)
    with database.read() as connection:
        row = connection.execute(text("SELECT * FROM quotes")).one()
    assert (
        row._mapping.items()
        >= {
            "model": "llama-3.1-8b",
            "model_family": "llama",
            "device": "h100-sxm-80gb",
            "device_count": 1024,
            "method": "full",
            "stack": "hf_transformers",
            "project": "search-assistant",
            "external_system": "slurm",
            "external_id": "cluster-a/123456",
        }.items()
    )


def test_equal_runs_of_a_batch_are_priced_once_and_answered_as_if_alone(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Specs that differ in what a run is called share the work; each answer is what the spec alone gets."""
    calls = []
    estimated = quoting.estimated

    def count(*arguments: Any) -> Any:
        calls.append(arguments)
        return estimated(*arguments)

    named = [SPEC | {"name": f"run {number}", "labels": {"team": f"team {number}"}} for number in range(3)]
    other = SPEC | {"sequence_length": 4096}
    alone = [client.post("/v1/quotes/preview", json=spec).json() for spec in (*named, other)]
    monkeypatch.setattr(quoting, "estimated", count)
    entries = client.post("/v1/quotes/batch", json={"specs": [*named, other]}).json()["items"]
    assert len(calls) == 2
    own = ("id", "created_at")
    assert [{k: v for k, v in entry["quote"].items() if k not in own} for entry in entries] == [
        {k: v for k, v in quote.items() if k not in own} for quote in alone
    ]
