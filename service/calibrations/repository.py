"""Calibrations in the database: written once, never changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Index,
    Integer,
    Row,
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    func,
    select,
)

from service.kit import paging
from service.kit.database import UtcDateTime, id_column, metadata, team_column

calibrations = Table(
    "calibrations",
    metadata,
    id_column(),
    team_column(),
    Column("number", Integer, nullable=False),  # counts up within the team; the version is "v" and the number
    Column("created_at", UtcDateTime, nullable=False),
    Column("window_days", Integer),  # null: all of history
    Column("half_life_runs", Float(53), nullable=False),
    Column("evidence", BigInteger, nullable=False),  # measurements it was learnt from
    Column("document", Text, nullable=False),  # the fits as JSON; never changed
    UniqueConstraint("team_id", "number"),
    Index("ix_calibrations_team_id_created_at", "team_id", "created_at", "id"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A calibration as it is in the database."""

    id: str
    version: str
    created_at: datetime
    window_days: int | None
    half_life_runs: float
    evidence: int
    document: str


def _stored(row: Row[Any]) -> Stored:
    return Stored(
        id=row.id,
        version=f"v{row.number}",
        created_at=row.created_at,
        window_days=row.window_days,
        half_life_runs=row.half_life_runs,
        evidence=row.evidence,
        document=row.document,
    )


def add(connection: Connection, values: Mapping[str, Any]) -> Stored:
    """Store a calibration under the team's next number; two at once violate the key, and the loser tries again."""
    highest = select(func.coalesce(func.max(calibrations.c.number), 0)).where(calibrations.c.team_id == values["team_id"])
    row = {**values, "number": connection.execute(highest).scalar_one() + 1}
    connection.execute(calibrations.insert().values(row))
    return _stored(connection.execute(select(calibrations).where(calibrations.c.id == values["id"])).one())


# Asked for every quote: building the statement anew takes as long as running it.
_NEWEST = (
    select(calibrations.c.id, calibrations.c.number)
    .where(calibrations.c.team_id == bindparam("team_id"))
    .order_by(calibrations.c.number.desc())
    .limit(1)
)


def newest_id(connection: Connection, team_id: str) -> tuple[str, str] | None:
    """Id and version of the team's latest calibration."""
    row = connection.execute(_NEWEST, {"team_id": team_id}).one_or_none()
    return None if row is None else (row.id, f"v{row.number}")


def id_of(connection: Connection, team_id: str, version: str) -> str | None:
    """The id of a version of the team's."""
    digits = version[1:]
    if not version.startswith("v") or not digits.isascii() or not digits.isdigit() or len(digits) > 9 or digits.startswith("0"):
        return None
    query = select(calibrations.c.id).where(calibrations.c.team_id == team_id, calibrations.c.number == int(digits))
    found: str | None = connection.execute(query).scalar_one_or_none()
    return found


def document(connection: Connection, calibration_id: str) -> str:
    """The fits of a calibration."""
    text: str = connection.execute(select(calibrations.c.document).where(calibrations.c.id == calibration_id)).scalar_one()
    return text


def page(connection: Connection, team_id: str, position: paging.Position | None, limit: int) -> tuple[list[Stored], str | None]:
    """Calibrations of the team, newest first, and the cursor of the next page."""
    query = select(calibrations).where(calibrations.c.team_id == team_id)
    rows = connection.execute(paging.after(query, calibrations.c.created_at, calibrations.c.id, position, limit)).all()
    return [_stored(row) for row in rows[:limit]], paging.next_cursor(rows, limit)
