"""States of experts that have ranks of their own, and of what is offloaded: worked by hand from the model's own counts."""

from __future__ import annotations

from typing import Any

import pytest

from service.kit.merge_patch import patched as merged

from .test_ledger import quote, values

# Mixtral 8x7B: 32 blocks of 8 experts of three 4096 x 14336 matrices; 46,702,792,704 parameters in all (its model card: 46.7B).
EXPERTS = 32 * 8 * 3 * 4096 * 14336
DENSE = 46_702_792_704 - EXPERTS
MIXTRAL: dict[str, Any] = {
    "model": {"preset": "mixtral-8x7b"},
    "data": {"total_tokens": 10**9},
    "sequence_length": 4096,
    "software": {"stack": "megatron"},
    "hardware": {"device": "h100-sxm-80gb", "device_count": 8},
}


@pytest.mark.parametrize(
    ("devices", "expert", "sharding", "dense_over", "experts_over"),
    [
        (8, 8, "none", 1, 8),
        (8, 8, "zero1", 8, 8),  # an expert is on one rank alone: nothing is left to shard it over
        (16, 8, "zero1", 16, 16),  # on two
        (8, 2, "zero1", 8, 8),
        (8, 1, "zero1", 8, 8),
        (8, 8, "zero3", 8, 8),
        (4, 8, "zero1", 4, 8),
    ],
)
def test_no_rank_holds_less_than_its_share_of_the_experts(
    devices: int, expert: int, sharding: str, dense_over: int, experts_over: int
) -> None:
    patch = {"parallelism": {"expert": expert, "sharding": sharding}, "hardware": {"device_count": devices}}
    found = values(quote(patch, base=MIXTRAL))
    assert found["memory.master_weights"] == pytest.approx(4 * (DENSE / dense_over + EXPERTS / experts_over), rel=1e-12)
    assert found["memory.optimizer_states"] == pytest.approx(8 * (DENSE / dense_over + EXPERTS / experts_over), rel=1e-12)
    if sharding == "zero3":
        assert found["memory.weights"] == pytest.approx(2 * (DENSE / dense_over + EXPERTS / experts_over), rel=1e-12)


def test_all_ranks_together_hold_each_state_at_least_once() -> None:
    for expert in (1, 2, 4, 8):
        for tensor in (1, 2):
            for sharding in ("zero1", "zero2", "zero3"):
                patch = {"parallelism": {"expert": expert, "tensor": tensor, "sharding": sharding}}
                found = values(quote(patch, base=MIXTRAL))
                assert found["memory.optimizer_states"] * 8 >= 8 * (EXPERTS + DENSE) * (1 - 1e-12)


LLAMA = {"software": {"stack": "deepspeed"}, "parallelism": {"sharding": "zero3"}, "activation_checkpointing": "full"}
N = 8_030_261_248


def test_zero_offload_leaves_the_weights_alone_on_the_device() -> None:
    """DeepSpeed's own estimate of stage 3 with the optimizer offloaded: 2 bytes a parameter over the ranks, nothing else stands."""
    found = values(quote(merged(LLAMA, {"software": {"cpu_offload": "optimizer"}})))
    assert found["memory.weights"] == pytest.approx(2 * N / 8)
    assert found["memory.gradients"] == found["memory.master_weights"] == found["memory.optimizer_states"] == 0
    # 16 bytes a parameter in host memory: master 4, states 8, gradients 4 (`estimate_zero3_model_states_mem_needs`: 16 with weights).
    assert found["host_memory.offload"] == pytest.approx(16 * N / 8)


@pytest.mark.parametrize("stack", ["deepspeed", "fsdp_native"])
def test_parameters_take_gradients_and_optimizer_with_them(stack: str) -> None:
    """DeepSpeed refuses the one without the other; FSDP steps where its shards are."""
    base = merged(LLAMA, {"software": {"stack": stack}})
    alone = values(quote(merged(base, {"software": {"cpu_offload": "parameters"}})))
    both = values(quote(merged(base, {"software": {"cpu_offload": ["optimizer", "parameters"]}})))
    assert alone == both
    assert alone["memory.model_states"] == 0
    assert alone["host_memory.offload"] == pytest.approx((16 + (2 if stack == "deepspeed" else 0)) * N / 8)


@pytest.mark.parametrize("stack", ["hf_transformers", "deepspeed"])
def test_an_offloaded_optimizer_makes_its_temporaries_in_host_memory(stack: str) -> None:
    """Replicated: 4 (or 2) bytes of weights and of gradients, no state and no temporary of the step on the device."""
    base = {"software": {"stack": stack, "cpu_offload": "optimizer"}, "activation_checkpointing": "full", "hardware": {"device_count": 1}}
    found = quote(base)
    step = next(phase for phase in found.phases if phase["phase"] == "optimizer_step")
    assert step["parts"]["transient"] == 0
    assert step["parts"]["optimizer_states"] == 0


def test_parameters_stay_where_nothing_shards_them() -> None:
    base = {"software": {"stack": "fsdp_native", "cpu_offload": "parameters"}, "parallelism": {"sharding": "none"}}
    found = quote(base)
    assert values(found)["memory.weights"] == pytest.approx(4 * N)
    assert "host_memory.offload" not in values(found)


@pytest.mark.parametrize(("name", "each"), [("paged_adamw", 4), ("paged_adamw_8bit", 2 * (1 + 4 / 256))])
def test_paged_states_are_not_the_devices(name: str, each: float) -> None:
    """torchtune's single-device recipe (8B_full_single_device.yaml: paged 8-bit AdamW) on a 24 GB card: 16 GB of weights."""
    lean = {
        "precision": {"recipe": "bf16_pure", "gradient_bytes": 0},  # the optimizer steps in the backward pass
        "optimizer": {"name": name},
        "activation_checkpointing": "full",
        "sequence_length": 512,
        "batch": {"micro_batch_size": 2},
        "software": {"stack": "fsdp_native", "fused_loss": True},
        "hardware": {"device": "rtx-4090-24gb", "device_count": 1},
    }
    found = quote(lean)
    assert values(found)["memory.optimizer_states"] == 0
    assert values(found)["host_memory.offload"] == pytest.approx(each * N, rel=1e-9)
    assert found.fits is True
    assert 2 * N < values(found)["memory.peak_allocated"] < 2 * N * 1.25


def test_token_table_and_head_of_a_quantized_base_are_gathered_in_16_bits() -> None:
    """Llama 3.1 8B: twice 128256 x 4096 elements of 2 bytes, and two blocks of 218 million at 0.5625."""
    base = {
        "method": {"kind": "qlora"},
        "parallelism": {"sharding": "zero3"},
        "activation_checkpointing": "full",
        "checkpointing": {"state_dict": "full"},
    }
    found = quote(base)
    save = next(phase for phase in found.phases if phase["phase"] == "checkpoint_save")
    assert save["parts"]["transient"] == pytest.approx(2 * 128256 * 4096 * 2 + 2 * 218_112_000 * 0.5625, rel=1e-3)


def test_the_host_holds_the_reference_model_too() -> None:
    """A 16-bit copy of all weights, over the ranks that shard the model's own."""
    offload = {"software": {"stack": "deepspeed", "cpu_offload": ["parameters"]}}
    held = [
        values(quote(merged(LLAMA, {**offload, "method": {"kind": "full", "objective": objective}})))["host_memory.offload"]
        for objective in ("sft", "dpo")
    ]
    assert held[1] - held[0] == pytest.approx(2 * N / 8, rel=1e-9)


def test_gradients_that_are_added_up_whole_are_not_said_to_be_divided() -> None:
    """Native FSDP2 in pure 16 bits accumulates unreduced gradients: the formula divides by what the value is divided by."""
    base = {
        "software": {"stack": "fsdp_native"},
        "precision": {"recipe": "bf16_pure"},
        "parallelism": {"sharding": "zero2"},
        "activation_checkpointing": "full",
        "hardware": {"device_count": 8},
    }
    for steps, over in ((1, 8), (4, 1)):
        found = quote(merged(base, {"batch": {"micro_batch_size": 1, "gradient_accumulation_steps": steps}}))
        item = next(item for item in found.items if item.code == "memory.gradients")
        assert ("8 ranks" in item.formula) == (over == 8)
        if item.expected:
            assert item.expected == pytest.approx(2 * N / over, rel=1e-9)
