"""The words in which a software stack is described: what its modules keep for the backward pass, gather, cast and reserve.

Every coefficient stands in a table of ``stacks/<stack>.py`` with its source; formulas read the tables and never ask
for the stack's name. A :data:`Widths` triple gives bytes in the three ways to train: ``half`` (16-bit weights and
residual stream), ``autocast`` (32-bit weights and residual stream, 16-bit matrix products) and ``single`` (32-bit).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Mode = Literal[0, 1, 2]
HALF: Mode = 0
AUTOCAST: Mode = 1
SINGLE: Mode = 2
Widths = tuple[float, float, float]
COMPUTE: Widths = (2, 2, 4)  # width of what a matrix product reads and writes
RESIDUAL: Widths = (2, 4, 4)  # width of the residual stream


@dataclass(frozen=True, slots=True, kw_only=True)
class NormRule:
    """What a normalisation keeps, in bytes per element of its input unless said otherwise."""

    input_copy: Widths  # the input, or the wider copy that the kernel makes of it
    normalized: Widths  # the normalised value, kept only where the scale is trained
    statistics: float  # bytes a token: mean and reciprocal deviation
    half_input_copy: float  # under autocast: of a norm behind a matrix product, whose input is 16-bit
    half_normalized: float
    trained_scale_copy: float = 0  # bytes per element of the scale, once a norm: (1 + weight) in 32 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationRule:
    """What the activation function of the MLP keeps, in bytes per element of the intermediate."""

    inner: Widths  # its input and its own intermediate results
    keeps_output: bool = False  # it keeps its output by itself (ReLU)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionRule:
    """What attention keeps besides queries, keys, values and its output."""

    repeats_key_values: tuple[bool, bool, bool]  # grouped keys and values are expanded to all heads, by mode, for the fused kernels
    score_bytes: Mapping[str, Widths]  # per score of the eager path, by family; "" is the default
    softcap_bytes: Widths = (2, 2, 4)
    relative_bias_families: tuple[str, ...] = ("t5", "mt5", "umt5", "longt5")
    second_output: tuple[bool, bool, bool] = (False, False, False)  # fused kernels: partly rotated queries cost a contiguous copy of the output


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRule:
    """What the blocks of a model keep for the backward pass."""

    norms: Mapping[str, NormRule]  # by Layer.norm; "family:<model_type prefix>" goes first
    activations: Mapping[str, ActivationRule]  # by activation function; "" is the default
    attention: AttentionRule
    gate_output_kept: bool = True  # gate x up keeps the activated gate
    product_copies: Mapping[str, Widths] = field(default_factory=dict)  # by family prefix: a second, cast copy of the down projection's input
    router_copies: Mapping[str, Widths] = field(default_factory=dict)  # by family prefix: 32-bit copy of the hidden state for the router
    dropout_mask_bytes: float = 0.0  # per element of the hidden state, twice a layer


@dataclass(frozen=True, slots=True, kw_only=True)
class LossRule:
    """What head and loss hold, in bytes per token and vocabulary entry."""

    saved: Widths  # from forward to backward: the log-probabilities
    forward_extra: Widths  # on top at the end of the forward pass: logits and their 32-bit copy
    backward_extra: Widths  # on top when the backward pass starts


def by_family(table: Mapping[str, object], family: str, default: object) -> object:
    """The entry whose key is a prefix of the family, else the default."""
    for prefix, value in table.items():
        if prefix and family.startswith(prefix):
            return value
    return table.get("", default)
