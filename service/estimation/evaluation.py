"""What testing the model costs: validation at the forward pass's price, suites that generate, people's hours apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .generation import EVALUATION_BATCH, decode
from .items import Basis, Item, unknown
from .numeric import Number
from .run import EvaluationSuite, Run
from .spread import Spread, exactly, independently, say, together
from .wholes import whole

KINDS = ("validation", "downstream", "safety", "memorization", "human")
# Forward : backward = 1 : 2 where every weight has a gradient, 1 : 1 where the base is frozen; full recomputation adds a forward
# (Kaplan et al. 2020, section 2.1; the frozen weights' gradients are half of the backward pass).
FULL_UNITS = 3.0
FROZEN_UNITS = 2.0


@dataclass(slots=True)
class Evaluated:
    """``time.evaluation``, its parts by kind, and items in units of their own."""

    whole: Item
    parts: list[Item] = field(default_factory=list)
    others: list[Item] = field(default_factory=list)


def forward_share(run: Run) -> float:
    """The forward pass's share of a training step."""
    units = FROZEN_UNITS if run.method.adapters else FULL_UNITS
    if run.activation_checkpointing == "full":
        units += 1
    return 1 / units


def evaluations(run: Run, steps: Number) -> Number:
    """How often the run stops to evaluate."""
    every = run.evaluation.interval_steps
    return 0 if every is None else steps // every


@dataclass(slots=True)
class Costs:
    """Seconds by kind, how they came about, and the kinds whose cost is not known."""

    spreads: dict[str, list[Spread]] = field(default_factory=dict)
    said: dict[str, list[str]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def add(self, kind: str, seconds: Spread, *words: str) -> None:
        """One cost of a kind."""
        self.spreads.setdefault(kind, []).append(seconds)
        self.said.setdefault(kind, []).extend(words)

    def seconds(self, kind: str) -> Spread:
        """All costs of a kind."""
        spreads = self.spreads[kind]
        return together(*spreads) if len(spreads) == 1 else independently(*spreads)

    def kinds(self) -> list[str]:
        """Kinds that cost something, known or not, in the contract's order."""
        return [kind for kind in KINDS if kind in self.spreads or kind in self.reasons]


def costs(run: Run, parameters: Any, steps: Number, seconds_per_token: Spread | None) -> Costs:
    """What every kind of evaluation takes; layouts broadcast through ``steps`` and ``seconds_per_token``."""
    declared = run.evaluation
    periodic = declared.interval_steps is not None
    times = evaluations(run, steps)
    found = Costs()

    def read(kind: str, tokens: Number, words: str) -> None:
        if seconds_per_token is None:
            found.reasons[kind] = "the tokens of a step are not known"
        else:
            found.add(kind, seconds_per_token.times(tokens), words)

    if declared.tokens_per_evaluation:
        # Tokens without an interval: once, at the end.
        often = times if periodic else 1
        read(
            "validation", declared.tokens_per_evaluation * often, f"{say(often)} evaluations of {declared.tokens_per_evaluation:.4g} tokens"
        )
    for suite in declared.suites:
        often = _runs(suite, times, periodic)
        if suite.tokens:
            read(suite.kind, suite.tokens * often, f"{suite.name}: {say(often)} x {suite.tokens:.4g} tokens read")
        if suite.generated_tokens:
            # One evaluation's decoding, as often as it is run.
            decoded = decode(run, parameters, suite.generated_tokens, run.sequence_length or 1024, EVALUATION_BATCH)
            if decoded.seconds is None:
                found.reasons[suite.kind] = decoded.reason or ""
            else:
                found.add(suite.kind, decoded.seconds.times(often), f"{suite.name}: {say(often)} times", *decoded.assumptions)
    return found


def items(run: Run, parameters: Any, steps: float | None, seconds_per_token: Spread | None) -> Evaluated:
    """``time.evaluation`` with its parts by kind. ``seconds_per_token`` is a forward token's share of the whole job's time."""
    assert run.hardware is not None
    declared = run.evaluation
    if declared.device_hours is not None:
        return _given(run, declared.device_hours)
    if steps is None and declared.interval_steps is not None and (declared.tokens_per_evaluation or declared.suites):
        reason = "the number of steps, so that of evaluations, is not known: sequence_length is not given"
        return Evaluated(unknown("time.evaluation", "time", "seconds", reason, parent="time.wall_clock"), [], _human(run, 0))
    counted = 0.0 if steps is None else steps
    found = costs(run, parameters, counted, seconds_per_token)
    others = _human(run, int(evaluations(run, counted)))
    parts = [_part(kind, found) for kind in found.kinds()]
    if not parts:
        nothing = "no evaluation is declared: nothing is set aside for it" if not declared.suites else "the suites declare no tokens"
        formula = "evaluations x tokens x forward cost"
        return Evaluated(_item("time.evaluation", exactly(0.0), formula, (nothing,), "formula", "time.wall_clock"), [], others)
    one = whole(
        "time.evaluation",
        "time",
        "seconds",
        parts,
        parent="time.wall_clock",
        together=frozenset(part.code for part in parts),
        assumptions=(f"training stands still meanwhile; the forward pass is 1/{1 / forward_share(run):g} of a training step a token",),
    )
    return Evaluated(one, parts, others)


def expected_seconds(run: Run, parameters: Any, steps: Number, seconds_per_token: Spread | None) -> Number | None:
    """The expected ``time.evaluation`` of every layout; None where it is not known."""
    assert run.hardware is not None
    if run.evaluation.device_hours is not None:
        return run.evaluation.device_hours * 3600 / run.hardware.device_count
    found = costs(run, parameters, steps, seconds_per_token)
    if found.reasons:
        return None
    total: Number = 0.0
    for kind in found.kinds():
        total = total + found.seconds(kind).expected
    return total


def _runs(suite: EvaluationSuite, times: Number, periodic: bool) -> Number:
    """How often a suite is run: as declared, else at every evaluation, else once at the end."""
    if suite.runs is not None:
        return suite.runs
    return times if periodic else 1


def _given(run: Run, device_hours: float) -> Evaluated:
    assert run.hardware is not None
    seconds = device_hours * 3600 / run.hardware.device_count
    described = run.evaluation.tokens_per_evaluation or run.evaluation.suites
    said = ("evaluation.device_hours is the whole of it" + ("; the suites' own tokens are not added to it" if described else ""),)
    item = _item(
        "time.evaluation",
        exactly(seconds),
        "evaluation.device_hours x 3600 / devices",
        said,
        "given",
        "time.wall_clock",
    )
    return Evaluated(item, [], _human(run, 1))


def _human(run: Run, times: int) -> list[Item]:
    """People's hours of human suites: a unit of its own, and not known from tokens."""
    suites = [suite for suite in run.evaluation.suites if suite.kind == "human"]
    reviewed = run.post_training
    if not suites or (reviewed.human_review_items is not None and reviewed.human_seconds_per_item is not None):
        return []  # none, or counted in human_hours.review
    return [
        unknown(
            "human_hours.evaluation",
            "reserves",
            "human_hours",
            "a suite says nothing of the minutes people spend: give post_training.human_review_items and human_seconds_per_item",
            formula=" + ".join(f"{suite.name}: {suite.runs or times} runs x items x seconds an item" for suite in suites),
        )
    ]


def _part(kind: str, found: Costs) -> Item:
    code, formula = f"time.evaluation_{kind}", "tokens read x forward cost + decoding of what is generated"
    if kind in found.reasons:
        return unknown(code, "time", "seconds", found.reasons[kind], formula=formula, parent="time.evaluation")
    basis: Basis = "prior" if any(cost.low != cost.high for cost in found.spreads[kind]) else "formula"
    return _item(code, found.seconds(kind), formula, tuple(found.said[kind]), basis, "time.evaluation")


def _item(
    code: str,
    seconds: Spread,
    formula: str,
    said: tuple[str, ...],
    basis: Basis,
    parent: str,
) -> Item:
    return Item(
        code=code,
        section="time",
        quantity="seconds",
        expected=seconds.expected,
        low=seconds.low,
        high=seconds.high,
        formula=formula,
        basis=basis,
        assumptions=said,
        parent=parent,
    )
