"""Predicted time of one optimizer step, in parts that add up.

``work`` counts what a device does (FLOPs, bytes, launches), ``rates`` says how fast its kind does it, ``seconds`` puts both
together, ``residual`` corrects for what the terms leave unexplained, ``interval`` says how far off that may be. All rates are
data with their source in ``coefficients``; ``python -m tests.benchmarks.fit_time`` fits them.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..numeric import Number, maximum
from ..parameters import Parameters
from ..run import Run
from ..tokens import Workload
from .coefficients import FITTED_ON
from .interval import interval_of
from .rates import rates_of
from .residual import residual_of
from .seconds import parts as parts_of
from .work import Shape, Work, work_of

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
    if run.hardware is None:
        return "no hardware is given"
    if not run.architecture.shape_known:
        return "only a parameter count is known of the model, not its shape"
    if length_of(run) is None:
        return "sequence_length is not given"
    device = run.hardware.device
    if device.recipe_peak_flops_per_second(run.precision.recipe) is None or device.reference_peak_flops_per_second is None:
        return "the device's dense peak is not known"
    if device.hbm_bytes_per_second is None:
        return "the device's memory bandwidth is not known"
    return None


def length_of(run: Run) -> float | None:
    """Positions of a full sequence or image."""
    length = run.sequence_length if run.architecture.image_positions is None else run.architecture.image_positions
    return None if length is None else float(length)


def shape_of(run: Run, full: float, workload: Workload | None) -> Shape:
    """Sequences as the kernels see them: samples padded to less than the full length fill it in part, uncut ones more than once."""
    decoder = float(run.decoder_sequence_length or full)
    sequences = float(run.method.sequences_per_element)
    if workload is None or run.data.packing == "packed" or run.data.histogram is None or workload.sequences is None or not workload.tensor:
        return Shape(full, decoder, sequences)
    positions: Number = 0.0
    squares: Number = 0.0
    for row in workload.tensor:
        positions = positions + row.count * 1.0 * row.length
        squares = squares + row.count * 1.0 * row.length * row.length
    return Shape(full, decoder, sequences, positions / (workload.sequences * full), squares / (positions * full))


def predict(run: Run, parameters: Parameters, workload: Workload | None = None) -> StepTime | None:
    """Seconds of a step; None where ``why_not`` has a reason."""
    full = length_of(run)
    if full is None or why_not(run) is not None:
        return None
    assert run.hardware is not None
    counts = work_of(run, parameters, shape_of(run, full, workload))
    parts = parts_of(counts, rates_of(run, residual_of(run, parameters)))
    peak = run.hardware.device.recipe_peak_flops_per_second(run.precision.recipe)
    # No correction makes a step faster than its model FLOPs at the recipe's own peak.
    stretch = maximum(1.0, model_flops(counts) / peak / added(parts))
    parts = {name: value * stretch for name, value in parts.items()}
    bounds = interval_of(run, parameters)
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


def model_flops(counts: Work) -> Number:
    """FLOPs of a step and device that the model asks for, recomputation left out: two passes back for one forward."""
    forward, backward = counts.forward, counts.backward
    linear = forward.matrix_flops + backward.matrix_flops + forward.expert_flops + backward.expert_flops
    return (linear + 3.0 * forward.attention_flops + counts.head_flops / counts.stages) * counts.micro_batches
