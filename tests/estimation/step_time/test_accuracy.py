"""How far predicted steps are from published ones: the limits that the project promised, and rows that the fit did not see."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest

from service.estimation import parameters, step_time
from service.estimation.fitted.step_time import COEFFICIENTS
from tests.benchmarks.fit_time import Model, Residual
from tests.benchmarks.time_report import quantile, subsets
from tests.benchmarks.time_rows import CASES, FILES, Array, Row, rows_of

CLEAN, ALL, SINGLE, MULTI = "clean, full, 16 bit", "all rows", "vTrain, one node", "vTrain, across nodes"


class Shipped(NamedTuple):
    """Rows, the logarithm of predicted over measured, whether the interval holds the measurement, and the sets of rows."""

    rows: list[Row]
    error: Array
    inside: Array
    sets: dict[str, Array]


@pytest.fixture(scope="module")
def shipped() -> Shipped:
    rows = [row for name in FILES for row in rows_of(CASES / name)]
    error, inside = np.zeros(len(rows)), np.zeros(len(rows))
    for i, row in enumerate(rows):
        predicted = step_time.predict(row.run, parameters.count(row.run))
        assert predicted is not None, row.id
        error[i] = math.log(predicted.seconds / row.step)
        inside[i] = predicted.low * predicted.seconds <= row.step <= predicted.high * predicted.seconds
    return Shipped(rows, error, inside, subsets(rows))


@pytest.fixture(scope="module")
def left_out(shipped: Shipped) -> Array:
    """Errors with each group left out of both stages of the fit, the first refitted by one Gauss-Newton step."""
    model, residual = Model(shipped.rows), Residual(shipped.rows)
    step = model.steps(np.log([COEFFICIENTS[name] for name in model.names]))
    keep = np.array([not row.apart for row in shipped.rows])
    groups = np.array([row.group for row in shipped.rows])
    result = np.zeros(len(shipped.rows))
    for group in sorted(set(groups)):
        inside = keep & (groups != group)
        error = model.log_error(step(inside))
        beta = residual.fit(-error, model.fit_weight**2, inside)
        result[groups == group] = (error + residual.matrix @ beta)[groups == group]
    return result


def of(shipped: Shipped, error: Array, name: str) -> tuple[float, float, float]:
    """Median, ninth decile and mean of the absolute error."""
    mask = shipped.sets[name]
    weights = np.array([row.weight for row in shipped.rows])[mask]
    ape = np.abs(np.expm1(error[mask]))
    return quantile(ape, weights, 0.5), quantile(ape, weights, 0.9), float(np.mean(ape))


@pytest.mark.parametrize(("name", "median", "ninth"), [(CLEAN, 0.06, 0.20), (ALL, 0.09, 0.38)])
def test_public_runs(shipped: Shipped, name: str, median: float, ninth: float) -> None:
    found = of(shipped, shipped.error, name)
    assert found[0] <= median and found[1] <= ninth
    mask = shipped.sets[name]
    weights = np.array([row.weight for row in shipped.rows])[mask]
    assert math.exp(quantile(-shipped.error[mask], weights, 0.5)) == pytest.approx(1.0, abs=0.03)


def test_intervals_hold_what_they_say(shipped: Shipped) -> None:
    mask = shipped.sets[ALL]
    weights = np.array([row.weight for row in shipped.rows])[mask]
    assert 0.75 <= np.sum(weights * shipped.inside[mask]) / np.sum(weights) <= 0.90


@pytest.mark.parametrize(("name", "median", "ninth"), [(CLEAN, 0.069, 0.218), (ALL, 0.104, 0.438)])
def test_groups_left_out_are_nearer_than_a_regression_brings_them(
    shipped: Shipped, left_out: Array, name: str, median: float, ninth: float
) -> None:
    """The figures of a regression on 20 features over the same rows, group by group left out."""
    found = of(shipped, left_out, name)
    assert found[0] < median and found[1] < ninth


@pytest.mark.parametrize(("name", "limit"), [(SINGLE, 0.08), (MULTI, 0.12)])
def test_layouts_of_shapes_left_out(shipped: Shipped, left_out: Array, name: str, limit: float) -> None:
    assert of(shipped, left_out, name)[2] <= limit
