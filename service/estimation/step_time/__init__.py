"""Predicted time of one optimizer step, in parts that add up.

The rooms, in the order in which a prediction walks through them:

- ``predictable``: the run with all that a prediction needs, or why there is none;
- ``counts``: what one device does in a step (FLOPs, bytes, launches), from ``block_sums`` (what a token meets in the model's blocks)
  and ``communication`` (bytes over links); no speed enters there;
- ``rates``: how fast a device of that kind does it;
- ``residual``: the factor for what the terms leave unexplained;
- ``seconds``: counts and rates put together;
- ``interval``: how far off that may be.

All rates are data with their source in ``fitted.step_time``; ``python -m tests.benchmarks.fit_time`` fits them.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..fitted.step_time import FITTED_ON
from ..numeric import Number, maximum
from ..parameters import Parameters
from ..run import Run
from ..tokens import Workload
from .counts import SequenceShape, StepCounts, counts_of
from .interval import interval_of
from .predictable import PredictableRun, predictable
from .rates import rates_of
from .residual import residual_of
from .seconds import parts_of

__all__ = ["StepTime", "predict", "why_not"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """A predicted step. ``low`` and ``high`` are multiples of ``seconds``, the sum of ``parts``."""

    parts: dict[str, Number]
    seconds: Number
    low: float
    high: float
    basis: str  # what the interval rests on
    evidence: tuple[str, ...]  # the cell of measured runs, or none, and what the rates were fitted on


def why_not(run: Run) -> str | None:
    """Why a run's step cannot be predicted from its shape; None where it can."""
    known = predictable(run)
    return known if isinstance(known, str) else None


def shape_of(known: PredictableRun, workload: Workload | None) -> SequenceShape:
    """Sequences as the kernels see them: samples padded to less than the full length fill it in part, uncut ones more than once."""
    run, length, decoder = known.run, known.length, known.decoder_length
    sequences = float(run.method.sequences_per_element)
    if workload is None or run.data.packing == "packed" or run.data.histogram is None or workload.sequences is None or not workload.tensor:
        return SequenceShape(length=length, decoder_length=decoder, sequences=sequences)
    positions: Number = 0.0
    squares: Number = 0.0
    for row in workload.tensor:
        positions = positions + row.count * 1.0 * row.length
        squares = squares + row.count * 1.0 * row.length * row.length
    fill, keys_share = positions / (workload.sequences * length), squares / (positions * length)
    return SequenceShape(length=length, decoder_length=decoder, sequences=sequences, fill=fill, keys_share=keys_share)


def predict(run: Run, parameters: Parameters, workload: Workload | None = None) -> StepTime | None:
    """Seconds of a step; None where ``why_not`` has a reason."""
    known = predictable(run)
    if isinstance(known, str):
        return None
    counts = counts_of(known, parameters, shape_of(known, workload))
    parts = parts_of(counts, rates_of(known, residual_of(known, parameters)))
    # No correction makes a step faster than its model FLOPs at the recipe's own peak.
    stretch = maximum(1.0, model_flops(counts) / known.peak_flops_per_second / added(parts))
    parts = {name: value * stretch for name, value in parts.items()}
    bounds = interval_of(known, parameters)
    return StepTime(
        parts=parts,
        seconds=added(parts),
        low=bounds.low,
        high=bounds.high,
        basis=bounds.basis,
        evidence=(*(() if bounds.cell is None else (bounds.cell,)), FITTED_ON),
    )


def added(parts: dict[str, Number]) -> Number:
    """The sum of the parts, in their order."""
    total: Number = 0.0
    for value in parts.values():
        total = total + value
    return total


def model_flops(counts: StepCounts) -> Number:
    """FLOPs of a step and device that the model asks for, recomputation left out: two passes back for one forward."""
    forward, backward = counts.forward, counts.backward
    linear = forward.matrix_flops + backward.matrix_flops + forward.expert_flops + backward.expert_flops
    return (linear + 3.0 * forward.attention_flops + counts.head_flops / counts.stages) * counts.micro_batches
