"""Statistics against independent computations in numpy and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from service.learning import histogram
from service.learning.statistics import Verdict, cost_log_ratio, interval_loss, summarise, wilson

ratios = st.lists(st.floats(-3, 3, allow_nan=False), min_size=1, max_size=60)


@given(ratios)
def test_figures_equal_numpy(values: list[float]) -> None:
    found = summarise(Verdict(code="device_hours.run", log_ratio=value) for value in values)
    assert found is not None
    measured_over_estimated = np.exp(values)
    errors = np.abs(1 / measured_over_estimated - 1)
    assert found.n == len(values)
    assert found.bias == pytest.approx(np.median(values), rel=1e-12, abs=1e-15)
    assert found.median_absolute_percentage_error == pytest.approx(np.median(errors), rel=1e-9, abs=1e-12)
    assert found.p90_absolute_percentage_error == pytest.approx(np.percentile(errors, 90), rel=1e-9, abs=1e-12)
    assert found.interval_coverage is None and found.pinball_loss is None


def test_a_rate_is_inverted_before_its_error_is_taken() -> None:
    # 110 tokens/s quoted, 100 measured: the time was quoted 1/1.1 of what it took.
    found = summarise([Verdict(code="throughput.input_tokens_per_second", log_ratio=math.log(100 / 110))])
    assert found is not None
    assert found.median_absolute_percentage_error == pytest.approx(1 - 1 / 1.1)
    assert found.bias == pytest.approx(math.log(100 / 110))
    amount = summarise([Verdict(code="device_hours.run", log_ratio=math.log(100 / 110))])
    assert amount is not None and amount.median_absolute_percentage_error == pytest.approx(0.1)


@given(st.integers(0, 200), st.integers(1, 200))
def test_wilson_equals_scipy(successes: int, trials: int) -> None:
    successes = min(successes, trials)
    expected = stats.binomtest(successes, trials).proportion_ci(0.95, method="wilson")
    assert wilson(successes, trials) == pytest.approx((expected.low, expected.high), abs=1e-12)


@given(st.floats(-2, 2), st.floats(-2, 0), st.floats(0, 2), st.floats(0.5, 0.95))
def test_pinball_equals_its_definition(value: float, low: float, high: float, coverage: float) -> None:
    tail = (1 - coverage) / 2
    losses = [max(q * (value - bound), (q - 1) * (value - bound)) for bound, q in ((low, tail), (high, 1 - tail))]
    assert interval_loss(value, low, high, coverage) == pytest.approx(np.mean(losses), abs=1e-12)


def test_coverage_counts_only_quotes_with_an_interval() -> None:
    rows = [Verdict(code="x", log_ratio=0.1, within=True, loss=0.02), Verdict(code="x", log_ratio=0.5, within=False, loss=0.3)]
    found = summarise([*rows, Verdict(code="x", log_ratio=0.2)])
    assert found is not None
    assert (found.n, found.interval_coverage) == (3, 0.5)
    assert found.pinball_loss == pytest.approx(0.16)
    assert summarise([]) is None


@given(st.lists(st.floats(-3, 6, allow_nan=False), min_size=1, max_size=300))
def test_histograms_are_within_two_per_cent_of_exact(values: list[float]) -> None:
    counts = histogram.dense(histogram.count(values))
    for probability in (0.1, 0.5, 0.9):
        ordered = sorted(values)
        near = [ordered[math.floor(probability * (len(values) - 1))], ordered[math.ceil(probability * (len(values) - 1))]]
        reach = 0.02 * max(abs(value) for value in near) + 1e-4
        assert histogram.ratio_quantile(counts, probability) == pytest.approx(np.quantile(values, probability), abs=reach)
        errors = sorted(abs(math.expm1(-value)) for value in values)
        reach = 0.02 * errors[math.ceil(probability * (len(values) - 1))] + 1e-4
        assert histogram.error_quantile(counts, probability) == pytest.approx(np.quantile(errors, probability), abs=reach)


@pytest.mark.parametrize("scale", [0.02, 0.3, 1.5])
def test_histograms_of_many_runs(scale: float) -> None:
    values = np.random.default_rng(5).standard_t(3, size=20_000) * scale + scale
    counts = histogram.dense(histogram.count(values))
    assert histogram.ratio_quantile(counts, 0.5) == pytest.approx(np.median(values), rel=0.02)
    with np.errstate(over="ignore"):
        errors = np.abs(np.expm1(-values))
    assert histogram.error_quantile(counts, 0.5) == pytest.approx(np.median(errors), rel=0.02)
    assert histogram.error_quantile(counts, 0.9) == pytest.approx(np.quantile(errors, 0.9), rel=0.02)


@given(st.lists(st.floats(-800, 800, allow_nan=False), max_size=50), st.lists(st.floats(-5, 5, allow_nan=False), max_size=50))
def test_histograms_merge_by_putting_one_after_the_other(first: list[float], second: list[float]) -> None:
    together = histogram.pack(histogram.count(first)) + histogram.pack(histogram.count(second))
    assert histogram.unpack(together) == histogram.count([*first, *second])
    assert (histogram.add_up([together], [0], 1)[0] == histogram.dense(histogram.count([*first, *second]))).all()
    apart = histogram.add_up([histogram.pack(histogram.count(values)) for values in (first, second)], [1, 0], 2)
    assert [int(row.sum()) for row in apart] == [len(second), len(first)]


def test_a_days_histogram_is_small() -> None:
    values = np.random.default_rng(1).normal(0.05, 0.3, size=280)
    assert len(histogram.pack(histogram.count(values))) < 800
    assert len(histogram.pack(histogram.count(values[:5]))) <= 20
    assert histogram.unpack(histogram.pack({500: 200_000})) == {500: 200_000}


def test_only_rates_turn_their_sign() -> None:
    assert cost_log_ratio("throughput.target_tokens_per_second", 0.3) == -0.3
    assert cost_log_ratio("efficiency.mfu", 0.3) == 0.3
