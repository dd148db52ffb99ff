"""Keys of metrics that trackers (W&B, MLflow) keep for several trainers: units differ and stand beside each key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..measurement import GIB, Collector, Hints, Value
from .base import count, devices, number
from .hf import training_values

# Key -> code, bytes a unit, method. torchtitan, torchtune and verl log GiB (verl's `_gb` too), Megatron-LM bytes.
_MEMORY = {
    "memory/max_reserved(GiB)": ("memory.peak_reserved", GIB, "torch.cuda max reserved"),
    "peak_memory_alloc": ("memory.peak_allocated", GIB, "torch.cuda.max_memory_allocated"),
    "peak_memory_reserved": ("memory.peak_reserved", GIB, "torch.cuda.max_memory_reserved"),
    "mem-max-allocated-bytes": ("memory.peak_allocated", 1, "torch.cuda.max_memory_allocated"),
    "perf/max_memory_allocated_gb": ("memory.peak_allocated", GIB, "torch.cuda.max_memory_allocated"),
    "perf/max_memory_reserved_gb": ("memory.peak_reserved", GIB, "torch.cuda.max_memory_reserved"),
}
# Tokens per second and device: code, method. verl's counts prompts and responses; torchtune's leaves masked tokens out.
_RATES = {
    "throughput(tps)": ("throughput.input_tokens_per_second", "tps x devices, last value"),
    "perf/throughput": ("throughput.input_tokens_per_second", "tokens/s/GPU x devices, last value"),
    "tokens_per_second_per_gpu": ("throughput.target_tokens_per_second", "tokens_per_second_per_gpu x devices, last value"),
}
_FORMULAS = ("mfu(%)", "tflops", "perf/mfu/actor", "perf/mfu/critic")


def metric_values(metrics: Mapping[str, Any], hints: Hints, into: Collector) -> int | None:
    """Values of every known key; the step that was reached, where one says it."""
    prefix = "train/" if any(key.startswith("train/train_") for key in metrics) else ""
    training_values(metrics, into, prefix=prefix)
    for key, (code, unit, method) in _MEMORY.items():
        if value := number(metrics.get(key)):
            # A tracker keeps the last reading; torchtitan resets its peak at each line.
            into.values.append(Value(code=code, value=value * unit, method=method, scope="rank0", flags=("window_only",)))
    if seconds := number(metrics.get("iteration-time")):  # Megatron-LM's, in seconds
        step = Value(code="time.step", value=seconds, method="iteration-time, last value", excludes=("first_step",), flags=("window_only",))
        into.values.append(step)
    for key, (code, method) in _RATES.items():
        if rate := number(metrics.get(key)):
            found, assumed = devices(hints)
            if found is None:
                into.ignore(f"/{key}", "a rate per device: device_count is needed to make it the job's")
                continue
            into.values.append(
                Value(
                    code=code,
                    value=rate * found,
                    method=method,
                    scope="sum",
                    excludes=("first_step",),
                    flags=("window_only", *assumed),
                )
            )
    for key in _FORMULAS:
        if key in metrics:
            into.ignore(f"/{key}", "a formula of the tool: the implied MFU is derived from the measured time")
    steps = (count(metrics.get(key)) for key in ("train/global_step", "global_step", "training/global_step"))
    return next((step for step in steps if step is not None), None)
