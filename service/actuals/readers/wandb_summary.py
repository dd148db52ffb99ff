"""W&B: ``wandb-summary.json``, or a run as the API exports it ({state, summary or summaryMetrics})."""

from __future__ import annotations

from typing import Any

from ..measurement import Attempt, Collector, Hints, Outcome, Reading, Unreadable, Value
from .base import as_object, before, dig, first, inferred, number, parse_time
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
    ended = parse_time(summary.get("_timestamp"))
    said = hints.outcome or _OUTCOMES.get(state)
    attempt = Attempt(
        source="wandb",
        outcome=said or "completed",
        covers=("training", "evaluation", "checkpointing"),
        steps_completed=steps,
        started_at=before(ended, runtime or None),
        ended_at=ended,
        device_count=hints.device_count,
        job_id=run.get("id") if isinstance(run.get("id"), str) else None,
        values=tuple(into.values) if said else inferred(into.values),
    )
    return Reading(attempts=(attempt,), ignored=tuple(into.ignored))
