"""Ledgers worked by hand, sums, and what a bare parameter count allows."""

from __future__ import annotations

import math
from typing import Any

import pytest

from service.estimation import memory, parameters
from service.kit.merge_patch import patched as merged
from service.specs.load import run_of

LLAMA: dict[str, Any] = {
    "model": {"preset": "llama-3.1-8b"},
    "data": {"total_tokens": 10**9},
    "sequence_length": 4096,
    "batch": {"micro_batch_size": 1, "gradient_accumulation_steps": 1},
    "hardware": {"device": "h100-sxm-80gb", "device_count": 8},
}
N = 8_030_261_248


def quote(*patches: dict[str, Any], base: dict[str, Any] = LLAMA) -> memory.MemoryEstimate:
    for patch in patches:
        base = merged(base, patch)
    run = run_of(base)
    return memory.estimate(run, parameters.count(run))


def values(found: memory.MemoryEstimate) -> dict[str, Any]:
    return {item.code: item.expected for item in found.items}


def test_states_of_a_bare_count_by_hand() -> None:
    """100M parameters x 16 bytes = 1.6 GB, and no activations without a shape."""
    spec = {
        "model": {"parameter_count": 10**8},
        "data": {"total_tokens": 10**9},
        "sequence_length": 1024,
        "hardware": {"device": "h100-sxm-80gb", "device_count": 1},
    }
    found = quote(base=spec)
    assert values(found)["memory.model_states"] == 1.6e9
    reasons = {item.code: item.reason for item in found.items if item.expected is None}
    assert "shape" in (reasons["memory.activations"] or "")
    assert reasons["memory.peak_process"]
    assert found.fits is None


@pytest.mark.parametrize(
    ("stack", "recipe", "widths"),
    [
        ("hf_transformers", "bf16_mixed", (4, 4, 0, 8)),
        ("hf_transformers", "bf16_pure", (2, 2, 0, 4)),
        ("fsdp_native", "bf16_mixed", (4, 4, 0, 8)),
        ("deepspeed", "bf16_mixed", (2, 2, 4, 8)),
        ("megatron", "bf16_mixed", (2, 4, 4, 8)),
        ("llm_foundry", "fp32", (4, 4, 0, 8)),
    ],
)
def test_states_by_recipe_and_stack(stack: str, recipe: str, widths: tuple[int, ...]) -> None:
    found = quote({"software": {"stack": stack}, "precision": {"recipe": recipe}, "parallelism": {"sharding": "none"}})
    step = next(phase for phase in found.phases if phase["phase"] == "optimizer_step")["parts"]
    assert [step[name] for name in ("weights", "gradients", "master_weights", "optimizer_states")] == [N * width for width in widths]


def test_eight_billion_parameters_take_128_gigabytes() -> None:
    found = quote({"parallelism": {"sharding": "none"}})
    step = next(phase for phase in found.phases if phase["phase"] == "optimizer_step")["parts"]
    states = sum(step[name] for name in ("weights", "gradients", "master_weights", "optimizer_states"))
    assert states == N * 16 == pytest.approx(128.5e9, rel=1e-3)


@pytest.mark.parametrize(("sharding", "over"), [("none", (1, 1, 1)), ("zero1", (1, 1, 8)), ("zero2", (1, 8, 8)), ("zero3", (8, 8, 8))])
def test_what_each_stage_divides(sharding: str, over: tuple[int, int, int]) -> None:
    found = quote({"software": {"stack": "deepspeed"}, "parallelism": {"sharding": sharding}})
    step = next(phase for phase in found.phases if phase["phase"] == "optimizer_step")["parts"]
    assert step["weights"] == N * 2 / over[0]
    assert step["gradients"] == N * 2 / over[1]
    assert step["master_weights"] + step["optimizer_states"] == N * 12 / over[2]


@pytest.mark.parametrize("stack", ["hf_transformers", "fsdp_native", "deepspeed", "megatron", "llm_foundry"])
@pytest.mark.parametrize("method", [{"kind": "full"}, {"kind": "qlora"}, {"kind": "frozen", "frozen": ["layers:0-15"]}])
def test_parts_add_up_to_the_last_bit(stack: str, method: dict[str, Any]) -> None:
    found = quote({"software": {"stack": stack, "cpu_offload": "optimizer"}, "method": method})
    by_code = {item.code: item for item in found.items}
    wholes = {item.parent for item in found.items if item.parent}
    assert wholes == {f"memory.{name}" for name in ("model_states", "peak_allocated", "peak_reserved", "peak_process")}
    for whole in wholes:
        total = 0.0
        for item in found.items:
            if item.parent == whole:
                assert item.expected is not None
                total += item.expected
        assert total == by_code[whole].expected
    for phase in found.phases:
        assert math.fsum(phase["parts"].values()) == pytest.approx(phase["allocated_bytes"], rel=1e-12)
    assert by_code["memory.peak_allocated"].expected == max(
        phase["allocated_bytes"] for phase in found.phases if phase["phase"] in ("forward", "backward", "optimizer_step")
    )
    offload = by_code["host_memory.offload"].expected
    assert offload is not None and offload > 0


def test_fits_is_where_the_devices_memory_falls_in_the_interval() -> None:
    for stack in ("fsdp_native", "deepspeed"):
        for micro in (1, 2, 3, 4, 6, 8):
            found = quote({"software": {"stack": stack}, "parallelism": {"sharding": "zero3"}, "batch": {"micro_batch_size": micro}})
            peak = next(item for item in found.items if item.code == "memory.peak_process")
            assert peak.low is not None and peak.high is not None
            device = run_of(LLAMA).hardware
            assert device is not None
            inside = peak.low <= device.device.memory_bytes < peak.high
            assert found.fits == ("uncertain" if inside else peak.high <= device.device.memory_bytes)


def test_adapters_keep_more_than_full_training_and_their_states_are_small() -> None:
    """Oracle F3: every target keeps its own 32-bit copy of its input: 295,496 against 200,840 bytes a token and block."""
    pure = {"precision": {"recipe": "bf16_pure"}, "batch": {"micro_batch_size": 2}}
    lora = quote(pure, {"method": {"kind": "lora", "lora": {"rank": 16, "target_modules": "all-linear"}}})
    full = quote(pure)
    assert lora.saved_bytes_per_layer is not None and full.saved_bytes_per_layer is not None
    tokens = 2 * 4096
    assert lora.saved_bytes_per_layer[1] == 295_496 * tokens
    assert full.saved_bytes_per_layer[1] == 200_840 * tokens
    assert values(lora)["memory.model_states"] < 0.4 * values(full)["memory.model_states"]


def test_the_longest_sequence_decides_not_the_mean() -> None:
    data = {"total_tokens": None, "samples": 1001, "packing": "none", "lengths": {"histogram": [[100, 20, 1000], [3000, 900, 1]]}}
    found = quote({"data": data})
    whole = quote({"sequence_length": 3900})
    assert values(found)["memory.activations"] == values(whole)["memory.activations"]
    peak = next(item for item in found.items if item.code == "memory.peak_allocated")
    assert any("3900" in note for note in peak.assumptions)


def test_a_pipeline_holds_its_first_stage_for_every_micro_batch_in_flight() -> None:
    """1F1B: stage 0 of p keeps min(m, p) micro-batches of its blocks, the last stage one and the logits."""
    shape = {"software": {"stack": "megatron"}, "parallelism": {"pipeline": 4, "sharding": "zero1"}}
    found = quote(shape, {"batch": {"gradient_accumulation_steps": 16}, "hardware": {"device_count": 8}})
    forward = {phase["pipeline_stage"]: phase["parts"] for phase in found.phases if phase["phase"] == "forward"}
    assert found.saved_bytes_per_layer is not None
    assert forward[0]["activations"] == pytest.approx(4 * 8 * found.saved_bytes_per_layer[1], rel=1e-3)
    assert forward[0]["logits"] == 0 and forward[3]["logits"] > 0
    assert forward[1]["activations"] == pytest.approx(3 * 8 * found.saved_bytes_per_layer[1], rel=1e-3)


def test_quantized_bases_store_scales() -> None:
    """QLoRA (arXiv 2305.14314): 0.5 + 4/64 bytes a weight; with double quantization 0.5 + 1/64 + 4/(256 x 64)."""
    plain = values(quote({"method": {"kind": "qlora"}, "activation_checkpointing": "full"}))["memory.weights"]
    double = values(
        quote(
            {
                "method": {"kind": "qlora", "quantization": {"format": "nf4", "double_quantization": True}},
                "activation_checkpointing": "full",
            }
        )
    )["memory.weights"]
    matrices = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    assert plain - double == pytest.approx(matrices * (4 / 64 - 1 / 64 - 4 / (256 * 64)), rel=1e-6)


def test_evaluation_and_saving_have_phases_of_their_own() -> None:
    suite = {"name": "mt", "kind": "downstream", "tokens": 1000, "generated_tokens": 100, "runs": 1}
    found = quote({"parallelism": {"sharding": "zero3"}, "evaluation": {"suites": [suite]}})
    names = [phase["phase"] for phase in found.phases]
    assert names == ["load", "forward", "backward", "optimizer_step", "checkpoint_save", "evaluation"]
