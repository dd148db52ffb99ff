"""Legal layouts that make no sense are priced and said."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Preview

RUN: dict[str, Any] = {"model": {"preset": "llama-3.2-1b"}, "data": {"total_tokens": 10**9}, "sequence_length": 2048}  # 16 blocks, 32 heads


@pytest.mark.parametrize(
    ("parallelism", "devices", "length", "code"),
    [
        ({"pipeline": 32}, 32, 2048, "empty_pipeline_stages"),
        ({"pipeline": 8, "virtual_pipeline": 4}, 8, 2048, "empty_pipeline_stages"),
        ({"tensor": 7}, 7, 2048, "uneven_tensor_split"),
        ({"expert": 8}, 8, 2048, "expert_parallel_without_experts"),
        ({"context": 64}, 64, 16, "context_parallel_exceeds_sequence"),
        ({"sharding": "hybrid", "shard_group_size": 64}, 8, 2048, "shard_groups_do_not_divide"),
        ({"sharding": "hybrid", "shard_group_size": 3}, 8, 2048, "shard_groups_do_not_divide"),
    ],
)
def test_said(preview: Preview, parallelism: dict[str, Any], devices: int, length: int, code: str) -> None:
    """Each by its own code."""
    hardware = {"device": "h100-sxm-80gb", "device_count": devices}
    quote = preview(**{**RUN, "sequence_length": length}, parallelism=parallelism, hardware=hardware)
    assert code in [warning["code"] for warning in quote["warnings"]]


def test_sound_layouts_are_not_scolded(preview: Preview) -> None:
    """Everything divides."""
    parallelism = {"tensor": 2, "pipeline": 4, "virtual_pipeline": 2, "context": 2, "sharding": "hybrid", "shard_group_size": 2}
    quote = preview(**RUN, parallelism=parallelism, hardware={"device": "h100-sxm-80gb", "device_count": 64})
    codes = {warning["code"] for warning in quote["warnings"]}
    assert not codes & {"empty_pipeline_stages", "uneven_tensor_split", "shard_groups_do_not_divide", "context_parallel_exceeds_sequence"}
