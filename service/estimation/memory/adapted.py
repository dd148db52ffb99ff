"""What low-rank adapters hold for a moment inside an MLP.

An adapted linear has three values of its output's size at once: the base's, the second low-rank matrix's, and that scaled
(PEFT ``lora.Linear.forward``: ``result + lora_B(lora_A(dropout(x))) * scaling``; torchtune and litgpt write the same sum).
The last two are as wide as the adapter, whose own copy of its input is alive too. A head over the vocabulary hides this;
behind a small one (a classifier of images) it is the peak of the forward pass. The same on a GPU: each value is a tensor
that autograd or the function's frame holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..architecture import Layer
from ..numeric import Number, maximum
from ..stacks.profile import COMPUTE, RESIDUAL, BlockRule, Mode
from .activations import Trained, activation_rule


@dataclass(frozen=True, slots=True)
class Live:
    """Bytes per token at one moment."""

    split: float  # divided by tensor parallelism
    whole: float


@dataclass(frozen=True, slots=True)
class Inside:
    """Moments inside one adapted MLP, at its widest linear and at its last."""

    bare: tuple[Live, ...]  # beside the block's input, where the block keeps nothing
    beside: tuple[Live, ...]  # beside what the whole block keeps; less than nothing where it has yet to be made
    again: tuple[Live, ...]  # the same in a recomputation, with the gradients that it waits for


def inside(rules: BlockRule, hidden: int, layer: Layer, mode: Mode, trained: Trained) -> Inside | None:
    """The moments of a block; None where its MLP has no adapters, or has them on experts' bare weights."""
    adapter, mlp = trained.adapter, layer.mlp
    up = [m for m in layer.matrices if m.part == "mlp" and m.reads in ("block", "middle") and m.name in trained.adapted]
    down = [m for m in layer.matrices if m.part == "mlp" and m.reads == "activated" and m.name in trained.adapted]
    if adapter is None or mlp.experts or not up or not down:
        return None
    width, residual = COMPUTE[mode], RESIDUAL[mode]
    wide = max(width, adapter.inner_bytes)
    own = adapter.own_input_bytes(width)  # of an adapter's input; 0 where it reads the base's
    three = width + 2.0 * wide
    across = float(max(m.outputs for m in up))
    gate = width * mlp.intermediate if mlp.gated and len(up) > 1 else 0.0  # the activated gate waits for the other factor
    product = width * mlp.intermediate
    rule = activation_rule(rules, mlp.activation)
    product_kept = own == 0.0 or (rule.keeps_output and not mlp.gated)
    # What the block keeps from its widest linear on: the linear's own output, the activation's, the product, the last one's input.
    still = (width if mlp.gated else rule.inner[mode]) * mlp.intermediate + own * mlp.intermediate + (product if product_kept else 0.0)
    normalised = width * hidden if own else 0.0  # kept where the adapter reads it
    at_up = Live(three * across - still, normalised)
    loose = 0.0 if product_kept else product
    arriving = (residual + width + wide) * hidden  # the residual's gradient, the last linear's, and that of its adapter
    return Inside(
        bare=(
            Live(three * across + gate, (own + residual + width) * hidden),
            Live(product + own * mlp.intermediate, (three + residual) * hidden),
        ),
        beside=(at_up, Live(loose, three * hidden + normalised)),
        again=(
            Live(at_up.split, at_up.whole + arriving),
            Live(loose, width * hidden + normalised + arriving),  # recomputation stops at the last value that anybody saves
        ),
    )


def live(moments: Sequence[Live], tokens: Number, tensor: Number, sequence_split: Number) -> Number:
    """Bytes at the fullest of some moments on one rank."""
    first, *rest = (tokens * (m.split / tensor + m.whole / sequence_split) for m in moments)
    return maximum(first, *rest)
