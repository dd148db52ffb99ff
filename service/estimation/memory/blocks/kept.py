"""Bytes that the blocks of a model keep on one rank, and how many of their parameters it has, before sharding.

What a block keeps of a token are the coefficients of its kind (``Kept``); here they meet a layout and a batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...numeric import Number, minimum, where
from ...placement import Placement
from ..amounts import add, split
from .block_kind import BlockKind
from .coefficients import Kept
from .trained_model import TrainedModel


def tokens_of(model: TrainedModel, placed: Placement, decoder: bool = False) -> Number:
    """Tokens of one micro-batch on one rank."""
    return placed.micro_sequences * ((model.lengths.decoder if decoder else model.lengths.sequence) / placed.context)


def block_bytes(model: TrainedModel, kept: Kept, placed: Placement, decoder: bool) -> Number:
    """Bytes that coefficients come to on one rank and micro-batch."""
    length = model.lengths.decoder if decoder else model.lengths.sequence
    local = length / placed.context
    per_token: Number = split(kept.replicated, placed.sequence_split) + (kept.split + kept.scores * length) / placed.tensor
    if kept.routed or kept.routed_inner:
        routed = kept.routed + kept.routed_inner * placed.routed_inner_share
        per_token = per_token + routed * placed.expert_imbalance
    if kept.single:
        per_token = per_token + where(placed.micro_sequences > 1, 0.0, kept.single / placed.tensor)
    whole = placed.micro_sequences * local * per_token
    if kept.squares:
        whole = whole + kept.squares * (local * length) / placed.tensor
    if kept.positions:
        whole = whole + kept.positions * local
    if decoder:
        read: Number = split(kept.cross_replicated, placed.sequence_split) + kept.cross / placed.tensor
        whole = whole + tokens_of(model, placed) * read
        if kept.cross_scores or kept.cross_squares:
            whole = (
                whole + (placed.micro_sequences * kept.cross_scores + kept.cross_squares) * (local * model.lengths.sequence) / placed.tensor
            )
    if kept.fixed:
        whole = whole + kept.fixed
    if kept.fixed_experts:
        whole = whole + kept.fixed_experts / placed.expert_split
    return whole if model.blocks.kept_scale == 1.0 else whole * model.blocks.kept_scale


def input_bytes(model: TrainedModel, kind: BlockKind, placed: Placement) -> Number:
    """Bytes of one block's input, which full checkpointing keeps."""
    return split(tokens_of(model, placed, kind.decoder) * (model.how.residual * model.how.hidden), placed.sequence_split)


def selected_bytes(model: TrainedModel, kind: BlockKind, placed: Placement) -> Number:
    """Bytes of one block under selective checkpointing."""
    rule = model.stack.selective
    if rule.drops == "scores":
        return block_bytes(model, replace(kind.kept, scores=0.0, cross_scores=0.0), placed, kind.decoder)
    a, width = kind.layer.attention, model.how.width
    split = width * (a.query_heads * a.value_dim + rule.kept_outputs * kind.weights.outputs) + 4.0 * a.query_heads
    outputs = Kept(
        replicated=(model.how.residual + width) * model.how.hidden,
        split=split,
        routed_inner=rule.kept_outputs * width * 3.0 * kind.intermediate if kind.layer.mlp.experts else 0.0,
    )
    return minimum(
        block_bytes(model, outputs, placed, kind.decoder) / model.blocks.kept_scale, block_bytes(model, kind.kept, placed, kind.decoder)
    )


@dataclass(slots=True)
class BlockOnRank:
    """One block of a kind on one rank, whatever the stage; counts in elements."""

    weights: Number
    experts: Number  # of them, in experts
    matrices: Number  # counted where they are cast
    trained: Number
    trained_experts: Number
    trained_attention: Number
    kept: Number  # bytes that it keeps of one micro-batch, under the run's checkpointing
    kept_in_backward: Number  # the same while its own backward pass runs: all, since what was dropped is computed again
    kept_attention: Number  # of these, without its MLP


def blocks_on_rank(model: TrainedModel, placed: Placement) -> list[BlockOnRank]:
    """A block of each kind."""
    return [_block(model, kind, placed) for kind in model.blocks.kinds]


def _block(model: TrainedModel, kind: BlockKind, placed: Placement) -> BlockOnRank:
    t = placed.tensor
    weights = kind.weights.split / t + kind.weights.whole
    experts: Number = 0.0
    trained_experts: Number = 0.0
    matrices: Number = (kind.weights.matrices - kind.weights.experts) / t if model.casts else 0.0
    trained: Number = 0.0
    if kind.weights.trained_split or kind.weights.trained_whole or kind.weights.trained_experts:
        trained = kind.weights.trained_split / t + kind.weights.trained_whole
    if kind.weights.experts:
        experts = kind.weights.experts / placed.expert_split
        weights = weights + experts
        matrices = add(matrices, experts) if model.casts else 0.0
        if kind.weights.trained_experts:
            trained_experts = kind.weights.trained_experts / placed.expert_split
            trained = trained + trained_experts
    in_backward = add(block_bytes(model, kind.kept, placed, kind.decoder), kind.adapter_casts)
    kept = in_backward if model.checkpointing == "none" else _kept(model, kind, placed)
    attention: Number = 0.0
    trained_attention: Number = 0.0
    if model.blocks.score_gradients or model.ends_without_table or model.blocks.hand_on_bias or kind.weights.experts:
        attention = in_backward - block_bytes(model, kind.kept_feed_forward, placed, kind.decoder)
        trained_attention = kind.weights.trained_attention / t
    return BlockOnRank(weights, experts, matrices, trained, trained_experts, trained_attention, kept, in_backward, attention)


def _kept(model: TrainedModel, kind: BlockKind, placed: Placement) -> Number:
    """Bytes that one block keeps of one micro-batch under the run's checkpointing, adapters' casts left out."""
    if model.checkpointing == "full":
        return input_bytes(model, kind, placed)
    if model.checkpointing == "selective":
        return selected_bytes(model, kind, placed)
    return block_bytes(model, kind.kept, placed, kind.decoder)


def saved_bytes_per_layer(model: TrainedModel, placed: Placement) -> list[int]:
    """Bytes that each block keeps from forward to backward, of one micro-batch on one rank."""
    more: dict[int, float] = {}  # of the first block of each stack
    if not model.recomputes:
        more = {one.index: float(block_bytes(model, one.kept, placed, one.decoder)) for one in model.blocks.first.each}
    saved = [0] * model.blocks.count
    for kind in model.blocks.kinds:
        value = float(_kept(model, kind, placed))
        rounded = round(value)
        for index in kind.indices:
            saved[index] = round(value + more[index]) if index in more else rounded
    return saved
