"""What is predicted never reaches below what the device's dense peak allows."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Preview

RUN: dict[str, Any] = {
    "model": {"preset": "llama-3.1-8b"},
    "data": {"total_tokens": 10**9},
    "sequence_length": 4096,
    "parallelism": {"sharding": "zero3"},
    "batch": {"micro_batch_size": 1, "gradient_accumulation_steps": 2},
}
DEVICES = (
    "a100-sxm-80gb", "h100-sxm-80gb", "h20-96gb", "b200-sxm-192gb", "v100-sxm-32gb", "a10g-24gb", "l40s-48gb", "rtx-4090-24gb",
    "mi300x-192gb", "tpu-v5p", "tpu-v6e",
)  # fmt: skip


@pytest.mark.parametrize("coverage", [0.8, 0.99])
@pytest.mark.parametrize("recipe", ["bf16_mixed", "fp8_mixed", "fp32"])
@pytest.mark.parametrize("device", DEVICES)
def test_intervals_end_at_the_peak(preview: Preview, device: str, recipe: str, coverage: float) -> None:
    """lower_bound <= low <= expected <= high, of the step, of training and of the whole job."""
    for stack in ("hf_transformers", "fsdp_native"):
        quote = preview(
            **RUN,
            hardware={"device": device, "device_count": 8},
            precision={"recipe": recipe},
            software={"stack": stack},
            interval_coverage=coverage,
        )
        for code in ("time.step", "time.training", "time.wall_clock", "device_hours.training", "device_hours.run"):
            item = quote["by"][code]
            assert item["lower_bound"] is not None
            assert item["lower_bound"] * (1 - 1e-12) <= item["low"] <= item["expected"] <= item["high"], (stack, code)


def test_a_prior_of_long_samples_counts_their_attention(preview: Preview) -> None:
    """No sequence_length, so no predicted step: of 64,000 tokens a sample in a small model 6 N D is a fraction of the work."""
    quote = preview(
        model={"preset": "smollm2-135m"},
        method={"objective": "sft"},
        data={"samples": 1000, "prompt_tokens": 60_000, "target_tokens": 4_000},
        hardware={"device": "h100-sxm-80gb", "device_count": 8},
    )
    assert quote["by"]["compute.training"]["expected"] > 3 * quote["by"]["compute.6nd"]["expected"]
    training = quote["by"]["time.training"]
    assert training["basis"] == "prior"
    assert training["lower_bound"] <= training["low"] < training["expected"]


@pytest.mark.parametrize("packing", ["none", "pad_to_max"])
def test_samples_that_are_not_cut_take_their_own_time(preview: Preview, packing: str) -> None:
    """sequence_length 512 cuts nothing without truncation: 4,096 tokens a sample take what they take at a length of 4,096."""

    def quoted(length: int) -> dict[str, Any]:
        data = {"samples": 1024, "prompt_tokens": 2048, "target_tokens": 2048, "packing": packing, "truncation": False}
        return preview(**{**RUN, "data": data, "sequence_length": length}, hardware={"device": "h100-sxm-80gb", "device_count": 8})

    short, long = quoted(512)["by"]["time.step"], quoted(4096)["by"]["time.step"]
    assert short["expected"] == pytest.approx(long["expected"], rel=0.02)
    assert short["lower_bound"] <= short["low"]
