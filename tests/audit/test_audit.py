"""Who did what is written with the act, once, for good, and read by the admins of the team alone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from starlette.testclient import TestClient

from service.kit import audit, security
from service.quotes import examples

MakeKey = Callable[..., dict[str, str]]
MEASURED = {
    "attempt": 1,
    "outcome": "completed",
    "source": "test",
    "measurements": [{"code": "device_hours.run", "value": 500000, "method": "test"}],
}


def events(client: TestClient, headers: dict[str, str], query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"/v1/audit?limit=200{query}", headers=headers).json()["items"]
    return found


def key_id(client: TestClient, headers: dict[str, str], scope: str) -> str:
    (found,) = [key["id"] for key in client.get("/v1/keys", headers=headers).json()["items"] if key["scopes"] == [scope]]
    return str(found)


def test_every_act_is_written_down_with_whose_key_it_was(secured: TestClient, make_key: MakeKey) -> None:
    admin = make_key("search", "admin")
    writer, recorder = make_key("search", "quotes:write"), make_key("search", "actuals:write")
    writes, records, administers = (key_id(secured, admin, scope) for scope in ("quotes:write", "actuals:write", "admin"))

    first = secured.post("/v1/quotes", json=examples.SPEC, headers=writer).json()["id"]
    repeated = {**writer, "Idempotency-Key": "k"}
    second = secured.post("/v1/quotes", json=examples.SPEC, headers=repeated).json()["id"]
    assert secured.post("/v1/quotes", json=examples.SPEC, headers=repeated).json()["id"] == second
    batch = secured.post("/v1/quotes/batch", json={"specs": [examples.SPEC, {}, examples.SPEC]}, headers=writer).json()["items"]
    third, fourth = (entry["quote"]["id"] for entry in batch if "quote" in entry)
    fifth = secured.post(f"/v1/quotes/{first}/revisions", json={"spec": {"name": "b"}}, headers=writer).json()["id"]
    assert secured.post(f"/v1/quotes/{first}/actuals", json=MEASURED, headers=recorder).status_code == 201
    assert secured.post(f"/v1/quotes/{first}/actuals", json=MEASURED, headers=recorder).status_code == 200  # nothing new
    version = secured.post("/v1/calibrations", json={}, headers=admin).json()["version"]
    project = secured.post("/v1/projects", json={"name": "p"}, headers=writer).json()["id"]
    entry = secured.post(f"/v1/projects/{project}/entries", json={"stage": "training", "device_hours": 1}, headers=recorder).json()["id"]
    made = secured.post("/v1/keys", json={"scopes": ["quotes:read"]}, headers=admin).json()["id"]
    successor = secured.post(f"/v1/keys/{made}/rotate", json={}, headers=admin).json()["id"]
    secured.post(f"/v1/keys/{made}/revoke", headers=admin)
    secured.post(f"/v1/keys/{made}/revoke", headers=admin)  # it was revoked before

    told = [(event["action"], event["subject"], event["key_id"]) for event in reversed(events(secured, admin))]
    assert sorted(event for event in told if event[2] is not None) == sorted(
        [
            ("quote.created", first, writes),
            ("quote.created", second, writes),
            ("quote.created", third, writes),
            ("quote.created", fourth, writes),
            ("quote.revised", fifth, writes),
            ("actuals.recorded", first, records),
            ("calibration.created", version, administers),
            ("project.created", project, writes),
            ("entry.created", entry, records),
            ("key.created", made, administers),
            ("key.rotated", made, administers),
            ("key.created", successor, administers),
            ("key.revoked", made, administers),
        ]
    )
    moments = [event["created_at"] for event in events(secured, admin)]
    assert moments == sorted(moments, reverse=True)
    assert {event["via"] for event in events(secured, admin) if event["key_id"] is None} == {"command_line"}  # the three first keys


def test_what_fails_is_not_written_down(secured: TestClient, make_key: MakeKey) -> None:
    admin = make_key("search", "admin")
    before = events(secured, admin)
    assert secured.post("/v1/quotes", json={"model": {}}, headers=admin).status_code == 422
    assert secured.post("/v1/quotes/preview", json=examples.SPEC, headers=admin).status_code == 200  # nothing is kept of it
    secured.post("/v1/projects", json={"name": "p"}, headers=admin)
    assert secured.post("/v1/projects", json={"name": "p"}, headers=admin).status_code == 409
    assert [event["action"] for event in events(secured, admin)[: -len(before)]] == ["project.created"]


def test_it_is_filtered_and_paged(secured: TestClient, make_key: MakeKey) -> None:
    admin = make_key("search", "admin")
    made = [secured.post("/v1/quotes", json=examples.SPEC, headers=admin).json()["id"] for _ in range(5)]
    project = secured.post("/v1/projects", json={"name": "p"}, headers=admin).json()
    own = key_id(secured, admin, "admin")
    assert [event["subject"] for event in events(secured, admin, "&action=quote.created")] == made[::-1]
    assert [event["action"] for event in events(secured, admin, f"&subject={project['id']}")] == ["project.created"]
    assert len(events(secured, admin, f"&key_id={own}")) == 6
    moment = project["created_at"].replace("+", "%2B")
    assert [event["subject"] for event in events(secured, admin, f"&created_before={moment}&key_id={own}")] == made[::-1]
    assert events(secured, admin, f"&created_after={moment}") == []
    pages, path = [], "/v1/audit?limit=2&action=quote.created"
    while True:
        page = secured.get(path, headers=admin)
        pages.append([event["subject"] for event in page.json()["items"]])
        if page.json()["next_cursor"] is None:
            break
        path = page.headers["link"].partition(">")[0].removeprefix("<")
    assert pages == [[made[4], made[3]], [made[2], made[1]], [made[0]]]
    assert secured.get("/v1/audit?action=quote.read", headers=admin).status_code == 422


def test_another_teams_acts_are_not_there(secured: TestClient, make_key: MakeKey) -> None:
    search, vision = make_key("search", "admin"), make_key("vision", "admin")
    quote = secured.post("/v1/quotes", json=examples.SPEC, headers=search).json()["id"]
    assert events(secured, vision, f"&subject={quote}") == []
    assert events(secured, search, f"&subject={quote}") != []


def test_a_service_without_keys_says_that_it_asked_for_none(client: TestClient) -> None:
    client.post("/v1/quotes", json=examples.SPEC)
    (event,) = events(client, {})
    assert (event["via"], event["key_id"], event["action"]) == ("open", None, "quote.created")


def test_what_happened_cannot_be_rewritten(client: TestClient) -> None:
    client.post("/v1/quotes", json=examples.SPEC)
    before = events(client, {})
    database = client.app.state.database  # type: ignore[attr-defined]
    with pytest.raises(DBAPIError, match="rewritten"), database.write() as work:
        work.connection.execute(text("UPDATE audit_events SET subject = 'x'"))
    assert events(client, {}) == before


def test_an_act_whose_transaction_fails_leaves_no_trace(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that cannot be written down is not done."""

    def fail(*_: object) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(audit, "insert_plain", fail)
    with pytest.raises(RuntimeError):
        client.post("/v1/projects", json={"name": "p"})
    monkeypatch.undo()
    assert client.get("/v1/projects").json()["items"] == [] and events(client, {}) == []


def test_times_are_those_of_the_acts(client: TestClient) -> None:
    quote = client.post("/v1/quotes", json=examples.SPEC).json()
    (event,) = events(client, {})
    assert event["created_at"] == quote["created_at"]
    assert datetime.now(UTC) - datetime.fromisoformat(event["created_at"]) < timedelta(minutes=1)


def test_that_a_team_shares_what_it_learns_is_written_down(client: TestClient) -> None:
    database = client.app.state.database  # type: ignore[attr-defined]
    moment = datetime(2026, 3, 1, tzinfo=UTC)
    with database.write() as work:
        assert security.share_learning(work.connection, security.DEFAULT_TEAM, True, moment)
        assert security.share_learning(work.connection, security.DEFAULT_TEAM, False, moment + timedelta(days=1))
        assert not security.share_learning(work.connection, "nobody", True, moment)
        work.commit()
    assert [(event["action"], event["via"]) for event in events(client, {})] == [
        ("learning.unshared", "command_line"),
        ("learning.shared", "command_line"),
    ]
