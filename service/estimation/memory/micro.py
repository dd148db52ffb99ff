"""Tensors of one micro-batch on one rank: the same for every pipeline stage, so computed once."""

from __future__ import annotations

from dataclasses import dataclass

from ..numeric import Number, maximum
from ..run import Run
from ..stacks.profile import COMPUTE, RESIDUAL
from .activations import norm_rule
from .experts import Inside
from .experts import inside as inside_experts
from .setting import Setting
from .sizes import split, tokens_of
from .stages import Ranks


@dataclass(slots=True)
class Micro:
    """Tensors of one micro-batch on one rank, whatever the stage, in bytes unless said otherwise."""

    tokens: Number  # their number
    residual: Number  # the residual stream between two blocks
    encoded: Number  # the encoder's output
    working: Number  # transient gradients of a block
    inside: Number  # of the last block's MLP in the forward pass, under checkpointing when it reaches its product
    experts: Inside | None  # of a block that has them
    scores: Number  # gradients of a block's scores, where they are stored
    entries: Number  # number of logits
    final: Number  # what the final norm and the head keep


def micro_batch(run: Run, setting: Setting, spread: Ranks) -> Micro:
    """Its tensors."""
    mode, width, t = setting.mode, COMPUTE[setting.mode], spread.tensor
    tokens = tokens_of(setting, spread, setting.kinds[-1].decoder)
    residual = split(tokens * (RESIDUAL[mode] * setting.hidden), spread.sequence_split)
    encoded: Number = 0.0
    if setting.cross:
        encoded = split(tokens_of(setting, spread) * (RESIDUAL[mode] * setting.hidden), spread.sequence_split)
    working = setting.stack.working * width * tokens * (2.0 * setting.widest / t + 2.0 * setting.hidden)
    if run.method.quantization is not None:
        working = working + setting.stack.dequantized_matrices * width * setting.largest / t
    inside: Number = 0.0
    experts = inside_experts(setting, spread)
    if experts is not None:
        working, inside = maximum(working, experts.combined), experts.forward
    elif setting.checkpointing == "full":
        factors = 3.0 if setting.kinds[-1].layer.mlp.gated else 2.0  # of the product: both, and the product itself
        inside = tokens * (factors * width * setting.widest / t)
        inside = inside + residual + split(tokens * (width * setting.hidden), spread.sequence_split)  # its residual, and that normalised
    return Micro(
        tokens=tokens,
        residual=residual,
        encoded=encoded,
        working=working,
        inside=inside,
        experts=experts,
        scores=tokens * (setting.scores * setting.length) / t if setting.scores else 0.0,
        entries=(tokens if setting.head_per_token else spread.micro) * (setting.vocabulary / t),
        final=tokens * split(_final(setting), spread.sequence_split),
    )


def _final(setting: Setting) -> float:
    """Bytes per token that the last norm and the head keep: 8h + 4 for Hugging Face's RMSNorm in 16 bits, and 16 of indices."""
    rule = norm_rule(setting.rules, setting.family, setting.kinds[-1].layer)
    per = rule.input_copy[setting.mode]
    per += rule.normalized[setting.mode] if setting.norms_trained else 0.0
    head = COMPUTE[setting.mode] if setting.head_trained else 0.0
    stacks = 2.0 if setting.cross else 1.0  # an encoder has its own
    return stacks * (per * setting.hidden + rule.statistics) + head * setting.hidden + 16.0
