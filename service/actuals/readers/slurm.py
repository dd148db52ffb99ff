"""What the three Slurm readers share: one accounting record is one attempt of a job.

Traps this code answers, seen on a real Slurm (tests/cases/slurm): the typed and the untyped gres are both listed and
must not be added; a requeued attempt is a record of its own, which ``jobcomp`` reports as PENDING; a job cancelled
while pending holds no devices; ``elapsed`` leaves suspension out, end minus start does not; time limits are minutes
in sacct and seconds in jobcomp.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ..measurement import MIB, Attempt, Collector, Hints, Outcome, Phase, Reading, Unreadable, Value
from .base import count, devices, number, seconds_between

MOST_JOBS = 20_000  # records of one document: about half a second's work
METHOD = "scheduler accounting"
# The allocation covers whatever the job did, from its start to its end.
COVERS: tuple[Phase, ...] = ("startup", "training", "evaluation", "checkpointing", "data")
_QUOTE = re.compile(r"quote:([0-9A-Za-z_-]+)")
_SUFFIX = {"": 1, "K": 2**10, "M": MIB, "G": 2**30, "T": 2**40, "P": 2**50}

# Job states, https://slurm.schedmd.com/sacct.html#SECTION_JOB-STATE-CODES. A requeued attempt was taken off its
# devices to run again, as a preempted one is.
_OUTCOMES: Mapping[str, Outcome] = {
    "COMPLETED": "completed",
    "FAILED": "failed",
    "NODE_FAIL": "failed",
    "OUT_OF_MEMORY": "failed",
    "BOOT_FAIL": "failed",
    "LAUNCH_FAILED": "failed",
    "REVOKED": "cancelled",
    "CANCELLED": "cancelled",
    "TIMEOUT": "timeout",
    "DEADLINE": "timeout",
    "PREEMPTED": "preempted",
    "REQUEUED": "preempted",
    "REQUEUE_HOLD": "preempted",
    "REQUEUE_FED": "preempted",
    "SPECIAL_EXIT": "preempted",
}
_UNFINISHED = {"RUNNING", "PENDING", "SUSPENDED", "CONFIGURING", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED"}


@dataclass(slots=True, kw_only=True)
class Record:
    """One record of an attempt, with the units already those of this service."""

    job_id: str  # the raw id
    pointer: str  # where it stands in the document
    state: str
    names: tuple[str, ...] = ()
    cluster: str | None = None
    submit: datetime | None = None
    start: datetime | None = None
    end: datetime | None = None
    elapsed_seconds: float | None = None
    time_limit_seconds: float | None = None
    tres: Mapping[str, str | float] | None = None
    device_memory_bytes: float | None = None  # the largest of any task, from the steps
    tasks: int | None = None  # of the step that had it
    restarts: int = 0
    zone_assumed: bool = False  # the times were written without a zone
    text: str = ""  # comments and script, searched for the quote's id


def refuse_many(records: int, pointer: str = "") -> None:
    """Refuse a document of more records than are read at a time, before any is."""
    if records > MOST_JOBS:
        raise Unreadable(f"{records} jobs; at most {MOST_JOBS} are read at a time: send them in parts", pointer)


def tres(text: str) -> dict[str, str | float]:
    """Trackable resources from ``cpu=1,gres/gpu=4,mem=512M``."""
    pairs = (part.partition("=") for part in text.split(",") if "=" in part)
    return {name.strip(): value.strip() for name, _, value in pairs}


def tres_list(entries: Any) -> dict[str, str | float]:
    """Trackable resources from the list of objects that ``sacct --json`` gives."""
    found: dict[str, str | float] = {}
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or (value := number(entry.get("count"))) is None:
            continue
        name = f"{entry.get('type')}/{entry['name']}" if entry.get("name") else str(entry.get("type"))
        found[name] = value
    return found


def size_bytes(value: str | float | None) -> float | None:
    """Bytes from ``38888M`` (binary units) or a plain number of bytes."""
    if isinstance(value, int | float):
        return float(value)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGTP]?)[nc]?", (value or "").strip())
    return float(match[1]) * _SUFFIX[match[2]] if match else None


def device_count(resources: Mapping[str, str | float]) -> int | None:
    """Devices of an allocation: the untyped entry, which holds all of them; the typed ones are added only without it."""
    if (whole := count(resources.get("gres/gpu"))) is not None:
        return whole
    typed = [count(value) or 0 for name, value in resources.items() if name.startswith("gres/gpu:")]
    return count(sum(typed)) if typed else None


def reading(records: Iterable[Record], hints: Hints, *, requeued_as_pending: bool = False) -> Reading:
    """Attempts of every job in the records, numbered by submission within a job."""
    never = datetime.max.replace(tzinfo=UTC)
    ordered = sorted(records, key=lambda record: (record.job_id, record.submit or never, record.start or never))
    notes = Collector()
    attempts: list[Attempt] = []
    numbers: dict[str, int] = {}
    if not ordered:
        raise Unreadable("the document holds no jobs")
    seen = Counter(record.job_id for record in ordered)
    for record in ordered:
        outcome = _outcome(record, notes, requeued_as_pending)
        if outcome is None:
            continue
        numbers[record.job_id] = numbers.get(record.job_id, 0) + 1
        flags = ("earlier_attempts_missing",) if record.restarts >= seen[record.job_id] else ()
        attempts.append(_attempt(record, outcome, numbers[record.job_id], flags, hints, notes))
    return Reading(attempts=tuple(attempts), ignored=tuple(notes.ignored))


def _outcome(record: Record, notes: Collector, requeued_as_pending: bool) -> Outcome | None:
    state = record.state.split()[0].rstrip("+") if record.state else ""  # "CANCELLED by 0"
    if requeued_as_pending and state == "PENDING" and record.end is not None and record.elapsed_seconds:
        return "preempted"  # jobcomp writes the state that the requeued job went into
    if state in _UNFINISHED:
        notes.ignore(record.pointer, f"job {record.job_id} has not ended ({state}): nothing is measured yet")
        return None
    outcome = _OUTCOMES.get(state)
    if outcome is None:
        raise Unreadable(f"job {record.job_id} has a state that Slurm does not document", f"{record.pointer}/state")
    if not record.elapsed_seconds and (record.start is None or not record.tres):
        notes.ignore(record.pointer, f"job {record.job_id} ended before it started ({state}): it held no devices")
        return None
    return outcome


def _attempt(record: Record, outcome: Outcome, proposed: int, job_flags: tuple[str, ...], hints: Hints, notes: Collector) -> Attempt:
    resources = record.tres or {}
    found, flags = devices(hints, device_count(resources))
    flags += job_flags
    if any(name.startswith("gres/shard") for name in resources):
        flags += ("shared_device",)
    window = seconds_between(record.start, record.end)
    elapsed = record.elapsed_seconds if record.elapsed_seconds is not None else window
    if elapsed is None:
        raise Unreadable(f"job {record.job_id} has neither elapsed time nor start and end", record.pointer)
    if window is not None and abs(window - elapsed) > max(60.0, 0.01 * elapsed):
        flags += ("elapsed_differs_from_window",)
    if record.zone_assumed:
        flags += ("zone_assumed",)
    if record.time_limit_seconds and elapsed > record.time_limit_seconds + 600:
        flags += ("over_time_limit",)
    values = [Value(code="time.wall_clock", value=elapsed, method=METHOD, flags=flags)]
    if found is None:
        notes.ignore(record.pointer, f"the devices of job {record.job_id} are not tracked: say device_count to have device-hours")
    else:
        hours = elapsed * found / 3600
        values.insert(0, Value(code="device_hours.run", value=hours, method=METHOD, basis="allocated", flags=flags))
    if memory := _memory(record, found, notes):
        values.append(memory)
    cluster = (f"{record.cluster}/{name}" for name in (record.job_id, *record.names)) if record.cluster else ()
    return Attempt(
        source="slurm",
        job_id=record.job_id,
        job_names=(*record.names, *cluster),
        quote_ids=tuple(dict.fromkeys(_QUOTE.findall(record.text))),
        attempt=proposed,
        outcome=outcome,
        covers=COVERS,
        started_at=record.start,
        ended_at=record.end,
        device_count=found,
        values=tuple(values),
    )


def _memory(record: Record, found: int | None, notes: Collector) -> Value | None:
    """Peak device memory from ``gres/gpumem``: the largest task, so a device's only where every task has one device."""
    if record.device_memory_bytes is None:
        return None
    where = f"{record.pointer}/tres"
    if record.device_memory_bytes == 0:
        notes.ignore(where, "gres/gpumem is 0: it is not gathered on this device (MIG, GH200, AMD)")
        return None
    if found is None or record.tasks is None or record.tasks < found:
        notes.ignore(where, "gres/gpumem is the maximum over tasks, and a task has several devices: not a device's peak")
        return None
    return Value(code="memory.peak_process", value=record.device_memory_bytes, method="gres/gpumem", scope="max", flags=("sampled",))
