"""Compute-optimal models by published scaling laws, what over-training costs, and what a faster stage is worth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from .scaling_losses import CHINCHILLA, KAPLAN, KAPLAN_LOSS, PETAFLOP_DAY, Loss, published_loss

LawName = Literal["chinchilla_20", "chinchilla_table", "chinchilla_1", "chinchilla_2", "chinchilla_3", "kaplan", "llama3"]
LAWS: tuple[LawName, ...] = ("chinchilla_20", "chinchilla_table", "chinchilla_1", "chinchilla_2", "chinchilla_3", "kaplan", "llama3")

FLOPS_PER_PARAMETER_AND_TOKEN = 6  # C = 6 N D (Kaplan et al. 2020, section 2.1)
LLAMA3 = "Grattafiori et al. 2024, arXiv:2407.21783"

# Gopher's budget, at which Hoffmann et al. print all three approaches: table 3 (67B), figure 3 with section 3.4's range, figure 4 (40B).
GOPHER_FLOPS = 5.76e23
# Approach 1's optimal models: parameters, FLOPs, tokens (their table 3).
CHINCHILLA_TABLE: tuple[tuple[float, float, float], ...] = (
    (4e8, 1.92e19, 8.0e9),
    (1e9, 1.21e20, 20.2e9),
    (1e10, 1.23e22, 205.1e9),
    (6.7e10, 5.76e23, 1.5e12),
    (1.75e11, 3.85e24, 3.7e12),
    (2.8e11, 9.90e24, 5.9e12),
    (5.2e11, 3.43e25, 11.0e12),
    (1e12, 1.27e26, 21.2e12),
    (1e13, 1.30e28, 216.2e12),
)


@dataclass(frozen=True, slots=True)
class Range:
    """What a law was fitted on."""

    training_flops: tuple[float, float]
    parameters: tuple[float, float]
    tokens: tuple[float, float]
    words: str


# 70M to over 16B parameters, 5 to 500 billion tokens (their abstract); the least run is 6e18 FLOPs, the largest 6 x 16e9 x 500e9.
_CHINCHILLA_RANGE = Range((6e18, 4.8e22), (70e6, 16e9), (5e9, 500e9), "over 400 models on MassiveText, tokens not repeated")
# IsoFLOP profiles from 6e18 to 3e21 (their section 3.2).
_ISOFLOP_RANGE = Range((6e18, 3e21), (70e6, 16e9), (5e9, 500e9), "nine IsoFLOP profiles on MassiveText, tokens not repeated")
# 768 to 1.5e9 parameters without embeddings, 22M to 23B tokens (their section 2 and 1.1); training up to about 10 PF-days.
_KAPLAN_RANGE = Range((8.64e14, 8.64e20), (768, 1.5e9), (22e6, 23e9), "models without their embeddings, on WebText2")
# 6e18 to 1e22 FLOPs, 40M to 16B parameters (their section 3.2.1); tokens follow from C = 6ND.
_LLAMA3_RANGE = Range((6e18, 1e22), (40e6, 16e9), (6e9, 1e12), "IsoFLOP profiles on the Llama 3 data mix")


@dataclass(frozen=True, slots=True)
class Law:
    """N = N0 (C / C0)^a and D = D0 (C / C0)^b."""

    name: LawName
    anchor_flops: float
    anchor_parameters: float
    anchor_tokens: float
    parameters_exponent: float
    tokens_exponent: float
    fitted: Range
    source: str
    assumptions: tuple[str, ...] = ()

    def at_flops(self, flops: float) -> tuple[float, float]:
        """The optimal parameters and tokens of a budget."""
        ratio = flops / self.anchor_flops
        parameters: float = self.anchor_parameters * ratio**self.parameters_exponent
        tokens: float = self.anchor_tokens * ratio**self.tokens_exponent
        return parameters, tokens

    def flops_of_parameters(self, parameters: float) -> float:
        """The budget at which that many parameters are optimal."""
        factor: float = (parameters / self.anchor_parameters) ** (1 / self.parameters_exponent)
        return self.anchor_flops * factor

    def flops_of_tokens(self, tokens: float) -> float:
        """The budget at which that many tokens are optimal."""
        factor: float = (tokens / self.anchor_tokens) ** (1 / self.tokens_exponent)
        return self.anchor_flops * factor


def _six_nd(name: LawName, flops: float, parameters: float, a: float, b: float, fitted: Range, source: str, *assumptions: str) -> Law:
    """A law through one published point, its tokens from C = 6 N D."""
    tokens = flops / (FLOPS_PER_PARAMETER_AND_TOKEN * parameters)
    return Law(name, flops, parameters, tokens, a, b, fitted, source, assumptions)


_TWENTY = Law(
    "chinchilla_20",
    120.0,
    1.0,
    20.0,
    0.5,
    0.5,
    _CHINCHILLA_RANGE,
    f"{CHINCHILLA}: the rule of thumb drawn from it, D = 20 N",
    ("20 tokens a parameter at every size: C = 6 N D = 120 N^2",),
)
_POWER_LAWS: dict[str, Law] = {
    "chinchilla_20": _TWENTY,
    "chinchilla_1": _six_nd(
        "chinchilla_1",
        GOPHER_FLOPS,
        67e9,
        0.50,
        0.50,
        _CHINCHILLA_RANGE,
        f"{CHINCHILLA}, approach 1 (minimum over training curves): exponents of table 2",
        "through the optimum at Gopher's budget, 67B at 5.76e23 FLOPs (table 3)",
    ),
    "chinchilla_2": _six_nd(
        "chinchilla_2",
        GOPHER_FLOPS,
        63e9,
        0.49,
        0.51,
        _ISOFLOP_RANGE,
        f"{CHINCHILLA}, approach 2 (IsoFLOP profiles): exponents of table 2",
        "through the optimum at Gopher's budget, 63B at 5.76e23 FLOPs (figure 3; table A3 agrees within 3 %)",
    ),
    "chinchilla_3": _six_nd(
        "chinchilla_3",
        GOPHER_FLOPS,
        40e9,
        0.46,
        0.54,
        _CHINCHILLA_RANGE,
        f"{CHINCHILLA}, approach 3 (parametric loss): exponents of table 2",
        "through the optimum at Gopher's budget, 40B at 5.76e23 FLOPs (figure 4)",
        "the paper's rounded loss constants give 32B there, its unrounded ones 40B (Besiroglu et al. 2024, arXiv:2404.10102)",
    ),
    # N = 1.3e9 (C_min / PF-day)^0.73 (table 6); at the critical batch size a run spends twice C_min, so D = C / 6N = 2 C_min / 6N
    # (section 6.3), which gives their D = 2e10 C_min^0.27. Hoffmann et al. read it so: 4.68B at 1e21 FLOPs (section D.4).
    "kaplan": _six_nd(
        "kaplan",
        2 * PETAFLOP_DAY,
        1.3e9,
        0.73,
        0.27,
        _KAPLAN_RANGE,
        f"{KAPLAN}, table 6 and section 6.3",
        "training at the critical batch size, which takes twice the least compute",
        "parameters are counted without embeddings; learning-rate schedules were not fitted to the tokens (Hoffmann et al., section 2)",
    ),
    # D = A C^0.53, extrapolated by the authors to 402B and 16.55T at 3.8e25; the printed constants are rounded and give 10.5T.
    "llama3": Law(
        "llama3",
        3.8e25,
        402e9,
        16.55e12,
        0.47,
        0.53,
        _LLAMA3_RANGE,
        f"{LLAMA3}, section 3.2.1",
        (
            "through the published point, 402B on 16.55T at 3.8e25 FLOPs; the printed A = 0.29 is rounded too far to give it back",
            "at that point 6 N D is 5 % above the budget: their count of FLOPs is not exactly 6 N D",
        ),
    ),
}


class _Table:
    """Approach 1's table, straight lines between its rows in logarithms, the outer ones prolonged."""

    fitted = _CHINCHILLA_RANGE
    source = f"{CHINCHILLA}, table 3 (approach 1)"
    assumptions = ("between the table's rows, and beyond them, straight lines in logarithms",)
    parameters, flops, tokens = zip(*CHINCHILLA_TABLE, strict=True)

    def at_flops(self, flops: float) -> tuple[float, float]:
        return _interpolated(self.flops, self.parameters, flops), _interpolated(self.flops, self.tokens, flops)

    def flops_of_parameters(self, parameters: float) -> float:
        return _interpolated(self.parameters, self.flops, parameters)

    def flops_of_tokens(self, tokens: float) -> float:
        return _interpolated(self.tokens, self.flops, tokens)

    def exponents(self, flops: float) -> tuple[float, float]:
        """The local slopes."""
        i = _segment(self.flops, flops)
        run = math.log(self.flops[i + 1] / self.flops[i])
        return math.log(self.parameters[i + 1] / self.parameters[i]) / run, math.log(self.tokens[i + 1] / self.tokens[i]) / run


def _segment(xs: Sequence[float], x: float) -> int:
    for i in range(len(xs) - 2):
        if x < xs[i + 1]:
            return i
    return len(xs) - 2


def _interpolated(xs: Sequence[float], ys: Sequence[float], x: float) -> float:
    if x in xs:
        return ys[xs.index(x)]
    i = _segment(xs, x)
    share = math.log(x / xs[i]) / math.log(xs[i + 1] / xs[i])
    return ys[i] * math.exp(share * math.log(ys[i + 1] / ys[i]))


def predicted_loss(law: LawName, flops: float, parameters: float, tokens: float) -> Loss | None:
    """The loss at the optimum, where the law's paper publishes one."""
    if law == "llama3":
        return None
    if law == "kaplan":
        value: float = (KAPLAN_LOSS["C_c"] / (flops / 2)) ** KAPLAN_LOSS["alpha_C"]
        return Loss(value, "kaplan", "(C_c / C_min)^alpha_C, C_min = C / 2", dict(KAPLAN_LOSS), f"{KAPLAN}, equation 1.3")
    return published_loss(parameters, tokens)


@dataclass(frozen=True, slots=True)
class Optimum:
    """The compute-optimal model."""

    law: LawName
    training_flops: float
    parameters: float
    tokens: float
    parameters_exponent: float
    tokens_exponent: float
    fitted: Range
    source: str
    assumptions: tuple[str, ...]
    loss: Loss | None
    warnings: tuple[tuple[str, str], ...]

    @property
    def tokens_per_parameter(self) -> float:
        """D / N."""
        return self.tokens / self.parameters


def law(name: LawName) -> Law | _Table:
    """The law of that name."""
    return _Table() if name == "chinchilla_table" else _POWER_LAWS[name]


def optimum(name: LawName, *, training_flops: float | None = None, parameters: float | None = None, tokens: float | None = None) -> Optimum:
    """The compute-optimal model from any one of a budget, a size and a number of tokens."""
    chosen = law(name)
    if training_flops is not None:
        flops = training_flops
    elif parameters is not None:
        flops = chosen.flops_of_parameters(parameters)
    elif tokens is not None:
        flops = chosen.flops_of_tokens(tokens)
    else:
        raise ValueError("one of training_flops, parameters and tokens is needed")
    best_parameters, best_tokens = chosen.at_flops(flops)
    # What was given is given back as it is, not through a root and a power.
    best_parameters = best_parameters if parameters is None else parameters
    best_tokens = best_tokens if tokens is None else tokens
    if isinstance(chosen, Law):
        a, b = chosen.parameters_exponent, chosen.tokens_exponent
    else:
        a, b = chosen.exponents(flops)
    return Optimum(
        law=name,
        training_flops=flops,
        parameters=best_parameters,
        tokens=best_tokens,
        parameters_exponent=a,
        tokens_exponent=b,
        fitted=chosen.fitted,
        source=chosen.source,
        assumptions=chosen.assumptions,
        loss=predicted_loss(name, flops, best_parameters, best_tokens),
        warnings=_outside(chosen.fitted, flops, best_parameters, best_tokens),
    )


def _outside(fitted: Range, flops: float, parameters: float, tokens: float) -> tuple[tuple[str, str], ...]:
    found = []
    for name, value, (low, high) in (
        ("training_flops", flops, fitted.training_flops),
        ("parameters", parameters, fitted.parameters),
        ("tokens", tokens, fitted.tokens),
    ):
        if not low <= value <= high:
            factor = value / high if value > high else low / value
            side = "above" if value > high else "below"
            detail = f"{name} {value:.4g} is {factor:.3g} times {side} what the law was fitted on ({low:.3g} to {high:.3g})"
            found.append(("outside_fitted_range", detail + ": errors grow with every order of magnitude"))
    return tuple(found)


def over_training(name: LawName, parameters: float, tokens: float) -> float:
    """Tokens over those at which a model of that size is compute-optimal; below 1 it is under-trained."""
    return tokens / optimum(name, parameters=parameters).tokens


PROMISES = (
    "A law predicts loss on the distribution it was fitted on. It promises no task's score, no emergence of an ability at a size, "
    "and nothing for other data, tokenizers, schedules, repeated tokens or fine-tuning."
)


@dataclass(frozen=True, slots=True)
class Speedup:
    """A job before and after some of its stages got faster."""

    before_seconds: float
    after_seconds: float
    stages: dict[str, float]

    @property
    def speedup(self) -> float | None:
        """Before over after; None where nothing is left."""
        return self.before_seconds / self.after_seconds if self.after_seconds > 0 else None


def speedup(stage_seconds: Mapping[str, float], speedups: Mapping[str, float]) -> Speedup:
    """What the whole gains when stages get faster (Amdahl, AFIPS 1967): the others take as long as before."""
    after = {name: seconds / speedups.get(name, 1.0) for name, seconds in stage_seconds.items()}
    return Speedup(before_seconds=sum(stage_seconds.values()), after_seconds=sum(after.values()), stages=after)
