"""Counts of a step against figures worked out by hand, and limits that need no measurement."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from service.estimation import parameters, step_time
from service.estimation.fitted.step_time import SEEN
from service.estimation.run import Run
from service.estimation.step_time import communication, seconds
from service.estimation.step_time.counts import SequenceShape, StepCounts, counts_of
from service.estimation.step_time.interval import cell
from service.estimation.step_time.predictable import PredictableRun, predictable
from service.estimation.step_time.rates import rates_of
from service.estimation.step_time.residual import features
from service.specs.load import run_of

LLAMA_8B = 32 * 218_103_808  # weights of the matrices in its 32 blocks: 4096 x (4096 + 2 x 1024 + 4096 + 3 x 14336) each


def a_run(**changes: Any) -> Run:
    spec: dict[str, Any] = {
        "model": {"preset": "llama-3.1-8b"},
        "data": {"total_tokens": 10**9},
        "sequence_length": 8192,
        "batch": {"micro_batch_size": 2, "gradient_accumulation_steps": 4},
        "software": {"stack": "megatron"},
        "hardware": {"device": "h100-sxm-80gb", "device_count": 64},
    }
    return run_of({**spec, **changes})


def known(run: Run) -> PredictableRun:
    found = predictable(run)
    assert isinstance(found, PredictableRun)
    return found


def counts(run: Run) -> StepCounts:
    length = float(run.sequence_length or 0)
    return counts_of(known(run), parameters.count(run), SequenceShape(length=length, decoder_length=length))


def parts(run: Run) -> dict[str, Any]:
    predicted = step_time.predict(run, parameters.count(run))
    assert predicted is not None
    return predicted.parts


def test_flops_of_every_pass() -> None:
    work = counts(a_run(activation_checkpointing="full"))
    forward = 2 * (2 * 8192) * LLAMA_8B
    assert work.forward.matrix_flops == pytest.approx(forward, rel=1e-12)
    assert work.backward.matrix_flops == pytest.approx(2 * forward, rel=1e-12)
    assert work.recompute.matrix_flops == pytest.approx(forward, rel=1e-12)
    # Queries meet (s + 1) / 2 keys; scores and values are a product each, over 4096 values a position and block.
    assert work.forward.attention_flops == pytest.approx(2 * (2 * 8192) * 32 * 4096.5 * (4096 + 4096), rel=1e-12)
    assert work.head_flops == pytest.approx(3 * 2 * (2 * 8192) * 4096 * 128256, rel=1e-12)


def test_adapters_leave_out_the_gradients_of_weights() -> None:
    work = counts(a_run(method={"kind": "lora", "lora": {"rank": 16, "alpha": 32, "target_modules": "all-linear"}}))
    low_rank = 2 * (2 * 8192) * 32 * 16 * (2 * (4096 + 4096) + 2 * (4096 + 1024) + 3 * (4096 + 14336))
    forward = 2 * (2 * 8192) * LLAMA_8B
    assert work.forward.matrix_flops == pytest.approx(forward + low_rank, rel=1e-12)
    assert work.backward.matrix_flops == pytest.approx(forward + 2 * low_rank, rel=1e-12)
    assert work.head_flops == pytest.approx(2 * 2 * (2 * 8192) * 4096 * 128256, rel=1e-12)


def test_huge_products_take_flops_over_peak_times_efficiency() -> None:
    run = a_run(batch={"micro_batch_size": 4096, "gradient_accumulation_steps": 1}, software={"stack": "megatron"})
    rates = replace(rates_of(known(run), 1.0), matrix=500e12, head=500e12, matrix_bytes=1e30)
    work = counts(run)
    time = seconds.parts_of(work, rates)
    assert time["matrix"] == pytest.approx(6 * (4096 * 8192) * (LLAMA_8B + 4096 * 128256) / 500e12, rel=1e-9)
    assert time["launch"] / sum(time.values()) < 1e-3


def test_ring_moves_its_share_over_each_link() -> None:
    inside = communication.ring(8e9, 8.0, 1.0, 8.0)
    assert (inside.intra, inside.inter) == (7e9, 0.0)
    # 16 ranks side by side: eight network cards carry a node's share.
    across = communication.ring(16e9, 16.0, 1.0, 8.0)
    assert (across.intra, across.inter) == (15e9, 15e9 / 8)
    # 16 ranks eight apart: one a node, each with a card of its own.
    apart = communication.ring(16e9, 16.0, 8.0, 8.0)
    assert (apart.intra, apart.inter) == (15e9, 15e9)
    assert communication.ring(1e9, 1.0, 1.0, 8.0).intra == 0.0


def test_gradients_of_plain_data_parallelism_pass_twice() -> None:
    run = a_run(parallelism={"sharding": "none"}, hardware={"device": "h100-sxm-80gb", "device_count": 8})
    total = parameters.count(run).total
    assert total is not None
    # 4-byte gradients in Megatron, an all-reduce is two rounds of (n - 1) / n.
    assert counts(run).data.intra == pytest.approx(2 * 4 * total * 7 / 8, rel=1e-12)


def test_tensor_parallelism_reduces_twice_a_block_and_pass() -> None:
    run = a_run(parallelism={"tensor": 8})
    state = 2 * (2 * 8192) * 4096  # bytes of a micro-batch's hidden state
    # An all-reduce moves 2 (n - 1) / n of it; two of them in each of 32 blocks, forward and backward.
    assert counts(run).tensor.intra == pytest.approx(2 * 32 * 2 * (2 * 7 / 8) * state, rel=1e-12)


def test_one_forward_one_backward_idles_for_stages_less_one() -> None:
    """Without a head, the bubble of 1F1B is (p - 1) / m of the work, and v virtual stages divide it (Narayanan et al. 2021)."""
    run = a_run(parallelism={"pipeline": 8, "virtual_pipeline": 2}, batch={"micro_batch_size": 1, "gradient_accumulation_steps": 32})
    work = counts(run)._replace(head_flops=0.0, head_bytes=0.0, logits=0.0)
    time = seconds.parts_of(work, rates_of(known(run), 1.0))
    per_step = ("pipeline_bubble", "pipeline_imbalance", "data_communication", "optimizer", "overhead")
    steady = sum(value for name, value in time.items() if name not in per_step)
    assert time["pipeline_bubble"] == pytest.approx(steady * 7 / 32 / 2, rel=1e-9)
    assert time["pipeline_imbalance"] == pytest.approx(0.0, abs=1e-9)


def test_uneven_stages_wait_for_the_fullest() -> None:
    run = a_run(parallelism={"pipeline": 3}, hardware={"device": "h100-sxm-80gb", "device_count": 48})
    assert counts(run).largest_share == pytest.approx(11 * 3 / 32)
    assert parts(run)["pipeline_imbalance"] > 0


def test_only_quantised_bases_are_unpacked() -> None:
    lora = {"rank": 16, "alpha": 32, "target_modules": "all-linear"}
    assert parts(a_run(method={"kind": "lora", "lora": lora}))["dequantization"] == 0
    assert parts(a_run(method={"kind": "qlora", "lora": lora}, activation_checkpointing="none"))["dequantization"] > 0


def test_parts_add_up_to_the_step() -> None:
    for changes in (
        {},
        {"parallelism": {"tensor": 8, "pipeline": 4}},
        {"activation_checkpointing": "full", "parallelism": {"sharding": "zero3"}},
    ):
        run = a_run(**changes)
        predicted = step_time.predict(run, parameters.count(run))
        assert predicted is not None
        assert set(predicted.parts) == set(seconds.FORMULAS)
        total = 0.0
        for value in predicted.parts.values():
            assert value >= 0
            total += value
        assert predicted.seconds == total
        assert predicted.low < 1 < predicted.high


def test_what_cannot_be_predicted_says_why() -> None:
    bare = run_of({"model": {"preset": "llama-3.1-8b"}, "data": {"total_tokens": 10**9}, "sequence_length": 8192})
    assert step_time.why_not(bare) == "no hardware is given"
    counted = a_run(model={"parameter_count": 8_000_000_000})
    assert "parameter count" in (step_time.why_not(counted) or "")
    assert step_time.predict(counted, parameters.count(counted)) is None
    unknown = replace(a_run(), sequence_length=None)
    assert step_time.why_not(unknown) == "sequence_length is not given"


def test_interval_widens_away_from_what_was_measured() -> None:
    run = a_run(hardware={"device": "h100-sxm-80gb", "device_count": 8}, software={"stack": "llm_foundry"})
    near = step_time.predict(run, parameters.count(run))
    unlike = replace(run, software=replace(run.software, stack="hf_transformers"), method=replace(run.method, kind="full"))
    far = step_time.predict(unlike, parameters.count(unlike))
    assert near is not None and far is not None
    assert "left out of the fit (llm_foundry, hopper, 16 bit, full)" in near.basis
    assert "no measured run" in far.basis
    assert far.high / far.low > near.high / near.low


@pytest.mark.parametrize(("recipe", "width"), [("fp32", 32), ("bf16_mixed", 16), ("bf16_pure", 16), ("fp8_mixed", 8), ("nvfp4_mixed", 4)])
def test_a_run_is_judged_by_measured_runs_of_its_own_width(recipe: str, width: int) -> None:
    """No measured run has 32-bit or 4-bit products: neither interval nor factor of such a run may be those of another width."""
    run = a_run(precision={"recipe": recipe}, hardware={"device": "b200-sxm-192gb", "device_count": 64})
    assert f", {width} bit, " in cell(known(run))
    named = [name for name in features(known(run), parameters.count(run)) if name.endswith(" bit")]
    assert named == [f"megatron blackwell {width} bit"]
    assert (cell(known(run)) in SEEN) == (width in (8, 16))


def test_32_bit_runs_move_twice_the_bytes_of_16_bit_ones() -> None:
    """Activations and the weights that products read are 4 bytes in fp32; it was quoted as if they were 2."""
    wide, half = (counts(a_run(precision={"recipe": recipe}, parallelism={"tensor": 8})) for recipe in ("fp32", "bf16_mixed"))
    assert wide.forward.elementwise_bytes == pytest.approx(2 * half.forward.elementwise_bytes)
    assert wide.forward.matrix_bytes == pytest.approx(2 * half.forward.matrix_bytes)
    assert wide.tensor.intra == pytest.approx(2 * half.tensor.intra)
    assert wide.forward.matrix_flops == half.forward.matrix_flops
