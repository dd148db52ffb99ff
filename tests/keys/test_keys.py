"""Keys end, are replaced with an overlap, are managed by the admins of their team alone, and remember when they were used."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, event, select
from starlette.testclient import TestClient

from service.keys import repository as keys
from service.kit import security
from service.kit.database import Database
from service.kit.key_uses import KeyUses
from service.kit.usage import UsageError
from service.quotes import examples

MakeKey = Callable[..., dict[str, str]]
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def works(client: TestClient, key: str) -> bool:
    return client.get("/v1/devices", headers={"Authorization": f"Bearer {key}"}).status_code == 200


def valid(database: Database, key: str, moment: datetime) -> bool:
    with database.read() as connection:
        return security.authenticate(connection, key, moment) is not None


def made(database: Database, *, expires: str | None = None, team: str = "search") -> str:
    with database.write() as work:
        expires_in = None if expires is None else keys.duration(expires)
        key = keys.create_key(work.connection, team, ["quotes:read"], NOW, expires_in=expires_in)
        work.commit()
    return key


@pytest.mark.parametrize(("expires", "days"), [("36h", 1.5), ("90d", 90), ("8w", 56)])
def test_a_key_works_until_it_expires(database: Database, expires: str, days: float) -> None:
    key = made(database, expires=expires)
    end = NOW + timedelta(days=days)
    assert valid(database, key, end - timedelta(microseconds=1))
    assert not valid(database, key, end)
    assert not valid(database, key, end + timedelta(days=10000))


def test_a_key_without_an_end_has_none(database: Database) -> None:
    assert valid(database, made(database), NOW + timedelta(days=40_000))


@pytest.mark.parametrize("text", ["", "90", "d", "-1d", "1.5d", "90 d", "01d", "10000d", "1y", "1d\n"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="duration"):
        keys.duration(text)


def rotated(database: Database, key: str, moment: datetime, overlap: str = "24h", expires: str | None = None) -> str:
    with database.write() as work:
        old = keys.named(work.connection, key)
        assert old is not None
        new, _ = keys.rotate(
            work.connection,
            old,
            moment,
            overlap=keys.duration(overlap),
            expires_in=None if expires is None else keys.duration(expires),
            by=keys.AT_COMMAND_LINE,
        )
        work.commit()
    return new


def test_a_rotated_key_works_on_for_the_overlap_and_its_successor_at_once(database: Database) -> None:
    old = made(database)
    new = rotated(database, old, NOW, overlap="2h")
    assert new != old
    assert valid(database, old, NOW + timedelta(minutes=119)) and valid(database, new, NOW + timedelta(minutes=119))
    assert not valid(database, old, NOW + timedelta(hours=2)) and valid(database, new, NOW + timedelta(days=5000))


def test_a_successor_lives_as_long_as_its_predecessor_was_made_for(database: Database) -> None:
    old = made(database, expires="90d")
    new = rotated(database, old, NOW + timedelta(days=80))
    assert not valid(database, old, NOW + timedelta(days=81))
    assert valid(database, new, NOW + timedelta(days=169)) and not valid(database, new, NOW + timedelta(days=170))


def test_an_overlap_prolongs_no_key(database: Database) -> None:
    old = made(database, expires="1d")
    rotated(database, old, NOW + timedelta(hours=23), overlap="4w")
    assert valid(database, old, NOW + timedelta(hours=23)) and not valid(database, old, NOW + timedelta(days=1))


def test_without_an_overlap_the_old_key_stops_at_once(database: Database) -> None:
    old = made(database)
    rotated(database, old, NOW, overlap="0h")
    assert not valid(database, old, NOW)


def test_a_key_is_named_by_its_id_its_beginning_or_itself_and_by_nothing_else(database: Database) -> None:
    key, other = made(database), made(database, team="vision")
    lookup = key.split("_", 2)[1]
    with database.write() as work:
        found = keys.named(work.connection, key)
        assert found is not None and found.team == "search"
        for name in (found.id, lookup, f"rq_{lookup}"):
            assert keys.named(work.connection, name) == found, name
        for name in (f"rq_{lookup}_garbage", key[:-1], key + "x", f"rq_{lookup}_{other.split('_', 2)[2]}", f"rq_{lookup}_", lookup[1:], ""):
            assert keys.named(work.connection, name) is None, name


def admin(client: TestClient, make_key: MakeKey, team: str = "search") -> dict[str, str]:
    return make_key(team, "admin")


def test_an_admin_makes_lists_rotates_and_revokes_keys_over_http(secured: TestClient, make_key: MakeKey) -> None:
    headers = admin(secured, make_key)
    body = {"scopes": ["quotes:write", "quotes:read"], "expires_in": "90d"}
    answer = secured.post("/v1/keys", json=body, headers=headers)
    assert answer.status_code == 201 and answer.headers["cache-control"] == "no-store"
    new = answer.json()
    assert re.fullmatch(r"rq_[0-9a-f]{16}_[A-Za-z0-9_-]{43}", new["key"]) and new["key"].startswith(new["prefix"])
    assert new["scopes"] == ["quotes:read", "quotes:write"]
    lifetime = datetime.fromisoformat(new["expires_at"]) - datetime.fromisoformat(new["created_at"])
    assert lifetime == timedelta(days=90)
    assert works(secured, new["key"])

    successor = secured.post(f"/v1/keys/{new['id']}/rotate", json={"overlap": "1h"}, headers=headers).json()
    assert successor["replaces"] == new["id"] and successor["scopes"] == new["scopes"]
    assert works(secured, new["key"]) and works(secured, successor["key"])
    again = secured.post(f"/v1/keys/{new['id']}/rotate", json={}, headers=headers)
    assert again.status_code == 409  # its successor is the one to rotate

    listed = secured.get("/v1/keys", headers=headers).json()["items"]
    assert [item["id"] for item in listed[:2]] == [successor["id"], new["id"]] and len(listed) == 3
    assert "key" not in listed[0] and new["key"].split("_", 2)[2] not in str(listed)
    left = datetime.fromisoformat(listed[1]["expires_at"]) - datetime.now(UTC)
    assert timedelta(minutes=58) < left <= timedelta(hours=1)

    revoked = secured.post(f"/v1/keys/{successor['id']}/revoke", headers=headers)
    assert revoked.status_code == 200 and revoked.json()["revoked_at"] is not None
    assert not works(secured, successor["key"]) and works(secured, new["key"])
    assert secured.post(f"/v1/keys/{successor['id']}/revoke", headers=headers).json() == revoked.json()
    assert secured.post(f"/v1/keys/{successor['id']}/rotate", json={}, headers=headers).status_code == 409


def test_of_rotations_at_the_same_time_one_is_done(secured: TestClient, make_key: MakeKey) -> None:
    headers = admin(secured, make_key)
    key = secured.post("/v1/keys", json={"scopes": ["quotes:read"]}, headers=headers).json()
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(secured.post, f"/v1/keys/{key['id']}/rotate", json={}, headers=headers) for _ in range(4)]
        statuses = sorted(answer.result().status_code for answer in asked)
    assert statuses == [201, 409, 409, 409]
    assert len(secured.get("/v1/keys", headers=headers).json()["items"]) == 3


def test_another_teams_keys_are_not_there(secured: TestClient, make_key: MakeKey) -> None:
    search, vision = admin(secured, make_key), admin(secured, make_key, "vision")
    made = secured.post("/v1/keys", json={"scopes": ["quotes:read"]}, headers=search).json()
    for action in ("rotate", "revoke"):
        assert secured.post(f"/v1/keys/{made['id']}/{action}", json={}, headers=vision).status_code == 404
    assert made["id"] not in secured.get("/v1/keys", headers=vision).text
    assert works(secured, made["key"])


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/scopes"),
        ({"scopes": []}, "/scopes"),
        ({"scopes": ["everything"]}, "/scopes/0"),
        ({"scopes": ["admin"], "expires_in": "soon"}, "/expires_in"),
        ({"scopes": ["admin"], "team": "vision"}, "/team"),
    ],
)
def test_a_bad_request_for_a_key_says_where(secured: TestClient, make_key: MakeKey, body: dict[str, Any], pointer: str) -> None:
    answer = secured.post("/v1/keys", json=body, headers=admin(secured, make_key))
    assert answer.status_code == 422 and [fault["pointer"] for fault in answer.json()["errors"]] == [pointer]


def test_a_key_is_never_kept_for_a_repetition(secured: TestClient, make_key: MakeKey) -> None:
    headers = {**admin(secured, make_key), "Idempotency-Key": "k"}
    answer = secured.post("/v1/keys", json={"scopes": ["admin"]}, headers=headers)
    assert answer.status_code == 422 and answer.json()["errors"][0]["parameter"] == "Idempotency-Key"


def last_use(database: Database) -> list[datetime | None]:
    with database.read() as connection:
        return list(connection.execute(select(security.api_keys.c.last_used_at)).scalars())


def test_a_use_is_written_once_for_many_requests_and_never_by_one(secured: TestClient, make_key: MakeKey) -> None:
    headers = make_key("search", "quotes:read")
    database: Database = secured.app.state.database  # type: ignore[attr-defined]
    uses: KeyUses = secured.app.state.key_uses  # type: ignore[attr-defined]
    statements: list[str] = []

    def note(_: object, __: object, statement: str, *___: object) -> None:
        statements.append(statement.split()[0].upper())

    engine: Engine = database.engine
    event.listen(engine, "before_cursor_execute", note)
    before = datetime.now(UTC)
    for _ in range(20):
        assert secured.get("/v1/quotes", headers=headers).status_code == 200
    assert {"UPDATE", "INSERT", "DELETE"}.isdisjoint(statements)
    assert last_use(database) == [None]
    assert uses.write(database) == 1
    (used,) = last_use(database)
    assert used is not None and before <= used <= datetime.now(UTC)
    assert uses.write(database) == 0  # nothing was used meanwhile
    event.remove(engine, "before_cursor_execute", note)


def test_of_two_processes_the_later_use_stays(secured: TestClient, make_key: MakeKey) -> None:
    make_key("search", "quotes:read")
    database: Database = secured.app.state.database  # type: ignore[attr-defined]
    with database.read() as connection:
        (key,) = keys.list_keys(connection)
    one, other = KeyUses(), KeyUses()
    one.note(key.id, NOW + timedelta(minutes=5))
    other.note(key.id, NOW)
    one.write(database)
    other.write(database)
    assert last_use(database) == [NOW + timedelta(minutes=5)]


def test_uses_that_could_not_be_written_are_written_later(secured: TestClient, make_key: MakeKey) -> None:
    make_key("search", "quotes:read")
    database: Database = secured.app.state.database  # type: ignore[attr-defined]
    with database.read() as connection:
        (key,) = keys.list_keys(connection)
    uses = KeyUses()
    uses.note(key.id, NOW)

    class Away(Database):
        def __init__(self) -> None:
            self.sqlite = False

        def write(self) -> Any:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        uses.write(Away())
    uses.write(database)
    assert last_use(database) == [NOW]


def test_what_was_used_is_written_when_the_service_stops(database_url: Any) -> None:
    from service.app import create_app
    from tests.conftest import settings_for

    app = create_app(settings_for(database_url, auth="required"))
    with TestClient(app) as client:
        with app.state.database.write() as work:
            key = keys.create_key(work.connection, "search", ["quotes:write"], datetime.now(UTC))
            work.commit()
        assert client.post("/v1/quotes", json=examples.SPEC, headers={"Authorization": f"Bearer {key}"}).status_code == 201
    with TestClient(create_app(settings_for(database_url))) as client:
        assert last_use(client.app.state.database)[0] is not None  # type: ignore[attr-defined]
