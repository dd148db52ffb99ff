"""Every error has the shape of RFC 9457, whoever raises it: a room, the router, FastAPI, the database, or a bug."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI
from sqlalchemy import URL
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.testclient import TestClient

from service.app import create_app
from service.kit import problems
from service.quotes import examples
from tests.conftest import settings_for

SECRET = "hunter2-do-not-echo"
JSON = {"content-type": "application/json"}


def check(response: Any, status: int) -> dict[str, Any]:
    """The shape of a problem; the answer is its body."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert body["type"].startswith("urn:runquote:problem:")
    assert body["status"] == status
    assert body["title"] and body["detail"]
    assert body["instance"] == response.request.url.path
    assert body["request_id"] == response.headers["x-request-id"]
    assert SECRET not in response.text
    for entry in body.get("errors", []):
        assert set(entry) <= {"pointer", "detail", "parameter"}
        assert entry["pointer"] == "" or entry["pointer"].startswith("/")
        assert entry["detail"]
    return body


def test_malformed_json_is_400(client: TestClient) -> None:
    check(client.post("/v1/quotes", content=f'{{"name": "{SECRET}"', headers=JSON), 400)


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", "application/xml", ""])
def test_another_media_type_is_415(client: TestClient, media_type: str) -> None:
    check(client.post("/v1/quotes", content=b"{}", headers={"content-type": media_type}), 415)


@pytest.mark.parametrize(
    "media_type", ["application/json", "application/json; charset=utf-8", "Application/JSON", "application/vnd.runquote+json"]
)
def test_json_by_any_of_its_names_is_taken(client: TestClient, media_type: str) -> None:
    check(client.post("/v1/quotes", content=b"{}", headers={"content-type": media_type}), 422)


def test_too_large_is_413_whether_declared_or_found_out(database_url: URL) -> None:
    with TestClient(create_app(settings_for(database_url, max_body_bytes=2000))) as client:
        check(client.post("/v1/quotes", content=b" " * 2001, headers=JSON), 413)
        check(client.post("/v1/quotes", content=iter([b" " * 1500, b" " * 1500]), headers=JSON), 413)
        check(client.post("/v1/quotes", content=b" " * 1999 + b"1", headers=JSON), 422)


def test_bad_values_are_422_with_pointers(client: TestClient) -> None:
    body = check(client.post("/v1/quotes", json={**examples.SPEC, "sequence_length": SECRET, "project": 5}), 422)
    assert {entry["pointer"] for entry in body["errors"]} == {"/sequence_length", "/project"}


def test_an_unknown_field_names_the_nearest_known_one(client: TestClient) -> None:
    body = check(client.post("/v1/quotes", json={**examples.SPEC, "sequence_lenght": 4096}), 422)
    assert body["errors"][0]["pointer"] == "/sequence_lenght"
    assert "sequence_length" in body["errors"][0]["detail"]


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=201", "limit=x", "limit=", "status=done", "created_after=yesterday", "created_after=2026-01-01T00:00:00"]
)
def test_bad_parameters_are_422_and_named(client: TestClient, query: str) -> None:
    body = check(client.get(f"/v1/quotes?{query}"), 422)
    assert body["errors"][0]["parameter"] == query.partition("=")[0]
    assert body["errors"][0]["pointer"] == ""


@pytest.mark.parametrize(
    "query", ["modle=gpt2", "model=a&model=b", "model=%00", "label.x=%00", "created_after=0001-01-01T00:00:00%2B10:00"]
)
def test_parameters_without_effect_are_422(client: TestClient, query: str) -> None:
    check(client.get(f"/v1/quotes?{query}"), 422)


def test_the_nearest_parameter_is_named(client: TestClient) -> None:
    assert "'model'" in check(client.get("/v1/quotes?modle=gpt2"), 422)["detail"]


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/v1/nothing", 404), ("GET", "/", 404), ("DELETE", "/v1/quotes", 405), ("PUT", "/healthz", 405)]
)
def test_unknown_paths_and_methods(client: TestClient, method: str, path: str, status: int) -> None:
    check(client.request(method, path), status)


@pytest.mark.parametrize(
    "quote_id",
    ["x", "01a22821-40ab-78a5-b807-d1c163bdb43b", "%00", "a" * 5000, "01A22821-40AB-78A5-B807-D1C163BDB43B", "'; DROP TABLE quotes"],
)
def test_an_id_that_is_not_there_is_404(client: TestClient, quote_id: str) -> None:
    assert client.get(f"/v1/quotes/{quote_id}").status_code == 404
    assert client.post(f"/v1/quotes/{quote_id}/revisions", json={"spec": {}}).status_code == 404


FAILURES: list[tuple[Exception, int]] = [
    (RuntimeError(SECRET), 500),
    (IntegrityError("INSERT", {"a": SECRET}, Exception(SECRET)), 500),
    (OperationalError("SELECT", {"a": SECRET}, Exception(SECRET)), 503),
    (PoolTimeout(SECRET), 503),
    (TimeoutError(SECRET), 503),
]


@pytest.mark.parametrize(("error", "status"), FAILURES, ids=lambda value: type(value).__name__)
def test_what_fails_inside_is_told_without_its_inside(app: FastAPI, error: Exception, status: int) -> None:
    @app.get("/fail")
    def fail() -> None:
        raise error

    with TestClient(app, raise_server_exceptions=False) as client:
        response = client.get("/fail")
    check(response, status)
    assert ("retry-after" in response.headers) == (status == 503)


def test_a_database_that_is_away_is_503(tmp_path: Any) -> None:
    nowhere = URL.create("postgresql+psycopg", host=str(tmp_path), database="nothing", username="nobody")
    with TestClient(create_app(settings_for(nowhere, database_timeout_seconds=2)), raise_server_exceptions=False) as client:
        for response in (client.get("/v1/quotes"), client.get("/readyz"), client.post("/v1/quotes", json=examples.SPEC)):
            check(response, 503)
            assert response.headers["retry-after"]
        assert client.get("/healthz").status_code == 200


def test_every_problem_type_has_its_own_name_and_stands_in_the_tree() -> None:
    kinds = problems.problem_types()
    assert len({kind.slug for kind in kinds}) == len(kinds)
    for kind in kinds:
        assert f"{kind.__name__:<24}{kind.status}" in (problems.__doc__ or "")


def test_a_request_id_is_given_back_if_it_is_a_plain_token(client: TestClient) -> None:
    assert client.get("/healthz", headers={"X-Request-ID": "job-42.a"}).headers["x-request-id"] == "job-42.a"
    assert client.get("/healthz", headers={"X-Request-ID": "<script>"}).headers["x-request-id"] != "<script>"
