"""Memory of 100,000 layouts through the formulas that price one quote, beside the scalar loop.

python -m tests.benchmarks.memory_layouts
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from service.estimation import memory
from service.estimation.run import Run
from service.specs.load import run_of

SPEC: dict[str, Any] = {
    "model": {"preset": "llama-3.1-70b"},
    "data": {"total_tokens": 10**12},
    "sequence_length": 8192,
    "batch": {"micro_batch_size": 1, "gradient_accumulation_steps": 8},
    "precision": {"recipe": "bf16_mixed"},
    "activation_checkpointing": "full",
    "software": {"stack": "megatron"},
    "parallelism": {"sharding": "zero1", "sequence_parallel": True},
    "hardware": {"device": "h100-sxm-80gb", "device_count": 1024},
}


def layouts(run: Run, count: int, seed: int = 0) -> Run:
    """The run with ``count`` random layouts as arrays."""
    random = np.random.default_rng(seed)
    tensor = 2 ** random.integers(0, 4, count)
    pipeline = random.choice([1, 2, 4, 5, 8, 10, 16, 20], count)
    context = 2 ** random.integers(0, 3, count)
    data = 2 ** random.integers(0, 6, count)
    micro = random.integers(1, 9, count)
    steps = random.integers(1, 65, count)
    return replace(
        run,
        layout=replace(
            run.layout, tensor=tensor, pipeline=pipeline, context=context, data=data, virtual_pipeline=random.integers(1, 3, count)
        ),
        batch=replace(run.batch, micro_batch_size=micro, gradient_accumulation_steps=steps, global_batch_size=micro * steps * data),
    )


def single(run: Run, index: int) -> Run:
    """One of them, in plain integers."""
    pick = lambda value: int(value[index]) if isinstance(value, np.ndarray) else value  # noqa: E731
    layout = {name: pick(getattr(run.layout, name)) for name in ("tensor", "pipeline", "context", "data", "virtual_pipeline")}
    batch = {name: pick(getattr(run.batch, name)) for name in ("micro_batch_size", "gradient_accumulation_steps", "global_batch_size")}
    return replace(run, layout=replace(run.layout, **layout), batch=replace(run.batch, **batch))


def main() -> None:
    """Print both times and their ratio."""
    run = layouts(run_of(SPEC), 100_000)
    memory.figures(layouts(run_of(SPEC), 1000))
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        memory.figures(run)
        best = min(best, time.perf_counter() - start)
    sample = [single(run, index) for index in range(0, 100_000, 200)]
    start = time.perf_counter()
    for one in sample:
        memory.figures(one)
    scalar = (time.perf_counter() - start) / len(sample)
    alone = f"one by one: {scalar * 1e6:.0f} us each, {scalar * 1e5:.1f} s in all"
    print(f"100,000 layouts: {best * 1e3:.0f} ms; {alone}; {scalar * 1e5 / best:.0f} times")


if __name__ == "__main__":
    main()
