"""Coverage of the intervals on simulated streams: 80 % within three points, heavy tails and drift included."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from service.learning.calibration import Fit, RunError
from service.learning.pooling import fit

NOISES: dict[str, Callable[[np.random.Generator], float]] = {
    "normal": lambda rng: rng.normal() * 0.1,
    "student_2": lambda rng: rng.standard_t(2) * 0.1,
    "laplace": lambda rng: rng.laplace() * 0.1,
}
DRIFTS: dict[str, Callable[[float], float]] = {
    "none": lambda share: 0.0,
    "linear": lambda share: 0.8 * share,
    "steps": lambda share: 0.5 * (int(share * 4) % 2),
    "waves": lambda share: 0.3 * np.sin(share * 10),
}
RUNS, WARM_UP, REFIT = 400, 30, 4


def coverage(noise: str, drift: str, cells: int, seeds: int) -> float:
    hits: list[bool] = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        levels = rng.normal(size=cells) * 0.25
        history: list[RunError] = []
        fitted: Fit | None = None
        runs = RUNS if cells == 1 else 2 * RUNS
        for run in range(runs):
            number = int(rng.integers(cells))
            path = (f"d{number % 3}", f"d{number % 3}t{number}", f"d{number % 3}t{number}m")
            error = levels[number] + DRIFTS[drift](run / runs) + NOISES[noise](rng)
            if fitted is not None and run >= WARM_UP:
                prediction = fitted.predict(path)
                assert prediction is not None
                low, high = prediction.interval(0.8)
                hits.append(low <= np.exp(error) / prediction.factor <= high)
            history.append(RunError(path=path, log_ratio=error))
            if run % REFIT == 0:
                fitted = fit("time.step", history)
    return float(np.mean(hits))


@pytest.mark.parametrize("drift", DRIFTS)
@pytest.mark.parametrize("noise", NOISES)
def test_one_cell(noise: str, drift: str) -> None:
    assert coverage(noise, drift, cells=1, seeds=3) == pytest.approx(0.80, abs=0.03)


@pytest.mark.parametrize("drift", ["none", "linear"])
@pytest.mark.parametrize("noise", ["normal", "student_2"])
def test_many_cells(noise: str, drift: str) -> None:
    assert coverage(noise, drift, cells=6, seeds=1) == pytest.approx(0.80, abs=0.03)
