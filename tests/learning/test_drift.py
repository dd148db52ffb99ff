"""The alarm's promises, by simulation: what it finds within 20 runs, and how often it cries wolf."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from service.learning import drift

Noise = Callable[[np.random.Generator, int], np.ndarray]
STREAMS = 300
NOISES: dict[str, tuple[Noise, float]] = {
    "normal": (lambda rng, n: rng.normal(size=n) * 0.2, 0.2),
    "laplace": (lambda rng, n: rng.laplace(size=n) * 0.15, 0.15 * 2**0.5),
    "student": (lambda rng, n: rng.standard_t(3, size=n) * 0.12, 0.12 * 3**0.5),
}


def found_within_20(noise: str, shift: float, baseline: int) -> float:
    make, deviation = NOISES[noise]
    rng = np.random.default_rng(11)
    hits, judged = 0, 0
    for _ in range(STREAMS):
        values = make(rng, baseline + 20)
        values[baseline:] += shift * deviation
        alarms = drift.changes(values)
        if any(alarm.found < baseline for alarm in alarms):
            continue
        judged += 1
        hits += bool(alarms)
    return hits / judged


@pytest.mark.parametrize("noise", NOISES)
def test_a_change_in_bias_is_found_within_20_runs(noise: str) -> None:
    assert found_within_20(noise, 1.5, 30) >= 0.93
    assert found_within_20(noise, -2.0, 30) >= 0.98
    assert found_within_20(noise, 2.0, 20) >= 0.95


@pytest.mark.parametrize("noise", NOISES)
def test_false_alarms_are_as_rare_as_stated(noise: str) -> None:
    make, _ = NOISES[noise]
    rng = np.random.default_rng(12)
    alarms = sum(bool(drift.changes(make(rng, 100))) for _ in range(STREAMS))
    assert alarms / STREAMS <= 0.15


def test_one_outlier_raises_no_alarm() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=60) * 0.05
    values[30] = np.log(10)
    assert drift.changes(values) == []


def test_the_change_is_dated_and_named() -> None:
    rng = np.random.default_rng(4)
    values = np.concatenate([rng.normal(0, 0.05, 40), rng.normal(0.3, 0.05, 20)])
    change = drift.last_change(list(values))
    assert change is not None
    assert change.upward and 38 <= change.since <= 41 and change.found < 50


def test_a_steady_stream_says_nothing() -> None:
    assert drift.last_change([0.1] * 50) is None
    assert drift.last_change([]) is None
