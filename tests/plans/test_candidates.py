"""What is answered of many layouts is what sorting all of them and comparing each with every other would answer."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from service.plans.candidates import Candidates, pareto, ranked
from service.plans.legal import divides

# Few distinct figures, so that many rows tie.
ROWS = st.lists(st.tuples(*[st.integers(0, 4)] * 3), max_size=40)


def of(rows: list[tuple[int, int, int]]) -> Candidates:
    seconds, hours, room = (np.array([row[i] for row in rows], dtype=float) for i in range(3))
    return Candidates(
        number=np.zeros(len(rows), dtype=np.int64),
        axes={},
        wall_clock_seconds=seconds,
        device_hours=hours,
        process_bytes=-room,
        headroom_bytes=room,
        certain=np.ones(len(rows), dtype=bool),
    )


def beats(one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    return one != other and one[0] <= other[0] and one[1] <= other[1] and one[2] >= other[2]


@given(ROWS, st.none() | st.integers(1, 6))
def test_the_front_is_what_no_other_row_beats_fastest_first(rows: list[tuple[int, int, int]], most: int | None) -> None:
    front = [i for i, row in enumerate(rows) if row not in rows[:i] and not any(beats(other, row) for other in rows)]
    front.sort(key=lambda i: (rows[i][0], rows[i][1], -rows[i][2]))
    assert pareto(of(rows), most).tolist() == front[:most]


@given(ROWS, st.none() | st.integers(1, 6))
def test_the_best_rows_are_the_first_of_all_rows_in_order(rows: list[tuple[int, int, int]], most: int | None) -> None:
    order = sorted(range(len(rows)), key=lambda i: (rows[i][1], -rows[i][2], i))
    found = of(rows)
    assert ranked(found, found.device_hours, most).tolist() == order[:most]


@given(st.integers(1, 2**53), st.integers(1, 2**31))
def test_whole_numbers_divide_as_integers_do(dividend: int, divisor: int) -> None:
    for number in (dividend, dividend - dividend % divisor):
        assert bool(divides(float(number), float(divisor))) == (number % divisor == 0)
