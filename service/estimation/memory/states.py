"""Model states of one pipeline stage on one rank: after sharding, offload, and with the models that stand beside the trained one."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..numeric import Number, where
from ..run import Run
from ..stacks.profile import COMPUTE
from .offload import stepped_per_rank
from .setting import Setting
from .sizes import Size, add, divided
from .stages import Ranks


@dataclass(slots=True)
class Model:
    """Model states as they stand at a moment, in bytes; added up once for all phases that see them so."""

    weights: Number
    gradients: Number
    master: Number
    optimizer: Number
    total: Number = field(init=False)

    def __post_init__(self) -> None:
        self.total = add(add(add(self.weights, self.gradients), self.master), self.optimizer)


@dataclass(slots=True)
class States:
    """Model states of a stage after sharding, in bytes."""

    weights: Number
    gradients: Number
    master: Number
    optimizer: Number
    trained: Number  # elements before sharding
    stepped: Number  # of them, those that one rank's optimizer steps
    gradients_over: Number

    def having(self, gradients: Number) -> Model:
        """The states while that much of the gradients stands."""
        return Model(self.weights, gradients, self.master, self.optimizer)


def weights_over(run: Run, setting: Setting, spread: Ranks) -> tuple[Number, Number]:
    """Ranks that the weights are divided over, and those of experts: by stage 3, on some stacks by stage 2."""
    if run.layout.sharding == "zero2" and setting.stack.sharding.stage_two_keeps_gathered:
        return spread.shard, spread.expert_gradients_over
    return spread.weights_over, spread.expert_weights_over


def gradients_over(run: Run, setting: Setting, spread: Ranks) -> tuple[Number, Number]:
    """Ranks that the gradients are divided over, and those of experts: none where they are added up before their reduction."""
    over, experts_over = spread.gradients_over, spread.expert_gradients_over
    if run.precision.recipe in setting.stack.accumulates_unsharded:
        over, experts_over = where(spread.accumulation > 1, 1.0, over), where(spread.accumulation > 1, 1.0, experts_over)
    if setting.stack.sharding.pipeline_accumulates_unsharded:
        over, experts_over = where(spread.pipeline > 1, 1.0, over), where(spread.pipeline > 1, 1.0, experts_over)
    return over, experts_over


def weights_of(run: Run, setting: Setting, spread: Ranks, own: Size) -> Number:
    """Bytes of one rank's weights, wherever they are held: of the model, its adapters, and the models beside it."""
    precision, width = run.precision, COMPUTE[setting.mode]
    # Under adapters the base is frozen; the other widths are the trained part's.
    weights: Number = own.weights * precision.weight_bytes
    if run.method.quantization is not None:
        weights = own.quantized * precision.weight_bytes + (own.weights - own.quantized) * width
    if setting.adapter is not None:
        weights = weights + own.adapters * setting.adapter.element_bytes
    over, experts_over = weights_over(run, setting, spread)
    weights = divided(weights, own.experts * precision.weight_bytes, over, experts_over)
    if setting.value_share:
        weights = weights * (1.0 + setting.value_share)
    if setting.reference:
        weights = weights + divided(own.weights * width, own.experts * width, over, experts_over)
    if setting.reward:
        weights = weights + setting.reward * width / (spread.tensor * spread.pipeline) / over
    return weights


def states_of(run: Run, setting: Setting, spread: Ranks, own: Size, held: frozenset[str]) -> States:
    """What a rank of a stage holds of the models that are trained, and of those beside them; ``held``: what is in host memory."""
    precision = run.precision
    trained = add(own.trained, own.adapters)
    weights = weights_of(run, setting, spread, own)
    models = 1.0 + setting.value_share  # that are trained
    if "parameters" in held:
        weights = weights * 0.0
    over, experts_over = gradients_over(run, setting, spread)
    stepped = stepped_per_rank(own, spread)
    gradients = divided(trained, own.trained_experts, over, experts_over)
    if setting.value_share:
        trained, stepped, gradients = trained * models, stepped * models, gradients * models
    resident = 0.0 if "optimizer" in held else 1.0
    return States(
        weights,
        gradients * (0.0 if "gradients" in held else precision.gradient_bytes),
        stepped * (precision.master_weight_bytes * resident),
        stepped * (precision.optimizer_state_bytes * (0.0 if "states" in held else resident)),
        trained,
        stepped,
        over,
    )
