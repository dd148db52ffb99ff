"""What a family does differently travels with its reader, under whatever name a config comes; the core asks for no names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import service.estimation
from service.quotes.quoting import build
from service.specs.hf_config import SAME_AS, model_types
from tests.estimation.runs import oracle_configs

CONFIGS = {config["full"]["model_type"]: config["full"] for config in oracle_configs().values()}
# Small models of the families that aliases are read as and that the oracle has none of.
CONFIGS |= {
    "deepseek_v3": {
        "hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8, "vocab_size": 32000, "intermediate_size": 4096,
        "moe_intermediate_size": 512, "n_routed_experts": 16, "num_experts_per_tok": 4, "n_shared_experts": 1, "first_k_dense_replace": 1,
        "q_lora_rank": 384, "kv_lora_rank": 128, "qk_rope_head_dim": 32, "qk_nope_head_dim": 64, "v_head_dim": 64, "hidden_act": "silu",
    },
    "falcon": {"hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 16, "vocab_size": 32000, "multi_query": True},
}  # fmt: skip


def quote(config: dict[str, Any], model_type: str, stack: str, attention: str, checkpointing: str) -> dict[str, Any]:
    return build(
        {
            "model": {"hf_config": {**config, "model_type": model_type}},
            "data": {"total_tokens": 10**8},
            "sequence_length": 2048,
            "attention": attention,
            "activation_checkpointing": checkpointing,
            "software": {"stack": stack},
            "precision": {"recipe": "bf16_pure"},
            "hardware": {"device": "h100-sxm-80gb", "device_count": 8},
        }
    )


@pytest.mark.parametrize("alias", SAME_AS)
@pytest.mark.parametrize("stack", ["hf_transformers", "fsdp_native", "megatron"])
@pytest.mark.parametrize(("attention", "checkpointing"), [("flash", "none"), ("eager", "full")])
def test_an_alias_is_priced_as_the_family_it_is_read_as(alias: str, stack: str, attention: str, checkpointing: str) -> None:
    family = SAME_AS[alias]
    own, known = (quote(CONFIGS[family], name, stack, attention, checkpointing) for name in (alias, family))
    assert own["items"] == known["items"]
    assert own["memory_phases"] == known["memory_phases"]
    assert own["saved_bytes_per_layer"] == known["saved_bytes_per_layer"]


def strings(tree: ast.AST) -> Iterator[str]:
    """Every string in the code that is no docstring."""
    told = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.value


def test_the_core_names_no_model_family() -> None:
    core = Path(service.estimation.__file__).parent
    names = set(model_types()) | {"family:"}
    found = [
        (path.relative_to(core).as_posix(), text)
        for path in sorted(core.rglob("*.py"))
        for text in strings(ast.parse(path.read_text()))
        if text in names or text.startswith("family:")
    ]
    assert found == []
