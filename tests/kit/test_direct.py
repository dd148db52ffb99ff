"""A direct route answers what FastAPI's own resolution of the same endpoint answers, whatever is wrong with the request."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from sqlalchemy import URL
from starlette.testclient import TestClient

from service.app import create_app
from service.keys import repository as keys
from service.kit.direct import DirectRoute
from service.quotes import examples
from tests.conftest import settings_for

PATH = "/v1/quotes/preview"
JSON = {"Content-Type": "application/json"}
REQUESTS: dict[str, dict[str, Any]] = {
    "a quote": {"json": examples.SPEC},
    "an unknown field": {"json": {**examples.SPEC, "sequence_lenght": 1}},
    "no JSON": {"content": b"{", "headers": JSON},
    "another media type": {"content": b"a: 1", "headers": {"Content-Type": "application/yaml"}},
    "a body that is too large": {"content": b" " * 2000 + b"{}", "headers": JSON},
    "an unknown parameter": {"json": examples.SPEC, "params": {"verbose": "1"}},
    "a bad idempotency key": {"json": examples.SPEC, "headers": {"Idempotency-Key": "white space"}},
    "another method": {"method": "PUT", "json": examples.SPEC},
}


def told(client: TestClient, request: dict[str, Any], **headers: str) -> tuple[int, bytes, dict[str, str]]:
    rest = {name: value for name, value in request.items() if name not in ("method", "headers")}
    named = {"X-Request-ID": "same", **request.get("headers", {}), **headers}
    answer = client.request(request.get("method", "POST"), PATH, headers=named, **rest)
    return answer.status_code, answer.content, dict(answer.headers)


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch) -> Callable[[URL, str], FastAPI]:
    """The application with every route resolved by FastAPI."""

    def make(url: URL, auth: str) -> FastAPI:
        monkeypatch.setattr(DirectRoute, "get_route_handler", APIRoute.get_route_handler)
        return create_app(settings_for(url, auth=auth, max_body_bytes=1500))

    return make


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS.keys())
@pytest.mark.parametrize("key", [None, "rq_0000000000000000_unknown", "quotes:read", "accuracy:read"])
def test_it_answers_as_fastapi_would(
    database_url: URL, resolved: Callable[[URL, str], FastAPI], request_: dict[str, Any], key: str | None
) -> None:
    auth = "off" if key is None else "required"
    with TestClient(create_app(settings_for(database_url, auth=auth, max_body_bytes=1500))) as client:
        if key is not None and ":" in key:
            with client.app.state.database.write() as work:  # type: ignore[attr-defined]
                key = keys.create_key(work.connection, "search", [key], datetime.now(UTC))
                work.commit()
        bearer = {} if key is None else {"Authorization": f"Bearer {key}"}
        direct = told(client, request_, **bearer)
    with TestClient(resolved(database_url, auth)) as client:
        assert told(client, request_, **bearer) == direct


def test_an_endpoint_that_asks_for_more_is_refused_when_it_is_declared() -> None:
    router = APIRouter(route_class=DirectRoute)
    with pytest.raises(TypeError):

        @router.post("/other")
        async def other(name: str) -> None: ...
