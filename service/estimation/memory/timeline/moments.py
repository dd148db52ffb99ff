"""The moments of a training step at which most can be live on a pipeline stage, each read alone.

``timeline`` says which exist for which models and layouts; ``StageStep`` has what several of them share.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...numeric import Number, maximum
from ...optimizers import OPTIMIZERS
from ...stacks.profile import AUTOCAST
from ..amounts import add
from ..blocks.kept import BlockOnRank, block_bytes
from .experts import ExpertMoments
from .moment import Moment
from .stage_step import StageStep, head_weights


def inside_last_mlp(step: StageStep) -> Moment:
    """Inside the MLP of the last block, which outweighs a small head's logits: its last matrix is yet to be cast."""
    model, casts = step.rank.model, step.casts
    cast = casts.all - casts.head - 2.0 * model.blocks.largest_matrix / step.rank.placed.tensor if model.casts else casts.all
    return step.forward(step.saved.all, cast, step.micro.in_last_mlp, step.saved.images)


def inside_experts(step: StageStep, inside: ExpertMoments, trained_down: Number) -> list[Moment]:
    """In the first block of the backward pass and in its last: the down projection's gradient formed, and all of the experts."""
    own, saved, gradients = step.rank.own, step.saved, step.gradients
    found = []
    down = gradients.of(trained_down)
    every = gradients.of(own.trained_block - own.trained_attention)
    first = (gradients.after_head, add(saved.all, saved.recomputed), step.casts.behind_loss)
    for so_far, kept, cast in (first, (gradients.before_first_block, saved.in_last_block, 0.0)):
        at_down, at_up = gradients.grown(so_far, down), gradients.grown(so_far, every)
        found.append(step.backward(at_down, kept, cast, inside.down))
        found.append(step.backward(at_up, kept - own.kept_block + own.kept_attention, cast, inside.up))
    return found


def inside_adapted_mlp(step: StageStep) -> list[Moment]:
    """Inside the MLP of a block of a model with adapters."""
    model, saved, micro, gradients, casts = step.rank.model, step.saved, step.micro, step.gradients, step.casts
    if model.recomputes:
        cast = add(casts.behind_loss, casts.block)
        return [
            step.backward(gradients.after_head, saved.all + saved.recomputed, micro.in_adapted_mlp, cast),
            step.backward(gradients.before_first_block, saved.in_last_block, micro.in_adapted_mlp, casts.block),
        ]
    return [step.forward(saved.all, micro.in_adapted_mlp, _embedded(step), casts.all - casts.head, saved.images)]


def _embedded(step: StageStep) -> Number:
    """The first block's input in the model's own frame; no frozen block keeps it."""
    return 0.0 if step.rank.model.inputs.keeps_gradient else step.micro.residual


def inside_final_norm(step: StageStep) -> list[Moment]:
    """Inside the last norm over a frozen model, where it is written out in several steps."""
    saved, micro, casts, last = step.saved, step.micro, step.casts, step.rank.stage.last
    held = add(saved.all, micro.head_inputs * last)
    return [
        step.forward(held, micro.final_norm_forward * last, _embedded(step), casts.all - casts.head, saved.images),
        step.moment(
            "backward", step.gradients.at_start, held, 0.0, step.forward_fixed, micro.final_norm_backward * last, casts.behind_loss
        ),
    ]


def score_gradients(step: StageStep) -> list[Moment]:
    """The scores' gradients in the attention of the first and the last block of a backward pass, their MLPs done."""
    own, saved, gradients, micro = step.rank.own, step.saved, step.gradients, step.micro
    done = gradients.of(own.trained_block - own.trained_attention)
    held = saved.all + saved.recomputed - (own.kept_block - own.kept_attention)
    return [
        step.backward(gradients.grown(gradients.after_head, done), held, step.casts.behind_loss, micro.score_gradients),
        step.backward(
            gradients.grown(gradients.before_first_block, done), add(saved.others, own.kept_attention), micro.first_score_gradients
        ),
    ]


def first_encoder_block(step: StageStep, each: Sequence[BlockOnRank]) -> Moment:
    """In the encoder's block that the backward pass comes to first: the decoder is done, and its gradients are there.

    Before its attention is done: stored scores have their gradients, or the memory-efficient kernel forms the gradient of the
    position bias's mask for each sequence (``position_bias`` has the moments of recomputed stacks) and of queries, keys and values.
    """
    model, placed, saved = step.rank.model, step.rank.placed, step.saved
    kind = model.blocks.kinds[0]
    done: Number = 0.0
    to_come: Number = 0.0
    for other, block, count in zip(model.blocks.kinds, each, step.rank.stage.counts, strict=True):
        if other.decoder:
            done = add(done, block.kept * count)
        else:
            to_come = add(to_come, add(block.trained, other.adapters) * count)
    local, heads, width = model.lengths.sequence / placed.context, kind.layer.attention.query_heads / placed.tensor, model.how.width
    kept = saved.all - done - block_bytes(model, kind.kept_feed_forward, placed, False) - step.micro.encoder_norm_kept
    per_position = width * heads * placed.micro_sequences * local
    if model.blocks.score_gradients:  # gradients of the softmax's output and of its input
        inside = maximum(step.micro.first_score_gradients, 2.0 * per_position * model.lengths.sequence)
    else:
        inside = per_position * (model.lengths.sequence + 3.0 * kind.layer.attention.query_key_dim)
    return step.backward(step.states_without(to_come), kept, step.casts.behind_loss, inside)


def patch_convolution(step: StageStep) -> Moment:
    """ToCopyBackward of the first block's last MLP weight: its gradient in both widths, beside all that came before it.

    The 16-bit weights of attention and patch convolution are still to be used, and the residual's gradient is there twice.
    """
    model, own, micro, gradients = step.rank.model, step.rank.own, step.micro, step.gradients
    to_come = (own.trained_attention + model.outside.trained_rest) * gradients.element_bytes
    cast = 2.0 * (own.trained_attention + model.blocks.largest_matrix / step.rank.placed.tensor + model.outside.rest_matrices)
    left = add(step.saved.others, own.kept_attention)
    return step.backward(gradients.missing(to_come), left, cast, 2.0 * micro.residual, micro.cast_images)


def loss(step: StageStep) -> list[Moment]:
    """The end of the forward pass, and the start of the backward pass."""
    run, model, saved, micro, gathered = step.rank.run, step.rank.model, step.saved, step.micro, step.rank.gathered
    mode, last, before, casts = model.how.mode, step.rank.stage.last, step.gradients.at_start, step.casts
    held, fixed = add(saved.all, micro.head_inputs * last), step.fixed
    entries, kept = micro.logits * last, _saved_logits(step)
    hidden: Number = micro.norm_output * last if mode == AUTOCAST or not model.head.trained else 0.0  # the last norm's output
    if model.head.reads_scaled:
        hidden = hidden + micro.residual * last
    if model.checkpointing == "none" and not model.blocks.keep_encoded:  # held until the loss is known
        hidden = add(hidden, saved.encoded)
    head_gradients: Number = 0.0
    if run.software.fused_loss and model.head.trained:
        head_gradients = model.stack.fused_head_gradients * model.how.width * head_weights(step.rank)
    forward = entries * (kept + model.head.loss.forward_extra[model.how.operators])
    backward = entries * (kept + model.head.loss.backward_extra[model.how.operators])
    return [
        step.moment("forward", before, held, forward, fixed, gathered.at_loss, casts.all, hidden, saved.images),
        step.moment("backward", before, held, backward, fixed, gathered.at_loss, casts.kept, head_gradients),
    ]


def _saved_logits(step: StageStep) -> float:
    """Bytes per logit from forward to backward."""
    model = step.rank.model
    saved = model.head.loss.saved[model.how.operators]
    if step.rank.run.architecture.logit_softcap and saved:
        saved += model.how.rules.attention.softcap_bytes[model.how.mode]
    return saved


def first_and_last_block(step: StageStep) -> list[Moment]:
    """The first block of the backward pass, and its last."""
    saved, casts, gradients, micro = step.saved, step.casts, step.gradients, step.micro
    return [
        step.backward(gradients.after_head, add(saved.all, saved.recomputed), add(casts.behind_loss, casts.block), micro.block_gradients),
        step.backward(gradients.before_first_block, saved.in_last_block, casts.block, micro.first_block_gradients),
    ]


def token_table(step: StageStep) -> Moment:
    """The end of the backward pass: the table's gradient is dense; where the head shares the table, autograd sums both into a third."""
    run, model, gradients = step.rank.run, step.rank.model, step.gradients
    at_table = step.micro.residual
    if model.head.tied_trained:
        one = model.stack.sharding.persistent_gradients or run.software.fused_loss
        at_table = ((1.0 if one else 2.0) + (1.0 if run.precision.gradient_bytes == 0.0 else 0.0)) * gradients.table
    if run.precision.gradient_bytes > 4:  # 16-bit gradients are cast before they are added to the 32-bit ones (DeepSpeed's BF16_Optimizer)
        at_table = add(at_table, 4.0 * step.rank.own.trained_embedding)
    return step.backward(gradients.complete, step.saved.others, at_table, step.saved.lingering)


def optimizer_step(step: StageStep, *buffers: Number) -> Moment:
    """The optimizer step, with buffers that an engine makes for it. In host memory it makes its own temporaries there."""
    optimizer, gradients = step.rank.run.optimizer, step.gradients
    temporaries: Number = 0.0
    foreach = (
        optimizer.implementation == "foreach"
        and step.rank.model.stack.foreach_temporaries
        and OPTIMIZERS[optimizer.name].foreach_temporaries
    )
    if foreach and "optimizer" not in step.rank.host:
        temporaries = gradients.states.stepped * step.rank.run.precision.gradient_bytes
    return step.moment("optimizer_step", gradients.complete, 0.0, 0.0, step.fixed, temporaries, *buffers, step.saved.lingering)
