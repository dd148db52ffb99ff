"""What a model costs over its life: training once, 2 N for every token it reads or writes, and smaller models trained longer."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .scaling import FLOPS_PER_PARAMETER_AND_TOKEN, LawName, Optimum, law, over_training
from .scaling_losses import REPLICATED, UNROUNDED, LossLaw

INFERENCE_FLOPS_PER_PARAMETER = 2  # a token forward (Kaplan et al. 2020, section 2.1)


@dataclass(frozen=True, slots=True)
class Smaller:
    """A smaller model trained to the same predicted loss, and from where it is the cheaper one over its life."""

    parameters: float
    tokens: float
    training_flops: float
    tokens_per_parameter: float
    over_training_ratio: float  # its tokens over those that the law gives its size
    break_even_inference_tokens: float
    lifetime_flops: float | None  # at the caller's inference tokens


def trading(name: LawName) -> LossLaw:
    """The loss law by which a smaller model's extra data is priced under a law of the optimum."""
    return UNROUNDED if name == "chinchilla_3" else REPLICATED


def inference_flops(parameters: float, tokens: float) -> float:
    """2 N a token, read or generated."""
    return INFERENCE_FLOPS_PER_PARAMETER * parameters * tokens


def training_flops(parameters: float, tokens: float) -> float:
    """6 N D."""
    return FLOPS_PER_PARAMETER_AND_TOKEN * parameters * tokens


def break_even(large: tuple[float, float], small: tuple[float, float]) -> float | None:
    """Inference tokens from which the small model (parameters, tokens) has cost less in all; None where it never does."""
    if small[0] >= large[0]:
        return None
    extra = training_flops(*small) - training_flops(*large)
    return max(extra, 0.0) / (INFERENCE_FLOPS_PER_PARAMETER * (large[0] - small[0]))


def smaller(best: Optimum, parameters: float, inference_tokens: float | None = None) -> Smaller | None:
    """A smaller model trained to the loss that the trading law predicts for the optimum; None where it never gets there."""
    losses = trading(best.law)
    tokens = losses.tokens_for(parameters, losses.at(best.parameters, best.tokens))
    if tokens is None:
        return None
    even = break_even((best.parameters, best.tokens), (parameters, tokens))
    if even is None:
        return None
    spent = training_flops(parameters, tokens)
    return Smaller(
        parameters=parameters,
        tokens=tokens,
        training_flops=spent,
        tokens_per_parameter=tokens / parameters,
        over_training_ratio=over_training(best.law, parameters, tokens),
        break_even_inference_tokens=even,
        lifetime_flops=None if inference_tokens is None else spent + inference_flops(parameters, inference_tokens),
    )


def equally_good(name: LawName, parameters: float, tokens: float) -> tuple[float, float] | None:
    """The law's optimum that the trading law gives the same loss as this model; None where there is none in reach."""
    losses = trading(name)
    goal = losses.at(parameters, tokens)
    chosen = law(name)
    low, high = 0.0, 40 * math.log(10)  # logarithm of the budget

    def loss(logarithm: float) -> float:
        return losses.at(*chosen.at_flops(math.exp(logarithm)))

    if not loss(high) <= goal <= loss(low):
        return None
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if loss(middle) > goal else (low, middle)
    return chosen.at_flops(math.exp((low + high) / 2))


def cheapest_over_life(best: Optimum, inference_tokens: float) -> Smaller | None:
    """The smaller model with the optimum's loss that costs least in training and inference together; None where none does.

    Golden section over the logarithm of the size: along a curve of equal loss the cost falls and then rises.
    """

    def cost(logarithm: float) -> float:
        found = smaller(best, best.parameters * math.exp(logarithm), inference_tokens)
        return math.inf if found is None or found.lifetime_flops is None else found.lifetime_flops

    golden = (math.sqrt(5) - 1) / 2
    low, high = math.log(1e-3), math.log(1 - 1e-9)
    for _ in range(80):
        left, right = high - golden * (high - low), low + golden * (high - low)
        # Where both are infinite (too small ever to reach the loss) the answer lies above.
        if cost(left) < cost(right):
            high = right
        else:
            low = left
    found = smaller(best, best.parameters * math.exp((low + high) / 2), inference_tokens)
    own = best.training_flops + inference_flops(best.parameters, inference_tokens)
    return found if found is not None and found.lifetime_flops is not None and found.lifetime_flops < own else None
