"""Intervals of a stack, widened for what no measured run of it had."""

from __future__ import annotations

from functools import cache

from ...numeric import Number, minimum, where
from ...run import Run
from ...stacks.profile import Interval
from ..blocks.trained_model import TrainedModel

# Device generations that measured rows ran on (tests/benchmarks/fit_memory.py reads them from the catalog's rows).
MEASURED_GENERATIONS = frozenset({"volta", "ampere", "ada", "hopper", "cdna3"})
NARROW = frozenset({"fp8_mixed", "nvfp4_mixed"})
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
    if run.precision.recipe in NARROW and not model.stack.measured_narrow:
        found.append("products in 8 or 4 bits on this stack")
    if any(kind.weights.experts for kind in model.kinds):
        found.append("mixtures of experts")
    if model.encoder_decoder or run.architecture.image_positions is not None:
        found.append("encoders")
    generation = run.hardware.device.architecture if run.hardware is not None else None
    if generation is not None and generation not in MEASURED_GENERATIONS:
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
