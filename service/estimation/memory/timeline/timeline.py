"""All moments of a training step, stage by stage: which exist for which models and layouts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...numeric import Number, minimum, where
from ...placement import Placement
from ...run import Run
from ..blocks.kept import BlockOnRank, blocks_on_rank
from ..blocks.trained_model import TrainedModel
from ..device.stage_on_rank import StageOnRank, stages_on_ranks
from ..device.states import HeldStates
from . import moments, position_bias
from .beside_step import beside_step, may_be_the_peak
from .micro_batch import micro_batch
from .moment import BufferedStep, Moment, StageTimeline
from .stage_step import StageStep, stage_step


def timeline(run: Run, model: TrainedModel, placed: Placement, *, shown: bool) -> Iterator[StageTimeline]:
    """The moments of every stage that can hold the most; ``shown``: those beside the step too where they cannot be the peak."""
    each, micro = blocks_on_rank(model, placed), micro_batch(run, model, placed)
    beside_too = shown or may_be_the_peak(run)
    for rank in stages_on_ranks(run, model, placed, each):
        step = stage_step(rank, micro)
        yield StageTimeline(
            load=_load(rank) if shown else None,
            step=_step(step, each),
            buffered_step=_buffered_step(step),
            beside=list(beside_step(rank)) if beside_too else [],
        )


def _load(rank: StageOnRank) -> Moment:
    loaded = HeldStates(rank.states.weights, 0.0, 0.0, 0.0)
    return Moment("load", rank.stage.index, loaded, 0.0, 0.0, rank.model.stack.overheads.workspace_bytes)


def _step(step: StageStep, each: Sequence[BlockOnRank]) -> list[Moment]:
    """Forward end, the moments of the backward pass, and the optimizer step."""
    model, first = step.rank.model, step.rank.stage.first
    found: list[Moment] = []
    if model.checkpointing == "full" or step.micro.experts is not None:
        found.append(moments.inside_last_mlp(step))
    if step.micro.experts is not None and step.micro.experts.trained_down is not None:
        found += moments.inside_experts(step, step.micro.experts, step.micro.experts.trained_down)
    if model.blocks.kinds[-1].adapted_mlp is not None:
        found += moments.inside_adapted_mlp(step)
    if model.how.adapter is not None and model.final_norm.written_out:
        found += moments.inside_final_norm(step)
    if model.blocks.score_gradients:
        found += moments.score_gradients(step)
    if model.blocks.first.squares and not model.recomputes and not model.blocks.score_gradients and first:
        found.append(position_bias.kept_scores(step))
    if model.blocks.hand_on_bias and first:
        found += position_bias.recomputed(step, each)
    gradients_of_scores = model.blocks.score_gradients or (model.blocks.first.squares and model.trains.position_bias)
    if model.encoder_decoder and gradients_of_scores and not model.recomputes and first and "activations" not in step.rank.host:
        found.append(moments.first_encoder_block(step, each))
    if model.ends_without_table and first:
        found.append(moments.patch_convolution(step))
    found += moments.loss(step)
    found += moments.first_and_last_block(step)
    found += (moments.token_table(step), moments.optimizer_step(step))
    return found


def _buffered_step(step: StageStep) -> BufferedStep | None:
    buffers = None if "optimizer" in step.rank.host else _step_buffers(step.rank)
    if buffers is None:
        return None
    live, freed = buffers
    return BufferedStep(moments.optimizer_step(step, live), live + freed)


def _step_buffers(rank: StageOnRank) -> tuple[Number, Number] | None:
    """Bytes that the engine makes at the step: what is live at once, and what was freed before."""
    run, model, placed = rank.run, rank.model, rank.placed
    own, others = model.stack.step_buffers.get(run.layout.sharding), model.stack.model_parallel_step_buffers
    if own is None or run.precision.gradient_bytes >= 4:
        return None
    live: Number = own.live
    freed: Number = own.freed
    at_once: Number = own.at_once
    if others is not None:
        other, split = others.get(run.layout.sharding, own), placed.tensor * placed.pipeline > 1
        live, freed, at_once = where(split, other.live, live), where(split, other.freed, freed), where(split, other.at_once, at_once)
    partition = minimum(rank.states.stepped, at_once)
    return partition * live, partition * freed
