"""The memory of a run: items, phases, what each block keeps, and whether it fits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..correction import Corrections
from ..items import Basis, Item, unknown
from ..numeric import Number, minimum, where
from ..parameters import Parameters
from ..run import Run
from ..spread import prior
from ..stacks.profile import RESIDUAL, Stack
from ..wholes import whole
from . import phases as live
from .phases import PARTS, Phase
from .setting import Setting, setting

STATES = ("weights", "gradients", "master_weights", "optimizer_states")
ACTIVE = ("activations", "logits", "transient")
ROUNDING_LIMIT = 0.3  # of the allocated peak: a small job does not strand gigabytes
NO_SHAPE = "what blocks keep needs the model's shape: a preset, hf_config, or the fields beside parameter_count"
NO_ADAPTERS = "adapters need the sizes of the model's matrices: only a parameter count is given"
NO_LENGTH = "sequence_length is not given"
NO_HARDWARE = "hardware is not given"


@dataclass(slots=True, kw_only=True)
class MemoryEstimate:
    """Memory of the worst device."""

    items: list[Item]
    phases: list[dict[str, Any]] = field(default_factory=list)
    saved_bytes_per_layer: list[int] | None = None
    peak_phase: str | None = None
    peak_stage: int | None = None
    fits: bool | str | None = None
    peak_process_bytes: float | None = None


@dataclass(slots=True)
class Peaks:
    """Peak bytes of one device; arrays where the layout or batch is."""

    allocated: Number
    reserved: Number
    process: Number


def peaks(run: Run, table: Stack | None = None) -> Peaks | None:
    """The three peaks alone, broadcasting over layout and batch fields; None where the shape or length is unknown.

    ``table`` stands in for the stack's own coefficients (a refit).
    """
    known = setting(run, table)
    if known is None:
        return None
    best: Number = 0.0
    best_active: Number = 0.0
    best_late: Number = 0.0
    for phase in live.phases(run, known):
        allocated = phase.allocated
        better = allocated > best
        best_active = where(better, _active(phase), best_active)
        best_late = where(better, phase.late, best_late)
        best = where(better, allocated, best)
    reserved = best + fragmentation(known, best, best_active, best_late)
    return Peaks(best, reserved, reserved + overhead(run, known.stack))


def _active(phase: Phase) -> Number:
    total: Number = 0.0
    for part in ACTIVE:
        total = total + phase.parts[part]
    return total


def fragmentation(known: Setting, allocated: Number, active: Number, late: Number) -> Number:
    """Reserved and not allocated: a share of what comes and goes, gradients that fit into none of its holes, and rounding."""
    rule = known.stack.overheads
    rounding = minimum(rule.fragmentation_bytes, ROUNDING_LIMIT * allocated)
    return rule.fragmentation * active + rule.late_gradients * late + rounding


def communicators(run: Run) -> Number:
    """Collective communicators of one rank: one for each dimension of the layout that has more than one rank, and the world's."""
    layout = run.layout
    total: Number = 0.0
    for size in (layout.data * layout.context, layout.tensor, layout.pipeline, layout.context, layout.expert):
        total = total + where(size > 1, 1.0, 0.0)
    return total


def overhead(run: Run, stack: Stack) -> Number:
    """Context, libraries and communication buffers."""
    rule = stack.overheads
    return rule.framework_bytes + communicators(run) * rule.communicator_bytes


def estimate(run: Run, parameters: Parameters, workload: Any = None, corrections: Corrections | None = None) -> MemoryEstimate:
    """The memory items of a run with scalar layout."""
    known = setting(run)
    if known is None:
        return _without_shape(run, parameters)
    all_phases = live.phases(run, known)
    merged = _merge(all_phases)
    peak = merged[0]
    for phase in merged:
        if phase.allocated > peak.allocated:
            peak = phase
    items = _items(run, known, peak, corrections or {})
    by_code = {item.code: item for item in items}
    process = by_code["memory.peak_process"]
    return MemoryEstimate(
        items=items,
        phases=[_shown(phase) for phase in merged],
        saved_bytes_per_layer=saved_bytes_per_layer(run, known),
        peak_phase=peak.name,
        peak_stage=int(peak.stage),
        fits=_fits(run, process),
        peak_process_bytes=process.expected,
    )


def _merge(found: list[Phase]) -> list[Phase]:
    """One entry a phase and stage: the moment at which most is live."""
    best: dict[tuple[int, str], Phase] = {}
    for phase in found:
        key = (int(phase.stage), phase.name)
        if key not in best or phase.allocated > best[key].allocated:
            best[key] = phase
    return list(best.values())


def _shown(phase: Phase) -> dict[str, Any]:
    parts = {name: float(value) for name, value in phase.parts.items()}
    return {"phase": phase.name, "pipeline_stage": int(phase.stage), "allocated_bytes": float(phase.allocated), "parts": parts}


def saved_bytes_per_layer(run: Run, known: Setting) -> list[int]:
    """Bytes that each block keeps from forward to backward, of one micro-batch on one tensor-parallel rank."""
    spread = live.ranks(run)
    values: list[int] = [0] * known.blocks
    for kind in known.kinds:
        if run.activation_checkpointing == "full":
            value = live.tokens_of(known, spread, kind.decoder) * RESIDUAL[known.mode] * known.hidden / spread.sequence_split
        elif run.activation_checkpointing == "selective":
            value = live.selected(known, kind, spread)
        else:
            value = live.block_bytes(known, kind.kept, spread, kind.decoder)
        for index in kind.indices:
            values[index] = round(value)
    if run.activation_checkpointing == "none":
        for index, extra, decoder in known.first_blocks:
            values[index] = round(values[index] + live.block_bytes(known, extra, spread, decoder))
    return values


DEVICE_CODES = {"allocated": "memory.peak_allocated", "reserved": "memory.peak_reserved", "process": "memory.peak_process"}


def _items(run: Run, known: Setting, peak: Phase, corrections: Corrections) -> list[Item]:
    stack = known.stack
    raw = {part: float(peak.parts[part]) for part in PARTS}
    allocated_factor = corrections.get("memory.peak_allocated")
    plain_allocated = sum(raw[part] for part in PARTS)
    plain_reserved = plain_allocated + float(fragmentation(known, peak.allocated, _active(peak), peak.late))
    plain_process = plain_reserved + float(overhead(run, stack))
    parts = raw if allocated_factor is None else {part: value * allocated_factor.factor for part, value in raw.items()}
    states = 0.0
    for part in STATES:
        states += parts[part]
    allocated = states
    for part in ACTIVE:
        allocated += parts[part]
    reserved_factor = corrections.get("memory.peak_reserved")
    gap = plain_reserved - plain_allocated if reserved_factor is None else plain_reserved * reserved_factor.factor - allocated
    reserved = allocated + gap
    communication = float(communicators(run)) * stack.overheads.communicator_bytes
    process_factor = corrections.get("memory.peak_process")
    framework = stack.overheads.framework_bytes
    if process_factor is not None:
        framework = plain_process * process_factor.factor - reserved - communication
    process = reserved + framework + communication
    where_text = f"live at the peak: {peak.name} on pipeline stage {int(peak.stage)}"

    def part(code: str, value: float, formula: str, parent: str, basis: Basis = "formula") -> Item:
        return Item(code=f"memory.{code}", section="memory", quantity="bytes", expected=value, formula=formula, parent=parent, basis=basis)

    def total(code: str, observable: str, value: float, plain: float, formula: str, parent: str | None, notes: tuple[str, ...]) -> Item:
        factor = corrections.get(f"memory.{code}")
        interval = stack.intervals[observable]
        bounds = prior(value, value * interval.low, value * interval.high, run.interval_coverage)
        item = Item(
            code=f"memory.{code}", section="memory", quantity="bytes", expected=value, low=bounds.low, high=bounds.high,
            formula=formula, parent=parent, basis="prior", assumptions=notes,
        )
        if factor is not None:
            item.basis, item.n, item.factor, item.uncalibrated = "calibrated", factor.n, factor.factor, plain
            item.low, item.high = value * factor.low, value * factor.high
        return item

    precision = run.precision
    items = [
        part("weights", parts["weights"], f"parameters x {precision.weight_bytes:g} bytes / ranks that shard weights", "memory.model_states"),
        part("gradients", parts["gradients"], f"trained x {precision.gradient_bytes:g} / ranks that shard gradients", "memory.model_states"),
        part("master_weights", parts["master_weights"], f"trained x {precision.master_weight_bytes:g} / ranks that shard states", "memory.model_states"),
        part("optimizer_states", parts["optimizer_states"], f"trained x {precision.optimizer_state_bytes:g} / ranks that shard states", "memory.model_states"),
        part("model_states", states, "weights + gradients + master_weights + optimizer_states", "memory.peak_allocated"),
        part("activations", parts["activations"], "what blocks and final norm keep, micro-batches in flight", "memory.peak_allocated"),
        part("logits", parts["logits"], "logits, their 32-bit copy, log-probabilities and gradient, as the stack's loss holds them", "memory.peak_allocated"),
        part("transient", parts["transient"], "gathered weights, casts, buckets, one block's gradients, optimizer temporaries", "memory.peak_allocated"),
        total("peak_allocated", "allocated", allocated, plain_allocated, "model_states + activations + logits + transient", "memory.peak_reserved", (where_text,)),
        part("fragmentation", gap, f"{stack.overheads.fragmentation:g} x (activations + logits + transient) + {stack.overheads.fragmentation_bytes:g}", "memory.peak_reserved", "prior"),
        total("peak_reserved", "reserved", reserved, plain_reserved, "peak_allocated + fragmentation", "memory.peak_process", ()),
        part("framework", framework, "context, kernels and libraries of one process", "memory.peak_process", "prior"),
        part("communication", communication, f"{float(communicators(run)):g} communicators x {stack.overheads.communicator_bytes:g}", "memory.peak_process", "prior"),
        total("peak_process", "process", process, plain_process, "peak_reserved + framework + communication", None, tuple(stack.sources)),
    ]
    if run.software.cpu_offload:
        items.append(_host(run, known))
    return items


def _host(run: Run, known: Setting) -> Item:
    bytes_ = float(live.host_bytes(run, known))
    return Item(
        code="host_memory.offload", section="memory", quantity="bytes", expected=bytes_, basis="formula",
        formula=f"offloaded {', '.join(sorted(run.software.cpu_offload))} of one rank, pinned",
        assumptions=("host memory of one rank; a node holds one for every device",),
    )


def _fits(run: Run, process: Item) -> bool | str | None:
    if run.hardware is None or process.expected is None:
        return None
    memory = run.hardware.device.memory_bytes
    low = process.low if process.low is not None else process.expected
    high = process.high if process.high is not None else process.expected
    if high <= memory:
        return True
    return False if low > memory else "uncertain"


def _without_shape(run: Run, parameters: Parameters) -> MemoryEstimate:
    """States alone, from the parameter count: what the bare count allows."""
    layout, precision = run.layout, run.precision
    reason = NO_SHAPE if not run.architecture.shape_known else NO_LENGTH
    ranks_ = live.ranks(run)
    model = float(layout.tensor) * float(layout.pipeline)
    weights = parameters.total * precision.weight_bytes / model / float(ranks_.weights_over)
    trained = None if parameters.trainable is None else parameters.trainable / model
    values: dict[str, float | None] = {"weights": weights}
    for name, width, over in (
        ("gradients", precision.gradient_bytes, ranks_.gradients_over),
        ("master_weights", precision.master_weight_bytes, ranks_.states_over),
        ("optimizer_states", precision.optimizer_state_bytes, ranks_.states_over),
    ):
        values[name] = None if trained is None else trained * width / float(over)
    states = "memory.model_states"
    items = [
        unknown(f"memory.{name}", "memory", "bytes", NO_ADAPTERS, parent=states)
        if value is None
        else Item(
            code=f"memory.{name}", section="memory", quantity="bytes", expected=value, formula="parameters x bytes / ranks", parent=states
        )
        for name, value in values.items()
    ]  # fmt: skip
    items.append(
        whole(states, "memory", "bytes", items, parent="memory.peak_allocated",
              assumptions=("parameters spread evenly over tensor and pipeline ranks",))
    )  # fmt: skip
    parents = {"activations": "peak_allocated", "logits": "peak_allocated", "transient": "peak_allocated", "peak_allocated": "peak_reserved",
               "fragmentation": "peak_reserved", "peak_reserved": "peak_process", "framework": "peak_process", "communication": "peak_process"}
    for name, parent in parents.items():
        items.append(unknown(f"memory.{name}", "memory", "bytes", reason, parent=f"memory.{parent}"))
    items.append(unknown("memory.peak_process", "memory", "bytes", reason))
    return MemoryEstimate(items=items)

