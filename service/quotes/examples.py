"""Examples for the documentation; tests post them."""

from __future__ import annotations

from typing import Any

SPEC: dict[str, Any] = {
    "name": "llama-3.1-8b pretraining",
    "project": "search-assistant",
    "labels": {"team": "search"},
    "external_ref": {"system": "slurm", "id": "cluster-a/123456"},
    "model": {"preset": "llama-3.1-8b"},
    "method": {"kind": "full", "objective": "pretrain"},
    "data": {"total_tokens": 15_000_000_000_000},
    "sequence_length": 8192,
    "batch": {"micro_batch_size": 1, "gradient_accumulation_steps": 16},
    "precision": {"recipe": "bf16_mixed"},
    "parallelism": {"sharding": "zero3"},
    "hardware": {"device": "h100-sxm-80gb", "device_count": 1024},
    "efficiency": {"mfu": 0.40},
}

REVISION: dict[str, Any] = {
    "spec": {"activation_checkpointing": "full", "labels": {"team": None}},
    "pilot": {"measurements": [{"code": "time.step", "value": 21.5, "method": "mean of steps 10 to 60"}]},
}
