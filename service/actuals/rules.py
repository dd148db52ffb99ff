"""What a measurement may be: impossible values are refused, implausible ones kept and flagged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from . import codes, comparison
from .measurement import Attempt, Value
from .quoted import Quoted

# What the driver reports differs between its tools by less than 1 % (nvidia-smi's total, cudaMemGetInfo's).
MEMORY_TOLERANCE = 1.01
FAR = 30.0  # times off the estimate: minutes for seconds is 60, GiB for bytes 1e9
BELOW_BOUND = 0.98
WINDOW_SLACK_SECONDS = 60.0
# Beyond any run: a thousand times the FLOPs of the largest, a trillionth of a second.
MOST, LEAST = 1e30, 1e-12


@dataclass(frozen=True, slots=True)
class Impossible:
    """A value that cannot be: a pointer into the attempt, and why."""

    pointer: str
    detail: str


def impossible(attempt: Attempt, quoted: Quoted) -> list[Impossible]:
    """Everything in an attempt that cannot be."""
    found: list[Impossible] = []
    if attempt.started_at and attempt.ended_at and attempt.ended_at < attempt.started_at:
        found.append(Impossible("/ended_at", "the attempt ends before it starts"))
    seen: dict[tuple[str, str, str], float] = {}
    for index, value in enumerate(attempt.values):
        pointer = f"/measurements/{index}/value"
        if reason := _impossible_value(value, attempt, quoted):
            found.append(Impossible(pointer, reason))
        key = (value.code, value.method, value.scope or "")
        if key in seen and seen[key] != value.value:
            found.append(Impossible(pointer, "another value of the same code, method and scope stands before it"))
        seen[key] = value.value
    return found


def _impossible_value(value: Value, attempt: Attempt, quoted: Quoted) -> str | None:
    if not math.isfinite(value.value):
        return "not a finite number"
    if value.value < 0:
        return "a measured amount cannot be negative"
    if value.value > MOST or 0 < value.value < LEAST:
        return f"beyond what any run can measure ({LEAST:g} to {MOST:g})"
    if value.value == 0 and codes.positive(value.code):
        return "0 cannot be measured here: a counter that was off, or a device that was not used"
    memory = quoted.device_memory_bytes
    if memory and value.code.startswith(codes.DEVICE_MEMORY):
        devices = (attempt.device_count or quoted.device_count or 1) if value.scope == "sum" else 1
        if value.value > memory * devices * MEMORY_TOLERANCE:
            whose = "all devices have" if value.scope == "sum" else "the device has"
            return f"more memory than {whose} ({memory * devices:.0f} bytes)"
    return None


def flagged(attempt: Attempt, quoted: Quoted) -> Attempt:
    """The attempt with what is implausible about its values said beside them."""
    return replace(attempt, values=tuple(_flag(value, attempt, quoted) for value in attempt.values))


def _flag(value: Value, attempt: Attempt, quoted: Quoted) -> Value:
    flags = [*value.flags]
    item = quoted.items.get(value.code)
    if attempt.device_count and quoted.device_count and attempt.device_count != quoted.device_count:
        flags.append("device_count_differs")
    of_the_run = attempt.outcome == "completed" or codes.steady(value.code)
    comparable = of_the_run and comparison.comparable(value.code, value.scope, value.basis) is None
    if item is not None and item.expected and comparable:
        # A part of the job may have taken no time at all; what has a lower bound may not, and is flagged below.
        if value.value > 0 and not 1 / FAR < value.value / item.expected < FAR:
            flags.append("far_from_estimate")
        whole = attempt.steps_completed is None or quoted.steps is None or attempt.steps_completed >= quoted.steps
        if item.lower_bound and value.value < item.lower_bound * BELOW_BOUND and (whole or value.code == "time.step"):
            flags.append("below_lower_bound")
    memory = quoted.device_memory_bytes
    if memory and value.code.startswith("memory.peak") and value.scope != "sum" and value.value > memory:
        flags.append("above_device_memory")
    if value.code.startswith("efficiency.") and value.value > 1:
        flags.append("above_peak")
    window = _window(attempt)
    if window is not None and value.code == "time.wall_clock" and value.value > 1.01 * window + WINDOW_SLACK_SECONDS:
        flags.append("longer_than_window")
    if window is not None and attempt.device_count and value.code == "device_hours.run":
        most = (1.01 * window + WINDOW_SLACK_SECONDS) * attempt.device_count / 3600
        if value.value > most:
            flags.append("longer_than_window")
    if value.code == "time.step" and not value.excludes and (attempt.steps_completed or math.inf) < 20:
        flags.append("first_step_included")
    if value.code == "memory.peak_allocated" and _below_reserved(value, attempt.values):
        flags.append("allocated_above_reserved")
    if value.code == "tokens.tensor_positions" and quoted.expected("tokens.padding") == 0 and "padding_unknown" in flags:
        flags.remove("padding_unknown")
    return replace(value, flags=tuple(dict.fromkeys(flags)))


def _window(attempt: Attempt) -> float | None:
    if attempt.started_at is None or attempt.ended_at is None:
        return None
    return (attempt.ended_at - attempt.started_at).total_seconds()


def _below_reserved(allocated: Value, values: Sequence[Value]) -> bool:
    """The allocator cannot hand out more than it reserved, over the same ranks."""
    return any(
        other.code == "memory.peak_reserved" and other.scope == allocated.scope and other.value < allocated.value for other in values
    )
