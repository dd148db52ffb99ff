"""What is live beside the training step: while saving a checkpoint, evaluating, and generating answers to learn from."""

from __future__ import annotations

from collections.abc import Iterator

from ...generation import devices_of_a_copy
from ...numeric import Number, where
from ...placement import Placement
from ...run import Run
from ..amounts import add
from ..blocks.kept import tokens_of
from ..blocks.trained_model import SAMPLED, TrainedModel
from ..device.stage_on_rank import StageOnRank
from .moment import Moment


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


def beside_step(rank: StageOnRank) -> Iterator[Moment]:
    """A moment of each of them."""
    run, model, placed, stage, own, states = rank.run, rank.model, rank.placed, rank.stage, rank.own, rank.states
    gathered = rank.gathered
    standing: Number = states.gradients if model.stack.sharding.persistent_gradients else 0.0
    held = states.having(standing)
    fixed = add(model.stack.overheads.workspace_bytes, gathered.buckets)
    saving = add(fixed, _state_dict(rank))
    yield Moment("checkpoint_save", stage.index, held, 0.0, 0.0, saving)
    if _evaluates(run):
        mode = model.how.operators
        entries = tokens_of(model, placed, model.blocks.kinds[-1].decoder) * (model.head.outputs / placed.tensor) * stage.last
        logits = entries * (model.head.loss.saved[mode] + model.head.loss.forward_extra[mode])
        cache: Number = 0.0
        if any(suite.generated_tokens for suite in run.evaluation.suites):
            cache = _cache(rank)
        yield Moment("evaluation", stage.index, held, own.kept_block, logits, add(add(fixed, gathered.weights), cache))
    if generates(run):
        yield Moment("generation", stage.index, held, 0.0, 0.0, add(fixed, _generation(run, model, placed)))


def _state_dict(rank: StageOnRank) -> Number:
    """What saving gathers: nothing, block by block on the way to the host, or the whole of what is sharded (adapters alone, where
    the base is frozen under them) on one rank's device."""
    model, placed, own, policy, precision = rank.model, rank.placed, rank.own, rank.run.checkpointing, rank.run.precision
    if policy.state_dict == "sharded":
        return 0.0
    if policy.state_dict == "full":
        return rank.gathered.weights
    width = precision.weight_bytes if model.how.adapter is None else model.how.adapter.element_bytes
    whole = (own.weights if model.how.adapter is None else own.adapters) * width
    total: Number = where(placed.weights_over > 1, whole, 0.0)
    if policy.contents == "full":
        held = rank.states.trained * (precision.master_weight_bytes + precision.optimizer_state_bytes)
        total = total + where(placed.states_over > 1, held, 0.0)
    return total


def _generation(run: Run, model: TrainedModel, placed: Placement) -> Number:
    """A 16-bit copy of what training shards, over as few devices as hold it, and the keys and values of a micro-batch of answers."""
    wanted = run.post_training
    weights = 2.0 * model.total_weights
    devices = float(devices_of_a_copy(run.hardware, weights))
    ranks = placed.weights_over * placed.tensor * placed.pipeline
    length = float((wanted.prompt_tokens or 0) + (wanted.generated_tokens or 0))
    cache = 0.0
    for kind in model.blocks.kinds:
        a = kind.layer.attention
        keys = (a.query_key_dim + a.value_dim) * a.key_value_heads * len(kind.indices)
        cache += 2.0 * keys * (length if a.window is None else min(length, float(a.window)))
    return where(ranks > 1, weights / devices, 0.0) + placed.micro_sequences * (cache / devices)


def _cache(rank: StageOnRank) -> Number:
    """Keys and values of every block of a stage, for a micro-batch of whole sequences."""
    model, placed = rank.model, rank.placed
    length = model.lengths.sequence * 1.0
    total: Number = 0.0
    for kind, count in zip(model.blocks.kinds, rank.stage.counts, strict=True):
        a = kind.layer.attention
        positions = length if a.window is None else min(length, float(a.window))
        total = total + (a.query_key_dim + a.value_dim) * a.key_value_heads * positions * count
    return placed.micro_sequences / placed.context * model.how.width * total / placed.tensor
