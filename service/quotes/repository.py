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
    Integer,
    PrimaryKeyConstraint,
    Row,
    Select,
    String,
    Table,
    Text,
    and_,
    exists,
    select,
    tuple_,
)

from service.kit import documents, paging
from service.kit.database import UtcDateTime, id_column, insert, insert_plain, metadata, team_column
from service.kit.identifiers import is_identifier

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
    Column("received", Text, nullable=False),  # the spec as it came, JSON: what a revision patches
    Column("pilot", Text),  # what a pilot run measured, JSON: code -> value
    Column("document", Text, nullable=False),  # the quote as it is answered, JSON, without what the columns above hold
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

quote_items = Table(
    "quote_items",
    metadata,
    Column("quote_id", String(36), ForeignKey("quotes.id", ondelete="CASCADE"), nullable=False),
    Column("code", String(80), nullable=False),
    Column("position", Integer, nullable=False),
    Column("expected", Float(53), nullable=False),  # items without a number are in the document alone
    Column("low", Float(53)),
    Column("high", Float(53)),
    Column("basis", String(20), nullable=False),
    PrimaryKeyConstraint("quote_id", "code"),
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
    received: str
    pilot: str | None
    document: str

    def as_json(self) -> str:
        """The quote as JSON text; the stored document is not parsed for it."""
        return envelope(self.document, self)

    def estimate(self) -> dict[str, Any]:
        """The stored document, parsed: spec, resolved, summary, items and the rest."""
        parsed: dict[str, Any] = json.loads(self.document)
        return parsed


@dataclass(frozen=True, slots=True, kw_only=True)
class New:
    """A quote that is about to be stored."""

    id: str
    created_at: datetime
    engine_version: str
    calibration_version: str | None
    supersedes_id: str | None = None
    received: str
    pilot: str | None = None
    document: str
    columns: Mapping[str, Any]
    labels: Mapping[str, str] = field(default_factory=dict)
    items: Sequence[Mapping[str, Any]] = ()
    status: str = "open"


def envelope(document: str, quote: Stored | New | None, *, engine_version: str = "", calibration_version: str | None = None) -> str:
    """A quote's JSON text: the fields that differ between a preview and a stored quote, then the document's."""
    if quote is None:
        head: dict[str, Any] = dict.fromkeys(ENVELOPE)
        head |= {"engine_version": engine_version, "calibration_version": calibration_version, "status": "open"}
    else:
        head = {name: getattr(quote, name) for name in ENVELOPE}
        head["created_at"] = documents.timestamp(quote.created_at)
    text = documents.dump(head)
    return text[:-1] + ("," if len(document) > 2 else "") + document[1:]


def add(connection: Connection, team_id: str, new: Iterable[New]) -> None:
    """Store quotes with their labels and items, in as many statements as there are tables."""
    rows, labels, items, events = [], [], [], []
    for quote in new:
        rows.append(
            {
                "id": quote.id,
                "team_id": team_id,
                "created_at": quote.created_at,
                "supersedes_id": quote.supersedes_id,
                "engine_version": quote.engine_version,
                "calibration_version": quote.calibration_version,
                "received": quote.received,
                "pilot": quote.pilot,
                "document": quote.document,
                **quote.columns,
            }
        )
        labels += [{"quote_id": quote.id, "key": key, "value": value} for key, value in quote.labels.items()]
        items += [
            {
                "quote_id": quote.id,
                "position": position,
                "code": item["code"],
                "basis": item["basis"],
                **{
                    name: None if item[name] is None else float(item[name]) for name in ("expected", "low", "high")
                },  # beyond 64-bit integers
            }
            for position, item in enumerate(quote.items)
            if item["expected"] is not None
        ]
        if quote.supersedes_id is not None:
            events.append((quote.supersedes_id, quote.created_at))
    for table, values in ((quotes, rows), (quote_labels, labels)):
        if values:
            connection.execute(table.insert(), values)
    if items:
        insert_plain(connection, quote_items, items)
    for quote_id, moment in events:
        record_event(connection, quote_id, "superseded", moment)


def record_event(connection: Connection, quote_id: str, kind: str, moment: datetime) -> None:
    """Write down that a quote was superseded or measured; the first time counts."""
    values = {"quote_id": quote_id, "kind": kind, "created_at": moment}
    connection.execute(insert(connection, quote_events).values(values).on_conflict_do_nothing())


def _event(kind: str) -> ColumnElement[bool]:
    return exists().where(quote_events.c.quote_id == quotes.c.id, quote_events.c.kind == kind)


def _select() -> Select[Any]:
    return select(quotes, _event("superseded").label("superseded"), _event("measured").label("measured"))


def _stored(row: Row[Any]) -> Stored:
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
    row = connection.execute(_select().where(quotes.c.id == quote_id, quotes.c.team_id == team_id)).one_or_none()
    return None if row is None else _stored(row)


def newest_revision(connection: Connection, team_id: str, quote_id: str) -> str | None:
    """The newest quote that supersedes this one itself; None where none does."""
    query = select(quotes.c.id).where(quotes.c.supersedes_id == quote_id, quotes.c.team_id == team_id)
    found: str | None = connection.execute(query.order_by(quotes.c.created_at.desc(), quotes.c.id.desc()).limit(1)).scalar_one_or_none()
    return found


def get_many(connection: Connection, team_id: str, quote_ids: Iterable[str]) -> dict[str, Stored]:
    """Those of the quotes that the team has, by id."""
    found: dict[str, Stored] = {}
    for part in _chunks(sorted({quote_id for quote_id in quote_ids if is_identifier(quote_id)})):
        rows = connection.execute(_select().where(quotes.c.id.in_(part), quotes.c.team_id == team_id))
        found |= {row.id: _stored(row) for row in rows}
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


def page(connection: Connection, team_id: str, wanted: Filter, position: paging.Position | None, limit: int) -> list[Stored]:
    """Quotes of the team, newest first: up to `limit` and one more if there is a next page."""
    query = _select().where(quotes.c.team_id == team_id)
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
    rows = connection.execute(paging.after(query, quotes.c.created_at, quotes.c.id, position, limit)).all()
    return [_stored(row) for row in rows]


def _status_is(status: str) -> ColumnElement[bool]:
    if status == "superseded":
        return _event("superseded")
    if status == "measured":
        return and_(_event("measured"), ~_event("superseded"))
    return and_(~_event("measured"), ~_event("superseded"))
