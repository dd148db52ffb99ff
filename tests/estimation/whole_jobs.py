"""A run for tests of the whole job, built without the run spec."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from service.estimation import storage, wall_clock
from service.estimation.architecture import Architecture
from service.estimation.items import Item
from service.estimation.run import Batch, Data, Device, Hardware, Layout, Precision, Run
from service.estimation.spread import Spread, exactly
from service.estimation.wall_clock import TimedRun

H100 = Device(name="h100-sxm-80gb", memory_bytes=85 * 10**9, hbm_bytes_per_second=3.35e12, peak_bf16_flops_per_second=989e12)


@dataclass(frozen=True)
class Counts:
    """Parameter counts."""

    total: float = 8e9
    active: float = 8e9
    trainable: float = 8e9
    adapters: float = 0


@dataclass(frozen=True)
class Tokens:
    """What is read."""

    steps: int | None = 10_000
    input_tokens: float | None = 4e10
    unique_tokens: float | None = 4e10


def run(devices: int = 1024, **changes: Any) -> Run:
    """An 8B run on H100 whose shape is not known; ``changes`` replace its fields."""
    fields: dict[str, Any] = {
        "architecture": Architecture(family="counted", declared_total=8 * 10**9),
        "data": Data(total_tokens=4 * 10**10),
        "batch": Batch(micro_batch_size=1, gradient_accumulation_steps=1, global_batch_size=1024),
        "precision": Precision(recipe="bf16_mixed", weight_bytes=2, gradient_bytes=4, master_weight_bytes=4, optimizer_state_bytes=8),
        "layout": Layout(data=devices, sharding="zero3"),
        "hardware": Hardware(device=H100, device_count=devices),
    }
    return Run(**{**fields, **changes})


UNSET: Any = object()


def timed(one: Run, training: Any, tokens: Any = None, *, step: Any = UNSET, checkpoint: Any = UNSET) -> TimedRun:
    """A run whose steps take ``training`` seconds in all; a step is its share of them, a checkpoint what its parameters take."""
    tokens = tokens or Tokens()
    whole = training if isinstance(training, Spread) else exactly(training)
    return TimedRun(
        run=one,
        hardware=one.hardware,  # type: ignore[arg-type]
        workload=tokens,
        parameters=Counts(),  # type: ignore[arg-type]
        step=exactly(whole.expected / (tokens.steps or 1)) if step is UNSET else step,
        training=whole,
        checkpoint=storage.checkpoint_bytes(one, Counts()) if checkpoint is UNSET else checkpoint,  # type: ignore[arg-type]
    )


def described(job: TimedRun, factor: Any = None) -> wall_clock.Described:
    """The items of such a job; ``factor`` is what own actuals say of whole jobs."""
    plain = wall_clock.figures(job)
    clock = plain if factor is None else wall_clock.figures(job, factor)
    training = Item(
        code="time.training",
        section="time",
        quantity="seconds",
        expected=job.training.expected,
        formula="",
        low=job.training.low,
        high=job.training.high,
    )
    return wall_clock.items(job, clock, plain, training, factor)


def by_code(items: Sequence[Item]) -> dict[str, Item]:
    """Items by code; a code is used once."""
    found = {item.code: item for item in items}
    assert len(found) == len(items)
    return found


def assert_adds_up(items: Sequence[Item]) -> None:
    """Every item that has parts is exactly their sum, and null where one of them is."""
    found = by_code(items)
    for code, item in found.items():
        parts = [part for part in items if part.parent == code]
        if not parts:
            continue
        if any(part.expected is None for part in parts):
            assert item.expected is None and item.reason, code
            continue
        total = 0.0
        for part in parts:
            total += part.expected or 0.0
        assert item.expected == total or abs((item.expected or 0) - total) <= 1e-12 * abs(total), code
