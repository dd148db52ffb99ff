"""Corrections: what own measurements say about an estimate, applied to the drivers and never silently.

A correction multiplies a driver (the step time, a peak), and everything derived from it follows (restarts, rates,
device-hours), not always in proportion. Every item that it moves says so: ``basis: calibrated``, ``n``, ``uncalibrated``
(the value of the formulas alone), and ``factor``, which times that value is the expected one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .items import Item

DRIVERS = (
    "time.step",  # efficiency: seconds a step; time.training and all device-hours follow
    "time.wall_clock",  # operations: the whole job's wall clock over what its parts add up to
    "memory.peak_allocated",
    "memory.peak_reserved",
    "memory.peak_process",
    "storage.checkpoint_full",
    "storage.checkpoint_weights",
)
_SAME = 1e-12  # relative: the same value but for rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """measured / estimated for one driver in one cell, as a calibration learnt it."""

    code: str
    factor: float
    n: int
    low: float  # the interval's bounds as multiples of the corrected value, at the run's interval_coverage
    high: float
    cell: str  # "team=search,device=h100-sxm-80gb,stack=megatron" ... "global"

    def __post_init__(self) -> None:
        """What is expected lies in its own interval, whoever learnt it."""
        if not self.low <= 1.0 <= self.high:
            raise ValueError(f"the interval of {self.code} ({self.low:g} to {self.high:g}) leaves out the corrected value itself")


Corrections = Mapping[str, Factor]


def stated(item: Item, corrections: Corrections) -> Item:
    """The item as it says what corrections made of it; as it is where they left its value alone."""
    value, plain = item.expected, item.uncalibrated
    if value is None or plain is None or plain != plain or abs(value - plain) <= _SAME * abs(plain):
        if item.basis == "calibrated" and value is not None and item.n is None:
            return item._replace(basis="prior" if item.low is not None else "formula")
        return item
    factor = item.factor
    if factor is None or abs(factor * plain - value) > 1e-9 * abs(value):
        factor = value / plain if plain else None
    n = item.n
    if n is None:
        followed = [each.n for code, each in corrections.items() if code.partition(".")[0] == _family(item.code)]
        n = min(followed or [each.n for each in corrections.values()])
    return item._replace(basis="calibrated", n=n, uncalibrated=float(plain), factor=factor)


def _family(code: str) -> str:
    """Which drivers an item follows: what is not memory or storage follows the times."""
    section = code.partition(".")[0]
    return section if section in ("memory", "storage") else "time"
