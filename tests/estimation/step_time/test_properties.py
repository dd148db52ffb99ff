"""Properties of every prediction: monotone in speeds, never below the peak, the same in a search as alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.estimation import compute, compute_items, parameters, step_time, tokens
from service.estimation.run import Batch, Layout, Run
from service.specs.load import run_of

MODELS = ("llama-3.1-8b", "mixtral-8x7b", "gpt2-xl", "deepseek-v3")
STACKS = ("megatron", "fsdp_native", "deepspeed", "llm_foundry", "hf_transformers")
DEVICES = ("a100-sxm-80gb", "h100-sxm-80gb", "b200-sxm-192gb", "gb200-192gb", "l40s-48gb", "v100-sxm-32gb", "mi300x-192gb")


@st.composite
def runs(draw: st.DrawFn) -> Run:
    tensor, pipeline, data = draw(st.sampled_from((1, 2, 4, 8))), draw(st.sampled_from((1, 2, 4))), draw(st.sampled_from((1, 2, 16)))
    context = draw(st.sampled_from((1, 2)))
    spec: dict[str, Any] = {
        "model": {"preset": draw(st.sampled_from(MODELS))},
        "data": {"total_tokens": 10**9},
        "sequence_length": draw(st.sampled_from((512, 2048, 4096))),
        "batch": {"micro_batch_size": draw(st.integers(1, 16)), "gradient_accumulation_steps": draw(st.integers(1, 32))},
        "precision": {"recipe": draw(st.sampled_from(("bf16_mixed", "fp16_mixed", "fp8_mixed", "fp32")))},
        "activation_checkpointing": draw(st.sampled_from(("none", "selective", "full"))),
        "attention": draw(st.sampled_from(("flash", "eager"))),
        "software": {"stack": draw(st.sampled_from(STACKS)), "compile": draw(st.booleans())},
        "parallelism": {
            "tensor": tensor,
            "pipeline": pipeline,
            "context": context,
            "sharding": draw(st.sampled_from(("none", "zero1", "zero2", "zero3"))),
            "sequence_parallel": draw(st.booleans()) and tensor > 1,
        },
        "hardware": {"device": draw(st.sampled_from(DEVICES)), "device_count": tensor * pipeline * context * data},
    }
    return run_of(spec)


def time(run: Run) -> float:
    predicted = step_time.predict(run, parameters.count(run), tokens.workload(run))
    assert predicted is not None
    return float(predicted.seconds)


@settings(deadline=None, max_examples=60)
@given(run=runs(), factor=st.floats(1.0, 10.0))
def test_a_faster_part_never_slows_the_step(run: Run, factor: float) -> None:
    assert run.hardware is not None
    device, slow = run.hardware.device, time(run) * (1 + 1e-12)
    peaks = [f"peak_{kind}_flops_per_second" for kind in ("bf16", "fp16", "fp8", "fp32")]
    names = [name for name in ("hbm_bytes_per_second", *peaks) if getattr(device, name)]
    for name in names:
        faster = replace(device, **{name: getattr(device, name) * factor})
        assert time(replace(run, hardware=replace(run.hardware, device=faster))) <= slow
    for name in ("intra_node_bytes_per_second", "inter_node_bytes_per_second"):
        assert time(replace(run, hardware=replace(run.hardware, **{name: getattr(run.hardware, name) * factor}))) <= slow


@settings(deadline=None, max_examples=40)
@given(run=runs(), more=st.integers(2, 4))
def test_more_work_is_never_faster(run: Run, more: int) -> None:
    step = time(run) * (1 - 1e-12)
    pipeline = int(run.layout.pipeline)
    layers = run.architecture.layers
    deeper = replace(run.architecture, layers=layers + layers[-1:] * (pipeline * more))
    assert time(replace(run, architecture=deeper)) >= step
    batch = run.batch
    longer = replace(batch, gradient_accumulation_steps=batch.gradient_accumulation_steps * more)
    assert time(replace(run, batch=longer)) >= step
    fuller = replace(batch, micro_batch_size=batch.micro_batch_size * more)
    # A micro-batch whose (sequence, head) pairs fit the fused softmax may be faster than a smaller one that does not.
    if run.attention != "eager":
        assert time(replace(run, batch=fuller)) >= step


@settings(deadline=None, max_examples=60)
@given(run=runs())
def test_no_step_beats_its_model_flops_at_the_peak(run: Run) -> None:
    assert run.hardware is not None
    work = tokens.workload(run)
    items = {item.code: item for item in compute_items.items(run, work, compute.figures(run, work, parameters.count(run)))}
    training = items["compute.training"].expected
    peak = run.hardware.device.recipe_peak_flops_per_second(run.precision.recipe)
    assert training is not None and peak is not None and work.steps
    assert time(run) * work.steps >= training / (run.hardware.device_count * peak) * (1 - 1e-9)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("stack", ["megatron", "fsdp_native", "deepspeed"])
@pytest.mark.parametrize(("sharding", "attention"), [("zero1", "flash"), ("zero3", "flash"), ("none", "eager"), ("zero2", "eager")])
def test_a_search_gives_the_same_numbers_to_the_last_bit(model: str, stack: str, sharding: str, attention: str) -> None:
    run = run_of(
        {
            "model": {"preset": model},
            "data": {"total_tokens": 10**9},
            "sequence_length": 4096,
            "attention": attention,
            "activation_checkpointing": "selective",
            "software": {"stack": stack},
            "parallelism": {"sharding": sharding},
            "hardware": {"device": "h100-sxm-80gb", "device_count": 512},
        }
    )
    random = np.random.default_rng(7)
    size = 200
    tensor, pipeline, context = (random.choice(values, size) for values in ((1, 2, 4, 8), (1, 2, 3, 4, 8), (1, 2)))
    expert, virtual, micro, accumulation = (random.choice(values, size) for values in ((1, 2, 8), (1, 2), (1, 2, 3, 7), (1, 5, 16)))
    data = 512 // (tensor * pipeline * context)
    fields = {"tensor": tensor, "pipeline": pipeline, "context": context, "expert": expert, "virtual_pipeline": virtual, "data": data}
    plain = Layout(sharding=run.layout.sharding)
    many = replace(
        run,
        layout=replace(plain, **fields),
        batch=Batch(micro_batch_size=micro, gradient_accumulation_steps=accumulation, global_batch_size=micro * accumulation * data),
    )
    count = parameters.count(run)
    together = step_time.predict(many, count)
    assert together is not None
    for i in range(size):
        m, a = int(micro[i]), int(accumulation[i])
        single = replace(
            run,
            layout=replace(plain, **{name: int(values[i]) for name, values in fields.items()}),
            batch=Batch(micro_batch_size=m, gradient_accumulation_steps=a, global_batch_size=m * a * int(data[i])),
        )
        alone = step_time.predict(single, count)
        assert alone is not None
        assert alone.seconds == together.seconds[i]
        for name, value in alone.parts.items():
            assert value == np.broadcast_to(together.parts[name], (size,))[i], name
