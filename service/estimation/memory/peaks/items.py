"""The memory items that describe one device's figures: states, what is live beside them, and the three peaks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isclose

from ...architecture import Architecture
from ...by_identity import ByIdentity
from ...correction import Corrections
from ...items import Basis, Item, unknown
from ...numeric import Number, one
from ...parameters import Parameters
from ...placement import Placement, held_on_host, place
from ...recipes import RECIPES
from ...run import Run, Sharding
from ...spread import Spread
from ...stacks import STACKS, stack_of
from ...stacks.profile import Stack
from ..blocks.trained_model import REFERENCED, SAMPLED, Essence, TrainedModel
from ..device.stage_on_rank import host_bytes
from ..timeline.moment import Moment
from ..timeline.stage_step import keeps_inputs_to_the_end
from .figures import Figures

STATES = ("weights", "gradients", "master_weights", "optimizer_states")
ACTIVE = ("activations", "logits", "transient")
PARENTS = {
    **{name: "model_states" for name in STATES},
    **{name: "peak_allocated" for name in ("model_states", *ACTIVE)},
    **{name: "peak_reserved" for name in ("peak_allocated", "fragmentation")},
    **{name: "peak_process" for name in ("peak_reserved", "framework", "communication")},
}
# "memory.activations" and the like: a code is put together from the name that its figure has in ``Parts`` and ``Figures``.
CODES = {name: f"memory.{name}" for name in (*PARENTS, "peak_process")}
PARENT_CODES = {name: f"memory.{parent}" for name, parent in PARENTS.items()}
NO_SHAPE = "what blocks keep needs the model's shape: a preset, hf_config, or the fields beside parameter_count"
NO_LENGTH = "sequence_length is not given"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quoted:
    """One layout's memory, ready to be described."""

    run: Run
    model: TrainedModel
    placed: Placement
    figures: Figures
    plain: Figures  # without corrections; the same where there are none
    corrections: Corrections
    peak: Moment


def items(quoted: Quoted) -> list[Item]:
    """All items of one layout, parts before their wholes."""
    figures, stack, parts = quoted.figures, quoted.model.stack, quoted.figures.parts
    rule = stack.overheads
    fragments = (
        f"{rule.fragmentation:g} x (activations + logits + transient) + late gradients + rounding + what is cached for another phase"
    )
    buffers = f"{figures.communicators:g} communicators x {rule.communicator_bytes:g}"
    found = [
        *_states(quoted),
        _item("activations", parts.activations, "what blocks and final norm keep x micro-batches in flight"),
        _item("logits", parts.logits, "tokens x vocabulary x the bytes that the stack's loss holds at the peak"),
        _item("transient", parts.transient, "gathered weights, casts, buckets, one block's gradients, optimizer temporaries"),
        _peak("allocated", quoted, "model_states + activations + logits + transient", _notes(quoted)),
        _item("fragmentation", figures.fragmentation, fragments, basis="prior"),
        _peak("reserved", quoted, "peak_allocated + fragmentation"),
        _item("framework", figures.framework, "context, kernels and libraries of one process", basis="prior"),
        _item("communication", figures.communication, buffers, basis="prior"),
        _peak("process", quoted, "peak_reserved + framework + communication", stack.sources),
    ]
    if quoted.plain is not figures:
        before = _values(quoted.plain)
        found = [item._replace(uncalibrated=before[item.code]) for item in found]
    if held_on_host(quoted.run):
        found.append(_host(quoted.run, quoted.model))
    return found


def _values(figures: Figures) -> dict[str, float]:
    """What the items of figures expect, by code."""
    values = {**figures.parts._asdict(), "model_states": figures.model_states, "fragmentation": figures.fragmentation}
    values |= {"framework": figures.framework, "communication": figures.communication}
    values |= {"peak_allocated": figures.allocated.expected, "peak_reserved": figures.reserved.expected}
    values["peak_process"] = figures.process.expected
    return {CODES[name]: value for name, value in values.items() if name in CODES}


def _item(name: str, value: Number, formula: str, *, basis: Basis = "formula", notes: tuple[str, ...] = ()) -> Item:
    return Item(
        code=CODES[name],
        section="memory",
        quantity="bytes",
        expected=one(value),
        formula=formula,
        basis=basis,
        assumptions=notes,
        parent=PARENT_CODES.get(name),
    )


def _peak(name: str, quoted: Quoted, formula: str, notes: tuple[str, ...] = ()) -> Item:
    """The item of a peak, which says what corrected it and why its interval is wide."""
    figures, corrections = quoted.figures, quoted.corrections
    if figures.unlike:
        notes = (*notes, "wider interval: no measured run has " + ", ".join(figures.unlike))
    code = f"memory.peak_{name}"
    found: Spread = getattr(figures, name)
    basis: Basis = "prior"
    correction, n, factor = corrections.get(code), None, None
    if correction is not None:
        basis, n = "calibrated", correction.n
        # Where measured peaks contradict each other, the factor that remains is said.
        left = found.expected / figures.uncorrected[name]
        factor = correction.factor if isclose(left, correction.factor, rel_tol=1e-9) else left
    return Item(
        code=code,
        section="memory",
        quantity="bytes",
        expected=one(found.expected),
        formula=formula,
        basis=basis,
        low=one(found.low),
        high=one(found.high),
        assumptions=notes,
        parent=PARENT_CODES.get(f"peak_{name}"),
        n=n,
        factor=one(factor),
    )


def _states(quoted: Quoted) -> Iterator[Item]:
    """The four states and their sum."""
    figures, precision, why = quoted.figures, quoted.run.precision, _elsewhere(quoted.run, quoted.peak)
    weights, gradients, states = _divided(quoted.run.layout.sharding, quoted.placed)
    for name, what, each, divided in (
        ("weights", "parameters", precision.weight_bytes, weights),
        ("gradients", "trained parameters", precision.gradient_bytes, gradients),
        ("master_weights", "trained parameters", precision.master_weight_bytes, states),
        ("optimizer_states", "trained parameters", precision.optimizer_state_bytes, states),
    ):
        yield _item(name, getattr(figures.parts, name), f"{what} x {each:g} bytes{divided}", notes=why[name])
    yield _item("model_states", figures.model_states, " + ".join(STATES))


def _notes(quoted: Quoted) -> tuple[str, ...]:
    """What is said beside the allocated peak: where it is, and what had to be assumed."""
    run, model, peak = quoted.run, quoted.model, quoted.peak
    said = [f"live at the peak: {peak.phase} on pipeline stage {int(peak.stage)}", *_assumed(run.architecture, model.essence)]
    if run.layout.expert > 1:
        said.append(f"the fullest expert rank gets {run.layout.expert_imbalance:g} times the mean of the tokens")
    return tuple(said)


def _divided(sharding: Sharding, placed: Placement) -> tuple[str, str, str]:
    """For weights, gradients and states: over how many ranks the sharding divides them, or that it does not."""
    split = " of this stage" if float(placed.tensor) * float(placed.pipeline) > 1 else ""

    def said(part: str, over: float) -> str:
        if over > 1:
            return f"{split} / {over:g} ranks"
        return split if sharding == "none" else f"{split} ({part} are not divided under {sharding})"

    weights, gradients, states = float(placed.weights_over), float(placed.gradients_over), float(placed.states_over)
    return said("weights", weights), said("gradients", gradients), said("states", states)


# What is held in host memory, by the name of its item.
_HELD = {"weights": "parameters", "gradients": "gradients", "master_weights": "optimizer", "optimizer_states": "optimizer"}


def _elsewhere(run: Run, peak: Moment) -> dict[str, tuple[str, ...]]:
    """Why a state takes no bytes at the peak though the formula has some: it is in host memory, or comes and goes."""
    held = held_on_host(run)
    said: dict[str, tuple[str, ...]] = {name: ("offloaded: held in host memory",) if _HELD[name] in held else () for name in STATES}
    if "states" in held:
        said["optimizer_states"] = ("paged: unified memory that moves to the host where the device is full, unseen by torch's counters",)
    if not said["gradients"] and run.precision.gradient_bytes and float(peak.states.gradients) == 0.0:
        said["gradients"] = (f"none is live at the peak ({peak.phase}): they are made after it and dropped by the step",)
    return said


def _host(run: Run, model: TrainedModel) -> Item:
    """Host memory for what is offloaded; what was asked to go and stays is not in it."""
    held, node = held_on_host(run), 1 if run.hardware is None else min(run.hardware.devices_per_node, run.hardware.device_count)
    amount = float(host_bytes(run, model))
    return Item(
        code="host_memory.offload",
        section="memory",
        quantity="bytes",
        expected=amount,
        formula=f"{', '.join(sorted(held))} of one rank, pinned",
        assumptions=(f"a node holds one for each of its devices: {amount * node:.4g} bytes",),
    )


def items_without_shape(run: Run, parameters: Parameters) -> list[Item]:
    """States alone, from the parameter count: all that a bare count allows."""
    layout, precision = run.layout, run.precision
    reason = NO_LENGTH if run.architecture.shape_known else NO_SHAPE
    placed = place(run)
    split = float(layout.tensor) * float(layout.pipeline)
    values = {"weights": parameters.total * precision.weight_bytes / split / float(placed.weights_over)}
    found = [_item("weights", values["weights"], "parameters x bytes / ranks")]
    if parameters.trainable is not None:
        trained = parameters.trainable / split
        values["gradients"] = trained * precision.gradient_bytes / float(placed.gradients_over)
        values["master_weights"] = trained * precision.master_weight_bytes / float(placed.states_over)
        values["optimizer_states"] = trained * precision.optimizer_state_bytes / float(placed.states_over)
        evenly = ("parameters spread evenly over tensor and pipeline ranks",)
        found.extend(_item(name, values[name], "trained x bytes / ranks") for name in STATES[1:])
        found.append(_item("model_states", sum(values[name] for name in STATES), " + ".join(STATES), notes=evenly))
    missing = () if parameters.trainable is not None else (*STATES[1:], "model_states")
    for name in (*missing, *ACTIVE, "peak_allocated", "fragmentation", "peak_reserved", "framework", "communication", "peak_process"):
        parent = PARENTS.get(name)
        found.append(unknown(f"memory.{name}", "memory", "bytes", reason, parent=None if parent is None else f"memory.{parent}"))
    return found


def sum_of_states(found: list[Item]) -> float | None:
    """Bytes of all states together, as far as they are known."""
    return next((item.expected for item in found if item.code == "memory.model_states"), None)


@ByIdentity
def _assumed(model: Architecture, run: Essence) -> tuple[str, ...]:
    """What had to be assumed, in the order in which it is said; remembered like the trained model."""
    stack = stack_of(run.software, run.precision)
    return (*_relative(run, stack), *_of_method(run, stack), *_dropped(model, run))


def _of_method(run: Essence, stack: Stack) -> tuple[str, ...]:
    notes = []
    if run.longest_decides:
        notes.append(f"the longest sequence decides: {run.length} tokens")
    if run.method.objective in REFERENCED:
        if run.method.adapters:
            notes.append("the frozen base is the reference model")
        elif run.post_training.reference == "model":
            notes.append("the reference model is held in 16 bits, sharded like the weights")
    if run.method.objective in SAMPLED:
        notes += _sampled_notes(run)
    if RECIPES[run.precision.recipe].narrow:
        notes.append("narrow products read 16-bit weights and activations, which are what is held (torchtitan's float8 runs)")
    if run.method.lora is not None and stack.adapter_bytes not in (None, run.method.lora.adapter_bytes):
        notes.append(f"the engine holds adapters in {stack.adapter_bytes:g} bytes a parameter, whatever adapter_bytes says")
    if run.gathered and keeps_inputs_to_the_end(run.software, run.method, run.activation_checkpointing, stack):
        notes.append(
            "PyTorch's first FSDP, adapters and reentrant checkpointing together keep both inputs of every block until the optimizer step"
        )
    if run.method.objective == "reward_model":
        notes.append("a scalar head: one output a token instead of the vocabulary")
    return tuple(notes)


def _relative(run: Essence, stack: Stack) -> tuple[str, ...]:
    """Which of the stacks that share a name it was taken for, and by what."""
    if stack is STACKS[run.software.stack]:
        return ()
    return (f"taken for {stack.title}, whose gradients have {run.precision.gradient_bytes:g} bytes: precision.gradient_bytes tells",)


def _dropped(model: Architecture, run: Essence) -> tuple[str, ...]:
    if not model.embedding_dropouts and all(layer.dropout is None for layer in model.layers):
        return ()
    return ("the masks of the config's dropout are kept: a byte an element" + ("" if run.attention == "eager" else ", none of the scores"),)


def _sampled_notes(run: Essence) -> list[str]:
    wanted, notes = run.post_training, []
    if wanted.reward_parameter_count:
        notes.append("the reward model is held in 16 bits, sharded like the weights")
    if run.method.objective == "ppo":
        size = "the reward model's" if wanted.reward_parameter_count is not None else "the policy's"
        notes.append(f"the value model has {size} size and is trained like the policy; its activations are not alive with the policy's")
    if wanted.generator == "separate":
        notes.append("answers are generated on other devices")
    elif wanted.generated_tokens is None:
        notes.append("generation is not counted: give post_training.generated_tokens")
    else:
        notes.append(
            "answers to a micro-batch of prompts are generated on these devices, training states resident; a sharded model is gathered "
            "for it in 16 bits over as few devices as hold it"
        )
    return notes
