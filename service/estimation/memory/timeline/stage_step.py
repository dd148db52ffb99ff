"""What several moments of a training step share: all that a pipeline stage holds whatever its blocks are at.

Computed once a stage: what autograd keeps, autocast's copies of the weights, and how far the gradients have come at the
milestones of a backward pass. ``moments`` adds what only one moment has.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...numeric import Number, maximum, minimum, where
from ...optimizers import OPTIMIZERS
from ...placement import divides_weights
from ...run import Method, Software
from ...stacks.profile import Stack
from ..amounts import add
from ..blocks.kept import block_bytes
from ..device.stage_on_rank import StageOnRank
from ..device.states import HeldStates, ModelStates
from .micro_batch import MicroBatch
from .moment import Moment


@dataclass(slots=True)
class Saved:
    """What autograd keeps on a stage, in bytes."""

    all: Number  # of all micro-batches in flight, when the forward pass of the last one ends
    others: Number  # the same without the micro-batch whose backward pass runs
    recomputed: Number  # values of the one block that checkpointing makes again
    in_last_block: Number  # of the backward pass, the stage's first: its own values, and what other micro-batches keep
    encoded: Number  # the encoder's output
    images: Number  # cast for the patch convolution, until the forward pass is over
    lingering: Number  # what outlives the backward pass


@dataclass(slots=True)
class Casts:
    """Autocast's 16-bit copies of wider weights and adapters, in bytes."""

    all: Number  # at the end of the forward pass
    kept: Number  # from there on, of what is not recomputed
    block: Number  # of the one block that recomputation casts again: it runs under an autocast of its own
    head: Number
    behind_loss: Number  # ``kept`` without the head's, which goes with the loss


NO_CASTS = Casts(0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(slots=True)
class GradientProgress:
    """How far the gradients of a backward pass have come: the states that stand with them, at its milestones."""

    states: ModelStates
    element_bytes: float  # of a gradient that stays on the device
    table: Number  # bytes of the whole gradient of the token table
    at_start: HeldStates  # none of this micro-batch; those of earlier ones where they are accumulated
    after_head: HeldStates  # those of the head are there
    before_first_block: HeldStates  # all but those of the stage's first block and of the token table, which come last
    complete: HeldStates

    def of(self, elements: Number) -> Number:
        """Gradients of as many elements of a rank, as they are sharded."""
        return elements * self.element_bytes / self.states.gradients_over

    def grown(self, so_far: HeldStates, more: Number) -> HeldStates:
        """The states when more gradients have come, in bytes."""
        return self.states.having(minimum(self.states.gradients, so_far.gradients + more))

    def missing(self, whole: Number) -> HeldStates:
        """The states while some, in bytes before sharding, are still to come."""
        return self.states.having(maximum(self.at_start.gradients, self.states.gradients - whole / self.states.gradients_over))


@dataclass(slots=True)
class StageStep:
    """One stage in a training step, in bytes."""

    rank: StageOnRank
    micro: MicroBatch
    saved: Saved
    casts: Casts
    gradients: GradientProgress
    fixed: Number  # transients throughout the step: workspaces, buckets, images
    forward_fixed: Number  # with the weights gathered for a block
    backward_fixed: Number  # and with the gradients that wait for their reduction
    late_share: float  # of gradients to come, how much a moment counts as ``Moment.late``

    def moment(self, phase: str, states: HeldStates, activations: Number, logits: Number, transient: Number, *more: Number) -> Moment:
        """A moment of the named phase; its transients are added up in the order given."""
        for value in more:
            transient = add(transient, value)
        return Moment(phase, self.rank.stage.index, states, activations, logits, transient, self._late(states) if self.late_share else 0.0)

    def _late(self, states: HeldStates) -> Number:
        return maximum(self.gradients.states.gradients - states.gradients, 0.0) * self.late_share

    def forward(self, activations: Number, *transients: Number) -> Moment:
        """A moment inside the blocks of a forward pass."""
        return self.moment("forward", self.gradients.at_start, activations, 0.0, self.forward_fixed, *transients)

    def backward(self, states: HeldStates, activations: Number, *transients: Number) -> Moment:
        """A moment inside the blocks of a backward pass, or behind them."""
        return self.moment("backward", states, activations, 0.0, self.backward_fixed, *transients)

    def states_without(self, elements: Number) -> HeldStates:
        """The states while gradients of as many elements, and that of the token table, are still to come."""
        table = 0.0 if self.rank.model.head.tied_trained else self.gradients.table  # a tied one comes with the head's
        return self.gradients.missing(elements * self.gradients.element_bytes + table)


def stage_step(rank: StageOnRank, micro: MicroBatch) -> StageStep:
    """What a stage holds at all moments of a step."""
    fixed = _fixed(rank, micro)
    forward = add(fixed, rank.gathered.weights)
    return StageStep(
        rank=rank,
        micro=micro,
        saved=_saved(rank, micro),
        casts=_casts(rank),
        gradients=_progress(rank),
        fixed=fixed,
        forward_fixed=forward,
        backward_fixed=add(forward, rank.gathered.unreduced),
        late_share=rank.model.head.late_share if rank.model.stack.overheads.late_gradients else 0.0,
    )


def _saved(rank: StageOnRank, micro: MicroBatch) -> Saved:
    model, placed, stage, own = rank.model, rank.placed, rank.stage, rank.own
    encoded: Number = stage.last * micro.encoded if model.encoder_decoder else 0.0
    one = _saved_of_one(rank, micro, encoded)
    kept = one * stage.in_flight
    others = kept - one
    if "activations" in rank.host:
        kept = minimum(kept, 2.0 * one / maximum(own.blocks, 1.0))
        others = 0.0
    last = add(others, own.kept_block)
    if model.inputs.leaf_apart and stage.first:
        last = last + micro.residual  # the leaf below it
    if model.checkpointing == "full":  # recomputed from its input, which the checkpoint holds until it is done
        last = last + (micro.residual - micro.kept_twice)
    inputs = _inputs_kept_to_the_end(rank, micro)
    last = add(last, inputs)
    lingering: Number = inputs
    if stage.first and model.inputs.keeps_gradient:
        lingering = add(lingering, (2.0 if model.blocks.first.squares == 0.0 else 4.0) * micro.residual)
    if stage.first and model.checkpointing == "full" and model.blocks.first.lingering_squares:
        lingering = (
            lingering
            + model.blocks.first.lingering_squares * (model.lengths.sequence / placed.context * model.lengths.sequence) / placed.tensor
        )
    return Saved(
        all=kept,
        others=others,
        recomputed=own.kept_block - micro.kept_twice if model.recomputes else 0.0,
        in_last_block=last,
        encoded=encoded,
        images=micro.cast_images if model.inputs.pixels and stage.first and not model.outside.trained_rest else 0.0,
        lingering=lingering,
    )


def _saved_of_one(rank: StageOnRank, micro: MicroBatch, encoded: Number) -> Number:
    """What blocks and what stands before them keep of one micro-batch."""
    model, placed, stage, own = rank.model, rank.placed, rank.stage, rank.own
    kept: Number = own.kept
    if stage.first and not model.recomputes:
        for one in model.blocks.first.each:
            kept = kept + block_bytes(model, one.kept, placed, one.decoder)
    elif stage.first:
        local = model.lengths.sequence / placed.context
        if model.blocks.first.positions:
            kept = kept + model.blocks.first.positions * local
        if model.blocks.first.squares:
            kept = kept + model.blocks.first.squares * (local * model.lengths.sequence) / placed.tensor
    if model.encoder_decoder and model.checkpointing == "full":  # the encoder's output is an input of every decoder block
        kept = kept + encoded
    if stage.first and model.inputs.masks:
        kept = kept + micro.embedding_masks
    if model.stack.keeps_stage_outputs:
        kept = kept + micro.residual * (1.0 - stage.last)
    if model.inputs.pixels and stage.first and model.outside.trained_rest:  # the gradient of the patch convolution's weight wants its input
        kept = add(kept, micro.cast_images)
    if model.inputs.leaf_apart and stage.first:
        kept = kept + micro.residual
    return kept


def _inputs_kept_to_the_end(rank: StageOnRank, micro: MicroBatch) -> Number:
    """Block inputs that reentrant checkpointing leaves alive under PyTorch's first FSDP, where adapters alone are trained.

    A block's hook on its inputs' gradients (``torch/distributed/fsdp/_runtime_utils.py``, ``_register_post_backward_reshard_only_hook``,
    for blocks with frozen parameters) holds the input of its forward pass and that of its recomputation until the optimizer step:
    of 16 blocks 35 tensors of the residual's size are alive after the backward pass, 5 to 7 where sharding, adapters or reentry is
    missing (torch 2.13).
    """
    run, blocks = rank.run, rank.own.blocks
    if not divides_weights(run) or not keeps_inputs_to_the_end(run.software, run.method, rank.model.checkpointing, rank.model.stack):
        return 0.0
    return where(rank.placed.weights_over > 1, maximum(2.0 * blocks - 2.0, 0.0) * micro.residual, 0.0)


def keeps_inputs_to_the_end(software: Software, method: Method, checkpointing: str, stack: Stack) -> bool:
    """Whether FSDP, where it shards, holds block inputs until the optimizer step."""
    version = stack.fsdp_version if software.fsdp_version is None else software.fsdp_version
    return software.checkpoint_reentrant and checkpointing == "full" and method.adapters and version == 1


def head_weights(rank: StageOnRank) -> Number:
    """Elements of the head on a rank, tied or not."""
    return rank.stage.last * (rank.model.how.hidden * rank.model.head.outputs / rank.placed.tensor)


def _casts(rank: StageOnRank) -> Casts:
    model, stage, own = rank.model, rank.stage, rank.own
    adapter, width = model.how.adapter, model.how.width
    adapters: Number = 0.0
    again: Number = 0.0  # of them, a block's
    if adapter is not None and adapter.autocasts and adapter.element_bytes > width:
        again = width * own.trained_block
        adapters = width * (own.adapters - stage.last * model.outside.copies)  # PEFT leaves the copies in the base's width
    elif not model.casts:
        return NO_CASTS
    head: Number = 2.0 * head_weights(rank) if model.casts else 0.0
    every: Number = add(2.0 * own.matrices, adapters) if model.casts else adapters
    if not model.recomputes:
        return Casts(every, every, 0.0, head, every - head)
    kept = add(head, 2.0 * model.outside.rest_matrices * stage.last) if model.casts else 0.0
    block = add(2.0 * own.cast_block if model.casts else 0.0, again)
    return Casts(every, kept, block, head, kept - head)


def _progress(rank: StageOnRank) -> GradientProgress:
    run, model, placed, stage, own, states = rank.run, rank.model, rank.placed, rank.stage, rank.own, rank.states
    precision, width, gradients = run.precision, model.how.width, states.gradients
    element_bytes = 0.0 if "gradients" in rank.host else precision.gradient_bytes
    complete = states.having(gradients)
    if model.stack.sharding.persistent_gradients:  # buffers that live through the whole step
        table = own.trained_embedding * width
        return GradientProgress(states, element_bytes, table, complete, complete, complete, complete)
    table = own.trained_embedding * max(precision.gradient_bytes, width)
    standing = where(placed.micro_batches > 1, gradients, 0.0)
    of_head = (own.trained_head + model.outside.adapters * stage.last) * element_bytes / states.gradients_over
    still_missing = own.trained_block * precision.gradient_bytes
    if not model.head.tied_trained:
        still_missing = still_missing + table
    almost = maximum(standing, gradients - still_missing / states.gradients_over)
    start, after_head, before_first = map(states.having, (standing, maximum(standing, of_head), almost))
    return GradientProgress(states, element_bytes, table, start, after_head, before_first, complete)


def _fixed(rank: StageOnRank, micro: MicroBatch) -> Number:
    """What stands throughout the step beside the states."""
    run, model, own = rank.run, rank.model, rank.own
    fixed: Number = add(model.stack.overheads.workspace_bytes, rank.gathered.buckets)
    table_bytes = OPTIMIZERS[run.optimizer.name].table_state_bytes
    if table_bytes is not None and not rank.host & {"optimizer", "states"}:
        wider = max(table_bytes - run.precision.optimizer_state_bytes, 0.0)
        fixed = fixed + own.trained_embedding * wider / rank.placed.states_over
    if model.inputs.pixels and rank.stage.first:  # the batch's images
        fixed = fixed + micro.images
    return fixed
