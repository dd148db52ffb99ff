"""Parameters and kept bytes of one pipeline stage on one rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..numeric import Number, maximum, minimum, where
from ..placement import Placement
from ..stacks.profile import COMPUTE, RESIDUAL
from .activations import Kept
from .kinds import Kind
from .setting import Setting
from .stages import Stage


@dataclass(slots=True)
class Size:
    """One stage of a model on one rank, before sharding over data-parallel ranks; counts in elements."""

    weights: Number = 0.0  # of the base model
    experts: Number = 0.0  # of them, in experts
    quantized: Number = 0.0
    adapters: Number = 0.0
    trained: Number = 0.0  # of the base model's
    trained_experts: Number = 0.0
    matrices: Number = 0.0  # counted where they are cast
    cast_block: Number = 0.0  # of them, those of the largest block
    embedding: Number = 0.0  # token table and head
    trained_embedding: Number = 0.0
    trained_head: Number = 0.0  # of an untied head
    block: Number = 0.0  # the largest block
    trained_block: Number = 0.0
    kept: Number = 0.0  # bytes that all blocks keep of one micro-batch, under the run's checkpointing
    kept_block: Number = 0.0  # bytes that the block keeps which keeps most, without checkpointing
    kept_attention: Number = 0.0  # of that, without its MLP (where a moment between the two can be the peak)
    trained_attention: Number = 0.0  # of the largest block
    blocks: Number = 0.0


def add(first: Number, second: Number) -> Number:
    """The sum, spared where one side is a plain zero."""
    if type(first) is float:
        return first + second if first else second  # between plain numbers a sum costs less than a look at the other
    return first if type(second) is float and second == 0.0 else first + second


def larger(first: Number, second: Number) -> Number:
    """The larger of two sizes, spared where the first is a plain zero: no size is negative."""
    return second if type(first) is float and first == 0.0 else maximum(first, second)


def split(amount: Number, ranks: Number) -> Number:
    """An amount divided over ranks, spared where there is one."""
    return amount if type(ranks) is float and ranks == 1.0 else amount / ranks


def divided(total: Number, experts: Number, over: Number, expert_over: Number) -> Number:
    """An amount over the ranks that sharding divides it by: experts, a part of it, have ranks of their own."""
    if type(experts) is float and experts == 0.0:
        return split(total, over)
    return split(total - experts, over) + split(experts, expert_over)


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
class Block:
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


def blocks(setting: Setting, placed: Placement) -> list[Block]:
    """A block of each kind."""
    return [_block(setting, kind, placed) for kind in setting.kinds]


def _block(setting: Setting, kind: Kind, placed: Placement) -> Block:
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
    held = kept
    if setting.checkpointing == "full":
        held = inputs(setting, kind, placed)
    elif setting.checkpointing == "selective":
        held = selected(setting, kind, placed)
    attention: Number = 0.0
    trained_attention: Number = 0.0
    if setting.scores or setting.untabled or setting.biased or kind.experts:
        attention = kept - block_bytes(setting, kind.kept_feed_forward, placed, kind.decoder)
        trained_attention = kind.trained_attention / t
    return Block(weights, experts, matrices, trained, trained_experts, trained_attention, held, kept, attention)


def size(setting: Setting, stage: Stage, placed: Placement, each: Sequence[Block]) -> Size:
    """A stage's parameters and kept bytes; ``each`` is a block of each kind."""
    total = Size()
    for kind, own, count in zip(setting.kinds, each, stage.counts, strict=True):
        present = minimum(count, 1.0)
        total.weights = add(total.weights, own.weights * count)
        if setting.casts:
            total.matrices = add(total.matrices, own.matrices * count)
            total.cast_block = larger(total.cast_block, own.matrices * present)
        total.trained = add(total.trained, own.trained * count)
        if kind.experts:
            total.experts = add(total.experts, own.experts * count)
            if kind.trained_experts:
                total.trained_experts = add(total.trained_experts, own.trained_experts * count)
        if kind.adapters:
            total.adapters = add(total.adapters, kind.adapters * count)
        if kind.quantized:
            total.quantized = add(total.quantized, (own.weights - kind.whole) * count)
        total.block = larger(total.block, own.weights * present)
        total.trained_block = larger(total.trained_block, add(own.trained, kind.adapters) * present)
        total.kept_block = larger(total.kept_block, own.kept * present)
        if setting.scores or setting.untabled or setting.biased or kind.experts:
            total.kept_attention = larger(total.kept_attention, own.kept_attention * present)
            total.trained_attention = larger(total.trained_attention, own.trained_attention * present)
        total.kept = add(total.kept, own.held * count)
        total.blocks = add(total.blocks, count)
    _outside(setting, stage, placed, total)
    return total


def _outside(setting: Setting, stage: Stage, placed: Placement, total: Size) -> None:
    """Token table, head and final norm; a tied head on another stage is a copy of the table there."""
    t, last = placed.tensor, stage.last
    tied = setting.head == 0.0 and setting.vocabulary > 0
    if stage.first:
        total.embedding = (setting.embedding + last * setting.head) / t
        total.trained_embedding = setting.trained_embedding / t
    else:
        total.embedding = last * ((setting.embedding if tied else setting.head) / t)
        total.trained_embedding = last * (setting.trained_embedding / t) if tied else 0.0
    total.trained_head = last * (setting.trained_head / t)
    total.weights = total.weights + total.embedding + last * setting.outside
    total.trained = add(add(total.trained, total.trained_embedding), add(total.trained_head, last * setting.trained_outside))
    if setting.outside_adapters:
        total.adapters = add(total.adapters, last * setting.outside_adapters)
    if setting.casts:
        total.matrices = total.matrices + last * (setting.hidden * setting.vocabulary / t + setting.outside_matrices)
    if setting.quantized_head:
        total.quantized = total.quantized + last * (setting.head / t)
