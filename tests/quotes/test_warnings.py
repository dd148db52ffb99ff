"""Every warning: raised where its mistake is made, and silent on a sound budget."""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation.warnings import MEANINGS, Warning
from service.estimation.warnings.rules import RULES
from service.quotes.quoting import build

LLAMA = {"preset": "llama-3.1-8b"}
H100 = {"device": "h100-sxm-80gb"}
SOUND: dict[str, Any] = {
    "model": LLAMA,
    "data": {"total_tokens": 200_000_000_000},
    "sequence_length": 4096,
    "activation_checkpointing": "full",
    "parallelism": {"sharding": "zero3"},
    "batch": {"micro_batch_size": 1, "global_batch_size": 1024},
    "hardware": {**H100, "device_count": 256},
    "efficiency": {"step_seconds": 10},
    "evaluation": {"interval_steps": 500, "tokens_per_evaluation": 10_000_000},
    "reserves": {"ablation_fraction": 0.15},
}


def codes(**parts: Any) -> set[str]:
    """Warnings of the sound budget with parts changed."""
    return {warning["code"] for warning in build({**SOUND, **parts})["warnings"]}


def test_a_sound_budget_has_none() -> None:
    assert codes() == set()


SFT = {"objective": "sft"}
CHANGES: dict[str, dict[str, Any]] = {
    "parameters_only": {"model": {"parameter_count": 8e9}},
    "six_nd_off": {"sequence_length": 32_768},
    "long_context_dominates": {"sequence_length": 131_072},
    "padding_dominates": {"data": {"prompt_tokens": [10, 4000], "target_tokens": 5}, "batch": {"micro_batch_size": 2}, "method": SFT},
    "masked_prompts_cost_compute": {"data": {"samples": 10**6, "prompt_tokens": 800, "target_tokens": 200}, "method": SFT},
    "packing_without_mask": {
        "data": {"samples": 10**6, "prompt_tokens": 800, "target_tokens": 200, "packing": "packed", "cross_sample_attention": True}
    },
    "tokens_per_parameter": {"data": {"total_tokens": 15e12}},
    "repeated_data": {"data": {"total_tokens": 200e9, "unique_tokens": 50e9}},
    "sequence_beyond_positions": {"sequence_length": 262_144},
    "peak_taken_as_real": {"efficiency": {"mfu": 0.9}},
    "faster_than_peak": {"efficiency": {"step_seconds": 0.1}},
    "recipe_without_unit": {"precision": {"recipe": "fp8_mixed"}, "hardware": {"device": "a100-sxm-80gb", "device_count": 256}},
    "tensor_parallel_across_nodes": {"parallelism": {"tensor": 16}},
    "no_pilot": {"efficiency": {"mfu": 0.4}},
    "does_not_fit": {"hardware": {**H100, "device_count": 1}},
    "no_evaluation": {"evaluation": None},
    "no_ablation_reserve": {"reserves": None},
    "no_failure_reserve": {"reserves": {"rerun_fraction": 0}},
    "main_run_is_the_budget": {"reserves": {"rerun_fraction": 0, "ablation_fraction": 0}},
    "small_fine_tune": {"data": {"samples": 10_000, "prompt_tokens": 800, "target_tokens": 200}, "method": SFT},
    "rollouts_not_trained_on": {
        "data": {"samples": 8000, "prompt_tokens": 300, "target_tokens": 500},
        "method": {"objective": "grpo"},
        "post_training": {"prompts": 8000, "samples_per_prompt": 8, "prompt_tokens": 300, "generated_tokens": 500},
    },
    "sparse_peak": {"hardware": {**H100, "device_count": 256, "device_override": {"peak_bf16_dense_flops_per_second": 1979e12}}},
    "no_effect": {"decoder_sequence_length": 100},
    "uneven_batch": {"batch": {"global_batch_size": 1000}},
    "batch_exceeds_data": {"data": {"total_tokens": 4096 * 1000}},
    "expert_parallel_exceeds_devices": {"parallelism": {"expert": 512}},
}


@pytest.mark.parametrize("code", CHANGES)
def test_warning(code: str) -> None:
    assert code in codes(**CHANGES[code])


def test_every_rule_has_a_case() -> None:
    names = {"beyond_positions": "sequence_beyond_positions"}
    assert {names.get(rule.__name__, rule.__name__) for rule in RULES} <= set(CHANGES)


def test_rollouts_that_are_trained_on_are_as_they_should_be() -> None:
    change = {**CHANGES["rollouts_not_trained_on"], "data": {"samples": 64_000, "prompt_tokens": 300, "target_tokens": 500}}
    assert "rollouts_not_trained_on" not in codes(**change)


def test_a_small_fine_tune_needs_no_reserve_against_itself() -> None:
    assert "main_run_is_the_budget" not in codes(**CHANGES["small_fine_tune"], **CHANGES["main_run_is_the_budget"])


def test_images_are_not_held_against_laws_of_text() -> None:
    change = {"model": {"preset": "vit-b-16"}, "data": {"samples": 1_281_167, "epochs": 300}, "sequence_length": None}
    assert not {"tokens_per_parameter", "repeated_data"} & codes(**change)


def test_too_few_tokens_are_not_excused_by_inference() -> None:
    warnings = build({**SOUND, "data": {"total_tokens": 2e9}})["warnings"]
    detail = next(warning["detail"] for warning in warnings if warning["code"] == "tokens_per_parameter")
    assert "fewer" in detail and "inference" not in detail


def test_memory_is_told_as_devices_show_it() -> None:
    warnings = build({**SOUND, **CHANGES["does_not_fit"]})["warnings"]
    assert "79.2 GiB on the device" in next(warning["detail"] for warning in warnings if warning["code"] == "does_not_fit")


def test_uncertain_fit() -> None:
    peak = next(i for i in build(SOUND)["items"] if i["code"] == "memory.peak_process")
    assert peak["low"] < peak["expected"] < peak["high"]
    hardware = {**H100, "device_count": 256, "device_override": {"memory_bytes": round(peak["expected"])}}
    quote = build({**SOUND, "hardware": hardware})
    assert quote["summary"]["fits"] == "uncertain"
    assert "fit_uncertain" in {warning["code"] for warning in quote["warnings"]}
    hardware["device_override"] = {"memory_bytes": round(peak["low"] * 0.99)}
    assert build({**SOUND, "hardware": hardware})["summary"]["fits"] is False
    hardware["device_override"] = {"memory_bytes": round(peak["high"] * 1.01)}
    assert build({**SOUND, "hardware": hardware})["summary"]["fits"] is True


def test_pointers_lead_into_the_spec() -> None:
    for change in CHANGES.values():
        for warning in build({**SOUND, **change})["warnings"]:
            assert warning["pointer"] is None or warning["pointer"].startswith("/")
            assert len(warning["detail"]) > 20


def test_a_warning_whose_code_nobody_explained_cannot_be_issued() -> None:
    with pytest.raises(ValueError, match="catalogue"):
        Warning(code="made_up", detail="?")


def test_every_rule_is_explained_where_all_codes_are() -> None:
    assert set(CHANGES) <= set(MEANINGS)
