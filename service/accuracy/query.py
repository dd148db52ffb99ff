"""Figures of accuracy by group: exact while the runs are few, from daily histograms when they are many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any

import numpy as np
from sqlalchemy import Connection, func, literal_column, select

from service.actuals.repository import measurements
from service.kit.problems import invalid_parameter
from service.learning import drift, histogram
from service.learning.statistics import Summary, Verdict, coverage_figures, is_rate, summarise

from . import history
from .repository import accuracy_daily

PERIODS = ("day", "week", "month")
OWN_TEAM = "team"
GROUPS: tuple[str, ...] = (*PERIODS, "device", "model_family", "method", "stack", OWN_TEAM, "engine_version")
LABEL = "label."

EXACT_ROWS = 2000  # up to so many observations are read one by one: about 15 ms
MOST_ROWS = 100_000  # no histogram tells two labels apart: so many observations are read one by one, in about a second
DRIFT_ROWS = 1500  # the newest observations that drift is judged by when there are more, codes together

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
class GroupFigures:
    """The figures of one group and code. ``drift`` is None where too few runs tell."""

    group: dict[str, str | None]
    code: str
    summary: Summary
    exact: bool
    drift: bool | None
    change: Drifted | None


def answer(connection: Connection, question: Question, now: datetime) -> list[GroupFigures]:
    """The rows, by group and code."""
    begin = history.since(question.window_days, now)
    counts = _counts(connection, question, begin)
    if sum(counts.values()) > MOST_ROWS and len(question.label_keys()) > 1:
        raise invalid_parameter("window", "too many runs for several labels, which are read one by one: narrow it, or name a code")
    if sum(counts.values()) <= EXACT_ROWS or len(question.label_keys()) > 1:
        return _exact(question, list(_observations(connection, question, begin)))
    recent: list[Mapping[str, Any]] = []
    for code in sorted(counts):
        recent += _newest(connection, question, begin, code, DRIFT_ROWS // len(counts))
    return _from_histograms(connection, question, begin, _drifts(question, recent))


def _where(question: Question, begin: datetime | None, dimension: str) -> list[Any]:
    """Conditions on the daily histograms."""
    t = accuracy_daily.c
    found: list[Any] = [t.team_id == question.team_id, t.dimension == dimension]
    found += [t.label_value == value for value in question.labels.values()]
    if question.code is not None:
        found.append(t.code == question.code)
    if begin is not None:
        found.append(t.day >= begin.date())
    return found


def _dimension(question: Question, keys: Sequence[str]) -> str:
    """The rows that tell these keys apart and hold no more; at most one label is asked for."""
    labels = question.label_keys()
    if labels:
        return f"{'*' if keys else ''}label.{labels[0]}"
    return "" if not keys else history.KEYS[keys[0]] if len(keys) == 1 else "*"


def _counts(connection: Connection, question: Question, begin: datetime | None) -> dict[str, int]:
    """How many runs the question is about, by code; with several labels, which no histogram tells apart, how many runs there are at all."""
    t = accuracy_daily.c
    narrowed = question if len(question.label_keys()) <= 1 else replace(question, labels={}, group_by=())
    query = select(t.code, func.sum(t.n)).where(*_where(narrowed, begin, _dimension(narrowed, ()))).group_by(t.code)
    return {code: int(n) for code, n in connection.execute(query)}


def _observations(connection: Connection, question: Question, begin: datetime | None) -> Iterable[Mapping[str, Any]]:
    """Observations that stand, oldest first."""
    m = measurements.c
    wanted = question.label_keys()
    query = history.standing(select(*history.observation_columns(with_labels=bool(wanted)))).where(m.team_id == question.team_id)
    if question.code is not None:
        query = query.where(m.code == question.code)
    if begin is not None:
        query = query.where(m.observed_at >= begin)
    rows: Iterable[Any] = connection.execute(query.order_by(m.observed_at, m.id)).mappings()
    return _labelled(question, wanted, rows) if wanted else rows


def _newest(connection: Connection, question: Question, begin: datetime | None, code: str, limit: int) -> Iterable[Mapping[str, Any]]:
    """What drift needs of the latest observations of a code, oldest first."""
    m = measurements.c
    wanted = question.label_keys()
    names = ["observed_at", "code", "log_ratio", *(history.KEYS[name] for name in question.group_by if name in history.KEYS)]
    names += ["labels"] if wanted else []
    query = history.standing(select(*(m[name] for name in names))).where(m.team_id == question.team_id, m.code == code)
    if begin is not None:
        query = query.where(m.observed_at >= begin)
    found = connection.execute(query.order_by(m.observed_at.desc(), m.id.desc()).limit(limit)).all()
    rows = [dict(zip(names, row, strict=True)) for row in reversed(found)]
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
    if name in PERIODS:
        return _periods(day)[name]
    if name == OWN_TEAM:
        return question.team
    found: str | None = row[history.KEYS.get(name, name)]
    return found or None


def _lasting(question: Question) -> tuple[str, ...]:
    """What is grouped by, periods aside: bias drifts from one period to the next."""
    return tuple(name for name in question.group_by if name not in PERIODS)


def _exact(question: Question, rows: list[Mapping[str, Any]]) -> list[GroupFigures]:
    grouped: dict[tuple[Group, str], list[Verdict]] = {}
    for row in rows:
        group = _group(question, row, row["observed_at"].date(), question.group_by)
        grouped.setdefault((group, row["code"]), []).append(history.verdict(row))
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


def _row(question: Question, group: Group, code: str, summary: Summary, drifts: Drifts, *, exact: bool) -> GroupFigures:
    named = dict(zip(question.group_by, group, strict=True))
    alarm, change = drifts.of(named, code)
    return GroupFigures(group=named, code=code, summary=summary, exact=exact, drift=alarm, change=change)


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


def _periods(day: date) -> dict[str, str]:
    """The day, week and month that a day lies in, as groups name them."""
    year, week, _ = day.isocalendar()
    return {"day": day.isoformat(), "week": f"{year:04d}-W{week:02d}", "month": f"{day.year:04d}-{day.month:02d}"}


def _in_periods(day: date, group: Mapping[str, str | None]) -> bool:
    return all(group[name] == value for name, value in _periods(day).items() if name in group)


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


def _from_histograms(connection: Connection, question: Question, begin: datetime | None, drifts: Drifts) -> list[GroupFigures]:
    t = accuracy_daily.c
    keys = [name for name in question.group_by if name in history.KEYS]
    labels = [name for name in question.group_by if name.startswith(LABEL)]
    by_day = any(name in PERIODS for name in question.group_by)
    columns = [t.code, *([t.day] if by_day else []), *(t[history.KEYS[name]] for name in keys), *([t.label_value] if labels else [])]
    names = ("code", *(["day"] if by_day else []), *(history.KEYS[name] for name in keys), *labels)
    figures = (t.n, t.judged, t.within, t.losses, t.loss_micro)
    condition = _where(question, begin, _dimension(question, keys))
    # PostgreSQL puts the histograms of a group together itself, so that as many rows travel as there are groups (and days).
    if connection.dialect.name == "postgresql":
        joined = func.string_agg(t.histogram, literal_column("''::bytea"))
        query = select(*(func.sum(figure) for figure in figures), joined, *columns).where(*condition).group_by(*columns)
    else:
        query = select(*figures, t.histogram, *columns).where(*condition)
    rows = connection.execute(query).all()
    places: dict[tuple[Group, str], int] = {}
    known: dict[tuple[Any, ...], int] = {}
    groups = []
    for row in rows:
        values = tuple(row[6:])
        place = known.get(values)
        if place is None:
            named = dict(zip(names, values, strict=True))
            key = (_group(question, named, named.get("day", date.min), question.group_by), named["code"])
            place = known[values] = places.setdefault(key, len(places))
        groups.append(place)
    if not rows:
        return []
    histograms = histogram.add_up([bytes(row[5]) for row in rows], groups, len(places))
    sums = np.zeros((len(places), 5), dtype=np.int64)
    np.add.at(sums, groups, np.array([[int(figure) for figure in row[:5]] for row in rows], dtype=np.int64))
    found = []
    for key in sorted(places, key=_order):
        summary = _summary(key[1], histograms[places[key]], [int(value) for value in sums[places[key]]])
        found.append(_row(question, *key, summary, drifts, exact=False))
    return found


def _summary(code: str, counts: histogram.Counts, figures: Sequence[int]) -> Summary:
    n, judged, within, losses, loss_micro = figures
    median = histogram.ratio_quantile(counts, 0.5)
    return Summary(
        n=n,
        bias=-median if is_rate(code) else median,
        median_absolute_percentage_error=histogram.error_quantile(counts, 0.5),
        p90_absolute_percentage_error=histogram.error_quantile(counts, 0.9),
        **coverage_figures(judged=judged, within=within, losses=losses, loss_sum=loss_micro / 1e6),
    )
