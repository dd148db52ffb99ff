"""Paging: newest first, by keyset. A cursor is opaque and says after which row the next page begins."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Query, Request
from sqlalchemy import ColumnElement, Select, and_, or_

from .identifiers import is_identifier
from .problems import invalid_parameter

MAXIMUM_LIMIT = 200
MOST_LABELS = 20  # that a list is narrowed to or grouped by: each is a look into another table for every row

Limit = Annotated[int, Query(ge=1, le=MAXIMUM_LIMIT, description="How many items a page has at most.")]
SomeLimit = Annotated[int | None, Query(ge=1, le=MAXIMUM_LIMIT, description="How many items a page has at most; left out: all of them.")]
Cursor = Annotated[
    str | None, Query(max_length=500, description="Where the page begins: `next_cursor` of the page before. Opaque: do not build one.")
]


@dataclass(frozen=True, slots=True)
class Position:
    """The last row of a page."""

    created_at: datetime
    id: str


def encode(position: Position) -> str:
    """A position as an opaque cursor."""
    text = json.dumps([position.created_at.astimezone(UTC).isoformat(), position.id])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode(cursor: str | None) -> Position | None:
    """The position in a cursor; a bad one is 422."""
    if cursor is None:
        return None
    try:
        text = base64.b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
        moment, row_id = json.loads(text)
        created_at = datetime.fromisoformat(moment)
        if created_at.tzinfo is None or not is_identifier(row_id):
            raise ValueError
        return Position(created_at.astimezone(UTC), row_id)
    except (ValueError, TypeError, OverflowError, RecursionError, binascii.Error):
        raise invalid_parameter("cursor", "not a cursor of this list") from None


def part(items: Sequence[Any], names: Sequence[str], cursor: str | None, limit: int | None) -> tuple[Sequence[Any], str | None]:
    """A page of a fixed list (all of it without a limit), and the cursor of the next one: it holds the name of the last item."""
    start = 0
    if cursor is not None:
        try:
            text = base64.b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
            start = names.index(text) + 1
        except (ValueError, binascii.Error):
            raise invalid_parameter("cursor", "not a cursor of this list") from None
    end = len(items) if limit is None else min(start + limit, len(items))
    following = None if end == len(items) else base64.urlsafe_b64encode(names[end - 1].encode()).decode().rstrip("=")
    return items[start:end], following


def after(
    query: Select[Any], created_at: ColumnElement[datetime], row_id: ColumnElement[str], position: Position | None, limit: int
) -> Select[Any]:
    """The query's page: newest first, after the position, with one row more that says whether another page follows."""
    if position is not None:
        query = query.where(or_(created_at < position.created_at, and_(created_at == position.created_at, row_id < position.id)))
    return query.order_by(created_at.desc(), row_id.desc()).limit(limit + 1)


def next_cursor(rows: Sequence[Any], limit: int) -> str | None:
    """The cursor of the page after `rows` (as `after` asked for them: they carry created_at and id)."""
    if len(rows) <= limit:
        return None
    last = rows[limit - 1]
    return encode(Position(last.created_at, last.id))


def link(request: Request, cursor: str | None) -> dict[str, str]:
    """The `Link` header of a page; the reference is relative, so it holds behind any proxy."""
    if cursor is None:
        return {}
    parameters = [(name, value) for name, value in request.query_params.multi_items() if name != "cursor"]
    return {"Link": f'<{request.url.path}?{urlencode([*parameters, ("cursor", cursor)])}>; rel="next"'}
