"""Model states of one pipeline stage on one rank, and what sharding holds there for a while: gathered weights, gradients, buckets."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...numeric import Number, indicator, minimum
from ...placement import Placement
from ...run import Run
from ..amounts import add, divided
from ..blocks.trained_model import TrainedModel
from .stages import StageShare


@dataclass(slots=True)
class HeldStates:
    """Model states as they stand at a moment, in bytes; added up once for all moments that see them so."""

    weights: Number
    gradients: Number
    master: Number
    optimizer: Number
    total: Number = field(init=False)

    def __post_init__(self) -> None:
        self.total = add(add(add(self.weights, self.gradients), self.master), self.optimizer)


@dataclass(slots=True)
class ModelStates:
    """Model states of a stage after sharding, in bytes: those that stand when all gradients are there."""

    weights: Number
    gradients: Number
    master: Number
    optimizer: Number
    trained: Number  # elements before sharding
    stepped: Number  # of them, those that one rank's optimizer steps
    gradients_over: Number

    def having(self, gradients: Number) -> HeldStates:
        """The states while that much of the gradients stands."""
        return HeldStates(self.weights, gradients, self.master, self.optimizer)


def stepped_per_rank(own: StageShare, placed: Placement) -> Number:
    """Trained elements of a stage that one rank's optimizer steps."""
    return divided(add(own.trained, own.adapters), own.trained_experts, placed.states_over, placed.expert_states_over)


def weights_of(run: Run, model: TrainedModel, placed: Placement, own: StageShare) -> Number:
    """Bytes of one rank's weights, wherever they are held: of the model, its adapters, and the models beside it."""
    precision, width = run.precision, model.how.width
    # Under adapters the base is frozen; the other widths are the trained part's.
    weights: Number = own.weights * precision.weight_bytes
    if run.method.quantization is not None:
        weights = own.quantized * precision.weight_bytes + (own.weights - own.quantized) * width
    if model.how.adapter is not None:
        weights = weights + own.adapters * model.how.adapter.element_bytes
    over, experts_over = placed.weights_over, placed.expert_weights_over
    weights = divided(weights, own.experts * precision.weight_bytes, over, experts_over)
    if model.companions.value_share:
        weights = weights * (1.0 + model.companions.value_share)
    if model.companions.reference:
        weights = weights + divided(own.weights * width, own.experts * width, over, experts_over)
    if model.companions.reward:
        weights = weights + model.companions.reward * width / (placed.tensor * placed.pipeline) / over
    return weights


def states_of(run: Run, model: TrainedModel, placed: Placement, own: StageShare, host: frozenset[str]) -> ModelStates:
    """What a rank of a stage holds of the models that are trained, and of those beside them; ``host``: what lies in host memory."""
    precision = run.precision
    trained = add(own.trained, own.adapters)
    weights = weights_of(run, model, placed, own)
    models = 1.0 + model.companions.value_share  # that are trained
    if "parameters" in host:
        weights = weights * 0.0
    over, experts_over = placed.gradients_over, placed.expert_gradients_over
    stepped = stepped_per_rank(own, placed)
    gradients = divided(trained, own.trained_experts, over, experts_over)
    if model.companions.value_share:
        trained, stepped, gradients = trained * models, stepped * models, gradients * models
    resident = 0.0 if "optimizer" in host else 1.0
    return ModelStates(
        weights,
        gradients * (0.0 if "gradients" in host else precision.gradient_bytes),
        stepped * (precision.master_weight_bytes * resident),
        stepped * (precision.optimizer_state_bytes * (0.0 if "states" in host else resident)),
        trained,
        stepped,
        over,
    )


@dataclass(slots=True)
class Gathered:
    """What sharding and replication hold for a while, in bytes."""

    weights: Number = 0.0  # whole, of the running and the prefetched block, token table and head
    at_loss: Number = 0.0  # the same while the loss is computed
    unreduced: Number = 0.0  # whole gradients that wait for their reduction
    buckets: Number = 0.0


def gathered_on(run: Run, model: TrainedModel, placed: Placement, own: StageShare, states: ModelStates, host: frozenset[str]) -> Gathered:
    """What a rank of a stage holds of it; ``host``: what lies in host memory."""
    rule, result, sharding = model.stack.sharding, Gathered(), run.layout.sharding
    several = indicator(placed.shard > 1)
    moved = 1.0 if "parameters" in host else several  # one rank alone gathers nothing, but what the host holds comes by blocks
    left = 1.0 if "gradients" in host else several  # and goes there by blocks
    if sharding in ("zero3", "hybrid"):
        width = min(run.precision.weight_bytes, model.how.width) * moved
        # A quantized base leaves token table and head in the width of the products.
        outside = own.embedding * (width if run.method.quantization is None else model.how.width * moved)
        result.weights = minimum(rule.gathered_blocks, own.blocks) * own.block * width + rule.gathered_outside * outside
        result.at_loss = minimum(rule.loss_blocks, own.blocks) * own.block * width + rule.loss_outside * outside
    if sharding == "zero2" and rule.stage_two_keeps_gathered:
        result.weights = result.at_loss = own.weights * (min(run.precision.weight_bytes, model.how.width) * several)
    if sharding in ("zero2", "zero3", "hybrid") or "gradients" in host:
        result.unreduced = (rule.reduced_blocks * own.trained_block + own.trained_head) * (rule.reduced_bytes[model.how.mode] * left)
    if sharding == "none" and rule.replicated_gradient_copies:
        result.buckets = states.gradients * (rule.replicated_gradient_copies * several)
    elif rule.bucket_elements:
        result.buckets = minimum(rule.bucket_elements, states.trained) * (several * (2.0 if run.precision.gradient_bytes < 4 else 4.0))
    return result
