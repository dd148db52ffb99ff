"""Whatever a spec may hold: figures are finite, intervals hold their expectation, wholes are their parts, nulls have reasons."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from service.estimation.estimate import estimate
from service.specs.load import run_of

from .whole_jobs import assert_adds_up

counts = st.sampled_from([1, 2, 1000, 10**9, 10**18])
amounts = st.sampled_from([1e-9, 1e-3, 1, 10, 1e6, 1e18, 1e24])
positive = st.sampled_from([1, 3.5, 100])


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object with any of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


suites = st.fixed_dictionaries(
    {"name": st.just("x"), "kind": st.sampled_from(["validation", "downstream", "safety", "memorization", "human"])},
    optional={"tokens": counts, "generated_tokens": counts, "runs": counts},
)
ablations = st.fixed_dictionaries(
    {"name": st.just("a"), "kind": st.sampled_from(["Data Mix", "data-mix", "!"]), "count": counts, "device_hours": amounts}
)
rates = st.fixed_dictionaries(
    {
        "resource": st.sampled_from(["device_hour", "cpu_hour", "storage_gib_month", "human_hour"]),
        "amount": st.sampled_from(["0", "1.5", "99999999.999999"]),
        "currency": st.sampled_from(["USD", "EUR"]),
        "source": st.just("quote"),
        "date": st.just("2026-01-01"),
    }
)
specs = st.fixed_dictionaries(
    {
        "model": st.just({"preset": "llama-3.1-8b"}),
        "data": st.one_of(
            st.just({"total_tokens": 10**12}),
            st.fixed_dictionaries({"samples": counts, "prompt_tokens": positive.map(int), "target_tokens": positive.map(int)}),
        ),
        "batch": st.just({"micro_batch_size": 1, "gradient_accumulation_steps": 16}),
        "hardware": st.fixed_dictionaries({"device": st.just("h100-sxm-80gb"), "device_count": st.sampled_from([1, 7, 1024, 10**7])}),
        "efficiency": st.one_of(
            st.just({"mfu": 0.4}),
            st.fixed_dictionaries({"step_seconds": amounts}),
            st.fixed_dictionaries({"input_tokens_per_second": amounts}),
        ),
        "method": st.fixed_dictionaries({"objective": st.sampled_from(["pretrain", "sft", "dpo", "reward_model", "ppo", "grpo"])}),
        "interval_coverage": st.sampled_from([0.8, 0.5, 0.99]),
    },
    optional={
        "sequence_length": st.just(8192),
        "checkpointing": st.one_of(
            some(
                interval_steps=counts,
                contents=st.sampled_from(["full", "weights"]),
                retain_last=counts,
                weights_interval_steps=counts,
                asynchronous=st.booleans(),
                storage_bytes_per_second=amounts,
                load_seconds=amounts,
            ),
            some(interval_seconds=amounts, storage_bytes_per_second=amounts),
        ),
        "data_pipeline": some(raw_bytes=counts, processed_bytes=counts, cache_copies=positive, input_tokens_per_second=amounts),
        "evaluation": some(
            interval_steps=counts, tokens_per_evaluation=counts, suites=st.lists(suites, min_size=1, max_size=3), device_hours=amounts
        ),
        "reserves": some(
            rerun_fraction=st.sampled_from([0, 1, 100]),
            ablation_fraction=st.sampled_from([0, 1, 100]),
            ablation_runs=st.lists(ablations, min_size=1, max_size=3),
            interruptions_per_device_hour=st.sampled_from([0, 1e-9, 1e-4, 1]),
            restart_seconds=amounts,
        ),
        "post_training": some(
            prompts=counts,
            samples_per_prompt=counts,
            prompt_tokens=counts,
            generated_tokens=counts,
            update_epochs=st.sampled_from([0.5, 1, 4]),
            reference=st.sampled_from(["model", "cached", "none"]),
            reward_parameter_count=counts,
            tool_seconds_per_sample=amounts,
            judge_tokens=counts,
            preference_pairs=counts,
            human_review_items=counts,
            human_seconds_per_item=amounts,
        ),
        "rates": st.lists(rates, max_size=4),
    },
)


@settings(max_examples=80, deadline=None)
@given(spec=specs)
def test_any_spec_gives_figures_that_hold_together(spec: dict[str, Any]) -> None:
    """No infinity, no negative amount, no interval beside its expectation, no silent null, no sum that is not its parts."""
    items = list(estimate(run_of(spec)).items)
    assert_adds_up(items)
    for item in items:
        assert (item.expected is None) == (item.reason is not None), item.code
        values = [value for value in (item.low, item.expected, item.high) if value is not None]
        assert all(math.isfinite(value) and value >= 0 for value in values), item
        for lower, upper in pairwise(values):
            assert lower <= upper * (1 + 1e-12), item
