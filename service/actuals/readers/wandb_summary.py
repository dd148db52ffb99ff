"""W&B: ``wandb-summary.json``, or a run as the API exports it ({state, summary or summaryMetrics})."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ..measurement import Attempt, Collector, Hints, Outcome, Reading, Unreadable, Value
from .base import as_json, as_object, dig, first, number, parse_time
from .metrics import metric_values

_OUTCOMES: dict[str, Outcome] = {
    "finished": "completed",
    "failed": "failed",
    "crashed": "failed",
    "killed": "cancelled",
    "preempted": "preempted",
    "preempting": "preempted",
}


def read(document: Any, hints: Hints) -> Reading:
    """One attempt: W&B's own clock of the process, and the trainer's keys in the summary."""
    run = as_object(document, "a W&B summary")
    nested = first((run.get("summary"), run.get("summaryMetrics"), dig(run, "run", "summaryMetrics")))
    summary = as_object(nested, "the summary of a W&B run") if nested is not None else run
    state = str(first((run.get("state"), dig(run, "run", "state"))) or "")
    if state == "running":
        raise Unreadable("the run has not ended: its summary is not final", "/state")
    into = Collector()
    runtime = first((number(dig(summary, "_wandb", "runtime")), number(summary.get("_runtime"))))
    if runtime:
        into.values.append(Value(code="time.wall_clock", value=runtime, method="wandb _runtime", flags=("window_only",)))
    steps = metric_values(summary, hints, into)
    if not into.values:
        raise Unreadable("no _runtime and no key of a known trainer in the summary")
    ended = parse_time(as_json(summary).get("_timestamp"))
    attempt = Attempt(
        source="wandb",
        outcome=hints.outcome or _OUTCOMES.get(state, "completed"),
        covers=("training", "evaluation", "checkpointing"),
        steps_completed=steps,
        started_at=ended - timedelta(seconds=runtime) if ended and runtime else None,
        ended_at=ended,
        device_count=hints.device_count,
        job_id=run.get("id") if isinstance(run.get("id"), str) else None,
        values=tuple(into.values),
    )
    return Reading(attempts=(attempt,), ignored=tuple(into.ignored))
