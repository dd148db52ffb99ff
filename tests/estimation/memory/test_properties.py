"""Properties that hold for every run: more work never takes less memory, and arrays equal single quotes to the last bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.estimation import memory
from service.estimation.run import Run
from service.specs.load import run_of
from tests.benchmarks.memory_layouts import SPEC, layouts, single

MODELS = ("llama-3.1-8b", "mixtral-8x7b", "qwen3-8b", "gpt2-xl", "gemma-2-9b", "deepseek-v3")
STACKS = ("hf_transformers", "fsdp_native", "deepspeed", "megatron", "llm_foundry")


def spec(model: str, stack: str, **more: Any) -> dict[str, Any]:
    return {
        "model": {"preset": model},
        "data": {"total_tokens": 10**9},
        "sequence_length": 2048,
        "batch": {"micro_batch_size": 1, "gradient_accumulation_steps": 4},
        "software": {"stack": stack},
        "hardware": {"device": "h100-sxm-80gb", "device_count": 64},
        **more,
    }


def peak(document: dict[str, Any]) -> float:
    found = memory.figures(run_of(document))
    assert found is not None
    return float(found.process.expected)


cases = st.fixed_dictionaries(
    {
        "model": st.sampled_from(MODELS),
        "stack": st.sampled_from(STACKS),
        "attention": st.sampled_from(["flash", "sdpa", "eager"]),
        "activation_checkpointing": st.sampled_from(["none", "selective", "full"]),
        "parallelism": st.fixed_dictionaries(
            {
                "sharding": st.sampled_from(["none", "zero1", "zero2", "zero3"]),
                "tensor": st.sampled_from([1, 2, 8]),
                "pipeline": st.sampled_from([1, 2, 4]),
            }
        ),
    }
)


@settings(max_examples=60, deadline=None)
@given(cases, st.integers(1, 6))
def test_a_bigger_micro_batch_never_takes_less(case: dict[str, Any], micro: int) -> None:
    small = peak(spec(**{**case, "batch": {"micro_batch_size": micro, "gradient_accumulation_steps": 4}}))
    large = peak(spec(**{**case, "batch": {"micro_batch_size": micro + 1, "gradient_accumulation_steps": 4}}))
    assert large >= small


@settings(max_examples=60, deadline=None)
@given(cases, st.integers(64, 4000))
def test_a_longer_sequence_never_takes_less(case: dict[str, Any], length: int) -> None:
    assert peak(spec(**{**case, "sequence_length": length + 64})) >= peak(spec(**{**case, "sequence_length": length}))


@settings(max_examples=60, deadline=None)
@given(cases)
def test_checkpointing_more_never_takes_more(case: dict[str, Any]) -> None:
    one, two, three = (peak(spec(**{**case, "activation_checkpointing": kind})) for kind in ("full", "selective", "none"))
    assert one <= two * (1 + 1e-12) <= three * (1 + 1e-12)


@settings(max_examples=60, deadline=None)
@given(cases)
def test_sharding_states_more_never_needs_more_states(case: dict[str, Any]) -> None:
    sizes = []
    for stage in ("none", "zero1", "zero2", "zero3"):
        found = memory.estimate(run := run_of(spec(**{**case, "parallelism": {**case["parallelism"], "sharding": stage}})), _count(run))
        step = [phase for phase in found.phases if phase["phase"] == "optimizer_step"]
        sizes.append(max(sum(p["parts"][n] for n in ("weights", "gradients", "master_weights", "optimizer_states")) for p in step))
    assert sizes == sorted(sizes, reverse=True)


def _count(run: Run) -> Any:
    from service.estimation import parameters

    return parameters.count(run)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("stack", STACKS)
def test_a_search_equals_single_quotes_to_the_last_bit(model: str, stack: str) -> None:
    for more in (
        {"activation_checkpointing": "none", "parallelism": {"sharding": "zero1"}},
        {"activation_checkpointing": "selective", "parallelism": {"sharding": "zero3", "sequence_parallel": True}},
        {"activation_checkpointing": "full", "attention": "eager", "parallelism": {"sharding": "none"}},
        {"method": {"kind": "qlora"}, "parallelism": {"sharding": "zero2"}},
        {"method": {"kind": "lora"}, "parallelism": {"sharding": "hybrid", "shard_group_size": 4}, "optimizer": {"name": "adamw_8bit"}},
        {"software": {"stack": stack, "cpu_offload": ["optimizer", "activations", "parameters"]}, "parallelism": {"sharding": "zero3"}},
        {"software": {"stack": stack, "fused_loss": True}, "precision": {"recipe": "bf16_pure"}, "method": {"objective": "dpo"}},
    ):
        base = run_of(spec(model, stack, **more))
        run = layouts(base, 40, seed=7)
        run = replace(run, layout=replace(run.layout, expert=2 ** np.random.default_rng(3).integers(0, 3, 40)))
        found = memory.figures(run)
        assert found is not None
        for index in range(40):
            one = single(run, index)
            one = replace(one, layout=replace(one.layout, expert=int(run.layout.expert[index])))
            alone = memory.figures(one)
            assert alone is not None
            assert (alone.allocated.expected, alone.reserved.expected, alone.process.expected) == tuple(
                float(getattr(found, n).expected[index]) for n in ("allocated", "reserved", "process")
            )
        quoted = memory.estimate(one, _count(one))
        assert quoted.figures is not None and quoted.figures.process.expected == float(found.process.expected[39])


@pytest.mark.parametrize("document", [spec("llama-3.1-8b", "megatron"), SPEC], ids=["plain", "benchmark"])
def test_a_large_search_is_cut_into_pieces_without_a_trace(document: dict[str, Any]) -> None:
    run = layouts(run_of(document), 10_000)
    whole = memory.figures(run)
    assert whole is not None and len(whole.process.expected) == 10_000
    for index in (0, 4095, 4096, 9999, *range(0, 10_000, 97)):
        alone = memory.figures(single(run, index))
        assert alone is not None and alone.process.expected == whole.process.expected[index]
