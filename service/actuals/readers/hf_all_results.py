"""``all_results.json``, ``train_results.json`` and ``eval_results.json`` of the Hugging Face examples."""

from __future__ import annotations

from typing import Any

from ..measurement import Attempt, Collector, Hints, Reading, Unreadable
from .base import as_object, number
from .hf import training_values


def read(document: Any, hints: Hints) -> Reading:
    """One attempt: ``train()`` returned, so the run completed unless the caller says otherwise."""
    results = as_object(document, "all_results.json")
    into = Collector()
    training_values(results, into)
    if number(results.get("eval_runtime")):
        into.ignore("/eval_runtime", "the evaluation after training: it is not known whether training itself evaluated")
    if not into.values:
        raise Unreadable("no train_runtime, token counter or memory metrics in it: nothing was measured")
    attempt = Attempt(
        source="hf_trainer",
        outcome=hints.outcome or "completed",
        covers=("training", "evaluation", "checkpointing"),
        device_count=hints.device_count,
        values=tuple(into.values),
    )
    return Reading(attempts=(attempt,), ignored=tuple(into.ignored))
