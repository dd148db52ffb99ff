"""Corrections stated on every item that they changed: nothing is calibrated in silence.

A correction acts on a driver and whatever derives from it follows (restarts, rates, device-hours), not always in
proportion. So the estimate is made twice, with and without corrections, and what differs says so: ``uncalibrated`` is
the value of the formulas alone, and ``factor`` times it is the expected value.
"""

from __future__ import annotations

from collections.abc import Iterable

from .correction import Corrections
from .items import Item

_SAME = 1e-12  # relative: the same value but for rounding


def state(items: Iterable[Item], plain: Iterable[Item], corrections: Corrections) -> None:
    """Mark every item whose value differs from what the formulas alone give."""
    before = {item.code: item.expected for item in plain}
    for item in items:
        value, formula = item.expected, before.get(item.code)
        if value is None or formula is None or abs(value - formula) <= _SAME * abs(formula):
            if item.basis == "calibrated" and value is not None and item.n is None:
                item.basis = "prior" if item.low is not None else "formula"
            continue
        runs = [factor.n for code, factor in corrections.items() if code.partition(".")[0] == _family(item.code)]
        item.basis = "calibrated"
        item.n = item.n if item.n is not None else min(runs or [factor.n for factor in corrections.values()])
        item.uncalibrated = float(formula)
        if item.factor is None or abs(item.factor * formula - value) > 1e-9 * abs(value):
            item.factor = value / formula if formula else None


def _family(code: str) -> str:
    """Which drivers an item follows: what is not memory or storage follows the times."""
    section = code.partition(".")[0]
    return section if section in ("memory", "storage") else "time"
