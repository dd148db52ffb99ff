"""Fields of the job, its tests, its post-training and its prices that were given and change nothing: said, never silently ignored."""

from __future__ import annotations

from collections.abc import Iterator

from ..cost import applied
from ..run import Run
from .catalogue import Warning, no_effect


def warnings(run: Run, steps: float | None) -> list[Warning]:
    """One warning for every such field."""
    found = (*_evaluation(run, steps), *_post_training(run), *_rates(run))
    return [no_effect(pointer, why) for pointer, why in found]


def _evaluation(run: Run, steps: float | None) -> Iterator[tuple[str, str]]:
    declared = run.evaluation
    measured = declared.tokens_per_evaluation or declared.suites
    every = declared.interval_steps
    if every is not None and not measured and declared.device_hours is None:
        yield "/evaluation/interval_steps", "no tokens_per_evaluation and no suites say what is evaluated"
    if declared.device_hours is not None:
        for name in ("interval_steps", "tokens_per_evaluation", "suites"):
            if getattr(declared, name):
                yield f"/evaluation/{name}", "device_hours is given and is the whole of it"
    elif every is not None and measured and steps is not None and steps < every:
        yield "/evaluation/interval_steps", f"the run ends after {steps:g} steps, before the first evaluation"


def _post_training(run: Run) -> Iterator[tuple[str, str]]:
    wanted, objective = run.post_training, run.method.objective
    sampled = wanted.prompts is not None
    if wanted.update_epochs < 1:
        yield "/post_training/update_epochs", "less than one pass: data says what the updates read"
    paired = bool(wanted.preference_pairs)
    if wanted.samples_per_prompt != 1 and not sampled:
        yield "/post_training/samples_per_prompt", "no prompts are given"
    for name in ("prompt_tokens", "generated_tokens"):
        if getattr(wanted, name) is not None and not sampled and not paired:
            yield f"/post_training/{name}", "neither prompts nor preference_pairs are given"
    if wanted.reference != "model" and objective not in ("dpo", "ppo", "grpo"):
        yield "/post_training/reference", f"the objective {objective} has no reference model"
    if wanted.generator != "colocated" and objective not in ("ppo", "grpo"):
        yield "/post_training/generator", f"the objective {objective} generates nothing while it trains"
    if wanted.reward_parameter_count is not None:
        if objective == "reward_model":
            yield "/post_training/reward_parameter_count", "the reward model is the one that is trained: model says its size"
        elif not sampled and objective not in ("ppo", "grpo"):
            yield "/post_training/reward_parameter_count", "no prompts are given, so nothing is scored"
    if wanted.human_seconds_per_item is not None and not wanted.human_review_items:
        yield "/post_training/human_seconds_per_item", "no human_review_items are given"


def _rates(run: Run) -> Iterator[tuple[str, str]]:
    """Rates, and devices of rates, that price nothing of this run."""
    chosen = {id(rate) for rate in applied(run)}
    for index, rate in enumerate(run.rates):
        if id(rate) not in chosen:
            yield f"/rates/{index}", "another rate is nearer to the run's device, and hours have one price"
        elif rate.device is not None and rate.resource != "device_hour":
            yield f"/rates/{index}/device", f"a {rate.resource} has none"
