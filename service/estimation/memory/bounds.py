"""The figure that decides whether a layout fits, with its interval, for every layout of a search."""

from __future__ import annotations

from dataclasses import dataclass

from ..correction import Corrections
from ..numeric import Number
from ..run import Run
from ..spread import prior
from ..stacks import STACKS
from .ledger import peaks


@dataclass(slots=True)
class ProcessPeaks:
    """``memory.peak_process`` in bytes; arrays where the layout or batch is."""

    expected: Number
    low: Number
    high: Number


def process_peaks(run: Run, corrections: Corrections) -> ProcessPeaks | None:
    """The item ``memory.peak_process`` of every layout; None where the shape or length is unknown."""
    found = peaks(run)
    if found is None:
        return None
    factor = corrections.get("memory.peak_process")
    if factor is not None:
        expected = found.process * factor.factor
        return ProcessPeaks(expected, expected * factor.low, expected * factor.high)
    interval = STACKS[run.software.stack].intervals["process"]
    bounds = prior(found.process, found.process * interval.low, found.process * interval.high, run.interval_coverage)
    return ProcessPeaks(found.process, bounds.low, bounds.high)
