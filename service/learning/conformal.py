"""Intervals from past errors: split conformal with separate tails, by cell, and adaptive under drift; pure.

Split conformal prediction (Papadopoulos et al., ECML 2002; Vovk, Gammerman, Shafer, 2005) covers at least the nominal
share whatever the errors' distribution, if past and future errors are exchangeable. Where they drift, the tails'
probabilities are adapted to the misses seen (I. Gibbs and E. Candes, Adaptive conformal inference, NeurIPS 2021), which
holds the long-run coverage without that assumption.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence

_ROUNDING = 1e-9  # 0.1 * 10 must count as one whole rank

# By simulation (tests/learning/test_coverage.py): smaller steps and longer memories cover less than they should for dozens
# of runs after a change, larger ones make the bounds jump about.
ADAPTATION = 0.05  # step of the adapted probabilities
WINDOW = 100  # scores remembered
# Runs that end between a change and its discovery miss: the rest of the time each tail is held this much below its share.
MARGIN = 0.95


def bounds(ordered: Sequence[float], coverage: float) -> tuple[float, float]:
    """Lower and upper error bound from sorted past errors; infinite where there are too few for the coverage."""
    tail = (1 - coverage) / 2
    return lower(ordered, tail), upper(ordered, tail)


def lower(ordered: Sequence[float], tail: float) -> float:
    """The bound that the next error stays above with probability 1 - tail or more."""
    rank = math.floor(tail * (len(ordered) + 1) + _ROUNDING)
    return ordered[min(rank, len(ordered)) - 1] if rank >= 1 and ordered else -math.inf


def upper(ordered: Sequence[float], tail: float) -> float:
    """The bound that the next error stays below with probability 1 - tail or more."""
    rank = math.ceil((1 - tail) * (len(ordered) + 1) - _ROUNDING)
    return ordered[max(rank, 1) - 1] if rank <= len(ordered) and ordered else math.inf


def enough(coverage: float) -> int:
    """The least number of past errors that gives a finite interval on both sides."""
    return math.ceil(2 / (1 - coverage) - 1 - _ROUNDING)


class AdaptiveInterval:
    """The two tails of a stream of errors, each held at its share of misses."""

    def __init__(self, coverage: float, window: int = WINDOW, adaptation: float = ADAPTATION) -> None:
        self._tail = (1 - coverage) / 2 * MARGIN
        self._low_tail = self._high_tail = self._tail
        self._adaptation = adaptation
        self._window = window
        self._recent: deque[float] = deque()
        self._ordered: list[float] = []
        self._enough = enough(coverage)

    @property
    def ready(self) -> bool:
        """Whether enough errors were seen for a finite interval."""
        return len(self._ordered) >= self._enough

    def bounds(self) -> tuple[float, float]:
        """The interval for the next error."""
        return self._below(self._low_tail), self._above(self._high_tail)

    def _below(self, tail: float) -> float:
        # Between two ranks the adapted tail moves the bound evenly, so that coverage is held on the spot, not by turns.
        if not self._ordered:
            return -math.inf
        if not self.ready:
            return lower(self._ordered, self._tail)
        return _interpolated(self._ordered, tail)

    def _above(self, tail: float) -> float:
        if not self._ordered:
            return math.inf
        if not self.ready:
            return upper(self._ordered, self._tail)
        return _interpolated(self._ordered, 1 - tail)

    def update(self, error: float) -> None:
        """Take in the error that came true."""
        if self.ready:
            low, high = self.bounds()
            self._low_tail += self._adaptation * (self._tail - (error < low))
            self._high_tail += self._adaptation * (self._tail - (error > high))
        self._recent.append(error)
        insort(self._ordered, error)
        if len(self._recent) > self._window:
            del self._ordered[bisect_left(self._ordered, self._recent.popleft())]


def _interpolated(ordered: Sequence[float], probability: float) -> float:
    """The value at rank probability * (n + 1); beyond the ends, the end widened by the span from the middle."""
    position = probability * (len(ordered) + 1) - 1
    middle = ordered[len(ordered) // 2]
    if position < 0:
        return ordered[0] + position * (middle - ordered[0])
    if position > len(ordered) - 1:
        return ordered[-1] + (position - len(ordered) + 1) * (ordered[-1] - middle)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])
