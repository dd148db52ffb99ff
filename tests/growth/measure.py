"""How the time of some work grows with its input, measured so that a busy machine does not change the verdict.

Processor time is taken, not the clock's; of several tries the shortest, since whatever else happens only adds. Work is measured at n
and 4n: in proportion it takes 4 times as long, by the square 16 times. What takes more than 8 times (n^1.5) grows too fast. Work that
is over in no time at 4n is made longer until it can be told from what the measurement itself costs.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import TypeVar

MOST_GROWTH = 8.0  # over four times the input
LEAST_SECONDS = 0.02  # at 4n: below it the clock and caches decide
TRIES = 2
MOST_LONGER = 4

Input = TypeVar("Input")


def processor_seconds(work: Callable[[Input], object], made: Input) -> float:
    """The least processor time of several tries."""
    best = float("inf")
    for _ in range(TRIES):
        gc.disable()
        try:
            began = time.process_time()
            work(made)
            best = min(best, time.process_time() - began)
        finally:
            gc.enable()
    return best


def growth(make: Callable[[int], Input], work: Callable[[Input], object], n: int, most: int | None = None) -> float:
    """How many times as long 4n takes as n; 1 where even `most` (or a long input) takes no time worth measuring."""
    for _ in range(MOST_LONGER):
        longest = processor_seconds(work, make(4 * n))
        if longest >= LEAST_SECONDS or (most is not None and 8 * n > most):
            break
        n *= 2 if longest > LEAST_SECONDS / 4 else 4
    if longest < LEAST_SECONDS:
        return 1.0
    return longest / max(processor_seconds(work, make(n)), 1e-6)


def grows_in_proportion(make: Callable[[int], Input], work: Callable[[Input], object], n: int, most: int | None = None) -> None:
    """Fail where four times the input takes more than eight times as long; what looks so is measured again."""
    found = [growth(make, work, n, most)]
    while found[-1] > MOST_GROWTH and len(found) < 3:
        found.append(growth(make, work, n, most))
    assert min(found) <= MOST_GROWTH, f"four times the input takes {min(found):.1f} times as long"
