"""Daily histograms of errors in the database."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Date,
    LargeBinary,
    PrimaryKeyConstraint,
    String,
    Table,
    select,
)

from service.kit.database import metadata, team_column

# A run is counted in several rows of its day and code, told apart by ``dimension``: all runs (""), runs by one key
# ("device": the other keys are "" then), by all keys ("*"), by a label ("label.team") and by a label and all keys
# ("*label.team"), so that a question reads as few rows as it has groups and days. A key that is not known is "" as well.
accuracy_daily = Table(
    "accuracy_daily",
    metadata,
    team_column(),
    Column("dimension", String(210), nullable=False),
    Column("code", String(80), nullable=False),
    Column("day", Date, nullable=False),  # UTC, of the run's end
    Column("device", String(100), nullable=False),
    Column("model_family", String(100), nullable=False),
    Column("training_method", String(20), nullable=False),
    Column("stack", String(40), nullable=False),
    Column("engine_version", String(40), nullable=False),
    Column("label_value", String(200), nullable=False),
    Column("n", BigInteger, nullable=False),
    Column("judged", BigInteger, nullable=False),  # with an interval
    Column("within", BigInteger, nullable=False),
    Column("losses", BigInteger, nullable=False),
    Column("loss_micro", BigInteger, nullable=False),  # sum of the losses in millionths: whole numbers add the same in any order
    Column("histogram", LargeBinary, nullable=False),  # see histogram.pack
    PrimaryKeyConstraint(
        "team_id", "dimension", "code", "day", "device", "model_family", "training_method", "stack", "engine_version", "label_value"
    ),
)
DAILY_KEY: tuple[str, ...] = tuple(column.name for column in accuracy_daily.primary_key)


def judged(connection: Connection, team_id: str, code: str) -> bool:
    """Whether the team has measured anything of that code."""
    t = accuracy_daily.c
    query = select(t.code).where(t.team_id == team_id, t.dimension == "", t.code == code).limit(1)
    return connection.execute(query).first() is not None
