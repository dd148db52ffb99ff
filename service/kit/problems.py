"""Problems: everything that can go wrong in a request, as RFC 9457 `application/problem+json`.

    Problem                     base; carries status, type and title
    ├── MalformedBody           400  the body is not JSON
    ├── Unauthenticated         401  no valid key
    ├── Forbidden               403  the key lacks a scope
    ├── NotFound                404  no such thing, or another team's
    ├── NotAcceptable           406  no such representation
    ├── Conflict                409  the state of the resource forbids it
    ├── StillRunning            409  the first request with this idempotency key has not ended
    ├── Busy                    409  others do the same thing at this moment; `Retry-After` says when to try again
    ├── TooLarge                413  the body is too large
    ├── UnsupportedMediaType    415  the body is not declared as JSON
    ├── Invalid                 422  a value is bad; `errors` says where
    ├── KeyReused               422  the idempotency key was used with other JSON
    ├── TooSlow                 408  the body did not come in time
    ├── TooManyRequests         429  the key or the team asks too often; `Retry-After` says when to try again
    └── Unavailable             503  the database does not answer; `Retry-After` says when to try again

Anything else is a fault of the service: 500, with a request id to find it in the log. No problem repeats the caller's input.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 2
LONGEST_PATH = 200


@dataclass(frozen=True, slots=True)
class Fault:
    """One bad value: a JSON Pointer into the body (or the name of a query parameter) and what is wrong there."""

    pointer: str
    detail: str
    parameter: str | None = None

    def as_json(self) -> dict[str, str]:
        """The entry of `errors`."""
        entry = {"pointer": self.pointer, "detail": self.detail}
        return entry if self.parameter is None else {**entry, "parameter": self.parameter}


class Problem(Exception):
    """Base of everything that is answered as a problem."""

    status = 500
    slug = "internal-error"
    title = "The service failed"

    def __init__(self, detail: str | None = None, *, errors: Iterable[Fault] = (), headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail or self.title)
        self.detail = detail or self.title
        self.errors = tuple(errors)
        self.headers = dict(headers or {})

    def as_json(self, instance: str | None = None, request_id: str | None = None) -> dict[str, Any]:
        """The body."""
        return _body(self.slug, self.title, self.status, self.detail, self.errors, instance, request_id)


class MalformedBody(Problem):
    """The body is not JSON."""

    status, slug, title = 400, "malformed-body", "The body is not valid JSON"


class Unauthenticated(Problem):
    """No valid key."""

    status, slug, title = 401, "unauthenticated", "A valid API key is needed"


class Forbidden(Problem):
    """The key lacks a scope."""

    status, slug, title = 403, "forbidden", "The API key does not allow this"


class NotFound(Problem):
    """No such thing, or another team's."""

    status, slug, title = 404, "not-found", "There is no such resource"


class NotAcceptable(Problem):
    """No such representation."""

    status, slug, title = 406, "not-acceptable", "The resource has no such representation"


class Conflict(Problem):
    """The state of the resource forbids it."""

    status, slug, title = 409, "conflict", "The request conflicts with what is stored"


class StillRunning(Problem):
    """The first request with this idempotency key has not ended."""

    status, slug, title = 409, "still-running", "The first request with this idempotency key is still running"


class Busy(Problem):
    """Others are changing the same thing at this moment; the same request may go through in a moment."""

    status, slug, title = 409, "busy", "Others are changing the same thing"


class TooLarge(Problem):
    """The body is too large."""

    status, slug, title = 413, "too-large", "The body is too large"


class UnsupportedMediaType(Problem):
    """The body is not declared as JSON."""

    status, slug, title = 415, "unsupported-media-type", "The body must be JSON"


class Invalid(Problem):
    """A value is bad."""

    status, slug, title = 422, "invalid", "The request is well-formed but a value in it is not allowed"


class KeyReused(Problem):
    """The idempotency key was used with other JSON."""

    status, slug, title = 422, "idempotency-key-reused", "The idempotency key was used with another body"


class TooSlow(Problem):
    """The body did not come in time."""

    status, slug, title = 408, "too-slow", "The body did not come in time"


class TooManyRequests(Problem):
    """The key or the team asks too often."""

    status, slug, title = 429, "too-many-requests", "This key or team asks too often"


class Unavailable(Problem):
    """The database does not answer."""

    status, slug, title = 503, "unavailable", "The service cannot answer now"


def problem_types() -> list[type[Problem]]:
    """Every kind of problem, in the order of the tree above."""
    return [*Problem.__subclasses__()]


def invalid(pointer: str, detail: str) -> Invalid:
    """One bad value in the body."""
    return Invalid(detail, errors=[Fault(pointer, detail)])


def invalid_parameter(name: str, detail: str) -> Invalid:
    """One bad query parameter or header."""
    return Invalid(f"{name}: {detail}", errors=[Fault("", detail, name)])


def install(app: FastAPI) -> None:
    """Answer exceptions as problems; what is not foreseen here, `telemetry` answers with `failure`."""
    app.add_exception_handler(Problem, _on_problem)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(HTTPException, _on_http)
    for failure in (OperationalError, InterfaceError, PoolTimeout, TimeoutError, DBAPIError):
        app.add_exception_handler(failure, _on_database)


def respond(problem: Problem, request: Request) -> Response:
    """The response to a problem."""
    body = problem.as_json(_instance(request), request.scope.get("request_id"))
    return Response(json.dumps(body), problem.status, problem.headers, MEDIA_TYPE)


def _body(
    slug: str, title: str, status: int, detail: str, errors: Iterable[Fault], instance: str | None, request_id: str | None
) -> dict[str, Any]:
    body: dict[str, Any] = {"type": f"urn:runquote:problem:{slug}", "title": title, "status": status, "detail": detail}
    if instance is not None:
        body["instance"] = instance
    faults = [fault.as_json() for fault in errors]
    if faults:
        body["errors"] = faults
    if request_id is not None:
        body["request_id"] = request_id
    return body


def _instance(request: Request) -> str | None:
    """The path that was asked; none that is longer than those there are, which would only be given back at length."""
    if len(request.url.path) > LONGEST_PATH:
        return None
    return quote(request.url.path, safe="/:@!$&'()*+,;=-._~")


async def _on_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return respond(error, request)


async def _on_validation(request: Request, error: Exception) -> Response:
    """Query parameters and headers (bodies are parsed by `documents`). FastAPI's own answer would echo the input."""
    assert isinstance(error, RequestValidationError)
    faults = [Fault("", entry["msg"], str(entry["loc"][-1])) for entry in error.errors()]
    return respond(Invalid("; ".join(f"{fault.parameter}: {fault.detail}" for fault in faults), errors=faults), request)


async def _on_http(request: Request, error: Exception) -> Response:
    """What the router itself raises: unknown paths and methods."""
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return respond(NotFound("There is nothing at this path"), request)
    slug, title = ("method-not-allowed", "The path does not take this method") if error.status_code == 405 else ("http-error", error.detail)
    body = _body(slug, title, error.status_code, title, (), _instance(request), request.scope.get("request_id"))
    return Response(json.dumps(body), error.status_code, error.headers, MEDIA_TYPE)


_NOT_MIGRATED = ("42P01", "42703")  # PostgreSQL: no such table, no such column


def is_not_migrated(error: DBAPIError) -> bool:
    """Whether PostgreSQL lacks a table or column that the code expects; SQLite says so with an `OperationalError`."""
    return getattr(error.orig, "sqlstate", None) in _NOT_MIGRATED


def _refers_to_nothing(error: BaseException | None) -> bool:
    """Whether a foreign key was violated, as PostgreSQL and SQLite say it."""
    return getattr(error, "sqlstate", None) == "23503" or getattr(error, "sqlite_errorname", None) == "SQLITE_CONSTRAINT_FOREIGNKEY"


async def _on_database(request: Request, error: Exception) -> Response:
    """The database is away, busy or full of locks: try again. Anything else it says (a constraint, a type) is our fault.

    But for what a request refers to and is no longer there: rows go with their team alone (`delete-team`), so it went meanwhile.
    """
    if isinstance(error, IntegrityError) and _refers_to_nothing(error.orig):
        log.warning("refused: what it refers to is gone", exc_info=error, extra={"request_id": request.scope.get("request_id")})
        return respond(Conflict("What this refers to was removed while the request was worked on"), request)
    away = not isinstance(error, DBAPIError) or isinstance(error, OperationalError | InterfaceError) or error.connection_invalidated
    if not away and not (isinstance(error, DBAPIError) and is_not_migrated(error)):
        log.error("request failed", exc_info=error, extra={"request_id": request.scope.get("request_id")})
        return failure(request)
    log.warning("database unavailable: %s", type(error).__name__, exc_info=error, extra={"request_id": request.scope.get("request_id")})
    return respond(Unavailable("The database does not answer; try again", headers={"Retry-After": str(RETRY_SECONDS)}), request)


def failure(request: Request) -> Response:
    """500: a fault of the service."""
    return respond(Problem("The service failed; the request id finds it in the log"), request)
