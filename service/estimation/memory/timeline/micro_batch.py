"""Tensors of one micro-batch on one rank: the same for every pipeline stage, so computed once."""

from __future__ import annotations

from dataclasses import dataclass

from ...numeric import Number, maximum
from ...placement import Placement
from ...run import Run
from ...stacks.profile import AUTOCAST
from ..amounts import add, split
from ..blocks.adapted_mlp import live
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
    working: Number  # transient gradients of a block
    working_first: Number  # of the stage's first block, which reads the encoder's tokens where there is one
    kept_twice: Number  # the recomputed block's input, where its first norm saves that very tensor
    inside: Number  # of the last block's MLP in the forward pass, under checkpointing when it reaches its product
    adapted: Number  # of the last block's MLP, beside what the block keeps, where it has adapters
    experts: ExpertMoments | None  # of a block that has them
    ends: Number  # when recomputation is over: what its last values hold beside what the block keeps, and the gradients that wait for it
    scores: Number  # gradients of a block's scores, where they are stored
    scores_first: Number  # of the stage's first block
    entries: Number  # number of logits
    embedding_masks: Number  # of dropout outside the blocks
    final: Number  # what the final norms and the head keep
    norm: Number  # what one norm keeps
    normalised: Number  # the last norm's output
    norm_forward: Number  # what the last one makes beside that, its input with it; 0 where that is not model
    norm_backward: Number
    final_encoder: Number  # an encoder's last
    images: Number  # the batch's images, 32-bit
    cast_images: Number  # their copy in the width of the patch convolution


def micro_batch(run: Run, model: TrainedModel, placed: Placement) -> MicroBatch:
    """Its tensors."""
    mode, width, t = model.how.mode, model.how.width, placed.tensor
    tokens = tokens_of(model, placed, model.kinds[-1].decoder)
    residual = split(tokens * (model.how.residual * model.how.hidden), placed.sequence_split)
    encoded: Number = 0.0
    if model.encoder_decoder:
        encoded = split(tokens_of(model, placed) * (model.how.residual * model.how.hidden), placed.sequence_split)
    moments = model.kinds[-1].adapted_mlp
    gated, counted, there = model.kinds[-1].layer.mlp.gated, model.stack.counted, tokens_of(model, placed)
    working = _working(run, model, t, tokens)
    inside: Number = 0.0
    experts = expert_moments(model, placed)
    if experts is not None:
        working, inside = maximum(working, experts.working), experts.forward
    elif model.checkpointing == "full":
        factors = 3.0 if gated else 2.0  # of the product: both, and the product itself
        inside = tokens * (factors * width * model.widest / t)
        inside = inside + 2.0 * residual  # its residual, and that normalised
    adapted: Number = 0.0
    if moments is not None:
        if model.checkpointing == "full":
            inside = live(moments.bare, tokens, t, placed.sequence_split)
        again = moments.again if model.recomputes else moments.beside
        adapted = live(again, tokens, t, placed.sequence_split) if again else 0.0
    ends: Number = residual + (tokens * (width * model.how.hidden) if mode == AUTOCAST else 0.0)
    if not gated and model.how.activation(model.kinds[-1].layer.mlp.activation).keeps_output:
        ends = ends + tokens * (width * model.widest / t)  # ReLU's input, which it does not keep
    # A 16-bit input is saved as it is, or beside its 32-bit copy (T5), or as that copy alone (RMS norms): which is no second input.
    norm = model.how.norm(model.kinds[-1].layer)
    saved = model.how.norm_input(norm)
    shared = counted and model.recomputes and (model.how.residual == 4.0 or saved != 4.0)
    masked: Number = 0.0
    if model.inputs.masks:
        masked = split(add(tokens, there if model.encoder_decoder else 0.0) * model.inputs.masks, placed.sequence_split)
    longest = (
        max(model.lengths.sequence, model.lengths.decoder) if model.encoder_decoder else model.lengths.sequence
    )  # keys of either attention
    final_encoder: Number = there * split(_final_norm(model), placed.sequence_split) if model.encoder_decoder else 0.0
    written_out = model.norm_written_out
    element = split(tokens * model.how.hidden, placed.sequence_split)
    return MicroBatch(
        tokens=tokens,
        residual=residual,
        encoded=encoded,
        working=working,
        working_first=_working(run, model, t, there) if model.encoder_decoder else working,
        kept_twice=residual if shared else 0.0,
        inside=inside,
        experts=experts,
        adapted=adapted,
        ends=ends,
        scores=tokens * (model.score_gradients * longest) / t if model.score_gradients else 0.0,
        scores_first=there * (model.score_gradients * model.lengths.sequence) / t if model.score_gradients else 0.0,
        entries=(tokens if model.head.per_token else placed.micro_sequences) * (model.head.outputs / t),
        images=tokens * (4.0 * model.inputs.pixels) if model.inputs.pixels else 0.0,
        cast_images=tokens * (width * model.inputs.pixels) if model.inputs.pixels and width < 4.0 else 0.0,
        embedding_masks=masked,
        final=add(tokens * split(_final(model), placed.sequence_split), final_encoder),
        norm=tokens * split(_final_norm(model), placed.sequence_split),
        normalised=split(tokens * (model.normalised_bytes * model.how.hidden), placed.sequence_split),
        norm_forward=element * (norm.forward + width) if written_out else 0.0,
        norm_backward=element * norm.backward if written_out else 0.0,
        final_encoder=final_encoder,
    )


def _dropped_wide(model: TrainedModel) -> bool:
    """Whether the gradient of a 16-bit cast passes dropout in 32 bits: twice there, before and behind the mask."""
    adapter, width = model.how.adapter, model.how.width
    return adapter is not None and adapter.autocasts and adapter.dropout and adapter.frame_bytes(width) > 0.0


def _mask_gone(model: TrainedModel) -> float:
    """Bytes per element of the mask that a 16-bit dropout is done with when the base's gradient joins the adapter's."""
    adapter, moments = model.how.adapter, model.kinds[-1].adapted_mlp
    narrow = adapter is not None and adapter.dropout and adapter.frame_bytes(model.how.width) == 0.0
    return MASK if narrow and moments is not None and moments.again else 0.0


def _gated(model: TrainedModel, tensor: Number) -> Number:
    """Bytes per token of a frozen gated MLP's backward pass, beside what the block keeps.

    The gradients of the product and of both factors, and the stream's; where adapters had it keep the product, or a copy of it,
    that is gone by then. A 32-bit gradient on both sides of dropout's mask is more than these three.
    """
    mode, moments = model.how.mode, model.kinds[-1].adapted_mlp
    width = model.how.width
    inner = 3.0 * width if moments is None or not moments.again or _dropped_wide(model) else 2.0 * width
    return (inner - _mask_gone(model)) * model.widest / tensor + (
        model.how.residual + (width if mode == AUTOCAST else 0.0)
    ) * model.how.hidden


def _working(run: Run, model: TrainedModel, t: Number, tokens: Number) -> Number:
    """Transient gradients of a block that reads so many tokens."""
    mode, width, moments = model.how.mode, model.how.width, model.kinds[-1].adapted_mlp
    working = model.stack.working * width * tokens * (2.0 * model.widest / t + 2.0 * model.how.hidden)
    gated, counted = model.kinds[-1].layer.mlp.gated, model.stack.counted
    if counted and not gated:
        # AddmmBackward of the last linear: the gradients of its input, of its output (a cast of the residual's under autocast and for
        # wider adapters) and of its weight. The activation's gradient comes when that input goes, where no adapter needs it twice.
        cast = mode == AUTOCAST or (model.how.adapter is not None and model.how.adapter.inner_bytes > width)
        wide = 1.0 if model.trains.mlp else 3.0 if moments is not None and moments.again and _dropped_wide(model) else 2.0
        gone = _mask_gone(model)
        weight = width * model.largest_matrix / t if model.trains.mlp else 0.0
        working = (
            tokens * ((wide * width - gone) * model.widest / t + (model.how.residual + (width if cast else 0.0)) * model.how.hidden)
            + weight
        )
    elif counted and gated and moments is not None and model.how.adapter is not None and model.how.adapter.inner_bytes <= width:
        working = tokens * _gated(model, t)
    if run.method.quantization is not None:
        working = working + model.stack.dequantized_matrices * width * model.largest_matrix / t
    return working


def _final(model: TrainedModel) -> float:
    """Bytes per token that the last norm and the head keep: 8h + 4 for Hugging Face's RMSNorm in 16 bits, and 16 of indices."""
    head = model.how.width if model.head.trained else 0.0
    if model.how.mode == AUTOCAST and not model.head.per_token:
        head = 0.0  # a cast of the few rows that a classifier reads; else their view keeps the whole
    return _final_norm(model) + head * model.how.hidden + 16.0


def _final_norm(model: TrainedModel) -> float:
    rule = model.how.norm(model.kinds[-1].layer)
    per = model.how.norm_input(rule) + (rule.normalized[model.how.mode] if model.trains.norms else 0.0)
    return per * model.how.hidden + rule.statistics
