"""torchtitan's log lines: ``step: 10  loss: ...  memory: 47.28GiB(49.77%)  tps: 7,412  tflops: ...  mfu: ...``.

``memory`` is the largest *reserved* memory since the last line, ``tps`` is per device, ``mfu`` and ``tflops`` are formulas.
"""

from __future__ import annotations

import re
from typing import Any

from ..measurement import GIB, Attempt, Collector, Hints, Reading, Unreadable, Value
from .base import as_lines, devices, median, spread

# Looked for one after the other, so that a line is read in time proportional to its length.
_STEP = re.compile(r"\bstep:\s*(\d{1,15})\s")
_MEMORY = re.compile(r"\bmemory:\s*(\d+(?:\.\d+)?)\s*GiB")
_RATE = re.compile(r"\b(?:tps|wps):\s*(\d[\d,]*(?:\.\d+)?)")
_RANK = re.compile(r"\[rank(\d{1,9})\]")


def read(document: Any, hints: Hints) -> Reading:
    """One attempt; its first line holds the first step and is left out of the rate."""
    rows: list[tuple[str, int, float, float]] = []
    finished = False
    for line in as_lines(document):
        finished = finished or "Training completed" in line
        if "validate step:" in line:
            continue
        step, memory, rate = _STEP.search(line), _MEMORY.search(line), _RATE.search(line)
        if step and memory and rate:
            rank = found[1] if (found := _RANK.search(line)) else "0"
            rows.append((rank, int(step[1]), float(memory[1]) * GIB, float(rate[1].replace(",", ""))))
    if not rows:
        raise Unreadable("no line with `step: N ... memory: XGiB(Y%) ... tps: Z`")
    into = Collector()
    into.ignore("", "tflops and mfu are formulas of the tool: the implied MFU is derived from the measured rate")
    ranks = {row[0] for row in rows}
    steps = {row[1] for row in rows}
    first_step = min(steps)
    later = [row[3] for row in rows if row[1] != first_step and row[3] > 0]
    ending: tuple[str, ...] = () if finished or hints.outcome else ("outcome_inferred",)
    rates, flags = (later, ending) if later else ([row[3] for row in rows], ("first_step_included", *ending))
    values = [
        Value(
            code="memory.peak_reserved",
            value=max(row[2] for row in rows),
            method="torch.cuda max reserved",
            scope="max" if len(ranks) > 1 else "rank0",
            flags=ending,
        )
    ]
    found_devices, assumed = devices(hints)
    if found_devices is None:
        into.ignore("", "tps is per device: device_count is needed to make it the job's")
    else:
        values.append(
            Value(
                code="throughput.input_tokens_per_second",
                value=median(rates) * found_devices,
                method="tps x devices, median",
                scope="sum",
                excludes=("first_step",) if later else (),
                flags=(*flags, *assumed),
                repeats=len(rates),
                spread=spread(rates),
            )
        )
    attempt = Attempt(
        source="torchtitan",
        outcome=hints.outcome or "completed",
        covers=("training",),
        steps_completed=max(steps),
        device_count=hints.device_count,
        values=tuple(values),
    )
    return Reading(attempts=(attempt,), ignored=tuple(into.ignored))
