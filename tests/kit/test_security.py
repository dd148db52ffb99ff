"""Who may do what: 401 without a valid key, 403 beyond its scopes, 404 for what another team owns."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import URL, select
from starlette.testclient import TestClient

from service.app import create_app
from service.keys import repository as keys
from service.kit import security
from service.kit.database import Database
from service.kit.usage import UsageError
from service.quotes import examples
from tests.conftest import settings_for

NOBODY = "01a22821-40ab-78a5-b807-d1c163bdb43b"
MakeKey = Callable[..., dict[str, str]]

MEASURED = {"measurements": [{"code": "device_hours.run", "value": 1}]}
# method, path, body, and the scopes of which one is needed
GUARDED = [
    ("POST", "/v1/quotes", examples.SPEC, {"quotes:write"}),
    ("POST", "/v1/quotes/preview", examples.SPEC, {"quotes:write", "quotes:read"}),
    ("POST", "/v1/quotes/batch", {"specs": [examples.SPEC]}, {"quotes:write"}),
    ("GET", "/v1/quotes", None, {"quotes:read"}),
    ("GET", f"/v1/quotes/{NOBODY}", None, {"quotes:read"}),
    ("POST", f"/v1/quotes/{NOBODY}/revisions", {"spec": {}}, {"quotes:write"}),
    ("GET", f"/v1/quotes/{NOBODY}/evidence", None, {"quotes:read"}),
    ("GET", f"/v1/quotes/{NOBODY}/comparison", None, {"quotes:read"}),
    ("GET", f"/v1/quotes/{NOBODY}/actuals", None, {"quotes:read"}),
    ("POST", f"/v1/quotes/{NOBODY}/actuals", MEASURED, {"actuals:write"}),
    ("POST", "/v1/actuals", {**MEASURED, "external_ref": {"system": "slurm", "id": "c/1"}}, {"actuals:write"}),
    ("GET", "/v1/accuracy", None, {"accuracy:read"}),
    ("GET", "/v1/calibrations", None, {"accuracy:read"}),
    ("POST", "/v1/calibrations", {}, {"calibrations:write"}),
    ("POST", "/v1/backtests", {}, {"accuracy:read"}),
    ("POST", "/v1/plans", {"spec": examples.SPEC, "free": {"nothing": [1]}}, {"plans:run"}),
    ("POST", "/v1/projects", {"name": ""}, {"quotes:write"}),
    ("GET", "/v1/projects", None, {"quotes:read"}),
    ("POST", f"/v1/projects/{NOBODY}/entries", {"stage": "training", "device_hours": 1}, {"quotes:write", "actuals:write"}),
    ("GET", f"/v1/projects/{NOBODY}/ledger", None, {"quotes:read"}),
    ("POST", "/v1/scaling/compute-optimal", {"training_flops": 1e20}, {"quotes:read", "quotes:write"}),
    ("POST", "/v1/scaling/speedup", {"stage_seconds": {"a": 1}, "speedups": {}}, {"quotes:read", "quotes:write"}),
    ("GET", "/v1/devices", None, set(security.SCOPES)),
    ("GET", "/v1/models", None, set(security.SCOPES)),
    ("GET", "/v1/models/gpt2-xl", None, set(security.SCOPES)),
    ("GET", "/v1/published-mfu", None, set(security.SCOPES)),
    ("POST", "/v1/keys", {"scopes": ["quotes:read"]}, {"admin"}),
    ("GET", "/v1/keys", None, {"admin"}),
    ("POST", f"/v1/keys/{NOBODY}/rotate", {}, {"admin"}),
    ("POST", f"/v1/keys/{NOBODY}/revoke", None, {"admin"}),
    ("GET", "/v1/audit", None, {"admin"}),
    ("GET", "/v1/export", None, {"admin"}),
]


@pytest.mark.parametrize(("method", "path", "body", "scopes"), GUARDED, ids=lambda value: value if isinstance(value, str) else "")
def test_every_endpoint_asks_for_a_key_and_its_scope(
    secured: TestClient, make_key: MakeKey, method: str, path: str, body: object, scopes: set[str]
) -> None:
    missing = secured.request(method, path, json=body)
    assert missing.status_code == 401
    assert missing.headers["www-authenticate"].startswith("Bearer")
    for scope in security.SCOPES:
        status = secured.request(method, path, json=body, headers=make_key("search", scope)).status_code
        if scope in scopes or scope == "admin":
            assert status in (200, 201, 404, 422), scope  # 422: a body that is refused once the key is not
        else:
            assert status == 403, scope


def test_no_endpoint_is_forgotten(secured: TestClient) -> None:
    documented = {
        (method.upper(), re.sub(r"{\w+}", "*", path))
        for path, methods in secured.get("/openapi.json").json()["paths"].items()
        for method in methods
        if path.startswith("/v1/")
    }
    assert {(method, path.replace(NOBODY, "*").replace("gpt2-xl", "*")) for method, path, *_ in GUARDED} == documented


def test_whoever_has_no_key_is_told_nothing_of_what_an_endpoint_takes(secured: TestClient) -> None:
    """Authentication comes before validation, of the query, the headers and the body alike; of every endpoint that is described."""
    wrong: list[dict[str, Any]] = [
        {"params": {"no_such_parameter": "1"}},
        {"params": {"limit": "many", "cursor": "?", "window": "?", "created_after": "?"}},
        {"params": [("limit", "1"), ("limit", "2"), ("a\0", "b\0")]},
        {"headers": {"Idempotency-Key": "a b"}},
        {"content": b"{", "headers": {"Content-Type": "text/plain"}},
        {"content": b"{", "headers": {"Content-Type": "application/json"}},
        {"params": {"no_such_parameter": "1"}, "headers": {"Authorization": "Bearer rq_0123456789abcdef_wrong"}},
    ]
    asked = 0
    for path, methods in secured.get("/openapi.json").json()["paths"].items():
        for method in methods if path.startswith("/v1/") else ():
            for request in wrong:
                answer = secured.request(method, re.sub(r"{\w+}", "no such id", path), **request)
                assert answer.status_code == 401, (method, path, request, answer.text)
                asked += 1
    assert asked > 100


def test_no_body_is_read_of_nobody(secured: TestClient, make_key: MakeKey) -> None:
    """A key is asked for first: what is sent without one is not taken into memory, nor judged."""
    headers = {"Content-Type": "text/plain"}
    assert secured.post("/v1/quotes", content=b"x", headers=headers).status_code == 401
    assert secured.post("/v1/quotes", content=b"x", headers=headers | make_key("search", "quotes:write")).status_code == 415


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/docs", "/openapi.json"])
def test_operations_need_no_key(secured: TestClient, path: str) -> None:
    assert secured.get(path).status_code == 200


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic dXNlcjpwYXNz",
        "Bearer rq_0123456789abcdef_wrong",
        "Bearer \xff",
        "Bearer rq_" + "a" * 5000,
        "Bearer rq_0123456789abcdef_\x7f",
    ],
)
def test_what_is_not_a_key_is_401(secured: TestClient, header: str) -> None:
    assert secured.get("/v1/quotes", headers={"Authorization": header.encode("latin-1")}).status_code == 401


def test_a_key_with_another_secret_or_cut_short_is_401(secured: TestClient, make_key: MakeKey) -> None:
    good = make_key("search", "quotes:read")["Authorization"]
    assert secured.get("/v1/quotes", headers={"Authorization": good}).status_code == 200
    assert secured.get("/v1/quotes", headers={"Authorization": good.replace("Bearer", "bearer")}).status_code == 200
    for bad in (good[:-1], good + "x", good[:-1] + ("x" if good[-1] != "x" else "y")):
        assert secured.get("/v1/quotes", headers={"Authorization": bad}).status_code == 401


def test_a_revoked_key_stops_at_once(secured: TestClient, make_key: MakeKey) -> None:
    headers = make_key("search", "quotes:read")
    database: Database = secured.app.state.database  # type: ignore[attr-defined]
    with database.write() as work:
        named = keys.named(work.connection, headers["Authorization"].split()[1])
        assert named is not None and keys.revoke(work.connection, named, datetime.now(UTC), by=keys.AT_COMMAND_LINE)
        work.commit()
    assert secured.get("/v1/quotes", headers=headers).status_code == 401


def test_who_sends_no_key_learns_nothing_of_parameters(secured: TestClient, make_key: MakeKey) -> None:
    for method, path, body, _ in GUARDED:
        assert secured.request(method, path + "?nonsense=1", json=body).status_code == 401, path
    assert secured.get("/v1/quotes?nonsense=1", headers=make_key("search", "quotes:read")).status_code == 422


def test_another_teams_quote_is_404_and_in_no_list(secured: TestClient, make_key: MakeKey) -> None:
    search, vision = make_key("search", "quotes:read", "quotes:write"), make_key("vision", "quotes:read", "quotes:write")
    made = secured.post("/v1/quotes", json=examples.SPEC, headers=search).json()
    path = f"/v1/quotes/{made['id']}"
    assert secured.get(path, headers=search).status_code == 200
    assert secured.get(path, headers=vision).status_code == 404
    assert secured.post(path + "/revisions", json={"spec": {}}, headers=vision).status_code == 404
    assert secured.get("/v1/quotes", headers=vision).json()["items"] == []
    assert len(secured.get("/v1/quotes", headers=search).json()["items"]) == 1


def test_two_keys_of_one_team_see_the_same(secured: TestClient, make_key: MakeKey) -> None:
    made = secured.post("/v1/quotes", json=examples.SPEC, headers=make_key("search", "quotes:write")).json()
    assert secured.get(f"/v1/quotes/{made['id']}", headers=make_key("search", "quotes:read")).status_code == 200


def test_only_the_hash_is_stored(secured: TestClient, make_key: MakeKey) -> None:
    key = make_key("search", "admin")["Authorization"].split()[1]
    database: Database = secured.app.state.database  # type: ignore[attr-defined]
    with database.read() as connection:
        row = connection.execute(select(security.api_keys)).one()
    assert key not in str(row) and key.split("_", 2)[2] not in str(row)
    assert len(row.hash) == 64


def test_without_authentication_a_key_is_not_looked_at(client: TestClient) -> None:
    assert client.get("/v1/quotes", headers={"Authorization": "Bearer nonsense"}).status_code == 200


def test_what_was_made_without_a_key_belongs_to_the_default_team(client: TestClient, database_url: URL) -> None:
    made = client.post("/v1/quotes", json=examples.SPEC).json()
    with TestClient(create_app(settings_for(database_url, auth="required"))) as secured:
        database: Database = secured.app.state.database  # type: ignore[attr-defined]
        with database.write() as work:
            key = keys.create_key(work.connection, "default", ["quotes:read"], datetime.now(UTC))
            work.commit()
        assert secured.get(f"/v1/quotes/{made['id']}", headers={"Authorization": f"Bearer {key}"}).status_code == 200


@pytest.mark.parametrize("name", ["", " x", "a" * 101, "a\nb", "ü"])
def test_team_names_are_plain(database: Database, name: str) -> None:
    with database.write() as work, pytest.raises(UsageError, match="team"):
        keys.create_key(work.connection, name, ["admin"], datetime.now(UTC))


def test_scopes_are_a_closed_list(database: Database) -> None:
    with database.write() as work, pytest.raises(UsageError, match="scopes"):
        keys.create_key(work.connection, "search", ["quotes:delete"], datetime.now(UTC))


@pytest.mark.parametrize(
    ("url", "host", "auth", "required"),
    [
        ("sqlite:///x.db", "127.0.0.1", None, False),
        ("sqlite:///x.db", "localhost", None, False),
        ("sqlite:///x.db", "::1", None, False),
        ("sqlite:///x.db", "0.0.0.0", None, True),
        ("sqlite:///x.db", "::", None, True),
        ("sqlite:///x.db", "example.test", None, True),
        ("postgresql://h/d", "127.0.0.1", None, True),
        ("postgres://h/d", "127.0.0.1", None, True),
        ("postgresql://h/d", "0.0.0.0", "off", False),
        ("sqlite:///x.db", "127.0.0.1", "required", True),
    ],
)
def test_when_a_key_is_asked_for(url: str, host: str, auth: str | None, required: bool) -> None:
    from sqlalchemy import make_url

    assert settings_for(make_url(url), host=host, auth=auth).auth_required is required
