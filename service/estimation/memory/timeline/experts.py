"""What is live inside a mixture of experts beside what its block keeps, at the moments that can be the peak.

The moments are those of transformers' ``grouped_mm_experts_forward`` and of autograd's way back through it. *Rows* are tokens x
experts per token; h hidden size, w width of the products, r width of the routing weights (softmax and top-k in 32 bits; not every
router casts them back). Found by listing the live tensors of Mixtral and Qwen3-MoE at the peak, on fake CUDA tensors; every tensor
named here is the output of an operator that a GPU allocates too.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...numeric import Number, maximum
from ...placement import Placement
from ..amounts import split
from ..blocks.kept import tokens_of
from ..blocks.trained_model import TrainedModel


@dataclass(frozen=True, slots=True)
class ExpertMoments:
    """Bytes of one micro-batch on one rank, beside what the block keeps."""

    forward: Number
    working: Number  # backward: gradients of weighted outputs, outputs and routing weights, or those of gate, up and their product
    down: Number  # backward, the down projection's gradient formed: that of a sum W + BA and of the product, or these of gate and up
    up: Number  # backward, all weight gradients formed, the insides freed: gradients of gate and up, sorted inputs and theirs
    trained_down: Number | None  # weights of the down projection whose gradient stands then; None where no expert gets a gradient


def expert_moments(model: TrainedModel, placed: Placement) -> ExpertMoments | None:
    """None where no block has experts, or the stack computes them in another way."""
    kind = next((kind for kind in reversed(model.blocks.kinds) if kind.layer.mlp.experts), None)
    if kind is None or model.how.rules.routing_widths is None:
        return None
    cast_back, in_single = model.how.rules.routing_widths
    found = in_single if kind.layer.mlp.routing_in_single else cast_back
    r, w, h, mlp = float(found[model.how.mode]), model.how.width, model.how.hidden, kind.layer.mlp
    tokens = tokens_of(model, placed, kind.decoder)
    rows = tokens * (mlp.experts_per_token * placed.expert_imbalance)
    normalised = split(tokens * (w * h), placed.sequence_split)
    halves = (2.0 if mlp.gated else 1.0) * mlp.intermediate
    residual = split(tokens * (model.how.residual * h), placed.sequence_split)
    stack: Number = kind.expert_gradient / placed.expert_split
    summed: Number = 0.0 if kind.weights.trained_experts else w * stack
    # Forward, at the end of the last block: outputs times routing weights, and these in the order of the tokens.
    forward = rows * (2.0 * r * h) + residual
    if model.checkpointing == "full":  # nothing is kept: also sorted inputs, outputs, the normalised input and W + BA
        gated = rows * (w * (2.0 * halves + h)) + residual - summed  # earlier: gate, up, the activation, their product
        forward = maximum(forward + rows * (2.0 * w * h), gated) + normalised
        if kind.expert_gradient:
            forward = forward + kind.kept.fixed_experts / placed.expert_split + kind.adapter_casts
    else:  # the model's forward holds the embedded input to its end, and the last block's until that is done
        forward = forward + 2.0 * residual
        if not kind.expert_gradient:  # frozen experts keep no inputs, but their function still holds them
            forward = forward + rows * (w * h) + normalised
    # Gradients of gate, up and their product, when the outputs are freed, and the product if it was kept for the weights.
    product = float(mlp.intermediate)
    opened = rows * (w * (halves + product - h))
    kept_product = rows * (w * product) if kind.expert_gradient else 0.0
    combined = rows * (3.0 * r * h) + residual
    if model.checkpointing == "full" and not kind.expert_gradient:  # the recomputation is there when the gradients are
        combined = combined + residual + normalised
    return ExpertMoments(
        forward=forward,
        working=maximum(combined, opened - kept_product + residual),
        down=maximum(rows * (w * product) + summed, opened - kept_product) + residual,
        up=rows * (w * (halves + 2.0 * h)) + residual,
        trained_down=None if not kind.expert_gradient else stack if kind.weights.trained_experts else 0.0,
    )
