"""When a run does not fit: the smallest changes that make it fit, each with what it costs in device-hours.

Every lever is pulled by growing steps, and the first step that fits is kept. Where few levers suffice by themselves, levers are
added up, like with like, and what proves unneeded is taken back: of every combination each part is necessary.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from service.estimation.memory.blocks.trained_model import trained_model
from service.estimation.memory.device.stage_on_rank import host_bytes
from service.estimation.placement import held_on_host
from service.estimation.run import Run
from service.kit.merge_patch import both

from .levers import Change, Lever, levers, settled

Hours = Callable[[Run], float | None]  # device_hours.training
Pulled = list[tuple[Lever, int]]  # levers with the step each is pulled to

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
class Tried:
    """A changed run, and what becomes of its peak."""

    run: Run
    peak: float  # expected memory.peak_process in bytes
    high: float  # its interval's upper end


class Attempts(Protocol):
    """How changes are tried (``trials.Trials``)."""

    def attempt(self, change: Change) -> Tried | None:
        """The changed run and its peak; None where the patch is not allowed."""

    def confirmed(self, change: Change, tried: Tried) -> Tried | None:
        """The same as the patched spec would be quoted."""


@dataclass(frozen=True, slots=True)
class Found:
    """A change, and what becomes of the peak."""

    change: Change
    tried: Tried
    fits: bool
    notes: tuple[str, ...] = ()

    @property
    def peak(self) -> float:
        """Expected ``memory.peak_process`` in bytes."""
        return self.tried.peak


@dataclass(frozen=True, slots=True)
class Offer:
    """The alternatives of a run, or why there are none."""

    rows: list[dict[str, Any]]
    reason: str | None = None


@dataclass(slots=True)
class _Search:
    """Tries changes, each at most once."""

    run: Run
    attempts: Attempts
    seen: dict[tuple[tuple[int, int], ...], Found | None] = field(default_factory=dict)

    def attempt(self, chosen: Pulled) -> Found | None:
        """Steps of several levers together; None where they are not allowed together."""
        key = tuple([(id(lever), index) for lever, index in chosen])
        if key not in self.seen:
            self.seen[key] = self._attempt(chosen)
        return self.seen[key]

    def _attempt(self, chosen: Pulled) -> Found | None:
        change: Change = {}
        for lever, index in chosen:
            change = both(change, lever.steps[index])
        whole = settled(self.run, change)
        tried = None if whole is None else self.attempts.attempt(whole)
        if whole is None or tried is None or tried.run.hardware is None:
            return None
        notes = tuple(lever.note for lever, _ in chosen if lever.note is not None)
        return Found(whole, tried, tried.high <= tried.run.hardware.device.memory_bytes, notes)

    def allowed(self, chosen: Pulled, lever: Lever, steps: range) -> list[int]:
        """Of the steps of a lever, those whose layout is legal beside what is pulled already."""
        change: Change = {}
        for other, index in chosen:
            change = both(change, other.steps[index])
        return [index for index in steps if settled(self.run, both(change, lever.steps[index])) is not None]

    def first(self, others: Pulled, lever: Lever, steps: range) -> tuple[Pulled, Found] | None:
        """The first step of a lever that fits beside others, in their order; of a falling one by halving."""

        def at(index: int) -> Found | None:
            return self.attempt(_beside(others, lever, index))

        if not lever.falling or len(steps) < 3:
            for index in steps:
                found = at(index)
                if found is not None and found.fits:
                    return _beside(others, lever, index), found
            return None
        legal = self.allowed([one for one in others if one[0] is not lever], lever, steps)
        best: tuple[int, Found] | None = None
        low, high = 0, len(legal) - 1
        if legal:
            last = at(legal[high])
            if last is None or not last.fits:
                return self._one_by_one(others, lever, legal[:-1]) if last is None else None
            best = legal[high], last
        while low < high:
            middle = (low + high) // 2
            found = at(legal[middle])
            if found is not None and found.fits:
                best, high = (legal[middle], found), middle
            else:
                low = middle + 1
        return None if best is None else (_beside(others, lever, best[0]), best[1])

    def _one_by_one(self, others: Pulled, lever: Lever, steps: list[int]) -> tuple[Pulled, Found] | None:
        """Where the furthest step is refused by the spec, every other step may still do."""
        for index in steps:
            found = self.attempt(_beside(others, lever, index))
            if found is not None and found.fits:
                return _beside(others, lever, index), found
        return None

    def smallest(self, lever: Lever) -> Found | None:
        """The first step of a lever that fits."""
        found = self.first([], lever, range(len(lever.steps)))
        return None if found is None else found[1]

    def together(self, wanted: list[Lever], before: float) -> tuple[Found | None, float]:
        """As many levers as it takes, none of them without need; and the lowest peak that was reached."""
        chosen: Pulled = []
        best: Found | None = None
        lowest = before
        for lever in wanted:
            for index in reversed(range(len(lever.steps))):
                found = self.attempt([*chosen, (lever, index)])
                if found is not None and (found.fits or found.peak <= lowest):
                    chosen, best, lowest = [*chosen, (lever, index)], found, min(found.peak, lowest)
                    break
            if best is not None and best.fits:
                return self._weakened(chosen, best), lowest
        return None, lowest

    def _weakened(self, chosen: Pulled, best: Found) -> Found:
        """Without what is not needed, the costliest first; of the rest the smallest step that does."""
        for lever, index in reversed(chosen):
            others = [one for one in chosen if one[0] is not lever]
            without = self.attempt(others) if others else None
            if without is not None and without.fits:
                chosen, best = others, without
                continue
            less = self.first(chosen, lever, range(index))
            if less is not None:
                chosen, best = less
        return best


def _beside(others: Pulled, lever: Lever, index: int) -> Pulled:
    """What is pulled, with that lever at that step in its own place."""
    if any(one[0] is lever for one in others):
        return [one if one[0] is not lever else (lever, index) for one in others]
    return [*others, (lever, index)]


def alternatives(run: Run, before: float, attempts: Attempts, hours: Hours, *, limit: int = LIMIT) -> Offer:
    """Changes that make a run fit its device, cheapest in device-hours first; with the reason where there are none.

    ``before`` is the run's own expected peak in bytes.
    """
    if run.hardware is None:
        return Offer([])
    search = _Search(run, attempts)
    known = list(levers(run))
    alone = [(lever.group, one) for lever in known if (one := search.smallest(lever)) is not None]
    found = [one for _, one in alone]
    same = [lever for lever in known if lever.group == "same"]
    cheap, lowest = search.together(same, before)
    found += [] if cheap is None else [cheap]
    if sum(group in OWN for group, _ in alone) < FEW:
        more, reached = _combined(search, known, before, {group for group, _ in alone}, same, cheap is not None)
        found, lowest = found + more, min(lowest, reached)
    if not found:
        reached, memory = lowest / 2**30, run.hardware.device.memory_bytes / 2**30
        return Offer([], f"no change known here makes it fit: the lowest peak reached is {reached:,.1f} GiB of {memory:,.1f} GiB")
    base = hours(run)
    unlike: dict[str, Found] = {}
    for one in found:
        unlike.setdefault(json.dumps(one.change, sort_keys=True), one)
    sure = [exact for one in unlike.values() if (exact := _confirmed(one, attempts)) is not None]
    rows = sorted((_row(one, run, before, base, hours) for one in sure), key=_order)
    least = next((row["device_hours_ratio"] for row in rows if not _order(row)[0] and row["device_hours_ratio"]), None)
    near = [row for row in rows if _order(row)[0] or least is None or (row["device_hours_ratio"] or 0.0) <= FAR * least]
    return Offer(near[:limit])


def _confirmed(found: Found, attempts: Attempts) -> Found | None:
    """What is offered as its spec would be quoted; None where that does not fit."""
    tried = attempts.confirmed(found.change, found.tried)
    if tried is None or tried.run.hardware is None or tried.high > tried.run.hardware.device.memory_bytes:
        return None
    return replace(found, tried=tried)


def _combined(
    search: _Search, known: list[Lever], before: float, alone: set[str], same: list[Lever], enough_same: bool
) -> tuple[list[Found], float]:
    """Changes that compute the same numbers on the same ranks, and one or two groups more; and the lowest peak that was reached.

    A group that suffices by itself, or with less, is not added to further ones.
    """

    def of(*groups: str) -> list[Lever]:
        return [lever for lever in known if lever.group in groups]

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
        one, reached = search.together([*same, *(lever for group in groups for lever in of(group))], before)
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
    after = hours(found.tried.run)
    ratio = None if base is None or after is None or base == 0 else after / base
    assert run.hardware is not None and found.tried.run.hardware is not None
    devices = found.tried.run.hardware.device_count / run.hardware.device_count
    row = {
        "change": found.change,
        "peak_memory_bytes_per_device_delta": found.peak - before,
        "peak_memory_bytes_per_device": found.peak,
        "device_hours_ratio": ratio,
        "throughput_ratio": None if not ratio else devices / ratio,
    }
    notes = list(found.notes)
    known = trained_model(found.tried.run)
    if known is not None and held_on_host(found.tried.run):
        row["host_memory_bytes_per_device"] = float(host_bytes(found.tried.run, known))
    if notes:
        row["note"] = "; ".join(notes)
    return row
