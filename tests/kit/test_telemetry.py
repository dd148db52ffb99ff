"""Metrics count by route, not by id; log lines carry the request id."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.kit.telemetry import JsonLines, Metrics, Telemetry
from service.quotes import examples


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
