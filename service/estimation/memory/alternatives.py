"""When a run does not fit: the smallest changes that make it fit, each with what it costs in device-hours.

Every kind of change is tried by growing steps, and the first step that fits is kept. Where few kinds suffice by themselves, kinds
are added up, like with like, and what proves unneeded is taken back: of every combination each part is necessary.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..placement import held_on_host
from ..run import Run
from .blocks.trained_model import trained_model
from .changes import Change, Kind, both, kinds, merged, settled
from .device.host import host_bytes

__all__ = ["Change", "Offer", "alternatives", "merged"]

Rebuild = Callable[[Change], Run | None]  # the run of the patched spec; None where the patch is not allowed
Peak = Callable[[Run], tuple[float, float] | None]  # expected and upper bound of memory.peak_process
Hours = Callable[[Run], float | None]  # device_hours.training

FEW = 3  # with fewer kinds that suffice by themselves, several together are offered as well
LIMIT = 12
FAR = 8.0  # times the device-hours of the cheapest: no one takes it
# Groups that leave alone what is trained, on how many devices of which kind, and on what lengths.
OWN = frozenset({"same", "expert", "tensor", "context", "pipeline", "offload", "numbers"})
LAYOUTS = ("expert", "tensor", "context", "pipeline")
# What is added to the changes that compute the same numbers on the same ranks, where those do not suffice.
EXTRAS = (
    ("expert",),
    ("tensor",),
    ("context",),
    ("pipeline",),
    ("expert", "tensor"),
    ("tensor", "context"),
    ("offload",),
    ("numbers",),
    ("numbers", "offload"),
    ("training",),
    ("length",),
    ("more",),
    ("more tensor",),
    ("more pipeline",),
    ("device",),
)
LAST = ("expert", "tensor", "context", "pipeline", "offload", "numbers", "training", "device")


@dataclass(frozen=True, slots=True)
class Found:
    """A change, and what becomes of the peak."""

    change: Change
    peak: float
    fits: bool
    run: Run
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Offer:
    """The alternatives of a run, or why there are none."""

    rows: list[dict[str, Any]]
    reason: str | None = None


@dataclass(slots=True)
class _Search:
    """Tries changes, each at most once."""

    run: Run
    rebuild: Rebuild
    peak: Peak
    tried: dict[str, Found | None] = field(default_factory=dict)

    def attempt(self, chosen: list[tuple[Kind, int]]) -> Found | None:
        """Steps of several kinds together; None where they are not allowed together."""
        change: Change = {}
        for kind, index in chosen:
            change = both(change, kind.steps[index])
        whole = settled(self.run, change)
        if whole is None:
            return None
        key = json.dumps(whole, sort_keys=True)
        if key not in self.tried:
            self.tried[key] = self._attempt(whole, tuple(kind.note for kind, _ in chosen if kind.note is not None))
        return self.tried[key]

    def _attempt(self, change: Change, notes: tuple[str, ...]) -> Found | None:
        run = self.rebuild(change)
        bounds = None if run is None else self.peak(run)
        if run is None or bounds is None or run.hardware is None:
            return None
        return Found(change, bounds[0], bounds[1] <= run.hardware.device.memory_bytes, run, notes)

    def smallest(self, kind: Kind) -> Found | None:
        """The first step of a kind that fits."""
        for index in range(len(kind.steps)):
            found = self.attempt([(kind, index)])
            if found is not None and found.fits:
                return found
        return None

    def together(self, wanted: list[Kind], before: float) -> tuple[Found | None, float]:
        """As many kinds as it takes, none of them without need; and the lowest peak that was reached."""
        chosen: list[tuple[Kind, int]] = []
        best: Found | None = None
        lowest = before
        for kind in wanted:
            for index in reversed(range(len(kind.steps))):
                found = self.attempt([*chosen, (kind, index)])
                if found is not None and (found.fits or found.peak <= lowest):
                    chosen, best, lowest = [*chosen, (kind, index)], found, min(found.peak, lowest)
                    break
            if best is not None and best.fits:
                return self._weakened(chosen, best), lowest
        return None, lowest

    def _weakened(self, chosen: list[tuple[Kind, int]], best: Found) -> Found:
        """Without what is not needed, the costliest first; of the rest the smallest step that does."""
        for kind, index in reversed(chosen):
            others = [one for one in chosen if one[0] is not kind]
            less: list[list[tuple[Kind, int]]] = [[one if one[0] is not kind else (kind, step) for one in chosen] for step in range(index)]
            for trial in [others, *less] if others else less:
                found = self.attempt(trial)
                if found is not None and found.fits:
                    chosen, best = trial, found
                    break
        return best


def alternatives(run: Run, rebuild: Rebuild, peak: Peak, hours: Hours, *, limit: int = LIMIT) -> Offer:
    """Changes that make a run fit its device, cheapest in device-hours first; with the reason where there are none."""
    before = None if run.hardware is None else peak(run)
    if before is None or run.hardware is None:
        return Offer([])
    search = _Search(run, rebuild, peak)
    known = list(kinds(run))
    alone = [(kind.group, one) for kind in known if (one := search.smallest(kind)) is not None]
    found = [one for _, one in alone]
    same = [kind for kind in known if kind.group == "same"]
    cheap, lowest = search.together(same, before[0])
    found += [] if cheap is None else [cheap]
    if sum(group in OWN for group, _ in alone) < FEW:
        more, reached = _combined(search, known, before[0], {group for group, _ in alone}, same, cheap is not None)
        found, lowest = found + more, min(lowest, reached)
    if not found:
        reached, memory = lowest / 2**30, run.hardware.device.memory_bytes / 2**30
        return Offer([], f"no change known here makes it fit: the lowest peak reached is {reached:,.1f} GiB of {memory:,.1f} GiB")
    base = hours(run)
    unlike: dict[str, Found] = {}
    for one in found:
        unlike.setdefault(json.dumps(one.change, sort_keys=True), one)
    rows = sorted((_row(one, run, before[0], base, hours) for one in unlike.values()), key=_order)
    least = next((row["device_hours_ratio"] for row in rows if not _order(row)[0] and row["device_hours_ratio"]), None)
    near = [row for row in rows if _order(row)[0] or least is None or (row["device_hours_ratio"] or 0.0) <= FAR * least]
    return Offer(near[:limit])


def _combined(
    search: _Search, known: list[Kind], before: float, alone: set[str], same: list[Kind], enough_same: bool
) -> tuple[list[Found], float]:
    """Changes that compute the same numbers on the same ranks, and one or two groups more; and the lowest peak that was reached.

    A group that suffices by itself, or with less, is not added to further ones.
    """

    def of(*groups: str) -> list[Kind]:
        return [kind for kind in known if kind.group in groups]

    result: list[Found] = []
    lowest = before
    if enough_same:
        # What suffices can be dear (a full shard over slow links): layouts and devices come first as well, then what they still need.
        for group in (*LAYOUTS, "device"):
            one, _ = search.together([*of(group), *same], before) if of(group) and group not in alone else (None, before)
            result += [] if one is None else [one]
        return result, lowest
    enough: list[frozenset[str]] = [frozenset({group}) for group in alone]
    for groups in EXTRAS:
        if not all(of(group) for group in groups) or any(less <= set(groups) for less in enough):
            continue
        one, reached = search.together([*same, *(kind for group in groups for kind in of(group))], before)
        lowest = min(lowest, reached)
        if one is not None:
            result.append(one)
            enough.append(frozenset(groups))
    if not result and not alone:
        one, reached = search.together([*same, *of(*LAST)], before)
        return ([] if one is None else [one]), min(lowest, reached)
    return result, lowest


def _order(row: dict[str, Any]) -> tuple[bool, bool, float]:
    """Cheapest first; hours of another device are no measure beside one's own, so they come after."""
    return "device" in row["change"].get("hardware", {}), row["device_hours_ratio"] is None, row["device_hours_ratio"] or 0.0


def _row(found: Found, run: Run, before: float, base: float | None, hours: Hours) -> dict[str, Any]:
    """Capacity (bytes) and throughput (how fast the same job is done) apart: the one says whether, the other at what price."""
    after = hours(found.run)
    ratio = None if base is None or after is None or base == 0 else after / base
    assert run.hardware is not None and found.run.hardware is not None
    devices = found.run.hardware.device_count / run.hardware.device_count
    row = {
        "change": found.change,
        "peak_memory_bytes_per_device_delta": found.peak - before,
        "peak_memory_bytes_per_device": found.peak,
        "device_hours_ratio": ratio,
        "throughput_ratio": None if not ratio else devices / ratio,
    }
    notes = list(found.notes)
    known = trained_model(found.run)
    if known is not None and held_on_host(found.run):
        row["host_memory_bytes_per_device"] = float(host_bytes(found.run, known))
    if notes:
        row["note"] = "; ".join(notes)
    return row
