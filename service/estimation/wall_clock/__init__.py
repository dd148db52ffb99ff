"""The whole job by the clock: everything from launch to the last checkpoint, with what interrupts it.

``timed_run`` is what all parts start from; each part has a room of its own (``start_up``, ``saving``, ``evaluation``,
``data_loading``, ``interruptions``) whose ``figures`` are numbers that broadcast over layouts; ``figures`` puts them together,
for one quote and for a search alike; ``items`` and ``saving_items`` describe them.

Symbols of the formulas are the core's T (of the main tier), C, R and M, and

    x   the share of the time between two interruptions that one of them costs: (T / 2 + R) / M
"""

from .evaluation import seconds_per_forward_token
from .figures import WallClock, figures
from .items import Described, items, saves, saves_without_time, unknown_items
from .timed_run import TimedRun

__all__ = [
    "Described",
    "TimedRun",
    "WallClock",
    "figures",
    "items",
    "saves",
    "saves_without_time",
    "seconds_per_forward_token",
    "unknown_items",
]
