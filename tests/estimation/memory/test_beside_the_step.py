"""Saving, evaluating and generating: phases beside the training step that can be its peak, and the models that PPO holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from service.estimation import memory
from service.kit.merge_patch import patched as merged
from service.quotes.quoting import build
from service.specs.load import run_of

from .test_ledger import quote, values

N = 8_030_261_248
SHARDED: dict[str, Any] = {
    "software": {"stack": "fsdp_native"},
    "parallelism": {"sharding": "zero3"},
    "activation_checkpointing": "full",
    "optimizer": {"implementation": "fused"},
}
SAMPLED: dict[str, Any] = {
    **SHARDED,
    "method": {"objective": "grpo"},
    "data": {"total_tokens": None, "samples": 1000, "prompt_tokens": 500, "target_tokens": 500},
    "post_training": {"prompts": 1000, "samples_per_prompt": 8, "prompt_tokens": 1024, "generated_tokens": 7168},
}
CACHE = 32 * 8 * (128 + 128) * 2  # bytes a token: blocks x key/value heads x head size x 16 bits (Llama 3.1 8B)


def phase(found: Any, name: str) -> dict[str, Any]:
    return next(phase for phase in found.phases if phase["phase"] == name)


def test_a_state_dict_gathered_on_one_device_is_the_peak() -> None:
    """Whole 32-bit weights and both states of 8 billion parameters, on top of an eighth of each."""
    found = quote(SHARDED, {"checkpointing": {"state_dict": "full_on_device"}})
    assert found.peak_phase == "checkpoint_save"
    assert phase(found, "checkpoint_save")["allocated_bytes"] == pytest.approx((4 + 8) * N * (1 + 1 / 8), rel=1e-9)
    weights = quote(SHARDED, {"checkpointing": {"state_dict": "full_on_device", "contents": "weights"}})
    assert phase(weights, "checkpoint_save")["allocated_bytes"] == pytest.approx((4 + 8) * N / 8 + 4 * N, rel=1e-9)


def test_shards_are_saved_without_a_gather_and_a_gather_into_host_memory_takes_blocks() -> None:
    states = (4 + 8) * N / 8
    sharded = phase(quote(SHARDED, {"checkpointing": {"state_dict": "sharded"}}), "checkpoint_save")["allocated_bytes"]
    assert sharded == pytest.approx(states, rel=1e-9)
    whole = phase(quote(SHARDED), "checkpoint_save")["allocated_bytes"]
    assert states < whole < states + 4e9


def test_of_a_replicated_model_nothing_is_gathered() -> None:
    plain, asked = quote(), quote({"checkpointing": {"state_dict": "full_on_device"}})
    assert values(plain)["memory.peak_process"] == values(asked)["memory.peak_process"]


def test_adapters_are_saved_without_their_base() -> None:
    found = quote(SHARDED, {"method": {"kind": "lora"}, "checkpointing": {"state_dict": "full_on_device"}})
    assert found.peak_phase != "checkpoint_save"


def test_a_policy_of_saving_is_offered_where_saving_does_not_fit() -> None:
    spec = merged(
        {"model": {"preset": "llama-3.1-8b"}, "data": {"total_tokens": 10**9}, "sequence_length": 4096, **SHARDED},
        {"checkpointing": {"state_dict": "full_on_device"}, "hardware": {"device": "h100-sxm-80gb", "device_count": 8}},
    )
    made = build(spec)
    assert made["summary"]["fits"] is False
    assert {"checkpointing": {"state_dict": "full"}} in [row["change"] for row in made["alternatives"]]


def test_generating_elsewhere_is_offered_where_generation_does_not_fit() -> None:
    spec = merged({"model": {"preset": "llama-3.1-8b"}, "sequence_length": 1024, **SHARDED}, SAMPLED)
    spec = merged(spec, {"data": {"total_tokens": None}, "post_training": {"generated_tokens": 600_000}})
    spec = merged(spec, {"hardware": {"device": "h100-sxm-80gb", "device_count": 8}})
    made = build(spec)
    assert made["summary"]["peak_phase"] == "generation"
    assert made["summary"]["fits"] is False
    assert {"post_training": {"generator": "separate"}} in [row["change"] for row in made["alternatives"]]


def test_generation_holds_a_copy_and_the_keys_and_values_of_its_answers() -> None:
    found = quote(SAMPLED, {"batch": {"micro_batch_size": 4}})
    generation = phase(found, "generation")
    assert generation["parts"]["transient"] == pytest.approx(2 * N + 4 * 8192 * CACHE, rel=1e-9)
    # Weights, states and the 16-bit reference stay.
    assert generation["parts"]["weights"] == pytest.approx((4 + 2) * N / 8, rel=1e-9)
    elsewhere = quote(SAMPLED, {"post_training": {"generator": "separate"}})
    assert "generation" not in [one["phase"] for one in elsewhere.phases]


def test_a_replicated_policy_generates_with_its_own_weights() -> None:
    found = quote(SAMPLED, {"parallelism": {"sharding": "none"}})
    assert phase(found, "generation")["parts"]["transient"] == pytest.approx(8192 * CACHE, rel=1e-9)


def test_ppo_holds_a_value_model_that_is_trained_and_a_reward_model_that_is_not() -> None:
    base = merged(SAMPLED, {"method": {"objective": "ppo"}})
    plain = values(quote(base))
    # Policy and value model 4 + 8 each, the reference 2; gradients are not alive at the peak or are as many as the models.
    assert plain["memory.optimizer_states"] == pytest.approx(2 * 8 * N / 8, rel=1e-9)
    assert plain["memory.weights"] == pytest.approx((2 * 4 + 2) * N / 8, rel=1e-9)
    scored = values(quote(base, {"post_training": {"reward_parameter_count": 10**9}}))
    assert scored["memory.optimizer_states"] == pytest.approx(8 * (N + 10**9) / 8, rel=1e-9)
    assert scored["memory.weights"] == pytest.approx((4 + 2) * N / 8 + (4 + 2) * 10**9 / 8, rel=1e-9)


def test_a_reward_model_has_one_output_instead_of_the_vocabulary() -> None:
    base = {"method": {"objective": "reward_model"}, "activation_checkpointing": "full", "parallelism": {"sharding": "zero3"}}
    scored, whole = quote(base), quote(base, {"method": {"objective": "sft"}})
    before, after = phase(whole, "forward")["parts"]["logits"], phase(scored, "forward")["parts"]["logits"]
    assert before > 0
    assert after < before / 1000


@pytest.mark.parametrize(
    "patch",
    [
        {"checkpointing": {"state_dict": "full_on_device"}},
        {"evaluation": {"suites": [{"name": "x", "kind": "downstream", "tokens": 10, "generated_tokens": 10}]}},
        SAMPLED,
        merged(SAMPLED, {"method": {"objective": "ppo"}, "post_training": {"reward_parameter_count": 10**9}}),
    ],
)
def test_a_search_sees_the_same_peak(patch: dict[str, Any]) -> None:
    """To the last bit, as arrays of micro-batch sizes."""
    from dataclasses import replace

    spec = merged(
        merged({"model": {"preset": "llama-3.1-8b"}, "data": {"total_tokens": 10**9}, "sequence_length": 4096}, SHARDED),
        merged(patch, {"hardware": {"device": "h100-sxm-80gb", "device_count": 8}}),
    )
    sizes = [1, 2, 4, 8]
    singles = [values(quote({"batch": {"micro_batch_size": size}}, base=spec))["memory.peak_process"] for size in sizes]
    run = run_of(spec)
    array = np.array(sizes)
    many = memory.figures(replace(run, batch=replace(run.batch, micro_batch_size=array, global_batch_size=array * 8)))
    assert many is not None
    assert list(np.broadcast_to(many.process.expected, (4,))) == singles
