"""Every field of the run spec changes the quote, is warned about, or is metadata by design: no input is silently ignored."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from service.quotes.quoting import build
from service.specs.spec import RunSpec

BASE: dict[str, Any] = {
    "model": {"preset": "llama-3.2-1b"},
    "method": {"kind": "full", "objective": "pretrain"},
    "data": {"total_tokens": 1_000_000_000},
    "sequence_length": 2048,
    "batch": {"micro_batch_size": 2, "gradient_accumulation_steps": 4},
    "parallelism": {"tensor": 2, "sharding": "zero1"},
    "hardware": {"device": "h100-sxm-80gb", "device_count": 32},
    "checkpointing": {"interval_steps": 500},
}
SAMPLES: dict[str, Any] = {"data": {"prompt_tokens": [500, 900, 40], "target_tokens": [20, 800, 3000]}, "method": {"objective": "sft"}}
COUNT: dict[str, Any] = {"model": {"parameter_count": 10**9, "num_hidden_layers": 16, "hidden_size": 2048}}
LORA: dict[str, Any] = {"method": {"kind": "lora", "lora": {"rank": 8, "target_modules": "all-linear"}}}
QLORA: dict[str, Any] = {
    "method": {"kind": "qlora", "lora": {"rank": 8, "target_modules": "all-linear"}, "quantization": {"format": "nf4"}}
}
GRPO: dict[str, Any] = {
    "method": {"objective": "grpo"},
    "post_training": {"prompts": 1000, "samples_per_prompt": 4, "prompt_tokens": 200, "generated_tokens": 300},
}
DPO: dict[str, Any] = {
    "method": {"objective": "dpo"},
    "post_training": {"preference_pairs": 100, "prompt_tokens": 50, "generated_tokens": 200},
}
PEOPLE: dict[str, Any] = {"method": {"objective": "grpo"}, "post_training": {"human_review_items": 100, "human_seconds_per_item": 30}}
SUITE: dict[str, Any] = {"evaluation": {"interval_steps": 100, "suites": [{"name": "a", "kind": "safety", "tokens": 10**6}]}}
RATE: dict[str, Any] = {"rates": [{"resource": "device_hour", "amount": "2.5", "currency": "USD"}]}

# Kept with the quote and found by lists; nothing is priced by them.
METADATA = {
    "/name", "/project", "/labels", "/external_ref/system", "/external_ref/id", "/data/datasets/name", "/rates/source", "/rates/date",
    "/calibration",  # names the corrections that the service looks up; tests/accuracy covers it
}  # fmt: skip

# Pointer (lists without an index) -> (what to add to BASE, the other value).
CHANGES: dict[str, tuple[dict[str, Any], Any]] = {
    "/model/preset": ({}, "llama-3.1-8b"),
    "/model/hf_config": (
        {"model": {"hf_config": {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 2}}},
        {"model_type": "gpt2", "n_layer": 3, "n_embd": 64, "n_head": 2},
    ),
    "/model/parameter_count": (COUNT, 2 * 10**9),
    "/model/active_parameter_count": (COUNT, 5 * 10**8),
    "/model/num_hidden_layers": (COUNT, 12),
    "/model/hidden_size": (COUNT, 1024),
    "/model/num_attention_heads": (COUNT, 8),
    "/model/num_key_value_heads": (COUNT, 4),
    "/model/head_dim": (COUNT, 64),
    "/model/intermediate_size": (COUNT, 4096),
    "/model/vocab_size": (COUNT, 50_000),
    "/model/tie_word_embeddings": (COUNT, True),
    "/method/kind": ({"method": {}}, "lora"),
    "/method/objective": ({}, "dpo"),
    "/method/frozen": ({"method": {"kind": "frozen", "frozen": ["embeddings"]}}, ["layers:0-3"]),
    "/method/lora/rank": (LORA, 32),
    "/method/lora/alpha": (LORA, 64),
    "/method/lora/target_modules": (LORA, ["q_proj"]),
    "/method/lora/dropout": (LORA, 0.1),
    "/method/lora/adapter_bytes": (LORA, 2),
    "/method/lora/input_grads": (LORA, True),
    "/method/lora/modules_to_save": (LORA, ["embed_tokens"]),
    "/method/quantization/format": (QLORA, "int8"),
    "/method/quantization/block_size": (QLORA, 128),
    "/method/quantization/double_quantization": (QLORA, True),
    "/data/total_tokens": ({}, 2_000_000_000),
    "/data/samples": ({"data": {"samples": 100, "prompt_tokens": 5, "target_tokens": 9}}, 200),
    "/data/epochs": (SAMPLES, 3),
    "/data/prompt_tokens": (SAMPLES, [500, 900, 41]),
    "/data/target_tokens": (SAMPLES, [20, 800, 3001]),
    "/data/lengths/histogram": ({"data": {"lengths": {"histogram": [[10, 10, 5]]}}}, [[10, 10, 6]]),
    "/data/packing": (SAMPLES, "pad_to_max"),
    "/data/cross_sample_attention": ({"data": {**SAMPLES["data"], "packing": "packed"}}, True),
    "/data/truncation": (SAMPLES, False),
    "/data/unique_tokens": ({}, 100_000_000),
    "/data/datasets/version": ({"data": {"total_tokens": 10**9, "datasets": [{"name": "web"}]}}, "7"),
    "/data/datasets/tokens": ({"data": {"total_tokens": 10**9, "datasets": [{"name": "web"}]}}, 10**8),
    "/data/datasets/weight": (
        {"data": {"total_tokens": 10**9, "datasets": [{"name": "a", "tokens": 10**9}, {"name": "b", "tokens": 10**8}]}},
        5,
    ),
    "/sequence_length": ({}, 4096),
    "/decoder_sequence_length": ({"model": {"preset": "t5-base"}, "parallelism": {}}, 128),
    "/batch/micro_batch_size": ({}, 4),
    "/batch/gradient_accumulation_steps": ({}, 8),
    "/batch/global_batch_size": ({"batch": {}}, 64),
    "/precision/recipe": ({}, "fp8_mixed"),
    "/precision/weight_bytes": ({}, 3),
    "/precision/gradient_bytes": ({}, 3),
    "/precision/master_weight_bytes": ({}, 3),
    "/precision/optimizer_state_bytes": ({}, 3),
    "/optimizer/name": ({}, "lion"),
    "/optimizer/implementation": ({}, "fused"),
    "/activation_checkpointing": ({}, "full"),
    "/attention": ({}, "eager"),
    "/software/stack": ({}, "megatron"),
    "/software/compile": ({}, True),
    "/software/fused_loss": ({}, True),
    "/software/logits_dtype_bytes": ({}, 4),
    "/software/checkpoint_reentrant": ({"activation_checkpointing": "full"}, True),
    "/software/fsdp_version": (
        {
            "method": {"kind": "lora", "lora": {"rank": 16}},
            "activation_checkpointing": "full",
            "software": {"stack": "hf_transformers", "checkpoint_reentrant": True},
            "parallelism": {"sharding": "zero3"},
        },
        2,
    ),
    "/software/cpu_offload": ({}, ["optimizer"]),
    "/parallelism/tensor": ({}, 4),
    "/parallelism/pipeline": ({}, 2),
    "/parallelism/context": ({}, 2),
    "/parallelism/expert": ({"model": {"preset": "mixtral-8x7b"}}, 8),
    "/parallelism/expert_tensor": ({"model": {"preset": "mixtral-8x7b"}, "parallelism": {"expert": 4}}, 2),
    "/parallelism/expert_imbalance": ({"model": {"preset": "mixtral-8x7b"}, "parallelism": {"expert": 8}}, 2),
    "/parallelism/sequence_parallel": ({}, True),
    "/parallelism/virtual_pipeline": ({"parallelism": {"pipeline": 2}}, 4),
    "/parallelism/sharding": ({}, "zero3"),
    "/parallelism/shard_group_size": ({"parallelism": {"sharding": "hybrid"}}, 4),
    "/hardware/device": ({}, "a100-sxm-80gb"),
    "/hardware/device_count": ({}, 64),
    "/hardware/devices_per_node": ({}, 4),
    "/hardware/intra_node_bytes_per_second": ({}, 1e10),
    "/hardware/inter_node_bytes_per_second": ({}, 1e9),
    "/hardware/device_override/memory_bytes": ({}, 10**9),
    "/hardware/device_override/hbm_bytes_per_second": ({}, 1e12),
    "/hardware/device_override/peak_bf16_dense_flops_per_second": ({}, 5e14),
    "/hardware/device_override/peak_fp16_dense_flops_per_second": ({"precision": {"recipe": "fp16_mixed"}}, 5e14),
    "/hardware/device_override/peak_fp8_dense_flops_per_second": ({"precision": {"recipe": "fp8_mixed"}}, 1e15),
    "/hardware/device_override/peak_fp32_dense_flops_per_second": ({"precision": {"recipe": "fp32"}}, 1e14),
    "/efficiency/mfu": ({}, 0.3),
    "/efficiency/mfu_convention": ({"efficiency": {"mfu": 0.3}}, "causal"),
    "/efficiency/hfu": ({}, 0.3),
    "/efficiency/step_seconds": ({}, 3),
    "/efficiency/input_tokens_per_second": ({}, 1e5),
    "/checkpointing/interval_steps": ({}, 100),
    "/checkpointing/interval_seconds": ({"checkpointing": {}}, 100),
    "/checkpointing/contents": ({}, "weights"),
    "/checkpointing/state_dict": ({"parallelism": {"sharding": "zero3"}}, "full_on_device"),
    "/checkpointing/retain_last": ({}, 2),
    "/checkpointing/weights_interval_steps": ({}, 50),
    "/checkpointing/asynchronous": ({}, True),
    "/checkpointing/storage_bytes_per_second": ({}, 1e8),
    "/checkpointing/load_seconds": ({}, 1000),
    "/data_pipeline/raw_bytes": ({}, 10**12),
    "/data_pipeline/processed_bytes": ({}, 10**11),
    "/data_pipeline/token_bytes": ({}, 2),
    "/data_pipeline/cache_copies": ({}, 3),
    "/data_pipeline/input_tokens_per_second": ({}, 1000),
    "/evaluation/interval_steps": ({"evaluation": {"tokens_per_evaluation": 10**7}}, 10),
    "/evaluation/tokens_per_evaluation": ({"evaluation": {"interval_steps": 10}}, 10**7),
    "/evaluation/device_hours": ({}, 10),
    "/evaluation/suites/name": (SUITE, "b"),
    "/evaluation/suites/kind": (SUITE, "downstream"),
    "/evaluation/suites/tokens": (SUITE, 10**7),
    "/evaluation/suites/generated_tokens": (SUITE, 10**6),
    "/evaluation/suites/runs": (SUITE, 2),
    "/reserves/rerun_fraction": ({}, 0.5),
    "/reserves/ablation_fraction": ({}, 0.5),
    "/reserves/interruptions_per_device_hour": ({}, 0.01),
    "/reserves/restart_seconds": ({}, 5000),
    "/reserves/ablation_runs/name": ({"reserves": {"ablation_runs": [{"name": "a", "kind": "lr", "count": 2, "device_hours": 3}]}}, "b"),
    "/reserves/ablation_runs/kind": ({"reserves": {"ablation_runs": [{"name": "a", "kind": "lr", "count": 2, "device_hours": 3}]}}, "mix"),
    "/reserves/ablation_runs/count": ({"reserves": {"ablation_runs": [{"name": "a", "kind": "lr", "count": 2, "device_hours": 3}]}}, 3),
    "/reserves/ablation_runs/device_hours": (
        {"reserves": {"ablation_runs": [{"name": "a", "kind": "lr", "count": 2, "device_hours": 3}]}},
        4,
    ),
    "/post_training/prompts": (GRPO, 2000),
    "/post_training/samples_per_prompt": (GRPO, 8),
    "/post_training/prompt_tokens": (GRPO, 400),
    "/post_training/generated_tokens": (GRPO, 600),
    "/post_training/update_epochs": (GRPO, 2),
    "/post_training/reference": (GRPO, "none"),
    "/post_training/generator": (GRPO, "separate"),
    "/post_training/reward_parameter_count": (GRPO, 10**9),
    "/post_training/tool_seconds_per_sample": (GRPO, 2),
    "/post_training/judge_tokens": (GRPO, 500),
    "/post_training/preference_pairs": (DPO, 200),
    "/post_training/human_review_items": (PEOPLE, 200),
    "/post_training/human_seconds_per_item": (PEOPLE, 60),
    "/rates/resource": (RATE, "storage_gib_month"),
    "/rates/device": (RATE, "a100-sxm-80gb"),
    "/rates/amount": (RATE, "3.5"),
    "/rates/currency": (RATE, "EUR"),
    "/interval_coverage": ({}, 0.5),
}


def _leaves(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        nested = next(_models(field.annotation), None)
        if nested is None:
            yield f"{prefix}/{name}"
        else:
            yield from _leaves(nested, f"{prefix}/{name}")


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def test_every_field_is_listed() -> None:
    assert sorted(_leaves(RunSpec)) == sorted([*CHANGES, *METADATA])


def set_at(spec: dict[str, Any], pointer: str, value: Any) -> None:
    place: Any = spec
    parts = pointer.strip("/").split("/")
    for part in parts[:-1]:
        place = place.setdefault(part, {})
        if isinstance(place, list):
            place = place[0]
    place[parts[-1]] = value


def merged(parts: dict[str, Any]) -> dict[str, Any]:
    spec = copy.deepcopy(BASE)
    for name, value in copy.deepcopy(parts).items():
        spec[name] = {**spec.get(name, {}), **value} if name in ("method", "parallelism", "evaluation") and value else value
    return spec


def _answer(spec: dict[str, Any]) -> dict[str, Any]:
    quote = build(spec)
    return {key: json.loads(json.dumps(quote[key])) for key in ("items", "warnings", "summary", "resolved", "memory_phases")}


@pytest.mark.parametrize("pointer", CHANGES)
def test_a_field_has_an_effect(pointer: str) -> None:
    parts, value = CHANGES[pointer]
    before, after = merged(parts), merged(parts)
    set_at(after, pointer, value)
    assert _answer(before) != _answer(after), f"{pointer} changes nothing and nothing says so"
