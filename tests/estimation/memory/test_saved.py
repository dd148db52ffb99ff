"""Saved activations block by block against PyTorch's saved-tensor hooks."""

from __future__ import annotations

import pytest

from service.estimation import memory, parameters

from . import oracle


@pytest.mark.parametrize("model", sorted({row["model"] for row in oracle.rows("saved")}))
def test_saved_bytes_per_layer_equal_pytorchs_own_count(model: str) -> None:
    rows = [row for row in oracle.rows("saved") if row["model"] == model]
    for row in rows:
        run = oracle.run(row)
        found = memory.estimate(run, parameters.count(run)).saved_bytes_per_layer
        assert found is not None
        assert found == pytest.approx(row["layers"], rel=1e-3), oracle.name(row)


def test_the_closed_form_of_a_llama_block() -> None:
    """16h + 8 + 4q + 4kv + 4 heads + 8f bytes a token in bf16, by hand for Llama-3.1-8B; layer 0 holds cosines and sines."""
    row = next(row for row in oracle.rows("saved") if row["model"] == "llama-3.1-8b" and row["attn"] == "sdpa" and row["mode"] == "bf16")
    run = oracle.run(row)
    found = memory.estimate(run, parameters.count(run)).saved_bytes_per_layer
    assert found is not None
    per_token = 16 * 4096 + 8 + 4 * 4096 + 4 * 1024 + 4 * 32 + 8 * 14336
    tokens = row["b"] * row["s"]
    assert found[1] == per_token * tokens
    assert found[0] == per_token * tokens + row["s"] * 2 * 128 * 2
