"""Given fields without effect are said, and effective ones are not."""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation.run import Evaluation, EvaluationSuite, Method, PostTraining
from service.estimation.warnings import idle_fields

from .whole_jobs import run

SUITE = EvaluationSuite(name="mmlu", kind="downstream", tokens=10)


def pointers(**changes: Any) -> set[str | None]:
    """Pointers of the warnings of a run."""
    found = idle_fields.warnings(run(**changes), 1000)
    assert all(warning.code == "no_effect" for warning in found)
    return {warning.pointer for warning in found}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, set()),
        ({"evaluation": Evaluation(interval_steps=10)}, {"/evaluation/interval_steps"}),
        ({"evaluation": Evaluation(interval_steps=10, suites=(SUITE,))}, set()),
        ({"evaluation": Evaluation(interval_steps=2000, suites=(SUITE,))}, {"/evaluation/interval_steps"}),
        ({"evaluation": Evaluation(device_hours=1, tokens_per_evaluation=5)}, {"/evaluation/tokens_per_evaluation"}),
        ({"post_training": PostTraining(samples_per_prompt=4)}, {"/post_training/samples_per_prompt"}),
        ({"post_training": PostTraining(generated_tokens=4)}, {"/post_training/generated_tokens"}),
        ({"post_training": PostTraining(generated_tokens=4, preference_pairs=3)}, set()),
        ({"post_training": PostTraining(reference="cached")}, {"/post_training/reference"}),
        ({"post_training": PostTraining(reference="cached"), "method": Method(objective="dpo")}, set()),
        ({"post_training": PostTraining(reward_parameter_count=9)}, {"/post_training/reward_parameter_count"}),
        ({"post_training": PostTraining(reward_parameter_count=9, prompts=1), "method": Method(objective="grpo")}, set()),
        ({"post_training": PostTraining(human_seconds_per_item=9)}, {"/post_training/human_seconds_per_item"}),
    ],
)
def test_fields_without_effect(changes: dict[str, Any], expected: set[str]) -> None:
    """Each field by its pointer."""
    assert pointers(**changes) == expected
