"""An amount with its interval, and how intervals add up when amounts do."""

from __future__ import annotations

from functools import cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from .numeric import Number, is_array, maximum, sqrt

PRIOR_COVERAGE = 0.8  # every prior of the core states its bounds at this coverage


class Spread(NamedTuple):
    """``expected`` with the bounds of its interval; numbers, or arrays of them in a search."""

    expected: Number
    low: Number
    high: Number

    def times(self, factor: Number) -> Spread:
        """Scaled by a number that is known; the interval scales with it."""
        return Spread(self.expected * factor, self.low * factor, self.high * factor)


def exactly(value: Number) -> Spread:
    """An amount without uncertainty of its own."""
    return Spread(value, value, value)


def prior(expected: Number, low: Number, high: Number, coverage: float) -> Spread:
    """A prior stated at 80 % coverage, its bounds moved to another coverage as those of a log-normal distribution.

    A lower bound of zero stays zero where the interval gets wider, and rises in proportion where it gets narrower. Of arrays, which
    are positive, the bounds may differ from those of their single values in the last place (powers, see ``numeric``).
    """
    if coverage == PRIOR_COVERAGE:
        return Spread(expected, low, high)
    wider = _quantile_ratio(coverage)
    if is_array(expected):
        return Spread(expected, expected * (low / expected) ** wider, expected * (high / expected) ** wider)
    if expected <= 0:
        return Spread(expected, max(expected - (expected - low) * wider, 0.0), expected + (high - expected) * wider)
    below = expected * (low / expected) ** wider if low > 0 else max(expected * (1 - wider), 0.0)
    return Spread(expected, below, expected * (high / expected) ** wider)


def multiples(expected: Number, low: float, high: float, coverage: float) -> Spread:
    """A prior whose bounds are multiples of what is expected, which may be an array."""
    bounds = prior(1.0, low, high, coverage)
    return Spread(expected, expected * bounds.low, expected * bounds.high)


@cache
def _quantile_ratio(coverage: float) -> float:
    """How much wider the interval of a normal distribution is than the one of 80 %."""
    return NormalDist().inv_cdf(0.5 + coverage / 2) / NormalDist().inv_cdf(0.5 + PRIOR_COVERAGE / 2)


def together(*parts: Spread) -> Spread:
    """The sum of amounts that err together (they hang on the same driver): the bounds add up."""
    expected: Number = 0.0
    low: Number = 0.0
    high: Number = 0.0
    for part in parts:
        expected, low, high = expected + part.expected, low + part.low, high + part.high
    return Spread(expected, low, high)


def independently(*parts: Spread) -> Spread:
    """The sum of amounts that err independently: the distances to the bounds add up as root sums of squares."""
    expected: Number = 0.0
    below: Number = 0.0
    above: Number = 0.0
    for part in parts:
        down, up = part.expected - part.low, part.high - part.expected
        expected, below, above = expected + part.expected, below + down * down, above + up * up
    return Spread(expected, maximum(expected - sqrt(below), 0.0), expected + sqrt(above))


def say(value: Number, digits: int = 4) -> str:
    """A number for a sentence; an array has no single value to name."""
    return "a value per layout" if isinstance(value, np.ndarray) else f"{value:.{digits}g}"
