"""A quote says where its run stands against the optimum."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from service.estimation import scaling_items
from service.estimation.run import Method

from .whole_jobs import by_code, run

SEEDS = {case["id"]: case for case in json.loads((Path(__file__).parent.parent / "cases" / "seed_figures.json").read_text())["cases"]}


@pytest.mark.parametrize("case", ["scaling.tokens_per_parameter", "scaling.historic_ratios"])
def test_ratios_of_published_models(case: str) -> None:
    seed = SEEDS[case]
    for one, ratio in zip(seed["given"]["runs"], seed["expect"]["ratio"], strict=True):
        items = by_code(scaling_items.items(run(), one["parameters"], one["tokens"]))
        assert items["scaling.tokens_per_parameter"].expected == pytest.approx(ratio, rel=seed["rel_tol"])


def test_over_training_of_the_small_llama() -> None:
    case = SEEDS["scaling.overtraining_factor"]
    item = by_code(scaling_items.items(run(), case["given"]["parameters"], case["given"]["tokens"]))["scaling.over_training_ratio"]
    assert item.expected == pytest.approx(case["expect"]["factor"], rel=case["rel_tol"])
    assert any("no task's score" in text for text in item.assumptions)


def test_fine_tuning_has_no_optimum() -> None:
    """The laws speak of models trained from the start; the cost of a token is the same."""
    (item,) = scaling_items.items(run(method=Method(objective="sft")), 8e9, 1e7)
    assert (item.code, item.expected) == ("scaling.inference_flops_per_token", 16e9)
