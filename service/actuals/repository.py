"""Measurements in the database: append-only, one row a value.

A correction is a row that names the one it corrects. A row may also carry an *observation*: what its group of values (one
code by one method of one source of one quote) says of the quote once this row is there. The observation of the row that
no other ``replaces_id`` names is the one that stands, so figures of accuracy can be kept by adding and taking away, and
rebuilt from the rows alone:

    SELECT ... FROM measurements m WHERE m.log_ratio IS NOT NULL AND NOT m.censored
    AND NOT EXISTS (SELECT 1 FROM measurements later WHERE later.replaces_id = m.id)

Whoever writes holds the quote's row, so numbers of attempts and observations of one quote are made one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
    select,
    text,
)

from service.kit import paging
from service.kit.database import UtcDateTime, id_column, metadata, team_column
from service.quotes.repository import quote_labels, quotes

from .measurement import OUTCOMES, KeptMeasurement, Measurement, Observation, QuotedFigures, QuoteKeys

_KEY = ("quote_id", "source", "attempt", "code", "method", "scope")

measurements = Table(
    "measurements",
    metadata,
    id_column(),
    team_column(),
    Column("quote_id", String(36), ForeignKey("quotes.id"), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("observed_at", UtcDateTime, nullable=False),  # the attempt's end; when it was recorded where that is not known
    # The attempt.
    Column("source", String(60), nullable=False),
    Column("job_id", String(200)),
    Column("attempt", Integer, nullable=False),
    Column("outcome", String(20), nullable=False),
    Column("covers", String(100)),  # separated by spaces; null: not said
    Column("steps_completed", BigInteger),
    Column("started_at", UtcDateTime),
    Column("ended_at", UtcDateTime),
    Column("device_count", BigInteger),
    # The value. A double holds every whole number of bytes or tokens below 2**53 exactly.
    Column("code", String(80), nullable=False),
    Column("value", Float(53), nullable=False),
    Column("method", String(200), nullable=False),
    Column("scope", String(10), nullable=False),  # "" where there is none: null would not be unique
    Column("basis", String(20)),
    Column("excludes", String(60), nullable=False),  # separated by spaces
    Column("flags", Text, nullable=False),  # separated by spaces
    Column("repeats", Integer),
    Column("spread", Float(53)),
    Column("corrects_id", String(36), ForeignKey("measurements.id")),
    # What it answers: the quote's item.
    Column("estimated", Float(53)),
    Column("low", Float(53)),
    Column("high", Float(53)),
    Column("uncalibrated", Float(53)),
    Column("interval_coverage", Float(53)),
    # The observation of the group once this row is there; null on rows that change nothing about it.
    Column("observed_value", Float(53)),
    Column("log_ratio", Float(53)),  # ln(observed_value / estimated); of a bound what it is at least
    Column("censored", Boolean, nullable=False),  # the run did not finish: a lower bound
    Column("drift", Float(53)),  # of the spec, not of bias: the part of log_ratio that steps and devices explain; null where not known
    Column("replaces_id", String(36), ForeignKey("measurements.id")),
    # Whose it is, for figures by group.
    Column("device", String(100)),
    Column("model", String(200)),
    Column("model_family", String(100)),
    Column("training_method", String(20), nullable=False),
    Column("stack", String(40)),
    Column("engine_version", String(40), nullable=False),
    Column("labels", Text, nullable=False),  # JSON object
    CheckConstraint(f"outcome IN ({', '.join(repr(name) for name in OUTCOMES)})", name="outcome"),
    Index(
        "uq_measurements_key", *_KEY, unique=True, sqlite_where=text("corrects_id IS NULL"), postgresql_where=text("corrects_id IS NULL")
    ),
    UniqueConstraint("corrects_id"),
    UniqueConstraint("replaces_id"),
    Index("ix_measurements_quote_id_created_at", "quote_id", "created_at", "id"),
    Index("ix_measurements_team_id_created_at", "team_id", "created_at", "id"),
    Index("ix_measurements_team_id_code_observed_at", "team_id", "code", "observed_at"),
)


def hold(connection: Connection, team_id: str, quote_id: str) -> QuoteKeys:
    """Lock the quote against other writers of its measurements; SQLite has one writer anyway."""
    columns = (quotes.c.device, quotes.c.model, quotes.c.model_family, quotes.c.method, quotes.c.stack, quotes.c.engine_version)
    query = select(*columns).where(quotes.c.id == quote_id, quotes.c.team_id == team_id)
    # NO KEY: rows that only refer to the quote (a revision, its events) need not wait.
    row = connection.execute(query.with_for_update(key_share=True)).one()
    labels = connection.execute(select(quote_labels.c.key, quote_labels.c.value).where(quote_labels.c.quote_id == quote_id))
    return QuoteKeys(
        device=row.device,
        model=row.model,
        model_family=row.model_family,
        training_method=row.method,
        stack=row.stack,
        engine_version=row.engine_version,
        labels={label.key: label.value for label in labels},
    )


def all_of(connection: Connection, team_id: str, quote_id: str) -> list[KeptMeasurement]:
    """Every measurement of a quote, oldest first."""
    table = measurements.c
    query = select(measurements).where(table.quote_id == quote_id, table.team_id == team_id)
    return [from_row(dict(row._mapping)) for row in connection.execute(query.order_by(table.created_at, table.id))]


def page(
    connection: Connection, team_id: str, quote_id: str, position: paging.Position | None, limit: int
) -> tuple[list[KeptMeasurement], str | None]:
    """Measurements of a quote, newest first, and the cursor of the next page."""
    table = measurements.c
    query = select(measurements).where(table.quote_id == quote_id, table.team_id == team_id)
    rows = connection.execute(paging.after(query, table.created_at, table.id, position, limit)).all()
    return [from_row(dict(row._mapping)) for row in rows[:limit]], paging.next_cursor(rows, limit)


def add(connection: Connection, recorded: Sequence[KeptMeasurement]) -> None:
    """Append measurements."""
    if recorded:
        connection.execute(measurements.insert(), [to_row(one) for one in recorded])


def to_row(recorded: KeptMeasurement) -> dict[str, Any]:
    """The columns of a measurement."""
    one, quoted, said, keys = recorded.measurement, recorded.quoted, recorded.observation, recorded.keys
    return {
        "id": one.id,
        "team_id": recorded.team_id,
        "quote_id": recorded.quote_id,
        "created_at": recorded.created_at,
        "observed_at": recorded.observed_at,
        "source": one.source,
        "job_id": one.job_id,
        "attempt": one.attempt,
        "outcome": one.outcome,
        "covers": None if one.covers is None else " ".join(one.covers),
        "steps_completed": one.steps_completed,
        "started_at": one.started_at,
        "ended_at": one.ended_at,
        "device_count": one.device_count,
        "code": one.code,
        "value": one.value,
        "method": one.method,
        "scope": one.scope or "",
        "basis": one.basis,
        "excludes": " ".join(one.excludes),
        "flags": " ".join(one.flags),
        "repeats": one.repeats,
        "spread": one.spread,
        "corrects_id": one.corrects_id,
        "estimated": quoted.expected,
        "low": quoted.low,
        "high": quoted.high,
        "uncalibrated": quoted.uncalibrated,
        "interval_coverage": quoted.interval_coverage,
        "observed_value": None if said is None else said.value,
        "log_ratio": None if said is None else said.log_ratio,
        "censored": said is not None and said.censored,
        "drift": None if said is None else said.spec_drift,
        "replaces_id": recorded.replaces_id,
        "device": keys.device,
        "model": keys.model,
        "model_family": keys.model_family,
        "training_method": keys.training_method,
        "stack": keys.stack,
        "engine_version": keys.engine_version,
        "labels": json.dumps(dict(keys.labels), sort_keys=True),
    }


def measurement_of(row: Mapping[str, Any]) -> Measurement:
    """The measurement in a row."""
    return Measurement(
        id=row["id"],
        source=row["source"],
        attempt=row["attempt"],
        outcome=row["outcome"],
        code=row["code"],
        value=row["value"],
        method=row["method"],
        scope=row["scope"] or None,
        basis=row["basis"],
        covers=None if row["covers"] is None else tuple(row["covers"].split()),
        excludes=tuple(row["excludes"].split()),
        flags=tuple(row["flags"].split()),
        steps_completed=row["steps_completed"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        device_count=row["device_count"],
        job_id=row["job_id"],
        corrects_id=row["corrects_id"],
        repeats=row["repeats"],
        spread=row["spread"],
    )


def from_row(row: Mapping[str, Any]) -> KeptMeasurement:
    """A measurement as it was kept."""
    observation = None
    if row["observed_value"] is not None:
        observation = Observation(
            value=row["observed_value"], log_ratio=row["log_ratio"], censored=row["censored"], spec_drift=row["drift"]
        )
    return KeptMeasurement(
        measurement=measurement_of(row),
        team_id=row["team_id"],
        quote_id=row["quote_id"],
        created_at=row["created_at"],
        observed_at=row["observed_at"],
        quoted=QuotedFigures(
            expected=row["estimated"],
            low=row["low"],
            high=row["high"],
            uncalibrated=row["uncalibrated"],
            interval_coverage=row["interval_coverage"],
        ),
        keys=QuoteKeys(
            device=row["device"],
            model=row["model"],
            model_family=row["model_family"],
            training_method=row["training_method"],
            stack=row["stack"],
            engine_version=row["engine_version"],
            labels=json.loads(row["labels"]),
        ),
        observation=observation,
        replaces_id=row["replaces_id"],
    )
