"""Live bytes of one device, phase by phase and pipeline stage by stage.

Plain arithmetic that broadcasts over ``Layout`` and ``Batch`` (``numeric`` rules): one quote and a search of 100,000 layouts
use the same expressions. T tokens of one micro-batch on one rank, V vocabulary, h hidden size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..numeric import Number, indicator, maximum, minimum, where
from ..run import Run
from ..stacks.profile import AUTOCAST, COMPUTE
from .beside import beside, may_be_the_peak
from .biased import ahead as masks_ahead
from .biased import moments as biases
from .micro import Micro, micro_batch
from .offload import offloaded
from .setting import Setting
from .sizes import Block, Size, add, block_bytes, blocks, size
from .stages import Ranks, Stage, ranks, stages
from .states import Model, States, states_of

PARTS = ("weights", "gradients", "master_weights", "optimizer_states", "activations", "logits", "transient")
ACTIVE = ("activations", "logits", "transient")
# Optimizers of which torch's foreach form makes one parameter-sized temporary.
FOREACH = frozenset({"adamw", "sgd_momentum", "lion"})
# States in 32 bits, which 8-bit optimizers keep for token tables (bitsandbytes' override for embeddings).
WIDE_STATES = {"adamw_8bit": 8.0, "paged_adamw_8bit": 8.0, "lion_8bit": 4.0}


@dataclass(slots=True)
class Phase:
    """One phase on one pipeline stage, in bytes."""

    name: str
    stage: Number
    model: Model
    activations: Number
    logits: Number
    transient: Number
    late: Number = 0.0  # gradients still to come, weighted by how much of the peak is vocabulary-wide tensors that go at once
    in_peak: bool = True
    # Where an engine makes buffers for the step: what stays reserved for them at the peak of all else, and for all else while they live;
    # whether this moment is the stage's peak; and what comes and goes at the peak of all else, if it is that of the buffers.
    cached: Number = 0.0
    top: Number = True
    fragmented: Number | None = None
    allocated: Number = field(init=False)  # all of it, in the order of ``PARTS``

    def __post_init__(self) -> None:
        self.allocated = add(add(add(self.model.total, self.activations), self.logits), self.transient)

    @property
    def parts(self) -> dict[str, Number]:
        """The parts by name."""
        model = self.model
        values = (model.weights, model.gradients, model.master, model.optimizer, self.activations, self.logits, self.transient)
        return dict(zip(PARTS, values, strict=True))

    @property
    def active(self) -> Number:
        """What comes and goes: activations, logits and transients."""
        if self.fragmented is not None:
            return self.fragmented
        return add(add(self.activations, self.logits), self.transient)


def phases(run: Run, setting: Setting, *, all_phases: bool = False) -> Iterator[Phase]:
    """All moments of all stages that can be the peak, stage by stage; with ``all_phases`` those too that never are."""
    spread = ranks(run, setting.sequences)
    each, micro = blocks(setting, spread), micro_batch(run, setting, spread)
    for stage in stages(setting, spread):
        own = size(setting, stage, spread, each)
        states = states_of(run, setting, spread, own)
        if all_phases:
            model = Model(states.weights, 0.0, 0.0, 0.0)  # nothing yet that only training makes
            yield Phase("load", stage.index, model, 0.0, 0.0, setting.stack.overheads.workspace_bytes, in_peak=False)
        yield from _step(run, setting, spread, stage, own, each, states, micro, merge=not all_phases)
        if all_phases or may_be_the_peak(run):
            shard = _sharded(run, setting, spread, own, states)
            for name, model, *live in beside(run, setting, spread, stage, own, states, shard.gathered, shard.buckets):
                yield Phase(name, stage.index, model, *live)


@dataclass(slots=True)
class Sharded:
    """What sharding and replication hold for a while, in bytes."""

    gathered: Number = 0.0  # weights of the running and the prefetched block, token table and head
    at_loss: Number = 0.0  # the same while the loss is computed
    unreduced: Number = 0.0  # whole gradients that wait for their reduction
    buckets: Number = 0.0


def _sharded(run: Run, setting: Setting, spread: Ranks, own: Size, states: States) -> Sharded:
    rule, result, stage = setting.stack.sharding, Sharded(), run.layout.sharding
    several = indicator(spread.shard > 1)
    held = offloaded(run, setting)
    moved = 1.0 if "parameters" in held else several  # one rank alone gathers nothing, but what the host holds comes by blocks
    left = 1.0 if "gradients" in held else several  # and goes there by blocks
    if stage in ("zero3", "hybrid"):
        width = min(run.precision.weight_bytes, COMPUTE[setting.mode]) * moved
        # A quantized base leaves token table and head in the width of the products.
        outside = own.embedding * (width if run.method.quantization is None else COMPUTE[setting.mode] * moved)
        result.gathered = minimum(rule.gathered_blocks, own.blocks) * own.block * width + rule.gathered_outside * outside
        result.at_loss = minimum(rule.loss_blocks, own.blocks) * own.block * width + rule.loss_outside * outside
    if stage == "zero2" and rule.stage_two_keeps_gathered:
        result.gathered = result.at_loss = own.weights * (min(run.precision.weight_bytes, COMPUTE[setting.mode]) * several)
    if stage in ("zero2", "zero3", "hybrid") or "gradients" in held:
        result.unreduced = (rule.reduced_blocks * own.trained_block + own.trained_head) * (rule.reduced_bytes[setting.mode] * left)
    if stage == "none" and rule.replicated_gradient_copies:
        result.buckets = states.gradients * (rule.replicated_gradient_copies * several)
    elif rule.bucket_elements:
        result.buckets = minimum(rule.bucket_elements, states.trained) * (several * (2.0 if run.precision.gradient_bytes < 4 else 4.0))
    return result


def _step(
    run: Run,
    setting: Setting,
    spread: Ranks,
    stage: Stage,
    own: Size,
    each: Sequence[Block],
    states: States,
    micro: Micro,
    *,
    merge: bool,
) -> list[Phase]:
    """Forward end, the moments of the backward pass, and the optimizer step; with ``merge`` an engine's as one."""
    stack, precision, mode, width = setting.stack, run.precision, setting.mode, COMPUTE[setting.mode]
    last, gradients, held_by_host = stage.last, states.gradients, offloaded(run, setting)
    shard = _sharded(run, setting, spread, own, states)

    # What the blocks keep of one micro-batch, and of all in flight.
    kept_one: Number = own.kept
    if stage.first and not setting.recomputes:
        for _, extra, decoder in setting.first_blocks:
            kept_one = kept_one + block_bytes(setting, extra, spread, decoder)
    elif stage.first:
        local = setting.length / spread.context
        if setting.first_positions:
            kept_one = kept_one + setting.first_positions * local
        if setting.first_squares:
            kept_one = kept_one + setting.first_squares * (local * setting.length) / spread.tensor
    encoded: Number = 0.0
    if setting.cross:  # the encoder's output: an input of every checkpointed decoder block, else held until the loss is known
        encoded = last * micro.encoded
        if setting.checkpointing == "full":
            kept_one = kept_one + encoded
    if stage.first and setting.embedding_masks:
        kept_one = kept_one + micro.embedding_masks
    if stack.keeps_stage_outputs:
        kept_one = kept_one + micro.residual * (1.0 - last)
    images: Number = 0.0  # cast for the patch convolution: kept for its weight's gradient, else until the forward pass is over
    if setting.pixels and stage.first:
        if setting.trained_outside:
            kept_one = add(kept_one, micro.cast_images)
        else:
            images = micro.cast_images
        if setting.input_gradient:  # asked of the convolution's output, which no block keeps
            kept_one = kept_one + micro.residual
    kept = kept_one * stage.in_flight
    others = kept - kept_one
    if "activations" in held_by_host:
        kept = minimum(kept, 2.0 * kept_one / maximum(own.blocks, 1.0))
        others = 0.0
    recomputed: Number = own.kept_block - micro.kept_twice if setting.recomputes else 0.0

    # Head and loss.
    entries, residual = micro.entries * last, micro.residual
    fused = run.software.fused_loss and setting.head_trained
    head = last * (setting.hidden * setting.vocabulary / spread.tensor) if setting.casts or fused else 0.0
    saved = _saved_logits(run, setting)
    forward_logits = entries * (saved + setting.loss.forward_extra[mode])
    backward_logits = entries * (saved + setting.loss.backward_extra[mode])
    hidden_out: Number = residual * last if mode == AUTOCAST or not setting.head_trained else 0.0
    if setting.scaled_output:
        hidden_out = hidden_out + residual * last
    if setting.checkpointing == "none" and not setting.encoded_kept:
        hidden_out = add(hidden_out, encoded)

    # Copies: autocast's 16-bit weights, gradients that stand from earlier micro-batches, the token table's gradient.
    casts: Number = 2.0 * own.matrices if setting.casts else 0.0
    head_cast: Number = 2.0 * head if setting.casts else 0.0
    # Of what is not recomputed; recomputation runs under an autocast of its own, which casts the block's weights again.
    outer_casts = add(head_cast, 2.0 * setting.outside_matrices * last) if setting.casts else 0.0
    kept_casts = outer_casts if setting.recomputes else casts
    block_casts: Number = 2.0 * own.cast_block if setting.casts and setting.recomputes else 0.0
    persistent = stack.sharding.persistent_gradients
    standing = gradients if persistent else where(spread.accumulation > 1, gradients, 0.0)
    # The table's gradient is dense; where the head shares the table, autograd sums both into a third tensor.
    table = own.trained_embedding * (width if persistent else max(precision.gradient_bytes, width))
    at_once = (1.0 if persistent or run.software.fused_loss else 2.0) + (1.0 if precision.gradient_bytes == 0.0 else 0.0)
    at_table = at_once * table if setting.tied_trained else residual
    if precision.gradient_bytes > 4:  # 16-bit gradients are cast before they are added to the 32-bit ones (DeepSpeed's BF16_Optimizer)
        at_table = add(at_table, 4.0 * own.trained_embedding)
    loss_gradients: Number = stack.fused_head_gradients * width * head if fused else 0.0
    fixed: Number = add(stack.overheads.workspace_bytes, shard.buckets)
    if run.optimizer.name in WIDE_STATES and not held_by_host & {"optimizer", "states"}:
        wider = max(WIDE_STATES[run.optimizer.name] - precision.optimizer_state_bytes, 0.0)
        fixed = fixed + own.trained_embedding * wider / spread.states_over
    if setting.pixels and stage.first:  # the batch's images stay through the step
        fixed = fixed + micro.images
    late_share = setting.late_share if stack.overheads.late_gradients else 0.0

    def phase(name: str, model: Model, activations: Number, logits: Number, *transients: Number) -> Phase:
        transient = fixed
        for value in transients:
            transient = add(transient, value)
        late = maximum(gradients - model.gradients, 0.0) * late_share if late_share else 0.0
        return Phase(name, stage.index, model, activations, logits, transient, late)

    gradient_bytes = 0.0 if "gradients" in held_by_host else precision.gradient_bytes
    # Gradients that stand throughout, those of the head with them, those of all but the first block and the table, and all.
    in_blocks = add(kept_casts - head_cast, block_casts)
    head_gradients = almost = gradients
    if not persistent:
        head_gradients = maximum(standing, (own.trained_head + setting.outside_adapters * last) * gradient_bytes / states.gradients_over)
        still_missing = own.trained_block * precision.gradient_bytes
        if not setting.tied_trained:
            still_missing = still_missing + table
        almost = maximum(standing, gradients - still_missing / states.gradients_over)
    complete = states.having(gradients)
    before, at_head, nearly = (complete, complete, complete) if persistent else map(states.having, (standing, head_gradients, almost))
    temporaries: Number = 0.0  # an optimizer in host memory makes its own there
    steps_here = "optimizer" not in held_by_host
    if steps_here and run.optimizer.implementation == "foreach" and stack.foreach_temporaries and run.optimizer.name in FOREACH:
        temporaries = states.stepped * precision.gradient_bytes
    held = add(kept, micro.final * last)
    first_block = add(others, own.kept_block)  # the last of the backward pass
    if setting.checkpointing == "full":  # recomputed from its input, which the checkpoint holds until it is done
        first_block = first_block + (residual - micro.kept_twice)
    lingering: Number = 0.0
    if stage.first and setting.input_gradient:
        lingering = (2.0 if setting.first_squares == 0.0 else 4.0) * residual
    if stage.first and setting.checkpointing == "full" and setting.lingering_squares:
        lingering = lingering + setting.lingering_squares * (setting.length / spread.context * setting.length) / spread.tensor
    moments: list[Phase] = []
    if setting.checkpointing == "full" or micro.experts is not None:
        # Inside the MLP of the last block, which outweighs a small head's logits: its last matrix is yet to be cast.
        cast = casts - head_cast - 2.0 * setting.largest / spread.tensor if setting.casts else 0.0
        moments.append(phase("forward", before, kept, 0.0, shard.gathered, cast, micro.inside, images))
    if micro.experts is not None and micro.experts.trained_down is not None:
        # In the first block of the backward pass and in its last: the down projection's gradient formed, and all of the experts.
        down = micro.experts.trained_down * gradient_bytes / states.gradients_over
        all_experts = (own.trained_block - own.trained_attention) * gradient_bytes / states.gradients_over
        for so_far, live, cast in ((head_gradients, add(kept, recomputed), kept_casts - head_cast), (almost, first_block, 0.0)):
            at_down, at_up = (states.having(minimum(gradients, so_far + more)) for more in (down, all_experts))
            moments.append(phase("backward", at_down, live, 0.0, shard.gathered, shard.unreduced, cast, micro.experts.down))
            left = live - own.kept_block + own.kept_attention
            moments.append(phase("backward", at_up, left, 0.0, shard.gathered, shard.unreduced, cast, micro.experts.up))
    if setting.kinds[-1].adapted is not None:  # inside the MLP of an adapted block
        if setting.recomputes:
            moments.append(phase("backward", at_head, kept + recomputed, 0.0, shard.gathered, shard.unreduced, micro.adapted))
            moments.append(phase("backward", nearly, first_block, 0.0, shard.gathered, shard.unreduced, micro.adapted))
        else:
            embedded = 0.0 if setting.input_gradient else residual  # in the model's own frame; no frozen block keeps its input
            moments.append(phase("forward", before, kept, 0.0, shard.gathered, micro.adapted, embedded, images))
    if setting.scores:  # the scores' gradients in the attention of the first and the last block, their MLPs done
        done = (own.trained_block - own.trained_attention) * gradient_bytes / states.gradients_over
        grown = minimum(gradients, head_gradients + done)
        left = minimum(gradients, almost + done)
        less = own.kept_block - own.kept_attention
        held_first = kept + recomputed - less
        moments.append(
            phase("backward", states.having(grown), held_first, 0.0, shard.gathered, shard.unreduced, kept_casts - head_cast, micro.scores)
        )
        moments.append(
            phase("backward", states.having(left), add(others, own.kept_attention), 0.0, shard.gathered, shard.unreduced, micro.scores)
        )
    if setting.first_squares and not setting.recomputes and not setting.scores and stage.first:
        masks = masks_ahead(setting, spread, stage, own, micro, kept)
        moments.append(phase("forward", before, masks.activations, 0.0, shard.gathered, casts - head_cast, masks.transient))
    if setting.biased and stage.first:
        for moment in biases(setting, spread, stage, own, each, micro, kept):
            missing = moment.missing * gradient_bytes + (0.0 if setting.tied_trained else table)
            so_far = states.having(maximum(standing, gradients - missing / states.gradients_over))
            if moment.phase == "forward":
                moments.append(phase("forward", before, moment.activations, 0.0, shard.gathered, casts - head_cast, moment.transient))
            else:
                moments.append(phase("backward", so_far, moment.activations, 0.0, shard.gathered, shard.unreduced, moment.transient))
    if setting.untabled and stage.first:
        # ToCopyBackward of the first block's last MLP weight: its gradient in both widths, beside all that came before it; the
        # 16-bit weights of attention and patch convolution are still to be used, and the residual's gradient is there twice.
        to_come = (own.trained_attention + setting.trained_outside) * gradient_bytes / states.gradients_over
        cast = 2.0 * (own.trained_attention + setting.largest / spread.tensor + setting.outside_matrices)
        at_cast = states.having(maximum(standing, gradients - to_come))
        left_over = add(others, own.kept_attention)
        moments.append(phase("backward", at_cast, left_over, 0.0, shard.gathered, shard.unreduced, cast, 2.0 * residual, micro.cast_images))
    moments += [
        phase("forward", before, held, forward_logits, shard.at_loss, casts, hidden_out, images),
        # Backward: at the loss, in its first block, in its last block, and at the token table.
        phase("backward", before, held, backward_logits, shard.at_loss, kept_casts, loss_gradients),
        phase("backward", at_head, add(kept, recomputed), 0.0, shard.gathered, shard.unreduced, in_blocks, micro.working),
        phase("backward", nearly, first_block, 0.0, shard.gathered, shard.unreduced, block_casts, micro.working),
        phase("backward", complete, others, 0.0, shard.gathered, shard.unreduced, at_table, lingering),
        phase("optimizer_step", complete, 0.0, 0.0, temporaries, lingering),
    ]
    buffers = _step_buffers(run, setting, spread, states) if steps_here else None
    if buffers is None:
        return moments
    live, freed = buffers
    return _with_buffers(moments, phase("optimizer_step", complete, 0.0, 0.0, temporaries, live, lingering), live + freed, merge)


def _step_buffers(run: Run, setting: Setting, spread: Ranks, states: States) -> tuple[Number, Number] | None:
    """Bytes that the engine makes at the step: what is live at once, and what was freed before."""
    own, others = setting.stack.step_buffers.get(run.layout.sharding), setting.stack.model_parallel_step_buffers
    if own is None or run.precision.gradient_bytes >= 4:
        return None
    live: Number = own.live
    freed: Number = own.freed
    at_once: Number = own.at_once
    if others is not None:
        other, split = others.get(run.layout.sharding, own), spread.tensor * spread.pipeline > 1
        live, freed, at_once = where(split, other.live, live), where(split, other.freed, freed), where(split, other.at_once, at_once)
    partition = minimum(states.stepped, at_once)
    return partition * live, partition * freed


def _with_buffers(moments: list[Phase], step: Phase, buffers: Number, merge: bool) -> list[Phase]:
    """The moments with that of the step's buffers: they and all else stay reserved for one another.

    With ``merge`` the peak of them all alone, of no moment in particular.
    """
    before, active = moments[0].allocated, moments[0].active
    for moment in moments[1:]:
        better = moment.allocated > before
        before, active = maximum(before, moment.allocated), where(better, moment.active, active)
    step.fragmented = active
    reserved, top = before + buffers, maximum(before, step.allocated)
    if merge:
        step.allocated, step.cached = top, reserved - top
        return [step]
    for moment in (*moments, step):
        moment.cached = reserved - moment.allocated
        moment.top = moment.allocated >= top
    return [*moments, step]


def _saved_logits(run: Run, setting: Setting) -> float:
    saved = setting.loss.saved[setting.mode]
    if run.architecture.logit_softcap and saved:
        saved += setting.rules.attention.softcap_bytes[setting.mode]
    return saved
