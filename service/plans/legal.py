"""Which layouts are legal, and why the others are not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from service.estimation.architecture import Architecture
from service.estimation.run import Run

from .space import Values

Mask = NDArray[np.bool_]


def divides(dividend: Values | float, divisor: Values | float) -> Mask:
    """Where nothing is left over; of whole numbers up to 2**53, whose quotient is rounded to a whole one only where it is one.

    numpy's remainder takes eight times as long.
    """
    quotient = np.asarray(dividend / divisor)
    return np.asarray(quotient == np.floor(quotient))


def faults(run: Run, devices: int) -> Iterator[tuple[str, Mask]]:
    """Each rule with the layouts that break it; a layout counts under the first rule it breaks.

    The rules are those of the frameworks: heads and key/value heads are split or repeated over tensor ranks; interleaving wants
    equal chunks and micro-batches in groups of the stage count (Narayanan et al. 2021, arXiv:2104.04473, section 2.2); a ring of
    causal attention splits the sequence in two pieces a rank (Llama 3, arXiv:2407.21783, section 3.3.2). Uneven stages and tensor
    parallelism across nodes are legal: they are priced.
    """
    layout, batch, model = run.layout, run.batch, run.architecture
    t, p, c, e, v = layout.tensor, layout.pipeline, layout.context, layout.expert, layout.virtual_pipeline
    yield "devices_not_divisible", ~divides(devices, t * p * c)
    yield from _shape_faults(model, t)
    if model.shape_known:
        blocks = len(model.layers)
        yield "more_stages_than_layers", np.asarray(p * v > blocks)
        # Megatron counts the embedding or the head as a block where that evens the chunks out: Llama 3 405B has 126 blocks
        # in 16 x 8 (arXiv:2407.21783, section 3.3.2).
        even = divides(blocks, p * v) | divides(blocks + 1, p * v) | divides(blocks + 2, p * v)
        yield "virtual_stages_uneven", np.asarray(v > 1) & ~even
    yield "virtual_stages_without_pipeline", np.asarray(v > 1) & np.asarray(p == 1)
    yield "sequence_not_divisible", _sequence_faults(run)
    experts = max((layer.mlp.experts for layer in model.layers), default=0)
    if experts == 0:
        yield "expert_parallel_without_experts", np.asarray(e > 1)
    else:
        yield "experts_not_divisible", ~divides(experts, e)
        yield "expert_ranks_not_divisible", ~divides(devices / p, e * (layout.expert_tensor or 1))
    m, a = batch.micro_batch_size, batch.gradient_accumulation_steps
    yield "batch_not_divisible", np.asarray(a < 1) | ~divides(a, 1.0) | np.asarray(a * m * layout.data != batch.global_batch_size)
    yield "interleaving_needs_micro_batches", np.asarray(v > 1) & ~divides(a, p)


def _shape_faults(model: Architecture, t: Values | float) -> Iterator[tuple[str, Mask]]:
    for layer, _ in model.kinds():
        attention = layer.attention
        if attention.query_heads:
            groups = attention.key_value_heads
            yield "heads_not_divisible", ~divides(attention.query_heads, t) | ~(divides(groups, t) | divides(t, groups))
        if layer.mlp.intermediate:
            yield "intermediate_not_divisible", ~divides(layer.mlp.intermediate, t)
    if model.hidden:
        yield "hidden_not_divisible", ~divides(model.hidden, t)


def _sequence_faults(run: Run) -> Mask:
    t, c = run.layout.tensor, run.layout.context
    if run.sequence_length is None:
        return np.asarray(c > 1)
    pieces = np.where(np.asarray(c) > 1, 2.0 * c, 1.0)
    uneven = ~divides(run.sequence_length, pieces)
    if run.layout.sequence_parallel:
        uneven = uneven | ~divides(run.sequence_length, np.asarray(c * t))
    return uneven
