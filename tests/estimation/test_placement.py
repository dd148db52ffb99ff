"""Who holds what: every rank of a job walked one by one, against the sizes of groups that memory, step time and storage are told.

The walk knows nothing of the formulas: it numbers the ranks as the frameworks do (tensor fastest, then context, data, pipeline), gives
each its pieces of the model, and adds up over all ranks.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from service.estimation import memory, parameters
from service.estimation.memory.blocks.kept import blocks_on_rank
from service.estimation.memory.blocks.trained_model import trained_model
from service.estimation.memory.device.stage_on_rank import StageOnRank, stages_on_ranks
from service.estimation.placement import place
from service.estimation.run import Run
from service.estimation.step_time.counts import SequenceShape, StepCounts, counts_of
from service.estimation.step_time.predictable import predictable
from service.specs.load import run_of

STACKS = ("hf_transformers", "fsdp_native", "deepspeed", "megatron", "llm_foundry")
MODELS = ("llama-3.1-8b", "mixtral-8x7b", "qwen3-30b-a3b")
FSDP = (
    "hf_transformers",
    "fsdp_native",
    "llm_foundry",
)  # their stage 2 is SHARD_GRAD_OP: weights are sharded between steps, gathered within one
SHARDINGS = ("none", "zero1", "zero2", "zero3", "hybrid")


@dataclass(frozen=True)
class Walk:
    """Sums over all ranks of the pieces they hold, in whole copies of the model's dense weights and of its experts."""

    dense_stored: float
    experts_stored: float
    dense_stepped: float
    experts_stepped: float
    dense_reduced: float  # gradients that all ranks send in one reduce-scatter among those that hold the same part
    experts_reduced: float
    dense_gathered: float  # the same among the ranks of one shard group: as much as they receive in one gather of the weights
    experts_gathered: float
    dense_between: float  # the same between shard groups, each of which holds the part once
    experts_between: float
    writers: int  # ranks that are the first to hold a piece of the stepped states


def walk(run: Run, *, shards_weights: bool) -> Walk:
    """Every rank of the job, one by one."""
    layout = run.layout
    t, c, d, p = (int(n) for n in (layout.tensor, layout.context, layout.data, layout.pipeline))
    expert_ways = max(int(layout.expert), t) if layout.expert > 1 else t
    if layout.expert_tensor is not None:
        expert_ways = int(layout.expert) * int(layout.expert_tensor)
    group = int(layout.shard_group_size) if layout.sharding == "hybrid" else d * c
    states = layout.sharding != "none"
    dense_homes, expert_homes = Counter[Any](), Counter[Any]()  # how many ranks hold the same part of a stage
    ranks = [(stage, position) for stage in range(p) for position in range(d * c * t)]
    for stage, position in ranks:
        dense_homes[stage, position % t] += 1
        expert_homes[stage, position % expert_ways] += 1
    stored, stepped, reduced, gathered, between = ([0.0, 0.0] for _ in range(5))
    written, writers = set(), set()
    for stage, position in ranks:
        for kind, ways, homes in ((0, t, dense_homes), (1, expert_ways, expert_homes)):
            part, copy = position % ways, position // ways  # which part of the stage, and which of the ranks that hold it
            same = homes[stage, part]
            over = min(max(group * t // ways, 1), same)  # ranks that divide the part among them
            fraction = 1.0 / (p * ways)  # of all weights of that kind
            stored[kind] += fraction / (over if shards_weights else 1)
            stepped[kind] += fraction / (over if states else 1)
            reduced[kind] += fraction * (same - 1) / same
            gathered[kind] += fraction * (over - 1) / over
            between[kind] += fraction / over * (same - over) / same  # (copies - 1) / copies of its own piece
            piece = (kind, stage, part, copy % over if states else 0)
            if piece not in written:
                written.add(piece)
                writers.add((stage, position))
    return Walk(*stored, *stepped, *reduced, *gathered, *between, writers=len(writers))


def document(case: dict[str, Any]) -> dict[str, Any]:
    sizes = case["sizes"]
    devices = sizes["tensor"] * sizes["pipeline"] * sizes["context"] * case["data"]
    parallelism = {**sizes, "expert": case["expert"], "sharding": case["sharding"]}
    if case.get("expert_tensor") is not None:
        parallelism["expert_tensor"] = case["expert_tensor"]
    if case["sharding"] == "hybrid":
        parallelism["shard_group_size"] = case["group"]
    return {
        "model": {"preset": case["model"]},
        "data": {"total_tokens": 10**9},
        "sequence_length": 4096,
        "method": case["method"],
        "software": {"stack": case["stack"]},
        "precision": {"recipe": case["recipe"]},
        "hardware": {"device": "h100-sxm-80gb", "device_count": devices},
        "parallelism": parallelism,
    }


layouts = st.fixed_dictionaries(
    {
        "model": st.sampled_from(MODELS),
        "stack": st.sampled_from(STACKS),
        "recipe": st.sampled_from(["bf16_mixed", "bf16_pure"]),
        "sharding": st.sampled_from(SHARDINGS),
        "sizes": st.fixed_dictionaries(
            {
                "tensor": st.sampled_from([1, 2, 4]),
                "pipeline": st.sampled_from([1, 2, 4]),
                "context": st.sampled_from([1, 2, 4]),
            }
        ),
        "data": st.sampled_from([1, 2, 4, 8]),
        "expert": st.sampled_from([1, 2, 4, 8]),
        "expert_tensor": st.sampled_from([None, None, 1, 2, 4]),
        "group": st.sampled_from([1, 2, 4, 8]),
        "method": st.sampled_from([{"kind": "full"}, {"kind": "lora", "lora": {"rank": 8, "target_modules": "all-linear"}}]),
    }
)


def a_legal_run(case: dict[str, Any]) -> Run:
    """The run of a case, where its groups exist: whole expert groups and whole shard groups."""
    sizes = case["sizes"]
    ranks = sizes["tensor"] * sizes["context"] * case["data"]  # of a stage
    assume((case["expert"] == 1 and case["expert_tensor"] is None) or case["model"] != "llama-3.1-8b")
    ways = max(case["expert"], sizes["tensor"]) if case["expert"] > 1 else sizes["tensor"]
    if case["expert_tensor"] is not None:
        ways = case["expert"] * case["expert_tensor"]
    assume(ranks % ways == 0)
    if case["sharding"] == "hybrid":
        assume(sizes["context"] * case["data"] % case["group"] == 0 and case["group"] * sizes["tensor"] % ways == 0)
    return run_of(document(case))


def counted(run: Run) -> StepCounts:
    known = predictable(run)
    assert not isinstance(known, str), known
    return counts_of(known, parameters.count(run), SequenceShape(length=4096.0, decoder_length=4096.0))


@settings(max_examples=150, deadline=None)
@given(layouts)
def test_all_ranks_together_hold_gather_step_and_write_the_model_as_often_as_the_layout_says(case: dict[str, Any]) -> None:
    run = a_legal_run(case)
    placed, counts = place(run), parameters.count(run)
    keeps = run.layout.sharding in ("zero3", "hybrid") or (run.layout.sharding == "zero2" and case["stack"] in FSDP)
    seen = walk(run, shards_weights=keeps)
    devices = run.hardware.device_count if run.hardware else 0
    dense, experts = float(counts.total - counts.experts), float(counts.experts)
    adapters = float(counts.adapters)

    # Step time: what all devices together step, and what all of them receive in one gather.
    work, precision = counted(run), run.precision
    own = precision.weight_bytes if run.method.lora is None else run.method.lora.adapter_bytes
    traffic = 2.0 * (own + precision.master_weight_bytes + precision.optimizer_state_bytes + precision.gradient_bytes)
    full = dense * seen.dense_stepped + experts * seen.experts_stepped
    stepped = full if run.method.lora is None else adapters * seen.dense_stepped
    assert work.optimizer_bytes / traffic * devices == pytest.approx(stepped, rel=1e-9)
    # What all devices together send for the gradients and for the weights, whenever in the step they do.
    sent = (work.sharding.intra + work.data.intra) * devices
    gradient, weight = precision.gradient_bytes, min(precision.weight_bytes, 2.0)
    trained, trained_experts = (dense, experts) if run.method.lora is None else (adapters, 0.0)
    reduced = trained * seen.dense_reduced + trained_experts * seen.experts_reduced
    if run.layout.sharding == "none":
        assert sent == pytest.approx(2.0 * gradient * reduced, rel=1e-9)  # an all-reduce is two rounds
    elif run.layout.sharding in ("zero1", "zero2"):
        assert sent == pytest.approx((gradient + weight) * reduced, rel=1e-9)
    else:
        received = 2.0 * weight * (dense * seen.dense_gathered + experts * seen.experts_gathered)  # for the forward and the backward pass
        scattered = gradient * (trained * seen.dense_gathered + trained_experts * seen.experts_gathered)
        between = 2.0 * gradient * (trained * seen.dense_between + trained_experts * seen.experts_between)
        assert sent == pytest.approx(received + scattered + between, rel=1e-9)

    # Storage: each piece is written by the first rank that holds it.
    assert placed.writers == seen.writers

    # Memory: all stages together (one and two are all those that it looks at); norms and routers are whole on every tensor rank, and
    # adapters may be, so a little more is held.
    if run.layout.pipeline > 2:
        return
    shards_gradients = run.layout.sharding in ("zero2", "zero3", "hybrid") and not (case["stack"] == "fsdp_native" and stage_count(run) > 1)
    copies = float(devices) / stage_count(run)  # ranks of a stage
    tensor, whole = float(run.layout.tensor), _replicated(run)
    held = {int(each.stage.index): each.states for each in stages_of(run)}.values()
    assert len(held) == stage_count(run)
    if run.method.lora is None:
        stored = sum(float(each.weights) for each in held) / precision.weight_bytes * copies
        exact = dense * seen.dense_stored + experts * seen.experts_stored
        assert exact * (1 - 1e-9) <= stored <= (exact + whole * (tensor - 1) * seen.dense_stored) * (1 + 1e-9)
        spare = whole * (tensor - 1)
    else:
        spare = adapters * (tensor - 1)
    in_optimizer = sum(float(each.stepped) for each in held) * copies
    assert stepped * (1 - 1e-9) <= in_optimizer <= (stepped + spare * seen.dense_stepped) * (1 + 1e-9)
    if shards_gradients and run.method.lora is None:
        gradients = sum(float(each.gradients) for each in held) / gradient * copies
        assert gradients == pytest.approx(in_optimizer, rel=1e-9)


def stage_count(run: Run) -> int:
    return int(run.layout.pipeline)


def stages_of(run: Run) -> list[StageOnRank]:
    model, placed = trained_model(run), place(run)
    assert model is not None
    return list(stages_on_ranks(run, model, placed, blocks_on_rank(model, placed)))


def _replicated(run: Run) -> float:
    """Parameters that tensor parallelism leaves whole: norms, routers and biases."""
    model = run.architecture
    vectors = sum(v.size for layer in model.layers for v in layer.vectors) + sum(v.size for v in model.outside_vectors)
    return float(vectors + sum(m.parameters for layer in model.layers for m in layer.matrices if m.part == "router"))


def test_context_ranks_share_the_states_in_step_time_as_in_memory() -> None:
    """8B over 64 context ranks: each steps a 64th, gathers the rest and writes its own piece."""
    case: dict[str, Any] = {"model": "llama-3.1-8b", "stack": "fsdp_native", "recipe": "bf16_mixed", "sharding": "zero3", "expert": 1}
    case |= {"sizes": {"tensor": 1, "pipeline": 1, "context": 64}, "data": 1, "method": {"kind": "full"}}
    run = run_of(document(case))
    work, counts = counted(run), parameters.count(run)
    # Weights, gradients and two moments of 4 bytes each (bf16_mixed of this stack), read and written.
    assert work.optimizer_bytes == pytest.approx(2 * 16 * counts.total / 64)
    # Two gathers of 16-bit weights and a scatter of 32-bit gradients, 63 64ths of each.
    assert work.sharding.intra == pytest.approx((2 * 2 + 4) * counts.total * 63 / 64)
    assert place(run).writers == 64
    found = memory.estimate(run, counts, {})
    weights = next(item.expected for item in found.items if item.code == "memory.weights")
    assert weights == pytest.approx(4 * counts.total / 64)


def test_expert_parallel_ranks_step_every_expert_once() -> None:
    """Mixtral on 64 devices, 8 expert ranks, ZeRO-1: all devices together step all 46.7 G parameters, not 7.2 G."""
    case: dict[str, Any] = {"model": "mixtral-8x7b", "stack": "megatron", "recipe": "bf16_mixed", "sharding": "zero1", "expert": 8}
    case |= {"sizes": {"tensor": 1, "pipeline": 1, "context": 1}, "data": 64, "method": {"kind": "full"}}
    run = run_of(document(case))
    # 2 + 4 + 4 + 8 bytes a parameter (bf16_mixed of this stack), read and written.
    assert counted(run).optimizer_bytes * 64 / (2 * 18) == pytest.approx(46_702_792_704)
