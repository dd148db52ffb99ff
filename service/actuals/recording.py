"""Appending measurements: attempts numbered, replays told from conflicts, corrections linked, observations made.

Everything here happens in one transaction that holds the quote's row (``repository.hold``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from service.kit.identifiers import uuid7
from service.kit.problems import Conflict, Fault
from service.quotes.repository import Stored, record_event

from . import repository
from .comparing import observe
from .comparison import current
from .intake import Intake, refused
from .measurement import Attempt, Value
from .quoted import Quoted

_Row = dict[str, Any]
_Key = tuple[str, int, str, str, str]  # source, attempt, code, method, scope

# A reading whose times have no zone may differ from one that has by whole quarters of an hour, up to this many.
_ZONE_STEP_SECONDS, _ZONE_MOST_SECONDS = 900, 14 * 3600


@dataclass(slots=True)
class Recording:
    """What became of a request: rows in the order of its values, and which of them are new."""

    rows: list[_Row]
    new: list[_Row]


def record(connection: Connection, team_id: str, quote: Stored, quoted: Quoted, intake: Intake, now: datetime, document: bool) -> Recording:
    """Append what is new. The same value again is a replay, another value without ``corrects`` a conflict."""
    keys = repository.hold(connection, team_id, quote.id)
    stored: list[_Row] = [dict(row._mapping) for row in repository.all_of(connection, team_id, quote.id)]
    existing = list(stored)
    rows: list[_Row] = []
    new: list[_Row] = []
    for attempt in intake.attempts:
        numbered = attempt if intake.numbered and attempt.attempt else _number(attempt, stored)
        for index, value in enumerate(numbered.values):
            pointer = "/document" if document else f"/measurements/{index}"
            found = _found(stored, numbered, value, pointer)
            if found is None:
                found = _new_row(numbered, value, team_id, quote, quoted, keys, now)
                stored.append(found)
                new.append(found)
            rows.append(found)
    _add_observations(existing, new, quoted)
    repository.add(connection, new)
    if any(_measures_the_run(row) for row in new):
        record_event(connection, quote.id, "measured", now)
    return Recording(rows, new)


def _measures_the_run(row: Mapping[str, Any]) -> bool:
    """Whether a row is of a run that is known to have completed its training."""
    covers: str | None = row["covers"]
    covered = covers is None or "training" in covers.split()
    return row["outcome"] == "completed" and covered and "outcome_inferred" not in row["flags"].split()


def _number(attempt: Attempt, stored: Sequence[Mapping[str, Any]]) -> Attempt:
    """The number of an attempt that its document could not number for good: that of the same attempt where it is known."""
    known = {row["attempt"]: row for row in stored if row["source"] == attempt.source}
    for number, row in sorted(known.items()):
        if row["job_id"] == attempt.job_id and _same_window(row, attempt):
            return replace(attempt, attempt=number)
    proposed = attempt.attempt or 1
    taken = known.get(proposed)
    unplaced = taken is not None and (taken["started_at"] is None or attempt.started_at is None)
    if taken is None or (unplaced and taken["job_id"] == attempt.job_id):
        return replace(attempt, attempt=proposed)
    return replace(attempt, attempt=max(known) + 1)


def _same_window(row: Mapping[str, Any], attempt: Attempt) -> bool:
    """Whether a stored row's attempt is this one by when it started (and ended, where the zone of one of the two clocks
    is not known).
    """
    if row["started_at"] is None or attempt.started_at is None:
        return False
    shift = (row["started_at"] - attempt.started_at).total_seconds()
    if shift == 0:
        return True
    if ("zone_assumed" in row["flags"].split()) == any("zone_assumed" in value.flags for value in attempt.values):
        return False
    if row["ended_at"] is None or attempt.ended_at is None or shift != (row["ended_at"] - attempt.ended_at).total_seconds():
        return False
    return bool(shift % _ZONE_STEP_SECONDS == 0 and abs(shift) <= _ZONE_MOST_SECONDS)


def _key(row: Mapping[str, Any]) -> _Key:
    return (row["source"], row["attempt"], row["code"], row["method"], row["scope"])


def _found(stored: Sequence[_Row], attempt: Attempt, value: Value, pointer: str) -> _Row | None:
    """The stored row that this value repeats; raises where it contradicts one."""
    assert attempt.attempt is not None
    key = (attempt.source, attempt.attempt, value.code, value.method, value.scope or "")
    if value.corrects is None:
        row = next((row for row in stored if row["corrects_id"] is None and _key(row) == key), None)
        if row is None or row["value"] == value.value:
            return row
        detail = "another value is stored for this code, method and scope of this attempt; name it in `corrects` to correct it"
        raise Conflict(detail, errors=[Fault(pointer + "/value", f"stored as measurement {row['id']}")])
    target = next((row for row in stored if row["id"] == value.corrects), None)
    if target is None:
        raise refused(pointer + "/corrects", "this quote has no such measurement")
    if _key(target) != key:
        raise refused(pointer + "/corrects", "that measurement has another source, attempt, code, method or scope")
    later = next((row for row in stored if row["corrects_id"] == target["id"]), None)
    if later is None or later["value"] == value.value:
        return later
    detail = "that measurement was corrected before, to another value; correct the correction"
    raise Conflict(detail, errors=[Fault(pointer + "/corrects", f"corrected by measurement {later['id']}")])


def _new_row(
    attempt: Attempt, value: Value, team_id: str, quote: Stored, quoted: Quoted, keys: repository.QuoteKeys, now: datetime
) -> _Row:
    item = quoted.items.get(value.code)
    group_keys = asdict(keys)
    return {
        "id": uuid7(),
        "team_id": team_id,
        "quote_id": quote.id,
        "created_at": now,
        "observed_at": attempt.ended_at or now,
        "source": attempt.source,
        "job_id": attempt.job_id,
        "attempt": attempt.attempt,
        "outcome": attempt.outcome,
        "covers": None if attempt.covers is None else " ".join(attempt.covers),
        "steps_completed": attempt.steps_completed,
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
        "device_count": attempt.device_count,
        "code": value.code,
        "value": float(value.value),
        "method": value.method,
        "scope": value.scope or "",
        "basis": value.basis,
        "excludes": " ".join(value.excludes),
        "flags": " ".join(value.flags),
        "repeats": value.repeats,
        "spread": value.spread,
        "corrects_id": value.corrects,
        "estimated": item.expected if item else None,
        "low": item.low if item else None,
        "high": item.high if item else None,
        "uncalibrated": item.uncalibrated if item else None,
        "interval_coverage": quoted.interval_coverage,
        "observed_value": None,
        "log_ratio": None,
        "censored": False,
        "drift": None,
        "replaces_id": None,
        **group_keys,
        "labels": json.dumps(group_keys["labels"], sort_keys=True),
    }


def _add_observations(existing: Sequence[_Row], new: Sequence[_Row], quoted: Quoted) -> None:
    """Say on the last new row of each group what the group says of the quote now, and whose word that replaces."""
    standing = current(repository.measured(row) for row in (*existing, *new))
    last: dict[tuple[str, str, str, str], _Row] = {}
    for row in new:
        last[repository.measured(row).group] = row
    replaced = {row["replaces_id"] for row in existing}
    for group, row in last.items():
        members = [value for value in standing if value.group == group]
        found = observe(quoted, members) if members else None
        head = next(
            (
                old
                for old in existing
                if repository.measured(old).group == group and old["observed_value"] is not None and old["id"] not in replaced
            ),
            None,
        )
        said = None if found is None else (found.value, found.log_ratio, found.censored, found.drift)
        if head is not None and said == (head["observed_value"], head["log_ratio"], head["censored"], head["drift"]):
            continue
        if found is not None:
            row["observed_value"], row["log_ratio"], row["censored"], row["drift"] = (
                found.value,
                found.log_ratio,
                found.censored,
                found.drift,
            )
        if head is not None:
            row["replaces_id"] = head["id"]
