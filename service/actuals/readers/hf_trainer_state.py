"""``trainer_state.json`` of the Hugging Face Trainer: its log rows carry no times, the last one of a finished run does."""

from __future__ import annotations

from typing import Any

from ..measurement import Attempt, Collector, Hints, Reading, Unreadable
from .base import as_object, count, number, objects
from .hf import tokens, training_values


def read(document: Any, hints: Hints) -> Reading:
    """One attempt, completed where ``train()`` returned: it may have been told to stop early."""
    state = as_object(document, "trainer_state.json")
    history = state.get("log_history")
    if not isinstance(history, list):
        raise Unreadable("trainer_state.json has a list `log_history`", "/log_history")
    rows = objects(history)
    into = Collector()
    summaries = [index for index, row in enumerate(rows) if number(row.get("train_runtime"))]
    if summaries:
        training_values(rows[summaries[-1]], into, evaluation_seconds=_evaluation_seconds(rows, summaries))
    else:
        into.ignore("/log_history", "no train_runtime: a checkpoint of an unfinished run has no times")
    if not any(value.code == "tokens.tensor_positions" for value in into.values):
        tokens(state.get("num_input_tokens_seen"), "/num_input_tokens_seen", into)
    if "total_flos" in state:
        into.ignore("/total_flos", "a formula (6 x parameters x positions, also for LoRA) or 0: not a measurement of FLOPs")
    if not into.values:
        raise Unreadable("no train_runtime in the log history: send the state of the finished run", "/log_history")
    attempt = Attempt(
        source="hf_trainer",
        outcome=hints.outcome or ("completed" if summaries else "failed"),
        covers=("training", "evaluation", "checkpointing"),
        steps_completed=count(state.get("global_step")),
        device_count=hints.device_count,
        values=tuple(into.values),
    )
    return Reading(attempts=(attempt,), ignored=tuple(into.ignored))


def _evaluation_seconds(rows: list[dict[str, Any]], summaries: list[int]) -> float:
    """Seconds of the evaluations inside the last session's ``train()``: logged before its closing row, and not those that followed the
    closing row of the session before, at its step. ``summaries`` says where closing rows stand.
    """
    last = summaries[-1]
    before = summaries[-2] if len(summaries) > 1 else -1
    step = number(rows[before].get("step")) if before >= 0 else None
    inside = (row for row in rows[before + 1 : last] if step is None or number(row.get("step")) != step)
    return sum(number(row.get("eval_runtime")) or 0.0 for row in inside)
