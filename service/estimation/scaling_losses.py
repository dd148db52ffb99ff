"""Losses that the papers' fits predict, in nats a token, with their constants."""

from __future__ import annotations

import math
from dataclasses import dataclass

PETAFLOP_DAY = 1e15 * 86400  # the unit of Kaplan's constants
CHINCHILLA = "Hoffmann et al. 2022, arXiv:2203.15556"
KAPLAN = "Kaplan et al. 2020, arXiv:2001.08361"


@dataclass(frozen=True, slots=True)
class Loss:
    """A predicted loss in nats a token, and the law that predicts it."""

    value: float
    law: str
    formula: str
    constants: dict[str, float]
    source: str


@dataclass(frozen=True, slots=True)
class LossLaw:
    """L(N, D) = E + A / N^alpha + B / D^beta, nats a token (Hoffmann et al., equation 2)."""

    name: str
    floor: float  # E, the entropy of the text
    size_factor: float  # A
    data_factor: float  # B
    size_exponent: float  # alpha
    data_exponent: float  # beta
    source: str

    def at(self, parameters: float, tokens: float) -> float:
        """The loss of a model of that size after those tokens."""
        size: float = self.size_factor / parameters**self.size_exponent
        data: float = self.data_factor / tokens**self.data_exponent
        return self.floor + size + data

    def tokens_for(self, parameters: float, loss: float) -> float | None:
        """Tokens after which a model of that size reaches the loss; None where it never does."""
        size: float = self.size_factor / parameters**self.size_exponent
        left = loss - self.floor - size
        if left <= 0:
            return None
        logarithm = math.log(self.data_factor / left) / self.data_exponent
        return math.exp(logarithm) if logarithm < 200 else None

    @property
    def constants(self) -> dict[str, float]:
        """The constants by the letters of the paper."""
        return {"E": self.floor, "A": self.size_factor, "B": self.data_factor, "alpha": self.size_exponent, "beta": self.data_exponent}


PUBLISHED = LossLaw("chinchilla_3", 1.69, 406.4, 410.7, 0.34, 0.28, f"{CHINCHILLA}, section D.3, as printed")
# The unrounded constants stand in the paper's TeX source; they give the 40B that its figure 4 prints.
UNROUNDED = LossLaw(
    "chinchilla_3_unrounded",
    math.exp(0.5267228),
    math.exp(6.0073404),
    math.exp(6.0179186),
    0.33917084,
    0.2849083,
    "the TeX source of arXiv:2203.15556, as quoted by Besiroglu et al. 2024, arXiv:2404.10102",
)
# The refit whose optimum agrees with approaches 1 and 2; losses of unlike size are traded against data by it.
REPLICATED = LossLaw("chinchilla_replicated", 1.8172, 482.01, 2085.43, 0.3478, 0.3658, "Besiroglu et al. 2024, arXiv:2404.10102")
KAPLAN_LOSS = {"C_c": 3.1e8 * PETAFLOP_DAY, "alpha_C": 0.050}  # L = (C_c / C_min)^alpha_C (their equation 1.3)


def published_loss(parameters: float, tokens: float) -> Loss:
    """The loss of any model by approach 3, with the constants as printed."""
    return Loss(PUBLISHED.at(parameters, tokens), PUBLISHED.name, "E + A / N^alpha + B / D^beta", PUBLISHED.constants, PUBLISHED.source)
