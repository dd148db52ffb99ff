"""Which pipeline stages can be the peak, and what a rank has of each: parameters before sharding, and the bytes its blocks keep.

Beside the package's symbols: v virtual stages of an interleaved schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...numeric import Number, ceil, floor, indicator, minimum, where
from ...placement import Placement
from ..amounts import add, larger
from ..blocks.kept import BlockOnRank
from ..blocks.trained_model import TrainedModel


@dataclass(slots=True)
class Stage:
    """A pipeline stage: which blocks, what else, how many micro-batches are alive."""

    index: Number
    first: bool
    last: Number  # 1.0 where it holds the head
    counts: Sequence[Number]  # blocks of each kind
    in_flight: Number


def _take(table: np.ndarray[Any, Any], index: Number) -> Number:
    """An entry of a prefix table, for one index or an array of them."""
    if isinstance(index, np.ndarray):
        return table[index.astype(np.int64)]
    return float(table[int(index)])


def stages(model: TrainedModel, placed: Placement) -> list[Stage]:
    """The stages that can be the peak: the first, the second and the last.

    Blocks that do not divide evenly: where embedding and head count as a block each (Megatron's
    ``account_for_embedding_in_pipeline_split``, BigScience's ``type:transformer|embedding``) the outer stages hold one
    block fewer; else the first stages hold one more.
    """
    p, blocks, tables = placed.pipeline, model.blocks.count, model.blocks.counts_before
    m, v = placed.micro_batches, placed.virtual_stages
    if not isinstance(p, np.ndarray) and p == 1:
        return [Stage(0, True, 1.0, [float(table[blocks]) for table in tables], 1.0)]
    each, with_outside = blocks / p, (blocks + 2) / p
    fewest, most, outer = floor(each), ceil(each), ceil(with_outside)
    padded = (fewest != most) & (outer == with_outside)  # embedding and head count, and then it comes out even
    inner = where(padded, outer, most)
    outer = where(padded, outer - 1, most)
    fewest = where(padded, outer, fewest)
    second_end = minimum(outer + inner, blocks)
    last_start = blocks - fewest
    alone, pair = indicator(p == 1), indicator(p == 2)
    interleaving, chunks = v > 1, (v - 1) * p + 1

    def alive(i: Number) -> Number:
        # 1F1B: stage i starts p - i micro-batches before its first backward; interleaved: (p - i - 1) 2 + (v - 1) p + 1
        # chunks of a v-th of the stage each (Megatron-core schedules.py).
        after = p - i
        return minimum(m, where(interleaving, ((after - 1) * 2 + chunks) / v, after))

    second = minimum(1, p - 1)
    before = [_take(table, outer) for table in tables]
    middle = [where(p > 2, _take(table, second_end) - start, 0.0) for table, start in zip(tables, before, strict=True)]
    end = [where(p > 1, float(table[blocks]) - _take(table, last_start), 0.0) for table in tables]
    return [
        Stage(0, True, alone, before, alive(0)),
        Stage(second, False, pair, middle, alive(second)),
        Stage(p - 1, False, 1.0 - alone, end, alive(p - 1)),
    ]


@dataclass(slots=True)
class StageShare:
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
    kept_block: Number = 0.0  # bytes that the block which keeps most keeps while its own backward pass runs, whatever the checkpointing
    kept_attention: Number = 0.0  # of these, without its MLP (where a moment between the two can be the peak)
    trained_attention: Number = 0.0  # of the largest block
    blocks: Number = 0.0


def share_of(model: TrainedModel, stage: Stage, placed: Placement, each: Sequence[BlockOnRank]) -> StageShare:
    """A stage's parameters and kept bytes; ``each`` is a block of each kind."""
    total = StageShare()
    for kind, block, count in zip(model.blocks.kinds, each, stage.counts, strict=True):
        present = minimum(count, 1.0)
        total.weights = add(total.weights, block.weights * count)
        if model.casts:
            total.matrices = add(total.matrices, block.matrices * count)
            total.cast_block = larger(total.cast_block, block.matrices * present)
        total.trained = add(total.trained, block.trained * count)
        if kind.weights.experts:
            total.experts = add(total.experts, block.experts * count)
            if kind.weights.trained_experts:
                total.trained_experts = add(total.trained_experts, block.trained_experts * count)
        if kind.adapters:
            total.adapters = add(total.adapters, kind.adapters * count)
        if kind.quantized:
            total.quantized = add(total.quantized, (block.weights - kind.weights.whole) * count)
        total.block = larger(total.block, block.weights * present)
        total.trained_block = larger(total.trained_block, add(block.trained, kind.adapters) * present)
        total.kept_block = larger(total.kept_block, block.kept_in_backward * present)
        if model.blocks.score_gradients or model.ends_without_table or model.blocks.hand_on_bias or kind.weights.experts:
            total.kept_attention = larger(total.kept_attention, block.kept_attention * present)
            total.trained_attention = larger(total.trained_attention, block.trained_attention * present)
        total.kept = add(total.kept, block.kept * count)
        total.blocks = add(total.blocks, count)
    _outside(model, stage, placed, total)
    return total


def _outside(model: TrainedModel, stage: Stage, placed: Placement, total: StageShare) -> None:
    """Token table, head and final norm; a tied head on another stage is a copy of the table there."""
    t, last = placed.tensor, stage.last
    tied = model.outside.head == 0.0 and model.head.outputs > 0
    if stage.first:
        total.embedding = (model.outside.embedding + last * model.outside.head) / t
        total.trained_embedding = model.outside.trained_embedding / t
    else:
        total.embedding = last * ((model.outside.embedding if tied else model.outside.head) / t)
        total.trained_embedding = last * (model.outside.trained_embedding / t) if tied else 0.0
    total.trained_head = last * (model.outside.trained_head / t)
    total.weights = total.weights + total.embedding + last * model.outside.rest
    total.trained = add(add(total.trained, total.trained_embedding), add(total.trained_head, last * model.outside.trained_rest))
    if model.outside.adapters:
        total.adapters = add(total.adapters, last * model.outside.adapters)
    if model.casts:
        total.matrices = total.matrices + last * (model.how.hidden * model.head.outputs / t + model.outside.rest_matrices)
    if model.head.quantized:
        total.quantized = total.quantized + last * (model.outside.head / t)
