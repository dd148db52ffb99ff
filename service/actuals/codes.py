"""What each measurable code is: how values of several attempts are put together, and whether one speaks of the whole run."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from service.estimation.codes import CODES

Together = Literal["sum", "maximum", "reached", "per_step", "rate"]

# A value of nothing: a counter that is off, a peak before the device was touched. Other codes may be 0.
_POSITIVE = ("memory.peak", "throughput.", "efficiency.", "tokens.input", "tokens.tensor_positions", "compute.", "storage.checkpoint_")
# A quantity of the worst device, which the device's memory bounds.
DEVICE_MEMORY = "memory."


def known(code: str, quoted: Collection[str]) -> bool:
    """Whether a value of this code can be set beside something: a code of the contract, or an item of the quote."""
    return code in CODES or code in quoted


def positive(code: str) -> bool:
    """Whether 0 is impossible."""
    return code in {"time.step", "time.wall_clock"} or code.startswith(_POSITIVE)


def together(code: str) -> Together:
    """How attempts make one value: hours and seconds add up, peaks and sizes are the maximum, counters that go on after a
    restart are what they reached, a step's time and rates are averages weighted by steps.
    """
    if code == "time.step" or code.startswith("efficiency."):
        return "per_step"
    if code.startswith("throughput."):
        return "rate"
    if code.startswith(("time.", "device_hours.", "compute.", "cost.")):
        return "sum"
    return "reached" if code.startswith("tokens.") else "maximum"


def whole_run(code: str) -> bool:
    """Whether the estimate is of the whole run, so that an unfinished one only bounds it."""
    return together(code) in {"sum", "reached"} or code == "storage.checkpoints_retained"


# What an attempt must cover for a value to speak of the whole; training where nothing else is said.
_COVERING = {
    "time.startup": "startup",
    "time.checkpointing": "checkpointing",
    "time.evaluation": "evaluation",
    "device_hours.evaluation": "evaluation",
    "time.data_stall": "data",
    "time.restarts": "restarts",
}


def phases(code: str) -> tuple[str, ...]:
    """Phases of which an attempt must cover one for its value of this code to count: training, or the code's own."""
    return tuple(dict.fromkeys(("training", _COVERING.get(code, "training"))))


def steady(code: str) -> bool:
    """Whether some steps tell the whole: a step's time, a rate, an efficiency."""
    return together(code) in {"per_step", "rate"}
