"""What a recomputed stack with a learned relative position bias holds beside its blocks (T5).

``T5Attention.forward`` looks the bias up in the first block of each stack and hands it on; ``checkpoint`` makes it an input of
every later block, and cross-attention's bias, all zeros, asks for a gradient (``position_bias.requires_grad = True``). So when
the backward pass comes to the first block again there are, per head and pair of positions: the sums of the later blocks'
gradients of both biases, the bias looked up anew (with its 64-bit buckets, which ``EmbeddingBackward`` needs), the zeros made
anew, and the masks that ``create_position_bias_mask`` makes of them. The memory-efficient kernel forms a mask's gradient for
each sequence of the batch before ``ExpandBackward`` sums them up. All are tensors of autograd's graph, on a GPU too; but there
the engine adds gradients up in place, while under a counter (a dispatch mode or fake tensors) it makes a third: not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...architecture import Matrix
from ...numeric import Number, where
from ...stacks.profile import AUTOCAST
from ..amounts import add
from ..blocks.block_kind import BlockKind
from ..blocks.kept import BlockOnRank, block_bytes
from .moment import Moment
from .stage_step import StageStep

BUCKETS = 8.0  # bytes of an index


@dataclass(slots=True)
class Biases:
    """What both stacks share, in bytes unless said otherwise."""

    heads: Number  # on one rank
    bias: Number  # of the looked-up bias, per pair of positions: as wide as its table
    mask: Number  # of a mask, per pair: as wide as the products
    summed: Number  # of the later blocks' gradients of the bias, per pair; none where the table is frozen
    buckets: float  # per pair
    cross: Number  # zeros that cross-attention adds
    several: Number  # 1 where the batch is more than one sequence
    end: Number  # when a block's recomputation is over, beside what it keeps


def recomputed(step: StageStep, each: Sequence[BlockOnRank]) -> list[Moment]:
    """The moments in the first blocks of decoder and encoder, where checkpointing recomputes both stacks."""
    model, placed, micro = step.rank.model, step.rank.placed, step.micro
    kind, trained = model.blocks.kinds[-1], model.trains.position_bias
    heads = kind.layer.attention.query_heads / placed.tensor
    bias, mask = model.how.residual * heads, model.how.width * heads
    shared = Biases(
        heads=heads,
        bias=bias,
        mask=mask,
        summed=bias if trained else 0.0,
        buckets=BUCKETS if trained else 0.0,
        cross=mask * (model.lengths.decoder / placed.context * model.lengths.sequence),
        several=where(placed.micro_sequences > 1, 1.0, 0.0),
        end=micro.in_adapted_mlp if kind.adapted_mlp is not None else micro.after_recomputing,
    )
    result = _encoder(step, each, shared)
    last = step.rank.stage.last
    if type(last) is float and last == 0.0:
        return result
    return [*result, *_decoder(step, each, shared)]


def _forward(step: StageStep, transient: Number) -> Moment:
    return step.forward(step.saved.all, step.casts.all - step.casts.head, transient)


def _backward(step: StageStep, missing: Number, activations: Number, transient: Number) -> Moment:
    """A moment while the gradients of ``missing`` elements are still to come."""
    return step.backward(step.states_without(missing), activations, transient)


def _decoder(step: StageStep, each: Sequence[BlockOnRank], shared: Biases) -> list[Moment]:
    """Its other blocks are done, and the bias of the first pass is gone; the encoder's blocks and last norm wait."""
    model, placed, stage, own, micro = step.rank.model, step.rank.placed, step.rank.stage, step.rank.own, step.micro
    mode, kind, bias = model.how.mode, model.blocks.kinds[-1], shared.bias
    pairs = model.lengths.decoder / placed.context * model.lengths.decoder
    cross_pairs = model.lengths.decoder / placed.context * model.lengths.sequence
    blocks = sum(count for other, count in zip(model.blocks.kinds, stage.counts, strict=True) if other.decoder)
    left: Number = own.trained_block
    for other, block, count in zip(model.blocks.kinds, each, stage.counts, strict=True):
        if not other.decoder:
            left = add(left, add(block.trained, other.adapters) * count)
    waiting = micro.encoder_norm_kept - (blocks - 1.0) * micro.residual - bias * pairs
    gradients = micro.encoded + shared.summed * pairs + shared.cross
    anew = (bias + shared.buckets) * pairs
    in_attention = waiting + (own.kept_attention - micro.norm_kept)  # that before the MLP

    def backward(activations: Number, transient: Number) -> Moment:
        return _backward(step, left, step.saved.all + stage.last * activations, stage.last * (gradients + transient))

    # At the end of recomputation; and with the zeros, each sequence's gradient of the mask they are, and of what it was added to.
    of_products = micro.tokens * (model.how.width * sum(m.outputs for m in _readers(kind)))
    result = [
        backward(waiting + own.kept_block - micro.kept_twice, anew + shared.cross + shared.end),
        backward(in_attention, micro.residual + of_products + shared.buckets * pairs + shared.cross * (1.0 + placed.micro_sequences)),
    ]
    # A forward pass holds the normalised input and queries, keys and values.
    ahead = micro.encoder_norm_kept + micro.tokens * (model.how.width * (model.how.hidden + sum(m.outputs for m in _readers(kind))))
    if model.blocks.score_gradients:
        # Scores before and after they are scaled; under autocast the softmax's input and output, and what it casts. And a causal mask.
        each_score = (model.how.width + 2.0 * model.how.residual if mode == AUTOCAST else 2.0 * model.how.width) * shared.heads
        scores = each_score * placed.micro_sequences * cross_pairs + model.how.residual * pairs
        own_scores = model.blocks.score_gradients / placed.tensor * placed.micro_sequences * cross_pairs
        result.append(backward(in_attention - own_scores, micro.residual + anew + shared.cross + scores))
        weights = (
            model.how.residual * shared.heads * placed.micro_sequences * pairs
        )  # of self-attention, which ``T5Block.forward`` still names
        result.append(_forward(step, stage.last * (scores + weights + ahead)))
        return result
    # ``where`` makes the causal mask in the bias's layout, ``contiguous`` once more.
    masks = (2.0 * bias + 1.0) * pairs
    result.append(_forward(step, stage.last * (masks + ahead)))
    if mode == AUTOCAST:  # in 32 bits, as the bias; else less than what comes after
        result.append(backward(waiting + _until_scores(step, kind), anew + masks))
    return result


def _encoder(step: StageStep, each: Sequence[BlockOnRank], shared: Biases) -> list[Moment]:
    """Of the decoder there are only the zeros and their gradient."""
    model, placed, micro = step.rank.model, step.rank.placed, step.micro
    kind, pairs = model.blocks.kinds[0], model.lengths.sequence / placed.context * model.lengths.sequence
    left = add(each[0].trained, kind.adapters)
    kept = block_bytes(model, kind.kept, placed, False)
    stays = 2.0 * shared.cross + shared.summed * pairs
    anew = (shared.bias + shared.buckets) * pairs
    result = [_backward(step, left, kept, stays + anew + shared.end)]
    if model.how.mode == AUTOCAST and not model.blocks.score_gradients:  # the bias made contiguous in 32 bits, then in 16
        before = _until_scores(step, kind)
        result.append(_backward(step, left, before, stays + anew + (shared.bias + shared.mask) * pairs))
    if model.trains.position_bias:
        masks = (shared.bias + shared.mask * (placed.micro_sequences + shared.several)) * pairs
        result.append(_backward(step, left, kept, micro.residual + stays + masks))
    return result


def _readers(kind: BlockKind) -> list[Matrix]:
    return [m for m in kind.layer.matrices if m.part == "attention" and m.reads == "block"]


def _until_scores(step: StageStep, kind: BlockKind) -> Number:
    """What a recomputed block keeps until its first scores, and the gradients that it waits for."""
    model, micro = step.rank.model, step.micro
    return _before_scores(step, kind) + micro.tokens * (model.how.width * model.how.hidden) + micro.residual


def _before_scores(step: StageStep, kind: BlockKind) -> Number:
    """What a block keeps until its first scores: norm, queries, keys and values, and under autocast their weights' casts."""
    model, micro, placed = step.rank.model, step.micro, step.rank.placed
    rule, mode, readers = model.how.norm(kind.layer), model.how.mode, _readers(kind)
    read = model.how.width * model.how.hidden * (len(readers) if mode == AUTOCAST else 1)
    per = (rule.input_copy[mode] + rule.normalized[mode]) * model.how.hidden + read + sum(model.how.width * m.outputs for m in readers)
    if model.how.adapter is not None and kind.adapters:
        per += model.how.adapter.own_input_bytes(model.how.width) * sum(m.inputs for m in readers)
    return micro.tokens * per + (2.0 * sum(m.weights for m in readers) / placed.tensor if model.casts else 0.0)


def kept_scores(step: StageStep) -> Moment:
    """In the last decoder block of a forward pass that recomputes nothing: the bias, the mask in its layout and once more, contiguous."""
    model, placed, stage, own, micro = step.rank.model, step.rank.placed, step.rank.stage, step.rank.own, step.micro
    pairs = model.lengths.decoder / placed.context * model.lengths.decoder
    masks = (3.0 * model.how.residual * model.blocks.kinds[-1].layer.attention.query_heads / placed.tensor + 1.0) * pairs
    encoded = micro.encoder_norm_kept + (0.0 if model.blocks.keep_encoded else micro.encoded)
    begun = _before_scores(step, model.blocks.kinds[-1]) - own.kept_block - 2.0 * own.cast_block
    return _forward(step, stage.last * (masks + encoded + begun))
