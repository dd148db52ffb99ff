"""How a run is spread over ranks, and which pipeline stages can be the peak.

Plain arithmetic that broadcasts over the fields of ``Layout`` and ``Batch``. Symbols: t tensor, p pipeline, c context, d
data, e expert parallel ranks, m micro-batches a step, v virtual stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..numeric import Number, ceil, floor, indicator, maximum, minimum, where
from ..run import Run
from .setting import Setting


@dataclass(slots=True)
class Ranks:
    """The layout in numbers, floats or arrays."""

    tensor: Number
    pipeline: Number
    context: Number
    sequence_split: Number  # ranks that the replicated tensors of a block are divided over
    expert_split: Number  # ranks that the experts of a block are divided over
    imbalance: Number  # tokens of the fullest expert rank over the mean
    replicas: Number  # ranks that hold the same part of the model (data x context)
    shard: Number  # of them, those that a sharded state is divided over
    weights_over: Number
    gradients_over: Number
    states_over: Number
    expert_weights_over: Number  # the same for experts: where they are spread over ranks, fewer ranks hold the same ones
    expert_gradients_over: Number
    expert_states_over: Number
    micro: Number  # sequences of one micro-batch
    accumulation: Number
    virtual: Number


def ranks(run: Run, sequences: int = 1) -> Ranks:
    """The layout of a run; ``sequences`` of one batch element (a preference pair has two)."""
    layout, batch = run.layout, run.batch
    tensor = layout.tensor * 1.0
    context = layout.context * 1.0
    replicas = layout.data * context
    shard = replicas
    if layout.sharding == "hybrid" and layout.shard_group_size is not None:
        shard = minimum(layout.shard_group_size * 1.0, replicas)
    expert = layout.expert
    spread_experts = isinstance(expert, np.ndarray) or expert > 1
    expert_split = maximum(expert * 1.0, tensor) if spread_experts else tensor
    expert_shard = maximum(shard * tensor / expert_split, 1.0) if spread_experts else shard
    whole, reduced, stepped = layout.sharding in ("zero3", "hybrid"), layout.sharding not in ("none", "zero1"), layout.sharding != "none"
    return Ranks(
        tensor=tensor,
        pipeline=layout.pipeline * 1.0,
        context=context,
        sequence_split=tensor if layout.sequence_parallel else 1.0,
        expert_split=expert_split,
        imbalance=where(expert > 1, layout.expert_imbalance, 1.0) if spread_experts else 1.0,
        replicas=replicas,
        shard=shard,
        weights_over=shard if whole else 1.0,
        gradients_over=shard if reduced else 1.0,
        states_over=shard if stepped else 1.0,
        expert_weights_over=expert_shard if whole else 1.0,
        expert_gradients_over=expert_shard if reduced else 1.0,
        expert_states_over=expert_shard if stepped else 1.0,
        micro=batch.micro_batch_size * (sequences * 1.0),
        accumulation=batch.gradient_accumulation_steps * 1.0,
        virtual=layout.virtual_pipeline * 1.0,
    )


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


def stages(setting: Setting, spread: Ranks) -> list[Stage]:
    """The stages that can be the peak: the first, the second and the last.

    Blocks that do not divide evenly: where embedding and head count as a block each (Megatron's
    ``account_for_embedding_in_pipeline_split``, BigScience's ``type:transformer|embedding``) the outer stages hold one
    block fewer; else the first stages hold one more.
    """
    p, blocks, tables = spread.pipeline, setting.blocks, setting.blocks_before
    m, v = spread.accumulation, spread.virtual
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
