"""Codes of the items that every quote may have and a run may measure; what a run declares (kinds, prices) adds its own.

To find what makes ``memory.activations`` look for its last part: items of memory are named by it alone (``memory.peaks.items``).
"""

from __future__ import annotations

_PARTS = {
    "tokens": "input target padding tensor_positions unique truncated squared_lengths",
    "compute": "training linear attention training_full_attention 6nd 6nd_non_embedding executed forward backward recompute",
    "time": "step training wall_clock startup checkpointing evaluation data_stall restarts",
    "device_hours": "training run total ablation rerun generation evaluation",
    "efficiency": "mfu mfu_6nd mfu_causal mfu_full_attention hfu",
    "throughput": "input_tokens_per_second target_tokens_per_second tensor_positions_per_second",
    "memory": "weights gradients master_weights optimizer_states model_states activations logits transient peak_allocated"
    " fragmentation peak_reserved framework communication peak_process",
    "host_memory": "offload",
    "storage": "checkpoint_full checkpoint_weights checkpoints_retained raw_data processed_data tokenized_data caches logs total",
}
CODES: tuple[str, ...] = tuple(f"{section}.{part}" for section, parts in _PARTS.items() for part in parts.split())
