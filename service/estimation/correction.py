"""Corrections: what own measurements say about an estimate, applied to the drivers and never silently.

A correction multiplies a driver (the step time, a peak), and everything derived from it follows; the item then says
``basis: calibrated`` with ``n``, ``factor`` and the ``uncalibrated`` value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

DRIVERS = (
    "time.step",  # efficiency: seconds a step; time.training and all device-hours follow
    "time.wall_clock",  # operations: the whole job's wall clock over what its parts add up to
    "memory.peak_allocated",
    "memory.peak_reserved",
    "memory.peak_process",
    "storage.checkpoint_full",
    "storage.checkpoint_weights",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """measured / estimated for one driver in one cell, as a calibration learnt it."""

    code: str
    factor: float
    n: int
    low: float  # the interval's bounds as multiples of the corrected value, at the run's interval_coverage
    high: float
    cell: str  # "team=search,device=h100-sxm-80gb,stack=megatron" ... "global"


Corrections = Mapping[str, Factor]
