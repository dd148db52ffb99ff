"""A field changes an item, or is warned of, or is refused: none is dropped without a word."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from starlette.testclient import TestClient

H100: dict[str, Any] = {"device": "h100-sxm-80gb", "device_count": 8}
SPEC: dict[str, Any] = {
    "model": {"preset": "llama-3.2-1b"},
    "data": {"total_tokens": 10**9},
    "sequence_length": 2048,
    "hardware": H100,
    "parallelism": {"sharding": "zero3"},
}
ROLLOUTS: dict[str, Any] = {
    **SPEC,
    "method": {"objective": "grpo"},
    "data": {"samples": 1000, "prompt_tokens": 300, "target_tokens": 700},
    "post_training": {"prompts": 1000, "samples_per_prompt": 8, "prompt_tokens": 300, "generated_tokens": 700},
}


GIVEN: dict[str, Any] = {"efficiency": {"mfu": 0.4}}
TWO_NODES: dict[str, Any] = {**H100, "device_count": 16}
COUNTED: dict[str, Any] = {**SPEC, "model": {"parameter_count": 10**9}}
SHAPE = {
    "num_hidden_layers": 16, "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
    "intermediate_size": 4096, "vocab_size": 32000,
}  # fmt: skip


def _with(spec: dict[str, Any], pointer: str, value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(spec)
    *path, name = pointer.split("/")[1:]
    part = changed
    for step in path:
        part = part.setdefault(step, {})
    part[name] = value
    return changed


@pytest.mark.parametrize(
    ("spec", "pointer", "value"),
    [
        (SPEC, "/hardware/inter_node_bytes_per_second", 1e10),
        ({**SPEC, "hardware": {**H100, "device_count": 1}}, "/hardware/intra_node_bytes_per_second", 1e10),
        (SPEC, "/hardware/device_override/peak_fp16_dense_flops_per_second", 5e14),
        (SPEC, "/hardware/device_override/peak_fp8_dense_flops_per_second", 5e14),
        ({**SPEC, "precision": {"recipe": "fp16_mixed"}}, "/hardware/device_override/peak_fp16_dense_flops_per_second", 5e14),
        ({**SPEC, "precision": {"recipe": "fp8_mixed"}}, "/hardware/device_override/peak_fp8_dense_flops_per_second", 5e14),
        ({**SPEC, "precision": {"recipe": "nvfp4_mixed"}}, "/hardware/device_override/peak_fp8_dense_flops_per_second", 5e14),
        (SPEC, "/hardware/device_override/peak_fp32_dense_flops_per_second", 5e13),
        ({**SPEC, "precision": {"recipe": "fp32"}}, "/hardware/device_override/peak_fp32_dense_flops_per_second", 5e13),
        (SPEC, "/hardware/device_override/peak_bf16_dense_flops_per_second", 5e14),
        (SPEC, "/hardware/device_override/hbm_bytes_per_second", 1e12),
        ({**SPEC, **GIVEN}, "/hardware/device_override/hbm_bytes_per_second", 1e12),
        ({**ROLLOUTS, **GIVEN}, "/hardware/device_override/hbm_bytes_per_second", 1e12),
        ({**SPEC, **GIVEN}, "/hardware/intra_node_bytes_per_second", 1e10),
        ({**SPEC, "hardware": TWO_NODES}, "/hardware/inter_node_bytes_per_second", 1e9),
        ({**SPEC, **GIVEN, "hardware": TWO_NODES}, "/hardware/inter_node_bytes_per_second", 1e9),
        ({**SPEC, "software": {"cpu_offload": "none"}}, "/software/cpu_offload", ["optimizer", "optimizer"]),
        *((COUNTED, f"/model/{name}", value) for name, value in SHAPE.items()),
        *(({**COUNTED, "model": {**COUNTED["model"], **SHAPE}}, f"/model/{name}", 2 * value) for name, value in SHAPE.items()),
        (ROLLOUTS, "/post_training/preference_pairs", 1000),
    ],
)
def test_changes_an_item_or_is_warned_of(client: TestClient, spec: dict[str, Any], pointer: str, value: Any) -> None:
    """Items before and after."""
    before = client.post("/v1/quotes/preview", json=spec).json()
    after = client.post("/v1/quotes/preview", json=_with(spec, pointer, value)).json()
    if before["items"] == after["items"]:
        assert ("no_effect", pointer) in [(warning["code"], warning["pointer"]) for warning in after["warnings"]]
    else:
        assert ("no_effect", pointer) not in [(warning["code"], warning["pointer"]) for warning in after["warnings"]]


@pytest.mark.parametrize("name", ["frozen", "lora", "quantization"])
def test_a_part_of_another_kind_is_refused(client: TestClient, name: str) -> None:
    """With `kind` left out it is `full`, which freezes, adapts and quantizes nothing."""
    value: Any = {"frozen": ["embeddings"], "lora": {"rank": 8}, "quantization": {"format": "nf4"}}[name]
    response = client.post("/v1/quotes/preview", json=_with(SPEC, f"/method/{name}", value))
    assert response.status_code == 422


def test_offloading_nothing_twice_is_offloading_nothing(client: TestClient) -> None:
    """A list is a set: the same items as without it, and the answer's spec says `none`."""
    plain = client.post("/v1/quotes/preview", json=SPEC).json()
    twice = client.post("/v1/quotes/preview", json={**SPEC, "software": {"cpu_offload": ["none", "none"]}}).json()
    assert twice["items"] == plain["items"]
    assert twice["spec"] == plain["spec"]
