"""Keys over HTTP, for the admins of a team."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from service.kit import api, documents, paging
from service.kit.documents import JsonBody
from service.kit.identifiers import is_identifier
from service.kit.problems import NotFound, invalid_parameter
from service.kit.security import Caller, allow

from . import repository, schemas
from .repository import By, Key, duration

router = APIRouter(prefix="/keys", tags=["keys"])


@router.post(
    "",
    status_code=201,
    summary="Make a key",
    openapi_extra=api.takes(schemas.KeyRequest, {"scopes": ["quotes:read", "quotes:write"], "expires_in": "90d"}),
    responses=api.gives(201, schemas.NewKey, "The key, shown this once.") | api.problems(*api.BODY),
)
def create_key(request: Request, body: JsonBody, caller: Caller = allow("admin")) -> Response:
    """Make a key for the caller's own team. It is not stored, so this takes no `Idempotency-Key`."""
    _refuse_repetition(request)
    wanted = body.read(schemas.KeyRequest)
    expires_in = None if wanted.expires_in is None else duration(wanted.expires_in)
    with api.database(request).write() as work:
        made, key = repository.create(
            work.connection, caller.team_id, wanted.scopes, datetime.now(UTC), expires_in=expires_in, by=By(key_id=caller.key_id)
        )
        work.commit()
    return Response(documents.dump({**_as_json(key), "key": made}), 201, media_type=documents.JSON)


@router.get(
    "",
    summary="List keys",
    responses=api.gives(200, schemas.KeyPage, "A page, newest first.", headers={"Link": 'The next page, `rel="next"`.'}),
)
def list_keys(request: Request, limit: paging.Limit = 50, cursor: paging.Cursor = None, caller: Caller = allow("admin")) -> Response:
    """The team's keys, those that stopped working too."""
    position = paging.decode(cursor)
    with api.database(request).read() as connection:
        rows, following = repository.page(connection, caller.team_id, position, limit)
    content = {"items": [_as_json(row) for row in rows], "next_cursor": following}
    return Response(documents.dump(content), media_type=documents.JSON, headers=paging.link(request, following))


@router.post(
    "/{key_id}/rotate",
    status_code=201,
    summary="Replace a key",
    openapi_extra=api.takes(schemas.RotationRequest, {"overlap": "24h"}),
    responses=api.gives(201, schemas.NewKey, "The new key, shown this once.") | api.problems(404, 409, *api.BODY),
)
def rotate_key(request: Request, key_id: str, body: JsonBody, caller: Caller = allow("admin")) -> Response:
    """Make a key with the same scopes in the place of another, which works on for the overlap and then stops."""
    _refuse_repetition(request)
    wanted = body.read(schemas.RotationRequest)
    with api.database(request).write() as work:
        made, key = repository.rotate(
            work.connection,
            _find(work.connection, caller, key_id),
            datetime.now(UTC),
            overlap=duration(wanted.overlap),
            expires_in=None if wanted.expires_in is None else duration(wanted.expires_in),
            by=By(key_id=caller.key_id),
        )
        work.commit()
    return Response(documents.dump({**_as_json(key), "key": made}), 201, media_type=documents.JSON)


@router.post(
    "/{key_id}/revoke",
    summary="Revoke a key",
    responses=api.gives(200, schemas.Key, "The key, which works no more.") | api.problems(404),
)
def revoke_key(request: Request, key_id: str, caller: Caller = allow("admin")) -> Response:
    """The key stops working at once; revoked again it stays as it is."""
    with api.database(request).write() as work:
        old = _find(work.connection, caller, key_id)
        repository.revoke(work.connection, old, datetime.now(UTC), by=By(key_id=caller.key_id))
        key = _find(work.connection, caller, key_id)
        work.commit()
    return Response(documents.dump(_as_json(key)), media_type=documents.JSON)


def _refuse_repetition(request: Request) -> None:
    if "idempotency-key" in request.headers:
        raise invalid_parameter("Idempotency-Key", "a key is shown once and not stored, so the answer cannot be given again")


def _find(connection: Connection, caller: Caller, key_id: str) -> Key:
    key = repository.get(connection, caller.team_id, key_id, hold=True) if is_identifier(key_id) else None
    if key is None:
        raise NotFound("There is no such key")
    return key


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else documents.timestamp(moment)


def _as_json(key: Key) -> dict[str, Any]:
    return {
        "id": key.id,
        "prefix": f"rq_{key.lookup}",
        "scopes": list(key.scopes),
        "created_at": documents.timestamp(key.created_at),
        "expires_at": _moment(key.expires_at),
        "last_used_at": _moment(key.last_used_at),
        "replaces": key.replaces_id,
        "revoked_at": _moment(key.revoked_at),
    }
