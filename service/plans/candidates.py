"""Layouts that fit, as columns: joined, ranked, and those of them that no other beats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .space import Space, Values

Rows = NDArray[np.int64]


@dataclass(slots=True, kw_only=True)
class Candidates:
    """Layouts that fit, one row each."""

    number: Rows  # of the pass
    axes: dict[str, Values]
    wall_clock_seconds: Values
    device_hours: Values  # of pure training, as the summary of a quote gives them
    process_bytes: Values
    headroom_bytes: Values
    certain: NDArray[np.bool_]  # fits even at the interval's upper end

    def __len__(self) -> int:
        return len(self.number)

    def take(self, rows: NDArray[Any]) -> Candidates:
        """Some of the rows, by number or by a mask."""
        return Candidates(
            number=self.number[rows],
            axes={name: column[rows] for name, column in self.axes.items()},
            wall_clock_seconds=self.wall_clock_seconds[rows],
            device_hours=self.device_hours[rows],
            process_bytes=self.process_bytes[rows],
            headroom_bytes=self.headroom_bytes[rows],
            certain=self.certain[rows],
        )


def none(space: Space) -> Candidates:
    """No layout of a space."""
    nothing = np.zeros(0)
    return Candidates(
        number=np.zeros(0, dtype=np.int64),
        axes=dict.fromkeys(space.axes, nothing),
        wall_clock_seconds=nothing,
        device_hours=nothing,
        process_bytes=nothing,
        headroom_bytes=nothing,
        certain=np.zeros(0, dtype=bool),
    )


def joined(parts: Sequence[Candidates], space: Space) -> Candidates:
    """The rows of all parts, in their order."""
    if not parts:
        return none(space)

    def column(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in parts])

    return Candidates(
        number=column("number"),
        axes={name: np.concatenate([part.axes[name] for part in parts]) for name in space.axes},
        wall_clock_seconds=column("wall_clock_seconds"),
        device_hours=column("device_hours"),
        process_bytes=column("process_bytes"),
        headroom_bytes=column("headroom_bytes"),
        certain=column("certain"),
    )


def ranked(candidates: Candidates, by: Values, most: int | None = None) -> Rows:
    """Rows from best to worst, ``most`` of them; equal ones by more head-room, then in the order of the space."""
    rows = np.arange(len(candidates))
    if most is not None and most < len(rows):
        # Only what is as good as the last row that is answered need be put in order.
        rows = np.flatnonzero(by <= np.partition(by, most - 1)[most - 1])
    order: Rows = rows[np.lexsort((-candidates.headroom_bytes[rows], by[rows]))]
    return order[:most]


def pareto(candidates: Candidates, most: int | None = None) -> Rows:
    """Rows that no other beats in wall clock, device-hours and head-room together, the ``most`` fastest; of equal rows the first.

    The fastest row is on the front, and so is the fastest of those that it does not beat, and so on: what is left shrinks with
    each, and nothing is put in order that is not answered.
    """
    front: list[int] = []
    rows = np.arange(len(candidates))
    seconds, hours, room = candidates.wall_clock_seconds, candidates.device_hours, candidates.headroom_bytes
    while len(rows) and (most is None or len(front) < most):
        fastest = np.flatnonzero(seconds == seconds.min())
        one = fastest[np.lexsort((-room[fastest], hours[fastest]))[0]]
        front.append(int(rows[one]))
        unbeaten = (hours < hours[one]) | (room > room[one])
        rows, seconds, hours, room = rows[unbeaten], seconds[unbeaten], hours[unbeaten], room[unbeaten]
    return np.asarray(front, dtype=np.int64)
