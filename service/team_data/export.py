"""A team's rows as JSON lines or CSV, page by page: memory holds a page, whatever there is, and no connection waits for a slow reader.

Rows never change and are read in the order they were made, up to the moment the export begins; so pages fit together without a
transaction around them, and an export of a team that goes on writing ends.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Literal, get_args

import orjson
from sqlalchemy import Connection, Row, Table, and_, or_, select

from service.actuals.repository import measurements
from service.calibrations.repository import calibrations
from service.kit import documents
from service.kit.database import Database
from service.projects.repository import ledger_entries, projects
from service.quotes.repository import quote_events, quote_labels, quotes

Format = Literal["jsonl", "csv"]
Kind = Literal["quotes", "measurements", "calibrations", "projects", "ledger_entries"]
KINDS: tuple[Kind, ...] = get_args(Kind)

TABLES: dict[Kind, Table] = {
    "quotes": quotes,
    "measurements": measurements,
    "calibrations": calibrations,
    "projects": projects,
    "ledger_entries": ledger_entries,
}
# Tables with rows of a team that are not given out, and why.
LEFT_OUT = {
    "api_keys": "nothing but hashes of keys, of use to this service alone",
    "audit_events": "`GET /v1/audit` pages through it",
    "idempotency_keys": "answers of the last day, whose quotes and measurements are given out",
    "accuracy_daily": "follows from the measurements: `rebuild-accuracy` makes it again",
}
# Columns that hold JSON text: given out as JSON within a JSON line.
_JSON = {
    "quotes": {"received", "pilot", "document", "labels"},
    "measurements": {"labels"},
    "calibrations": {"document"},
    "projects": {"rates"},
    "ledger_entries": {"effects"},
}
_ROWS_OF_A_PAGE = {"quotes": 20}  # a quote is tens of kilobytes
_MOST_ROWS_OF_A_PAGE = 500

MEDIA_TYPES: dict[Format, str] = {"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}


def export(database: Database, team_id: str, kinds: Sequence[Kind], form: Format, until: datetime) -> Iterator[bytes]:
    """What a team has of these kinds, made up to a moment, in pieces; CSV is of one kind, since each has columns of its own."""
    if form == "csv":
        (kind,) = kinds
        names = _columns(kind)
        yield _csv([names])
        for page in _pages(database, team_id, kind, until):
            yield _csv([_text(row[name]) for name in names] for row in page)
        return
    for kind in kinds:
        for page in _pages(database, team_id, kind, until):
            yield b"".join(_line(kind, row) for row in page)


def _columns(kind: Kind) -> list[str]:
    own = [column.name for column in TABLES[kind].columns]
    return [*own, "labels", "superseded_at", "measured_at"] if kind == "quotes" else own


def _line(kind: Kind, row: dict[str, Any]) -> bytes:
    shown: dict[str, Any] = {"kind": kind}
    for quoted, value in row.items():
        name = str(quoted)  # SQLAlchemy's names are texts of a kind of their own
        if isinstance(value, datetime):
            shown[name] = documents.timestamp(value)
        elif name in _JSON[kind] and value is not None:
            shown[name] = orjson.Fragment(value)
        else:
            shown[name] = value
    return orjson.dumps(shown, option=orjson.OPT_APPEND_NEWLINE)


def _csv(rows: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _text(value: Any) -> Any:
    if isinstance(value, datetime):
        return documents.timestamp(value)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else value


def _pages(database: Database, team_id: str, kind: Kind, until: datetime) -> Iterator[list[dict[str, Any]]]:
    """Rows in the order they were made, each page read on a connection of its own that is given back before the page is."""
    table = TABLES[kind]
    columns = table.c
    size = _ROWS_OF_A_PAGE.get(kind, _MOST_ROWS_OF_A_PAGE)
    first = select(table).where(columns.team_id == team_id, columns.created_at <= until).order_by(columns.created_at, columns.id)
    query = first.limit(size)
    while True:
        with database.read() as connection:
            rows = connection.execute(query).all()
            page = [row._asdict() for row in rows] if kind != "quotes" else _with_what_became_of_them(connection, rows)
        if page:
            yield page
        if len(rows) < size:
            return
        last = rows[-1]
        # The first condition alone is what an index begins at.
        later = or_(columns.created_at > last.created_at, and_(columns.created_at == last.created_at, columns.id > last.id))
        query = first.where(columns.created_at >= last.created_at, later).limit(size)


def _with_what_became_of_them(connection: Connection, rows: Sequence[Row[Any]]) -> list[dict[str, Any]]:
    """Quotes with their labels, and when they were superseded and measured."""
    ids = [row.id for row in rows]
    labels: dict[str, dict[str, str]] = {quote_id: {} for quote_id in ids}
    for quote_id, key, value in connection.execute(
        select(quote_labels.c.quote_id, quote_labels.c.key, quote_labels.c.value)
        .where(quote_labels.c.quote_id.in_(ids))
        .order_by(quote_labels.c.quote_id, quote_labels.c.key)
    ):
        labels[quote_id][key] = value
    moments: dict[tuple[str, str], datetime] = {}
    for quote_id, event, moment in connection.execute(
        select(quote_events.c.quote_id, quote_events.c.kind, quote_events.c.created_at).where(quote_events.c.quote_id.in_(ids))
    ):
        moments[quote_id, event] = moment
    return [
        {
            **row._asdict(),
            "labels": documents.dump(labels[row.id]),
            "superseded_at": moments.get((row.id, "superseded")),
            "measured_at": moments.get((row.id, "measured")),
        }
        for row in rows
    ]
