"""Impossible values are refused with a pointer, implausible ones kept and flagged."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from service.actuals.measurement import FLAGS, Attempt, Value
from service.actuals.quoted import Quoted, QuotedItem
from service.actuals.rules import flagged, impossible

START = datetime(2026, 1, 1, tzinfo=UTC)
QUOTED = Quoted(
    items={
        code: QuotedItem(code=code, expected=expected, lower_bound=bound)
        for code, expected, bound in (
            ("time.step", 10.0, 4.0),
            ("device_hours.run", 100.0, None),
            ("memory.peak_allocated", 60e9, None),
            ("efficiency.mfu", 0.4, None),
        )
    },
    steps=1000,
    device_count=8,
    device_memory_bytes=85e9,
)


def attempt(code: str, number: float, **changes: Any) -> Attempt:
    """A completed attempt with one value."""
    names = {"scope", "basis", "excludes", "flags"} & changes.keys()
    value = Value(code=code, value=number, method="m", **{name: changes.pop(name) for name in names})
    return Attempt(source="api", outcome="completed", values=(value,), **changes)


@pytest.mark.parametrize(
    ("tried", "pointer"),
    [
        (attempt("memory.peak_allocated", 90e9), "/measurements/0/value"),
        (attempt("memory.peak_process", 90e9), "/measurements/0/value"),
        (attempt("memory.peak_allocated", 8.1 * 85e9, scope="sum"), "/measurements/0/value"),
        (attempt("device_hours.run", -1.0), "/measurements/0/value"),
        (attempt("time.step", 0.0), "/measurements/0/value"),
        (attempt("tokens.input", 0.0), "/measurements/0/value"),
        (attempt("throughput.input_tokens_per_second", 0.0), "/measurements/0/value"),
        (attempt("device_hours.run", float("inf")), "/measurements/0/value"),
        (attempt("device_hours.run", 1e200), "/measurements/0/value"),
        (attempt("time.step", 1e-200), "/measurements/0/value"),
        (attempt("device_hours.run", 1.0, started_at=START, ended_at=START - timedelta(seconds=1)), "/ended_at"),
    ],
)
def test_impossible(tried: Attempt, pointer: str) -> None:
    """Each has its pointer."""
    assert [found.pointer for found in impossible(tried, QUOTED)] == [pointer]


@pytest.mark.parametrize(
    "tried",
    [
        attempt("memory.peak_allocated", 85e9),
        attempt("memory.peak_allocated", 8 * 80e9, scope="sum"),
        attempt("time.evaluation", 0.0),
        attempt("device_hours.run", 0.0),
        attempt("host_memory.offload", 500e9),
        attempt("device_hours.run", 1.0, started_at=START, ended_at=START),
    ],
)
def test_possible(tried: Attempt) -> None:
    """Full devices, nothing evaluated, host memory."""
    assert impossible(tried, QUOTED) == []


def test_a_value_twice() -> None:
    """One request cannot give two values of one code, method and scope."""
    twice = Attempt(
        source="api",
        outcome="completed",
        values=(Value(code="time.step", value=1.0, method="m"), Value(code="time.step", value=2.0, method="m")),
    )
    assert [found.pointer for found in impossible(twice, QUOTED)] == ["/measurements/1/value"]


@pytest.mark.parametrize(
    ("tried", "flag"),
    [
        (attempt("time.step", 600.0), "far_from_estimate"),
        (attempt("time.step", 3.0), "below_lower_bound"),
        (attempt("memory.peak_allocated", 85.5e9), "above_device_memory"),
        (attempt("efficiency.mfu", 1.2), "above_peak"),
        (attempt("device_hours.run", 100.0, device_count=16), "device_count_differs"),
        (attempt("time.wall_clock", 8000.0, started_at=START, ended_at=START + timedelta(hours=1)), "longer_than_window"),
        (attempt("device_hours.run", 100.0, device_count=8, started_at=START, ended_at=START + timedelta(hours=1)), "longer_than_window"),
        (attempt("time.step", 12.0, steps_completed=5), "first_step_included"),
    ],
)
def test_implausible(tried: Attempt, flag: str) -> None:
    """Kept, and said."""
    assert impossible(tried, QUOTED) == []
    (value,) = flagged(tried, QUOTED).values
    assert flag in value.flags and value.flags[0] in FLAGS and value.value == tried.values[0].value


def test_plausible_is_not_flagged() -> None:
    """An ordinary value has no flags; those the caller set stay."""
    (value,) = flagged(attempt("time.step", 12.0, steps_completed=500, excludes=("warmup",), flags=("host_timed",)), QUOTED).values
    assert value.flags == ("host_timed",)


def test_allocated_cannot_exceed_reserved() -> None:
    """One allocator handed out more than it had."""
    values = tuple(
        Value(code=f"memory.peak_{kind}", value=n, method="torch", scope="max") for kind, n in (("allocated", 70e9), ("reserved", 60e9))
    )
    found = flagged(Attempt(source="api", outcome="completed", values=values), QUOTED)
    assert found.values[0].flags == ("allocated_above_reserved",)
