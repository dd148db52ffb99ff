"""Parameters and kept bytes of one pipeline stage on one rank."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..numeric import Number, maximum, minimum, where
from ..stacks.profile import COMPUTE, RESIDUAL
from .activations import Kept
from .kinds import Kind
from .setting import Setting
from .stages import Ranks, Stage


@dataclass(slots=True)
class Size:
    """One stage of a model on one rank, before sharding over data-parallel ranks; counts in elements."""

    weights: Number = 0.0  # of the base model
    experts: Number = 0.0  # of them, in experts
    quantized: Number = 0.0
    adapters: Number = 0.0
    trained: Number = 0.0  # of the base model's
    trained_experts: Number = 0.0
    matrices: Number = 0.0
    embedding: Number = 0.0  # token table and head
    trained_embedding: Number = 0.0
    trained_head: Number = 0.0  # of an untied head
    block: Number = 0.0  # the largest block
    trained_block: Number = 0.0
    kept: Number = 0.0  # bytes that all blocks keep of one micro-batch, under the run's checkpointing
    kept_block: Number = 0.0  # bytes that the block keeps which keeps most, without checkpointing
    kept_attention: Number = 0.0  # of that, without its MLP (where scores are stored)
    trained_attention: Number = 0.0  # of the largest block
    blocks: Number = 0.0


def add(first: Number, second: Number) -> Number:
    """The sum, spared where one side is a plain zero."""
    if type(first) is float and first == 0.0:
        return second
    if type(second) is float and second == 0.0:
        return first
    return first + second


def divided(total: Number, experts: Number, over: Number, expert_over: Number) -> Number:
    """An amount over the ranks that sharding divides it by: experts, a part of it, have ranks of their own."""
    if type(experts) is float and experts == 0.0:
        return total / over
    return (total - experts) / over + experts / expert_over


def tokens_of(setting: Setting, spread: Ranks, decoder: bool = False) -> Number:
    """Tokens of one micro-batch on one rank."""
    return spread.micro * ((setting.decoder_length if decoder else setting.length) / spread.context)


def block_bytes(setting: Setting, kept: Kept, spread: Ranks, decoder: bool) -> Number:
    """Bytes that coefficients come to on one rank and micro-batch."""
    length = setting.decoder_length if decoder else setting.length
    local = length / spread.context
    per_token: Number = kept.replicated / spread.sequence_split + (kept.split + kept.scores * length) / spread.tensor
    if kept.routed:
        per_token = per_token + kept.routed * spread.imbalance
    if kept.single:
        per_token = per_token + where(spread.micro > 1, 0.0, kept.single / spread.tensor)
    whole = spread.micro * local * per_token
    if kept.squares:
        whole = whole + kept.squares * (local * length) / spread.tensor
    if kept.positions:
        whole = whole + kept.positions * local
    if kept.fixed:
        whole = whole + kept.fixed
    if kept.fixed_experts:
        whole = whole + kept.fixed_experts / spread.expert_split
    return whole if setting.kept_scale == 1.0 else whole * setting.kept_scale


def inputs(setting: Setting, kind: Kind, spread: Ranks) -> Number:
    """Bytes of one block's input, which full checkpointing keeps."""
    return tokens_of(setting, spread, kind.decoder) * (RESIDUAL[setting.mode] * setting.hidden) / spread.sequence_split


def selected(setting: Setting, kind: Kind, spread: Ranks) -> Number:
    """Bytes of one block under selective checkpointing."""
    rule = setting.stack.selective
    if rule.kind == "scores":
        return block_bytes(setting, replace(kind.kept, scores=0.0), spread, kind.decoder)
    a, width = kind.layer.attention, COMPUTE[setting.mode]
    split = width * (a.query_heads * a.value_dim + rule.matrices * kind.outputs) + 4.0 * a.query_heads
    outputs = Kept(
        replicated=(RESIDUAL[setting.mode] + width) * setting.hidden,
        split=split,
        routed=rule.matrices * width * 3.0 * kind.intermediate if kind.layer.mlp.experts else 0.0,
    )
    return minimum(
        block_bytes(setting, outputs, spread, kind.decoder) / setting.kept_scale, block_bytes(setting, kind.kept, spread, kind.decoder)
    )


def size(setting: Setting, stage: Stage, spread: Ranks) -> Size:
    """A stage's parameters and kept bytes."""
    t, total = spread.tensor, Size()
    for kind, count in zip(setting.kinds, stage.counts, strict=True):
        own = kind.split / t + kind.whole
        matrices = (kind.matrices - kind.experts) / t
        if kind.experts:
            experts = kind.experts / spread.expert_split
            own, matrices = own + experts, matrices + experts
            total.experts = add(total.experts, experts * count)
        trained: Number = 0.0
        if kind.trained_split or kind.trained_whole or kind.trained_experts:
            trained = kind.trained_split / t + kind.trained_whole
            if kind.trained_experts:
                trained_experts = kind.trained_experts / spread.expert_split
                trained = trained + trained_experts
                total.trained_experts = add(total.trained_experts, trained_experts * count)
        present = where(count > 0, 1.0, 0.0)
        total.weights = add(total.weights, own * count)
        total.matrices = add(total.matrices, matrices * count)
        total.trained = add(total.trained, trained * count)
        if kind.adapters:
            total.adapters = add(total.adapters, kind.adapters * count)
        if kind.quantized:
            total.quantized = add(total.quantized, (own - kind.whole) * count)
        total.block = maximum(total.block, own * present)
        total.trained_block = maximum(total.trained_block, (trained + kind.adapters) * present)
        kept = block_bytes(setting, kind.kept, spread, kind.decoder)
        total.kept_block = maximum(total.kept_block, kept * present)
        if setting.scores:
            total.kept_attention = maximum(
                total.kept_attention, (kept - block_bytes(setting, kind.kept_feed_forward, spread, kind.decoder)) * present
            )
            total.trained_attention = maximum(total.trained_attention, kind.trained_attention / t * present)
        if setting.checkpointing == "full":
            kept = inputs(setting, kind, spread)
        elif setting.checkpointing == "selective":
            kept = selected(setting, kind, spread)
        total.kept = add(total.kept, kept * count)
        total.blocks = add(total.blocks, count)
    _outside(setting, stage, spread, total)
    return total


def _outside(setting: Setting, stage: Stage, spread: Ranks, total: Size) -> None:
    """Token table, head and final norm; a tied head on another stage is a copy of the table there."""
    t, last = spread.tensor, stage.last
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
    total.matrices = total.matrices + last * (setting.hidden * setting.vocabulary / t)
    if setting.quantized_head:
        total.quantized = total.quantized + last * (setting.head / t)
