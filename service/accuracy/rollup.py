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

from sqlalchemy import Connection, Engine, and_, delete, select

from service.kit.database import Database, insert

from . import histogram, history
from .repository import DAILY_KEY, accuracy_daily
from .statistics import cost_log_ratio

log = logging.getLogger(__name__)

Key = tuple[Any, ...]
BATCH = 5000


@dataclass(slots=True)
class Tally:
    """What is counted of a group in a day."""

    n: int = 0
    judged: int = 0
    within: int = 0
    losses: int = 0
    loss_micro: int = 0
    counts: dict[int, int] = field(default_factory=dict)  # histogram bucket: observations

    def count(self, row: Mapping[str, Any], sign: int) -> None:
        """Add (1) or take away (-1) an observation."""
        outcome = history.outcome(row)
        self.n += sign
        if outcome.within is not None:
            self.judged += sign
            self.within += sign * outcome.within
        if outcome.loss is not None:
            self.losses += sign
            self.loss_micro += sign * round(outcome.loss * 1e6)
        bucket = histogram.bucket(cost_log_ratio(row["code"], row["log_ratio"]))
        self.counts[bucket] = self.counts.get(bucket, 0) + sign

    def values(self, before: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The row's columns, added to what is there."""
        counts = histogram.count(()) if before is None else histogram.unpack(before["histogram"])
        for bucket, change in self.counts.items():
            counts[bucket] += change
        figures = {name: getattr(self, name) for name in ("n", "judged", "within", "losses", "loss_micro")}
        if before is not None:
            figures = {name: value + before[name] for name, value in figures.items()}
        return {**figures, "histogram": histogram.pack(counts)}


def keys(row: Mapping[str, Any]) -> Iterator[Key]:
    """The rows that an observation is counted in: that of its group, and one for each label."""
    day = row["observed_at"].astimezone(UTC).date()
    group = [row[name] or "" for name in ("device", "model_family", "training_method", "stack", "engine_version")]
    yield (row["team_id"], "", row["code"], day, *group, "")
    for label_key, label_value in history.labels(row).items():
        yield (row["team_id"], label_key, row["code"], day, *group, label_value)


def follow(connection: Connection, rows: Iterable[Mapping[str, Any]]) -> None:
    """Bring the histograms up to date with measurements that were just added, in their transaction.

    A row is what was written to ``measurements``; one that replaces an observation takes that one out.
    """
    added = [row for row in rows if row["log_ratio"] is not None or row["replaces_id"] is not None]
    if not added:
        return
    tallies: dict[Key, Tally] = {}
    for row in added:
        if row["log_ratio"] is not None and not row["censored"]:
            _count(tallies, row, 1)
    for row in _replaced(connection, [row["replaces_id"] for row in added if row["replaces_id"] is not None]):
        _count(tallies, row, -1)
    for key in sorted(tallies):
        _change(connection, key, tallies[key])


def _count(tallies: dict[Key, Tally], row: Mapping[str, Any], sign: int) -> None:
    for key in keys(row):
        tallies.setdefault(key, Tally()).count(row, sign)


def _replaced(connection: Connection, ids: Sequence[str]) -> list[Mapping[str, Any]]:
    if not ids:
        return []
    m = history.measurements.c
    query = select(m.team_id, *history.observation_columns()).where(m.id.in_(ids), m.log_ratio.is_not(None), m.censored.is_(False))
    return [dict(row) for row in connection.execute(query).mappings()]


def _change(connection: Connection, key: Key, tally: Tally) -> None:
    named = dict(zip(DAILY_KEY, key, strict=True))
    where = and_(*(accuracy_daily.c[name] == value for name, value in named.items()))
    empty = Tally().values()
    # The row is made first and then held, so that two writers of a new group wait for each other too.
    connection.execute(insert(connection, accuracy_daily).values({**named, **empty}).on_conflict_do_nothing())
    before = connection.execute(select(accuracy_daily).where(where).with_for_update()).mappings().one()
    after = tally.values({**before})
    if after["n"] == 0:
        connection.execute(delete(accuracy_daily).where(where))
    else:
        connection.execute(accuracy_daily.update().where(where).values(after))


def rebuild(database: Database) -> int:
    """Make every histogram again from the measurements, in one transaction; how many observations they hold."""
    with database.write() as work:
        if not database.sqlite:
            # Writers wait until the new histograms are there, readers see the old ones; the timeout is for requests.
            work.connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
            work.connection.exec_driver_sql("LOCK TABLE measurements IN SHARE MODE")
        seen, tallies = _tally_all(work.connection)
        work.connection.execute(delete(accuracy_daily))
        rows = [{**dict(zip(DAILY_KEY, key, strict=True)), **tallies[key].values()} for key in sorted(tallies)]
        for start in range(0, len(rows), BATCH):
            work.connection.execute(accuracy_daily.insert(), rows[start : start + BATCH])
        work.commit()
    log.info("daily histograms rebuilt: %s observations in %s rows", seen, len(rows))
    return seen


def _tally_all(connection: Connection) -> tuple[int, dict[Key, Tally]]:
    m = history.measurements.c
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
