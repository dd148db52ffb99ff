"""What own measurements say about the next estimate: factors by partial pooling, with intervals; pure. ``pooling`` fits them.

A driver's log ratio e = ln(measured / estimated before any correction) is modelled as a tree of cells, each the child of
a wider one: the whole service, a device with a stack, a team on a cluster there, a method and model family of theirs. A
cell's level is its parent's plus a deviation of variance tau^2, a run's e is its narrowest cell's level plus noise of
variance sigma^2, both normal (in code tau is ``between``, sigma ``within`` or ``noise``). Then a cell's posterior mean is

    w * (its own mean) + (1 - w) * (its parent's),    w = tau^2 / (tau^2 + the variance of the own mean)

Going up the tree and down again gives every cell at once, and a cell without data is its parent (partial pooling; Gelman and Hill,
2007, chapter 12; variances by moments, held by a prior).

- Robust: means are Huber's (P. J. Huber, 1964), values far outside are left out, variances come from medians.
- Forgetting: a run's weight halves with every ``half_life_runs`` newer runs of its cell, and what came before a detected
  change in bias is left out.
- Intervals: every run is predicted from the runs before it in its cell; the errors in units of the predicted deviation
  are the scores of ``conformal``, taken from the narrowest cell that has enough of them. A run of a new cell gets no less
  than the interval of the deviation between cells.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import NormalDist

from . import conformal

HALF_LIFE_RUNS = 30.0
SCORES_ENOUGH = 20  # below it the wider cell's scores speak: nine runs are enough for a bound, not for a good one
GLOBAL = "global"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """What is assumed of a driver before it has data: deviations of e within a cell and between cells, level by level.

    The values come from the public runs (weighted 80 % of |ln error|: times or divided by 1.33 for stacks that were seen,
    1.59 for those that were not, which gives 0.22 and 0.36), spread over the levels. Memory: 7 % within a source; between cells
    14 %, twice what the means of sources left out of the fit differ by, since allocators and libraries differ more than those do.
    """

    within: float
    between: tuple[float, ...]  # from the widest cell (about the estimate itself) to the narrowest
    weight: float = 4.0  # runs, or cells, that the prior counts for


TIME = Prior(within=0.20, between=(0.20, 0.22, 0.15, 0.10))
MEMORY = Prior(within=0.06, between=(0.06, 0.09, 0.06, 0.05))
STORAGE = Prior(within=0.02, between=(0.03, 0.03, 0.02, 0.02))


def prior(code: str) -> Prior:
    """The prior of a driver."""
    return MEMORY if code.startswith("memory.") else STORAGE if code.startswith("storage.") else TIME


@dataclass(frozen=True, slots=True, kw_only=True)
class RunError:
    """One run's error in one driver, which is what is learnt from. Errors are given in the order in which the runs ended."""

    path: tuple[str, ...]  # its cells from wide to narrow; the global one is not named
    log_ratio: float  # ln(measured / estimated before any correction)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What is known of one cell of a driver."""

    parent: str | None
    depth: int  # 0: global
    n: int  # runs the cell rests on
    mean: float  # posterior mean of e
    variance: float  # posterior variance of the mean
    noise: float  # deviation of a run about the mean
    scores: tuple[float, ...] = ()  # past errors in units of the predicted deviation, oldest first


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The correction of a run of which the cells are known."""

    cell: str
    n: int
    factor: float
    deviation: float  # of ln(measured) about the corrected estimate
    scores: tuple[float, ...]
    new: bool = False  # none of the run's own kind was measured yet

    def interval(self, coverage: float) -> tuple[float, float]:
        """Multiples of the corrected value between which the measurement lies with this probability.

        The scores tell how well known cells are predicted, nothing of how far a new cell lies from the others: its interval
        is at least the one that the deviation between cells gives. Where all scores lie on one side the interval ends at the
        corrected value itself: what is expected lies in its own interval.
        """
        low, high = score_bounds(self.scores, coverage)
        if self.new:
            least_low, least_high = score_bounds((), coverage)
            low, high = min(low, least_low), max(high, least_high)
        return math.exp(max(-50.0, self.deviation * min(low, 0.0))), math.exp(min(50.0, self.deviation * max(high, 0.0)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A driver's calibration."""

    code: str
    between: tuple[float, ...]  # deviations of cells about their parents, by level
    cells: Mapping[str, Cell] = field(default_factory=dict)

    def predict(self, path: Sequence[str]) -> Prediction | None:
        """The correction from the narrowest cell of the path that has data; None without any data."""
        if GLOBAL not in self.cells:
            return None
        chain = [GLOBAL]
        for name in path:
            if name not in self.cells:
                break
            chain.append(name)
        cell = self.cells[chain[-1]]
        missing = self.between[cell.depth + 1 :]
        variance = cell.variance + sum(step * step for step in missing) + cell.noise * cell.noise
        scores: tuple[float, ...] = ()
        for name in reversed(chain):
            scores = self.cells[name].scores
            if len(scores) >= SCORES_ENOUGH:
                break
        return Prediction(
            cell=chain[-1],
            n=cell.n,
            factor=math.exp(cell.mean),
            deviation=math.sqrt(variance),
            scores=scores,
            new=bool(missing),
        )


@lru_cache(maxsize=4096)
def score_bounds(scores: tuple[float, ...], coverage: float) -> tuple[float, float]:
    """The interval of the next score: adaptive conformal; while there are too few, the normal one with heavier tails."""
    adaptive = conformal.AdaptiveInterval(coverage)
    for score in scores:
        adaptive.update(score)
    if len(scores) >= SCORES_ENOUGH and adaptive.ready:
        return adaptive.bounds()
    # Student's quantile by Cornish-Fisher with the prior's weight as degrees of freedom: the deviation itself is a guess.
    freedom = 4 + len(scores)
    normal = NormalDist().inv_cdf((1 + coverage) / 2)
    tail = normal + (normal**3 + normal) / (4 * freedom) + (5 * normal**5 + 16 * normal**3 + 3 * normal) / (96 * freedom**2)
    return -tail, tail
