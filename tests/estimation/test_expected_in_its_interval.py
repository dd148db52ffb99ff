"""Whatever the corrections, every expected value lies in its own interval, and a lower bound below it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.estimation.correction import DRIVERS, Factor
from service.learning import drivers
from service.learning.drivers import Evidence, Facts
from service.quotes.quoting import build

SPECS: list[dict[str, Any]] = [
    {
        "model": {"preset": preset},
        "data": {"total_tokens": 10**11},
        "sequence_length": 4096,
        "software": {"stack": stack},
        "parallelism": {"sharding": sharding},
        "interval_coverage": coverage,
        "hardware": {"device": device, "device_count": 64},
        **more,
    }
    for preset, stack, sharding, coverage, device, more in (
        ("llama-3.1-8b", "megatron", "zero1", 0.8, "h100-sxm-80gb", {}),
        (
            "mixtral-8x7b",
            "fsdp_native",
            "zero3",
            0.95,
            "a100-sxm-80gb",
            {"evaluation": {"interval_steps": 10, "tokens_per_evaluation": 10**7}},
        ),
        ("qwen2.5-7b", "deepspeed", "zero2", 0.3, "b200-sxm-192gb", {"checkpointing": {"interval_steps": 5}}),
        ("llama-3.1-8b", "hf_transformers", "none", 0.5, "h100-sxm-80gb", {"efficiency": {"mfu": 0.4}}),
    )
]

factors = st.dictionaries(
    st.sampled_from(DRIVERS),
    st.tuples(st.floats(1e-3, 1e3), st.floats(1e-3, 1.0), st.floats(1.0, 1e3), st.integers(1, 50)),
)


def assert_ordered(quote: dict[str, Any]) -> None:
    for item in quote["items"]:
        low, expected, high = item["low"], item["expected"], item["high"]
        if expected is None:
            continue
        assert low is None or low <= expected, item
        assert high is None or expected <= high, item


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(SPECS), factors)
def test_every_expected_value_lies_in_its_interval(spec: dict[str, Any], drawn: dict[str, tuple[float, float, float, int]]) -> None:
    corrections = {
        code: Factor(code=code, factor=factor, n=n, low=low, high=high, cell="global") for code, (factor, low, high, n) in drawn.items()
    }
    assert_ordered(build(spec, corrections))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(drivers.LEARNABLE)), st.floats(-3, 3)), min_size=1, max_size=40), st.floats(0.05, 0.99))
def test_what_is_learnt_keeps_it_so(history: list[tuple[str, float]], coverage: float) -> None:
    """Skewed histories too: all errors of the newest runs on one side of what is expected."""
    facts = Facts(team="a", cluster=None, device="h100-sxm-80gb", stack="megatron", method="full", model_family="llama", speed_given=False)
    fits = drivers.learn(
        Evidence(run=f"run {index}", code=code, log_ratio=ratio, facts=facts) for index, (code, ratio) in enumerate(history)
    )
    learnt = drivers.corrections(fits, facts, coverage)
    assert_ordered(build({**SPECS[0], "interval_coverage": coverage}, learnt))


def test_an_interval_beside_its_value_is_refused() -> None:
    with pytest.raises(ValueError, match="leaves out"):
        Factor(code="time.step", factor=1.2, n=19, low=0.5, high=math.exp(-0.1), cell="global")
