"""A search's row is the single quote's, whatever field of a spec is set: nothing is lost on the way through the arrays."""

from __future__ import annotations

import time
from typing import Any

import pytest

from service.plans import search, space
from service.plans.passes import posted, prepare, without_speed
from service.plans.search import Limits
from service.quotes import quoting
from tests.plans.test_plans import figures
from tests.quotes.test_every_field import CHANGES, merged, set_at


def free_of(pointer: str) -> dict[str, list[Any]]:
    """Two axes of the layout, neither of which is the field itself."""
    axes = {"parallelism.tensor": [1, 2, 4], "parallelism.pipeline": [1, 2], "batch.micro_batch_size": [1, 2]}
    own = pointer.strip("/").replace("/", ".")
    left = {name: values for name, values in axes.items() if name != own}
    return dict(list(left.items())[:2])


@pytest.mark.parametrize("pointer", CHANGES)
def test_a_row_equals_the_quote_of_its_spec_to_the_last_bit(pointer: str) -> None:
    parts, value = CHANGES[pointer]
    spec = merged(parts)
    set_at(spec, "/hardware/device_override/memory_bytes", 10**15)  # every layout fits and is compared
    set_at(spec, pointer, value)
    free = space.read(free_of(pointer))
    prepared = prepare(spec, free, lambda _, __: {})
    held = prepared.held_global_batch_size
    found = search.search(prepared.passes, free, held, Limits(), clock=time.monotonic, until=time.monotonic() + 60)
    rows = found.candidates
    assert len(rows) or pointer == "/hardware/device_override/memory_bytes"
    for row in range(len(rows)):
        axes = {name: int(column[row]) for name, column in rows.axes.items()}
        own = posted(prepared, free, int(rows.number[row]), axes)
        quote = quoting.build(without_speed(own))
        assert figures(quote) == (rows.device_hours[row], rows.wall_clock_seconds[row], rows.process_bytes[row])
