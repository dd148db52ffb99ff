"""Daily histograms of the observations that stand: kept with every write, rebuilt by a command, equal either way.

Everything in a row is a whole number, so adding and taking away in any order gives what a rebuild gives. Writers hold the
rows they change, in the order of their keys.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

from sqlalchemy import Connection, Engine, and_, bindparam, delete, select, tuple_

from service.actuals.measurement import KeptMeasurement
from service.actuals.repository import measurements, to_row
from service.kit.database import Database, insert
from service.learning import histogram
from service.learning.statistics import Verdict, cost_log_ratio

from . import history
from .repository import DAILY_KEY, accuracy_daily

log = logging.getLogger(__name__)

Key = tuple[Any, ...]
BATCH = 5000
HELD = 200  # rows changed with one statement


@dataclass(slots=True)
class Tally:
    """What is counted of a group in a day."""

    n: int = 0
    judged: int = 0
    within: int = 0
    losses: int = 0
    loss_micro: int = 0
    counts: dict[int, int] = field(default_factory=dict)  # histogram bucket: observations

    def add(self, other: Tally, sign: int = 1) -> None:
        """Add (1) or take away (-1) another."""
        self.n += sign * other.n
        self.judged += sign * other.judged
        self.within += sign * other.within
        self.losses += sign * other.losses
        self.loss_micro += sign * other.loss_micro
        for bucket, count in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + sign * count

    def count(self, verdict: Verdict, bucket: int, sign: int) -> None:
        """Add or take away one observation."""
        self.n += sign
        if verdict.within is not None:
            self.judged += sign
            self.within += sign * verdict.within
        if verdict.loss is not None:
            self.losses += sign
            self.loss_micro += sign * round(verdict.loss * 1e6)
        self.counts[bucket] = self.counts.get(bucket, 0) + sign

    def columns(self) -> dict[str, Any]:
        """The columns of a row."""
        figures = {name: getattr(self, name) for name in _FIGURES}
        return {**figures, "histogram": histogram.pack(self.counts)}


_FIGURES = ("n", "judged", "within", "losses", "loss_micro")


def keys(row: Mapping[str, Any]) -> Iterator[Key]:
    """The rows that an observation is counted in."""
    day = row["observed_at"].astimezone(UTC).date()
    group = tuple(row[name] or "" for name in _COLUMNS)
    team, code = row["team_id"], row["code"]
    yield (team, "", code, day, *_NOTHING, "")
    for place, name in enumerate(_COLUMNS):
        yield (team, name, code, day, *_NOTHING[:place], group[place], *_NOTHING[place + 1 :], "")
    yield (team, "*", code, day, *group, "")
    for label, value in history.labels(row).items():
        yield (team, f"label.{label}", code, day, *_NOTHING, value)
        yield (team, f"*label.{label}", code, day, *group, value)


_COLUMNS = tuple(history.KEYS.values())
_NOTHING = ("",) * len(_COLUMNS)


def follow(connection: Connection, recorded: Iterable[KeptMeasurement]) -> None:
    """Bring the histograms up to date with measurements that were just added, in their transaction.

    One that replaces an observation takes that one out.
    """
    rows = [to_row(one) for one in recorded]
    added = [row for row in rows if row["log_ratio"] is not None or row["replaces_id"] is not None]
    if not added:
        return
    tallies: dict[Key, Tally] = {}
    for row in added:
        if row["log_ratio"] is not None and not row["censored"]:
            _count(tallies, row, 1)
    for old in _replaced(connection, [row["replaces_id"] for row in added if row["replaces_id"] is not None]):
        _count(tallies, old, -1)
    ordered = sorted(tallies)
    for start in range(0, len(ordered), HELD):
        _change(connection, ordered[start : start + HELD], tallies)


def _count(tallies: dict[Key, Tally], row: Mapping[str, Any], sign: int) -> None:
    verdict = history.verdict(row)
    bucket = histogram.bucket(cost_log_ratio(row["code"], row["log_ratio"]))
    for key in keys(row):
        found = tallies.get(key)
        if found is None:
            found = tallies[key] = Tally()
        found.count(verdict, bucket, sign)


def _replaced(connection: Connection, ids: Sequence[str]) -> list[Mapping[str, Any]]:
    if not ids:
        return []
    m = measurements.c
    query = select(m.team_id, *history.observation_columns()).where(m.id.in_(ids), m.log_ratio.is_not(None), m.censored.is_(False))
    return [dict(row) for row in connection.execute(query).mappings()]


def _change(connection: Connection, wanted: Sequence[Key], tallies: Mapping[Key, Tally]) -> None:
    """Add to rows, in the order of their keys."""
    empty = Tally().columns()
    named = [dict(zip(DAILY_KEY, key, strict=True)) for key in wanted]
    # The rows are made first and then held, so that two writers of a new group wait for each other too.
    connection.execute(insert(connection, accuracy_daily).values([{**names, **empty} for names in named]).on_conflict_do_nothing())
    columns = [accuracy_daily.c[name] for name in DAILY_KEY]
    query = select(accuracy_daily).where(tuple_(*columns).in_(wanted)).order_by(*columns).with_for_update()
    changed, gone = [], []
    for row in connection.execute(query).mappings().all():
        key = tuple(row[name] for name in DAILY_KEY)
        total = Tally(**{name: row[name] for name in _FIGURES}, counts=histogram.unpack(row["histogram"]))
        total.add(tallies[key])
        names = {f"key_{name}": value for name, value in zip(DAILY_KEY, key, strict=True)}
        if total.n:
            changed.append({**names, **total.columns()})
        else:
            gone.append(names)
    where = and_(*(column == bindparam(f"key_{column.name}") for column in columns))
    if changed:
        connection.execute(accuracy_daily.update().where(where), changed)
    if gone:
        connection.execute(delete(accuracy_daily).where(where), gone)


def rebuild(database: Database) -> int:
    """Make every histogram again from the measurements, in one transaction; how many observations they hold."""
    with database.write() as work:
        if not database.sqlite:
            # Writers wait until the new histograms are there, readers see the old ones; the timeout is for requests.
            work.connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
            work.connection.exec_driver_sql("LOCK TABLE measurements IN SHARE MODE")
        seen, tallies = _tally_all(work.connection)
        work.connection.execute(delete(accuracy_daily))
        rows = [{**dict(zip(DAILY_KEY, key, strict=True)), **tallies[key].columns()} for key in sorted(tallies)]
        for start in range(0, len(rows), BATCH):
            work.connection.execute(accuracy_daily.insert(), rows[start : start + BATCH])
        work.commit()
    log.info("daily histograms rebuilt: %s observations in %s rows", seen, len(rows))
    return seen


def _tally_all(connection: Connection) -> tuple[int, dict[Key, Tally]]:
    m = measurements.c
    query = history.standing(select(m.team_id, *history.observation_columns()))
    tallies: dict[Key, Tally] = {}
    seen = 0
    result = connection.execute(query.execution_options(yield_per=BATCH))
    for row in result.mappings():
        _count(tallies, {**row}, 1)
        seen += 1
    return seen, tallies


def contents(engine: Engine) -> list[dict[str, Any]]:
    """Every row, in the order of its key; for comparisons."""
    with engine.connect() as connection:
        return [dict(row) for row in connection.execute(select(accuracy_daily).order_by(*accuracy_daily.primary_key)).mappings()]
