"""What is answered and what is kept of it have an end, on either database."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import select
from starlette.testclient import TestClient

from service.kit.database import Database
from service.kit.idempotency import idempotency_keys
from service.quotes import examples, issuing, listing

KEY = {"Idempotency-Key": "once"}


def lengths(name: str, n: int = 40_000) -> dict[str, Any]:
    """A run with a length for each of many samples: its quote echoes them."""
    data = {"samples": 40_000, "epochs": 1, "prompt_tokens": 100, "target_tokens": [200 + i % 7 for i in range(n)], "packing": "packed"}
    return {**examples.SPEC, "name": name, "data": data}


def misfit(i: int) -> dict[str, Any]:
    """405 billion parameters on 8 devices."""
    hardware = {**examples.SPEC["hardware"], "device_count": 8}
    return {**examples.SPEC, "model": {"preset": "llama-3.1-405b"}, "sequence_length": 1024 + i, "hardware": hardware, "parallelism": {}}


def test_a_page_ends_where_its_quotes_are_long_and_the_next_one_goes_on(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty quotes of a million lengths were 235 MB."""
    made = [client.post("/v1/quotes", json=lengths(f"run {i}")).json()["id"] for i in range(5)]
    one = len(client.get(f"/v1/quotes/{made[0]}").content)
    monkeypatch.setattr(listing, "MOST_BYTES", int(2.5 * one))
    pages, path = [], "/v1/quotes?limit=4"
    while path:
        answer = client.get(path)
        pages.append([quote["id"] for quote in answer.json()["items"]])
        path = answer.headers["Link"].partition(">")[0].removeprefix("<") if "Link" in answer.headers else ""
    assert [len(page) for page in pages] == [2, 2, 1]
    assert [quote for page in pages for quote in page] == made[::-1]


def test_a_quote_that_is_longer_than_a_page_may_be_is_a_page(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MOST_BYTES", 10)
    made = [client.post("/v1/quotes", json=examples.SPEC).json()["id"] for _ in range(2)]
    first = client.get("/v1/quotes").json()
    second = client.get("/v1/quotes", params={"cursor": first["next_cursor"]}).json()
    assert [[quote["id"] for quote in page["items"]] for page in (first, second)] == [[made[1]], [made[0]]]
    assert second["next_cursor"] is None


def test_a_list_is_narrowed_to_twenty_labels_and_more_are_refused(client: TestClient) -> None:
    """Each is a look into another table for every quote: 300 took ten seconds."""
    labels = {f"k{i}": "v" for i in range(20)}
    made = client.post("/v1/quotes", json={**examples.SPEC, "labels": labels}).json()["id"]
    answer = client.get("/v1/quotes", params={f"label.{key}": value for key, value in labels.items()})
    assert [quote["id"] for quote in answer.json()["items"]] == [made]
    refused = client.get("/v1/quotes", params={f"label.k{i}": "v" for i in range(21)})
    assert (refused.status_code, refused.json()["errors"][0]["parameter"]) == (422, "label.<key>")


def test_a_batch_is_kept_once_and_answered_again_byte_by_byte(client: TestClient, database: Database) -> None:
    """A revision and a bad spec between: the repeated answer is the first one, which said `open`."""
    body = {"specs": [examples.SPEC, {"model": 1}, {**examples.SPEC, "name": "another"}]}
    first = client.post("/v1/quotes/batch", json=body, headers=KEY)
    quote = first.json()["items"][0]["quote"]
    assert client.post(f"/v1/quotes/{quote['id']}/revisions", json={"spec": {"name": "revised"}}).status_code == 201
    again = client.post("/v1/quotes/batch", json=body, headers=KEY)
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (201, "true")
    assert again.content == first.content
    with database.read() as connection:
        kept = connection.execute(select(idempotency_keys.c.body)).scalar_one()
    problem = first.json()["items"][1]["problem"]
    assert len(kept) < len(json.dumps(problem)) + 300 < len(first.content) / 10


def test_the_first_misfits_of_a_batch_are_offered_changes_and_the_others_are_told(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand misfits took 28 s; one more than are searched is quoted all the same, and alone it is offered what there is."""
    monkeypatch.setattr(issuing, "MOST_SEARCHED", 2)
    entries = client.post("/v1/quotes/batch", json={"specs": [misfit(i) for i in range(3)]}).json()["items"]
    quotes = [entry["quote"] for entry in entries]
    assert [quote["summary"]["fits"] for quote in quotes] == [False, False, False]
    told = ["alternatives_not_searched" in [warning["code"] for warning in quote["warnings"]] for quote in quotes]
    assert told == [False, False, True]
    assert quotes[2]["alternatives"] == [] and quotes[0]["alternatives"]
    alone = client.post("/v1/quotes/preview", json=misfit(2)).json()
    assert alone["alternatives"] and alone["items"] == quotes[2]["items"]


def test_a_spec_of_a_batch_is_told_as_many_faults_as_any_body(client: TestClient) -> None:
    bad = b'{"specs":[{"a":[' + b",".join([b"1e999"] * 200) + b"]}]}"
    (entry,) = client.post("/v1/quotes/batch", content=bad, headers={"content-type": "application/json"}).json()["items"]
    assert [fault["pointer"] for fault in entry["problem"]["errors"]] == [f"/a/{i}" for i in range(50)]
