"""Estimated and measured, item by item. Pure: a quote and its measurements in, rows out, whatever the order they came in.

A row is one code by one method of one source: values of unlike methods are never mixed, and a code is only ever set
beside the same code (allocated, reserved and process memory are three quantities).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import codes
from .measurement import Measurement
from .quoted import Quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the comparison."""

    code: str
    estimated: float | None
    low: float | None
    high: float | None
    measured: float
    method: str
    attempts: int
    derived: bool = False
    bound: str | None = None  # "lower" or "upper": the true value is beyond `measured`, so there is no ratio
    projected: float | None = None  # an unfinished run, scaled to all its steps
    source: str | None = None
    scope: str | None = None
    basis: str | None = None
    attempt_numbers: tuple[int, ...] = ()
    excludes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    whole_runs: int = 1  # attempts that each did all steps: repeats, of which a sum is several runs
    repeats: int | None = None  # readings behind the value
    spread: float | None = None  # the widest of its attempts
    measurement_ids: tuple[str, ...] = field(default=())

    @property
    def ratio(self) -> float | None:
        """measured / estimated; of a run that did not finish there is none (of an upper bound it is at most this)."""
        return None if self.bound == "lower" else _ratio(self.measured, self.estimated)

    @property
    def log_ratio(self) -> float | None:
        """The natural logarithm of the ratio."""
        return math.log(self.ratio) if self.ratio else None

    @property
    def bound_ratio(self) -> float | None:
        """What the ratio is at least or at most, where the measurement is a bound."""
        return _ratio(self.measured, self.estimated) if self.bound else None

    @property
    def within_interval(self) -> bool | None:
        """Whether the interval holds the measured value; of a bound only what it already settles."""
        if self.low is None or self.high is None:
            return None
        if self.bound == "lower":
            return False if self.measured > self.high else None
        if self.bound == "upper":
            return False if self.measured < self.low else None
        return self.low <= self.measured <= self.high

    def as_json(self) -> dict[str, Any]:
        """As the contract has it, with what else is known."""
        return {
            "code": self.code,
            "estimated": self.estimated,
            "low": self.low,
            "high": self.high,
            "measured": exact(self.measured),
            "ratio": self.ratio,
            "log_ratio": self.log_ratio,
            "within_interval": self.within_interval,
            "method": self.method,
            "attempts": self.attempts,
            "derived": self.derived,
            "bound": self.bound,
            "bound_ratio": self.bound_ratio,
            "projected": self.projected,
            "projected_ratio": _ratio(self.projected, self.estimated),
            "source": self.source,
            "scope": self.scope,
            "basis": self.basis,
            "attempt_numbers": list(self.attempt_numbers),
            "excludes": list(self.excludes),
            "flags": list(self.flags),
            "repeats": self.repeats,
            "spread": self.spread,
            "measurement_ids": list(self.measurement_ids),
        }


def exact(value: float) -> float | int:
    """A whole number as one: bytes and tokens are integers."""
    return int(value) if float(value).is_integer() and abs(value) < 2**63 else value


def _ratio(measured: float | None, estimated: float | None) -> float | None:
    return measured / estimated if measured is not None and estimated and estimated > 0 else None


def current(measured: Iterable[Measurement]) -> list[Measurement]:
    """What stands after corrections, in an order of its own: that of arrival must not matter."""
    rows = list(measured)
    corrected = {row.corrects_id for row in rows}
    kept = (row for row in rows if row.id not in corrected)
    return sorted(kept, key=lambda row: (row.group, row.attempt, row.id))


def comparable(code: str, scope: str | None, basis: str | None) -> str | None:
    """Why a value cannot be set beside the estimate of its code; None where it can."""
    if basis == "utilized":
        return "utilized hours: the estimate is of allocated hours"
    if scope == "sum" and code.startswith(codes.DEVICE_MEMORY):
        return "a sum over ranks: the estimate is of the worst device"
    if scope == "rank0" and code.startswith(("throughput.", "device_hours.", "tokens.", "compute.")):
        return "one rank's: the estimate is of the whole job"
    return None


def row_of(quoted: Quoted, group: Sequence[Measurement]) -> tuple[Row | None, list[dict[str, Any]]]:
    """The row of one group of current values, and the values that do not count in it, with the reason."""
    first = group[0]
    left_out: list[dict[str, Any]] = []
    if reason := comparable(first.code, first.scope, first.basis):
        return None, [_not_counted(value, reason) for value in group]
    kind = codes.together(first.code)
    phases = codes.phases(first.code)
    counted: list[Measurement] = []
    for value in group:
        if value.covers_one_of(phases) or not codes.whole_run(first.code):
            counted.append(value)
        else:
            said = "does not cover" if value.covers is not None else "does not say that it covers"
            why = f"the attempt {said} {' or '.join(phases)}"
            left_out.append(_not_counted(value, f"{value.outcome}: {why}" if value.outcome != "completed" else why))
    if not counted:
        return None, left_out
    complete = any(value.outcome == "completed" for value in counted)
    bound, projected = None, None
    measured = _put_together(kind, counted)
    if codes.whole_run(first.code) and not complete:
        bound, projected = "lower", _projection(quoted, counted, measured)
    elif not codes.whole_run(first.code) and not any(_representative(value) for value in counted):
        bound = "lower" if kind == "maximum" else None
        if bound is None:
            return None, left_out + [_not_counted(value, f"{value.outcome}: too little ran to stand for a step") for value in counted]
    item = quoted.items.get(first.code)
    whole_runs = _whole_runs(quoted, kind, counted)
    return (
        Row(
            code=first.code,
            estimated=item.expected if item else None,
            low=item.low if item else None,
            high=item.high if item else None,
            measured=measured,
            method=first.method,
            attempts=len({(value.attempt, value.job_id) for value in counted}),
            bound=bound,
            projected=projected,
            source=first.source,
            scope=first.scope,
            basis=first.basis,
            attempt_numbers=tuple(sorted({value.attempt for value in counted})),
            excludes=tuple(sorted({name for value in counted for name in value.excludes})),
            flags=tuple(sorted({name for value in counted for name in value.flags} | ({"several_completed"} if whole_runs > 1 else set()))),
            whole_runs=whole_runs,
            repeats=sum(value.repeats or 0 for value in counted) or None,
            spread=max((value.spread for value in counted if value.spread is not None), default=None),
            measurement_ids=tuple(value.id for value in counted),
        ),
        left_out,
    )


def _whole_runs(quoted: Quoted, kind: codes.Together, values: Sequence[Measurement]) -> int:
    """How many whole runs a sum is over: hours of repeats are added as those of parts are, so it must be said."""
    whole = [v for v in values if v.outcome == "completed" and quoted.steps and (v.steps_completed or 0) >= quoted.steps]
    return max(1, len(whole)) if kind == "sum" else 1


def _representative(value: Measurement) -> bool:
    """Whether enough ran for a peak, a rate or a size to stand for the run: it trained, or at least reached step 2; a file
    has its size whatever ran.
    """
    return (
        value.code.startswith("storage.") or (value.speaks_of_training and value.outcome != "failed") or (value.steps_completed or 0) >= 2
    )


def _put_together(kind: codes.Together, values: Sequence[Measurement]) -> float:
    numbers = [value.value for value in values]
    if kind == "sum":
        return math.fsum(numbers)
    if kind in {"maximum", "reached"}:
        return max(numbers)
    weights = [float(value.steps_completed or 0) for value in values]
    if not all(weights):
        weights = [1.0] * len(values)
    if kind == "rate":  # a rate over steps is their number over the sum of their times
        return math.fsum(weights) / math.fsum(weight / number for weight, number in zip(weights, numbers, strict=True))
    return math.fsum(weight * number for weight, number in zip(weights, numbers, strict=True)) / math.fsum(weights)


def _projection(quoted: Quoted, values: Sequence[Measurement], measured: float) -> float | None:
    """The value an unfinished run would have reached at the same pace, from the share of its steps that were done."""
    reached = steps_reached(values)
    if not reached or not quoted.steps or reached > quoted.steps:
        return None
    return measured * quoted.steps / reached


def steps_reached(values: Iterable[Measurement]) -> int | None:
    """The optimizer step that the run reached: the furthest of its attempts, which resume from one another."""
    return max((value.steps_completed for value in values if value.steps_completed), default=None)


def _not_counted(value: Measurement, reason: str) -> dict[str, Any]:
    return {
        "code": value.code,
        "value": exact(value.value),
        "method": value.method,
        "source": value.source,
        "attempt": value.attempt,
        "outcome": value.outcome,
        "reason": reason,
    }


def grouped(values: Iterable[Measurement]) -> list[list[Measurement]]:
    """Current values by group, in the groups' order."""
    groups: dict[tuple[str, str, str, str], list[Measurement]] = {}
    for value in values:
        groups.setdefault(value.group, []).append(value)
    return [groups[key] for key in sorted(groups)]


def direct_rows(quoted: Quoted, measured: Iterable[Measurement]) -> tuple[list[Row], list[dict[str, Any]]]:
    """Rows of what was measured itself, and the values that do not count."""
    rows: list[Row] = []
    left_out: list[dict[str, Any]] = []
    for group in grouped(current(measured)):
        row, reasons = row_of(quoted, group)
        rows += [row] if row else []
        left_out += reasons
    return rows, left_out
