"""How far a predicted step may be off: from rows left out of the fit, wider the less the run is like anything measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..fitted.step_time import RANGES, SEEN, UNSEEN
from ..numeric import one
from ..parameters import Parameters
from ..recipes import RECIPES
from ..spread import prior
from .predictable import PredictableRun

# Each doubling beyond what was measured in a cell moves the interval this far towards that of an unseen stack.
PER_DOUBLING = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Bounds as multiples of the prediction, and what they rest on."""

    low: float
    high: float
    cell: str | None  # measured runs of the same stack, device family, width and method; None where there are none
    basis: str


def cell(known: PredictableRun) -> str:
    """Name of the group of measured runs whose errors apply."""
    run = known.run
    method = run.method.kind if run.method.adapters else "full"
    return f"{run.software.stack}, {known.hardware.device.architecture}, {RECIPES[run.precision.recipe].width}, {method}"


def coordinates(known: PredictableRun, parameters: Parameters) -> dict[str, float]:
    """Sizes by which a run may lie outside of what was measured, as powers of two."""
    return {
        "parameters": math.log2(max(1.0, float(parameters.total))),
        "sequence_length": math.log2(max(1.0, float(known.run.sequence_length or 1))),
        "devices": math.log2(max(1.0, float(known.hardware.device_count))),
    }


def doublings(known: PredictableRun, parameters: Parameters, name: str) -> dict[str, float]:
    """By how many doublings each size lies outside of the cell's range."""
    ranges = RANGES[name]
    outside = {}
    for size, value in coordinates(known, parameters).items():
        low, high = ranges[size]
        beyond = max(low - value, value - high, 0.0)
        if beyond > 0:
            outside[size] = beyond
    return outside


def interval_of(known: PredictableRun, parameters: Parameters) -> Interval:
    """The interval at the run's coverage."""
    name = cell(known)
    if name not in SEEN:
        bounds = prior(1.0, UNSEEN[0], UNSEEN[1], known.run.interval_coverage)
        basis = "errors on sources left out of the fit: no measured run has this stack, device and method"
        return Interval(low=one(bounds.low), high=one(bounds.high), cell=None, basis=basis)
    outside = doublings(known, parameters, name)
    share = min(1.0, PER_DOUBLING * sum(outside.values()))
    low, high = SEEN[name]
    low, high = (
        min(low, low + (UNSEEN[0] - low) * share),
        max(high, high + (UNSEEN[1] - high) * share),
    )
    basis = f"errors on like runs left out of the fit ({name})"
    if outside:
        basis += "; wider because " + ", ".join(f"{size} lies {value:.1f} doublings outside" for size, value in outside.items())
    bounds = prior(1.0, low, high, known.run.interval_coverage)
    return Interval(low=one(bounds.low), high=one(bounds.high), cell=name, basis=basis)
