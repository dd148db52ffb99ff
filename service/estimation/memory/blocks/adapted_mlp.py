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

from ...architecture import Layer
from ...numeric import Number, maximum
from .coefficients import Computing, GradientFlow


@dataclass(frozen=True, slots=True)
class PerToken:
    """Bytes per token at one moment."""

    split: float  # divided by tensor parallelism
    whole: float


@dataclass(frozen=True, slots=True)
class AdaptedMlp:
    """Moments inside one MLP of a model with adapters, at its widest linear and at its last."""

    bare: tuple[PerToken, ...]  # beside the block's input, where the block keeps nothing
    beside: tuple[PerToken, ...]  # beside what the whole block keeps; less than nothing where it has yet to be made
    again: tuple[PerToken, ...]  # the same in a recomputation, with the gradients that it waits for; none in an MLP without adapters


def adapted_mlp(how: Computing, layer: Layer, flow: GradientFlow) -> AdaptedMlp | None:
    """The moments of a block in a model with adapters; None where its MLP trains, is adapted in part, or has experts' bare weights."""
    norm, hidden = how.norm(layer), how.hidden
    adapter, mlp = how.adapter, layer.mlp
    up = [m for m in layer.matrices if m.part == "mlp" and m.reads in ("block", "middle") and m.name in flow.adapted]
    down = [m for m in layer.matrices if m.part == "mlp" and m.reads == "activated" and m.name in flow.adapted]
    if adapter is None or mlp.experts or flow.mlp or bool(up) != bool(down):
        return None
    width, residual = how.width, how.residual
    rule = how.activation(mlp.activation)
    product = width * mlp.intermediate
    handed_on = how.norm_output(norm) * hidden  # by the norm before the MLP; the block's frame holds it
    # A norm that keeps a wider copy leaves the block's input and the stream between attention and MLP to the frames.
    streams = residual * hidden if residual < how.norm_input(norm) <= 4.0 else 0.0
    if not up:  # the base's alone
        loose = 0.0 if rule.keeps_output and not mlp.gated else product
        return AdaptedMlp(
            bare=(PerToken((3.0 if mlp.gated else 2.0) * product, residual * hidden + handed_on),),
            beside=(PerToken(loose, width * hidden + handed_on + 2.0 * streams),),
            again=(),
        )
    wide = max(width, adapter.inner_bytes)
    own = adapter.own_input_bytes(width)  # of an adapter's input; 0 where it reads the base's
    frame = adapter.frame_bytes(width)  # of its cast to the adapter's width, which autocast's own copy and dropout's leave to the frame
    apart = frame if adapter.autocasts or adapter.dropout else 0.0
    at_first = how.own_copy(norm)
    # What the norm hands on may have the adapter's width already, or be wider.
    narrow = handed_on < adapter.element_bytes * hidden
    frame_first = adapter.element_bytes * hidden if handed_on > adapter.element_bytes * hidden else frame * hidden if narrow else 0.0
    three = width + 2.0 * wide
    across = float(max(m.outputs for m in up))
    gate = width * mlp.intermediate if mlp.gated and len(up) > 1 else 0.0  # the activated gate waits for the other factor
    product_kept = own == 0.0 or (rule.keeps_output and not mlp.gated)
    # What the block keeps from its widest linear on: the linear's own output, the activation's, the product, the last one's input.
    activation = width if mlp.gated else rule.inner[how.operators]
    still = (activation + own) * mlp.intermediate + (product if product_kept else 0.0)
    normalised = handed_on if at_first else 0.0  # kept where the adapter reads it
    at_up = PerToken(three * across - still, normalised + (apart * hidden if narrow else 0.0))
    loose = 0.0 if product_kept else product
    # Behind the last linear's first low-rank matrix the cast that it reads is gone, and dropout's copy of the wide one.
    cast = apart * (2.0 if adapter.dropout and adapter.autocasts else 1.0) * mlp.intermediate
    # The stream's gradient, the last linear's where the stream or the adapter is wider, and that of its adapter.
    arriving = (residual + wide + (width if residual > width or wide > width else 0.0)) * hidden + streams
    return AdaptedMlp(
        bare=(
            PerToken(three * across + gate, frame_first + residual * hidden + handed_on),
            PerToken(product + frame * mlp.intermediate, (three + residual) * hidden + handed_on),
            PerToken(product + cast + (width * mlp.intermediate if apart else 0.0), (width + residual) * hidden + handed_on),
        ),
        beside=(
            PerToken(at_up.split, at_up.whole + 2.0 * streams),
            PerToken(loose + apart * mlp.intermediate, three * hidden + normalised + 2.0 * streams),
            PerToken(loose + cast, width * hidden + normalised + 2.0 * streams),
        ),
        again=(
            PerToken(at_up.split, at_up.whole + arriving),
            PerToken(loose + cast, width * hidden + normalised + arriving),  # recomputation stops at the last value that anybody saves
        ),
    )


def fullest(moments: Sequence[PerToken], tokens: Number, tensor: Number, sequence_split: Number) -> Number:
    """Bytes at the fullest of some moments on one rank."""
    first, *rest = (tokens * (m.split / tensor + m.whole / sequence_split) for m in moments)
    return maximum(first, *rest)
