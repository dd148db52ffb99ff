"""Checkpoint bytes against real files, and the sums of what a run keeps on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from service.estimation import parameters, storage, wall_clock
from service.estimation.architecture import Architecture
from service.estimation.run import Batch, CheckpointPolicy, Data, DataPipeline, Lora, Method, Precision, Run
from service.estimation.storage import Saves, Written
from service.specs import hf_config
from service.specs.load import run_of

from .whole_jobs import Counts, assert_adds_up, by_code, run

FULL = Method()
CASES = Path(__file__).parent.parent / "cases"
ORACLE = [row for row in map(json.loads, (CASES / "oracle.jsonl").read_text().splitlines()) if row["kind"] == "ckpt"]
CONFIGS = json.loads((CASES / "oracle_configs.json").read_text())
MEASURED = [
    row
    for row in map(json.loads, (CASES / "measured_public.jsonl").read_text().splitlines())
    if any(code.startswith("storage.") for code in row["measured"])
]


def model_run(name: str, weight_bytes: float, method: Method = FULL) -> Run:
    """A run of an oracle model with AdamW states in fp32."""
    return Run(
        architecture=hf_config.read(CONFIGS[name]["full"]),
        method=method,
        data=Data(total_tokens=1000),
        batch=Batch(micro_batch_size=1, gradient_accumulation_steps=1, global_batch_size=1),
        precision=Precision(
            recipe="bf16_pure", weight_bytes=weight_bytes, gradient_bytes=2, master_weight_bytes=0, optimizer_state_bytes=8
        ),
    )


@pytest.mark.parametrize("row", ORACLE, ids=lambda row: row["model"])
def test_checkpoints_of_the_oracle(row: dict[str, Any]) -> None:
    """Sums to the byte where only sums are known; files within their headers (120 B a tensor, 600 B an AdamW state)."""
    lora = Method(kind="lora", lora=Lora(rank=16, alpha=16, target_modules="all-linear"))
    for train, method in (("full", Method()), ("lora", lora)):
        truth = row[train]
        for width, file in ((2, "weights_file_bf16"), (4, "weights_file_fp32")):
            one = model_run(row["model"], width, method)
            counted = parameters.count(one)
            assert counted.trainable == truth["trainable"]
            checkpoint = storage.checkpoint_bytes(one, counted)
            if train == "lora" and width == 2:
                continue  # PEFT keeps adapters in fp32 whatever the base
            if file in truth:
                # T5's longest names take 141 bytes a tensor, gpt2's 102.
                assert checkpoint.weights == pytest.approx(truth[file], rel=2e-3)
                assert abs(checkpoint.weights - truth[file]) <= 22 * truth["trainable_tensors"] + 1000
            states = checkpoint.full - checkpoint.weights
            # The sum holds 8 B a parameter and 4 B a tensor; the file adds its own bookkeeping.
            overhead = (states - 8 * counted.trainable) / truth["trainable_tensors"]
            assert 400 <= overhead <= 800
            if "adamw_file" in truth:
                assert states == pytest.approx(truth["adamw_file"], rel=1e-3)
            assert states == pytest.approx(truth["adamw_fp32_sum"], rel=5e-3)


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: row["id"])
def test_measured_checkpoints_within_two_percent(row: dict[str, Any]) -> None:
    """Adapters of PEFT's benchmark and BLOOM-176B's checkpoints."""
    one = run_of(row["spec"])
    checkpoint = storage.checkpoint_bytes(one, parameters.count(one))
    items = by_code(storage.checkpoint_items(one, checkpoint, checkpoint))
    for code, measured in row["measured"].items():
        assert items[code].expected == pytest.approx(measured, rel=0.02), code


def test_there_are_measured_checkpoints() -> None:
    """Five rows hold six values."""
    assert len(MEASURED) == 5
    assert sum(code.startswith("storage.") for row in MEASURED for code in row["measured"]) == 6


def everything(one: Run, saves: Saves, unique: float | None = 1e9, steps: int | None = 1000) -> dict[str, Any]:
    """All storage items by code, their sums checked."""
    written = Written(checkpoint=storage.checkpoint_bytes(one, Counts()), saves=saves)
    items = storage.items(one, written, written, unique_tokens=unique, steps=steps)
    assert_adds_up(items)
    return by_code(items)


def test_two_tiers_retention_and_export() -> None:
    """Full checkpoints rarely, weights often, the last three of each, and one export."""
    policy = CheckpointPolicy(interval_steps=500, weights_interval_steps=100, retain_last=3)
    items = everything(run(checkpointing=policy), Saves(main=2, weights_tier=10))
    assert items["storage.retained_main"].expected == pytest.approx(2 * 8e9 * 14, rel=1e-6)
    assert items["storage.retained_weights"].expected == pytest.approx(3 * 8e9 * 2, rel=1e-6)
    assert items["storage.inference_export"].expected == pytest.approx(8e9 * 2, rel=1e-6)


def test_weights_only_checkpoints_hold_no_states() -> None:
    """``contents: weights`` cannot resume, and takes a seventh of the space."""
    items = everything(run(checkpointing=CheckpointPolicy(interval_steps=100, contents="weights")), Saves(main=10))
    assert items["storage.retained_main"].expected == pytest.approx(10 * 8e9 * 2, rel=1e-6)


def test_data_on_disk() -> None:
    """Given bytes are kept as they are; tokens take their width, once and in every cache."""
    pipeline = DataPipeline(raw_bytes=5 * 10**12, processed_bytes=10**12, token_bytes=2, cache_copies=3)
    items = everything(run(data_pipeline=pipeline), Saves(main=1))
    assert items["storage.raw_data"].expected == 5 * 10**12
    assert items["storage.processed_data"].basis == "given"
    assert items["storage.tokenized_data"].expected == 2e9
    assert items["storage.caches"].expected == 6e9


def test_text_that_is_not_declared_is_a_prior_with_an_interval() -> None:
    """Never zero and never without a word: the bytes of text follow from the tokens."""
    items = everything(run(), Saves(main=1))
    text = items["storage.processed_data"]
    assert text.basis == "prior" and text.low < text.expected < text.high
    assert items["storage.total"].basis == "prior"


def test_unknown_tokens_make_the_total_unknown() -> None:
    """A whole with a null part is null, and names it."""
    items = everything(run(), Saves(main=1), unique=None)
    assert items["storage.total"].expected is None
    assert "storage.raw_data" in items["storage.total"].reason


def test_logs_do_not_make_the_total_unknown() -> None:
    """Where steps cannot be counted, their logs are assumed and said to be."""
    items = everything(run(), Saves(main=1), steps=None)
    assert items["storage.total"].expected is not None
    assert "not known" in items["storage.logs"].assumptions[0]


def test_images_have_no_bytes_per_token() -> None:
    """A vision model's raw bytes must be given."""
    vision = Architecture(family="vit", declared_total=10**8, image_positions=197)
    assert everything(run(architecture=vision), Saves(main=1))["storage.processed_data"].expected is None


def test_a_checkpoint_names_its_data() -> None:
    """The data version it belongs to, or that none is named."""
    named = everything(run(data=Data(total_tokens=10, dataset_versions=("fineweb@1.2",))), Saves(main=1))
    assert any("fineweb@1.2" in text for text in named["storage.checkpoint_full"].assumptions)
    assert any("no data version" in text for text in everything(run(), Saves(main=1))["storage.checkpoint_full"].assumptions)


@pytest.mark.parametrize(("steps", "light"), [(1000, 20.0), (None, None)])
def test_a_light_tier_is_kept_without_a_step_time(steps: int | None, light: float | None) -> None:
    """No hardware: 1,000 steps every 50 are 20 light checkpoints whatever a step takes; without steps they are not known."""
    one = run(hardware=None, checkpointing=CheckpointPolicy(weights_interval_steps=50))
    found = wall_clock.saves_without_time(one, steps, "no hardware is given")
    assert (found.weights_tier if light is not None else found.main) == light
    assert found.reason
