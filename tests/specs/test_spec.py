"""The run spec: closed lists, pointers, nearest names, numbers as JSON gives them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from service.kit.problems import Invalid
from service.specs.load import parse, run_of
from service.specs.resolve import resolve

MINIMAL: dict[str, Any] = {"model": {"preset": "llama-3.1-8b"}, "data": {"total_tokens": 1_000_000}}


def spec(**parts: Any) -> dict[str, Any]:
    """The least spec with parts added."""
    return {**MINIMAL, **parts}


def faults(document: Any) -> dict[str, str]:
    """Details by pointer of a spec that must be refused."""
    with pytest.raises(Invalid) as caught:
        resolve(parse(document))
    assert caught.value.status == 422
    return {fault.pointer: fault.detail for fault in caught.value.errors}


@pytest.mark.parametrize(
    ("document", "pointer", "name"),
    [
        (spec(batch={"micro_batchsize": 1}), "/batch/micro_batchsize", "micro_batch_size"),
        (spec(seqence_length=8), "/seqence_length", "sequence_length"),
        (spec(method={"kind": "lora", "lora": {"r": 8, "ranks": 8}}), "/method/lora/ranks", "rank"),
        (spec(evaluation={"suites": [{"name": "a", "kind": "safety", "token": 3}]}), "/evaluation/suites/0/token", "tokens"),
        (spec(optimizer={"name": "adam"}), "/optimizer/name", "adamw"),
        (spec(hardware={"device": "h100-sxm-80g"}), "/hardware/device", "h100-sxm-80gb"),
        (spec(model={"preset": "llama-3.1-8"}), "/model/preset", "llama-3.1-8b"),
    ],
)
def test_unknown_names_get_the_nearest_known_one(document: dict[str, Any], pointer: str, name: str) -> None:
    assert name in faults(document)[pointer]


CLOSED_LISTS = {
    "/method/kind": {"full", "lora", "qlora", "frozen"},
    "/method/objective": {"pretrain", "sft", "dpo", "reward_model", "ppo", "grpo"},
    "/data/packing": {"none", "pad_to_max", "packed"},
    "/precision/recipe": {"fp32", "bf16_mixed", "fp16_mixed", "bf16_pure", "fp8_mixed", "nvfp4_mixed"},
    "/optimizer/name": {
        "adamw", "adamw_8bit", "paged_adamw_8bit", "paged_adamw", "adamw_4bit", "adafactor", "sgd", "sgd_momentum", "lion", "lion_8bit",
        "muon", "galore_adamw", "apollo",
    },
    "/optimizer/implementation": {"foreach", "fused"},
    "/activation_checkpointing": {"none", "selective", "full"},
    "/attention": {"flash", "sdpa", "eager"},
    "/software/stack": {"hf_transformers", "fsdp_native", "deepspeed", "megatron", "llm_foundry"},
    "/software/cpu_offload": {"none", "optimizer", "parameters", "activations"},
    "/parallelism/sharding": {"none", "zero1", "zero2", "zero3", "hybrid"},
}  # fmt: skip


def _with(pointer: str, value: Any) -> dict[str, Any]:
    parts = pointer.strip("/").split("/")
    document: dict[str, Any] = spec(method={"kind": "full"})
    place = document
    for part in parts[:-1]:
        place[part] = dict(place.get(part, {}))
        place = place[part]
    place[parts[-1]] = value
    if value in ("lora", "qlora"):
        document["method"] = {"kind": value, "lora": {"rank": 16, "alpha": 16, "target_modules": "all-linear"}}
    if value == "frozen":
        document["method"] = {"kind": value, "frozen": ["embeddings"]}
    return document


@pytest.mark.parametrize("pointer", CLOSED_LISTS)
def test_closed_lists(pointer: str) -> None:
    for value in sorted(CLOSED_LISTS[pointer]):
        resolve(parse(_with(pointer, value)))
    assert any(where.startswith(pointer) for where in faults(_with(pointer, "something-else")))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "8", True, 1.5, -1, 0, None, [], {}, 10**30])
def test_numbers_that_are_none(value: Any) -> None:
    if value is None:  # the same as left out
        resolve(parse(spec(sequence_length=None)))
        return
    assert "/sequence_length" in faults(spec(sequence_length=value))


def test_integral_floats_are_integers() -> None:
    run = run_of({"model": {"parameter_count": 1e8}, "data": {"total_tokens": 1e7}, "sequence_length": 2048.0})
    assert (run.architecture.declared_total, run.data.total_tokens, run.sequence_length) == (100_000_000, 10_000_000, 2048)
    assert isinstance(run.sequence_length, int)


@pytest.mark.parametrize(
    "document",
    [
        {"model": {}, "data": {"total_tokens": 1}},
        {"model": {"preset": "gpt2-xl", "parameter_count": 1}, "data": {"total_tokens": 1}},
        {"model": {"preset": "gpt2-xl", "hidden_size": 1}, "data": {"total_tokens": 1}},
        {"model": {"parameter_count": 10, "active_parameter_count": 11}, "data": {"total_tokens": 1}},
        {"model": {"preset": "gpt2-xl"}},
        {"data": {"total_tokens": 1}},
        spec(data={}),
        spec(data={"total_tokens": 1, "samples": 1}),
        spec(data={"samples": 4}),
        spec(data={"prompt_tokens": 3, "target_tokens": 3}),
        spec(data={"samples": 2, "prompt_tokens": [1, 2, 3], "target_tokens": 1}),
        spec(data={"prompt_tokens": [1, 2], "target_tokens": [1]}),
        spec(data={"samples": 1, "prompt_tokens": 0, "target_tokens": 0}),
        spec(data={"total_tokens": 10, "epochs": 3}),
        spec(method={"kind": "full", "lora": {"rank": 8}}),
        spec(method={"kind": "frozen"}),
        spec(method={"kind": "frozen", "frozen": ["everything"]}),
        spec(method={"kind": "frozen", "frozen": ["layers:30-40"]}),
        spec(method={"kind": "lora", "lora": {"rank": 8, "target_modules": ["no_such_proj"]}}),
        spec(method={"kind": "lora", "lora": {"rank": 8, "modules_to_save": ["no_such_module"]}}),
        spec(efficiency={"mfu": 0.4, "hfu": 0.4}),
        spec(hardware={"device": "h100-sxm-80gb", "device_count": 8}, parallelism={"tensor": 3}),
        spec(batch={"micro_batch_size": 1, "gradient_accumulation_steps": 1, "global_batch_size": 2}),
        spec(rates=[{"resource": "device_hour", "amount": 2.5, "currency": "USD"}]),
        spec(software={"cpu_offload": ["none", "optimizer"]}),
        [],
        None,
        "text",
    ],
)
def test_refused(document: Any) -> None:
    assert faults(document)


def test_only_an_uneven_device_count_is_refused_of_the_layout() -> None:
    hardware = {"device": "h100-sxm-80gb", "device_count": 24}
    run_of(spec(hardware=hardware, parallelism={"tensor": 2, "pipeline": 3, "expert": 16, "virtual_pipeline": 5}))
    run_of(spec(hardware=hardware, parallelism={"tensor": 12}))
    run_of(spec(hardware=hardware, parallelism={"pipeline": 12}))
    assert "24" in faults(spec(hardware=hardware, parallelism={"tensor": 5}))["/parallelism"]


def test_nothing_received_is_echoed() -> None:
    secret = "sk-very-secret"
    for document in (spec(optimizer={"name": secret}), spec(hardware={"device": secret}), spec(sequence_length=secret), spec(model=secret)):
        with pytest.raises(Invalid) as caught:
            resolve(parse(document))
        assert secret not in str(caught.value.as_json())


def test_hf_config_faults_point_into_the_config() -> None:
    config = {"model_type": "llama", "hidden_size": "wide", "num_hidden_layers": 2, "num_attention_heads": 2}
    assert any(where.startswith("/model/hf_config") for where in faults({"model": {"hf_config": config}, "data": {"total_tokens": 5}}))
