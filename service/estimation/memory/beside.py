"""What is live beside the training step: while saving a checkpoint, evaluating, and generating answers to learn from."""

from __future__ import annotations

from collections.abc import Iterator

from ..generation import devices_of_a_copy
from ..numeric import Number, where
from ..placement import Placement
from ..run import Run
from ..stacks.profile import COMPUTE
from .setting import SAMPLED, Setting
from .sizes import Size, add, tokens_of
from .stages import Stage
from .states import Model, States

Live = tuple[str, Model, Number, Number, Number]  # of a phase: its name, the states, activations, logits and transients


def may_be_the_peak(run: Run) -> bool:
    """Whether something beside the step can hold more than the step itself."""
    return run.checkpointing.state_dict == "full_on_device" or _evaluates(run) or generates(run)


def generates(run: Run) -> bool:
    """Whether answers are generated on the devices that train, as far as the spec says."""
    wanted = run.post_training
    return run.method.objective in SAMPLED and wanted.generator == "colocated" and wanted.generated_tokens is not None


def _evaluates(run: Run) -> bool:
    declared = run.evaluation
    return declared.interval_steps is not None or bool(declared.suites) or declared.tokens_per_evaluation is not None


def beside(
    run: Run, setting: Setting, placed: Placement, stage: Stage, own: Size, states: States, gathered: Number, buckets: Number
) -> Iterator[Live]:
    """What is live in each. ``gathered``: bytes of whole weights while a block of a sharded model runs; ``buckets``: of communication."""
    workspace = setting.stack.overheads.workspace_bytes
    standing: Number = states.gradients if setting.stack.sharding.persistent_gradients else 0.0
    model = states.having(standing)
    fixed = add(workspace, buckets)
    yield "checkpoint_save", model, 0.0, 0.0, add(fixed, _state_dict(run, setting, placed, own, states, gathered))
    if _evaluates(run):
        mode = setting.loss_mode
        entries = tokens_of(setting, placed, setting.kinds[-1].decoder) * (setting.vocabulary / placed.tensor) * stage.last
        logits = entries * (setting.loss.saved[mode] + setting.loss.forward_extra[mode])
        cache: Number = 0.0
        if any(suite.generated_tokens for suite in run.evaluation.suites):
            cache = _cache(setting, stage, placed, setting.length * 1.0, placed.micro_sequences / placed.context)
        yield "evaluation", model, own.kept_block, logits, add(add(fixed, gathered), cache)
    if generates(run):
        yield "generation", model, 0.0, 0.0, add(fixed, _generation(run, setting, placed))


def _state_dict(run: Run, setting: Setting, placed: Placement, own: Size, states: States, gathered: Number) -> Number:
    """What saving gathers: nothing, block by block on the way to the host, or the whole of what is sharded (adapters alone, where
    the base is frozen under them) on one rank's device."""
    policy, precision = run.checkpointing, run.precision
    if policy.state_dict == "sharded":
        return 0.0
    if policy.state_dict == "full":
        return gathered
    width = precision.weight_bytes if setting.adapter is None else setting.adapter.element_bytes
    whole = (own.weights if setting.adapter is None else own.adapters) * width
    total: Number = where(placed.weights_over > 1, whole, 0.0)
    if policy.contents == "full":
        held = states.trained * (precision.master_weight_bytes + precision.optimizer_state_bytes)
        total = total + where(placed.states_over > 1, held, 0.0)
    return total


def _generation(run: Run, setting: Setting, placed: Placement) -> Number:
    """A 16-bit copy of what training shards, over as few devices as hold it, and the keys and values of a micro-batch of answers."""
    wanted = run.post_training
    weights = 2.0 * setting.total
    devices = float(devices_of_a_copy(run.hardware, weights))
    ranks = placed.weights_over * placed.tensor * placed.pipeline
    length = float((wanted.prompt_tokens or 0) + (wanted.generated_tokens or 0))
    cache = 0.0
    for kind in setting.kinds:
        a = kind.layer.attention
        keys = (a.query_key_dim + a.value_dim) * a.key_value_heads * len(kind.indices)
        cache += 2.0 * keys * (length if a.window is None else min(length, float(a.window)))
    return where(ranks > 1, weights / devices, 0.0) + placed.micro_sequences * (cache / devices)


def _cache(setting: Setting, stage: Stage, placed: Placement, length: float, sequences: Number) -> Number:
    """Keys and values of every block of a stage."""
    total: Number = 0.0
    for kind, count in zip(setting.kinds, stage.counts, strict=True):
        a = kind.layer.attention
        positions = length if a.window is None else min(length, float(a.window))
        total = total + (a.query_key_dim + a.value_dim) * a.key_value_heads * positions * count
    return sequences * COMPUTE[setting.mode] * total / placed.tensor
