"""HeldStates states of one pipeline stage on one rank: after sharding, offload, and with the models that stand beside the trained one."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...numeric import Number
from ...placement import Placement
from ...run import Run
from ..amounts import add, divided
from ..blocks.trained_model import TrainedModel
from .share import StageShare


@dataclass(slots=True)
class HeldStates:
    """HeldStates states as they stand at a moment, in bytes; added up once for all phases that see them so."""

    weights: Number
    gradients: Number
    master: Number
    optimizer: Number
    total: Number = field(init=False)

    def __post_init__(self) -> None:
        self.total = add(add(add(self.weights, self.gradients), self.master), self.optimizer)


@dataclass(slots=True)
class ModelStates:
    """HeldStates states of a stage after sharding, in bytes."""

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


def states_of(run: Run, model: TrainedModel, placed: Placement, own: StageShare, held: frozenset[str]) -> ModelStates:
    """What a rank of a stage holds of the models that are trained, and of those beside them; ``held``: what is in host memory."""
    precision = run.precision
    trained = add(own.trained, own.adapters)
    weights = weights_of(run, model, placed, own)
    models = 1.0 + model.companions.value_share  # that are trained
    if "parameters" in held:
        weights = weights * 0.0
    over, experts_over = placed.gradients_over, placed.expert_gradients_over
    stepped = stepped_per_rank(own, placed)
    gradients = divided(trained, own.trained_experts, over, experts_over)
    if model.companions.value_share:
        trained, stepped, gradients = trained * models, stepped * models, gradients * models
    resident = 0.0 if "optimizer" in held else 1.0
    return ModelStates(
        weights,
        gradients * (0.0 if "gradients" in held else precision.gradient_bytes),
        stepped * (precision.master_weight_bytes * resident),
        stepped * (precision.optimizer_state_bytes * (0.0 if "states" in held else resident)),
        trained,
        stepped,
        over,
    )
