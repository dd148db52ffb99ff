"""A row of a search is the quote of its layout to the last bit, whatever own measurements say, contradictions included."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from service.estimation import memory, parameters
from service.estimation.correction import Factor
from service.estimation.run import Run
from service.specs.load import run_of

from .test_properties import MODELS, STACKS, spec

PEAKS = ("allocated", "reserved", "process")


def factor(name: str, value: float, low: float, high: float) -> Factor:
    return Factor(code=f"memory.peak_{name}", factor=value, n=7, low=low, high=high, cell="global")


factors = st.fixed_dictionaries(
    {},
    optional={
        f"memory.peak_{name}": st.builds(factor, st.just(name), st.floats(0.2, 3), st.floats(0.5, 1), st.floats(1, 2)) for name in PEAKS
    },
)
cases = st.fixed_dictionaries(
    {
        "activation_checkpointing": st.sampled_from(["none", "selective", "full"]),
        "attention": st.sampled_from(["flash", "eager"]),
        "parallelism": st.fixed_dictionaries({"sharding": st.sampled_from(["none", "zero1", "zero2", "zero3"])}),
        "precision": st.fixed_dictionaries({"recipe": st.sampled_from(["bf16_mixed", "bf16_pure"])}),
        "method": st.fixed_dictionaries({"kind": st.sampled_from(["full", "lora", "qlora"])}),
        "interval_coverage": st.sampled_from([0.5, 0.8, 0.95]),
    }
)
layouts = st.lists(
    st.tuples(st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 8]), st.integers(1, 8), st.integers(1, 8)),
    min_size=2,
    max_size=6,
)


def laid_out(run: Run, tensor: Any, pipeline: Any, data: Any, micro: Any, steps: Any) -> Run:
    return replace(
        run,
        layout=replace(run.layout, tensor=tensor, pipeline=pipeline, data=data),
        batch=replace(run.batch, micro_batch_size=micro, gradient_accumulation_steps=steps, global_batch_size=micro * steps * data),
    )


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(MODELS), st.sampled_from(STACKS), cases, layouts, factors)
def test_every_row_of_a_search_is_the_quote_of_its_layout(
    model: str, stack: str, case: dict[str, Any], rows: list[tuple[int, ...]], corrections: dict[str, Factor]
) -> None:
    run = run_of(spec(model, stack, **case))
    searched = memory.figures(laid_out(run, *(np.array(column) for column in zip(*rows, strict=True))), corrections)
    assert searched is not None
    for index, row in enumerate(rows):
        one = laid_out(run, *row)
        quoted = {item.code: item for item in memory.estimate(one, parameters.count(one), corrections).items}
        for name in PEAKS:
            item, found = quoted[f"memory.peak_{name}"], getattr(searched, name)
            bounds = (float(np.broadcast_to(value, len(rows))[index]) for value in (found.expected, found.low, found.high))
            assert (item.expected, item.low, item.high) == tuple(bounds)


COUNTED = ("memory.weights", "memory.gradients", "memory.master_weights", "memory.optimizer_states", "memory.model_states")


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(MODELS), st.sampled_from(STACKS), cases, factors)
def test_no_measured_peak_moves_what_is_counted(model: str, stack: str, case: dict[str, Any], corrections: dict[str, Factor]) -> None:
    """Weights, gradients and optimizer states are arithmetic; the parts that come and go take what a peak was corrected by."""
    run = run_of(spec(model, stack, **case))
    counts = parameters.count(run)
    plain, corrected = ({item.code: item for item in memory.estimate(run, counts, by).items} for by in ({}, corrections))
    assert [corrected[code].expected for code in COUNTED] == [plain[code].expected for code in COUNTED]
    for code, item in corrected.items():
        parts = [part.expected for part in corrected.values() if part.parent == code]
        if parts and item.expected is not None:
            assert abs(item.expected - sum(filter(None, parts))) <= 1e-9 * max(item.expected, 1.0)
    states, peak = corrected["memory.model_states"].expected, "memory.peak_allocated"
    if peak in corrections and plain[peak].expected * corrections[peak].factor >= states:
        assert abs(corrected[peak].expected / (plain[peak].expected * corrections[peak].factor) - 1.0) <= 1e-9
