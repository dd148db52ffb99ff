"""Keys that the Hugging Face Trainer writes, wherever they end up (result files, W&B, MLflow).

Facts: ``train_runtime`` is the wall time of this session's ``train()``, evaluations and saves inside it included, model
loading not. ``total_flos`` is 6 x non-embedding parameters x positions even for LoRA, and 0 in some trainers: a formula, not
a measurement. ``num_input_tokens_seen`` is 0 where counting is off and counts padding unless it was set to
``non_padding``. Memory is given as differences on rank 0, which add up to a peak only together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..measurement import Collector, Value
from .base import number

_MEMORY = ("before_init_mem_gpu", "init_mem_gpu_alloc_delta", "train_mem_gpu_alloc_delta", "train_mem_gpu_peaked_delta")
_IGNORED = {
    "total_flos": "a formula (6 x parameters x positions, also for LoRA) or 0: not a measurement of FLOPs",
    "train_samples_per_second": "follows from train_runtime; on a resumed run it divides all samples by this session's time",
    "train_steps_per_second": "follows from train_runtime; on a resumed run it divides all steps by this session's time",
    "train_tokens_per_second": "follows from train_runtime and a token counter that may include padding",
    "mfu": "a formula of the tool: the implied MFU is derived from the measured time",
}


def training_values(
    keys: Mapping[str, Any], into: Collector, *, prefix: str = "", evaluation_seconds: float | None = None, session: bool = True
) -> None:
    """Values of a finished ``train()``: its time without ``evaluation_seconds`` where they are known, tokens, peak memory."""
    runtime = number(keys.get(prefix + "train_runtime"))
    if runtime is not None and runtime > 0:
        if evaluation_seconds is None:
            into.values.append(
                Value(code="time.training", value=runtime, method="train_runtime", scope="rank0", flags=("includes_overheads",))
            )
        else:
            value = max(0.0, runtime - evaluation_seconds)
            method = "train_runtime" if not evaluation_seconds else "train_runtime less eval_runtime"
            into.values.append(Value(code="time.training", value=value, method=method, scope="rank0"))
            if evaluation_seconds:
                into.values.append(Value(code="time.evaluation", value=evaluation_seconds, method="eval_runtime", scope="rank0"))
    elif runtime is not None:
        into.ignore(f"/{prefix}train_runtime", "0 seconds: training did not run in this session")
    tokens(keys.get(prefix + "num_input_tokens_seen"), f"/{prefix}num_input_tokens_seen", into)
    peak_memory(keys, into, prefix)
    for name, why in _IGNORED.items():
        if prefix + name in keys:
            into.ignore(f"/{prefix}{name}", why)


def tokens(value: Any, pointer: str, into: Collector) -> None:
    """Tokens read, as the Trainer counts them."""
    seen = number(value)
    if seen is None:
        return
    if seen <= 0:
        into.ignore(pointer, "0: the counter is off (include_num_input_tokens_seen)")
        return
    into.values.append(
        Value(code="tokens.tensor_positions", value=seen, method="num_input_tokens_seen", scope="sum", flags=("padding_unknown",))
    )


def peak_memory(keys: Mapping[str, Any], into: Collector, prefix: str = "") -> None:
    """Peak allocated memory of rank 0 from the Trainer's four differences; fewer of them are no peak."""
    parts = [number(keys.get(prefix + name)) for name in _MEMORY]
    known = [part for part in parts if part is not None]
    if not known:
        return
    if len(known) < len(_MEMORY):
        into.ignore(f"/{prefix}{_MEMORY[-1]}", f"differences, not a peak: it needs {', '.join(_MEMORY)} (skip_memory_metrics=False)")
        return
    into.values.append(Value(code="memory.peak_allocated", value=sum(known), method="trainer memory metrics (rank 0)", scope="rank0"))
