"""Which pipeline stages can be the peak, and what each holds.

Plain arithmetic that broadcasts over the fields of ``Layout`` and ``Batch``. Symbols: t tensor, p pipeline, c context, d
data, e expert parallel ranks, m micro-batches a step, v virtual stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...numeric import Number, ceil, floor, indicator, minimum, where
from ...placement import Placement
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
    p, blocks, tables = placed.pipeline, model.block_count, model.counts_before
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
