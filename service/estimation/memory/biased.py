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

from ..architecture import Matrix
from ..numeric import Number, where
from ..placement import Placement
from ..stacks.profile import AUTOCAST, COMPUTE, RESIDUAL
from .activations import norm_rule
from .kinds import Kind
from .micro import Micro
from .setting import Setting
from .sizes import Block, Size, add, block_bytes
from .stages import Stage

BUCKETS = 8.0  # bytes of an index


@dataclass(slots=True)
class Moment:
    """One moment of a stage."""

    phase: str
    missing: Number  # elements whose gradients are still to come
    activations: Number
    transient: Number


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


def moments(
    setting: Setting, placed: Placement, stage: Stage, own: Size, each: Sequence[Block], micro: Micro, kept: Number
) -> list[Moment]:
    """The moments in the first blocks of decoder and encoder; ``kept`` is what checkpointing keeps of all blocks."""
    layer, trained = setting.kinds[-1], setting.bias_trained
    heads = layer.layer.attention.query_heads / placed.tensor
    bias, mask = RESIDUAL[setting.mode] * heads, COMPUTE[setting.mode] * heads
    shared = Biases(
        heads=heads,
        bias=bias,
        mask=mask,
        summed=bias if trained else 0.0,
        buckets=BUCKETS if trained else 0.0,
        cross=mask * (setting.decoder_length / placed.context * setting.length),
        several=where(placed.micro_sequences > 1, 1.0, 0.0),
        end=micro.adapted if layer.adapted is not None else micro.ends,
    )
    result = _encoder(setting, placed, each, micro, shared)
    if type(stage.last) is float and stage.last == 0.0:
        return result
    return [*result, *_decoder(setting, placed, stage, own, each, micro, kept, shared)]


def _decoder(
    setting: Setting, placed: Placement, stage: Stage, own: Size, each: Sequence[Block], micro: Micro, kept: Number, shared: Biases
) -> list[Moment]:
    """Its other blocks are done, and the bias of the first pass is gone; the encoder's blocks and last norm wait."""
    mode, kind, bias = setting.mode, setting.kinds[-1], shared.bias
    pairs = setting.decoder_length / placed.context * setting.decoder_length
    cross_pairs = setting.decoder_length / placed.context * setting.length
    blocks = sum(count for kind, count in zip(setting.kinds, stage.counts, strict=True) if kind.decoder)
    left: Number = own.trained_block
    for other, block, count in zip(setting.kinds, each, stage.counts, strict=True):
        if not other.decoder:
            left = add(left, add(block.trained, other.adapters) * count)
    waiting = micro.final_encoder - (blocks - 1.0) * micro.residual - bias * pairs
    gradients = micro.encoded + shared.summed * pairs + shared.cross
    anew = (bias + shared.buckets) * pairs
    in_attention = waiting + (own.kept_attention - micro.norm)  # that before the MLP

    def backward(activations: Number, transient: Number) -> Moment:
        return Moment("backward", left, kept + stage.last * activations, stage.last * (gradients + transient))

    # At the end of recomputation; and with the zeros, each sequence's gradient of the mask they are, and of what it was added to.
    of_products = micro.tokens * (COMPUTE[mode] * sum(m.outputs for m in _readers(kind)))
    result = [
        backward(waiting + own.kept_block - micro.kept_twice, anew + shared.cross + shared.end),
        backward(in_attention, micro.residual + of_products + shared.buckets * pairs + shared.cross * (1.0 + placed.micro_sequences)),
    ]
    # A forward pass holds the normalised input and queries, keys and values.
    ahead = micro.final_encoder + micro.tokens * (COMPUTE[mode] * (setting.hidden + sum(m.outputs for m in _readers(kind))))
    if setting.scores:
        # Scores before and after they are scaled; under autocast the softmax's input and output, and what it casts. And a causal mask.
        each_score = (COMPUTE[mode] + 2.0 * RESIDUAL[mode] if mode == AUTOCAST else 2.0 * COMPUTE[mode]) * shared.heads
        scores = each_score * placed.micro_sequences * cross_pairs + RESIDUAL[mode] * pairs
        own_scores = setting.scores / placed.tensor * placed.micro_sequences * cross_pairs
        result.append(backward(in_attention - own_scores, micro.residual + anew + shared.cross + scores))
        weights = RESIDUAL[mode] * shared.heads * placed.micro_sequences * pairs  # of self-attention, which ``T5Block.forward`` still names
        result.append(Moment("forward", 0.0, kept, stage.last * (scores + weights + ahead)))
        return result
    # ``where`` makes the causal mask in the bias's layout, ``contiguous`` once more.
    masks = (2.0 * bias + 1.0) * pairs
    result.append(Moment("forward", 0.0, kept, stage.last * (masks + ahead)))
    if mode == AUTOCAST:  # in 32 bits, as the bias; else less than what comes after
        result.append(backward(waiting + _until_scores(setting, kind, micro, placed), anew + masks))
    return result


def _encoder(setting: Setting, placed: Placement, each: Sequence[Block], micro: Micro, shared: Biases) -> list[Moment]:
    """Of the decoder there are only the zeros and their gradient."""
    kind, pairs = setting.kinds[0], setting.length / placed.context * setting.length
    left = add(each[0].trained, kind.adapters)
    kept = block_bytes(setting, kind.kept, placed, False)
    stays = 2.0 * shared.cross + shared.summed * pairs
    anew = (shared.bias + shared.buckets) * pairs
    result = [Moment("backward", left, kept, stays + anew + shared.end)]
    if setting.mode == AUTOCAST and not setting.scores:  # the bias made contiguous in 32 bits, then in 16
        before = _until_scores(setting, kind, micro, placed)
        result.append(Moment("backward", left, before, stays + anew + (shared.bias + shared.mask) * pairs))
    if setting.bias_trained:
        masks = (shared.bias + shared.mask * (placed.micro_sequences + shared.several)) * pairs
        result.append(Moment("backward", left, kept, micro.residual + stays + masks))
    return result


def _readers(kind: Kind) -> list[Matrix]:
    return [m for m in kind.layer.matrices if m.part == "attention" and m.reads == "block"]


def _until_scores(setting: Setting, kind: Kind, micro: Micro, placed: Placement) -> Number:
    """What a recomputed block keeps until its first scores, and the gradients that it waits for."""
    return _before_scores(setting, kind, micro, placed) + micro.tokens * (COMPUTE[setting.mode] * setting.hidden) + micro.residual


def _before_scores(setting: Setting, kind: Kind, micro: Micro, placed: Placement) -> Number:
    """What a block keeps until its first scores: norm, queries, keys and values, and under autocast their weights' casts."""
    rule, mode, readers = norm_rule(setting.rules, setting.family, kind.layer), setting.mode, _readers(kind)
    read = COMPUTE[mode] * setting.hidden * (len(readers) if mode == AUTOCAST else 1)
    per = (rule.input_copy[mode] + rule.normalized[mode]) * setting.hidden + read + sum(COMPUTE[mode] * m.outputs for m in readers)
    if setting.adapter is not None and kind.adapters:
        per += setting.adapter.own_input_bytes(COMPUTE[mode]) * sum(m.inputs for m in readers)
    return micro.tokens * per + (2.0 * sum(m.weights for m in readers) / placed.tensor if setting.casts else 0.0)


def ahead(setting: Setting, placed: Placement, stage: Stage, own: Size, micro: Micro, kept: Number) -> Moment:
    """In the last decoder block of a forward pass that recomputes nothing: the bias, the mask in its layout and once more, contiguous."""
    pairs = setting.decoder_length / placed.context * setting.decoder_length
    masks = (3.0 * RESIDUAL[setting.mode] * setting.kinds[-1].layer.attention.query_heads / placed.tensor + 1.0) * pairs
    encoded = micro.final_encoder + (0.0 if setting.encoded_kept else micro.encoded)
    begun = _before_scores(setting, setting.kinds[-1], micro, placed) - own.kept_block - 2.0 * own.cast_block
    return Moment("forward", 0.0, kept, stage.last * (masks + encoded + begun))
