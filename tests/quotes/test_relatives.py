"""A stack that is told from its relatives by the width of its gradients is named to the caller."""

from __future__ import annotations

from typing import Any

from fastapi.testclient import TestClient


def notes(client: TestClient, precision: dict[str, Any]) -> str:
    spec = {
        "model": {"preset": "llama-3.1-8b"},
        "data": {"total_tokens": 10**9},
        "sequence_length": 2048,
        "software": {"stack": "megatron"},
        "precision": precision,
        "hardware": {"device": "h100-sxm-80gb", "device_count": 8},
    }
    answer = client.post("/v1/quotes/preview", json=spec)
    assert answer.status_code == 200, answer.text
    peak = next(item for item in answer.json()["items"] if item["code"] == "memory.peak_allocated")
    return " ".join(peak["assumptions"])


def test_sixteen_bit_gradients_are_megatron_deepspeeds(client: TestClient) -> None:
    assert "taken for Megatron-DeepSpeed" in notes(client, {"recipe": "bf16_mixed", "gradient_bytes": 2})
    assert "Megatron-DeepSpeed" not in notes(client, {"recipe": "bf16_mixed"})
