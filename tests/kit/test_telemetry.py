"""Metrics count by route, not by id; log lines carry the request id."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.keys import repository as keys
from service.kit import security
from service.kit.database import Database
from service.kit.telemetry import MULTIPROCESS_FOLDER, JsonLines, Metrics, Telemetry, shared_metrics
from service.quotes import examples
from service.settings import Settings


def value(client: TestClient, line: str) -> float:
    found = re.search(rf"^{re.escape(line)} (\S+)$", client.get("/metrics").text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def test_requests_are_counted_by_route_and_status(client: TestClient) -> None:
    made = client.post("/v1/quotes", json=examples.SPEC).json()
    client.get(f"/v1/quotes/{made['id']}")
    client.get("/v1/quotes/nothing")
    client.get("/nowhere/at/all")
    client.request("BREW", "/healthz")
    assert value(client, 'runquote_requests_total{method="POST",route="/v1/quotes",status="201"}') == 1
    assert value(client, 'runquote_requests_total{method="GET",route="/v1/quotes/{quote_id}",status="200"}') == 1
    assert value(client, 'runquote_requests_total{method="GET",route="/v1/quotes/{quote_id}",status="404"}') == 1
    assert value(client, 'runquote_requests_total{method="GET",route="unmatched",status="404"}') == 1
    assert 'method="OTHER"' in client.get("/metrics").text
    assert value(client, 'runquote_quotes_total{kind="single"}') == 1
    assert made["id"] not in client.get("/metrics").text


def test_a_log_line_is_one_json_object(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "runquote.access"):
        client.get("/healthz")
        client.get("/v1/quotes", headers={"X-Request-ID": "abc"})
    line = json.loads(JsonLines().format(next(record for record in caplog.records if record.name == "runquote.access")))
    assert line["request_id"] == "abc"
    assert line["status"] == 200
    assert line["message"] == "GET /v1/quotes 200"
    assert line["time"].endswith("Z")


def logged(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(JsonLines().format(record)) for record in caplog.records]


def test_a_line_says_who_asked_for_what_and_within_which_trace(
    secured: TestClient, make_key: Any, caplog: pytest.LogCaptureFixture
) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    headers = make_key("search", "quotes:read")
    with caplog.at_level(logging.INFO, "runquote.access"):
        secured.get("/v1/quotes/abc", headers=headers | {"traceparent": trace})
        secured.get("/v1/quotes/abc", headers=headers | {"traceparent": "a\nb"})
    first, second = (line for line in logged(caplog) if line["logger"] == "runquote.access")
    with secured.app.state.database.read() as connection:  # type: ignore[attr-defined]
        (key,) = keys.list_keys(connection)
    assert (first["team"], first["key_id"], first["path"], first["traceparent"]) == ("search", key.id, "/v1/quotes/abc", trace)
    assert "traceparent" not in second
    assert headers["Authorization"].split()[1] not in caplog.text


def test_what_is_logged_in_a_request_s_thread_names_the_request(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[dict[str, Any]] = []

    def told(*_: Any, **__: Any) -> Any:
        record = logging.makeLogRecord({"msg": "deep inside"})
        lines.append(json.loads(JsonLines().format(record)))
        return []

    monkeypatch.setattr(Database, "read", told)
    with pytest.raises(TypeError):
        client.get("/v1/quotes", headers={"X-Request-ID": "abc"})
    assert lines[0]["request_id"] == "abc" and lines[0]["path"] == "/v1/quotes"


def test_errors_hold_neither_parameters_nor_keys_nor_bodies(client: TestClient, database: Database) -> None:
    """One record each: what the database refused, what pydantic refused, and a message with a key in it."""
    secret, key = "hunter2", "rq_0123456789abcdef_" + "s" * 43
    lines = []
    for fail in (
        lambda: _write(database, security.teams.insert().values([{"id": i, "name": secret, "created_at": NOW} for i in "ab"])),
        lambda: Settings(port=secret),  # type: ignore[arg-type]
        lambda: (_ for _ in ()).throw(ValueError(key)).__next__(),
    ):
        with pytest.raises(Exception) as caught:
            fail()
        record = logging.LogRecord("x", logging.ERROR, "", 0, "failed with %s", (key,), (caught.type, caught.value, caught.tb))
        lines.append(JsonLines().format(record))
    for line in lines:
        assert "\n" not in line and json.loads(line)["exception"]
        assert secret not in line and key not in line, line


NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _write(database: Database, statement: Any) -> None:
    with database.write() as work:
        work.connection.execute(statement)


def test_folders_of_metrics_whose_service_was_killed_are_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv(MULTIPROCESS_FOLDER, "")
    left = tmp_path / "runquote-metrics-left"
    left.mkdir()
    (left / "lock").touch()
    with shared_metrics():
        (first,) = tmp_path.iterdir()
        with shared_metrics():
            assert first.exists()  # its owner lives
            assert len(list(tmp_path.iterdir())) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_request_that_the_stop_of_the_server_ends_is_told_so() -> None:
    sent: list[Any] = []

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(60)

    async def send(message: Any) -> None:
        sent.append(message)

    async def stopped() -> None:
        scope = {"type": "http", "method": "POST", "path": "/v1/quotes", "headers": [], "query_string": b""}
        task = asyncio.create_task(Telemetry(slow, Metrics())(scope, send, send))  # type: ignore[arg-type]
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(stopped())
    assert sent[0]["status"] == 503 and (b"retry-after", b"5") in sent[0]["headers"]
    assert json.loads(sent[1]["body"])["type"] == "urn:runquote:problem:unavailable"
