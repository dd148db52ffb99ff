"""Measured runs that are most like a run, from ``data/measured_time.jsonl``: what each measured, its source, how it differs.

Likeness is a sum of penalties: one for every unlike category (device family and device, stack, width, method, ...), and one
for every doubling between sizes. The weights say what moves a step's time most; they only rank, nothing is computed from them.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from service.estimation.parameters import Parameters
from service.estimation.recipes import RECIPES
from service.estimation.run import Run

CATEGORIES = {
    "device": 0.5,
    "device_family": 1.0,
    "stack": 1.0,
    "width": 0.8,
    "method": 1.0,
    "experts": 0.8,
    "activation_checkpointing": 0.4,
    "attention": 0.4,
    "sharding": 0.3,
    "compile": 0.2,
}
DOUBLINGS = {
    "parameters": 0.5,
    "sequence_length": 0.4,
    "device_count": 0.2,
    "micro_batch_size": 0.2,
    "tensor": 0.3,
    "pipeline": 0.3,
    "context": 0.4,
    "expert": 0.2,
}
TOLD = ("id", "source", "group", "tags", "measured", "step_seconds")


@dataclass(frozen=True, slots=True)
class Near:
    """A measured run: its row, the distance, and where the two differ (value of the run, value of the row)."""

    row: dict[str, Any]
    distance: float
    differences: dict[str, tuple[Any, Any]]

    def as_json(self) -> dict[str, Any]:
        """For a response."""
        told = {name: self.row.get(name) for name in TOLD}
        differences = [{"field": name, "run": mine, "measured_run": theirs} for name, (mine, theirs) in self.differences.items()]
        return {**told, "distance": round(self.distance, 3), "differences": differences}


def facts(run: Run, parameters: Parameters) -> dict[str, Any]:
    """What likeness is judged by."""
    hardware, layout = run.hardware, run.layout
    return {
        "device": None if hardware is None else hardware.device.name,
        "device_family": None if hardware is None else hardware.device.architecture,
        "stack": run.software.stack,
        "width": RECIPES[run.precision.recipe].width,
        "method": run.method.kind,
        "experts": bool(parameters.experts),
        "activation_checkpointing": run.activation_checkpointing,
        "attention": run.attention,
        "sharding": layout.sharding,
        "compile": run.software.compile,
        "parameters": parameters.total,
        "sequence_length": run.sequence_length,
        "device_count": None if hardware is None else hardware.device_count,
        "micro_batch_size": run.batch.micro_batch_size,
        "tensor": layout.tensor,
        "pipeline": layout.pipeline,
        "context": layout.context,
        "expert": layout.expert,
    }


@cache
def measured() -> tuple[dict[str, Any], ...]:
    """All measured step times."""
    text = resources.files("service.catalog").joinpath("data", "measured_time.jsonl").read_text("utf-8")
    return tuple(json.loads(line) for line in text.splitlines() if line)


def nearest(run: Run, parameters: Parameters, limit: int = 5) -> list[Near]:
    """The measured runs most like a run, at most one of each group of near-identical rows."""
    mine = facts(run, parameters)
    ranked = sorted((_distance(mine, row["facts"]), row["id"], row) for row in measured())
    found: list[Near] = []
    groups: set[str] = set()
    for distance, _, row in ranked:
        if row["group"] in groups:
            continue
        groups.add(row["group"])
        theirs = row["facts"]
        found.append(Near(row, distance, {name: (mine[name], theirs[name]) for name in mine if mine[name] != theirs[name]}))
        if len(found) == limit:
            break
    return found


def _distance(mine: dict[str, Any], theirs: dict[str, Any]) -> float:
    total = sum(weight for name, weight in CATEGORIES.items() if mine[name] != theirs[name])
    for name, weight in DOUBLINGS.items():
        first, second = mine[name], theirs[name]
        if first and second:
            total += weight * abs(math.log2(first / second))
    return total
