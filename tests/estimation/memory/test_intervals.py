"""Intervals: wider where no measured run is alike, moved by own measurements, the same for quotes and searches."""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation import memory, parameters
from service.estimation.correction import Factor
from service.estimation.items import Item
from service.kit.merge_patch import patched as merged
from service.specs.load import run_of

SPEC: dict[str, Any] = {
    "model": {"preset": "llama-3.1-8b"},
    "data": {"total_tokens": 10**9},
    "sequence_length": 4096,
    "batch": {"micro_batch_size": 1},
    "software": {"stack": "fsdp_native"},
    "hardware": {"device": "h100-sxm-80gb", "device_count": 8},
}


def items(patch: dict[str, Any], corrections: dict[str, Factor] | None = None) -> dict[str, Item]:
    run = run_of(merged(SPEC, patch))
    return {item.code: item for item in memory.estimate(run, parameters.count(run), corrections or {}).items}


def width(patch: dict[str, Any], code: str = "memory.peak_process") -> float:
    item = items(patch)[code]
    assert item.low is not None and item.high is not None and item.expected is not None
    return (item.high - item.low) / item.expected


@pytest.mark.parametrize(
    ("patch", "word"),
    [
        ({"model": {"preset": "mixtral-8x7b"}}, "mixtures"),
        ({"hardware": {"device": "b200-sxm-192gb"}}, "blackwell"),
        ({"method": {"kind": "frozen", "frozen": ["embeddings"]}}, "frozen"),
    ],
)
def test_the_interval_is_wider_for_what_was_never_measured(patch: dict[str, Any], word: str) -> None:
    assert width(patch) == pytest.approx(1.5 * width({}), rel=1e-9)
    assert any(word in note for note in items(patch)["memory.peak_process"].assumptions)


def test_a_stack_without_measurements_has_the_widest_interval() -> None:
    stacks = ("hf_transformers", "fsdp_native", "deepspeed", "megatron")
    assert width({"software": {"stack": "llm_foundry"}}) > max(width({"software": {"stack": stack}}) for stack in stacks)


def test_the_interval_follows_its_coverage() -> None:
    assert width({"interval_coverage": 0.5}) < width({}) < width({"interval_coverage": 0.95})


@pytest.mark.parametrize("name", ["allocated", "reserved", "process"])
def test_a_correction_scales_the_peak_and_the_parts_still_add_up(name: str) -> None:
    code = f"memory.peak_{name}"
    factor = Factor(code=code, factor=1.1, n=7, low=0.95, high=1.04, cell="global")
    plain, corrected = items({}), items({}, {code: factor})
    peak = corrected[code]
    assert peak.expected == pytest.approx(1.1 * (plain[code].expected or 0), rel=1e-12)
    assert (peak.basis, peak.n, peak.factor, peak.uncalibrated) == ("calibrated", 7, 1.1, plain[code].expected)
    assert peak.low == (peak.expected or 0) * 0.95
    for whole in ("memory.model_states", "memory.peak_allocated", "memory.peak_reserved", "memory.peak_process"):
        total = 0.0
        for item in corrected.values():
            total += (item.expected or 0.0) if item.parent == whole else 0.0
        assert total == corrected[whole].expected
    found = memory.figures(run_of(SPEC), {code: factor})
    assert found is not None
    assert found.process.expected == corrected["memory.peak_process"].expected
    assert found.process.high == corrected["memory.peak_process"].high


def test_a_search_has_the_bounds_of_the_quote() -> None:
    for patch in ({}, {"model": {"preset": "mixtral-8x7b"}}, {"method": {"kind": "qlora"}, "interval_coverage": 0.9}):
        quoted, found = items(patch)["memory.peak_process"], memory.figures(run_of(merged(SPEC, patch)))
        assert found is not None
        searched = found.process
        assert (searched.expected, searched.low, searched.high) == (quoted.expected, quoted.low, quoted.high)


@pytest.mark.parametrize(
    "factors",
    [{"process": 0.4}, {"reserved": 0.3}, {"allocated": 1.5, "process": 0.6}, {"allocated": 1.2, "reserved": 0.8, "process": 0.6}],
)
def test_measured_peaks_that_contradict_each_other_leave_no_negative_part(factors: dict[str, float]) -> None:
    corrections = {
        f"memory.peak_{name}": Factor(code=f"memory.peak_{name}", factor=value, n=9, low=0.9, high=1.1, cell="global")
        for name, value in factors.items()
    }
    found = items({}, corrections)
    values = {code: float(item.expected or 0.0) for code, item in found.items()}
    assert min(values.values()) >= 0
    for whole in {item.parent for item in found.values() if item.parent is not None}:
        parts = sum(values[code] for code, item in found.items() if item.parent == whole)
        assert parts == pytest.approx(values[whole], rel=1e-12)
    assert values["memory.peak_allocated"] <= values["memory.peak_reserved"] <= values["memory.peak_process"]
    if "allocated" not in factors:
        (name, value), *_ = factors.items()
        plain = float(items({})[f"memory.peak_{name}"].expected or 0.0)
        assert values[f"memory.peak_{name}"] == pytest.approx(plain * value, rel=1e-9)
