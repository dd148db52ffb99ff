"""Tensors of one micro-batch on one rank: the same for every pipeline stage, so computed once."""

from __future__ import annotations

from dataclasses import dataclass

from ...numeric import Number, maximum
from ...placement import Placement
from ...run import Run
from ...stacks.profile import AUTOCAST, COMPUTE, RESIDUAL
from ..activations import MASK, activation_rule, norm_input, norm_rule
from ..adapted import live
from ..amounts import add, split
from ..blocks.kept import tokens_of
from ..setting import Setting
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
    norm_forward: Number  # what the last one makes beside that, its input with it; 0 where that is not known
    norm_backward: Number
    final_encoder: Number  # an encoder's last
    images: Number  # the batch's images, 32-bit
    cast_images: Number  # their copy in the width of the patch convolution


def micro_batch(run: Run, setting: Setting, placed: Placement) -> MicroBatch:
    """Its tensors."""
    mode, width, t = setting.mode, COMPUTE[setting.mode], placed.tensor
    tokens = tokens_of(setting, placed, setting.kinds[-1].decoder)
    residual = split(tokens * (RESIDUAL[mode] * setting.hidden), placed.sequence_split)
    encoded: Number = 0.0
    if setting.cross:
        encoded = split(tokens_of(setting, placed) * (RESIDUAL[mode] * setting.hidden), placed.sequence_split)
    moments = setting.kinds[-1].adapted
    gated, counted, there = setting.kinds[-1].layer.mlp.gated, setting.stack.counted, tokens_of(setting, placed)
    working = _working(run, setting, t, tokens)
    inside: Number = 0.0
    experts = expert_moments(setting, placed)
    if experts is not None:
        working, inside = maximum(working, experts.working), experts.forward
    elif setting.checkpointing == "full":
        factors = 3.0 if gated else 2.0  # of the product: both, and the product itself
        inside = tokens * (factors * width * setting.widest / t)
        inside = inside + 2.0 * residual  # its residual, and that normalised
    adapted: Number = 0.0
    if moments is not None:
        if setting.checkpointing == "full":
            inside = live(moments.bare, tokens, t, placed.sequence_split)
        again = moments.again if setting.recomputes else moments.beside
        adapted = live(again, tokens, t, placed.sequence_split) if again else 0.0
    ends: Number = residual + (tokens * (width * setting.hidden) if mode == AUTOCAST else 0.0)
    if not gated and activation_rule(setting.rules, setting.kinds[-1].layer.mlp.activation).keeps_output:
        ends = ends + tokens * (width * setting.widest / t)  # ReLU's input, which it does not keep
    # A 16-bit input is saved as it is, or beside its 32-bit copy (T5), or as that copy alone (RMS norms): which is no second input.
    norm = norm_rule(setting.rules, setting.kinds[-1].layer)
    saved = norm_input(norm, mode, setting.adapter)
    shared = counted and setting.recomputes and (RESIDUAL[mode] == 4.0 or saved != 4.0)
    masked: Number = 0.0
    if setting.embedding_masks:
        masked = split(add(tokens, there if setting.cross else 0.0) * setting.embedding_masks, placed.sequence_split)
    longest = max(setting.length, setting.decoder_length) if setting.cross else setting.length  # keys of either attention
    final_encoder: Number = there * split(_final_norm(setting), placed.sequence_split) if setting.cross else 0.0
    written_out = setting.written_out
    element = split(tokens * setting.hidden, placed.sequence_split)
    return MicroBatch(
        tokens=tokens,
        residual=residual,
        encoded=encoded,
        working=working,
        working_first=_working(run, setting, t, there) if setting.cross else working,
        kept_twice=residual if shared else 0.0,
        inside=inside,
        experts=experts,
        adapted=adapted,
        ends=ends,
        scores=tokens * (setting.scores * longest) / t if setting.scores else 0.0,
        scores_first=there * (setting.scores * setting.length) / t if setting.scores else 0.0,
        entries=(tokens if setting.head_per_token else placed.micro_sequences) * (setting.vocabulary / t),
        images=tokens * (4.0 * setting.pixels) if setting.pixels else 0.0,
        cast_images=tokens * (width * setting.pixels) if setting.pixels and width < 4.0 else 0.0,
        embedding_masks=masked,
        final=add(tokens * split(_final(setting), placed.sequence_split), final_encoder),
        norm=tokens * split(_final_norm(setting), placed.sequence_split),
        normalised=split(tokens * (setting.hidden_bytes * setting.hidden), placed.sequence_split),
        norm_forward=element * (norm.forward + width) if written_out else 0.0,
        norm_backward=element * norm.backward if written_out else 0.0,
        final_encoder=final_encoder,
    )


def _dropped_wide(setting: Setting) -> bool:
    """Whether the gradient of a 16-bit cast passes dropout in 32 bits: twice there, before and behind the mask."""
    adapter, width = setting.adapter, COMPUTE[setting.mode]
    return adapter is not None and adapter.autocasts and adapter.dropout and adapter.frame_bytes(width) > 0.0


def _mask_gone(setting: Setting) -> float:
    """Bytes per element of the mask that a 16-bit dropout is done with when the base's gradient joins the adapter's."""
    adapter, moments = setting.adapter, setting.kinds[-1].adapted
    narrow = adapter is not None and adapter.dropout and adapter.frame_bytes(COMPUTE[setting.mode]) == 0.0
    return MASK if narrow and moments is not None and moments.again else 0.0


def _gated(setting: Setting, tensor: Number) -> Number:
    """Bytes per token of a frozen gated MLP's backward pass, beside what the block keeps.

    The gradients of the product and of both factors, and the stream's; where adapters had it keep the product, or a copy of it,
    that is gone by then. A 32-bit gradient on both sides of dropout's mask is more than these three.
    """
    mode, moments = setting.mode, setting.kinds[-1].adapted
    width = COMPUTE[mode]
    inner = 3.0 * width if moments is None or not moments.again or _dropped_wide(setting) else 2.0 * width
    return (inner - _mask_gone(setting)) * setting.widest / tensor + (
        RESIDUAL[mode] + (width if mode == AUTOCAST else 0.0)
    ) * setting.hidden


def _working(run: Run, setting: Setting, t: Number, tokens: Number) -> Number:
    """Transient gradients of a block that reads so many tokens."""
    mode, width, moments = setting.mode, COMPUTE[setting.mode], setting.kinds[-1].adapted
    working = setting.stack.working * width * tokens * (2.0 * setting.widest / t + 2.0 * setting.hidden)
    gated, counted = setting.kinds[-1].layer.mlp.gated, setting.stack.counted
    if counted and not gated:
        # AddmmBackward of the last linear: the gradients of its input, of its output (a cast of the residual's under autocast and for
        # wider adapters) and of its weight. The activation's gradient comes when that input goes, where no adapter needs it twice.
        cast = mode == AUTOCAST or (setting.adapter is not None and setting.adapter.inner_bytes > width)
        wide = 1.0 if setting.mlp_trained else 3.0 if moments is not None and moments.again and _dropped_wide(setting) else 2.0
        gone = _mask_gone(setting)
        weight = width * setting.largest / t if setting.mlp_trained else 0.0
        working = (
            tokens * ((wide * width - gone) * setting.widest / t + (RESIDUAL[mode] + (width if cast else 0.0)) * setting.hidden) + weight
        )
    elif counted and gated and moments is not None and setting.adapter is not None and setting.adapter.inner_bytes <= width:
        working = tokens * _gated(setting, t)
    if run.method.quantization is not None:
        working = working + setting.stack.dequantized_matrices * width * setting.largest / t
    return working


def _final(setting: Setting) -> float:
    """Bytes per token that the last norm and the head keep: 8h + 4 for Hugging Face's RMSNorm in 16 bits, and 16 of indices."""
    head = COMPUTE[setting.mode] if setting.head_trained else 0.0
    if setting.mode == AUTOCAST and not setting.head_per_token:
        head = 0.0  # a cast of the few rows that a classifier reads; else their view keeps the whole
    return _final_norm(setting) + head * setting.hidden + 16.0


def _final_norm(setting: Setting) -> float:
    rule = norm_rule(setting.rules, setting.kinds[-1].layer)
    per = norm_input(rule, setting.mode, setting.adapter) + (rule.normalized[setting.mode] if setting.norms_trained else 0.0)
    return per * setting.hidden + rule.statistics
