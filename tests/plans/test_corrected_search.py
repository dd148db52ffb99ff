"""A search under own measurements: its rows are the quotes, whichever drivers are corrected."""

from __future__ import annotations

import time
from typing import Any

import pytest

from service.estimation.correction import DRIVERS, Factor
from service.plans import search, space
from service.plans.passes import posted, prepare
from service.plans.search import Limits
from service.quotes import quoting

SPEC: dict[str, Any] = {
    "model": {"preset": "llama-3.2-1b"},
    "data": {"total_tokens": 10**11},
    "sequence_length": 4096,
    "parallelism": {"sharding": "zero3"},
    "hardware": {"device": "h100-sxm-80gb", "device_count": 16},
    "checkpointing": {"interval_steps": 300, "weights_interval_steps": 50},
    "evaluation": {"interval_steps": 100, "tokens_per_evaluation": 1_000_000},
}
FREE: dict[str, list[Any]] = {
    "parallelism.tensor": [1, 2],
    "batch.micro_batch_size": [1, 2, 4],
    "batch.gradient_accumulation_steps": [1, 3],
}


@pytest.mark.parametrize("drivers", [*[(driver,) for driver in DRIVERS], DRIVERS])
@pytest.mark.parametrize("value", [0.6, 1.3])
def test_every_row_of_a_corrected_search_is_its_quote_to_the_last_bit(drivers: tuple[str, ...], value: float) -> None:
    corrections = {code: Factor(code=code, factor=value, n=7, low=0.9, high=1.15, cell="global") for code in drivers}
    wanted = space.read(FREE)
    prepared = prepare(SPEC, wanted, lambda _, __: corrections)
    held = prepared.held_global_batch_size
    limits, until = Limits(), time.monotonic() + 60
    found = search.search(prepared.passes, wanted, held, limits, clock=time.monotonic, until=until).candidates
    assert len(found) > 5
    for row in range(len(found)):
        spec = posted(prepared, wanted, 0, {name: int(column[row]) for name, column in found.axes.items()})
        summary = quoting.build(spec, corrections)["summary"]
        assert summary["device_hours"]["expected"] == found.device_hours[row]
        assert summary["wall_clock_seconds"]["expected"] == found.wall_clock_seconds[row]
        assert summary["peak_memory_bytes_per_device"]["expected"] == found.process_bytes[row]
