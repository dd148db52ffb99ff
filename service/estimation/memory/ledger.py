"""The memory of a run: items, phases, what each block keeps, and whether it fits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..correction import Corrections
from ..items import Item, unknown
from ..numeric import Number, anywhere, indicator, maximum, minimum, where
from ..parameters import Parameters
from ..placement import held_on_host, place
from ..run import Run
from ..stacks.profile import Stack
from . import phases as live
from . import sizes
from .entries import PARENTS, STATES, Gaps, entries, entry
from .host import host_bytes
from .phase import ACTIVE, Phase
from .setting import Setting, setting

ROUNDING_LIMIT = 0.3  # of the allocated peak: a small job does not strand gigabytes
NO_SHAPE = "what blocks keep needs the model's shape: a preset, hf_config, or the fields beside parameter_count"
NO_LENGTH = "sequence_length is not given"


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
    cached: Number  # of the last two, what the allocator holds for another phase and gives back where memory runs out


def peaks(run: Run, table: Stack | None = None) -> Peaks | None:
    """The three peaks alone, broadcasting over layout and batch fields; None where the shape or length is unknown.

    ``table`` stands in for the stack's own coefficients (a refit).
    """
    known = setting(run, table)
    return None if known is None else peaks_in(run, known)


def peaks_in(run: Run, known: Setting) -> Peaks:
    """The three peaks of a run whose setting is known."""
    pieces = [_peaks(piece, known) for piece in _pieces(run)]
    if len(pieces) == 1:
        return pieces[0]
    shapes = [np.shape(piece.process) or (1,) for piece in pieces]
    whole = [
        np.concatenate([np.broadcast_to(getattr(piece, name), shape) for piece, shape in zip(pieces, shapes, strict=True)])
        for name in Peaks.__slots__
    ]
    return Peaks(*whole)


PIECE = 4096  # layouts at once: what a core's first caches hold of a few dozen arrays


def _pieces(run: Run) -> list[Run]:
    """A search cut into runs of ``PIECE`` layouts; every formula is elementwise, so the values are the same."""
    arrays = {
        (part, name): value
        for part, fields in (("layout", run.layout), ("batch", run.batch))
        for name in fields.__slots__
        if isinstance(value := getattr(fields, name), np.ndarray) and value.ndim == 1
    }
    count = max((len(value) for value in arrays.values()), default=0)
    if count <= PIECE:
        return [run]
    pieces = []
    for start in range(0, count, PIECE):
        cut: dict[str, dict[str, Any]] = {"layout": {}, "batch": {}}
        for (part, name), value in arrays.items():
            cut[part][name] = value[start : start + PIECE]
        pieces.append(replace(run, layout=replace(run.layout, **cut["layout"]), batch=replace(run.batch, **cut["batch"])))
    return pieces


def _peaks(run: Run, known: Setting) -> Peaks:
    rule = known.stack.overheads
    worst: Number = 0.0
    best: Number = 0.0
    active: Number = 0.0
    late: Number = 0.0
    cached: Number = 0.0
    communication = communicators(run) * rule.communicator_bytes
    outside = rule.framework_bytes + communication
    engine = bool(known.stack.step_buffers)
    for phase in live.phases(run, known):
        rank = _rank(run, known, outside, phase) if engine else phase.allocated
        better = rank > worst
        if better is False or not anywhere(better):
            continue
        active = where(better, phase.active, active)
        late = where(better, phase.late, late) if rule.late_gradients else 0.0
        worst = maximum(worst, rank)
        if engine:
            best, cached = where(better, phase.allocated, best), where(better, phase.cached, cached)
        else:
            best = worst
    gap, cached = fragmentation(run, known, outside, best, active, late, cached)
    reserved = best + gap
    return Peaks(best, reserved, reserved + rule.framework_bytes + communication, cached)


def _rank(run: Run, known: Setting, outside: Number, phase: Phase) -> Number:
    """What the worst moment is chosen by: what is allocated, or what is reserved where an engine may cache something."""
    if not known.stack.step_buffers:
        return phase.allocated
    gap, _ = fragmentation(run, known, outside, phase.allocated, phase.active, phase.late, phase.cached)
    return phase.allocated + gap if phase.top is True else where(phase.top, phase.allocated + gap, phase.allocated)


def fragmentation(
    run: Run, known: Setting, outside: Number, allocated: Number, active: Number, late: Number, cached: Number
) -> tuple[Number, Number]:
    """Reserved and not allocated, and how much of it is cached for another phase.

    A share of what comes and goes, gradients that fit into none of its holes, and rounding; what is cached stays within the device,
    since PyTorch gives cached blocks back before it runs out of memory.
    """
    rule = known.stack.overheads
    rounding = minimum(rule.fragmentation_bytes, ROUNDING_LIMIT * allocated)
    lost = rule.fragmentation * active + rule.late_gradients * late + rounding
    if type(cached) is float and cached == 0.0:
        return lost, cached
    if run.hardware is not None:
        cached = minimum(cached, maximum(run.hardware.device.memory_bytes - (allocated + lost + outside), 0.0))
    return lost + cached, cached


def communicators(run: Run) -> Number:
    """Collective communicators of one rank.

    One for each dimension of the layout that has more than one rank, a second one for the pipeline (one with either neighbour:
    ProcessGroupNCCL makes one for every pair that sends), and the world's where no dimension spans it.
    """
    layout = run.layout
    total: Number = 0.0
    data, model = layout.data * layout.context, layout.tensor * layout.pipeline
    for size in (data, layout.tensor, layout.pipeline, layout.pipeline, layout.context, layout.expert):
        total = total + indicator(size > 1)
    world = data * model
    spans = (data == world) | (layout.tensor == world) | (layout.pipeline == world)
    return total + (1.0 - indicator(spans))


def estimate(run: Run, parameters: Parameters, workload: Any = None, corrections: Corrections | None = None) -> MemoryEstimate:
    """The memory items of a run with a scalar layout."""
    known = setting(run)
    if known is None:
        return _without_shape(run, parameters)
    merged = _merge(live.phases(run, known, all_phases=True))
    rule, count = known.stack.overheads, float(communicators(run))
    outside = rule.framework_bytes + count * rule.communicator_bytes
    peak = max((phase for phase in merged if phase.in_peak), key=lambda phase: float(_rank(run, known, outside, phase)))
    gap, cached = fragmentation(run, known, outside, peak.allocated, peak.active, peak.late, peak.cached)
    gaps = Gaps(
        fragmentation=float(gap),
        framework=rule.framework_bytes,
        communication=count * rule.communicator_bytes,
        communicators=count,
        cached=float(cached),
    )
    items = entries(run, known, peak, gaps, corrections or {}, _notes(run, known, peak))
    if held_on_host(run):
        items.append(_host(run, known))
    process = next(item for item in items if item.code == "memory.peak_process")
    return MemoryEstimate(
        items=items,
        phases=[_shown(phase) for phase in merged],
        saved_bytes_per_layer=saved_bytes_per_layer(run, known),
        peak_phase=peak.name,
        peak_stage=int(peak.stage),
        fits=_fits(run, process),
        peak_process_bytes=process.expected,
    )


def _notes(run: Run, known: Setting, peak: Phase) -> tuple[str, ...]:
    notes = [f"live at the peak: {peak.name} on pipeline stage {int(peak.stage)}", *known.notes]
    if run.layout.expert > 1:
        notes.append(f"the fullest expert rank gets {run.layout.expert_imbalance:g} times the mean of the tokens")
    return tuple(notes)


def _merge(found: Iterable[Phase]) -> list[Phase]:
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
    """Bytes that each block keeps from forward to backward, of one micro-batch on one rank."""
    placed = place(run)
    values: list[float] = [0.0] * known.blocks
    for kind in known.kinds:
        if run.activation_checkpointing == "full":
            value = sizes.inputs(known, kind, placed)
        elif run.activation_checkpointing == "selective":
            value = sizes.selected(known, kind, placed)
        else:
            value = sizes.block_bytes(known, kind.kept, placed, kind.decoder)
        for index in kind.indices:
            values[index] = float(value)
    if not known.recomputes:
        for index, extra, decoder in known.first_blocks:
            values[index] += float(sizes.block_bytes(known, extra, placed, decoder))
    return [round(value) for value in values]


def _host(run: Run, known: Setting) -> Item:
    """Host memory for what is offloaded; what was asked to go and stays is not in it."""
    held, node = held_on_host(run), 1 if run.hardware is None else min(run.hardware.devices_per_node, run.hardware.device_count)
    amount = float(host_bytes(run, known))
    return Item(
        code="host_memory.offload",
        section="memory",
        quantity="bytes",
        expected=amount,
        formula=f"{', '.join(sorted(held))} of one rank, pinned",
        assumptions=(f"a node holds one for each of its devices: {amount * node:.4g} bytes",),
    )


def _fits(run: Run, process: Item) -> bool | str | None:
    if run.hardware is None or process.expected is None:
        return None
    memory = run.hardware.device.memory_bytes
    low = process.expected if process.low is None else process.low
    high = process.expected if process.high is None else process.high
    if high <= memory:
        return True
    return False if low > memory else "uncertain"


def _without_shape(run: Run, parameters: Parameters) -> MemoryEstimate:
    """States alone, from the parameter count: all that a bare count allows."""
    layout, precision = run.layout, run.precision
    reason = NO_LENGTH if run.architecture.shape_known else NO_SHAPE
    placed = place(run)
    split = float(layout.tensor) * float(layout.pipeline)
    values = {"weights": parameters.total * precision.weight_bytes / split / float(placed.weights_over)}
    items = [entry("weights", values["weights"], "parameters x bytes / ranks")]
    if parameters.trainable is not None:
        trained = parameters.trainable / split
        values["gradients"] = trained * precision.gradient_bytes / float(placed.gradients_over)
        values["master_weights"] = trained * precision.master_weight_bytes / float(placed.states_over)
        values["optimizer_states"] = trained * precision.optimizer_state_bytes / float(placed.states_over)
        evenly = ("parameters spread evenly over tensor and pipeline ranks",)
        items.extend(entry(name, values[name], "trained x bytes / ranks") for name in STATES[1:])
        items.append(entry("model_states", sum(values[name] for name in STATES), " + ".join(STATES), notes=evenly))
    missing = () if parameters.trainable is not None else (*STATES[1:], "model_states")
    for name in (*missing, *ACTIVE, "peak_allocated", "fragmentation", "peak_reserved", "framework", "communication", "peak_process"):
        parent = PARENTS.get(name)
        items.append(unknown(f"memory.{name}", "memory", "bytes", reason, parent=None if parent is None else f"memory.{parent}"))
    return MemoryEstimate(items=items)
