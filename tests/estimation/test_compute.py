"""FLOPs against PyTorch's own counter, against figures worked by hand, and as sums that must hold."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.estimation import compute, compute_items, tokens
from service.estimation.compute import pairs
from service.estimation.flops import MODEL, Convention, model_flops
from service.estimation.items import Item
from service.estimation.parameters import count
from service.estimation.run import Data, Method, Run
from service.specs import counted
from service.specs.presets import architecture as preset
from tests.estimation.runs import a_run, lora, oracle_model, oracle_run, rows

FLOPS_ROWS = [row for row in rows("oracle.jsonl") if row["kind"] == "flops"]


def items(run: Run) -> dict[str, Item]:
    """The compute items of a run by code."""
    work = tokens.workload(run)
    return {item.code: item for item in compute_items.items(run, work, compute.figures(run, work, count(run)))}


def figures(run: Run) -> dict[str, Any]:
    """All FLOPs by name; arrays where the batch is."""
    found = asdict(compute.figures(run, tokens.workload(run), count(run)))
    return {**found.pop("executed"), **found}


def test_every_oracle_row_of_flops() -> None:
    """Executed FLOPs of one step equal the counter's to the last unit: full, frozen, adapters, with and without checkpointing."""
    for row in FLOPS_ROWS:
        run = oracle_run(row)
        work = tokens.workload(run)
        assert work.steps == 1
        found = compute.executed(run, work)
        assert found is not None
        assert (found.forward, found.total) == (row["forward"], row["total"]), row
        assert isinstance(found.total, int)
    print(f"{len(FLOPS_ROWS)} rows of FLOPs, no difference")
    assert len(FLOPS_ROWS) == 201


def test_every_family_as_the_counter_counts_it() -> None:
    """Small models of every family run through PyTorch's counter, eager attention and experts (see the file's own note)."""
    from service.specs.hf_config import read

    cases = rows("flop_counts.jsonl")
    methods = {"full": Method(), "frozen": Method(kind="frozen", frozen=("embeddings",))}
    wrong = []
    for row in cases:
        model = read(row["config"])
        targets = row["targets"] if isinstance(row["targets"], str) else tuple(row["targets"])
        method = methods.get(row["train"]) or lora(rank=row["rank"] or 1, targets=targets)
        hook = row["train"] == "lora" and row["gckpt"] is not None and model.image_positions is None
        flops = model_flops(model, method, Convention(fused_attention=False, as_executed=True), hook)
        positions, squares = row["b"] * row["s"], row["b"] * row["s"] ** 2

        def at(terms, positions=positions, squares=squares, size=row["b"]):
            linear = terms.linear_at({"encoder": positions, "decoder": positions}, size, 1)
            return linear + sum(value * squares for value in terms.pairs.values())

        again = {None: 0, "nonreentrant": at(flops.recompute), "reentrant": at(flops.recompute_reentrant)}[row["gckpt"]]
        if (at(flops.forward), at(flops.backward) + again) != (row["forward"], row["backward"]):
            wrong.append((row["case"], row["train"], row["gckpt"]))
        if row["train"] == "lora" and count(a_run(model, method=method)).trainable != row["trainable"]:
            wrong.append((row["case"], "trainable"))
    print(f"{len(cases)} runs of {len({row['config']['model_type'] for row in cases})} model types, {len(wrong)} differ")
    assert not wrong
    assert len(cases) > 300


def test_llama_by_hand() -> None:
    """15 T tokens at 8,192: 3 x 2 x W, and causal attention of 32 layers x 32 heads x (128 + 128)."""
    run = a_run(oracle_model("llama-3.1-8b"), Data(total_tokens=15 * 10**12), batch=(1, 16, 16384), sequence_length=8192)
    found = items(run)
    weights = 32 * (4096 * 4096 * 2 + 2 * 4096 * 1024 + 3 * 4096 * 14336) + 4096 * 128256
    assert found["compute.linear"].expected == pytest.approx(6 * weights * 15e12, rel=1e-12)
    per_pair = 3 * 2 * 32 * 32 * 256
    assert found["compute.attention"].expected == pytest.approx(per_pair * 15e12 * 8193 / 2, rel=1e-6)
    assert found["compute.6nd"].expected == pytest.approx(6 * 8_030_261_248 * 15e12, rel=1e-12)
    assert found["compute.6nd_non_embedding"].expected == pytest.approx(6 * 6_979_588_096 * 15e12, rel=1e-12)
    assert found["compute.training"].expected == pytest.approx(7.72e23, rel=2e-3)


def test_attention_share_of_the_seed() -> None:
    """Causal attention of 32 layers of 4,096 adds 2.1 GFLOPs a token at 8,192: 13 % of 2N; 53 % and 210 % further on."""
    model = oracle_model("llama-3.1-8b")
    for length, share in ((8192, 0.13), (32768, 0.53), (131072, 2.1)):
        run = a_run(model, Data(total_tokens=length), sequence_length=length)
        forward = items(run)["compute.attention"].expected / 3 / length
        assert forward / (2 * 8.03e9) == pytest.approx(share, rel=0.05)


def test_adapters_follow_4nd() -> None:
    """6ND for full training, 4ND on a frozen base."""
    model = oracle_model("llama-3.1-8b")
    data = Data(total_tokens=10_000_000)
    full, adapted = (items(a_run(model, data, sequence_length=1000, method=method)) for method in (Method(), lora()))
    assert adapted["compute.6nd"].expected * 6 == full["compute.6nd"].expected * 4
    ratio = adapted["compute.training"].expected / full["compute.training"].expected
    assert 0.66 < ratio < 0.70  # the frozen weights' gradients are left out


def test_windows_limit_the_model_flops_only() -> None:
    """Mistral's window of 4,096: fewer pairs in compute.training, every pair in what is executed."""
    model = oracle_model("mistral-7b")
    run = a_run(model, Data(total_tokens=32768), sequence_length=32768)
    found = items(run)
    window, length = 4096, 32768
    assert pairs(length, window, True) == sum(min(window, position + 1) for position in range(length))
    per_pair = 3 * 2 * 32 * 32 * 256
    assert found["compute.attention"].expected == per_pair * pairs(length, window, True)
    whole = found["compute.training_full_attention"].expected - found["compute.linear"].expected
    assert whole == per_pair * length**2


@given(length=st.integers(1, 40), window=st.one_of(st.none(), st.integers(1, 50)), causal=st.booleans())
def test_pairs_by_counting(length: int, window: int | None, causal: bool) -> None:
    """The closed form equals the count of allowed pairs."""

    def allowed(query: int, key: int) -> bool:
        if causal:
            return key <= query and (window is None or query - key < window)
        return window is None or window >= length or abs(query - key) <= window

    assert pairs(length, window, causal) == sum(allowed(q, k) for q in range(length) for k in range(length))


@given(
    row=st.sampled_from(FLOPS_ROWS),
    total=st.integers(1, 10**7),
    length=st.integers(1, 9000),
    checkpointing=st.sampled_from(("none", "selective", "full")),
)
def test_parts_add_up(row: dict, total: int, length: int, checkpointing: str) -> None:
    """Wholes are their parts, exactly; what is executed covers what the model needs."""
    run = replace(oracle_run(row), data=Data(total_tokens=total), activation_checkpointing=checkpointing, sequence_length=length)
    found = {code: item.expected for code, item in items(run).items()}
    assert found["compute.linear"] + found["compute.attention"] == found["compute.training"]
    assert found["compute.forward"] + found["compute.backward"] + found["compute.recompute"] == found["compute.executed"]
    assert found["compute.training"] <= found["compute.training_full_attention"]
    # Transformers stores scores under eager attention alone: selective checkpointing has nothing else to repeat.
    assert (found["compute.recompute"] == 0) == (checkpointing == "none" or (checkpointing == "selective" and run.attention != "eager"))
    if row["model"] != "vit-l-16" and total >= length:
        assert found["compute.training_full_attention"] <= found["compute.executed"] * (1 + 1e-12)


@given(
    model=st.sampled_from(("llama-3.1-8b", "gpt2", "qwen3-30b-a3b", "t5-base")),
    parts=st.sets(st.sampled_from(("embeddings", "lm_head", "attention", "mlp", "norms", "layers:0-1", "layers:0"))),
)
def test_freezing_never_costs_more(model: str, parts: set[str]) -> None:
    """Each frozen part takes FLOPs away or leaves them."""
    chosen = sorted(parts)
    costs = []
    for n in range(len(chosen) + 1):
        method = Method(kind="frozen", frozen=tuple(chosen[:n])) if n else Method()
        costs.append(
            items(a_run(oracle_model(model, 2), Data(total_tokens=512), sequence_length=512, method=method))["compute.training"].expected
        )
    assert costs == sorted(costs, reverse=True)


def test_all_frozen_leaves_the_forward() -> None:
    """With nothing to train no gradient is formed."""
    method = Method(kind="frozen", frozen=("embeddings", "lm_head", "attention", "mlp", "norms"))
    flops = model_flops(oracle_model("llama-3.1-8b", 2), method, MODEL, False)
    assert not any(flops.backward.tokens.values())
    assert not flops.backward.pairs


def test_adapters_on_the_last_matrix_need_no_gradient_before_it() -> None:
    """down_proj alone in layer 0: nothing flows back into its attention."""
    flops = model_flops(oracle_model("llama-3.1-8b", 1), lora(targets=("down_proj",)), MODEL, False)
    assert not flops.backward.pairs


def test_search_and_quote_are_one() -> None:
    """Arrays of batches give what single runs give, element by element, to the last bit."""
    model = oracle_model("llama-3.1-8b")
    histogram = ((100, 50, 7), (700, 200, 5), (30, 900, 4))
    micros, totals = np.array([1, 2, 4]), np.array([8, 8, 16])
    data = Data(histogram=histogram, packing="none")
    together = figures(a_run(model, data, batch=(micros, 1, totals), sequence_length=1024))
    for index, (micro, total) in enumerate(zip(micros, totals, strict=True)):
        alone = figures(a_run(model, data, batch=(int(micro), 1, int(total)), sequence_length=1024))
        for code, single in alone.items():
            value = together[code]
            assert float(value[index] if isinstance(value, np.ndarray) else value) == float(single), code


def test_items_are_those_of_one_quote() -> None:
    """A search has figures alone: described as items, its arrays would be answered as numbers."""
    batches = np.array([1.0, 2.0]), 1, np.array([8.0, 8.0])
    run = a_run(oracle_model("llama-3.1-8b"), Data(histogram=((100, 50, 7),), packing="none"), batch=batches, sequence_length=1024)
    with pytest.raises(TypeError, match="single quote"):
        items(run)


def test_a_parameter_count_alone_says_so() -> None:
    """6ND is known; what needs a shape is null with a reason."""
    run = a_run(counted.architecture(parameter_count=7_000_000_000), Data(total_tokens=10**12), sequence_length=4096)
    found = items(run)
    assert found["compute.6nd"].expected == 6 * 7e9 * 1e12
    assert found["compute.training"].expected is None
    assert found["compute.training"].reason


def test_no_sequence_length() -> None:
    """Attention needs lengths, the rule of thumb does not."""
    found = items(a_run(oracle_model("gpt2"), Data(total_tokens=10**6)))
    assert found["compute.6nd"].expected is not None
    assert found["compute.training"].expected is None
    assert "sequence_length" in (found["compute.training"].reason or "")


def test_moe_counts_active_experts() -> None:
    """DeepSeek-V3: 37.6 of 671 billion parameters meet a token."""
    model = preset("deepseek-v3")
    assert model is not None
    found = items(a_run(model, Data(total_tokens=4096), sequence_length=4096))
    assert found["compute.linear"].expected / 4096 / 6 == pytest.approx(37_552_282_624 - 926_679_040, rel=1e-3)
