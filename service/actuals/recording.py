"""Appending measurements: attempts numbered, replays told from conflicts, corrections linked, observations made.

Everything here happens in one transaction that holds the quote's row (``repository.hold``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import Connection

from service.kit.identifiers import uuid7
from service.kit.problems import Conflict, Fault
from service.quotes.repository import Stored, record_event

from . import repository
from .comparing import observe
from .comparison import current, grouped
from .intake import Intake, refused
from .measurement import Attempt, KeptMeasurement, Measurement, Observation, QuotedFigures, Value
from .quoted import Quoted

_Key = tuple[str, int, str, str, str]  # source, attempt, code, method, scope

MOST_MEASUREMENTS = 20_000  # of one quote: a run restarted every hour for a year has half of them

# A reading whose times have no zone may differ from one that has by whole quarters of an hour, up to this many.
_ZONE_STEP_SECONDS, _ZONE_MOST_SECONDS = 900, 14 * 3600


@dataclass(frozen=True, slots=True)
class Recording:
    """What became of a request: its measurements in their order, and which of them are new."""

    all: list[KeptMeasurement]
    new: list[KeptMeasurement]


def record(connection: Connection, team_id: str, quote: Stored, quoted: Quoted, intake: Intake, now: datetime, document: bool) -> Recording:
    """Append what is new. The same value again is a replay, another value without ``corrects`` a conflict."""
    keys = repository.hold(connection, team_id, quote.id)
    existing = repository.all_of(connection, team_id, quote.id)
    known = _Known(one.measurement for one in existing)
    answered: list[Measurement] = []
    new: list[Measurement] = []
    for attempt in intake.attempts:
        numbered = attempt if intake.numbered and attempt.attempt else _number(attempt, known)
        for index, value in enumerate(numbered.values):
            pointer = "/document" if document else f"/measurements/{index}"
            found = _found(known, numbered, value, pointer)
            if found is None:
                found = _measurement(numbered, value)
                known.add(found)
                new.append(found)
            answered.append(found)
    if len(existing) + len(new) > MOST_MEASUREMENTS:
        raise Conflict(f"a quote may have {MOST_MEASUREMENTS} measurements; {len(existing)} are recorded")
    changes = _observations(existing, new, quoted)
    kept = [
        KeptMeasurement(
            measurement=one,
            team_id=team_id,
            quote_id=quote.id,
            created_at=now,
            observed_at=one.ended_at or now,
            quoted=_quoted_figures(quoted, one.code),
            keys=keys,
            observation=changes[one.id].observation if one.id in changes else None,
            replaces_id=changes[one.id].replaces_id if one.id in changes else None,
        )
        for one in new
    ]
    repository.add(connection, kept)
    if any(_measures_the_run(one) for one in new):
        record_event(connection, quote.id, "measured", now)
    by_id = {one.measurement.id: one for one in (*existing, *kept)}
    return Recording([by_id[one.id] for one in answered], kept)


def _quoted_figures(quoted: Quoted, code: str) -> QuotedFigures:
    item = quoted.items.get(code)
    return QuotedFigures(
        expected=None if item is None else item.expected,
        low=None if item is None else item.low,
        high=None if item is None else item.high,
        uncalibrated=None if item is None else item.uncalibrated,
        interval_coverage=quoted.interval_coverage,
    )


def _measures_the_run(one: Measurement) -> bool:
    """Whether a measurement is of a run that is known to have completed its training."""
    covered = one.covers is None or "training" in one.covers
    return one.outcome == "completed" and covered and "outcome_inferred" not in one.flags


class _Known:
    """The quote's measurements as a request goes on, by what each question asks of them: a run may have thousands."""

    def __init__(self, measurements: Iterable[Measurement]) -> None:
        self.by_id: dict[str, Measurement] = {}
        self.first: dict[_Key, Measurement] = {}  # of a code of an attempt: the value that corrects none
        self.correction: dict[str, Measurement] = {}  # the first of the measurement with that id
        self._of_attempt: dict[str, dict[int, Measurement]] = {}  # by source: the last value of each attempt
        self._started: dict[tuple[str, str | None, datetime], set[int]] = {}  # attempts of a source's job by their start
        self._highest: dict[str, int] = {}
        for one in measurements:
            self.add(one)

    def add(self, one: Measurement) -> None:
        """One more."""
        self.by_id[one.id] = one
        if one.corrects_id is None:
            self.first.setdefault(_key(one), one)
        else:
            self.correction.setdefault(one.corrects_id, one)
        self._of_attempt.setdefault(one.source, {})[one.attempt] = one
        self._highest[one.source] = max(one.attempt, self._highest.get(one.source, 0))
        if one.started_at is not None:
            self._started.setdefault((one.source, one.job_id, one.started_at), set()).add(one.attempt)

    def holder(self, source: str, attempt: int) -> Measurement | None:
        """A value of the attempt with that number."""
        return self._of_attempt.get(source, {}).get(attempt)

    def next_number(self, source: str) -> int:
        """The number after the source's highest."""
        return self._highest[source] + 1

    def same(self, attempt: Attempt) -> int | None:
        """The lowest number under which the attempt itself is known."""
        if attempt.started_at is None:
            return None
        numbers: set[int] = set()
        for steps in range(-_ZONE_MOST_SECONDS // _ZONE_STEP_SECONDS, _ZONE_MOST_SECONDS // _ZONE_STEP_SECONDS + 1):
            with suppress(OverflowError):
                start = attempt.started_at + steps * timedelta(seconds=_ZONE_STEP_SECONDS)
                numbers |= self._started.get((attempt.source, attempt.job_id, start), set())
        for number in sorted(numbers):
            one = self._of_attempt[attempt.source][number]
            if one.job_id == attempt.job_id and _same_window(one, attempt):
                return number
        return None


def _number(attempt: Attempt, known: _Known) -> Attempt:
    """The number of an attempt that its document could not number for good: that of the same attempt where it is known."""
    number = known.same(attempt)
    if number is None:
        number = attempt.attempt or 1
        holder = known.holder(attempt.source, number)
        unplaced = holder is not None and (holder.started_at is None or attempt.started_at is None)
        if holder is not None and not (unplaced and holder.job_id == attempt.job_id):
            number = known.next_number(attempt.source)
    return replace(attempt, attempt=number)


def _same_window(one: Measurement, attempt: Attempt) -> bool:
    """Whether a stored measurement's attempt is this one by when it started (and ended, where the zone of one of the two clocks
    is not known).
    """
    if one.started_at is None or attempt.started_at is None:
        return False
    shift = (one.started_at - attempt.started_at).total_seconds()
    if shift == 0:
        return True
    if ("zone_assumed" in one.flags) == any("zone_assumed" in value.flags for value in attempt.values):
        return False
    if one.ended_at is None or attempt.ended_at is None or shift != (one.ended_at - attempt.ended_at).total_seconds():
        return False
    return bool(shift % _ZONE_STEP_SECONDS == 0 and abs(shift) <= _ZONE_MOST_SECONDS)


def _key(one: Measurement) -> _Key:
    return (one.source, one.attempt, one.code, one.method, one.scope or "")


def _found(known: _Known, attempt: Attempt, value: Value, pointer: str) -> Measurement | None:
    """The measurement that this value repeats; raises where it contradicts one."""
    assert attempt.attempt is not None
    key = (attempt.source, attempt.attempt, value.code, value.method, value.scope or "")
    if value.corrects is None:
        one = known.first.get(key)
        if one is None or one.value == value.value:
            return one
        detail = "another value is stored for this code, method and scope of this attempt; name it in `corrects` to correct it"
        raise Conflict(detail, errors=[Fault(pointer + "/value", f"stored as measurement {one.id}")])
    target = known.by_id.get(value.corrects)
    if target is None:
        raise refused(pointer + "/corrects", "this quote has no such measurement")
    if _key(target) != key:
        raise refused(pointer + "/corrects", "that measurement has another source, attempt, code, method or scope")
    later = known.correction.get(target.id)
    if later is None or later.value == value.value:
        return later
    detail = "that measurement was corrected before, to another value; correct the correction"
    raise Conflict(detail, errors=[Fault(pointer + "/corrects", f"corrected by measurement {later.id}")])


def _measurement(attempt: Attempt, value: Value) -> Measurement:
    """A value of an attempt, numbered."""
    assert attempt.attempt is not None
    return Measurement(
        id=uuid7(),
        source=attempt.source,
        attempt=attempt.attempt,
        outcome=attempt.outcome,
        code=value.code,
        value=float(value.value),
        method=value.method,
        scope=value.scope,
        basis=value.basis,
        covers=attempt.covers,
        excludes=value.excludes,
        flags=value.flags,
        steps_completed=attempt.steps_completed,
        started_at=attempt.started_at,
        ended_at=attempt.ended_at,
        device_count=attempt.device_count,
        job_id=attempt.job_id,
        corrects_id=value.corrects,
        repeats=value.repeats,
        spread=value.spread,
    )


@dataclass(frozen=True, slots=True)
class _Change:
    """A group's new observation, and the id of the measurement that carried the old one."""

    observation: Observation | None
    replaces_id: str | None


def _observations(existing: Sequence[KeptMeasurement], new: Sequence[Measurement], quoted: Quoted) -> dict[str, _Change]:
    """What changed of what groups say of the quote, by the id of the group's last new measurement: that row will carry it."""
    standing = current([*(one.measurement for one in existing), *new])
    replaced = {one.replaces_id for one in existing}
    heads: dict[tuple[str, str, str, str], KeptMeasurement] = {}
    for one in existing:
        if one.observation is not None and one.measurement.id not in replaced:
            heads.setdefault(one.measurement.group, one)
    members_of = {members[0].group: members for members in grouped(standing)}
    changes: dict[str, _Change] = {}
    for group, last in {one.group: one for one in new}.items():
        members = members_of.get(group, [])
        found, head = observe(quoted, members) if members else None, heads.get(group)
        if head is not None and found == head.observation:
            continue
        changes[last.id] = _Change(found, None if head is None else head.measurement.id)
    return changes
