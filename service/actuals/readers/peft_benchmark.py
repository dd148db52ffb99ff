"""Result files of PEFT's method comparison (one device, training and generation in turns)."""

from __future__ import annotations

from typing import Any

from ..measurement import Attempt, Collector, Hints, Outcome, Reading, Unreadable, Value
from .base import as_object, count, dig, first, number, objects, parse_time

_OUTCOMES: dict[str, Outcome] = {"success": "completed", "failed": "failed", "canceled": "cancelled"}


def read(document: Any, hints: Hints) -> Reading:
    """One attempt. Reserved memory has two methods: the whole run's maximum may be set by generation, the ninety-ninth
    percentile is sampled right after training steps. Keys said ``cuda_`` before they said ``accelerator_``.
    """
    result = as_object(document, "a PEFT benchmark result")
    train = result.get("train_info")
    if not isinstance(train, dict):
        raise Unreadable("a PEFT benchmark result has an object `train_info`", "/train_info")
    into = Collector()
    rows = objects(train.get("metrics"))
    _times(result, rows, into)
    for key, method, flags in (
        ("memory_max", "max_memory_reserved of the whole run, generation included", ("includes_overheads",)),
        ("memory_reserved_99th", "99th percentile of max_memory_reserved after training steps", ("sampled",)),
    ):
        value = first(number(train.get(f"{prefix}_{key}")) for prefix in ("accelerator", "cuda"))
        if value:
            into.values.append(Value(code="memory.peak_reserved", value=value, method=method, scope="rank0", flags=flags))
    if size := number(train.get("file_size")):
        if size == 99999999:
            into.ignore("/train_info/file_size", "the benchmark's placeholder for a file that could not be written")
        else:
            into.values.append(Value(code="storage.checkpoint_weights", value=size, method="bytes of the saved weights"))
    if seen := first(number(row.get("train total tokens")) for row in reversed(rows)):
        into.values.append(Value(code="tokens.input", value=seen, method="train total tokens"))
    if not into.values:
        raise Unreadable("no time, memory or size in it", "/train_info")
    attempt = Attempt(
        source="peft",
        outcome=hints.outcome or _OUTCOMES.get(str(train.get("status")), "failed"),
        covers=("training", "evaluation"),
        steps_completed=max((count(row.get("step")) or 0 for row in rows), default=0) or None,
        started_at=parse_time(dig(result, "run_info", "created_at")),
        device_count=1,
        values=tuple(into.values),
    )
    return Reading(attempts=(attempt,), ignored=tuple(into.ignored))


def _times(result: dict[str, Any], rows: list[dict[str, Any]], into: Collector) -> None:
    training = [seconds for row in rows if (seconds := number(row.get("train time"))) is not None]
    evaluation = [seconds for row in rows if (seconds := number(row.get("eval time"))) is not None]
    if training:
        into.values.append(Value(code="time.training", value=sum(training), method="train time, summed over intervals"))
    if evaluation:
        into.values.append(Value(code="time.evaluation", value=sum(evaluation), method="eval time, summed over intervals"))
    if total := number(dig(result, "run_info", "total_time")):
        into.values.append(Value(code="time.wall_clock", value=total, method="total_time"))
        into.values.append(Value(code="device_hours.run", value=total / 3600, method="total_time, one device", basis="allocated"))
    if number(dig(result, "train_info", "train_time")) is not None:
        into.ignore("/train_info/train_time", "the loop with its evaluations: its parts are used")
