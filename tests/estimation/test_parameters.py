"""Parameters against PyTorch's own counts, and the properties that any counting must have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.estimation.parameters import FROZEN_PARTS, UnknownTarget, count
from service.estimation.run import Method
from tests.estimation.runs import a_run, lora, oracle_model, oracle_run, rows

MODELS = sorted({row["model"] for row in rows("oracle.jsonl") if row["kind"] == "params"})


def of(name: str, method: Method | None = None, depth: int | None = None):
    """Counts of an oracle model under a method."""
    return count(a_run(oracle_model(name, depth), method=method or Method()))


def test_every_oracle_row_of_parameters() -> None:
    """Total, active, embedding, head, experts and layers equal PyTorch's count to the unit."""
    seen = 0
    for row in rows("oracle.jsonl"):
        if row["kind"] != "params":
            continue
        parameters = of(row["model"])
        found = {name: getattr(parameters, name) for name in ("total", "embedding", "lm_head", "lm_head_tied", "non_embedding", "active")}
        assert found == {name: row[name] for name in found}, row["model"]
        assert parameters.experts == row["experts_total"]
        assert list(parameters.per_layer) == row["per_layer"]
        assert len(parameters.layer_parameters) == row["n_layers"]
        assert parameters.trainable == row["total"]
        seen += 1
    print(f"{seen} rows of parameters, no difference")
    assert seen == 17


def test_every_oracle_row_of_trained_parameters() -> None:
    """What trains under full training and adapters equals PEFT's count; frozen embeddings include positions here."""
    positions = {"gpt2": 1024 * 768, "gpt2-xl": 1024 * 1600, "vit-l-16": 197 * 1024 + 1024}  # the oracle froze the token table alone
    seen = 0
    for row in rows("oracle.jsonl"):
        if row["kind"] == "flops":
            expected = row["trainable"] - (positions.get(row["model"], 0) if row["train"] == "frozen_emb" else 0)
            assert count(oracle_run(row)).trainable == expected, row
        elif row["kind"] == "ckpt":
            parameters = of(row["model"], lora())
            assert parameters.trainable == parameters.adapters == row["lora"]["trainable"]
            assert parameters.total + parameters.adapters == row["lora"]["params"]
        else:
            continue
        seen += 1
    print(f"{seen} rows of trained parameters, no difference")
    assert seen == 206


def test_parameter_counts_of_transformers() -> None:
    """Every family's reader against ``num_parameters`` of transformers 5.24 (see the file's own note of how)."""
    from service.specs.hf_config import read

    cases = rows("parameter_counts.jsonl")
    wrong = [(row["config"], found, row["total"]) for row in cases if (found := count(a_run(read(row["config"]))).total) != row["total"]]
    print(f"{len(cases)} configs of {len({row['config']['model_type'] for row in cases})} model types, {len(wrong)} differ")
    assert not wrong
    assert len(cases) > 300


def test_adapters_of_llama_by_hand() -> None:
    """Rank 16 on q and v of Llama-3.1-8B: 32 x 16 x ((4096 + 4096) + (4096 + 1024))."""
    assert of("llama-3.1-8b", lora(targets=("q_proj", "v_proj"))).trainable == 32 * 16 * (8192 + 5120)
    assert of("llama-3.1-8b", lora()).trainable == 41_943_040


@pytest.mark.parametrize(
    ("model", "target", "pairs"),
    [
        ("gpt2", "v_proj", 12 * (768 + 2304)),  # the fused c_attn
        ("gpt2", "gate_proj", 12 * (768 + 3072)),  # no gate: the first matrix of the feed-forward part
        ("gpt2", "c_attn", 12 * (768 + 2304)),
        ("pythia-1.4b", "q_proj", 24 * (2048 + 6144)),
        ("t5-base", "q_proj", 12 * 1536 + 24 * 1536),  # encoder, decoder and cross-attention
        ("llama-3.1-8b", "lm_head", 4096 + 128256),
        ("llama-3.1-8b", "embed_tokens", 4096 + 128256),
    ],
)
def test_names_map_onto_fused_matrices(model: str, target: str, pairs: int) -> None:
    """Canonical and own names; a fused matrix is adapted whole."""
    assert of(model, lora(rank=8, targets=(target,))).adapters == 8 * pairs


def test_an_unknown_name_is_refused_with_the_choices() -> None:
    """The error lists what would do."""
    with pytest.raises(UnknownTarget) as caught:
        of("gpt2", lora(targets=("c_atn",)))
    assert "attn.c_attn" in caught.value.choices
    assert "q_proj" in caught.value.choices
    with pytest.raises(UnknownTarget):
        of("gpt2", lora(modules_to_save=("score",)))
    with pytest.raises(UnknownTarget):
        of("gpt2", Method(kind="frozen", frozen=("layers:10-12",)))
    with pytest.raises(UnknownTarget):
        of("gpt2", Method(kind="frozen", frozen=("positions",)))


def test_modules_to_save_are_trained_whole() -> None:
    """A copy of the head and the table is trained beside the adapters."""
    parameters = of("llama-3.1-8b", lora(modules_to_save=("lm_head", "embed_tokens")))
    assert parameters.saved_modules == 2 * 525_336_576
    assert parameters.trainable == 41_943_040 + 2 * 525_336_576


def test_frozen_embeddings_take_a_tied_head_along() -> None:
    """Tied: table and head are one tensor. Untied: the head trains."""
    tied = of("llama-3.2-1b", Method(kind="frozen", frozen=("embeddings",)))
    assert tied.trainable == tied.total - tied.embedding
    assert tied.trainable == of("llama-3.2-1b", Method(kind="frozen", frozen=("lm_head",))).trainable
    untied = of("llama-3.1-8b", Method(kind="frozen", frozen=("embeddings",)))
    assert untied.trainable == untied.total - 525_336_576


def test_frozen_layers() -> None:
    """``layers:0-15`` are sixteen of 32 equal layers."""
    parameters = of("llama-3.1-8b", Method(kind="frozen", frozen=("layers:0-15",)))
    assert parameters.trainable == parameters.total - 16 * 218_112_000


@given(
    model=st.sampled_from(MODELS),
    parts=st.sets(st.sampled_from((*FROZEN_PARTS, "layers:0-0", "layers:0-1", "layers:1"))),
)
def test_freezing_more_trains_less(model: str, parts: set[str]) -> None:
    """Frozen runs never train more than full ones, and each further part only takes away."""
    chosen = sorted(parts)
    trained = [
        of(model, Method(kind="frozen", frozen=tuple(chosen[:n])), 2 if model != "deepseek-v3" else 4).trainable
        for n in range(len(chosen) + 1)
    ]
    assert trained == sorted(trained, reverse=True)
    assert trained[-1] >= 0


@given(model=st.sampled_from(MODELS))
def test_all_parts_frozen_leave_nothing_but_tables_in_layers(model: str) -> None:
    """The parts cover a model: freezing all of them leaves at most what belongs to none (relative positions, poolers)."""
    parameters = of(model, Method(kind="frozen", frozen=FROZEN_PARTS))
    assert parameters.trainable <= parameters.total * 1e-5


@given(model=st.sampled_from(MODELS), rank=st.integers(1, 256))
def test_adapters_are_proportional_to_rank(model: str, rank: int) -> None:
    """r x (inputs + outputs) for each."""
    assert of(model, lora(rank=rank)).adapters == rank * of(model, lora(rank=1)).adapters


@given(model=st.sampled_from(MODELS))
def test_parts_of_the_whole(model: str) -> None:
    """Layers, tables and an untied head never exceed the total, and active never does."""
    parameters = of(model)
    assert sum(parameters.layer_parameters) <= parameters.total
    assert parameters.active <= parameters.total
    assert parameters.non_embedding < parameters.total
    assert parameters.experts <= sum(parameters.layer_parameters)
