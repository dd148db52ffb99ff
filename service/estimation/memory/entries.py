"""The memory items of one peak: states, what is live beside them, and the three totals with their intervals.

Corrections from own measurements act on a peak; the parts then scale so that they still add up exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isclose

from ..correction import Corrections
from ..items import Basis, Item
from ..placement import held_on_host, place
from ..run import Run
from ..spread import prior
from .phase import ACTIVE, PARTS, Phase
from .setting import Setting
from .widening import below_the_device, unlike
from .widening import interval as width_of

STATES = ("weights", "gradients", "master_weights", "optimizer_states")
PARENTS = {
    **{name: "model_states" for name in STATES},
    **{name: "peak_allocated" for name in ("model_states", *ACTIVE)},
    **{name: "peak_reserved" for name in ("peak_allocated", "fragmentation")},
    **{name: "peak_process" for name in ("peak_reserved", "framework", "communication")},
}
CODES = {name: f"memory.{name}" for name in (*PARENTS, "peak_process")}
PARENT_CODES = {name: f"memory.{parent}" for name, parent in PARENTS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """What lies between the peaks, in bytes, before corrections."""

    fragmentation: float
    framework: float
    communication: float
    communicators: float
    cached: float  # of the fragmentation, what gives way where memory runs out


def entry(name: str, value: float, formula: str, *, basis: Basis = "formula", notes: tuple[str, ...] = ()) -> Item:
    """One item of the memory section."""
    return Item(
        code=CODES[name],
        section="memory",
        quantity="bytes",
        expected=value,
        formula=formula,
        basis=basis,
        assumptions=notes,
        parent=PARENT_CODES.get(name),
    )


def entries(run: Run, known: Setting, peak: Phase, gaps: Gaps, corrections: Corrections, notes: tuple[str, ...]) -> list[Item]:
    """All items, parts before their wholes."""
    factors = {name: corrections.get(f"memory.peak_{name}") for name in ("allocated", "reserved", "process")}
    raw = {part: float(value) for part, value in peak.parts.items()}
    plain = {"allocated": _sum([raw[part] for part in PARTS])}
    plain["reserved"] = plain["allocated"] + gaps.fragmentation
    plain["process"] = plain["reserved"] + gaps.framework + gaps.communication

    fragmentation, framework = gaps.fragmentation, gaps.framework
    scale = 1.0 if factors["allocated"] is None else factors["allocated"].factor
    if factors["reserved"] is not None:
        # What is inside cannot exceed the whole: an inner peak without measurements of its own shrinks with it, and measured
        # ones that contradict each other leave nothing between them, never less than nothing.
        target = plain["reserved"] * factors["reserved"].factor
        if factors["allocated"] is None:
            scale = min(scale, target / plain["allocated"])
        fragmentation = max(target - plain["allocated"] * scale, 0.0)
    if factors["process"] is not None:
        target = plain["process"] * factors["process"].factor - gaps.communication
        if factors["allocated"] is None and factors["reserved"] is None:
            shrink = min(1.0, max(target, 0.0) / plain["reserved"])
            scale, fragmentation = scale * shrink, fragmentation * shrink
        framework = max(target - (plain["allocated"] * scale + fragmentation), 0.0)
    parts = {part: value * scale for part, value in raw.items()}
    states = _sum([parts[part] for part in STATES])
    allocated = _sum([states, *(parts[part] for part in ACTIVE)])
    reserved = allocated + fragmentation
    values = {"allocated": allocated, "reserved": reserved, "process": _sum([reserved, framework, gaps.communication])}

    precision, rule, over = run.precision, known.stack.overheads, _divided(run, known)
    why = _elsewhere(run, known, peak)
    found = [
        *(
            entry(name, parts[name], f"{what} x {each:g} bytes{over[index]}", notes=why[name])
            for name, what, each, index in (
                ("weights", "parameters", precision.weight_bytes, 0),
                ("gradients", "trained parameters", precision.gradient_bytes, 1),
                ("master_weights", "trained parameters", precision.master_weight_bytes, 2),
                ("optimizer_states", "trained parameters", precision.optimizer_state_bytes, 2),
            )
        ),
        entry("model_states", states, " + ".join(STATES)),
        entry("activations", parts["activations"], "what blocks and final norm keep x micro-batches in flight"),
        entry("logits", parts["logits"], "tokens x vocabulary x the bytes that the stack's loss holds at the peak"),
        entry("transient", parts["transient"], "gathered weights, casts, buckets, one block's gradients, optimizer temporaries"),
        entry("peak_allocated", allocated, "model_states + activations + logits + transient", basis="prior", notes=notes),
        entry(
            "fragmentation",
            fragmentation,
            f"{rule.fragmentation:g} x (activations + logits + transient) + late gradients + rounding + what is cached for another phase",
            basis="prior",
        ),
        entry("peak_reserved", reserved, "peak_allocated + fragmentation", basis="prior"),
        entry("framework", framework, "context, kernels and libraries of one process", basis="prior"),
        entry("communication", gaps.communication, f"{gaps.communicators:g} communicators x {rule.communicator_bytes:g}", basis="prior"),
        entry("peak_process", values["process"], "peak_reserved + framework + communication", basis="prior", notes=known.stack.sources),
    ]
    reasons = unlike(run, known)
    for item in found:
        name = item.code.removeprefix("memory.peak_")
        if name not in values:
            continue
        interval = width_of(known, name, reasons)
        if reasons:
            item.assumptions = (*item.assumptions, "wider interval: no measured run has " + ", ".join(reasons))
        bounds = prior(values[name], values[name] * interval.low, values[name] * interval.high, run.interval_coverage)
        item.low, item.high = bounds.low, bounds.high
        if name == "process":
            item.high = below_the_device(run, values[name], item.high, gaps.cached)
        factor = factors[name]
        if factor is not None:
            # Where measured peaks contradict each other, the factor that remains is said.
            left = values[name] / plain[name]
            item.factor = factor.factor if isclose(left, factor.factor, rel_tol=1e-9) else left
            item.basis, item.n, item.uncalibrated = "calibrated", factor.n, plain[name]
            item.low, item.high = values[name] * factor.low, values[name] * factor.high
    return found


def _sum(values: list[float]) -> float:
    """Left to right, as every whole is added up."""
    total = 0.0
    for value in values:
        total += value
    return total


def _divided(run: Run, known: Setting) -> tuple[str, str, str]:
    """For weights, gradients and states: over how many ranks the sharding divides them, or that it does not."""
    placed, stage = place(run), run.layout.sharding
    split = " of this stage" if float(placed.tensor) * float(placed.pipeline) > 1 else ""
    weights, gradients = placed.weights_over, placed.gradients_over
    said = []
    for part, over in (("weights", weights), ("gradients", gradients), ("states", placed.states_over)):
        divided = f" / {float(over):g} ranks" if float(over) > 1 else f" ({part} are not divided under {stage})" if stage != "none" else ""
        said.append(split + divided)
    return said[0], said[1], said[2]


# What is held in host memory, by the name of its item.
_HELD = {"weights": "parameters", "gradients": "gradients", "master_weights": "optimizer", "optimizer_states": "optimizer"}


def _elsewhere(run: Run, known: Setting, peak: Phase) -> dict[str, tuple[str, ...]]:
    """Why a state takes no bytes at the peak though the formula has some: it is in host memory, or comes and goes."""
    held = held_on_host(run)
    said: dict[str, tuple[str, ...]] = {name: ("offloaded: held in host memory",) if _HELD[name] in held else () for name in STATES}
    if "states" in held:
        said["optimizer_states"] = ("paged: unified memory that moves to the host where the device is full, unseen by torch's counters",)
    if not said["gradients"] and run.precision.gradient_bytes and float(peak.parts["gradients"]) == 0.0:
        said["gradients"] = (f"none is live at the peak ({peak.name}): they are made after it and dropped by the step",)
    return said
