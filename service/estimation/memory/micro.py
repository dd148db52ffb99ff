"""Tensors of one micro-batch on one rank: the same for every pipeline stage, so computed once."""

from __future__ import annotations

from dataclasses import dataclass

from ..numeric import Number, maximum
from ..run import Run
from ..stacks.profile import AUTOCAST, COMPUTE, RESIDUAL
from .activations import activation_rule, norm_rule
from .adapted import live
from .experts import Inside
from .experts import inside as inside_experts
from .setting import Setting
from .sizes import add, split, tokens_of
from .stages import Ranks


@dataclass(slots=True)
class Micro:
    """Tensors of one micro-batch on one rank, whatever the stage, in bytes unless said otherwise."""

    tokens: Number  # their number
    residual: Number  # the residual stream between two blocks
    encoded: Number  # the encoder's output
    working: Number  # transient gradients of a block
    kept_twice: Number  # the recomputed block's input, where its first norm saves that very tensor
    inside: Number  # of the last block's MLP in the forward pass, under checkpointing when it reaches its product
    adapted: Number  # of the last block's MLP, beside what the block keeps, where it has adapters
    experts: Inside | None  # of a block that has them
    ends: Number  # when recomputation is over: what its last values hold beside what the block keeps, and the gradients that wait for it
    scores: Number  # gradients of a block's scores, where they are stored
    entries: Number  # number of logits
    embedding_masks: Number  # of dropout outside the blocks
    final: Number  # what the final norm and the head keep
    norm: Number  # what one norm keeps
    final_encoder: Number  # an encoder's last
    images: Number  # the batch's images, 32-bit
    cast_images: Number  # their copy in the width of the patch convolution


def micro_batch(run: Run, setting: Setting, spread: Ranks) -> Micro:
    """Its tensors."""
    mode, width, t = setting.mode, COMPUTE[setting.mode], spread.tensor
    tokens = tokens_of(setting, spread, setting.kinds[-1].decoder)
    residual = split(tokens * (RESIDUAL[mode] * setting.hidden), spread.sequence_split)
    encoded: Number = 0.0
    if setting.cross:
        encoded = split(tokens_of(setting, spread) * (RESIDUAL[mode] * setting.hidden), spread.sequence_split)
    gated, counted = setting.kinds[-1].layer.mlp.gated, setting.stack.counted
    working = setting.stack.working * width * tokens * (2.0 * setting.widest / t + 2.0 * setting.hidden)
    if counted and not gated:
        # AddmmBackward of the last linear: the gradients of its input, of its output (a cast of the residual's under autocast and for
        # wider adapters) and of its weight. The activation's gradient comes when that input goes, where no adapter needs it twice.
        cast = mode == AUTOCAST or (setting.adapter is not None and setting.adapter.own_input_bytes(width) > 0.0)
        wide = 1.0 if setting.kinds[-1].adapted is None else 2.0
        weight = width * setting.largest / t if setting.mlp_trained else 0.0
        working = tokens * (wide * width * setting.widest / t + (RESIDUAL[mode] + (width if cast else 0.0)) * setting.hidden) + weight
    if run.method.quantization is not None:
        working = working + setting.stack.dequantized_matrices * width * setting.largest / t
    inside: Number = 0.0
    experts = inside_experts(setting, spread)
    if experts is not None:
        working, inside = maximum(working, experts.working), experts.forward
    elif setting.checkpointing == "full":
        factors = 3.0 if gated else 2.0  # of the product: both, and the product itself
        inside = tokens * (factors * width * setting.widest / t)
        inside = inside + 2.0 * residual  # its residual, and that normalised
    adapted: Number = 0.0
    moments = setting.kinds[-1].adapted
    if moments is not None:
        if setting.checkpointing == "full":
            inside = live(moments.bare, tokens, t, spread.sequence_split)
        adapted = live(moments.again if setting.recomputes else moments.beside, tokens, t, spread.sequence_split)
    ends: Number = residual + (tokens * (width * setting.hidden) if mode == AUTOCAST else 0.0)
    if not gated and activation_rule(setting.rules, setting.kinds[-1].layer.mlp.activation).keeps_output:
        ends = ends + tokens * (width * setting.widest / t)  # ReLU's input, which it does not keep
    # A 16-bit input is saved as it is, or beside its 32-bit copy (T5), or as that copy alone (RMS norms): which is no second input.
    saved = norm_rule(setting.rules, setting.family, setting.kinds[-1].layer).input_copy[mode]
    shared = counted and setting.recomputes and (RESIDUAL[mode] == 4.0 or saved != 4.0)
    masked: Number = 0.0
    if setting.embedding_masks:
        masked = split(add(tokens, tokens_of(setting, spread) if setting.cross else 0.0) * setting.embedding_masks, spread.sequence_split)
    return Micro(
        tokens=tokens,
        residual=residual,
        encoded=encoded,
        working=working,
        kept_twice=residual if shared else 0.0,
        inside=inside,
        experts=experts,
        adapted=adapted,
        ends=ends,
        scores=tokens * (setting.scores * setting.length) / t if setting.scores else 0.0,
        entries=(tokens if setting.head_per_token else spread.micro) * (setting.vocabulary / t),
        images=tokens * (4.0 * setting.pixels) if setting.pixels else 0.0,
        cast_images=tokens * (width * setting.pixels) if setting.pixels and width < 4.0 else 0.0,
        embedding_masks=masked,
        final=tokens * split(_final(setting), spread.sequence_split),
        norm=tokens * split(_final_norm(setting), spread.sequence_split),
        final_encoder=tokens_of(setting, spread) * split(_final_norm(setting), spread.sequence_split) if setting.cross else 0.0,
    )


def _final(setting: Setting) -> float:
    """Bytes per token that the last norm and the head keep: 8h + 4 for Hugging Face's RMSNorm in 16 bits, and 16 of indices."""
    head = COMPUTE[setting.mode] if setting.head_trained else 0.0
    if setting.mode == AUTOCAST and not setting.head_per_token:
        head = 0.0  # a cast of the few rows that a classifier reads; else their view keeps the whole
    stacks = 2.0 if setting.cross else 1.0  # an encoder has its own
    return stacks * _final_norm(setting) + head * setting.hidden + 16.0


def _final_norm(setting: Setting) -> float:
    rule = norm_rule(setting.rules, setting.family, setting.kinds[-1].layer)
    per = rule.input_copy[setting.mode] + (rule.normalized[setting.mode] if setting.norms_trained else 0.0)
    return per * setting.hidden + rule.statistics
