"""Tensors of one micro-batch on one rank: the same for every pipeline stage, so computed once."""

from __future__ import annotations

from dataclasses import dataclass

from ...numeric import Number, maximum
from ...placement import Placement
from ...run import Run
from ...stacks.profile import AUTOCAST
from ..amounts import add, split
from ..blocks.adapted_mlp import fullest
from ..blocks.coefficients import MASK
from ..blocks.kept import tokens_of
from ..blocks.trained_model import TrainedModel
from .experts import ExpertMoments, expert_moments


@dataclass(slots=True)
class MicroBatch:
    """Tensors of one micro-batch on one rank, whatever the stage, in bytes unless said otherwise."""

    tokens: Number  # their number
    residual: Number  # the residual stream between two blocks
    encoded: Number  # the encoder's output
    block_gradients: Number  # that come and go in the backward pass of a block
    first_block_gradients: Number  # the same of the stage's first block, which reads the encoder's tokens where there is one
    kept_twice: Number  # the recomputed block's input, where its first norm saves that very tensor
    in_last_mlp: Number  # of the forward pass: under checkpointing when it reaches its product
    in_adapted_mlp: Number  # of the last block, beside what the block keeps
    experts: ExpertMoments | None  # of a block that has them
    after_recomputing: Number  # a block: what its last values hold beside what it keeps, and the gradients that wait for it
    score_gradients: Number  # of one block, where scores are stored
    first_score_gradients: Number  # of the stage's first block
    logits: Number  # their number
    embedding_masks: Number  # of dropout outside the blocks
    head_inputs: Number  # what the final norms and the head keep
    norm_kept: Number  # what one norm keeps
    norm_output: Number  # of the last norm
    final_norm_forward: Number  # what the last norm makes beside that, its input with it; 0 where that is not known
    final_norm_backward: Number
    encoder_norm_kept: Number  # by an encoder's last norm
    images: Number  # the batch's images, 32-bit
    cast_images: Number  # their copy in the width of the patch convolution


def micro_batch(run: Run, model: TrainedModel, placed: Placement) -> MicroBatch:
    """The tensors of a micro-batch; ``there`` are the tokens of the first block's stack, ``tokens`` those of the last one's."""
    how, kind, t, two_stacks = model.how, model.blocks.kinds[-1], placed.tensor, model.encoder_decoder
    tokens, there = tokens_of(model, placed, kind.decoder), tokens_of(model, placed)
    residual = split(tokens * (how.residual * how.hidden), placed.sequence_split)
    encoded: Number = split(there * (how.residual * how.hidden), placed.sequence_split) if two_stacks else 0.0
    gradients, experts = _block_gradients(run, model, t, tokens), expert_moments(model, placed)
    if experts is not None:
        gradients = maximum(gradients, experts.working)
    masks: Number = 0.0
    if model.inputs.masks:
        masks = split(add(tokens, there if two_stacks else 0.0) * model.inputs.masks, placed.sequence_split)
    keys = max(model.lengths.sequence, model.lengths.decoder) if two_stacks else model.lengths.sequence  # of either attention
    encoder_norm: Number = there * split(model.final_norm.kept, placed.sequence_split) if two_stacks else 0.0
    norm, element = how.norm(kind.layer), split(tokens * how.hidden, placed.sequence_split)
    # A 16-bit input is saved as it is, or beside its 32-bit copy (T5), or as that copy alone (RMS norms): which is no second input.
    saved_as_it_is = how.residual == 4.0 or how.norm_input(norm) != 4.0
    return MicroBatch(
        tokens=tokens,
        residual=residual,
        encoded=encoded,
        block_gradients=gradients,
        first_block_gradients=_block_gradients(run, model, t, there) if two_stacks else gradients,
        kept_twice=residual if model.stack.counted and model.recomputes and saved_as_it_is else 0.0,
        in_last_mlp=_in_last_mlp(model, placed, tokens, experts),
        in_adapted_mlp=_in_adapted_mlp(model, placed, tokens),
        experts=experts,
        after_recomputing=_after_recomputing(model, t, tokens, residual),
        score_gradients=tokens * (model.blocks.score_gradients * keys) / t if model.blocks.score_gradients else 0.0,
        first_score_gradients=there * (model.blocks.score_gradients * model.lengths.sequence) / t if model.blocks.score_gradients else 0.0,
        logits=(tokens * model.head.read_share if model.head.per_token else placed.micro_sequences) * (model.head.outputs / t),
        embedding_masks=masks,
        head_inputs=add(tokens * split(model.head.kept, placed.sequence_split), encoder_norm),
        norm_kept=tokens * split(model.final_norm.kept, placed.sequence_split),
        norm_output=split(tokens * (model.final_norm.output_bytes * how.hidden), placed.sequence_split),
        final_norm_forward=element * (norm.forward + how.width) if model.final_norm.written_out else 0.0,
        final_norm_backward=element * norm.backward if model.final_norm.written_out else 0.0,
        encoder_norm_kept=encoder_norm,
        images=tokens * (4.0 * model.inputs.pixels) if model.inputs.pixels else 0.0,
        cast_images=tokens * (how.width * model.inputs.pixels) if model.inputs.pixels and how.width < 4.0 else 0.0,
    )


def _in_last_mlp(model: TrainedModel, placed: Placement, tokens: Number, experts: ExpertMoments | None) -> Number:
    """What the forward pass holds inside the last block's MLP beside what is kept of it."""
    how, kind = model.how, model.blocks.kinds[-1]
    if kind.adapted_mlp is not None and model.checkpointing == "full":
        return fullest(kind.adapted_mlp.bare, tokens, placed.tensor, placed.sequence_split)
    if experts is not None:
        return experts.forward
    if model.checkpointing != "full":
        return 0.0
    factors = 3.0 if kind.layer.mlp.gated else 2.0  # of the product: both, and the product itself
    product = tokens * (factors * how.width * model.blocks.widest / placed.tensor)
    return product + 2.0 * split(tokens * (how.residual * how.hidden), placed.sequence_split)  # its residual, and that normalised


def _in_adapted_mlp(model: TrainedModel, placed: Placement, tokens: Number) -> Number:
    moments = model.blocks.kinds[-1].adapted_mlp
    if moments is None:
        return 0.0
    found = moments.again if model.recomputes else moments.beside
    return fullest(found, tokens, placed.tensor, placed.sequence_split) if found else 0.0


def _after_recomputing(model: TrainedModel, t: Number, tokens: Number, residual: Number) -> Number:
    how, mlp = model.how, model.blocks.kinds[-1].layer.mlp
    held: Number = residual + (tokens * (how.width * how.hidden) if how.mode == AUTOCAST else 0.0)
    if not mlp.gated and how.activation(mlp.activation).keeps_output:
        held = held + tokens * (how.width * model.blocks.widest / t)  # ReLU's input, which it does not keep
    return held


def _dropped_wide(model: TrainedModel) -> bool:
    """Whether the gradient of a 16-bit cast passes dropout in 32 bits: twice there, before and behind the mask."""
    adapter, width = model.how.adapter, model.how.width
    return adapter is not None and adapter.autocasts and adapter.dropout and adapter.frame_bytes(width) > 0.0


def _mask_gone(model: TrainedModel) -> float:
    """Bytes per element of the mask that a 16-bit dropout is done with when the base's gradient joins the adapter's."""
    adapter, moments = model.how.adapter, model.blocks.kinds[-1].adapted_mlp
    narrow = adapter is not None and adapter.dropout and adapter.frame_bytes(model.how.width) == 0.0
    return MASK if narrow and moments is not None and moments.again else 0.0


def _gated(model: TrainedModel, tensor: Number) -> Number:
    """Bytes per token of a frozen gated MLP's backward pass, beside what the block keeps.

    The gradients of the product and of both factors, and the stream's; where adapters had it keep the product, or a copy of it,
    that is gone by then. A 32-bit gradient on both sides of dropout's mask is more than these three.
    """
    mode, moments = model.how.mode, model.blocks.kinds[-1].adapted_mlp
    width = model.how.width
    inner = 3.0 * width if moments is None or not moments.again or _dropped_wide(model) else 2.0 * width
    stream = model.how.residual + (width if mode == AUTOCAST else 0.0)
    return (inner - _mask_gone(model)) * model.blocks.widest / tensor + stream * model.how.hidden


def _block_gradients(run: Run, model: TrainedModel, t: Number, tokens: Number) -> Number:
    """Gradients that come and go in the backward pass of a block that reads so many tokens."""
    mode, width, moments = model.how.mode, model.how.width, model.blocks.kinds[-1].adapted_mlp
    working = model.stack.working * width * tokens * (2.0 * model.blocks.widest / t + 2.0 * model.how.hidden)
    gated, counted = model.blocks.kinds[-1].layer.mlp.gated, model.stack.counted
    if counted and not gated:
        # AddmmBackward of the last linear: the gradients of its input, of its output (a cast of the residual's under autocast and for
        # wider adapters) and of its weight. The activation's gradient comes when that input goes, where no adapter needs it twice.
        cast = mode == AUTOCAST or (model.how.adapter is not None and model.how.adapter.inner_bytes > width)
        wide = 1.0 if model.trains.mlp else 3.0 if moments is not None and moments.again and _dropped_wide(model) else 2.0
        inner = wide * width - _mask_gone(model)
        stream = model.how.residual + (width if cast else 0.0)
        weight = width * model.blocks.largest_matrix / t if model.trains.mlp else 0.0
        working = tokens * (inner * model.blocks.widest / t + stream * model.how.hidden) + weight
    elif counted and gated and moments is not None and model.how.adapter is not None and model.how.adapter.inner_bytes <= width:
        working = tokens * _gated(model, t)
    if run.method.quantization is not None:
        working = working + model.stack.dequantized_matrices * width * model.blocks.largest_matrix / t
    return working
