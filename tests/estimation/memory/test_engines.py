"""What DeepSpeed's engine makes at the step, what stays cached for it, and the communicators of a rank."""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation import memory, parameters
from service.estimation.memory.peaks.worst import communicators
from service.kit.merge_patch import patched as merged
from service.specs.load import run_of

# BigScience's 8-way tensor-parallel GPT of 14336: 6 and 10 layers take 54 and 80 thousand MiB (chronicles-prequel.md, 2022-02-21).
BIGSCIENCE: dict[str, Any] = {
    "model": {
        "hf_config": {
            "model_type": "gpt2",
            "n_embd": 14336,
            "n_layer": 6,
            "n_head": 64,
            "n_positions": 2048,
            "vocab_size": 50304,
            "tie_word_embeddings": True,
        }
    },
    "data": {"total_tokens": 10**9},
    "sequence_length": 2048,
    "batch": {"micro_batch_size": 1, "gradient_accumulation_steps": 256},
    "precision": {"recipe": "fp16_mixed", "gradient_bytes": 2},
    "activation_checkpointing": "full",
    "attention": "eager",
    "software": {"stack": "megatron"},
    "parallelism": {"tensor": 8, "sharding": "zero1"},
    "hardware": {"device": "a100-sxm-80gb", "device_count": 8},
}


def values(document: dict[str, Any]) -> dict[str, float]:
    run = run_of(document)
    return {item.code: float(item.expected or 0.0) for item in memory.estimate(run, parameters.count(run)).items}


def test_a_parameter_takes_22_bytes_at_the_step_of_zero_1() -> None:
    """16-bit weights and gradients (4), 32-bit weights and moments (12), gradients flattened and cast (6): as measured."""
    less, more = values(BIGSCIENCE), values(merged(BIGSCIENCE, {"model": {"hf_config": {"n_layer": 10}}}))
    added = 4 * 12 * 14336**2 / 8
    measured = (80_000 - 54_000) * 2**20 / added
    assert (more["memory.peak_reserved"] - less["memory.peak_reserved"]) / added == pytest.approx(22.0, rel=0.015)  # and what a layer keeps
    assert measured == pytest.approx(22.0, rel=0.02)


def test_what_is_cached_for_the_step_stays_within_the_device() -> None:
    """A run whose phases fit one by one is told that it may fit, though the allocator would like to keep blocks for all of them."""
    tight = merged(BIGSCIENCE, {"batch": {"micro_batch_size": 24}, "model": {"hf_config": {"n_layer": 8}}})
    run = run_of(tight)
    roomy = run_of(merged(tight, {"hardware": {"device": "h200-sxm-141gb"}}))
    assert run.hardware is not None
    small, large = memory.figures(run), memory.figures(roomy)
    assert small is not None and large is not None
    assert small.allocated.expected == large.allocated.expected
    assert small.process.expected == run.hardware.device.memory_bytes < large.process.expected
    assert memory.estimate(run, parameters.count(run)).fits != False  # noqa: E712


def test_without_room_nothing_is_cached_and_the_run_does_not_fit() -> None:
    huge = run_of(merged(BIGSCIENCE, {"model": {"hf_config": {"n_layer": 24}}}))
    found = memory.figures(huge)
    assert found is not None and found.cached == 0.0
    assert memory.estimate(huge, parameters.count(huge)).fits is False


def test_an_offloaded_optimizer_makes_nothing_on_the_device() -> None:
    plain = values(merged(BIGSCIENCE, {"software": {"stack": "deepspeed"}, "parallelism": {"tensor": 1}}))
    offloaded = values(merged(BIGSCIENCE, {"software": {"stack": "deepspeed", "cpu_offload": "optimizer"}, "parallelism": {"tensor": 1}}))
    trained = plain["memory.master_weights"] / 4.0
    assert plain["memory.peak_allocated"] - offloaded["memory.peak_allocated"] > 12.0 * trained


@pytest.mark.parametrize(
    ("parallelism", "count"),
    [
        ({"tensor": 1}, 1),  # the world is the data-parallel group
        ({"tensor": 8}, 1),
        ({"tensor": 2}, 3),  # data, tensor, and the world
        ({"tensor": 2, "pipeline": 2}, 5),  # and one with either neighbour
        ({"tensor": 1, "context": 2}, 2),  # data x context is the world
    ],
)
def test_communicators_of_a_rank(parallelism: dict[str, int], count: int) -> None:
    assert communicators(run_of(merged(BIGSCIENCE, {"parallelism": parallelism}))) == count


SHARDED: dict[str, Any] = {
    "model": {"preset": "llama-3.1-8b"},
    "data": {"total_tokens": 10**9},
    "sequence_length": 4096,
    "activation_checkpointing": "full",
    "parallelism": {"sharding": "zero3"},
    "hardware": {"device": "h100-sxm-80gb", "device_count": 8},
}


def test_fully_sharded_stacks_need_about_the_same() -> None:
    """What FSDP gathers is cast on the way: no stack holds 16-bit copies of the whole model beside its shards."""
    stacks = ("hf_transformers", "fsdp_native", "deepspeed", "megatron", "llm_foundry")
    peaks = [values(merged(SHARDED, {"software": {"stack": stack}}))["memory.peak_allocated"] for stack in stacks]
    assert max(peaks) < 1.35 * min(peaks)


@pytest.mark.parametrize("stack", ["fsdp_native", "llm_foundry", "megatron", "deepspeed"])
def test_adapters_that_an_engine_casts_keep_no_copies_of_their_inputs(stack: str) -> None:
    """Without dropout an adapter of the products' width reads the frozen matrix's own input: fewer bytes than 32-bit copies."""
    lora = {"kind": "lora", "lora": {"rank": 8, "alpha": 16, "target_modules": "all-linear"}}
    spec = merged(SHARDED, {"activation_checkpointing": "none", "software": {"stack": stack}, "method": lora})
    wide = values(merged(spec, {"precision": {"recipe": "bf16_pure"}}))["memory.activations"]
    cast = values(merged(spec, {"precision": {"recipe": "bf16_mixed"}}))["memory.activations"]
    assert cast <= (1.0 if stack in ("megatron", "deepspeed") else 0.7) * wide


def test_a_loss_of_megatron_core_works_in_one_single_precision_copy_and_its_fusion_in_two() -> None:
    """16-bit logits and a 32-bit copy that becomes its own gradient; the compiled fusion makes the gradient beside both."""
    spec = merged(SHARDED, {"software": {"stack": "megatron"}, "batch": {"micro_batch_size": 8}, "parallelism": {"sharding": "zero1"}})
    plain, fused = values(spec)["memory.logits"], values(merged(spec, {"software": {"fused_loss": True}}))["memory.logits"]
    entries = 8 * 4096 * 128_256
    assert plain == pytest.approx(6 * entries, rel=1e-3)
    assert fused == pytest.approx(10 * entries, rel=1e-3)


def test_parameters_in_host_memory_come_to_one_device_block_by_block() -> None:
    """Two blocks, token table and head in 16 bits at most, though a single rank has nobody to gather from."""
    offload = {"stack": "deepspeed", "cpu_offload": ["optimizer", "parameters"]}
    run = run_of(merged(SHARDED, {"software": offload, "hardware": {"device_count": 1}}))
    phases = {phase["phase"]: phase["parts"] for phase in memory.estimate(run, parameters.count(run)).phases}
    assert phases["backward"]["weights"] == 0.0 < phases["backward"]["transient"]
    assert phases["checkpoint_save"]["transient"] == 2.0 * (2 * 218_112_000 + 2 * 128_256 * 4096)


def test_grpo_makes_logits_of_answers_alone() -> None:
    """Of 3,072 positions the 1,024 answered ones and the one before them, as TRL asks the model for; a language model's loss reads all."""
    spec = merged(SHARDED, {"sequence_length": 3072, "batch": {"micro_batch_size": 64}, "software": {"stack": "hf_transformers"}})
    all_of_them = values(spec)["memory.logits"]
    sampled = {"method": {"objective": "grpo"}, "post_training": {"generated_tokens": 1024}}
    assert values(merged(spec, sampled))["memory.logits"] == pytest.approx(all_of_them * 1025 / 3072, rel=1e-6)
