"""What was measured, as the rows of ``measurements`` say it.

A row that carries a log ratio is an observation (one code by one method of one source of one quote); it stands until a later row
names it in ``replaces_id``, so a late or corrected value needs no bookkeeping here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Select, exists, select
from sqlalchemy import true as always

from service.actuals.repository import measurements
from service.calibrations import corrections
from service.kit.security import teams
from service.learning import drivers
from service.learning.backtest import Past
from service.learning.calibration import Fit
from service.learning.drivers import Evidence, Facts
from service.learning.statistics import Verdict, interval_loss
from service.quotes.repository import quotes

DEFAULT_COVERAGE = 0.8

# Values that were kept and flagged, and that nothing should be learnt from.
UNTRUSTED = frozenset(
    {
        "shared_device",
        "host_timed",
        "far_from_estimate",
        "above_peak",
        "below_lower_bound",
        "above_device_memory",
        "includes_overheads",  # evaluation, saving or generation is in a figure of training
        "first_step_included",
        "earlier_attempts_missing",
        "retries_not_counted",
    }
)
_JUDGED = ("code", "observed_at", "estimated", "low", "high", "interval_coverage", "observed_value", "log_ratio")
KEYS: dict[str, str] = {
    "device": "device",
    "model_family": "model_family",
    "method": "training_method",
    "stack": "stack",
    "engine_version": "engine_version",
}


def standing(query: Select[Any]) -> Select[Any]:
    """Of a query on measurements: the observations that stand, of runs that were not cut short."""
    later = measurements.alias("later")
    m = measurements.c
    replaced = exists().where(later.c.replaces_id == m.id)
    return query.where(m.log_ratio.is_not(None), m.censored.is_not(always()), ~replaced)


def observation_columns(with_labels: bool = True) -> list[Any]:
    """What figures of accuracy need of a row."""
    return [measurements.c[name] for name in (*_JUDGED, *KEYS.values(), *(("labels",) if with_labels else ()))]


def verdict(row: Mapping[str, Any]) -> Verdict:
    """A standing row as statistics take it."""
    low, high = row["low"], row["high"]
    if low is None or high is None:
        return Verdict(code=row["code"], log_ratio=row["log_ratio"])
    value, estimated = row["observed_value"], row["estimated"]
    loss = None
    if low > 0 and estimated > 0:
        coverage = row["interval_coverage"] or DEFAULT_COVERAGE
        loss = interval_loss(row["log_ratio"], math.log(low / estimated), math.log(high / estimated), coverage)
    return Verdict(code=row["code"], log_ratio=row["log_ratio"], within=low <= value <= high, loss=loss)


def labels(row: Mapping[str, Any]) -> dict[str, str]:
    """The labels of the quote."""
    return dict(_parsed(row["labels"])) if row["labels"] else {}


@lru_cache(maxsize=1024)
def _parsed(text: str) -> tuple[tuple[str, str], ...]:
    """Most runs have the labels of others."""
    return tuple(json.loads(text).items())


def since(window_days: int | None, now: datetime) -> datetime | None:
    """When a window of whole days (UTC, today included) begins; None for all of history."""
    if window_days is None:
        return None
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=window_days - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A piece of evidence and where it comes from."""

    team_id: str
    evidence: Evidence
    past: Past


def evidence(
    connection: Connection,
    *,
    begin: datetime | None,
    team_ids: Sequence[str],
    codes: Sequence[str] | None = None,
    limit: int,
) -> list[Known]:
    """The newest evidence of some teams, oldest first."""
    m = measurements.c
    names = ("team_id", "quote_id", "code", "observed_at", "flags", "estimated", "uncalibrated", "observed_value", "drift", "labels")
    q = quotes.c
    quoted = (q.external_id, q.calibration_version, q.step_basis, q.training_seconds, q.wall_clock_seconds)
    query = standing(
        select(*(m[name] for name in (*names, *KEYS.values())), q.created_at.label("quoted_at"), *quoted)
        .join_from(measurements, quotes, q.id == m.quote_id)
        .where(m.code.in_(codes or drivers.LEARNABLE))
    )
    query = query.where(m.team_id.in_(team_ids))
    if begin is not None:
        query = query.where(m.observed_at >= begin)
    rows = connection.execute(query.order_by(m.observed_at.desc(), m.id.desc()).limit(limit)).mappings().all()
    pinned: dict[tuple[str, str], Mapping[str, Fit]] = {}
    team_names = {row.id: row.name for row in connection.execute(select(teams.c.id, teams.c.name))}
    found = []
    for entry in reversed(rows):
        row: dict[str, Any] = {**entry}
        value, estimate = row["observed_value"], row["uncalibrated"]
        if value is None or estimate is None or value <= 0 or estimate <= 0 or not UNTRUSTED.isdisjoint(row["flags"].split()):
            continue
        error = math.log(value / estimate)
        facts = drivers.facts(
            team=team_names.get(row["team_id"], row["team_id"]),
            labels=labels(row),
            external_id=row["external_id"],
            device=row["device"],
            stack=row["stack"],
            method=row["training_method"],
            model_family=row["model_family"],
            speed_given=row["step_basis"] in ("given", "pilot"),
        )
        own = Evidence(
            run=row["quote_id"],
            code=row["code"],
            log_ratio=error - (row["drift"] or 0.0),  # the spec's drift: steps and devices other than quoted
            facts=facts,
            training_share=_training_share(connection, row, facts, pinned),
        )
        past = Past(
            evidence=own,
            log_estimate=math.log(estimate),
            log_error=error,
            quoted_at=row["quoted_at"].timestamp(),
            ended_at=row["observed_at"].timestamp(),
        )
        found.append(Known(team_id=row["team_id"], evidence=own, past=past))
    return found


def _training_share(
    connection: Connection, row: Mapping[str, Any], facts: Facts, pinned: dict[tuple[str, str], Mapping[str, Fit]]
) -> float:
    """What share of its estimated wall clock the run trains, before any correction."""
    training, clock = row["training_seconds"], row["wall_clock_seconds"]
    if row["code"] not in drivers.CLOCKS or training is None or clock is None:
        return 1.0
    version = row["calibration_version"]
    if version is not None:
        # The quote holds corrected seconds: the corrections that it was made with are taken off again.
        key = (row["team_id"], version)
        if key not in pinned:
            pinned[key] = corrections.fits_of(connection, *key)
        training /= math.exp(drivers.log_correction(pinned[key], drivers.STEP, facts))
        clock *= row["uncalibrated"] / row["estimated"] if row["estimated"] else 1.0
    return float(min(1.0, training / clock)) if clock > 0 else 1.0
