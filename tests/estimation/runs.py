"""Runs for tests of the core: plain ones, with what a test changes."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from service.estimation.architecture import Architecture
from service.estimation.run import Batch, Data, Lora, Method, Precision, Run, Software
from service.specs.hf_config import read

CASES = Path(__file__).parents[1] / "cases"
PURE = Precision(recipe="bf16_pure", weight_bytes=2, gradient_bytes=2, master_weight_bytes=0, optimizer_state_bytes=4)


def rows(name: str) -> list[dict[str, Any]]:
    """The rows of a JSON-lines case file."""
    return [json.loads(line) for line in (CASES / name).read_text().splitlines() if line]


@lru_cache(maxsize=1)
def oracle_configs() -> dict[str, Any]:
    """The configs that the oracle's rows were measured on."""
    return json.loads((CASES / "oracle_configs.json").read_text())


@lru_cache(maxsize=256)
def oracle_model(name: str, depth: int | None = None) -> Architecture:
    """An oracle model, cut to ``depth`` layers."""
    config = dict(oracle_configs()[name]["full"])
    if depth is not None:
        key = next(key for key in ("num_hidden_layers", "n_layer", "n_layers", "num_layers") if key in config)
        config[key] = depth
        if "num_decoder_layers" in config:
            config["num_decoder_layers"] = depth
        if config.get("layer_types"):
            config["layer_types"] = config["layer_types"][:depth]
    return read(config)


def lora(rank: int = 16, targets: str | tuple[str, ...] = "all-linear", **options: Any) -> Method:
    """A method with adapters."""
    return Method(kind="lora", lora=Lora(rank=rank, alpha=2 * rank, target_modules=targets, **options))


def a_run(architecture: Architecture, data: Data | None = None, *, batch: tuple[Any, Any, Any] = (1, 1, 1), **options: Any) -> Run:
    """A run with ``batch`` = (micro, accumulation, global) and whatever else is given."""
    micro, accumulation, total = batch
    return Run(
        architecture=architecture,
        data=data or Data(total_tokens=1),
        batch=Batch(micro_batch_size=micro, gradient_accumulation_steps=accumulation, global_batch_size=total),
        precision=PURE,
        **options,
    )


def oracle_run(row: dict[str, Any]) -> Run:
    """The run of one ``flops`` row."""
    methods = {
        "full": Method(),
        "frozen_emb": Method(kind="frozen", frozen=("embeddings",)),
        "lora": lora(input_grads=row["input_grads"]),
    }
    size, length = row["b"], row["s"]
    return replace(
        a_run(oracle_model(row["model"], row["depth"]), Data(total_tokens=size * length), batch=(size, 1, size)),
        method=methods[row["train"]],
        sequence_length=length,
        attention=row["attn"],
        activation_checkpointing="full" if row["gckpt"] else "none",
        software=Software(checkpoint_reentrant=row["gckpt"] == "reentrant"),
    )
