"""Readers of the tools' own files: one module a tool, each a pure function from a document to attempts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

from ..measurement import Hints, Reading
from . import (
    hf_all_results,
    hf_trainer_state,
    kubernetes_job,
    megatron_log,
    mlflow_run,
    peft_benchmark,
    prometheus,
    sacct_json,
    sacct_parsable,
    slurm_jobcomp,
    torch_memory,
    torchtitan_log,
    wandb_summary,
)

Format = Literal[
    "hf_trainer_state",
    "hf_all_results",
    "sacct_json",
    "sacct_parsable",
    "slurm_jobcomp",
    "megatron_log",
    "torchtitan_log",
    "torch_memory",
    "peft_benchmark",
    "wandb_summary",
    "mlflow_run",
    "prometheus",
    "kubernetes_job",
]

Reader = Callable[[Any, Hints], Reading]

READERS: Mapping[Format, Reader] = {
    "hf_trainer_state": hf_trainer_state.read,
    "hf_all_results": hf_all_results.read,
    "sacct_json": sacct_json.read,
    "sacct_parsable": sacct_parsable.read,
    "slurm_jobcomp": slurm_jobcomp.read,
    "megatron_log": megatron_log.read,
    "torchtitan_log": torchtitan_log.read,
    "torch_memory": torch_memory.read,
    "peft_benchmark": peft_benchmark.read,
    "wandb_summary": wandb_summary.read,
    "mlflow_run": mlflow_run.read,
    "prometheus": prometheus.read,
    "kubernetes_job": kubernetes_job.read,
}
FORMATS: tuple[str, ...] = get_args(Format)
if READERS.keys() != set(FORMATS):
    raise TypeError(f"a format without its reader, or a reader without its format: {READERS.keys() ^ set(FORMATS)}")


def read(format_name: Format, document: Any, hints: Hints | None = None) -> Reading:
    """Read a document as its format says; raises ``Unreadable`` where it is something else."""
    return READERS[format_name](document, hints or Hints())
