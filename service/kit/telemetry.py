"""Telemetry: a request id for every request, metrics for Prometheus, one line of log a request. Pure ASGI.

Every line that is logged while a request is worked on, in whatever thread, says which one it was and who asked: the request id, the
caller's `traceparent`, the filled path, the team and the id of its key. No line holds a key, a body or what a statement was given.

Starlette's `BaseHTTPMiddleware` costs more than a whole quote and breaks context variables, so it is not used.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
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
        served = _served.set(scope)
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
            log.error("request failed: %s", type(error).__name__, extra=_named(scope))
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
                    extra={**_named(scope), "status": status, "milliseconds": round(seconds * 1000, 2)},
                )
            _served.reset(served)


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


_served: ContextVar[Scope | None] = ContextVar("served", default=None)  # threads that work for a request have it too
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")  # https://www.w3.org/TR/trace-context/
_LONGEST_PATH = 300


def _named(scope: Scope) -> dict[str, Any]:
    """Which request, and who asked, in the words of a log line; what is not known is left out."""
    names = {"request_id": scope.get("request_id"), "path": scope["path"][:_LONGEST_PATH]}
    for name, value in scope["headers"]:
        if name == b"traceparent" and _TRACEPARENT.fullmatch(text := value.decode("latin-1")):
            names["traceparent"] = text
    caller = scope.get("caller")
    if caller is not None:
        names |= {"team": caller.team, "key_id": caller.key_id}
    return {name: value for name, value in names.items() if value is not None}


_SECRETS = (
    (re.compile(r"rq_[0-9a-f]{16}_[^\s'\"]+"), "rq_..."),  # a key
    (re.compile(r"^DETAIL:.*$", re.MULTILINE), "DETAIL: left out"),  # PostgreSQL repeats the values of the row that it refused
    (re.compile(r"input_value=.*?, input_type", re.DOTALL), "input_value=..., input_type"),  # pydantic repeats the input
)


def _without_secrets(text: str) -> str:
    for secret, instead in _SECRETS:
        text = secret.sub(instead, text)
    return text


class JsonLines(logging.Formatter):
    """A log line as one JSON object, for machines; on a terminal the plain formatter is used instead."""

    _EXTRA = ("request_id", "traceparent", "path", "team", "key_id", "status", "milliseconds")

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _without_secrets(record.getMessage()),
        }
        scope = _served.get()
        if scope is not None:
            line.update(_named(scope))
        line.update({name: getattr(record, name) for name in self._EXTRA if hasattr(record, name)})
        if record.exc_info:
            line["exception"] = _without_secrets(self.formatException(record.exc_info))
        return json.dumps(line)


class _PlainLines(logging.Formatter):
    """For a person at a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the traceback below it."""
        return _without_secrets(super().format(record))


def set_up_logging(level: str) -> None:
    """Log to stderr: JSON lines, or plain text where a person watches. Every process does so for itself.

    What nobody catches is one record too: the interpreter would print it line by line, past every formatter.
    """
    handler = logging.StreamHandler(sys.stderr)
    plain = _PlainLines("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")
    handler.setFormatter(plain if sys.stderr.isatty() else JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)
    logging.getLogger("uvicorn.access").handlers.clear()
    logging.getLogger("alembic.runtime.plugins").setLevel(logging.WARNING)
    if not sys.stderr.isatty():
        sys.excepthook = _log_uncaught
        threading.excepthook = lambda told: _log_uncaught(told.exc_type, told.exc_value or told.exc_type(), told.exc_traceback)


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt | SystemExit):
        logging.getLogger("runquote").critical("ended by %s", kind.__name__, exc_info=(kind, error, trace))


_FOLDER_PREFIX = "runquote-metrics-"


@contextmanager
def shared_metrics() -> Iterator[None]:
    """A folder in which worker processes share their metrics until the block ends.

    A service that was killed leaves its folder: whose lock nobody holds any more is removed by the next one.
    """
    for left in Path(tempfile.gettempdir()).glob(_FOLDER_PREFIX + "*"):
        if _nobodys(left):
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX))
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.environ[MULTIPROCESS_FOLDER] = str(folder)
        try:
            yield
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _nobodys(folder: Path) -> bool:
    try:
        with (folder / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # let go of with the file
    except OSError:  # held, another user's, or still being made
        return False
    return True
