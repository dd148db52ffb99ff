"""An MLflow run as its REST API gives it: ``info`` with times in milliseconds, ``data.metrics`` with last values only."""

from __future__ import annotations

from typing import Any

from ..measurement import Attempt, Collector, Hints, Outcome, Reading, Unreadable, Value
from .base import as_object, dig, number, objects, parse_time, seconds_between
from .metrics import metric_values

_OUTCOMES: dict[str, Outcome] = {"FINISHED": "completed", "FAILED": "failed", "KILLED": "cancelled"}


def read(document: Any, hints: Hints) -> Reading:
    """One attempt: the run's start to its end, and the trainer's metrics."""
    answer = as_object(document, "an MLflow run")
    run = answer.get("run", answer)
    info = run.get("info") if isinstance(run, dict) else None
    if not isinstance(info, dict):
        raise Unreadable("an MLflow run has an object `info`", "/run/info")
    status = str(info.get("status"))
    if status in {"RUNNING", "SCHEDULED"}:
        raise Unreadable(f"the run has not ended ({status})", "/run/info/status")
    into = Collector()
    started, ended = (parse_time(_seconds(info.get(key))) for key in ("start_time", "end_time"))
    window = seconds_between(started, ended)
    if window is not None and window > 0:
        into.values.append(Value(code="time.wall_clock", value=window, method="mlflow end_time - start_time"))
    rows = objects(dig(run, "data", "metrics"))
    metrics = {row["key"]: row.get("value") for row in rows if isinstance(row.get("key"), str)}
    for key in metrics:
        if key.startswith("system/gpu"):
            into.ignore(f"/run/data/metrics/{key}", "the last sample, not the peak: send the metric's history as a peak")
    steps = metric_values(metrics, hints, into)
    if not into.values:
        raise Unreadable("no times and no metric of a known trainer in it", "/run")
    run_id = info.get("run_id") or info.get("run_uuid")
    attempt = Attempt(
        source="mlflow",
        outcome=hints.outcome or _OUTCOMES.get(status, "failed"),
        covers=("training", "evaluation", "checkpointing"),
        steps_completed=steps,
        started_at=started,
        ended_at=ended,
        device_count=hints.device_count,
        job_id=run_id if isinstance(run_id, str) else None,
        values=tuple(into.values),
    )
    return Reading(attempts=(attempt,), ignored=tuple(into.ignored))


def _seconds(milliseconds: Any) -> float | None:
    found = number(milliseconds)
    return None if found is None else found / 1000
