"""Who did what, and when: one row an act, written in the transaction of the act and never changed.

An act that is repeated (the same idempotency key, the same values again) is done once and stands here once. Reads are in the log alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from sqlalchemy import Column, Connection, Index, String, Table, select

from . import paging
from .database import UtcDateTime, id_column, insert_plain, metadata, team_column
from .identifiers import uuid7

Action = Literal[
    "quote.created",
    "quote.revised",
    "actuals.recorded",
    "calibration.created",
    "project.created",
    "entry.created",
    "key.created",
    "key.rotated",
    "key.revoked",
    "learning.shared",
    "learning.unshared",
]
ACTIONS: tuple[str, ...] = get_args(Action)

# How it was asked: with a key, of a service that asks for none, at the command line.
Via = Literal["key", "open", "command_line"]

audit_events = Table(
    "audit_events",
    metadata,
    id_column(),
    team_column(),
    Column("created_at", UtcDateTime, nullable=False),
    Column("via", String(20), nullable=False),
    Column("key_id", String(36)),  # whose key; null where none was asked for
    Column("action", String(40), nullable=False),
    Column("subject", String(100), nullable=False),  # what was made or changed: an id, of a calibration its version
    Index("ix_audit_events_team_id_created_at", "team_id", "created_at", "id"),
    Index("ix_audit_events_team_id_subject", "team_id", "subject"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An act that is about to be written down."""

    team_id: str
    key_id: str | None
    action: Action
    subject: str
    created_at: datetime
    at_command_line: bool = False

    @property
    def via(self) -> Via:
        """How it was asked."""
        if self.at_command_line:
            return "command_line"
        return "open" if self.key_id is None else "key"


def record(connection: Connection, events: Iterable[Event]) -> None:
    """Write acts down, in the transaction that does them."""
    rows = [
        {
            "id": uuid7(),
            "team_id": event.team_id,
            "created_at": event.created_at,
            "via": event.via,
            "key_id": event.key_id,
            "action": event.action,
            "subject": event.subject,
        }
        for event in events
    ]
    if rows:
        insert_plain(connection, audit_events, rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which acts are asked for; None: whichever."""

    action: str | None = None
    key_id: str | None = None
    subject: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """An act as it was written down."""

    id: str
    created_at: datetime
    via: str
    key_id: str | None
    action: str
    subject: str


def page(
    connection: Connection, team_id: str, wanted: Filter, position: paging.Position | None, limit: int
) -> tuple[list[Kept], str | None]:
    """Acts of the team, newest first, and the cursor of the next page."""
    table = audit_events.c
    query = select(table.id, table.created_at, table.via, table.key_id, table.action, table.subject).where(table.team_id == team_id)
    for name in ("action", "key_id", "subject"):
        value = getattr(wanted, name)
        if value is not None:
            query = query.where(table[name] == value)
    if wanted.created_after is not None:
        query = query.where(table.created_at > wanted.created_after)
    if wanted.created_before is not None:
        query = query.where(table.created_at < wanted.created_before)
    rows = connection.execute(paging.after(query, table.created_at, table.id, position, limit)).all()
    return [Kept(**row._asdict()) for row in rows[:limit]], paging.next_cursor(rows, limit)
