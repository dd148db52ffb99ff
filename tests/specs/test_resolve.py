"""Defaults, their provenance, and the echo that gives the same run again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.kit.problems import Invalid
from service.specs.errors import SpecError
from service.specs.load import parse, run_of
from service.specs.resolve import Resolved, resolve

CASES = Path(__file__).parent.parent / "cases"
MINIMAL: dict[str, Any] = {"model": {"preset": "llama-3.1-8b"}, "data": {"total_tokens": 1_000_000}}


def resolved(**parts: Any) -> Resolved:
    """The least spec with parts added, resolved."""
    return resolve(parse({**MINIMAL, **parts}))


def _measured() -> list[dict[str, Any]]:
    files = (CASES / "measured_public.jsonl", CASES / "measured_vtrain.jsonl")
    return [json.loads(line)["spec"] for file in files for line in file.read_text().splitlines()]


def test_every_measured_spec_resolves_and_its_echo_is_the_same_run() -> None:
    specs = _measured()
    assert len(specs) == 596 + 915
    for spec in specs:
        first = resolve(parse(spec))
        again = resolve(parse(json.loads(json.dumps(first.spec))))
        assert again.run == first.run, spec["name"]
        assert again.spec == first.spec
        assert set(first.provenance) == set(again.provenance)


# Bytes a parameter as the contract's table gives them: weights, gradients, master, optimizer states of AdamW.
TABLE = [
    ("bf16_pure", "hf_transformers", (2, 2, 0, 4)),
    ("bf16_pure", "megatron", (2, 2, 0, 4)),
    ("fp32", "deepspeed", (4, 4, 0, 8)),
    *(
        (recipe, stack, (4, 4, 0, 8))
        for recipe in ("bf16_mixed", "fp8_mixed")
        for stack in ("hf_transformers", "fsdp_native", "llm_foundry")
    ),
    *((recipe, "deepspeed", (2, 2, 4, 8)) for recipe in ("bf16_mixed", "fp16_mixed")),
    *((recipe, "megatron", (2, 4, 4, 8)) for recipe in ("bf16_mixed", "fp16_mixed", "fp8_mixed", "nvfp4_mixed")),
]


@pytest.mark.parametrize(("recipe", "stack", "expected"), TABLE)
def test_bytes_a_parameter(recipe: str, stack: str, expected: tuple[float, ...]) -> None:
    precision = resolved(precision={"recipe": recipe}, software={"stack": stack}).run.precision
    figures = (precision.weight_bytes, precision.gradient_bytes, precision.master_weight_bytes, precision.optimizer_state_bytes)
    assert figures == expected
    assert not precision.overridden


def test_overrides() -> None:
    precision = resolved(precision={"gradient_bytes": 1.5, "weight_bytes": 4}).run.precision
    assert precision.gradient_bytes == 1.5
    assert precision.overridden == {"gradient_bytes"}  # 4 bytes of weights are the default of the recipe


def _states(name: str, **parts: Any) -> float:
    return resolved(optimizer={"name": name}, **parts).run.precision.optimizer_state_bytes


def test_optimizer_states() -> None:
    assert _states("adamw") == _states("paged_adamw") == 8
    assert _states("sgd") == 0
    assert _states("sgd_momentum") == _states("lion") == 4
    assert _states("lion", precision={"recipe": "bf16_pure"}) == 2
    assert _states("adamw_8bit") == pytest.approx(2, rel=0.02)  # and the scales of blocks of 256
    assert _states("lion_8bit") == pytest.approx(1, rel=0.02)
    assert _states("adamw_4bit") == pytest.approx(1, rel=0.07)
    # Llama-3.1-8B: 6,979,321,856 weights in matrices of the blocks, 1,050,939,392 outside; Muon keeps 4 bytes for the first, 8 for these.
    assert _states("muon") == pytest.approx((4 * 6_979_321_856 + 8 * 1_050_939_392) / 8_030_261_248)
    assert 0 < _states("adafactor") < 0.01
    assert _states("apollo") < _states("galore_adamw") < 4


def test_adapters() -> None:
    lora = {"kind": "lora", "lora": {"rank": 8, "alpha": 8, "target_modules": "all-linear"}}
    precision = resolved(method=lora).run.precision
    assert (precision.weight_bytes, precision.gradient_bytes, precision.master_weight_bytes, precision.optimizer_state_bytes) == (
        2,
        4,
        0,
        8,
    )
    narrow = {"kind": "lora", "lora": {"rank": 8, "target_modules": "all-linear", "adapter_bytes": 2}}
    precision = resolved(method=narrow, precision={"recipe": "bf16_pure"}).run.precision
    assert (precision.weight_bytes, precision.gradient_bytes, precision.optimizer_state_bytes) == (2, 2, 4)


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        ({}, 0.5 + 4 / 64),
        ({"format": "nf4", "block_size": 128}, 0.5 + 4 / 128),
        ({"format": "nf4", "double_quantization": True}, 0.5 + 1 / 64 + 4 / (64 * 256)),
        ({"format": "int8"}, 1.0),
        ({"format": "gptq_int4"}, 0.5 + (2 + 0.5) / 128),
    ],
)
def test_quantized_base(quantization: dict[str, Any], expected: float) -> None:
    method = {"kind": "qlora", "lora": {"rank": 8, "target_modules": "all-linear"}, "quantization": quantization}
    assert resolved(method=method).run.precision.weight_bytes == pytest.approx(expected, rel=1e-12)


def test_defaults_are_stated() -> None:
    quote = resolved(hardware={"device": "h100-sxm-80gb"}, optimizer={"name": "lion"})
    assert quote.provenance["/model"] == "preset"
    assert quote.provenance["/optimizer/name"] == "given"
    assert quote.provenance["/optimizer/implementation"] == "default"
    assert quote.provenance["/hardware/intra_node_bytes_per_second"] == "catalog"
    assert quote.spec["hardware"]["device_count"] == 1
    assert quote.spec["interval_coverage"] == 0.8
    for pointer in quote.provenance:
        place: Any = quote.spec
        for part in pointer.strip("/").split("/"):
            place = place[part]


def test_no_bf16_no_bf16_default() -> None:
    assert resolved(hardware={"device": "v100-sxm-32gb"}).run.precision.recipe == "fp16_mixed"
    assert resolved(hardware={"device": "a100-sxm-40gb"}).run.precision.recipe == "bf16_mixed"


def test_batch_follows_from_what_is_given() -> None:
    hardware = {"device": "h100-sxm-80gb", "device_count": 16}
    layout = {"tensor": 2}
    for batch, expected in (
        ({}, (1, 1, 8)),
        ({"micro_batch_size": 2, "gradient_accumulation_steps": 4}, (2, 4, 64)),
        ({"global_batch_size": 64}, (1, 8, 64)),
        ({"global_batch_size": 64, "micro_batch_size": 4}, (4, 2, 64)),
        ({"global_batch_size": 64, "gradient_accumulation_steps": 4}, (2, 4, 64)),
        ({"global_batch_size": 20, "micro_batch_size": 1}, (1, 3, 20)),  # uneven: warned about, not refused
    ):
        quote = resolved(hardware=hardware, parallelism=layout, batch=batch)
        run = quote.run.batch
        assert (run.micro_batch_size, run.gradient_accumulation_steps, run.global_batch_size) == expected
        assert quote.run.layout.data == 8
        assert any(w.code == "uneven_batch" for w in quote.warnings) == (expected[2] == 20)


def test_lengths_in_every_form_are_one_histogram() -> None:
    forms: list[dict[str, Any]] = [
        {"samples": 3, "prompt_tokens": 5, "target_tokens": 7},
        {"prompt_tokens": [5, 5, 5], "target_tokens": [7, 7, 7]},
        {"prompt_tokens": [5, 5, 5], "target_tokens": 7},
        {"prompt_tokens": 5, "target_tokens": [7, 7, 7]},
        {"lengths": {"histogram": [[5, 7, 2], [5, 7, 1]]}},
    ]
    for data in forms:
        assert run_of({**MINIMAL, "data": data}).data.histogram == ((5, 7, 3),)


def test_images_are_samples_of_their_positions() -> None:
    vit = {"model_type": "vit", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
    run = run_of({"model": {"hf_config": {**vit, "image_size": 224, "patch_size": 16}}, "data": {"samples": 10}})
    assert run.sequence_length == 197  # 14 x 14 patches and the class token
    assert run.data.histogram == ((197, 0, 10),)


def test_mixture_gives_the_unique_tokens() -> None:
    data = {
        "total_tokens": 1000,
        "datasets": [{"name": "web", "version": "3", "tokens": 10_000, "weight": 0.8}, {"name": "books", "tokens": 100, "weight": 0.2}],
    }
    run = run_of({**MINIMAL, "data": data})
    assert run.data.unique_tokens == 800 + 100  # 200 tokens are read of the books' 100
    assert run.data.dataset_versions == ("web@3", "books")


def test_sparse_peaks_are_warned_about() -> None:
    override = {"peak_bf16_dense_flops_per_second": 1979e12}
    codes = [w.code for w in resolved(hardware={"device": "h100-sxm-80gb", "device_override": override}).warnings]
    assert "sparse_peak" in codes


OPTIONAL = st.fixed_dictionaries(
    {},
    optional={
        "sequence_length": st.integers(1, 10_000),
        "batch": st.fixed_dictionaries(
            {}, optional={"micro_batch_size": st.integers(1, 9), "gradient_accumulation_steps": st.integers(1, 9)}
        ),
        "activation_checkpointing": st.sampled_from(["none", "selective", "full"]),
        "attention": st.sampled_from(["flash", "sdpa", "eager"]),
        "optimizer": st.fixed_dictionaries({"name": st.sampled_from(sorted(["adamw", "muon", "adafactor", "lion_8bit", "sgd"]))}),
        "precision": st.fixed_dictionaries(
            {"recipe": st.sampled_from(["fp32", "bf16_mixed", "bf16_pure", "fp8_mixed"])},
            optional={"gradient_bytes": st.floats(0, 8), "weight_bytes": st.floats(0, 8)},
        ),
        "software": st.fixed_dictionaries(
            {"stack": st.sampled_from(["hf_transformers", "fsdp_native", "deepspeed", "megatron", "llm_foundry"])},
            optional={"compile": st.booleans(), "cpu_offload": st.lists(st.sampled_from(["optimizer", "parameters"]), max_size=2)},
        ),
        "parallelism": st.fixed_dictionaries(
            {}, optional={"tensor": st.sampled_from([1, 2, 4]), "sharding": st.sampled_from(["none", "zero1", "zero3", "hybrid"])}
        ),
        "hardware": st.fixed_dictionaries(
            {"device": st.sampled_from(["h100-sxm-80gb", "v100-sxm-16gb", "tpu-v5p"]), "device_count": st.sampled_from([4, 8, 64])},
            optional={"devices_per_node": st.integers(1, 8), "inter_node_bytes_per_second": st.floats(1, 1e12)},
        ),
        "method": st.sampled_from(
            [
                {"kind": "full"},
                {"kind": "frozen", "frozen": ["embeddings", "layers:0-3"]},
                {"kind": "lora", "lora": {"rank": 4}},
                {"kind": "qlora", "quantization": {"format": "gptq_int4"}},
                {"kind": "lora", "lora": {"rank": 8, "target_modules": ["q_proj"], "adapter_bytes": 2}},
            ]
        ),
        "efficiency": st.sampled_from([{"mfu": 0.4}, {"hfu": 0.3}, {"step_seconds": 2}, {"mfu": 0.3, "mfu_convention": "causal"}]),
        "checkpointing": st.fixed_dictionaries({}, optional={"interval_steps": st.integers(1, 99), "retain_last": st.integers(0, 9)}),
        "interval_coverage": st.floats(0.1, 0.99),
    },
)


@settings(max_examples=150, deadline=None)
@given(OPTIONAL)
def test_the_echo_gives_the_same_run(parts: dict[str, Any]) -> None:
    first = resolved(**parts)
    text = json.dumps(first.spec)
    again = resolve(parse(json.loads(text)))
    assert again.run == first.run
    assert json.dumps(again.spec) == text


@pytest.mark.parametrize(
    "batch", [{"gradient_accumulation_steps": 10**18}, {"micro_batch_size": 10**9, "gradient_accumulation_steps": 10**10}]
)
def test_a_global_batch_that_could_not_be_posted_again_is_refused(batch: dict[str, Any]) -> None:
    with pytest.raises(SpecError) as refused:
        resolved(hardware={"device": "h100-sxm-80gb", "device_count": 2}, batch=batch)
    assert [fault.pointer for fault in refused.value.errors] == ["/batch"]


PAIRS = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5) | st.just(10**18), st.integers(1, 10**16)), min_size=1, max_size=40)


@given(PAIRS)
def test_lengths_are_gathered_pair_by_pair_and_sorted(rows: list[tuple[int, int, int]]) -> None:
    """Against the plain way: every pair once, in order, its samples summed."""
    gathered = resolved(data={"lengths": {"histogram": rows}}).run.data.histogram
    pairs = sorted({(prompt, target) for prompt, target, _ in rows})
    assert gathered == tuple((*pair, sum(n for prompt, target, n in rows if (prompt, target) == pair)) for pair in pairs)


def test_a_histogram_of_too_many_samples_is_refused_for_that() -> None:
    with pytest.raises(Invalid) as refused:
        resolved(data={"lengths": {"histogram": [(1, 1, 10**18), (2, 1, 1)]}})
    assert "more than 1000000000000000000 samples" in refused.value.errors[0].detail
