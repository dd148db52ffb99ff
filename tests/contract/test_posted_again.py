"""The spec in an answer, posted again, gives the same answer."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from starlette.testclient import TestClient

from .conftest import Preview

LLAMA: dict[str, Any] = {"preset": "llama-3.2-1b"}
TOKENS: dict[str, Any] = {"total_tokens": 10**9}
SAMPLES: dict[str, Any] = {"samples": 3, "prompt_tokens": [100, 900, 40], "target_tokens": [10, 700, 4], "epochs": 2}
H100: dict[str, Any] = {"device": "h100-sxm-80gb", "device_count": 8}
SPECS: dict[str, dict[str, Any]] = {
    "bare": {"model": LLAMA, "data": TOKENS},
    "predicted": {"model": LLAMA, "data": TOKENS, "sequence_length": 2048, "hardware": H100},
    "samples": {"model": LLAMA, "data": SAMPLES, "sequence_length": 1024, "hardware": H100, "method": {"objective": "sft"}},
    "packed": {"model": LLAMA, "data": {**SAMPLES, "packing": "packed"}, "sequence_length": 1024, "hardware": H100},
    "dpo": {"model": LLAMA, "data": SAMPLES, "sequence_length": 1024, "hardware": H100, "method": {"objective": "dpo"}},
    "grpo": {"model": LLAMA, "data": SAMPLES, "sequence_length": 1024, "hardware": H100, "method": {"objective": "grpo"}},
    "lora": {"model": LLAMA, "data": TOKENS, "sequence_length": 1024, "hardware": H100, "method": {"kind": "lora", "lora": {"rank": 16}}},
    "qlora": {"model": LLAMA, "data": TOKENS, "sequence_length": 1024, "hardware": H100, "method": {"kind": "qlora"}},
    "int8": {
        "model": LLAMA,
        "data": TOKENS,
        "sequence_length": 1024,
        "hardware": H100,
        "method": {"kind": "qlora", "quantization": {"format": "int8"}},
    },
    "frozen": {
        "model": LLAMA,
        "data": TOKENS,
        "sequence_length": 1024,
        "method": {"kind": "frozen", "frozen": ["embeddings", "layers:0-7"]},
    },
    "megatron": {
        "model": LLAMA,
        "data": TOKENS,
        "sequence_length": 1024,
        "hardware": {**H100, "device_count": 32},
        "software": {"stack": "megatron"},
        "parallelism": {"tensor": 2, "pipeline": 2, "sequence_parallel": True, "sharding": "zero1"},
        "batch": {"micro_batch_size": 2, "global_batch_size": 64},
        "precision": {"recipe": "fp8_mixed"},
    },
    "whole job": {
        "model": LLAMA,
        "data": TOKENS,
        "sequence_length": 1024,
        "hardware": H100,
        "efficiency": {"hfu": 0.3},
        "checkpointing": {"interval_steps": 100, "asynchronous": True, "retain_last": 2},
        "evaluation": {"interval_steps": 50, "tokens_per_evaluation": 10**5},
        "reserves": {"rerun_fraction": 0.1, "ablation_fraction": 0.2},
    },
    "vision": {"model": {"preset": "vit-l-16"}, "data": {"total_tokens": 197 * 1000}, "hardware": H100},
    "encoder and decoder": {"model": {"preset": "t5-base"}, "data": TOKENS, "sequence_length": 512, "hardware": H100},
}


def _without_pointer_order(warnings: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(warning["code"], warning["detail"]) for warning in warnings]


@pytest.mark.parametrize("name", SPECS)
def test_same_items_and_no_new_warnings(preview: Preview, client: TestClient, name: str) -> None:
    """Filled-in defaults are no mistakes of the caller's: nothing is warned of that was not warned of before."""
    spec = copy.deepcopy(SPECS[name])
    if "preset" in spec["model"] and client.get(f"/v1/models/{spec['model']['preset']}").status_code == 404:
        pytest.fail(f"{spec['model']['preset']} is not in the catalog")
    first = preview(**spec)
    second = preview(**first["spec"])
    assert second["spec"] == first["spec"]
    assert second["items"] == first["items"]
    assert second["summary"] == first["summary"]
    assert second["resolved"] == first["resolved"]
    assert second["memory_phases"] == first["memory_phases"]
    assert _without_pointer_order(second["warnings"]) == _without_pointer_order(first["warnings"])
