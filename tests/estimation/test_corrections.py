"""Corrections against a second estimate without them: every item that they move says what the formulas alone give."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.estimation import step_time
from service.estimation.correction import DRIVERS, Factor
from service.estimation.estimate import estimate, training_device_hours
from service.estimation.items import Item
from service.estimation.run import Run
from service.specs.load import run_of

SPEC: dict[str, Any] = {
    "model": {"preset": "llama-3.2-1b"},
    "data": {"total_tokens": 10**10},
    "sequence_length": 4096,
    "batch": {"micro_batch_size": 2, "global_batch_size": 128},
    "hardware": {"device": "h100-sxm-80gb", "device_count": 16},
    "parallelism": {"sharding": "zero3"},
    "checkpointing": {"interval_steps": 50, "weights_interval_steps": 20},
    "evaluation": {
        "interval_steps": 100,
        "tokens_per_evaluation": 100_000,
        "suites": [{"name": "a", "kind": "downstream", "generated_tokens": 1000}],
    },
    "reserves": {"ablation_fraction": 0.1},
    "rates": [
        {"resource": "device_hour", "amount": "2.5", "currency": "USD"},
        {"resource": "storage_gib_month", "amount": "0.02", "currency": "USD"},
    ],
}
RL: dict[str, Any] = {
    "method": {"objective": "grpo"},
    "post_training": {"prompts": 1000, "samples_per_prompt": 4, "prompt_tokens": 100, "generated_tokens": 200, "update_epochs": 2},
}
RUNS = {
    "predicted": run_of(SPEC),
    "rollouts": run_of({**SPEC, **RL}),
    "prior": run_of({**SPEC, "model": {"parameter_count": 10**9}, "evaluation": {}}),
    "adapters": run_of({**SPEC, "method": {"kind": "lora", "objective": "sft", "lora": {"rank": 8, "target_modules": "all-linear"}}}),
}


def factor(code: str, value: float, n: int = 7) -> Factor:
    return Factor(code=code, factor=value, n=n, low=0.9, high=1.15, cell="global")


some_corrections = st.dictionaries(st.sampled_from(DRIVERS), st.sampled_from([0.4, 0.9, 1.0, 1.3, 2.5]), min_size=1)


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(RUNS)), values=some_corrections)
def test_every_item_that_moves_says_what_the_formulas_alone_give(name: str, values: dict[str, float]) -> None:
    run, corrections = RUNS[name], {code: factor(code, value) for code, value in values.items()}
    plain, corrected = estimate(run).items, estimate(run, corrections).items
    assert [item.code for item in plain] == [item.code for item in corrected]
    for item in corrected:
        before = plain[item.code]
        if item.expected is None or before.expected is None:
            assert item.reason or before.reason, item.code
        elif abs(item.expected - before.expected) > 1e-12 * abs(before.expected):
            assert item.basis == "calibrated" and item.n == 7, item.code
            assert item.uncalibrated == pytest.approx(before.expected, rel=1e-15), item.code
            assert item.factor is None or item.factor * before.expected == pytest.approx(item.expected, rel=1e-9), item.code
        elif item.factor is None:
            assert (item.basis == "calibrated") is False, item.code


def test_a_corrected_step_is_predicted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no correction touches is not computed again for the plain values."""
    calls: list[Run] = []
    predict = step_time.predict

    def counted(run: Run, *rest: Any) -> Any:
        calls.append(run)
        return predict(run, *rest)

    monkeypatch.setattr(step_time, "predict", counted)
    estimate(RUNS["predicted"], {code: factor(code, 1.3) for code in DRIVERS})
    assert len(calls) == 1


def test_items_cannot_be_changed_after_they_are_made() -> None:
    item = estimate(RUNS["predicted"]).items["time.step"]
    assert isinstance(item, Item)
    with pytest.raises(AttributeError):
        item.expected = 1.0  # type: ignore[misc]


@pytest.mark.parametrize("value", [0.7, 1.0, 1.9])
def test_the_hours_that_alternatives_are_compared_by_are_those_of_the_quote(value: float) -> None:
    corrections = {"time.step": factor("time.step", value)}
    for run in RUNS.values():
        quoted = estimate(run, corrections).items.expected("device_hours.training")
        assert training_device_hours(run, corrections) == pytest.approx(quoted, rel=1e-15)


def test_a_quote_without_devices_takes_corrections_too() -> None:
    """Nothing is known of the time, and nothing is stated about it."""
    run = replace(RUNS["predicted"], hardware=None)
    items = estimate(run, {code: factor(code, 1.3) for code in DRIVERS}).items
    assert items["time.wall_clock"].expected is None
    assert items["storage.checkpoint_full"].basis == "calibrated"
