"""Projects, their entries, and the measured attempts of their quotes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Row,
    String,
    Table,
    Text,
    UniqueConstraint,
    func,
    or_,
    select,
)

from service.actuals import repository as actuals
from service.actuals.comparison import current
from service.actuals.measurement import OUTCOMES, Measurement
from service.kit import paging
from service.kit.database import UtcDateTime, id_column, metadata, team_column
from service.kit.identifiers import is_identifier
from service.quotes.repository import quotes

from .ledger import STAGES, Effect, Entry, Outcome

MOST_ENTRIES = 10_000  # of one project: its ledger is read, added up and answered as a whole

projects = Table(
    "projects",
    metadata,
    id_column(),
    team_column(),
    Column("created_at", UtcDateTime, nullable=False),
    Column("name", String(200), nullable=False),
    Column("description", Text),
    Column("rates", Text, nullable=False),  # JSON, amounts as the decimal text they came in
    UniqueConstraint("team_id", "name"),
    Index("ix_projects_team_id_created_at", "team_id", "created_at", "id"),
)

ledger_entries = Table(
    "ledger_entries",
    metadata,
    id_column(),
    team_column(),
    Column("project_id", String(36), ForeignKey("projects.id"), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("stage", String(20), nullable=False),
    Column("outcome", String(20), nullable=False),
    Column("final", Boolean, nullable=False),
    Column("exploration", Boolean),
    Column("name", String(200)),
    Column("option", String(200)),
    Column("device", String(200)),
    Column("device_hours", Float(53)),
    Column("cpu_hours", Float(53)),
    Column("human_hours", Float(53)),
    Column("tokens", BigInteger),
    Column("bytes", BigInteger),
    Column("effects", Text, nullable=False),  # JSON list of {metric, value, better}
    Column("quote_id", String(36), ForeignKey("quotes.id")),
    Column("corrects_id", String(36), ForeignKey("ledger_entries.id")),
    Column("note", Text),
    UniqueConstraint("corrects_id"),
    CheckConstraint(f"stage IN ({', '.join(repr(name) for name in STAGES)})", name="stage"),
    CheckConstraint(f"outcome IN ({', '.join(repr(name) for name in OUTCOMES)})", name="outcome"),
    Index(None, "quote_id"),
    Index("ix_ledger_entries_team_id_created_at", "team_id", "created_at", "id"),
    Index("ix_ledger_entries_project_id_created_at", "project_id", "created_at", "id"),
)

# What an attempt spent, best first: the scheduler's hours, or a wall clock on so many devices.
_HOURS = ("device_hours.run", "time.wall_clock", "device_hours.training")


def add_project(connection: Connection, values: Mapping[str, Any]) -> None:
    """Store a project."""
    connection.execute(projects.insert().values(values))


def project(connection: Connection, team_id: str, project_id: str) -> Row[Any] | None:
    """A project of the team."""
    if not is_identifier(project_id):
        return None
    return connection.execute(select(projects).where(projects.c.id == project_id, projects.c.team_id == team_id)).one_or_none()


def page(connection: Connection, team_id: str, position: paging.Position | None, limit: int) -> list[Row[Any]]:
    """Projects of the team, newest first: up to `limit` and one more if there is a next page."""
    query = select(projects).where(projects.c.team_id == team_id)
    return list(connection.execute(paging.after(query, projects.c.created_at, projects.c.id, position, limit)).all())


def count_entries(connection: Connection, project_id: str) -> int:
    """How many entries the project has, corrected ones too."""
    return connection.execute(select(func.count()).where(ledger_entries.c.project_id == project_id)).scalar_one()


def add_entry(connection: Connection, values: Mapping[str, Any]) -> None:
    """Append an entry."""
    connection.execute(ledger_entries.insert().values(values))


def entry(connection: Connection, project_id: str, entry_id: str) -> Row[Any] | None:
    """An entry of the project."""
    table = ledger_entries.c
    return connection.execute(select(ledger_entries).where(table.id == entry_id, table.project_id == project_id)).one_or_none()


def entries(connection: Connection, project_id: str) -> list[Row[Any]]:
    """The entries that stand, oldest first: a corrected one gave way to its correction."""
    table = ledger_entries.c
    rows = connection.execute(select(ledger_entries).where(table.project_id == project_id).order_by(table.created_at, table.id)).all()
    corrected = {row.corrects_id for row in rows}
    return [row for row in rows if row.id not in corrected]


def as_entry(row: Row[Any]) -> Entry:
    """A stored entry as the ledger takes it."""
    return Entry(
        id=row.id,
        stage=row.stage,
        outcome=row.outcome,
        final=row.final,
        exploration=row.exploration,
        name=row.name or (row.note[:80] if row.note else None),
        option=row.option,
        device=row.device,
        device_hours=row.device_hours,
        cpu_hours=row.cpu_hours,
        human_hours=row.human_hours,
        tokens=row.tokens,
        bytes=row.bytes,
        effects=tuple(Effect(**effect) for effect in json.loads(row.effects)),
    )


def quote_exists(connection: Connection, team_id: str, quote_id: str) -> bool:
    """Whether the team has the quote."""
    if not is_identifier(quote_id):
        return False
    return connection.execute(select(quotes.c.id).where(quotes.c.id == quote_id, quotes.c.team_id == team_id)).first() is not None


def attempts(connection: Connection, team_id: str, project_name: str, quote_ids: Sequence[str]) -> dict[str, list[Entry]]:
    """Measurement attempts of the project's quotes and of the ones named, by quote: failed and partial ones too."""
    m = actuals.measurements.c
    query = (
        select(actuals.measurements, quotes.c.name.label("quote_name"))
        .join(quotes, quotes.c.id == m.quote_id)
        .where(m.team_id == team_id, or_(quotes.c.project == project_name, quotes.c.id.in_(quote_ids)))
        .order_by(m.quote_id, m.created_at, m.id)
    )
    values: dict[str, list[Measurement]] = {}
    about: dict[str, Row[Any]] = {}
    for row in connection.execute(query):
        values.setdefault(row.quote_id, []).append(actuals.measurement_of(dict(row._mapping)))
        about[row.quote_id] = row
    return {quote_id: list(_attempts(about[quote_id], current(found))) for quote_id, found in values.items()}


def _attempts(about: Row[Any], values: Iterable[Measurement]) -> Iterable[Entry]:
    """One entry an attempt, from the source that says most of what it spent: two sources watched the same devices."""
    grouped: dict[int, dict[str, list[Measurement]]] = {}
    for value in values:
        grouped.setdefault(value.attempt, {}).setdefault(value.source, []).append(value)
    for number in sorted(grouped):
        told = [found for source in sorted(grouped[number]) if (found := _hours(grouped[number][source])) is not None]
        if told:
            _, hours, value = min(told, key=lambda entry: entry[0])
            only_evaluates = value.covers is not None and set(value.covers) <= {"evaluation", "startup"} and "evaluation" in value.covers
            yield Entry(
                id=f"{about.quote_id}:{number}",
                stage="validation" if only_evaluates else "training",
                outcome=cast(Outcome, value.outcome),
                name=about.quote_name,
                device=about.device,
                device_hours=hours,
                measured=True,
            )


def _hours(values: Sequence[Measurement]) -> tuple[int, float, Measurement] | None:
    """Rank of the evidence, device-hours, and the value they come from."""
    for rank, code in enumerate(_HOURS):
        for value in values:
            if value.code != code or value.basis == "utilized" or value.scope == "rank0":
                continue
            if code != "time.wall_clock":
                return rank, value.value, value
            if value.device_count:
                return rank, value.value * value.device_count / 3600, value
    for value in values:
        if value.started_at and value.ended_at and value.device_count:
            return len(_HOURS), (value.ended_at - value.started_at).total_seconds() * value.device_count / 3600, value
    return None
