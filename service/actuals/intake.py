"""From a body to attempts: values as they were given, or a document read, its job chosen and its gaps filled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from service.estimation.codes import CODES
from service.kit.documents import MAXIMUM_FAULTS, MAXIMUM_HINTS, nearest
from service.kit.problems import Fault, Invalid

from . import codes, rules
from .measurement import Attempt, Hints, Ignored, Reading, Unreadable, Value
from .quoted import Quoted
from .readers import read
from .readers.slurm import MOST_JOBS
from .schemas import MOST_ATTEMPTS, MOST_NOTES, Actuals

DOCUMENT = "/document"
LONGEST_NAME = 200  # of a job; what the column holds
_MOST = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """What is to be recorded."""

    attempts: tuple[Attempt, ...]
    ignored: tuple[Ignored, ...] = ()
    numbered: bool = True  # whether the caller numbered the attempt


def given(body: Actuals) -> Attempt:
    """The attempt that the body itself describes."""
    return Attempt(
        source=body.source or "api",
        attempt=body.attempt or 1,
        outcome=body.outcome or "completed",
        covers=None if body.covers is None else tuple(dict.fromkeys(body.covers)),
        steps_completed=body.steps_completed,
        started_at=body.started_at,
        ended_at=body.ended_at,
        device_count=body.device_count,
        job_id=body.job_id,
        values=tuple(
            Value(
                code=entry.code,
                value=entry.value,
                method=entry.method,
                scope=entry.scope,
                excludes=tuple(dict.fromkeys(entry.exclusions)),
                basis=entry.basis,
                corrects=entry.corrects,
                flags=tuple(dict.fromkeys(entry.flags)),
                repeats=entry.repeats,
                spread=entry.spread,
            )
            for entry in body.measurements
        ),
    )


def read_document(body: Actuals, quoted_device_count: int | None = None) -> Reading:
    """The document read; what is not as its format says is refused with a pointer into it."""
    assert body.format is not None
    hints = Hints(device_count=body.device_count, quoted_device_count=quoted_device_count, outcome=body.outcome)
    try:
        reading = read(body.format, body.document, hints)
    except Unreadable as problem:
        raise refused(DOCUMENT + problem.pointer, f"{body.format}: {problem.detail}") from None
    if len(reading.attempts) > MOST_JOBS:
        raise refused(DOCUMENT, f"{body.format}: more than {MOST_JOBS} attempts of jobs: send them in parts")
    for attempt in reading.attempts:
        # A document sent as text is not seen by the gates that a body passes.
        if any(name and not _storable(name) for name in (attempt.job_id, *attempt.job_names)):
            raise refused(DOCUMENT, f"{body.format}: the name of a job is too long, or holds what cannot be stored")
        if (attempt.steps_completed or 0) > _MOST or (attempt.device_count or 0) > _MOST:
            raise refused(DOCUMENT, f"{body.format}: a count is beyond 2**53")
    return reading


def told(notes: Sequence[Ignored]) -> Sequence[Ignored]:
    """The notes that an answer holds; of further ones it says how many there are."""
    if len(notes) <= MOST_NOTES:
        return notes
    return [*notes[:MOST_NOTES], Ignored(pointer="", detail=f"and {len(notes) - MOST_NOTES} further parts")]


def _storable(name: str) -> bool:
    return len(name) <= LONGEST_NAME and "\0" not in name and not any("\ud800" <= letter <= "\udfff" for letter in name)


def complete(reading: Reading, body: Actuals) -> Intake:
    """The document's attempts with what the body adds; the body's word stands above the document's."""
    single = len(reading.attempts) == 1
    if len(reading.attempts) > MOST_ATTEMPTS:
        raise refused(DOCUMENT, f"more than {MOST_ATTEMPTS} attempts of one run")
    if not single and reading.attempts:
        for name in ("attempt", "outcome", "started_at", "ended_at"):
            if getattr(body, name) is not None:
                raise refused(f"/{name}", "the document holds several attempts, which say this themselves")
    changes: dict[str, Any] = {
        "source": body.source,
        "covers": None if body.covers is None else tuple(dict.fromkeys(body.covers)),
        "steps_completed": body.steps_completed,
        "device_count": body.device_count,
    }
    if single:
        changes |= {"attempt": body.attempt, "started_at": body.started_at, "ended_at": body.ended_at, "outcome": body.outcome}
    known = {name: value for name, value in changes.items() if value is not None}
    attempts = tuple(replace(attempt, **{"job_id": attempt.job_id or body.job_id, **known}) for attempt in reading.attempts)
    return Intake(attempts=attempts, ignored=reading.ignored, numbered=body.attempt is not None)


def check(intake: Intake, quoted: Quoted, document: bool) -> Intake:
    """Refuse what cannot be, with a pointer to it; flag what is unlikely."""
    faults: list[Fault] = []
    for attempt in intake.attempts:
        for index, value in enumerate(attempt.values):
            if not codes.known(value.code, quoted.items):
                near = nearest(value.code, sorted({*CODES, *quoted.items})) if len(faults) < MAXIMUM_HINTS else ""
                faults.append(Fault(f"/measurements/{index}/code", "no such item" + near))
        for found in rules.impossible(attempt, quoted):
            if document:
                code = _code_at(found.pointer, attempt)
                faults.append(Fault(DOCUMENT, f"{code}: {found.detail}" if code else found.detail))
            else:
                faults.append(Fault(found.pointer, found.detail))
        if not document and not attempt.values and _window_value(attempt) is None:
            faults.append(Fault("/measurements", "no measurement, and not started_at, ended_at and device_count that would give one"))
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise Invalid(f"{faults[0].pointer or 'the body'}: {faults[0].detail}{more}", errors=faults[:MAXIMUM_FAULTS])
    attempts = (attempt if attempt.values else replace(attempt, values=_window(attempt)) for attempt in intake.attempts)
    return replace(intake, attempts=tuple(rules.flagged(attempt, quoted) for attempt in attempts))


def _code_at(pointer: str, attempt: Attempt) -> str | None:
    parts = pointer.split("/")
    return attempt.values[int(parts[2])].code if len(parts) > 2 and parts[1] == "measurements" else None


def _window(attempt: Attempt) -> tuple[Value, ...]:
    value = _window_value(attempt)
    return () if value is None else (value,)


def _window_value(attempt: Attempt) -> Value | None:
    """The hours of an attempt that gives its window and devices alone: a failed try must not vanish from the ledger."""
    if attempt.started_at is None or attempt.ended_at is None or attempt.device_count is None:
        return None
    hours = (attempt.ended_at - attempt.started_at).total_seconds() * attempt.device_count / 3600
    return Value(code="device_hours.run", value=hours, method="(ended_at - started_at) x device_count", basis="allocated")


def refused(pointer: str, detail: str) -> Invalid:
    """One bad value."""
    return Invalid(f"{pointer or 'the body'}: {detail}", errors=[Fault(pointer, detail)])
