"""The moments of a training step at which most can be live on a pipeline stage, each read alone.

``phases`` says which exist for which models and settings. T tokens of one micro-batch on one rank, V
vocabulary, h hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..numeric import Number, maximum
from ..stacks.profile import AUTOCAST, COMPUTE
from .biased import ahead as masks_ahead
from .biased import moments as of_biases
from .experts import Inside
from .phase import Phase
from .sizes import Block, add, block_bytes
from .surroundings import Surroundings, head_weights

# Optimizers of which torch's foreach form makes one parameter-sized temporary.
FOREACH = frozenset({"adamw", "sgd_momentum", "lion"})


def last_mlp(around: Surroundings) -> Phase:
    """Inside the MLP of the last block, which outweighs a small head's logits: its last matrix is yet to be cast."""
    setting, casts = around.setting, around.casts
    cast = casts.all - casts.head - 2.0 * setting.largest / around.placed.tensor if setting.casts else casts.all
    return around.forward(around.saved.all, cast, around.micro.inside, around.saved.images)


def experts(around: Surroundings, inside: Inside, trained_down: Number) -> list[Phase]:
    """In the first block of the backward pass and in its last: the down projection's gradient formed, and all of the experts."""
    own, saved, gradients = around.own, around.saved, around.gradients
    found = []
    down = gradients.of(trained_down)
    every = gradients.of(own.trained_block - own.trained_attention)
    first = (gradients.at_head, add(saved.all, saved.recomputed), around.casts.within)
    for so_far, live, cast in (first, (gradients.almost, saved.last, 0.0)):
        at_down, at_up = gradients.grown(so_far, down), gradients.grown(so_far, every)
        found.append(around.backward(at_down, live, cast, inside.down))
        found.append(around.backward(at_up, live - own.kept_block + own.kept_attention, cast, inside.up))
    return found


def adapted_mlp(around: Surroundings) -> list[Phase]:
    """Inside the MLP of a block of a model with adapters."""
    setting, saved, micro, gradients, casts = around.setting, around.saved, around.micro, around.gradients, around.casts
    if setting.recomputes:
        cast = add(casts.within, casts.block)
        return [
            around.backward(gradients.after_head, saved.all + saved.recomputed, micro.adapted, cast),
            around.backward(gradients.nearly, saved.last, micro.adapted, casts.block),
        ]
    return [around.forward(saved.all, micro.adapted, _embedded(around), casts.all - casts.head, saved.images)]


def _embedded(around: Surroundings) -> Number:
    """The first block's input in the model's own frame; no frozen block keeps it."""
    return 0.0 if around.setting.input_gradient else around.micro.residual


def final_norm(around: Surroundings) -> list[Phase]:
    """Inside the last norm over a frozen model, where it is written out in several steps."""
    saved, micro, casts, last = around.saved, around.micro, around.casts, around.stage.last
    held = add(saved.all, micro.final * last)
    return [
        around.forward(held, micro.norm_forward * last, _embedded(around), casts.all - casts.head, saved.images),
        around.phase("backward", around.gradients.before, held, 0.0, around.forward_fixed, micro.norm_backward * last, casts.within),
    ]


def scores(around: Surroundings) -> list[Phase]:
    """The scores' gradients in the attention of the first and the last block of a backward pass, their MLPs done."""
    own, saved, gradients, micro = around.own, around.saved, around.gradients, around.micro
    done = gradients.of(own.trained_block - own.trained_attention)
    held = saved.all + saved.recomputed - (own.kept_block - own.kept_attention)
    return [
        around.backward(gradients.grown(gradients.at_head, done), held, around.casts.within, micro.scores),
        around.backward(gradients.grown(gradients.almost, done), add(saved.others, own.kept_attention), micro.scores_first),
    ]


def masks(around: Surroundings) -> Phase:
    """Position biases that become masks in a forward pass that recomputes nothing."""
    setting, casts = around.setting, around.casts
    moment = masks_ahead(setting, around.placed, around.stage, around.own, around.micro, around.saved.all)
    return around.forward(moment.activations, casts.all - casts.head, moment.transient)


def biases(around: Surroundings, each: Sequence[Block]) -> list[Phase]:
    """Position biases that recomputed stacks hand on from block to block."""
    setting, casts, gradients = around.setting, around.casts, around.gradients
    found = []
    for moment in of_biases(setting, around.placed, around.stage, around.own, each, around.micro, around.saved.all):
        if moment.phase == "forward":
            found.append(around.forward(moment.activations, casts.all - casts.head, moment.transient))
        else:
            missing = moment.missing * gradients.element_bytes + (0.0 if setting.tied_trained else gradients.table)
            found.append(around.backward(gradients.missing(missing), moment.activations, moment.transient))
    return found


def encoder(around: Surroundings, each: Sequence[Block]) -> Phase:
    """In the encoder's block that the backward pass comes to first: the decoder is done, and its gradients are there.

    Before its attention is done: stored scores have their gradients, or the memory-efficient kernel forms the gradient of the
    position bias's mask for each sequence (``biased``, which has the moments of recomputed stacks) and of queries, keys and values.
    """
    setting, placed, saved, gradients = around.setting, around.placed, around.saved, around.gradients
    kind, done, to_come = setting.kinds[0], 0.0, 0.0
    for other, block, count in zip(setting.kinds, each, around.stage.counts, strict=True):
        if other.decoder:
            done = add(done, block.held * count)
        else:
            to_come = add(to_come, add(block.trained, other.adapters) * count)
    missing = to_come * gradients.element_bytes + (0.0 if setting.tied_trained else gradients.table)
    local, heads, width = setting.length / placed.context, kind.layer.attention.query_heads / placed.tensor, COMPUTE[setting.mode]
    live = saved.all - done - block_bytes(setting, kind.kept_feed_forward, placed, False) - around.micro.final_encoder
    per_position = width * heads * placed.micro_sequences * local
    if setting.scores:  # gradients of the softmax's output and of its input
        inside = maximum(around.micro.scores_first, 2.0 * per_position * setting.length)
    else:
        inside = per_position * (setting.length + 3.0 * kind.layer.attention.query_key_dim)
    return around.backward(gradients.missing(missing), live, around.casts.within, inside)


def patch_convolution(around: Surroundings) -> Phase:
    """ToCopyBackward of the first block's last MLP weight: its gradient in both widths, beside all that came before it.

    The 16-bit weights of attention and patch convolution are still to be used, and the residual's gradient is there twice.
    """
    setting, own, micro, gradients = around.setting, around.own, around.micro, around.gradients
    to_come = (own.trained_attention + setting.trained_outside) * gradients.element_bytes
    cast = 2.0 * (own.trained_attention + setting.largest / around.placed.tensor + setting.outside_matrices)
    left = add(around.saved.others, own.kept_attention)
    return around.backward(gradients.missing(to_come), left, cast, 2.0 * micro.residual, micro.cast_images)


def loss(around: Surroundings) -> list[Phase]:
    """The end of the forward pass, and the start of the backward pass."""
    run, setting, saved, micro, shard = around.run, around.setting, around.saved, around.micro, around.shard
    mode, last, before, casts = setting.mode, around.stage.last, around.gradients.before, around.casts
    held, fixed = add(saved.all, micro.final * last), around.fixed
    entries, kept = micro.entries * last, _saved_logits(around)
    hidden: Number = micro.normalised * last if mode == AUTOCAST or not setting.head_trained else 0.0  # the last norm's output
    if setting.scaled_output:
        hidden = hidden + micro.residual * last
    if setting.checkpointing == "none" and not setting.encoded_kept:  # held until the loss is known
        hidden = add(hidden, saved.encoded)
    head_gradients: Number = 0.0
    if run.software.fused_loss and setting.head_trained:
        head_gradients = setting.stack.fused_head_gradients * COMPUTE[mode] * head_weights(setting, around.placed, around.stage)
    forward = entries * (kept + setting.loss.forward_extra[setting.loss_mode])
    backward = entries * (kept + setting.loss.backward_extra[setting.loss_mode])
    return [
        around.phase("forward", before, held, forward, fixed, shard.at_loss, casts.all, hidden, saved.images),
        around.phase("backward", before, held, backward, fixed, shard.at_loss, casts.kept, head_gradients),
    ]


def _saved_logits(around: Surroundings) -> float:
    """Bytes per logit from forward to backward."""
    setting = around.setting
    saved = setting.loss.saved[setting.loss_mode]
    if around.run.architecture.logit_softcap and saved:
        saved += setting.rules.attention.softcap_bytes[setting.mode]
    return saved


def blocks(around: Surroundings) -> list[Phase]:
    """The first block of the backward pass, and its last."""
    saved, casts, gradients, micro = around.saved, around.casts, around.gradients, around.micro
    return [
        around.backward(gradients.after_head, add(saved.all, saved.recomputed), add(casts.within, casts.block), micro.working),
        around.backward(gradients.nearly, saved.last, casts.block, micro.working_first),
    ]


def token_table(around: Surroundings) -> Phase:
    """The end of the backward pass: the table's gradient is dense; where the head shares the table, autograd sums both into a third."""
    run, setting, gradients = around.run, around.setting, around.gradients
    at_table = around.micro.residual
    if setting.tied_trained:
        one = setting.stack.sharding.persistent_gradients or run.software.fused_loss
        at_table = ((1.0 if one else 2.0) + (1.0 if run.precision.gradient_bytes == 0.0 else 0.0)) * gradients.table
    if run.precision.gradient_bytes > 4:  # 16-bit gradients are cast before they are added to the 32-bit ones (DeepSpeed's BF16_Optimizer)
        at_table = add(at_table, 4.0 * around.own.trained_embedding)
    return around.backward(gradients.complete, around.saved.others, at_table, around.saved.lingering)


def optimizer_step(around: Surroundings, *buffers: Number) -> Phase:
    """The optimizer step, with buffers that an engine makes for it. In host memory it makes its own temporaries there."""
    optimizer, gradients = around.run.optimizer, around.gradients
    temporaries: Number = 0.0
    foreach = optimizer.implementation == "foreach" and around.setting.stack.foreach_temporaries and optimizer.name in FOREACH
    if foreach and "optimizer" not in around.host:
        temporaries = gradients.states.stepped * around.run.precision.gradient_bytes
    return around.phase("optimizer_step", gradients.complete, 0.0, 0.0, around.fixed, temporaries, *buffers, around.saved.lingering)
