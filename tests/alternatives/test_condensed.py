"""Alternatives look at binned samples: what they keep of the data."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from service.alternatives.condensed import BINS, condensed
from service.estimation.run import Data


@settings(max_examples=30, deadline=None)
@given(st.integers(BINS + 1, 400), st.integers(0, 2**32))
def test_samples_and_the_longest_stay_and_the_mean_nearly(count: int, seed: int) -> None:
    draw = random.Random(seed)
    rows = [(draw.randint(0, 5000), draw.randint(1, 5000), draw.randint(1, 1000)) for _ in range(count)]
    before, after = Data(histogram=tuple(rows)), condensed(Data(histogram=tuple(rows)))
    assert after.histogram is not None and before.histogram is not None
    assert len(after.histogram) <= BINS
    samples = sum(row[2] for row in before.histogram)
    assert sum(row[2] for row in after.histogram) == samples
    assert max(row[0] + row[1] for row in after.histogram) == max(row[0] + row[1] for row in before.histogram)
    mean = [sum((row[0] + row[1]) * row[2] for row in data.histogram or ()) / samples for data in (before, after)]
    assert abs(mean[0] - mean[1]) <= 1  # rounding of each bin


def test_a_few_rows_stay_as_they_are() -> None:
    data = Data(histogram=((5, 5, 1), (7, 2, 3)))
    assert condensed(data) is data
    assert condensed(Data(total_tokens=5)) == Data(total_tokens=5)
