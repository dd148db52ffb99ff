"""Selective checkpointing means one thing a stack: what memory lets go is what FLOPs and step time compute again."""

from __future__ import annotations

from typing import Any

import pytest

from service.quotes.quoting import build

STACKS = ("hf_transformers", "fsdp_native", "deepspeed", "megatron", "llm_foundry")


def quote(stack: str, attention: str, checkpointing: str) -> dict[str, Any]:
    return build(
        {
            "model": {"preset": "llama-3.1-8b"},
            "data": {"total_tokens": 10**9},
            "sequence_length": 4096,
            "attention": attention,
            "activation_checkpointing": checkpointing,
            "software": {"stack": stack},
            "parallelism": {"sharding": "zero3"},
            "hardware": {"device": "h100-sxm-80gb", "device_count": 16},
        }
    )


def value(document: dict[str, Any], code: str) -> float:
    return next((item["expected"] for item in document["items"] if item["code"] == code), 0.0)


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("attention", ["flash", "sdpa", "eager"])
def test_what_is_not_kept_is_computed_again_and_paid_for(stack: str, attention: str) -> None:
    none, selective, full = (quote(stack, attention, kind) for kind in ("none", "selective", "full"))
    kept = [sum(document["saved_bytes_per_layer"]) for document in (none, selective, full)]
    flops = [value(document, "compute.recompute") for document in (none, selective, full)]
    seconds = [value(document, "time.step.recompute") for document in (none, selective, full)]
    assert kept[0] >= kept[1] > kept[2]
    assert 0.0 == flops[0] <= flops[1] < flops[2]
    assert 0.0 == seconds[0] <= seconds[1] < seconds[2]
    saves_bytes = kept[1] < kept[0]
    # Megatron-core checkpoints its attention core whatever kernel is in it: paid for, though a fused one stores nothing.
    repeats = saves_bytes or stack == "megatron"
    assert (flops[1] > 0.0) == repeats
    assert (seconds[1] > 0.0) == repeats
    assert any(w["pointer"] == "/activation_checkpointing" for w in selective["warnings"]) == (not saves_bytes)


def test_attention_cores_of_megatron_cost_their_forward() -> None:
    """4 b s^2 h FLOPs a layer and sequence (Korthikanti et al. 2022, appendix A: scores and their product with the values)."""
    repeated = value(quote("megatron", "flash", "selective"), "compute.recompute")
    sequences = 10**9 / 4096
    assert repeated == pytest.approx(4 * sequences * 4096**2 * 4096 * 32, rel=1e-4)


def test_the_operator_policy_repeats_k_o_and_up() -> None:
    """torchtitan keeps every second matrix product: of q, k, v, o, gate, up, down the second, fourth and sixth come again."""
    repeated = value(quote("fsdp_native", "flash", "selective"), "compute.recompute")
    again = 4096 * 1024 + 4096 * 4096 + 4096 * 14336
    assert repeated == pytest.approx(2 * 10**9 * again * 32, rel=0.03)
