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
