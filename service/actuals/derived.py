"""What follows from measurements: times from hours, hours from an attempt's window, and the implied MFU.

The MFU needs no formula of its own: estimated MFU x estimated device-seconds is the run's FLOPs over the peak, in whatever
convention, so the implied MFU is that product over the measured device-seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .comparison import Row, current, steps_reached
from .measurement import Measurement
from .quoted import Quoted

_MFUS = ("efficiency.mfu", "efficiency.mfu_6nd", "efficiency.mfu_causal", "efficiency.mfu_full_attention", "efficiency.hfu")
_RATE = "throughput.input_tokens_per_second"


def derived_rows(quoted: Quoted, direct: Sequence[Row], measured: Sequence[Measurement]) -> list[Row]:
    """Rows of codes that were not measured themselves but follow from what was."""
    values = current(measured)
    found = {row.code: row for row in reversed(direct)}  # the first of a code, in the order of sources
    made: list[Row] = []

    def add(row: Row | None) -> None:
        if row is not None and row.code not in found:
            found[row.code] = row
            made.append(row)

    for row in _from_windows(quoted, values):
        add(row)
    devices = _devices(values)
    if devices:
        for seconds, hours in (("time.wall_clock", "device_hours.run"), ("time.training", "device_hours.training")):
            add(_scaled(quoted, found.get(hours), seconds, 3600 / devices))
            add(_scaled(quoted, found.get(seconds), hours, devices / 3600))
    steps = steps_reached(values)
    if steps:
        add(_scaled(quoted, found.get("time.training"), "time.step", 1 / steps))
        if not any(row.code == "time.training" for row in direct):
            add(_scaled(quoted, found.get("time.step"), "time.training", steps, points=True))
            if devices:
                add(_scaled(quoted, found.get("time.training"), "device_hours.training", devices / 3600))
    add(_step_from_rate(quoted, found.get(_RATE)))
    add(_rate_from_step(quoted, found.get("time.step")))
    add(_training_at_most(quoted, found.get("device_hours.run")))
    for code in _MFUS:
        add(_implied(quoted, code, found, devices, steps))
    return made


def _devices(values: Sequence[Measurement]) -> int | None:
    """The device count of the attempts, where they agree."""
    counts = {value.device_count for value in values if value.device_count}
    return counts.pop() if len(counts) == 1 else None


def _row(quoted: Quoted, code: str, measured: float, origin: Row, method: str) -> Row:
    item = quoted.items.get(code)
    return replace(
        origin,
        code=code,
        estimated=item.expected if item else None,
        low=item.low if item else None,
        high=item.high if item else None,
        measured=measured,
        projected=None,
        method=method,
        derived=True,
        scope=None,
        basis=None,
    )


def _scaled(quoted: Quoted, origin: Row | None, code: str, factor: float, *, points: bool = False) -> Row | None:
    if origin is None or (points and origin.bound):
        return None
    # A step's time follows from an unfinished run too: it is an average, not a total.
    made = _row(quoted, code, origin.measured * factor, origin, f"from {origin.code}, {origin.method}")
    return replace(made, bound=None) if code == "time.step" else made


def _from_windows(quoted: Quoted, values: Sequence[Measurement]) -> list[Row]:
    """Wall clock and device-hours from the start and end of attempts of one source, where all of them have both."""
    for source in sorted({value.source for value in values}):
        attempts = {value.attempt: value for value in values if value.source == source and value.speaks_of_training}
        windows = [
            ((value.ended_at - value.started_at).total_seconds(), value.device_count)
            for value in attempts.values()
            if value.started_at and value.ended_at
        ]
        if not windows or len(windows) < len(attempts):
            continue
        complete = any(value.outcome == "completed" for value in attempts.values())
        base = Row(
            code="",
            estimated=None,
            low=None,
            high=None,
            measured=0.0,
            method="",
            attempts=len(attempts),
            bound=None if complete else "lower",
            source=source,
            attempt_numbers=tuple(sorted(attempts)),
        )
        rows = [_row(quoted, "time.wall_clock", sum(seconds for seconds, _ in windows), base, "ended_at - started_at")]
        if all(devices for _, devices in windows):
            hours = sum(seconds * (devices or 0) for seconds, devices in windows) / 3600
            rows.append(_row(quoted, "device_hours.run", hours, base, "(ended_at - started_at) x device_count"))
        return rows
    return []


def _step_from_rate(quoted: Quoted, rate: Row | None) -> Row | None:
    """Seconds a step from tokens a second, at the quoted tokens a step."""
    tokens, steps = quoted.expected("tokens.input"), quoted.steps
    if rate is None or rate.bound or not tokens or not steps or not rate.measured:
        return None
    return _row(quoted, "time.step", tokens / steps / rate.measured, rate, f"quoted tokens a step / {rate.code}")


def _rate_from_step(quoted: Quoted, step: Row | None) -> Row | None:
    tokens, steps = quoted.expected("tokens.input"), quoted.steps
    if step is None or step.bound or not tokens or not steps or not step.measured:
        return None
    return _row(quoted, _RATE, tokens / steps / step.measured, step, "quoted tokens a step / time.step")


def _training_at_most(quoted: Quoted, run: Row | None) -> Row | None:
    """Pure training took at most the whole run's hours."""
    if run is None or run.bound:
        return None
    return replace(_row(quoted, "device_hours.training", run.measured, run, "at most device_hours.run"), bound="upper")


def _implied(quoted: Quoted, code: str, found: dict[str, Row], devices: int | None, steps: int | None) -> Row | None:
    estimated, quoted_hours = quoted.expected(code), quoted.expected("device_hours.training")
    if not estimated or not quoted_hours:
        return None
    # The purest figure first: hours of training itself, then a step's time, then the whole run's hours.
    training, step, run = found.get("device_hours.training"), found.get("time.step"), found.get("device_hours.run")
    share = steps / quoted.steps if steps and quoted.steps else 1.0  # FLOPs of the steps that were done
    if training is not None and training.bound is None and training.measured:
        measured = estimated * quoted_hours * share / training.measured
        return _row(quoted, code, measured, training, f"implied by device_hours.training ({training.method})")
    quoted_step, count = quoted.expected("time.step"), devices or quoted.device_count
    if step is not None and step.bound is None and step.measured and quoted_step and count and quoted.device_count:
        measured = estimated * quoted_step * quoted.device_count / (step.measured * count)
        return _row(quoted, code, measured, step, f"implied by time.step ({step.method})")
    if run is not None and run.measured and (run.bound is None or steps):
        measured = estimated * quoted_hours * share / run.measured
        made = _row(quoted, code, measured, run, f"implied by device_hours.run ({run.method}): the whole run's")
        return replace(made, bound=None)
    return None
