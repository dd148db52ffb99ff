"""The team's quotes as a list: what it is narrowed to, and a page of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, and_, exists

from service.kit import paging

from .repository import Stored, happened, quote_labels, quotes, selected, stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What a list is narrowed to; everything given must hold."""

    model: str | None = None
    device: str | None = None
    method: str | None = None
    status: str | None = None
    project: str | None = None
    external_ref: tuple[str, str] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    created_after: datetime | None = None
    created_before: datetime | None = None


MOST_BYTES = 16 * 1024 * 1024  # of a page: a quote with a million sample lengths has eight of them


def page(
    connection: Connection, team_id: str, wanted: Filter, position: paging.Position | None, limit: int
) -> tuple[list[Stored], str | None]:
    """Quotes of the team, newest first, and the cursor of the next page: at most `limit`, and fewer (but one) where they are long."""
    query = selected().where(quotes.c.team_id == team_id)
    for name in ("model", "device", "method", "project"):
        value = getattr(wanted, name)
        if value is not None:
            query = query.where(quotes.c[name] == value)
    if wanted.external_ref is not None:
        query = query.where(quotes.c.external_system == wanted.external_ref[0], quotes.c.external_id == wanted.external_ref[1])
    for key, value in wanted.labels.items():
        query = query.where(
            exists().where(quote_labels.c.quote_id == quotes.c.id, quote_labels.c.key == key, quote_labels.c.value == value)
        )
    if wanted.created_after is not None:
        query = query.where(quotes.c.created_at > wanted.created_after)
    if wanted.created_before is not None:
        query = query.where(quotes.c.created_at < wanted.created_before)
    if wanted.status is not None:
        query = query.where(_status_is(wanted.status))
    found: list[Stored] = []
    length = 0
    # Row by row: a quote is unpacked when it is reached, so what does not go on the page is not.
    with connection.execute(paging.after(query, quotes.c.created_at, quotes.c.id, position, limit)) as rows:
        for row in rows:
            if len(found) == limit or (found and length + len(row.document) > MOST_BYTES):
                return found, paging.encode(paging.Position(found[-1].created_at, found[-1].id))
            found.append(stored(row))
            length += len(found[-1].document)
    return found, None


def _status_is(status: str) -> ColumnElement[bool]:
    if status == "superseded":
        return happened("superseded")
    if status == "measured":
        return and_(happened("measured"), ~happened("superseded"))
    return and_(~happened("measured"), ~happened("superseded"))
