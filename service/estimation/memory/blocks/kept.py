"""Bytes that the blocks of a model keep on one rank, and how many of their parameters it has, before sharding.

Symbols: t tensor parallel ranks, T tokens of a micro-batch on one rank. What a block keeps of a token are the coefficients of its
kind (``Kept``); here they meet a layout and a batch, and broadcast over both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...numeric import Number, minimum, where
from ...placement import Placement
from ...stacks.profile import COMPUTE, RESIDUAL
from ..activations import Kept
from ..amounts import add, split
from ..kinds import Kind
from ..setting import Setting


def tokens_of(setting: Setting, placed: Placement, decoder: bool = False) -> Number:
    """Tokens of one micro-batch on one rank."""
    return placed.micro_sequences * ((setting.decoder_length if decoder else setting.length) / placed.context)


def block_bytes(setting: Setting, kept: Kept, placed: Placement, decoder: bool) -> Number:
    """Bytes that coefficients come to on one rank and micro-batch."""
    length = setting.decoder_length if decoder else setting.length
    local = length / placed.context
    per_token: Number = split(kept.replicated, placed.sequence_split) + (kept.split + kept.scores * length) / placed.tensor
    if kept.routed:
        per_token = per_token + kept.routed * placed.expert_imbalance
    if kept.single:
        per_token = per_token + where(placed.micro_sequences > 1, 0.0, kept.single / placed.tensor)
    whole = placed.micro_sequences * local * per_token
    if kept.squares:
        whole = whole + kept.squares * (local * length) / placed.tensor
    if kept.positions:
        whole = whole + kept.positions * local
    if decoder:
        read: Number = split(kept.cross_replicated, placed.sequence_split) + kept.cross / placed.tensor
        whole = whole + tokens_of(setting, placed) * read
        if kept.cross_scores or kept.cross_squares:
            whole = whole + (placed.micro_sequences * kept.cross_scores + kept.cross_squares) * (local * setting.length) / placed.tensor
    if kept.fixed:
        whole = whole + kept.fixed
    if kept.fixed_experts:
        whole = whole + kept.fixed_experts / placed.expert_split
    return whole if setting.kept_scale == 1.0 else whole * setting.kept_scale


def inputs(setting: Setting, kind: Kind, placed: Placement) -> Number:
    """Bytes of one block's input, which full checkpointing keeps."""
    return split(tokens_of(setting, placed, kind.decoder) * (RESIDUAL[setting.mode] * setting.hidden), placed.sequence_split)


def selected(setting: Setting, kind: Kind, placed: Placement) -> Number:
    """Bytes of one block under selective checkpointing."""
    rule = setting.stack.selective
    if rule.drops == "scores":
        return block_bytes(setting, replace(kind.kept, scores=0.0, cross_scores=0.0), placed, kind.decoder)
    a, width = kind.layer.attention, COMPUTE[setting.mode]
    split = width * (a.query_heads * a.value_dim + rule.kept_outputs * kind.outputs) + 4.0 * a.query_heads
    outputs = Kept(
        replicated=(RESIDUAL[setting.mode] + width) * setting.hidden,
        split=split,
        routed=rule.kept_outputs * width * 3.0 * kind.intermediate if kind.layer.mlp.experts else 0.0,
    )
    return minimum(
        block_bytes(setting, outputs, placed, kind.decoder) / setting.kept_scale, block_bytes(setting, kind.kept, placed, kind.decoder)
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
    held: Number  # bytes that it keeps of one micro-batch, under the run's checkpointing
    kept: Number  # the same without checkpointing
    kept_attention: Number  # of that, without its MLP


def blocks(setting: Setting, placed: Placement) -> list[BlockOnRank]:
    """A block of each kind."""
    return [_block(setting, kind, placed) for kind in setting.kinds]


def _block(setting: Setting, kind: Kind, placed: Placement) -> BlockOnRank:
    t = placed.tensor
    weights = kind.split / t + kind.whole
    experts: Number = 0.0
    trained_experts: Number = 0.0
    matrices: Number = (kind.matrices - kind.experts) / t if setting.casts else 0.0
    trained: Number = 0.0
    if kind.trained_split or kind.trained_whole or kind.trained_experts:
        trained = kind.trained_split / t + kind.trained_whole
    if kind.experts:
        experts = kind.experts / placed.expert_split
        weights = weights + experts
        matrices = add(matrices, experts) if setting.casts else 0.0
        if kind.trained_experts:
            trained_experts = kind.trained_experts / placed.expert_split
            trained = trained + trained_experts
    kept = add(block_bytes(setting, kind.kept, placed, kind.decoder), kind.adapter_casts)
    held = kept if setting.checkpointing == "none" else _held(setting, kind, placed)
    attention: Number = 0.0
    trained_attention: Number = 0.0
    if setting.scores or setting.untabled or setting.biased or kind.experts:
        attention = kept - block_bytes(setting, kind.kept_feed_forward, placed, kind.decoder)
        trained_attention = kind.trained_attention / t
    return BlockOnRank(weights, experts, matrices, trained, trained_experts, trained_attention, held, kept, attention)


def _held(setting: Setting, kind: Kind, placed: Placement) -> Number:
    """Bytes that one block keeps of one micro-batch under the run's checkpointing, adapters' casts left out."""
    if setting.checkpointing == "full":
        return inputs(setting, kind, placed)
    if setting.checkpointing == "selective":
        return selected(setting, kind, placed)
    return block_bytes(setting, kind.kept, placed, kind.decoder)


def saved_bytes_per_layer(setting: Setting, placed: Placement) -> list[int]:
    """Bytes that each block keeps from forward to backward, of one micro-batch on one rank."""
    values: list[float] = [0.0] * setting.blocks
    for kind in setting.kinds:
        value = float(_held(setting, kind, placed))
        for index in kind.indices:
            values[index] = value
    if not setting.recomputes:
        for index, extra, decoder in setting.first_blocks:
            values[index] += float(block_bytes(setting, extra, placed, decoder))
    return [round(value) for value in values]
