"""The figures of a device's memory: the three peaks with their intervals, and what they are made of.

Own measurements correct a peak. What lies inside another peak cannot exceed it, so where measured peaks contradict each other the
inner one gives way or nothing is left between them. Weights, gradients and the optimizer's states are counted, not estimated: they stay,
and what comes and goes beside them scales so that the parts still add up. One function does so for a quote and for a search, whose
rows are the quote's figures to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Literal, NamedTuple

from ...correction import Corrections, Factor
from ...fitted.memory import GENERATIONS
from ...numeric import Number, maximum, minimum, where
from ...recipes import RECIPES
from ...run import Run
from ...spread import Spread, multiples
from ...stacks.profile import Interval, Stack
from ..blocks.trained_model import TrainedModel, trained_model
from ..timeline.moment import Parts
from .worst import Worst, worst

Fits = bool | Literal["uncertain"] | None  # None where it cannot be said
OBSERVABLES = ("allocated", "reserved", "process")  # what tools measure, each inside the next
NONE: Corrections = {}


class Figures(NamedTuple):
    """Bytes of the worst device; numbers, or arrays of them by layout."""

    allocated: Spread
    reserved: Spread
    process: Spread
    parts: Parts  # of what is allocated; nothing in a search that nothing corrects, where nobody reads them
    model_states: Number
    fragmentation: Number
    cached: Number  # of it, what gives way where memory runs out
    framework: Number
    communication: Number
    communicators: Number  # a count
    uncorrected: Mapping[str, Number]  # the three peaks before corrections
    unlike: tuple[str, ...]  # in what the run is unlike every measured one, which makes the intervals wider


def figures(run: Run, corrections: Corrections = NONE, table: Stack | None = None) -> Figures | None:
    """The figures of every layout; None where the shape or length is not known. ``table`` stands in for the stack's own (a refit)."""
    model = trained_model(run, table)
    if model is None:
        return None
    factors = factors_of(corrections)
    return corrected(run, model, worst(run, model, detailed=bool(factors)), factors)


def factors_of(corrections: Corrections) -> dict[str, Factor]:
    """The corrections of peaks, by observable."""
    return {name: corrections[f"memory.peak_{name}"] for name in OBSERVABLES if f"memory.peak_{name}" in corrections}


def corrected(run: Run, model: TrainedModel, found: Worst, factors: Mapping[str, Factor]) -> Figures:
    """The figures of the worst device under the factors of measured peaks."""
    plain = {"allocated": found.allocated, "reserved": found.reserved, "process": found.process}
    parts, allocated = found.parts, plain["allocated"]
    model_states = parts.weights + parts.gradients + parts.master_weights + parts.optimizer_states
    fragmentation = found.fragmentation
    framework: Number = found.framework
    if factors:
        wanted: Number = allocated * factors["allocated"].factor if "allocated" in factors else allocated
        if "reserved" in factors:
            target = plain["reserved"] * factors["reserved"].factor
            if "allocated" not in factors:
                wanted = minimum(wanted, target)
            wanted = maximum(wanted, model_states)
            fragmentation = maximum(target - wanted, 0.0)
        if "process" in factors:
            target = plain["process"] * factors["process"].factor - found.communication
            if "allocated" not in factors and "reserved" not in factors:
                shrink = minimum(1.0, maximum(target, 0.0) / plain["reserved"])
                wanted, fragmentation = wanted * shrink, fragmentation * shrink
            wanted = maximum(wanted, model_states)
            framework = maximum(target - (wanted + fragmentation), 0.0)
        parts = _within(parts, maximum(wanted - model_states, 0.0))
        allocated = model_states + parts.activations + parts.logits + parts.transient
    reserved = allocated + fragmentation
    process = reserved + framework + found.communication
    reasons = unlike(run, model)

    def spread(name: str, expected: Number) -> Spread:
        factor = factors.get(name)
        if factor is not None:
            return Spread(expected, expected * factor.low, expected * factor.high)
        width = interval(model, name, reasons)
        return multiples(expected, width.low, width.high, run.interval_coverage)

    whole = spread("process", process)
    if "process" not in factors:
        whole = Spread(process, whole.low, below_the_device(run, process, whole.high, found.cached))
    return Figures(
        allocated=spread("allocated", allocated),
        reserved=spread("reserved", reserved),
        process=whole,
        parts=parts,
        model_states=model_states,
        fragmentation=fragmentation,
        cached=found.cached,
        framework=framework,
        communication=found.communication,
        communicators=found.communicators,
        uncorrected=plain,
        unlike=reasons,
    )


def _within(parts: Parts, live: Number) -> Parts:
    """The parts with what comes and goes scaled to as many bytes: the states are counted, so no measured peak moves them."""
    estimated = parts.activations + parts.logits + parts.transient
    scale = live / where(estimated > 0.0, estimated, 1.0)
    return parts._replace(activations=parts.activations * scale, logits=parts.logits * scale, transient=parts.transient * scale)


def fits(run: Run, process: Spread) -> Fits:
    """Whether the process fits the memory that the driver reports; uncertain where that lies inside the interval."""
    if run.hardware is None:
        return None
    memory = run.hardware.device.memory_bytes
    if process.high <= memory:
        return True
    return "uncertain" if process.low <= memory else False


def fits_states_alone(run: Run, states_bytes: float | None) -> Fits:
    """False where the states alone are more than the device has, whatever the rest would be; else it cannot be said."""
    if run.hardware is None or states_bytes is None or states_bytes <= run.hardware.device.memory_bytes:
        return None
    return False


STEP = 0.5  # each unlikeness makes both sides this much longer, as the source-left-out residuals are than the group-left-out ones


def unlike(run: Run, model: TrainedModel) -> tuple[str, ...]:
    """In what the run is unlike every measured run of its stack."""
    found = []
    if run.method.kind not in model.stack.measured_methods:
        found.append(f"{run.method.kind} on this stack")
    if run.software.compile and not model.stack.measured_compiled:
        found.append("compiled blocks on this stack")
    if run.attention not in model.stack.measured_attention:
        found.append("this attention kernel on this stack")
    if run.layout.sharding not in model.stack.measured_sharding:
        found.append("sharded weights on this stack")
    if RECIPES[run.precision.recipe].narrow and not model.stack.measured_narrow:
        found.append("products in 8 or 4 bits on this stack")
    if any(kind.weights.experts for kind in model.blocks.kinds):
        found.append("mixtures of experts")
    if model.encoder_decoder or run.architecture.image_positions is not None:
        found.append("encoders")
    generation = run.hardware.device.architecture if run.hardware is not None else None
    if generation is not None and generation not in GENERATIONS:
        found.append(f"{generation} devices")
    return tuple(found)


def interval(model: TrainedModel, observable: str, reasons: tuple[str, ...]) -> Interval:
    """The interval of an observable, widened by what the run is unlike in."""
    return _widened(model.stack.intervals[observable], len(reasons))


@cache
def _widened(base: Interval, reasons: int) -> Interval:
    longer = 1.0 + STEP * reasons
    low = max(1.0 - (1.0 - base.low) * longer, 0.3)
    return Interval(low=low, high=1.0 + (base.high - 1.0) * longer)


def below_the_device(run: Run, expected: Number, high: Number, cached: Number) -> Number:
    """The upper bound of the process's peak: cached blocks that alone would exceed the device are given back before it runs out."""
    if run.hardware is None or (type(cached) is float and cached == 0.0):
        return high
    memory = run.hardware.device.memory_bytes
    return where((expected - cached) * (high / expected) <= memory, minimum(high, memory), high)
