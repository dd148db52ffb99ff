"""Post-training: rollouts, passes and people against hand computations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from service.estimation import generation, post_training
from service.estimation.architecture import Architecture, Attention, Layer, Mlp
from service.estimation.items import Item
from service.estimation.post_training import Pace
from service.estimation.run import Data, DataPipeline, Hardware, Layout, Method, PostTraining, Run

from .whole_jobs import H100, Counts, Tokens, assert_adds_up, by_code, run

TRAINING = Item(code="device_hours.training", section="time", quantity="device_hours", expected=10.0, formula="")
TOKENS = Tokens(input_tokens=1e8, unique_tokens=5e7)
PER_TOKEN = 1e-6  # seconds of the whole job for a token forward


def items_of(one: Run, tokens: Any = TOKENS, training: Item = TRAINING) -> list[Item]:
    """The items of a run whose training takes those hours."""
    spent = post_training.figures(one, tokens, Counts(), Pace.of(PER_TOKEN, training))  # type: ignore[arg-type]
    return post_training.items(one, spent, spent, training)


def of(objective: str, devices: int = 8, tokens: Tokens = TOKENS, **wanted: Any) -> dict[str, Item]:
    """Post-training items of an 8B run on H100."""
    one = run(
        devices,
        layout=Layout(data=devices, sharding="zero3"),
        method=Method(objective=objective),  # type: ignore[arg-type]
        post_training=PostTraining(**wanted),
    )
    items = items_of(one, tokens)
    assert_adds_up(items)
    return by_code(items)


def test_pretraining_generates_nothing() -> None:
    """Zero because the objective samples nothing, not because it is unknown."""
    assert of("pretrain")["device_hours.generation"].expected == 0


def test_grpo_without_rollouts_is_unknown() -> None:
    """A policy cannot be updated without samples: null, and what to give."""
    items = of("grpo")
    assert items["device_hours.generation"].expected is None
    assert "post_training.prompts" in (items["device_hours.rollouts"].reason or "")


def test_passes_are_as_uncertain_as_the_training_whose_pace_they_take() -> None:
    """Half and twice the training's hours are half and twice the reference's; what errs together adds up in full."""
    one = run(8, layout=Layout(data=8, sharding="zero3"), method=Method(objective="grpo"),
              post_training=PostTraining(prompts=1000, samples_per_prompt=8, prompt_tokens=500, generated_tokens=500))  # fmt: skip
    training = TRAINING._replace(low=5.0, high=20.0, basis="prior")
    items = by_code(items_of(one, training=training))
    for code in ("device_hours.reference", "device_hours.log_probabilities"):
        item = items[code]
        assert item.basis == "prior" and item.expected
        assert (item.low, item.high) == (pytest.approx(item.expected / 2), pytest.approx(2 * item.expected))
    generation = items["device_hours.generation"]
    assert generation.high - generation.expected >= items["device_hours.reference"].high - items["device_hours.reference"].expected + (
        items["device_hours.log_probabilities"].high - items["device_hours.log_probabilities"].expected
    )


def test_grpo_rollouts_outweigh_the_update() -> None:
    """1,000 prompts, 16 answers of 8,000 tokens: every pass by hand."""
    items = of("grpo", prompts=1000, samples_per_prompt=16, prompt_tokens=500, generated_tokens=8000, reward_parameter_count=2 * 10**9)
    tokens = 16_000 * 8_500
    hours = 8 / 3600
    assert items["device_hours.log_probabilities"].expected == pytest.approx(tokens * PER_TOKEN * hours)
    assert items["device_hours.reference"].expected == pytest.approx(tokens * PER_TOKEN * hours)
    assert items["device_hours.reward"].expected == pytest.approx(tokens * PER_TOKEN * hours / 4)
    # 16 GB of weights at 60 % of 3.35 TB/s take 7.96 ms a step for 128 sequences, on each of 8 devices.
    decoding = 16_000 * 8_000 / (8 * 128) * 16e9 / (0.6 * 3.35e12)
    assert items["device_hours.rollouts"].expected == pytest.approx((decoding + 500_000 * PER_TOKEN) * hours, rel=1e-6)
    assert items["device_hours.rollouts"].basis == "prior"


def test_reference_choices() -> None:
    """A pass over every token read, over every distinct one, or none."""
    hours = 8 / 3600
    assert of("dpo")["device_hours.reference"].expected == pytest.approx(1e8 * PER_TOKEN * hours)
    assert of("dpo", reference="cached")["device_hours.reference"].expected == pytest.approx(5e7 * PER_TOKEN * hours)
    assert "device_hours.reference" not in of("dpo", reference="none")
    wanted: dict[str, Any] = {"prompts": 10, "generated_tokens": 100, "prompt_tokens": 10}
    both = [of("grpo", reference=kind, **wanted)["device_hours.reference"].expected for kind in ("model", "cached")]
    assert both[0] == both[1]  # new rollouts cannot be cached beforehand


def test_ppo_pays_for_its_value_model() -> None:
    """Read once and updated with the policy: 1 + 3 forward passes' worth of a quarter of the size, an epoch."""
    wanted: dict[str, Any] = {"prompts": 100, "generated_tokens": 900, "prompt_tokens": 100, "reward_parameter_count": 2 * 10**9}
    one = of("ppo", **wanted)["device_hours.value_model"].expected
    assert one == pytest.approx(100_000 * PER_TOKEN * 8 / 3600 * 4 / 4)
    assert of("ppo", update_epochs=2, **wanted)["device_hours.value_model"].expected == pytest.approx((one or 0) * 7 / 4)


def test_further_update_epochs_cost_further_updates() -> None:
    """Data counts a sample once an epoch: four passes are three more trainings, whatever the objective."""
    items = of("ppo", prompts=100, generated_tokens=900, prompt_tokens=100, update_epochs=4)
    assert items["device_hours.update_epochs"].expected == 30


def test_preference_pairs_are_two_answers_each() -> None:
    """Collecting 10,000 pairs of 500 tokens is 10 million tokens decoded."""
    pairs = of("dpo", preference_pairs=10_000, generated_tokens=500, prompt_tokens=100)["device_hours.preference_pairs"]
    rollouts = of("grpo", prompts=10_000, samples_per_prompt=2, generated_tokens=500, prompt_tokens=100)["device_hours.rollouts"]
    assert pairs.expected == pytest.approx(rollouts.expected)
    assert of("dpo", preference_pairs=10_000)["device_hours.preference_pairs"].expected is None


def test_people_and_tools_have_units_of_their_own() -> None:
    """Human and processor hours are not device-hours."""
    items = of(
        "grpo",
        prompts=100,
        samples_per_prompt=4,
        generated_tokens=100,
        tool_seconds_per_sample=9.0,
        human_review_items=120,
        human_seconds_per_item=90.0,
        judge_tokens=10**6,
    )
    assert items["cpu_hours.tools"].expected == 1
    assert items["human_hours.review"].expected == 3
    assert items["device_hours.judge"].expected == pytest.approx(1e6 * PER_TOKEN * 8 / 3600)
    assert of("sft", human_review_items=5)["human_hours.review"].expected is None


def test_data_preparation_is_named_where_it_applies() -> None:
    """Tokenizing has a prior; cleaning has none that carries over, and says so."""
    one = run(data_pipeline=DataPipeline(raw_bytes=10**12, processed_bytes=10**11))
    items = by_code(items_of(one, Tokens()))
    assert items["cpu_hours.tokenization"].expected == pytest.approx(100 * 640 / 3600)
    assert items["cpu_hours.data_preparation"].expected is None


def shaped() -> Run:
    """A run whose cache is known: 32 layers of 8 key/value heads of 128."""
    attention = Attention(query_heads=32, key_value_heads=8, query_key_dim=128, value_dim=128)
    layer = Layer(kind="decoder", matrices=(), vectors=(), attention=attention, mlp=Mlp(intermediate=1, gated=True, activation="silu"))
    return run(8, architecture=Architecture(family="llama", hidden=4096, layers=(layer,) * 32))


def test_key_value_cache_of_llama_8b_is_128_kib_a_token() -> None:
    """2 x 32 layers x 8 heads x 128 x 2 bytes."""
    assert generation.key_value_bytes(shaped()) == 131_072


def test_longer_context_and_smaller_batches_decode_slower() -> None:
    """The cache is read every step; weights are shared by the batch."""
    short = generation.decode(shaped(), Counts(), 1e6, 100, 128).seconds
    long = generation.decode(shaped(), Counts(), 1e6, 10_000, 128).seconds
    alone = generation.decode(shaped(), Counts(), 1e6, 100, 1).seconds
    assert short is not None and long is not None and alone is not None
    assert long.expected > 5 * short.expected and alone.expected > 50 * short.expected


def test_large_models_are_split_over_devices() -> None:
    """405B in bf16 fits no H100: sixteen hold a copy, so eight devices hold less than one and use all."""
    found = generation.decode(run(32), Counts(total=405e9, active=405e9), 1e6, 0, 32)
    assert any("2 copies of 16" in text for text in found.assumptions)


def test_no_bandwidth_is_a_reason() -> None:
    """Unknown, not free."""
    blind = run(hardware=Hardware(device=replace(H100, hbm_bytes_per_second=None), device_count=8))
    assert generation.decode(blind, Counts(), 1e6, 0, 32).reason
    assert generation.decode(run(hardware=None), Counts(), 1e6, 0, 32).seconds is None


def test_further_epochs_are_never_ignored() -> None:
    """A field that is given changes something under every objective."""
    for objective in ("sft", "dpo", "reward_model"):
        assert of(objective, update_epochs=2)["device_hours.update_epochs"].expected == 10


def test_prompts_of_unknown_length_are_not_prompts_of_none() -> None:
    """Read as long as the data's where those are known (a mean of 300); unknown where nothing says it, never 0 tokens."""
    blind = of("grpo", prompts=1000, generated_tokens=500)
    for name in ("rollouts", "log_probabilities", "reference"):
        assert blind[f"device_hours.{name}"].expected is None, name
    assert "prompt_tokens" in (blind["device_hours.generation"].reason or "")
    assert of("dpo", preference_pairs=10, generated_tokens=500)["device_hours.preference_pairs"].expected is None
    wanted: dict[str, Any] = {"prompts": 1000, "generated_tokens": 500}
    one = run(8, layout=Layout(data=8, sharding="zero3"), method=Method(objective="grpo"), post_training=PostTraining(**wanted),
              data=Data(histogram=((200, 50, 3), (600, 50, 1))))  # fmt: skip
    items = by_code(items_of(one))
    told = of("grpo", prompt_tokens=300, **wanted)
    assert items["device_hours.rollouts"].expected == told["device_hours.rollouts"].expected
    assert any("prompts are as long as those of data" in text for text in items["device_hours.rollouts"].assumptions)


def test_a_cache_of_unknown_size_is_said_to_be_left_out() -> None:
    """Of a bare parameter count nobody knows the key/value heads."""
    said = generation.decode(run(8), Counts(), 1e6, 1000, 128).assumptions
    assert generation.key_value_bytes(run(8)) is None
    assert any("no cache" in text for text in said)
    assert not any("no cache" in text for text in generation.decode(shaped(), Counts(), 1e6, 1000, 128).assumptions)
