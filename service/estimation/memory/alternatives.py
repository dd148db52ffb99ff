"""When a run does not fit: the smallest changes that make it fit, each with what it costs in device-hours.

Every kind of change is tried by growing steps, and the first step that fits is kept; where no single kind suffices, they are
added up in the order of what they usually cost. A change is a JSON merge patch of the run spec.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..run import Run

Change = dict[str, Any]
Rebuild = Callable[[Change], Run | None]  # the run of the patched spec; None where the patch is not allowed
Peak = Callable[[Run], tuple[float, float] | None]  # expected and upper bound of memory.peak_process
Hours = Callable[[Run], float | None]  # device_hours.training

SHARDING = ("none", "zero1", "zero2", "zero3")
CHECKPOINTING = ("none", "selective", "full")
RANK = 16
LARGER_DEVICES = ("a100-sxm-80gb", "h100-sxm-80gb", "h200-sxm-141gb", "b200-sxm-192gb", "b300-sxm-288gb")
FEW = 3  # with fewer single changes, several together are offered as well
SHORTEST = 512  # tokens; below this a shorter sequence is another task


@dataclass(frozen=True, slots=True)
class Found:
    """A change that makes the run fit."""

    change: Change
    peak: float
    high: float
    run: Run


def alternatives(run: Run, rebuild: Rebuild, peak: Peak, hours: Hours, *, limit: int = 8) -> list[dict[str, Any]]:
    """Changes that make a run fit its device, cheapest in device-hours first; empty where hardware or shape is unknown."""
    if run.hardware is None:
        return []
    before = peak(run)
    if before is None:
        return []
    memory = run.hardware.device.memory_bytes
    found: list[Found] = []
    best_of: list[Change] = []
    for steps in _ladders(run):
        if len(found) == limit:
            break
        least: tuple[float, Change] | None = None
        for change in steps:
            tried = _try(change, rebuild, peak)
            if tried is None:
                continue
            if tried.high <= _memory(tried.run, memory):
                found.append(tried)
                least = None
                break
            if tried.peak < before[0] and (least is None or tried.peak < least[0]):
                least = (tried.peak, change)
        if least is not None:
            best_of.append(least[1])
    if len(found) < FEW:
        together = _together(best_of, rebuild, peak, memory)
        found = found if together is None else [*found, together]
    base = hours(run)
    rows = [_row(one, before[0], base, hours) for one in found]
    return sorted(rows, key=_order)[:limit]


def _order(row: dict[str, Any]) -> tuple[bool, bool, float]:
    """Cheapest first; hours of another device are no measure beside one's own, so they come after."""
    return "hardware" in row["change"], row["device_hours_ratio"] is None, row["device_hours_ratio"] or 0.0


def _row(found: Found, before: float, base: float | None, hours: Hours) -> dict[str, Any]:
    after = hours(found.run)
    row = {
        "change": found.change,
        "peak_memory_bytes_per_device_delta": found.peak - before,
        "peak_memory_bytes_per_device": found.peak,
        "device_hours_ratio": None if base is None or after is None or base == 0 else after / base,
    }
    if "hardware" in found.change:
        row["note"] = "the ratio compares hours of unlike devices"
    return row


def _memory(run: Run, default: int) -> int:
    return default if run.hardware is None else run.hardware.device.memory_bytes


def _try(change: Change, rebuild: Rebuild, peak: Peak) -> Found | None:
    run = rebuild(change)
    if run is None:
        return None
    bounds = peak(run)
    return None if bounds is None else Found(change, bounds[0], bounds[1], run)


def _together(changes: list[Change], rebuild: Rebuild, peak: Peak, memory: int) -> Found | None:
    """Changes added up one by one until the run fits."""
    combined: Change = {}
    for change in changes:
        trial = merged(combined, change)
        tried = _try(trial, rebuild, peak)
        if tried is None:
            continue
        combined = trial
        if tried.high <= _memory(tried.run, memory):
            return tried
    return None


def merged(document: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """RFC 7396: a document with a merge patch applied."""
    result = dict(document)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            inner = result.get(name)
            result[name] = merged(inner if isinstance(inner, Mapping) else {}, value)
        else:
            result[name] = value
    return result


def _ladders(run: Run) -> Iterator[list[Change]]:
    """Kinds of change in the order of what they usually cost, each by growing steps."""
    layout, software, data = run.layout, run.software, int(run.layout.data)
    micro, steps = int(run.batch.micro_batch_size), int(run.batch.gradient_accumulation_steps)
    if not software.fused_loss:
        yield [{"software": {"fused_loss": True}}]
    if run.optimizer.implementation == "foreach":
        yield [{"optimizer": {"implementation": "fused"}}]
    halves = [micro // 2**k for k in range(1, micro.bit_length()) if micro % 2**k == 0]
    if halves:
        yield [{"batch": {"micro_batch_size": half, "gradient_accumulation_steps": steps * micro // half}} for half in halves]
    if data * int(layout.context) > 1 and layout.sharding in SHARDING:
        yield [{"parallelism": {"sharding": stage}} for stage in SHARDING[SHARDING.index(layout.sharding) + 1 :]]
    yield [{"activation_checkpointing": kind} for kind in CHECKPOINTING[CHECKPOINTING.index(run.activation_checkpointing) + 1 :]]
    yield from _layouts(run, data, steps)
    if run.optimizer.name == "adamw":
        yield [{"optimizer": {"name": "adamw_8bit"}}, {"optimizer": {"name": "adafactor"}}]
    if run.precision.recipe in ("bf16_mixed", "fp16_mixed", "fp32") and not run.method.adapters:
        yield [{"precision": {"recipe": "bf16_pure", **_NO_WIDTHS}}]
    offload = [part for part in ("optimizer", "activations", "parameters") if part not in software.cpu_offload]
    if offload:
        held = sorted(software.cpu_offload)
        yield [{"software": {"cpu_offload": sorted([*held, *offload[: k + 1]])}} for k in range(len(offload))]
    lora: Change = {"rank": RANK, "target_modules": "all-linear"}
    if run.method.kind == "full":
        yield [{"method": {"kind": kind, "lora": lora}, "precision": _NO_WIDTHS} for kind in ("lora", "qlora")]
    elif run.method.kind == "lora":
        yield [{"method": {"kind": "qlora"}, "precision": _NO_WIDTHS}]
    if run.sequence_length is not None and run.architecture.image_positions is None:
        lengths = [run.sequence_length // 2**k for k in range(1, 12) if run.sequence_length // 2**k >= SHORTEST]
        yield [{"sequence_length": length} for length in lengths]
    assert run.hardware is not None
    names = (
        LARGER_DEVICES[LARGER_DEVICES.index(run.hardware.device.name) + 1 :]
        if run.hardware.device.name in LARGER_DEVICES
        else LARGER_DEVICES
    )
    yield [{"hardware": {"device": name, "device_override": None}} for name in names]


# Widths follow from recipe, stack and method again.
_NO_WIDTHS: Change = {"weight_bytes": None, "gradient_bytes": None, "master_weight_bytes": None, "optimizer_state_bytes": None}


def _layouts(run: Run, data: int, steps: int) -> Iterator[list[Change]]:
    """Tensor, pipeline and context parallel by powers of two, the global batch kept by more accumulation."""
    layout, hardware = run.layout, run.hardware
    assert hardware is not None
    for name, most in (
        ("tensor", hardware.devices_per_node),
        ("pipeline", len(run.architecture.layers)),
        ("context", hardware.devices_per_node),
    ):
        now = int(getattr(layout, name))
        ladder: list[Change] = []
        factor = 2
        while data % factor == 0 and now * factor <= most:
            parallelism: Change = {name: now * factor}
            if name == "tensor":
                parallelism["sequence_parallel"] = True
            ladder.append({"parallelism": parallelism, "batch": {"gradient_accumulation_steps": steps * factor}})
            factor *= 2
        if ladder:
            yield ladder
