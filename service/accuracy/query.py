"""Figures of accuracy by group: exact while the runs are few, from daily histograms when they are many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

import numpy as np
from sqlalchemy import Connection, func, select

from . import drift, histogram, history
from .repository import accuracy_daily
from .statistics import Outcome, Summary, coverage_figures, is_rate, summarise

PERIODS = ("day", "week", "month")
OWN_TEAM = "team"
GROUPS: tuple[str, ...] = (*PERIODS, "device", "model_family", "method", "stack", OWN_TEAM, "engine_version")
LABEL = "label."

EXACT_ROWS = 5000  # up to so many observations are read one by one: about 20 ms
DRIFT_ROWS = 1000  # the newest observations of a code that drift is judged by when there are more

Group = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked."""

    team_id: str
    team: str
    group_by: tuple[str, ...] = ()
    code: str | None = None
    window_days: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    def label_keys(self) -> list[str]:
        """Labels that runs are told apart or chosen by."""
        return sorted({name.removeprefix(LABEL) for name in self.group_by if name.startswith(LABEL)} | set(self.labels))


@dataclass(frozen=True, slots=True, kw_only=True)
class Drifted:
    """A change in bias."""

    found_at: datetime
    since: datetime
    upward: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyRow:
    """The figures of one group and code. ``drift`` is None where too few runs tell."""

    group: dict[str, str | None]
    code: str
    summary: Summary
    exact: bool
    drift: bool | None
    change: Drifted | None


def answer(connection: Connection, question: Question, now: datetime) -> list[AccuracyRow]:
    """The rows, by group and code."""
    begin = history.since(question.window_days, now)
    counts = _counts(connection, question, begin)
    if sum(counts.values()) <= EXACT_ROWS or len(question.label_keys()) > 1:
        return _exact(question, list(_observations(connection, question, begin)))
    recent: list[Mapping[str, Any]] = []
    limit = EXACT_ROWS if len(counts) == 1 else DRIFT_ROWS
    for code in sorted(counts):
        recent += _observations(connection, question, begin, code=code, newest=limit)
    return _from_histograms(connection, question, begin, _drifts(question, recent))


def _where(question: Question, begin: datetime | None) -> list[Any]:
    """Conditions on the daily histograms; at most one label is asked for."""
    t = accuracy_daily.c
    keys = question.label_keys()
    found: list[Any] = [t.team_id == question.team_id, t.label_key == (keys[0] if keys else "")]
    if keys and keys[0] in question.labels:
        found.append(t.label_value == question.labels[keys[0]])
    if question.code is not None:
        found.append(t.code == question.code)
    if begin is not None:
        found.append(t.day >= begin.date())
    return found


def _counts(connection: Connection, question: Question, begin: datetime | None) -> dict[str, int]:
    t = accuracy_daily.c
    query = select(t.code, func.sum(t.n)).where(*_where(question, begin)).group_by(t.code)
    return {code: int(n) for code, n in connection.execute(query)}


def _observations(
    connection: Connection, question: Question, begin: datetime | None, *, code: str | None = None, newest: int | None = None
) -> Iterable[Mapping[str, Any]]:
    """Observations that stand, oldest first; with ``newest`` the latest so many alone."""
    m = history.measurements.c
    wanted = question.label_keys()
    query = history.standing(select(*history.observation_columns(with_labels=bool(wanted)))).where(m.team_id == question.team_id)
    code = code or question.code
    if code is not None:
        query = query.where(m.code == code)
    if begin is not None:
        query = query.where(m.observed_at >= begin)
    if newest is None:
        rows: Iterable[Any] = connection.execute(query.order_by(m.observed_at, m.id)).mappings()
    else:
        rows = reversed(connection.execute(query.order_by(m.observed_at.desc(), m.id.desc()).limit(newest)).mappings().all())
    return _labelled(question, wanted, rows) if wanted else rows


def _labelled(question: Question, wanted: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Rows that have every label asked for, with it beside their columns."""
    for row in rows:
        labels = history.labels(row)
        if all(key in labels for key in wanted) and all(labels[key] == value for key, value in question.labels.items()):
            yield {**row, **{LABEL + key: labels[key] for key in wanted}}


def _group(question: Question, row: Mapping[str, Any], day: date, names: Sequence[str]) -> Group:
    return tuple(_value(question, row, day, name) for name in names)


def _value(question: Question, row: Mapping[str, Any], day: date, name: str) -> str | None:
    if name == "day":
        return day.isoformat()
    if name == "week":
        year, week, _ = day.isocalendar()
        return f"{year:04d}-W{week:02d}"
    if name == "month":
        return f"{day.year:04d}-{day.month:02d}"
    if name == OWN_TEAM:
        return question.team
    found: str | None = row[history.KEYS.get(name, name)]
    return found or None


def _lasting(question: Question) -> tuple[str, ...]:
    """What is grouped by, periods aside: bias drifts from one period to the next."""
    return tuple(name for name in question.group_by if name not in PERIODS)


def _exact(question: Question, rows: list[Mapping[str, Any]]) -> list[AccuracyRow]:
    grouped: dict[tuple[Group, str], list[Outcome]] = {}
    for row in rows:
        group = _group(question, row, row["observed_at"].date(), question.group_by)
        grouped.setdefault((group, row["code"]), []).append(history.outcome(row))
    drifts = _drifts(question, rows)
    found = []
    for group, code in sorted(grouped, key=_order):
        summary = summarise(grouped[group, code])
        assert summary is not None
        found.append(_row(question, group, code, summary, drifts, exact=True))
    return found


def _order(key: tuple[Group, str]) -> tuple[Any, ...]:
    group, code = key
    return (*((value is None, value or "") for value in group), code)


def _row(question: Question, group: Group, code: str, summary: Summary, drifts: Drifts, *, exact: bool) -> AccuracyRow:
    named = dict(zip(question.group_by, group, strict=True))
    alarm, change = drifts.of(named, code)
    return AccuracyRow(group=named, code=code, summary=summary, exact=exact, drift=alarm, change=change)


class Drifts:
    """Changes in bias by group, and whether there were runs enough to see one."""

    def __init__(self, lasting: tuple[str, ...]) -> None:
        self._lasting = lasting
        self._enough: dict[tuple[Group, str], bool] = {}
        self._changes: dict[tuple[Group, str], list[Drifted]] = {}

    def judge(self, key: tuple[Group, str], stream: Sequence[tuple[datetime, float]]) -> None:
        """Judge one group's errors in order."""
        self._enough[key] = len(stream) > 2 * drift.BASELINE
        self._changes[key] = [
            Drifted(found_at=stream[change.found][0], since=stream[change.since][0], upward=change.upward)
            for change in drift.changes([error for _, error in stream])
        ]

    def of(self, group: Mapping[str, str | None], code: str) -> tuple[bool | None, Drifted | None]:
        """Whether the bias changed, and the last change; in a period, the one found in it."""
        key = (tuple(group[name] for name in self._lasting), code)
        if not self._enough.get(key, False):
            return None, None
        changes = [change for change in self._changes[key] if _in_periods(change.found_at.date(), group)]
        return bool(changes), changes[-1] if changes else None


def _in_periods(day: date, group: Mapping[str, str | None]) -> bool:
    year, week, _ = day.isocalendar()
    now = {"day": day.isoformat(), "week": f"{year:04d}-W{week:02d}", "month": f"{day.year:04d}-{day.month:02d}"}
    return all(group[name] == value for name, value in now.items() if name in group)


def _drifts(question: Question, rows: Iterable[Mapping[str, Any]]) -> Drifts:
    lasting = _lasting(question)
    streams: dict[tuple[Group, str], list[tuple[datetime, float]]] = {}
    for row in rows:
        key = (_group(question, row, date.min, lasting), row["code"])
        streams.setdefault(key, []).append((row["observed_at"], row["log_ratio"]))
    found = Drifts(lasting)
    for key, stream in streams.items():
        found.judge(key, stream)
    return found


@dataclass(slots=True)
class _Sum:
    """A group of daily histograms added up."""

    counts: histogram.Counts
    n: int = 0
    judged: int = 0
    within: int = 0
    losses: int = 0
    loss_micro: int = 0


def _from_histograms(connection: Connection, question: Question, begin: datetime | None, drifts: Drifts) -> list[AccuracyRow]:
    t = accuracy_daily.c
    needed = [name for name in question.group_by if name not in PERIODS and name != OWN_TEAM]
    columns = [t.label_value if name.startswith(LABEL) else t[history.KEYS[name]] for name in needed]
    query = select(t.code, t.day, t.n, t.judged, t.within, t.losses, t.loss_micro, t.histogram, *columns).where(*_where(question, begin))
    sums: dict[tuple[Group, str], _Sum] = {}
    groups: dict[tuple[Any, ...], tuple[Group, str]] = {}
    for code, day, n, judged, within, losses, loss_micro, blob, *values in connection.execute(query):
        raw = (code, day, *values)
        key = groups.get(raw)
        if key is None:
            row = dict(zip((history.KEYS.get(name, name) for name in needed), values, strict=True))
            key = groups[raw] = (_group(question, row, day, question.group_by), code)
        total = sums.get(key)
        if total is None:
            total = sums[key] = _Sum(np.zeros(histogram.SIZE, dtype=np.int64))
        histogram.add(blob, total.counts)
        total.n += n
        total.judged += judged
        total.within += within
        total.losses += losses
        total.loss_micro += loss_micro
    return [_row(question, *key, _summary(key[1], sums[key]), drifts, exact=False) for key in sorted(sums, key=_order)]


def _summary(code: str, total: _Sum) -> Summary:
    median = histogram.ratio_quantile(total.counts, 0.5)
    return Summary(
        n=total.n,
        bias=-median if is_rate(code) else median,
        median_absolute_percentage_error=histogram.error_quantile(total.counts, 0.5),
        p90_absolute_percentage_error=histogram.error_quantile(total.counts, 0.9),
        **coverage_figures(judged=total.judged, within=total.within, losses=total.losses, loss_sum=total.loss_micro / 1e6),
    )


