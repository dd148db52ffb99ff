"""Live bytes of one device, phase by phase and pipeline stage by stage.

Everything here is plain arithmetic that broadcasts over the fields of ``Layout`` and ``Batch`` (``numeric`` rules): one
quote and a search of 100,000 layouts use the same expressions. Symbols: t tensor, p pipeline, c context, d data, e expert
parallel ranks; T tokens of one micro-batch on one rank; V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..numeric import Number, ceil, floor, maximum, minimum, where
from ..run import Run
from ..stacks.profile import AUTOCAST, COMPUTE, RESIDUAL
from .activations import Kept, norm_rule
from .setting import EXPERT_IMBALANCE, Kind, Setting

PARTS = ("weights", "gradients", "master_weights", "optimizer_states", "activations", "logits", "transient")


@dataclass(slots=True)
class Phase:
    """One phase on one pipeline stage; parts as in ``PARTS``."""

    name: str
    stage: Number
    parts: dict[str, Number]
    late: Number = 0.0  # gradients still to come, weighted by how much of the peak is vocabulary-wide tensors that go at once

    @property
    def allocated(self) -> Number:
        """Sum of the parts, in their order."""
        total: Number = 0.0
        for part in PARTS:
            total = total + self.parts[part]
        return total


@dataclass(slots=True)
class Ranks:
    """How a run is spread, as floats or arrays."""

    tensor: Number
    pipeline: Number
    context: Number
    data: Number
    sequence_split: Number  # ranks that the replicated tensors of a block are divided over
    expert_split: Number  # ranks that the experts of a block are divided over
    imbalance: Number
    shard: Number  # ranks that a sharded state is divided over
    weights_over: Number
    gradients_over: Number
    states_over: Number
    micro: Number
    accumulation: Number
    virtual: Number


def ranks(run: Run) -> Ranks:
    """The layout in numbers."""
    layout = run.layout
    data = layout.data * layout.context * 1.0
    shard = data
    if layout.sharding == "hybrid" and layout.shard_group_size is not None:
        shard = minimum(layout.shard_group_size * 1.0, data)
    stage = layout.sharding
    one = data / data
    return Ranks(
        tensor=layout.tensor * 1.0,
        pipeline=layout.pipeline,
        context=layout.context * 1.0,
        data=layout.data * 1.0,
        sequence_split=layout.tensor * 1.0 if layout.sequence_parallel else 1.0,
        expert_split=maximum(layout.expert * 1.0, layout.tensor * 1.0),
        imbalance=where(layout.expert > 1, EXPERT_IMBALANCE, 1.0),
        shard=shard,
        weights_over=shard if stage in ("zero3", "hybrid") else one,
        gradients_over=shard if stage in ("zero2", "zero3", "hybrid") else one,
        states_over=shard if stage != "none" else one,
        micro=run.batch.micro_batch_size * 1.0,
        accumulation=run.batch.gradient_accumulation_steps * 1.0,
        virtual=layout.virtual_pipeline * 1.0,
    )


# -- pipeline stages -----------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Stage:
    """A pipeline stage: which blocks, what else, how many micro-batches are alive."""

    index: Number
    first: bool
    last: Number  # whether it holds the head
    counts: Sequence[Number]  # blocks of each kind
    in_flight: Number


def _blocks_before(kind: Kind, blocks: int) -> np.ndarray[Any, Any]:
    marks = np.zeros(blocks + 1)
    marks[[i + 1 for i in kind.indices]] = 1.0
    return np.cumsum(marks)


def _take(table: np.ndarray[Any, Any], index: Number) -> Number:
    if isinstance(index, np.ndarray):
        return table[index.astype(np.int64)]
    return float(table[int(index)])


def stages(setting: Setting, spread: Ranks) -> list[Stage]:
    """The stages that can be the peak: the first, the second, and the last.

    Blocks that do not divide evenly: where embedding and head count as a block each (Megatron's
    ``account_for_embedding_in_pipeline_split``, BigScience's ``type:transformer|embedding``) the outer stages hold one
    block fewer; else the first stages hold one more.
    """
    p, blocks = spread.pipeline, setting.blocks
    tables = [_blocks_before(kind, blocks) for kind in setting.kinds]
    whole = blocks % p == 0
    counted = (blocks + 2) % p == 0
    most = ceil(blocks / p)
    outer = where(whole, most, where(counted, (blocks + 2) // p - 1, most))
    inner = where(whole, most, where(counted, (blocks + 2) // p, most))
    fewest = where(whole, most, where(counted, outer, floor(blocks / p)))
    first_end = minimum(outer, blocks)
    second_end = minimum(first_end + inner, blocks)
    last_start = where(p == 1, 0, maximum(blocks - fewest, 0))
    m, v = spread.accumulation, spread.virtual

    def alive(i: Number) -> Number:
        plain = minimum(m, p - i)
        # Interleaved 1F1B: (p - i - 1) 2 + (v - 1) p + 1 chunks of a v-th of the stage (Megatron-core schedules.py).
        interleaved = minimum(m, ((p - i - 1) * 2 + (v - 1) * p + 1) / v)
        return where(v > 1, interleaved, plain) * 1.0

    second = minimum(1, p - 1)
    result = [
        Stage(index=0, first=True, last=p == 1, counts=[_take(t, first_end) for t in tables], in_flight=alive(0)),
    ]
    if not isinstance(p, np.ndarray) and p == 1:
        return result
    result.append(
        Stage(
            index=second,
            first=False,
            last=p == 2,
            counts=[where(p > 2, _take(t, second_end) - _take(t, first_end), 0.0) for t in tables],
            in_flight=alive(second),
        )
    )
    result.append(
        Stage(
            index=p - 1,
            first=False,
            last=p > 1,
            counts=[where(p > 1, _take(t, last_start * 0 + blocks) - _take(t, last_start), 0.0) for t in tables],
            in_flight=alive(p - 1),
        )
    )
    return result


# -- sizes of one stage ----------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Size:
    """Parameters and bytes of one stage on one rank, before sharding over data-parallel ranks."""

    weights: Number  # base weights, elements
    quantized: Number
    adapters: Number
    trained: Number  # of base weights
    matrices: Number
    embedding: Number  # token table and head on this stage, elements
    trained_embedding: Number
    trained_head: Number
    block: Number  # elements of the largest block
    trained_block: Number
    kept: Number  # bytes of all blocks of one micro-batch, without checkpointing
    kept_block: Number  # of the block that keeps most
    selected: Number  # of all blocks under selective checkpointing
    inputs: Number  # of all blocks under full checkpointing
    blocks: Number


def block_bytes(setting: Setting, kept: Kept, spread: Ranks, decoder: bool) -> Number:
    """Bytes that coefficients come to on one rank and micro-batch."""
    length = setting.decoder_length if decoder else setting.length
    local = length / spread.context
    tokens = spread.micro * setting.sequences * local
    per_token = (
        kept.replicated / spread.sequence_split
        + kept.split / spread.tensor
        + kept.scores * length / spread.tensor
        + kept.routed * spread.imbalance
        + where(spread.micro * setting.sequences > 1, 0.0, kept.single / spread.tensor)
    )
    whole = tokens * per_token + kept.squares * (local * length) / spread.tensor + kept.positions * local
    return (whole + kept.fixed + kept.fixed_experts / spread.expert_split) * setting.kept_scale


def tokens_of(setting: Setting, spread: Ranks, decoder: bool = False) -> Number:
    """Tokens of one micro-batch on one rank."""
    return spread.micro * setting.sequences * ((setting.decoder_length if decoder else setting.length) / spread.context)


def selected(setting: Setting, kind: Kind, spread: Ranks) -> Number:
    """Bytes of one block under selective checkpointing."""
    rule = setting.stack.selective
    kept = kind.kept
    if rule.kind == "scores":
        return block_bytes(setting, replace(kept, scores=0.0), spread, kind.decoder)
    a, width = kind.layer.attention, COMPUTE[setting.mode]
    split = width * (a.query_heads * a.value_dim + rule.matrices * kind.outputs) + 4.0 * a.query_heads
    replicated = (RESIDUAL[setting.mode] + width) * setting.hidden
    routed = rule.matrices * width * 3.0 * kind.intermediate if kind.layer.mlp.experts else 0.0
    return minimum(
        block_bytes(setting, Kept(replicated=replicated, split=split, routed=routed), spread, kind.decoder) / setting.kept_scale,
        block_bytes(setting, kept, spread, kind.decoder),
    )


def size(setting: Setting, stage: Stage, spread: Ranks) -> Size:
    """Parameters and kept bytes of a stage."""
    t = spread.tensor
    zero = 0.0 * t
    total = Size(*(zero for _ in Size.__slots__))
    for kind, count in zip(setting.kinds, stage.counts, strict=True):
        own = kind.split / t + kind.whole + kind.experts / spread.expert_split
        trained = kind.trained_split / t + kind.trained_whole + kind.trained_experts / spread.expert_split
        dense_share = kind.split + kind.experts
        quantized = 0.0 if not kind.quantized else (kind.split / t + kind.experts / spread.expert_split) * (kind.quantized / dense_share)
        total.weights = total.weights + own * count
        total.trained = total.trained + trained * count
        total.adapters = total.adapters + kind.adapters * count
        total.quantized = total.quantized + quantized * count
        expert_matrices = kind.experts
        total.matrices = total.matrices + ((kind.matrices - expert_matrices) / t + expert_matrices / spread.expert_split) * count
        present = where(count > 0, 1.0, 0.0)
        total.block = maximum(total.block, own * present)
        total.trained_block = maximum(total.trained_block, (trained + kind.adapters) * present)
        kept = block_bytes(setting, kind.kept, spread, kind.decoder)
        total.kept = total.kept + kept * count
        total.kept_block = maximum(total.kept_block, kept * present)
        total.selected = total.selected + selected(setting, kind, spread) * count
        inputs = tokens_of(setting, spread, kind.decoder) * RESIDUAL[setting.mode] * setting.hidden / spread.sequence_split
        total.inputs = total.inputs + inputs * count
        total.blocks = total.blocks + count
    first, last = where(stage.first, 1.0, 0.0), where(stage.last, 1.0, 0.0)
    # A tied head on another stage is a copy of the token table there.
    tied = setting.embedding if setting.head == 0.0 and setting.vocabulary else 0.0
    copy = last * (1.0 - first) * tied
    total.embedding = (first * setting.embedding + last * setting.head + copy) / t
    total.trained_embedding = (first * setting.trained_embedding + last * (1.0 - first) * (setting.trained_embedding if tied else 0.0)) / t
    total.trained_head = last * setting.trained_head / t
    total.weights = total.weights + total.embedding + last * setting.outside
    total.trained = total.trained + total.trained_embedding + total.trained_head + last * setting.trained_outside
    total.adapters = total.adapters + last * setting.outside_adapters
    total.matrices = total.matrices + last * (setting.hidden * setting.vocabulary) / t
    if setting.quantized_head:
        total.quantized = total.quantized + where(total.quantized > 0, last * setting.head / t, 0.0)
    return total


# -- phases ----------------------------------------------------------------------------------------------------------------
def phases(run: Run, setting: Setting) -> list[Phase]:
    """All phases of all stages that can be the peak, in the order of a step."""
    spread = ranks(run)
    result: list[Phase] = []
    for stage in stages(setting, spread):
        result.extend(_stage_phases(run, setting, spread, stage, size(setting, stage, spread)))
    return result


def _stage_phases(run: Run, setting: Setting, spread: Ranks, stage: Stage, own: Size) -> list[Phase]:
    stack, precision, mode = setting.stack, run.precision, setting.mode
    rule, width = stack.sharding, COMPUTE[setting.mode]
    offload = run.software.cpu_offload
    last = where(stage.last, 1.0, 0.0)
    sharded = run.layout.sharding in ("zero3", "hybrid")
    spread_out = where(spread.shard > 1, 1.0, 0.0)

    # States. Under adapters the base is frozen, the other widths are the trained part's.
    base_bytes = own.quantized * precision.weight_bytes + (own.weights - own.quantized) * (
        width if run.method.quantization is not None else precision.weight_bytes
    )
    adapter_width = setting.adapter.element_bytes if setting.adapter is not None else 0.0
    trained = own.trained + own.adapters
    weights = (base_bytes + own.adapters * adapter_width) / spread.weights_over
    if setting.reference:
        weights = weights + own.weights * COMPUTE[mode] / spread.weights_over
    gradients_over = spread.gradients_over
    if precision.recipe in stack.accumulates_unsharded:
        gradients_over = where(spread.accumulation > 1, gradients_over / gradients_over, gradients_over)
    gradients = trained * precision.gradient_bytes / gradients_over
    master = trained * precision.master_weight_bytes / spread.states_over
    states = trained * precision.optimizer_state_bytes / spread.states_over
    if "optimizer" in offload:
        master, states = master * 0.0, states * 0.0
    if "parameters" in offload and sharded:
        weights = weights * 0.0

    # Weights gathered by full sharding: the running and the prefetched block, token table and head.
    gather_width = minimum(precision.weight_bytes, width)
    gathered = (minimum(rule.gathered_blocks, own.blocks) * own.block + rule.gathered_outside * own.embedding) * gather_width * spread_out
    at_loss_gathered = (minimum(rule.loss_blocks, own.blocks) * own.block + rule.loss_outside * own.embedding) * gather_width * spread_out
    if not sharded:
        gathered, at_loss_gathered = gathered * 0.0, gathered * 0.0
    reducing = where(spread.data * spread.context > 1, 1.0, 0.0)
    buckets = minimum(rule.bucket_elements * 2.0 * reducing, trained * 2.0)
    if run.layout.sharding == "none":
        buckets = rule.replicated_gradient_copies * gradients * where(spread.data > 1, 1.0, 0.0)
    unreduced = 0.0 * gathered
    if run.layout.sharding in ("zero2", "zero3", "hybrid"):
        unreduced = (rule.reduced_blocks * own.trained_block + own.trained_head) * rule.reduced_bytes[mode] * spread_out
    entries_of_head = last * setting.hidden * setting.vocabulary / spread.tensor
    casts_all = 2.0 * own.matrices if mode == AUTOCAST and stack.weight_casts else 0.0 * own.matrices
    casts_head = 2.0 * entries_of_head if mode == AUTOCAST and stack.weight_casts else 0.0

    # What the blocks keep, all micro-batches in flight.
    checkpointing = run.activation_checkpointing
    positions = block_bytes(setting, setting.first_kept, spread, False) if stage.first else 0.0 * own.kept
    if checkpointing == "none":
        kept_one, recomputed = own.kept + positions, 0.0 * own.kept
    elif checkpointing == "selective":
        recomputed = own.kept_block if stack.selective.kind == "outputs" else 0.0 * own.kept
        kept_one = own.selected + positions * 0.0
    else:
        recomputed = own.kept_block
        kept_one = own.inputs + setting.first_kept.positions * (setting.length / spread.context) * (1.0 if stage.first else 0.0)
    kept = kept_one * stage.in_flight
    if "activations" in offload:
        kept = minimum(kept, 2.0 * kept_one / maximum(own.blocks, 1.0))

    tokens = tokens_of(setting, spread, setting.kinds[-1].decoder)
    residual = tokens * RESIDUAL[mode] * setting.hidden / spread.sequence_split
    widest = max(kind.intermediate for kind in setting.kinds)
    dequantized = 0.0 * tokens
    if run.method.quantization is not None:
        dequantized = dequantized + stack.dequantized_matrices * width * max(kind.largest for kind in setting.kinds) / spread.tensor
    working = dequantized + stack.working * tokens * width * (2.0 * widest / spread.tensor + 2.0 * setting.hidden)

    # Head and loss.
    rows = tokens if setting.head_per_token else spread.micro * setting.sequences
    entries = rows * setting.vocabulary / spread.tensor * last
    norm = _final_norm(setting)
    outside = tokens * norm / spread.sequence_split * last
    saved_logits = entries * _saved_logits(run, setting)
    forward_logits = saved_logits + entries * setting.loss.forward_extra[mode]
    backward_logits = saved_logits + entries * setting.loss.backward_extra[mode]
    hidden_out = 0.0 * residual if mode != AUTOCAST and setting.head_trained else residual * last

    persistent = rule.persistent_gradients
    standing = gradients if persistent else where(spread.accumulation > 1, gradients, gradients * 0.0)
    workspace = stack.overheads.workspace_bytes
    # 8-bit optimizers keep the token table's states in 32 bits (bitsandbytes' override for embeddings).
    wide_states = 0.0 * states
    if run.optimizer.name.endswith("_8bit") and "optimizer" not in offload:
        wider = maximum(WIDE_STATES[run.optimizer.name] - precision.optimizer_state_bytes, 0.0)
        wide_states = own.trained_embedding * wider / spread.states_over
    foreach = 0.0 * gradients
    if run.optimizer.implementation == "foreach" and stack.foreach_temporaries and run.optimizer.name in FOREACH:
        foreach = gradients * (gradients_over / spread.states_over)
    step_copies = trained * (stack.step_gradient_bytes if precision.gradient_bytes < 4 else 0.0) / spread.states_over

    def phase(name: str, grads: Number, activations: Number, logits: Number, transient: Number) -> Phase:
        return Phase(
            name,
            stage.index,
            {
                "weights": weights,
                "gradients": grads,
                "master_weights": master,
                "optimizer_states": states,
                "activations": activations,
                "logits": logits,
                "transient": transient + workspace + buckets + wide_states,
            },
            maximum(gradients - grads, 0.0) * (setting.loss.backward_extra[mode] / stack.loss.backward_extra[mode]),
        )

    tied = setting.tied_trained
    # The token table's gradient is dense; where the head shares the table, autograd sums both into a third.
    table = own.trained_embedding * maximum(precision.gradient_bytes if not persistent else 0.0, width)
    at_once = 1.0 if persistent or run.software.fused_loss else 2.0
    if precision.gradient_bytes == 0.0:
        at_once += 1.0
    loss_gradients = 0.0 * table
    if run.software.fused_loss and setting.head_trained:
        loss_gradients = stack.fused_head_gradients * width * entries_of_head
    forward_casts = casts_all
    backward_casts = casts_all if checkpointing == "none" else casts_head
    forward = phase("forward", standing, kept + outside, forward_logits, at_loss_gathered + forward_casts + hidden_out)
    # The backward pass at its start (loss gradients), in its first block, in its last block, and at the token table.
    at_loss = phase("backward", standing, kept + outside, backward_logits, at_loss_gathered + backward_casts + loss_gradients)
    head_gradients = maximum(standing, own.trained_head * precision.gradient_bytes / gradients_over)
    in_first = phase(
        "backward", head_gradients, kept + recomputed, entries * 0.0, gathered + unreduced + backward_casts - casts_head + working
    )
    last_block = maximum(recomputed, own.kept_block)
    table_left = 0.0 if tied else table
    almost = maximum(standing, gradients - table_left / gradients_over - own.trained_block * precision.gradient_bytes / gradients_over)
    in_last = phase("backward", almost, kept - kept_one + last_block, entries * 0.0, gathered + unreduced + working)
    at_table = phase(
        "backward",
        gradients,
        kept - kept_one,
        entries * 0.0,
        gathered + unreduced + (residual if not tied else at_once * table / gradients_over),
    )
    backward = [at_loss, in_first, in_last, at_table]
    step = phase("optimizer_step", gradients, 0.0 * kept, entries * 0.0, foreach + step_copies)
    return [forward, *backward, step]


WIDE_STATES = {"adamw_8bit": 8.0, "paged_adamw_8bit": 8.0, "lion_8bit": 4.0}
FOREACH = frozenset({"adamw", "sgd_momentum", "lion"})


def _final_norm(setting: Setting) -> float:
    """Bytes per token that the last norm and the head keep: 8h + 4 for Hugging Face's RMSNorm in 16 bits."""
    rule = norm_rule(setting.rules, setting.family, setting.kinds[-1].layer)
    per = rule.input_copy[setting.mode]
    per += rule.normalized[setting.mode] if setting.norms_trained else 0.0
    per += COMPUTE[setting.mode] if setting.head_trained else 0.0
    return per * setting.hidden + rule.statistics + 16.0


def _saved_logits(run: Run, setting: Setting) -> float:
    saved = setting.loss.saved[setting.mode]
    if run.architecture.logit_softcap and saved:
        saved += setting.rules.attention.softcap_bytes[setting.mode]
    return saved


def host_bytes(run: Run, setting: Setting) -> Number:
    """Host memory of one rank for what is offloaded, at the fullest stage."""
    spread = ranks(run)
    worst: Number = 0.0
    for stage in stages(setting, spread):
        own = size(setting, stage, spread)
        trained = own.trained + own.adapters
        total: Number = 0.0
        if "optimizer" in run.software.cpu_offload:
            per = run.precision.master_weight_bytes + run.precision.optimizer_state_bytes + 4.0  # and a 32-bit gradient for the step
            total = total + trained * per / spread.states_over
        if "parameters" in run.software.cpu_offload:
            total = total + own.weights * run.precision.weight_bytes / spread.weights_over
        if "activations" in run.software.cpu_offload:
            kept = {"none": own.kept, "selective": own.selected, "full": own.inputs}[run.activation_checkpointing]
            total = total + kept * stage.in_flight
        worst = maximum(worst, total)
    return worst
