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
DEPTHS = ("num_hidden_layers", "n_layer", "num_layers", "num_decoder_layers")


def rows(kind: str) -> list[dict[str, Any]]:
    """The rows of one kind."""
    lines = (CASES / "oracle.jsonl").read_text("utf-8").splitlines()
    return [row for line in lines if (row := json.loads(line))["kind"] == kind]


def run(row: dict[str, Any]) -> Run:
    """The run that a row measured."""
    config = copy.deepcopy(CONFIGS[row["model"]])
    if row["depth"]:
        config.update({name: row["depth"] for name in DEPTHS if name in config})
        if config.get("layer_types"):
            config["layer_types"] = config["layer_types"][: row["depth"]]
    method: dict[str, Any] = {"kind": "full"}
    if row["train"] == "lora":
        method = {"kind": "lora", "lora": {"rank": 16, "target_modules": "all-linear", "input_grads": bool(row.get("input_grads"))}}
    return run_of(
        {
            "model": {"hf_config": config},
            "method": method,
            "data": {"total_tokens": row["b"] * row["s"]},
            "sequence_length": row["s"],
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
    keys = ("model", "b", "s", "mode", "attn", "depth", "train", "gckpt", "opt", "steps")
    return " ".join(str(row[key]) for key in keys if row.get(key) is not None)
