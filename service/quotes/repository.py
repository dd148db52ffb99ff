"""Quotes in the database. A row of `quotes` never changes after it is written; what happens to a quote later (it is
superseded, it is measured) is a row of its own, from which the status is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ColumnElement,
    Connection,
    Float,
    ForeignKey,
    Index,
    PrimaryKeyConstraint,
    Row,
    Select,
    String,
    Table,
    Text,
    exists,
    select,
    tuple_,
)

from service.kit import audit, documents
from service.kit.database import UtcDateTime, id_column, insert, insert_plain, metadata, team_column
from service.kit.identifiers import is_identifier
from service.kit.packing import Frame, Packed

quotes = Table(
    "quotes",
    metadata,
    id_column(),
    team_column(),
    Column("created_at", UtcDateTime, nullable=False),
    Column("supersedes_id", String(36), ForeignKey("quotes.id")),
    Column("engine_version", String(40), nullable=False),
    Column("calibration_version", String(100)),
    # What lists are filtered by. Whatever else is asked of a quote is in its document.
    Column("name", String(200)),
    Column("project", String(200)),
    Column("model", String(200)),
    Column("model_family", String(100)),
    Column("device", String(100)),
    Column("device_count", BigInteger),
    Column("method", String(20), nullable=False),
    Column("stack", String(40)),
    Column("external_system", String(200)),
    Column("external_id", String(200)),
    Column("received", Packed, nullable=False),  # the spec as it came, JSON: what a revision patches
    Column("pilot", Text),  # what a pilot run measured, JSON: code -> value
    Column("document", Packed, nullable=False),  # the quote as it is answered, JSON, without what the columns above hold
    # What learning asks of the items of thousands of quotes at a time; null where the item is.
    Column("step_basis", String(20)),  # of `time.step`: what the speed rests on
    Column("training_seconds", Float(53)),  # `time.training`
    Column("wall_clock_seconds", Float(53)),  # `time.wall_clock`
    Index("ix_quotes_team_id_created_at", "team_id", "created_at", "id"),
    Index("ix_quotes_team_id_model_created_at", "team_id", "model", "created_at", "id"),
    Index("ix_quotes_team_id_project_created_at", "team_id", "project", "created_at", "id"),
    Index("ix_quotes_team_id_external", "team_id", "external_system", "external_id", "created_at", "id"),
    Index(None, "supersedes_id"),
)

quote_labels = Table(
    "quote_labels",
    metadata,
    Column("quote_id", String(36), ForeignKey("quotes.id", ondelete="CASCADE"), nullable=False),
    Column("key", String(200), nullable=False),
    Column("value", String(200), nullable=False),
    PrimaryKeyConstraint("quote_id", "key"),
    Index(None, "key", "value", "quote_id"),
)

quote_events = Table(
    "quote_events",
    metadata,
    Column("quote_id", String(36), ForeignKey("quotes.id", ondelete="CASCADE"), nullable=False),
    Column("kind", String(20), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("quote_id", "kind"),
    CheckConstraint("kind IN ('superseded', 'measured')", name="kind"),
)

# The order of the contract; `status` alone is not stored.
ENVELOPE = ("id", "created_at", "engine_version", "calibration_version", "status", "supersedes_id")


@dataclass(frozen=True, slots=True)
class Stored:
    """A quote as it is in the database."""

    id: str
    created_at: datetime
    engine_version: str
    calibration_version: str | None
    status: str
    supersedes_id: str | None
    received: bytes
    pilot: str | None
    document: bytes

    def as_json(self) -> bytes:
        """The quote as JSON; the stored document is not parsed for it."""
        return envelope(self.document, self)

    def estimate(self) -> dict[str, Any]:
        """The stored document, parsed: spec, resolved, summary, items and the rest."""
        parsed: dict[str, Any] = json.loads(self.document)
        return parsed


@dataclass(frozen=True, slots=True, kw_only=True)
class New:
    """A quote that is about to be stored."""

    id: str
    team_id: str
    key_id: str | None  # of who asked for it, for the audit
    created_at: datetime
    engine_version: str
    calibration_version: str | None
    supersedes_id: str | None = None
    received: Frame
    pilot: str | None = None
    document: bytes
    packed: Frame  # the document: compressed where it is made, since the thread that stores would wait for Python's lock after it
    columns: Mapping[str, Any]
    labels: Mapping[str, str] = field(default_factory=dict)
    status: str = "open"


def envelope(document: bytes, quote: Stored | New | None, *, engine_version: str = "", calibration_version: str | None = None) -> bytes:
    """A quote's JSON: the fields that differ between a preview and a stored quote, then the document's."""
    if quote is None:
        head: dict[str, Any] = dict.fromkeys(ENVELOPE)
        head |= {"engine_version": engine_version, "calibration_version": calibration_version, "status": "open"}
    else:
        head = {name: getattr(quote, name) for name in ENVELOPE}
        head["created_at"] = documents.timestamp(quote.created_at)
    text = documents.encode(head)
    return b"".join((text[:-1], b"," if len(document) > 2 else b"", document[1:]))


def add(connection: Connection, new: Iterable[New]) -> None:
    """Store quotes with their labels, and who made them, in as many statements as there are tables."""
    rows, labels, events, acts = [], [], [], []
    for quote in new:
        rows.append(
            {
                "id": quote.id,
                "team_id": quote.team_id,
                "created_at": quote.created_at,
                "supersedes_id": quote.supersedes_id,
                "engine_version": quote.engine_version,
                "calibration_version": quote.calibration_version,
                "received": quote.received,
                "pilot": quote.pilot,
                "document": quote.packed,
                **quote.columns,
            }
        )
        labels += [{"quote_id": quote.id, "key": key, "value": value} for key, value in quote.labels.items()]
        if quote.supersedes_id is not None:
            events.append((quote.supersedes_id, quote.created_at))
        acts.append(
            audit.Event(
                team_id=quote.team_id,
                key_id=quote.key_id,
                action="quote.created" if quote.supersedes_id is None else "quote.revised",
                subject=quote.id,
                created_at=quote.created_at,
            )
        )
    for table, values in ((quotes, rows), (quote_labels, labels)):
        if values:
            insert_plain(connection, table, values)
    audit.record(connection, acts)
    for quote_id, moment in events:
        record_event(connection, quote_id, "superseded", moment)


def record_event(connection: Connection, quote_id: str, kind: str, moment: datetime) -> None:
    """Write down that a quote was superseded or measured; the first time counts."""
    values = {"quote_id": quote_id, "kind": kind, "created_at": moment}
    connection.execute(insert(connection, quote_events).values(values).on_conflict_do_nothing())


def happened(kind: str) -> ColumnElement[bool]:
    """Whether the quote of a row was superseded or measured."""
    return exists().where(quote_events.c.quote_id == quotes.c.id, quote_events.c.kind == kind)


def selected() -> Select[Any]:
    """A query for quotes with what became of them, for `stored` to read."""
    return select(quotes, happened("superseded").label("superseded"), happened("measured").label("measured"))


def stored(row: Row[Any]) -> Stored:
    """A quote from a row of `selected`."""
    # Both may be true; a quote that was revised after its run is no longer the one to go by.
    status = "superseded" if row.superseded else "measured" if row.measured else "open"
    return Stored(
        row.id,
        row.created_at,
        row.engine_version,
        row.calibration_version,
        status,
        row.supersedes_id,
        row.received,
        row.pilot,
        row.document,
    )


def get(connection: Connection, team_id: str, quote_id: str) -> Stored | None:
    """A quote of the team."""
    if not is_identifier(quote_id):
        return None
    row = connection.execute(selected().where(quotes.c.id == quote_id, quotes.c.team_id == team_id)).one_or_none()
    return None if row is None else stored(row)


def newest_revision(connection: Connection, team_id: str, quote_id: str) -> str | None:
    """The newest quote that supersedes this one itself; None where none does."""
    query = select(quotes.c.id).where(quotes.c.supersedes_id == quote_id, quotes.c.team_id == team_id)
    found: str | None = connection.execute(query.order_by(quotes.c.created_at.desc(), quotes.c.id.desc()).limit(1)).scalar_one_or_none()
    return found


def hold(connection: Connection, team_id: str, quote_id: str) -> None:
    """Wait for whoever revises this quote at this moment, and make them wait; SQLite has one writer anyway."""
    query = select(quotes.c.id).where(quotes.c.id == quote_id, quotes.c.team_id == team_id)
    connection.execute(query.with_for_update(key_share=True)).one()


def get_many(connection: Connection, team_id: str, quote_ids: Iterable[str]) -> dict[str, Stored]:
    """Those of the quotes that the team has, by id."""
    found: dict[str, Stored] = {}
    for part in _chunks(sorted({quote_id for quote_id in quote_ids if is_identifier(quote_id)})):
        rows = connection.execute(selected().where(quotes.c.id.in_(part), quotes.c.team_id == team_id))
        found |= {row.id: stored(row) for row in rows}
    return found


def newest_by_references(connection: Connection, team_id: str, references: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Stored]:
    """The newest quote of the team for each job, named by its external system and id there, that has one."""
    columns = (quotes.c.external_system, quotes.c.external_id)
    newest: dict[tuple[str, str], str] = {}
    for part in _chunks(sorted(set(references))):
        query = select(*columns, quotes.c.id).where(quotes.c.team_id == team_id, tuple_(*columns).in_(part))
        for system, external_id, quote_id in connection.execute(query.order_by(quotes.c.created_at, quotes.c.id)):
            newest[system, external_id] = quote_id
    found = get_many(connection, team_id, newest.values())
    return {reference: found[quote_id] for reference, quote_id in newest.items()}


def _chunks(values: Sequence[Any], size: int = 500) -> Iterator[Sequence[Any]]:
    """As many as one statement may name."""
    for start in range(0, len(values), size):
        yield values[start : start + size]
