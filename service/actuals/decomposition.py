"""Why a time was off: the run differed from the spec, a step took longer, or something else than steps took time.

    measured / estimated = spec drift x efficiency x operations

- spec drift: tokens or steps, and for wall clock the devices they were spread over;
- efficiency: seconds a step, at the quoted tokens a step and devices;
- operations: everything that is not steps (start-up, checkpoints, evaluation, waits, attempts that were lost).

The three multiply to the ratio exactly. A factor that nothing measured is null with a reason, and its share is in
``unseparated`` together with the others that are not known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from .comparison import Row, comparable, current, steps_reached
from .measurement import Measurement
from .quoted import Quoted

# What is decomposed, the first of these that was measured in full.
_WHOLES = ("device_hours.run", "time.wall_clock", "device_hours.training", "time.training")
_STEPS_ALONE = ("device_hours.training", "time.training")
_OPERATIONS = ("time.startup", "time.checkpointing", "time.evaluation", "time.data_stall", "time.restarts")


def decompose(quoted: Quoted, rows: Sequence[Row], measured: Sequence[Measurement]) -> dict[str, Any] | None:
    """The decomposition of the first whole that was measured; None where no finished run's time is known."""
    by_code: dict[str, Row] = {}
    for row in rows:
        by_code.setdefault(row.code, row)
    whole = next((by_code[code] for code in _WHOLES if code in by_code and by_code[code].ratio and not by_code[code].bound), None)
    if whole is None or whole.ratio is None:
        return None
    values = current(measured)
    drift = spec_drift(quoted, by_code, values)
    device_hours = whole.code.startswith("device_hours.")
    spec, spec_reason = _spec_factor(drift, device_hours)
    efficiency, efficiency_reason = _efficiency_factor(quoted, by_code, drift)
    if whole.code in _STEPS_ALONE and spec is not None and efficiency is None:
        efficiency, efficiency_reason = whole.ratio / spec, None  # what the drift leaves is the pace of the steps
    parts: list[dict[str, Any]] = [
        _part("spec_drift", spec, spec_reason, detail=drift),
        _part("efficiency", efficiency, efficiency_reason),
    ]
    unknown = [part["name"] for part in parts if part["factor"] is None]
    if spec is not None and efficiency is not None:
        operations, reason = whole.ratio / (spec * efficiency), None
    else:
        operations, reason = None, f"not separable while {' and '.join(unknown)} is not known"
        unknown.append("operations")
    parts.append(_part("operations", operations, reason, detail=_operations(quoted, by_code, values)))
    known_product = math.prod(part["factor"] for part in parts if part["factor"] is not None)
    return {
        "code": whole.code,
        "method": whole.method,
        "ratio": whole.ratio,
        "log_ratio": whole.log_ratio,
        "parts": parts,
        "unseparated": {"of": unknown, "factor": whole.ratio / known_product} if unknown else None,
    }


def _part(name: str, factor: float | None, reason: str | None, detail: Any = None) -> dict[str, Any]:
    part = {"name": name, "factor": factor, "log": math.log(factor) if factor else None, "reason": reason}
    return part if detail is None else {**part, "detail": detail}


def spec_drift(quoted: Quoted, by_code: Mapping[str, Row], values: Sequence[Measurement]) -> list[dict[str, Any]]:
    """Steps, tokens and devices: quoted, measured, and their ratio where both are known."""
    counts = {value.device_count for value in values if value.device_count}
    tokens = next((by_code[c] for c in ("tokens.input", "tokens.tensor_positions") if c in by_code and by_code[c].ratio), None)
    compared = (
        ("steps", quoted.steps, steps_reached(values)),
        ("tokens", tokens.estimated if tokens else quoted.expected("tokens.input"), tokens.measured if tokens else None),
        ("devices", quoted.device_count, counts.pop() if len(counts) == 1 else None),
    )
    return [
        {"what": what, "quoted": estimated, "measured": found, "factor": found / estimated if found and estimated else None}
        for what, estimated, found in compared
    ]


def _factors(drift: Sequence[Mapping[str, Any]]) -> tuple[float | None, float | None, float | None]:
    by_name = {entry["what"]: entry["factor"] for entry in drift}
    return by_name["steps"], by_name["tokens"], by_name["devices"]


def _spec_factor(drift: Sequence[Mapping[str, Any]], device_hours: bool) -> tuple[float | None, str | None]:
    steps, tokens, devices = _factors(drift)
    work = tokens if tokens is not None else steps
    if work is None:
        return None, "neither steps_completed nor tokens were reported"
    if device_hours:
        return work, None
    # The same work on more devices takes less time at the same efficiency; unreported devices are those quoted.
    return work / (devices or 1.0), None


def _efficiency_factor(quoted: Quoted, by_code: Mapping[str, Row], drift: Sequence[Mapping[str, Any]]) -> tuple[float | None, str | None]:
    steps, tokens, devices = _factors(drift)
    step = by_code.get("time.step")
    if step is None or step.ratio is None:
        return None, "no seconds a step, rate or training time with its steps were reported"
    tokens_a_step = tokens / steps if tokens is not None and steps is not None else 1.0
    return step.ratio * (devices or 1.0) / tokens_a_step, None


def _operations(quoted: Quoted, by_code: Mapping[str, Row], values: Sequence[Measurement]) -> dict[str, Any]:
    lost, waits = lost_attempts(values), waits_seconds(values)
    parts = [
        {"code": code, "estimated": quoted.expected(code), "measured": by_code[code].measured if code in by_code else None}
        for code in _OPERATIONS
    ]
    return {"parts": parts, "lost_attempts": lost["attempts"], "lost_device_hours": lost["device_hours"], "waits_seconds": waits}


def lost_attempts(values: Sequence[Measurement]) -> dict[str, Any]:
    """Tries that did not complete, and the device-hours they took where those were measured.

    A try is known by its number. Several sources (a scheduler, a metrics server) that measured one saw the same devices, so each try
    counts once, with the largest figure that anybody has of it: added over sources, an hour would be lost as often as it was seen.
    """
    lost = [value for value in values if value.outcome != "completed"]
    hours: dict[int, float] = {}
    for value in lost:
        if value.code == "device_hours.run" and comparable(value.code, value.scope, value.basis) is None:
            hours[value.attempt] = max(value.value, hours.get(value.attempt, 0.0))
    return {"attempts": len({value.attempt for value in lost}), "device_hours": math.fsum(hours.values()) if hours else None}


def waits_seconds(values: Sequence[Measurement]) -> float | None:
    """Seconds between the end of an attempt and the start of the next, of the source with most attempts."""
    best: list[tuple[Any, Any]] = []
    for source in sorted({value.source for value in values}):
        windows = sorted({(v.started_at, v.ended_at) for v in values if v.source == source and v.started_at and v.ended_at})
        best = windows if len(windows) > len(best) else best
    if len(best) < 2:
        return None
    gaps = ((later[0] - earlier[1]).total_seconds() for earlier, later in pairwise(best))
    return math.fsum(max(0.0, gap) for gap in gaps)
