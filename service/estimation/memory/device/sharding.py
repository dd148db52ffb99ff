"""What sharding and replication hold for a while on one rank: gathered weights, gradients to be reduced, buckets."""

from __future__ import annotations

from dataclasses import dataclass

from ...numeric import Number, indicator, minimum
from ...placement import Placement
from ...run import Run
from ..blocks.trained_model import TrainedModel
from .share import StageShare
from .states import ModelStates


@dataclass(slots=True)
class Gathered:
    """What sharding and replication hold for a while, in bytes."""

    weights: Number = 0.0  # whole, of the running and the prefetched block, token table and head
    at_loss: Number = 0.0  # the same while the loss is computed
    unreduced: Number = 0.0  # whole gradients that wait for their reduction
    buckets: Number = 0.0


def gathered_on(run: Run, model: TrainedModel, placed: Placement, own: StageShare, states: ModelStates, host: frozenset[str]) -> Gathered:
    """What a rank of a stage holds of it; ``host``: what is held in host memory."""
    rule, result, stage = model.stack.sharding, Gathered(), run.layout.sharding
    several = indicator(placed.shard > 1)
    moved = 1.0 if "parameters" in host else several  # one rank alone gathers nothing, but what the host holds comes by blocks
    left = 1.0 if "gradients" in host else several  # and goes there by blocks
    if stage in ("zero3", "hybrid"):
        width = min(run.precision.weight_bytes, model.how.width) * moved
        # A quantized base leaves token table and head in the width of the products.
        outside = own.embedding * (width if run.method.quantization is None else model.how.width * moved)
        result.weights = minimum(rule.gathered_blocks, own.blocks) * own.block * width + rule.gathered_outside * outside
        result.at_loss = minimum(rule.loss_blocks, own.blocks) * own.block * width + rule.loss_outside * outside
    if stage == "zero2" and rule.stage_two_keeps_gathered:
        result.weights = result.at_loss = own.weights * (min(run.precision.weight_bytes, model.how.width) * several)
    if stage in ("zero2", "zero3", "hybrid") or "gradients" in host:
        result.unreduced = (rule.reduced_blocks * own.trained_block + own.trained_head) * (rule.reduced_bytes[model.how.mode] * left)
    if stage == "none" and rule.replicated_gradient_copies:
        result.buckets = states.gradients * (rule.replicated_gradient_copies * several)
    elif rule.bucket_elements:
        result.buckets = minimum(rule.bucket_elements, states.trained) * (several * (2.0 if run.precision.gradient_bytes < 4 else 4.0))
    return result
