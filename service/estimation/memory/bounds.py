"""How far a peak may be off: the stack's interval, wider where a run is unlike the measured ones; for one quote and for searches."""

from __future__ import annotations

from dataclasses import dataclass

from ..correction import Corrections
from ..numeric import Number
from ..run import Run
from ..spread import prior
from .ledger import peaks_in
from .setting import setting
from .widening import below_the_device, interval, unlike


@dataclass(slots=True)
class ProcessPeaks:
    """``memory.peak_process`` in bytes; arrays where the layout or batch is."""

    expected: Number
    low: Number
    high: Number


def process_peaks(run: Run, corrections: Corrections) -> ProcessPeaks | None:
    """The item ``memory.peak_process`` of every layout; None where the shape or length is unknown."""
    known = setting(run)
    if known is None:
        return None
    found = peaks_in(run, known)
    allocated, reserved, process = (corrections.get(f"memory.peak_{name}") for name in ("allocated", "reserved", "process"))
    expected = found.process
    if process is not None:
        expected = found.process * process.factor
        return ProcessPeaks(expected, expected * process.low, expected * process.high)
    if reserved is not None:
        expected = found.reserved * reserved.factor + (found.process - found.reserved)
    elif allocated is not None:
        expected = found.process + found.allocated * (allocated.factor - 1.0)
    width = interval(known, "process", unlike(run, known))
    bounds = prior(expected, expected * width.low, expected * width.high, run.interval_coverage)
    return ProcessPeaks(expected, bounds.low, below_the_device(run, expected, bounds.high, found.cached))
