"""A parameter count with a shape beside it: both hold, or what does not is said."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from .conftest import Preview

LLAMA: dict[str, Any] = {
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
}
# Mixtral 8x7B: 46.7 billion, 12.9 billion a token, so that two of the eight experts make up one block here.
MIXTRAL: dict[str, Any] = {**LLAMA, "vocab_size": 32000, "intermediate_size": 2 * 14336}
RUN: dict[str, Any] = {"data": {"total_tokens": 10**9}, "sequence_length": 2048, "hardware": {"device": "h100-sxm-80gb"}}


def _codes(quote: dict[str, Any]) -> set[str]:
    return {warning["code"] for warning in quote["warnings"]}


def test_inactive_experts_are_held_and_cost_nothing(preview: Preview) -> None:
    """States of all 46.7 billion, FLOPs of the 12.9 billion that a token meets."""
    total, active = 46_702_792_704, 12_879_925_248
    counted = preview(model={"parameter_count": total, "active_parameter_count": active, **MIXTRAL}, **RUN)
    preset = preview(model={"preset": "mixtral-8x7b"}, **RUN)
    assert counted["resolved"]["parameters"]["total"] == total
    assert counted["resolved"]["parameters"]["active"] == active
    for code in ("memory.weights", "memory.model_states", "storage.checkpoint_full", "compute.linear", "compute.6nd"):
        assert counted["by"][code]["expected"] == pytest.approx(preset["by"][code]["expected"], rel=1e-3), code
    assert "count_contradicts_shape" not in _codes(counted)


def test_a_plain_feed_forward_is_recognized(preview: Preview) -> None:
    """GPT-2 XL's feed-forward has two matrices, not three."""
    shape = {"num_hidden_layers": 48, "hidden_size": 1600, "num_attention_heads": 25, "intermediate_size": 6400, "vocab_size": 50257}
    counted = preview(model={"parameter_count": 1_557_611_200, "tie_word_embeddings": True, **shape}, **RUN)
    preset = preview(model={"preset": "gpt2-xl"}, **RUN)
    assert counted["by"]["compute.training"]["expected"] == pytest.approx(preset["by"]["compute.training"]["expected"], rel=2e-3)
    assert "count_contradicts_shape" not in _codes(counted)


def test_a_rounded_count_is_no_contradiction(preview: Preview) -> None:
    """8e9 is Llama 3.1 8B to everybody."""
    assert "count_contradicts_shape" not in _codes(preview(model={"parameter_count": 8e9, **LLAMA}, **RUN))


def test_a_count_of_another_model_is_said(preview: Preview) -> None:
    """Twice what the shape holds."""
    assert "count_contradicts_shape" in _codes(preview(model={"parameter_count": 16e9, **LLAMA}, **RUN))


@pytest.mark.parametrize("count", [1, 1e8])
def test_a_count_below_the_tables_is_refused(client: TestClient, count: float) -> None:
    """No such model exists: parameters without the embedding would be negative."""
    response = client.post("/v1/quotes/preview", json={"model": {"parameter_count": count, **LLAMA}, **RUN})
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/model/parameter_count"
