"""Telemetry: a request id for every request, metrics for Prometheus, one line of log a request. Pure ASGI.

Starlette's `BaseHTTPMiddleware` costs more than a whole quote and breaks context variables, so it is not used.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import sys
import time
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from . import problems
from .identifiers import uuid7

log = logging.getLogger("runquote.access")

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
MULTIPROCESS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"


class Metrics:
    """The service's own registry; one application, one registry."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("runquote_requests", "Requests answered.", ("method", "route", "status"), registry=self.registry)
        self.seconds = Histogram(
            "runquote_request_seconds",
            "Seconds from a request's first byte to its answer's last.",
            ("method", "route"),
            registry=self.registry,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
        )
        self.quotes = Counter("runquote_quotes", "Quotes stored.", ("kind",), registry=self.registry)

    def render(self) -> bytes:
        """The text that Prometheus scrapes; of all worker processes where there are several."""
        if MULTIPROCESS_FOLDER in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # the library has no hints here
            return generate_latest(registry)
        return generate_latest(self.registry)


class Telemetry:
    """Outermost middleware: names the request, measures it, and gives the id back in `X-Request-ID`."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope["request_id"] = request_id
        header = (b"x-request-id", request_id.encode())
        status: int | None = None
        started = time.perf_counter()

        async def named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], header]
            await send(message)

        try:
            await self.app(scope, receive, named)
        except Exception as error:
            # The server logs the traceback; this line ties it to the request.
            log.error("request failed: %s", type(error).__name__, extra={"request_id": request_id})
            if status is None:
                await problems.failure(Request(scope))(scope, receive, named)
            raise
        except asyncio.CancelledError:
            # The server stops, and its patience is at an end: without an answer of ours it would say 500 in plain text.
            if status is None:
                stopping = problems.Unavailable(
                    "The service is stopping; whether the request was done is not known: repeat it with the same Idempotency-Key",
                    headers={"Retry-After": "5"},
                )
                await problems.respond(stopping, Request(scope))(scope, receive, named)
            raise
        finally:
            seconds = time.perf_counter() - started
            method = scope["method"] if scope["method"] in _METHODS else "OTHER"
            route = _template(scope)
            self.metrics.requests.labels(method, route, str(status or 500)).inc()
            self.metrics.seconds.labels(method, route).observe(seconds)
            level = logging.DEBUG if route in _ASKED_BY_MACHINES and status == 200 else logging.INFO
            if log.isEnabledFor(level):
                log.log(
                    level,
                    "%s %s %s",
                    method,
                    route,
                    status,
                    extra={"request_id": request_id, "status": status, "milliseconds": round(seconds * 1000, 2)},
                )


_ASKED_BY_MACHINES = {"/healthz", "/readyz", "/metrics"}
_METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}


def _template(scope: Scope) -> str:
    """The route's path with its parameters unfilled (ids would make a series each), below the prefix of its router."""
    template: str | None = getattr(scope.get("route"), "path_format", None)
    if template is None:
        return "unmatched"
    path: str = scope["path"]
    filled = template.format(**scope.get("path_params", {}))
    return path.removesuffix(filled) + template if path.endswith(filled) else template


def _request_id(scope: Scope) -> str:
    """The caller's `X-Request-ID` if it is a plain token, else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            text: str = value.decode("latin-1")
            if _REQUEST_ID.fullmatch(text):
                return text
    return uuid7()


class JsonLines(logging.Formatter):
    """A log line as one JSON object, for machines; on a terminal the plain formatter is used instead."""

    _EXTRA = ("request_id", "status", "milliseconds")

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update({name: getattr(record, name) for name in self._EXTRA if hasattr(record, name)})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def set_up_logging(level: str) -> None:
    """Log to stderr: JSON lines, or plain text where a person watches."""
    handler = logging.StreamHandler(sys.stderr)
    plain = logging.Formatter("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")
    handler.setFormatter(plain if sys.stderr.isatty() else JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("uvicorn.access").handlers.clear()
    logging.getLogger("alembic.runtime.plugins").setLevel(logging.WARNING)
