"""Fitted data of the memory model, written by ``python -m tests.benchmarks.fit_memory --write``; do not edit by hand.

Rows: service/catalog/data/measured_memory.jsonl, each with its source; the priors and where they come from:
tests/benchmarks/fit_memory.py. What an entry means is said in stacks/profile.py."""

from __future__ import annotations

FITTED_ON = "171 measured peaks of 7 sources: Qwen, ao, bigscience, litgpt, ms-swift, torchtitan, torchtune"
INPUTS = "318afe336575b76f"  # digest of the rows and priors (tests/benchmarks/fitted.py)

# By stack (name: value; prior and its standard deviation beside it); a dot leads into the stack's overheads.
COEFFICIENTS: dict[str, dict[str, float]] = {
    "hf_transformers": {
        "overheads.framework_bytes": 1.5e9,  # prior 1.2e9, 6e8
        "overheads.fragmentation": 0.03,  # prior 0.12, 0.05
    },
    "fsdp_native": {
        "overheads.fragmentation": 0.04,  # prior 0.12, 0.05
        "overheads.late_gradients": 1.25,  # prior 1, 0.5
        "kept_compiled": 1.03,  # prior 1, 0.1
        "kept_quantized": 0.87,  # prior 1, 0.1
    },
    "deepspeed": {
        "overheads.fragmentation": 0.105,  # prior 0.12, 0.05
        "overheads.framework_bytes": 9.5e8,  # prior 1.2e9, 6e8
    },
    "megatron": {
        "overheads.fragmentation": 0.11,  # prior 0.12, 0.05
        "overheads.framework_bytes": 1.1e9,  # prior 1.2e9, 6e8
    },
    "megatron, DeepSpeed's engine": {
        "overheads.fragmentation": 0.145,  # prior 0.12, 0.05
        "overheads.framework_bytes": 1.75e9,  # prior 1.2e9, 6e8
        "overheads.fragmentation_bytes": 1.2e9,  # prior 8e8, 1e9
    },
}

# Device generations that the rows ran on.
GENERATIONS = frozenset({"ada", "ampere", "cdna3", "hopper", "volta"})
