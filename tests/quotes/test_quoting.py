"""The quote's document: parts add up, nothing is null without a reason, the stored spec gives the same items again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.estimation.correction import Factor
from service.quotes.quoting import build

CASES = Path(__file__).parent.parent / "cases"
SPECS = [json.loads(line)["spec"] for line in (CASES / "measured_public.jsonl").read_text().splitlines()]
LLAMA: dict[str, Any] = {
    "model": {"preset": "llama-3.1-8b"},
    "data": {"total_tokens": 10**9},
    "sequence_length": 4096,
    "batch": {"micro_batch_size": 1, "gradient_accumulation_steps": 8},
    "parallelism": {"sharding": "zero3"},
    "hardware": {"device": "h100-sxm-80gb", "device_count": 64},
}
PEAK = 989.4e12


def by_code(quote: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Items by code; a code is used once."""
    found = {item["code"]: item for item in quote["items"]}
    assert len(found) == len(quote["items"])
    return found


def check(quote: dict[str, Any]) -> None:
    """What holds for every quote."""
    items = by_code(quote)
    parts: dict[str, list[Any]] = {}
    for item in items.values():
        assert (item["expected"] is None) == (item["reason"] is not None), item
        if item["expected"] is None:
            assert item["low"] is None and item["high"] is None
        elif item["low"] is not None and item["high"] is not None:
            assert item["low"] <= item["expected"] <= item["high"], item
        if item["parent"] is not None:
            assert item["parent"] in items
            parts.setdefault(item["parent"], []).append(item["expected"])
    for parent, values in parts.items():
        whole = items[parent]["expected"]
        if None in values:
            assert whole is None, f"{parent} is known though a part is not"
        else:
            assert whole == pytest.approx(sum(values), rel=1e-12, abs=1e-9), parent
    json.dumps(quote, allow_nan=False)


def test_wholes_of_every_published_run() -> None:
    for spec in SPECS[::7]:
        check(build(spec))


@pytest.mark.parametrize("spec", SPECS[::60], ids=lambda spec: spec["name"])
def test_the_stored_spec_gives_the_same_items(spec: dict[str, Any]) -> None:
    quote = build(spec)
    again = build(json.loads(json.dumps(quote["spec"])))
    for key in ("items", "summary", "memory_phases", "saved_bytes_per_layer", "resolved"):
        assert json.dumps(again[key]) == json.dumps(quote[key]), key


MINIMAL: list[dict[str, Any]] = [
    {"model": {"preset": "llama-3.1-8b"}, "data": {"total_tokens": 10**9}},
    {"model": {"parameter_count": 10**9}, "data": {"total_tokens": 10**9}},
    {"model": {"parameter_count": 10**9}, "data": {"total_tokens": 10**9}, "method": {"kind": "qlora"}, "sequence_length": 512},
    {"model": {"parameter_count": 10**9}, "data": {"samples": 10, "prompt_tokens": 5}, "hardware": {"device": "tpu-v5p"}},
    {"model": {"preset": "llama-3.1-8b"}, "data": {"total_tokens": 10**9}, "sequence_length": 512},
    {"model": {"preset": "llama-3.1-8b"}, "data": {"total_tokens": 10**9}, "hardware": {"device": "l4-24gb"}},
    {"model": {"preset": "llama-3.1-8b"}, "data": {"total_tokens": 1}, "hardware": {"device": "l4-24gb"}, "sequence_length": 1},
]


@pytest.mark.parametrize("spec", MINIMAL)
@pytest.mark.parametrize("efficiency", [None, {"mfu": 0.4}, {"hfu": 0.4}, {"step_seconds": 1}, {"input_tokens_per_second": 1000}])
def test_what_is_not_known_is_null_with_a_reason(spec: dict[str, Any], efficiency: dict[str, Any] | None) -> None:
    quote = build({**spec, "efficiency": efficiency})
    check(quote)
    items = by_code(quote)
    if "hardware" not in spec:
        assert items["time.training"]["expected"] is None and items["device_hours.total"]["expected"] is None
        assert quote["summary"]["fits"] is None
    if "sequence_length" not in spec and "total_tokens" in spec["data"]:
        assert items["time.step"]["expected"] is None and items["memory.activations"]["expected"] is None


@settings(max_examples=60, deadline=None)
@given(
    mfu=st.floats(0.01, 1),
    convention=st.sampled_from(["6nd", "causal", "full_attention"]),
    devices=st.sampled_from([1, 8, 64, 1024]),
    tokens=st.integers(10**6, 10**13),
)
def test_a_given_mfu_gives_the_time_exactly(mfu: float, convention: str, devices: int, tokens: int) -> None:
    code = {"6nd": "compute.6nd", "causal": "compute.training", "full_attention": "compute.training_full_attention"}[convention]
    quote = build(
        {
            **LLAMA,
            "data": {"total_tokens": tokens},
            "hardware": {"device": "h100-sxm-80gb", "device_count": devices},
            "efficiency": {"mfu": mfu, "mfu_convention": convention},
        }
    )
    items = by_code(quote)
    assert items["time.training"]["expected"] == items[code]["expected"] / (devices * mfu * PEAK)
    assert items["efficiency.mfu"]["expected"] == mfu
    assert quote["summary"]["mfu_convention"] == convention
    assert items["device_hours.training"]["expected"] == pytest.approx(items["time.training"]["expected"] * devices / 3600, rel=1e-12)


def test_the_lower_bound_is_the_recipes_own_peak() -> None:
    for recipe, peak in (("bf16_mixed", PEAK), ("fp8_mixed", 1978.9e12), ("fp32", 66.9e12)):
        items = by_code(build({**LLAMA, "precision": {"recipe": recipe}}))
        bound = items["compute.training"]["expected"] / (64 * peak)
        assert items["time.training"]["lower_bound"] == pytest.approx(bound, rel=1e-12)
        assert items["time.wall_clock"]["lower_bound"] == pytest.approx(bound, rel=1e-12)
        assert items["time.training"]["expected"] >= bound
        # Every MFU divides by the 16-bit peak, whatever the recipe.
        mfu = items["compute.6nd"]["expected"] / (items["time.training"]["expected"] * 64 * PEAK)
        assert items["efficiency.mfu_6nd"]["expected"] == pytest.approx(mfu, rel=1e-12)


def test_hfu_counts_the_recomputation() -> None:
    lora = {"kind": "lora", "lora": {"rank": 16, "target_modules": "all-linear"}}
    for method, forward_and_back, whole in (({"kind": "full"}, 6, 8), (lora, 4, 6)):
        items = by_code(build({**LLAMA, "method": method, "activation_checkpointing": "full", "efficiency": {"hfu": 0.4}}))
        assert items["efficiency.mfu_6nd"]["expected"] == pytest.approx(0.4 * forward_and_back / whole, rel=1e-12)


def factor(code: str, value: float) -> dict[str, Factor]:
    """Own measurements that were ``value`` times the estimate."""
    return {code: Factor(code=code, factor=value, n=12, low=0.9, high=1.2, cell="global")}


def test_a_correction_of_the_step_time_reaches_everything_that_follows() -> None:
    plain, corrected = by_code(build(LLAMA)), by_code(build(LLAMA, factor("time.step", 1.5), "v1"))
    for code in ("time.step", "time.training", "device_hours.training"):
        assert corrected[code]["expected"] == pytest.approx(1.5 * plain[code]["expected"], rel=1e-12)
        assert corrected[code]["basis"] == "calibrated"
        assert (corrected[code]["n"], corrected[code]["factor"]) == (12, 1.5)
        assert corrected[code]["uncalibrated"] == pytest.approx(plain[code]["expected"], rel=1e-12)
        assert corrected[code]["low"] == pytest.approx(0.9 * corrected[code]["expected"], rel=1e-12)
    assert corrected["efficiency.mfu"]["expected"] == pytest.approx(plain["efficiency.mfu"]["expected"] / 1.5, rel=1e-12)
    rate = "throughput.input_tokens_per_second"
    assert corrected[rate]["expected"] == pytest.approx(plain[rate]["expected"] / 1.5, rel=1e-12)
    check(build(LLAMA, factor("time.step", 1.5), "v1"))


def test_a_correction_leaves_what_the_caller_gave() -> None:
    spec = {**LLAMA, "efficiency": {"mfu": 0.4}}
    assert build(spec, factor("time.step", 1.5))["items"] == build(spec)["items"]


@pytest.mark.parametrize("code", ["memory.peak_allocated", "memory.peak_reserved", "memory.peak_process"])
def test_a_correction_of_a_peak(code: str) -> None:
    plain, corrected = by_code(build(LLAMA)), by_code(build(LLAMA, factor(code, 1.25)))
    assert corrected[code]["expected"] == pytest.approx(1.25 * plain[code]["expected"], rel=1e-9)
    assert corrected[code]["basis"] == "calibrated"
    assert corrected[code]["uncalibrated"] == pytest.approx(plain[code]["expected"], rel=1e-9)
    check(build(LLAMA, factor(code, 1.25)))


def test_a_correction_of_a_checkpoint() -> None:
    code = "storage.checkpoint_full"
    plain, corrected = by_code(build(LLAMA)), by_code(build(LLAMA, factor(code, 1.1)))
    assert corrected[code]["expected"] == pytest.approx(1.1 * plain[code]["expected"], rel=1e-12)
    assert corrected[code]["uncalibrated"] == pytest.approx(plain[code]["expected"], rel=1e-12)
    assert corrected["storage.checkpoints_retained"]["expected"] > plain["storage.checkpoints_retained"]["expected"]


def test_a_pilot_replaces_the_prior() -> None:
    items = by_code(build(LLAMA, pilot={"time.step": 7.5}))
    assert items["time.step"]["expected"] == 7.5
    assert items["time.step"]["basis"] == items["time.training"]["basis"] == "pilot"
    items = by_code(build(LLAMA, pilot={"throughput.input_tokens_per_second": 1e5}))
    assert items["time.training"]["expected"] == pytest.approx(10**9 / 1e5)
    items = by_code(build(LLAMA, pilot={"memory.peak_allocated": 5e10}))
    assert items["memory.peak_allocated"]["expected"] == pytest.approx(5e10)
    for code in ("memory.peak_allocated", "memory.peak_reserved", "memory.peak_process"):
        assert items[code]["basis"] == "pilot"  # nothing was calibrated
    check(build(LLAMA, pilot={"memory.peak_allocated": 5e10, "time.step": 7.5}))


def test_the_quick_order() -> None:
    order = ["tokens", "compute", "time", "memory", "storage", "reserves", "cost"]
    rates = [{"resource": "device_hour", "amount": "2.50", "currency": "USD"}]
    first = list(dict.fromkeys(item["section"] for item in build({**LLAMA, "rates": rates})["items"]))
    assert first == order
