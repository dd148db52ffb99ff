"""Fields that are given to save memory: they save some, or a warning says that they do not."""

from __future__ import annotations

from typing import Any

import pytest

from service.kit.merge_patch import patched as merged
from service.kit.problems import Problem
from service.quotes.quoting import build

BASE: dict[str, Any] = {
    "model": {"preset": "llama-3.2-1b"},
    "data": {"total_tokens": 10**9},
    "sequence_length": 2048,
    "batch": {"micro_batch_size": 2},
    "hardware": {"device": "h100-sxm-80gb", "device_count": 8},
}
MIXTURE: dict[str, Any] = {"model": {"preset": "mixtral-8x7b"}, "software": {"stack": "megatron"}}
ADAPTED: dict[str, Any] = {
    "method": {"kind": "lora", "lora": {"rank": 8}},
    "activation_checkpointing": "full",
    "parallelism": {"sharding": "zero3"},
}
VAIN: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"software": {"cpu_offload": "parameters"}}, "/software/cpu_offload"),
    ({"software": {"stack": "deepspeed"}}, {"optimizer": {"implementation": "fused"}}, "/optimizer/implementation"),
    ({"optimizer": {"name": "adafactor"}}, {"optimizer": {"implementation": "fused"}}, "/optimizer/implementation"),
    ({}, {"parallelism": {"expert_imbalance": 2}}, "/parallelism/expert_imbalance"),
    (MIXTURE, {"parallelism": {"expert_imbalance": 2}}, "/parallelism/expert_imbalance"),
    ({}, {"checkpointing": {"state_dict": "full_on_device"}}, "/checkpointing/state_dict"),
    ({}, {"software": {"fsdp_version": 2}}, "/software/fsdp_version"),
    ({"parallelism": {"sharding": "zero3"}}, {"software": {"fsdp_version": 2}}, "/software/fsdp_version"),
    ({**ADAPTED, "activation_checkpointing": "none"}, {"software": {"fsdp_version": 2}}, "/software/fsdp_version"),
    ({}, {"parallelism": {"expert_tensor": 2}}, "/parallelism/expert_tensor"),
]
SAVING: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"parallelism": {"sharding": "zero3"}}, {"software": {"cpu_offload": "parameters"}}),
    ({}, {"optimizer": {"implementation": "fused"}}),
    (merged(MIXTURE, {"parallelism": {"expert": 8}}), {"parallelism": {"expert_imbalance": 2}}),
    ({"parallelism": {"sharding": "zero3"}}, {"checkpointing": {"state_dict": "full_on_device"}}),
    ({"attention": "eager"}, {"activation_checkpointing": "selective"}),
    (ADAPTED, {"software": {"fsdp_version": 2}}),
]


def memory(quote: dict[str, Any]) -> list[Any]:
    return [*(item["expected"] for item in quote["items"] if item["section"] == "memory"), *quote["memory_phases"]]


@pytest.mark.parametrize(("scene", "patch", "pointer"), VAIN)
def test_what_changes_nothing_is_said(scene: dict[str, Any], patch: dict[str, Any], pointer: str) -> None:
    before, after = build(merged(BASE, scene)), build(merged(merged(BASE, scene), patch))
    assert before["items"] == after["items"]
    assert ("no_effect", pointer) in [(warning["code"], warning["pointer"]) for warning in after["warnings"]]


@pytest.mark.parametrize(("scene", "patch"), SAVING)
def test_what_changes_the_memory_is_not_warned_of(scene: dict[str, Any], patch: dict[str, Any]) -> None:
    before, after = build(merged(BASE, scene)), build(merged(merged(BASE, scene), patch))
    assert memory(before) != memory(after)
    assert not {"no_effect", "saves_no_memory"} & {warning["code"] for warning in after["warnings"]}


def test_selective_checkpointing_without_scores_to_drop_saves_no_memory() -> None:
    """Under a fused kernel no score is stored; what is left of selective checkpointing costs time alone."""
    before, after = build(BASE), build(merged(BASE, {"activation_checkpointing": "selective"}))
    assert memory(before) == memory(after)
    assert ("saves_no_memory", "/activation_checkpointing") in [(w["code"], w["pointer"]) for w in after["warnings"]]
    native = merged(BASE, {"software": {"stack": "fsdp_native"}})
    assert memory(build(native)) != memory(build(merged(native, {"activation_checkpointing": "selective"})))


def test_parameters_beside_an_optimizer_that_is_offloaded() -> None:
    quote = build(merged(BASE, {"software": {"cpu_offload": ["optimizer", "parameters"]}}))
    assert ("saves_no_memory", "/software/cpu_offload") in [(w["code"], w["pointer"]) for w in quote["warnings"]]
    again = build(quote["spec"])
    assert again["items"] == quote["items"]


def test_the_fullest_expert_rank_grows_with_the_imbalance() -> None:
    """Routed values grow in proportion: from an even load to a double one by as much as from a double one to a triple one."""
    base = merged(merged(BASE, MIXTURE), {"parallelism": {"expert": 8}})
    bytes_of = [sum(build(merged(base, {"parallelism": {"expert_imbalance": factor}}))["saved_bytes_per_layer"]) for factor in (1, 2, 3)]
    assert bytes_of[2] - bytes_of[1] == pytest.approx(bytes_of[1] - bytes_of[0], rel=1e-6)
    assert bytes_of[1] > bytes_of[0]
    with pytest.raises(Problem):
        build(merged(base, {"parallelism": {"expert_imbalance": 0.5}}))


def test_a_model_that_is_frozen_whole_is_no_training_run() -> None:
    frozen = ["embeddings", "lm_head", "attention", "mlp", "norms"]
    with pytest.raises(Problem, match="nothing is left to train"):
        build(merged(BASE, {"method": {"kind": "frozen", "frozen": frozen}}))
    assert build(merged(BASE, {"method": {"kind": "frozen", "frozen": frozen[:-1]}}))["resolved"]["parameters"]["trainable"] > 0
