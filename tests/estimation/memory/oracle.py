"""The oracle's rows (what PyTorch counts) as run specs."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from service.estimation.run import Run
from service.specs.load import run_of

CASES = Path(__file__).parents[2] / "cases"
CONFIGS = {name: entry["full"] for name, entry in json.loads((CASES / "oracle_configs.json").read_text("utf-8")).items()}
RECIPES = {"bf16": "bf16_pure", "bf16_autocast": "bf16_mixed", "fp32": "fp32"}
SAME = (
    "model",
    "b",
    "s",
    "decoder",
    "mode",
    "attn",
    "depth",
    "vocab_size",
    "train",
    "targets",
    "gckpt",
    "opt",
    "steps",
    "keep_outputs",
    "input_grads",
    "base",
    "adapters",
    "lora_dropout",
)
DEPTHS = ("num_hidden_layers", "n_layer", "num_layers", "num_decoder_layers")


def rows(kind: str, files: tuple[str, ...] = ("oracle.jsonl", "oracle_step.jsonl")) -> list[dict[str, Any]]:
    """The rows of one kind; a row that was measured again (tests/benchmarks/oracle_step.py) stands for the first measurement."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for file in files:
        for line in (CASES / file).read_text("utf-8").splitlines():
            row = json.loads(line)
            if row["kind"] == kind:
                found[tuple(str(row.get(key)) for key in SAME)] = row
    return list(found.values())


def run(row: dict[str, Any]) -> Run:
    """The run that a row measured."""
    config = copy.deepcopy(CONFIGS[row["model"]])
    if row["depth"]:
        config.update({name: row["depth"] for name in DEPTHS if name in config})
        if config.get("layer_types"):
            config["layer_types"] = config["layer_types"][: row["depth"]]
    if row.get("vocab_size"):
        config["vocab_size"] = row["vocab_size"]
    method: dict[str, Any] = {"kind": "full"}
    if row["train"] == "lora":
        lora = {
            "rank": 16,
            "target_modules": row.get("targets") or "all-linear",
            "input_grads": bool(row.get("input_grads")),
            "dropout": row.get("lora_dropout") or 0.0,
            "adapter_bytes": 2 if row.get("adapters") == "bf16" else 4,
        }
        method = {"kind": "lora", "lora": lora}
    return run_of(
        {
            "model": {"hf_config": config},
            "method": method,
            "data": {"total_tokens": row["b"] * row["s"]},
            "sequence_length": row["s"],
            **({"decoder_sequence_length": row["decoder"]} if row.get("decoder") else {}),
            "batch": {"micro_batch_size": row["b"]},
            "precision": {"recipe": RECIPES[row["mode"]]},
            "attention": row["attn"],
            "activation_checkpointing": "full" if row.get("gckpt") else "none",
            "optimizer": {"name": "adamw", "implementation": row.get("opt", "foreach")},
            "software": {"stack": "hf_transformers"},
            "hardware": {"device": "h100-sxm-80gb", "device_count": 1},
            "parallelism": {"sharding": "none"},
        }
    )


def name(row: dict[str, Any]) -> str:
    """What tells a row from others."""
    keys = ("model", "b", "s", "mode", "attn", "depth", "vocab_size", "train", "targets", "gckpt", "opt", "steps")
    keys += ("base", "adapters", "lora_dropout")
    return " ".join(str(row[key]) for key in keys if row.get(key) is not None)
