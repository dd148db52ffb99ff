"""What testing the model costs: validation at the forward pass's price, suites that generate, people's hours apart."""

from __future__ import annotations

from dataclasses import dataclass

from ..generation import EVALUATION_BATCH, Decoded, decode
from ..items import Basis, Item, unknown
from ..numeric import Number, maximum, sqrt
from ..run import EvaluationSuite, Run
from ..spread import Spread, exactly, independently, say, together
from .timed_run import TimedRun

KINDS = ("validation", "downstream", "safety", "memorization", "human")
# Forward : backward = 1 : 2 where every weight has a gradient, 1 : 1 where the base is frozen; full recomputation adds a forward
# (Kaplan et al. 2020, section 2.1; the frozen weights' gradients are half of the backward pass).
FULL_UNITS = 3.0
FROZEN_UNITS = 2.0

TOKENS_OF_A_STEP_UNKNOWN = "the tokens of a step are not known"
STEPS_UNKNOWN = "the number of steps, so that of evaluations, is not known: sequence_length is not given"
NONE_DECLARED = ("no evaluation is declared: nothing is set aside for it",)
NO_TOKENS_DECLARED = ("the suites declare no tokens",)
GIVEN = ("evaluation.device_hours is the whole of it",)
GIVEN_BESIDE_SUITES = ("evaluation.device_hours is the whole of it; the suites' own tokens are not added to it",)
FORMULA = "evaluations x tokens x forward cost"
GIVEN_FORMULA = "evaluation.device_hours x 3600 / devices"
KIND_FORMULA = "tokens read x forward cost + decoding of what is generated"
MINUTES_UNKNOWN = "a suite says nothing of the minutes people spend: give post_training.human_review_items and human_seconds_per_item"


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """One thing that is read or decoded ``often`` in the whole run; ``seconds`` is None where ``reason`` says why."""

    kind: str
    name: str | None  # of the suite; None is the validation set
    often: Number
    tokens: int
    seconds: Spread | None
    reason: str = ""
    decoded: Decoded | None = None  # of suites that generate

    @property
    def words(self) -> tuple[str, ...]:
        """How its seconds came about."""
        if self.name is None:
            return (f"{say(self.often)} evaluations of {self.tokens:.4g} tokens",)
        if self.decoded is None:
            return (f"{self.name}: {say(self.often)} x {self.tokens:.4g} tokens read",)
        return (f"{self.name}: {say(self.often)} times", *self.decoded.assumptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationTime:
    """What every kind of evaluation takes in the whole run; arrays over the layouts of a search."""

    tests: tuple[Test, ...]
    seconds: Spread | None  # of all tests; None where one of them is not known
    given: bool = False  # by the caller, as the whole of it
    reason: str | None = None  # why not even the number of evaluations is known

    @property
    def kinds(self) -> list[str]:
        """Kinds that cost something, known or not, in the contract's order."""
        declared = {test.kind for test in self.tests}
        return [kind for kind in KINDS if kind in declared] if declared else []

    def reason_of(self, kind: str) -> str | None:
        """Why a kind's cost is not known; None where it is."""
        reasons = [test.reason for test in self.tests if test.kind == kind and test.seconds is None]
        return reasons[-1] if reasons else None

    def seconds_of(self, kind: str) -> Spread:
        """All tests of a kind whose cost is known."""
        parts = [test.seconds for test in self.tests if test.kind == kind and test.seconds is not None]
        return together(*parts) if len(parts) == 1 else independently(*parts)


def of_tests(tests: tuple[Test, ...]) -> EvaluationTime:
    """All kinds, which err together; not known where one of them is not."""
    time = EvaluationTime(tests=tests, seconds=None)
    if any(test.seconds is None for test in tests):
        return time
    if not tests:
        return NO_TESTS
    expected: Number = 0.0
    below: Number = 0.0
    above: Number = 0.0
    for kind in time.kinds:
        part = time.seconds_of(kind)
        expected = expected + part.expected
        below, above = below + (part.expected - part.low), above + (part.high - part.expected)
    # Their distances to the bounds add up, as those of a whole of items do.
    seconds = Spread(expected, maximum(expected - sqrt(below * below), 0.0), expected + sqrt(above * above))
    return EvaluationTime(tests=tests, seconds=seconds)


NO_TESTS = EvaluationTime(tests=(), seconds=exactly(0.0))


def forward_share(run: Run) -> float:
    """The forward pass's share of a training step."""
    units = FROZEN_UNITS if run.method.adapters else FULL_UNITS
    if run.activation_checkpointing == "full":
        units += 1
    return 1 / units


def seconds_per_forward_token(timed: TimedRun) -> Spread | None:
    """The whole job's time for one token forward, at the run's own efficiency."""
    tokens = timed.workload.input_tokens
    return timed.training.times(forward_share(timed.run) / tokens) if tokens else None


def evaluations(run: Run, steps: Number) -> Number:
    """How often the run stops to evaluate."""
    every = run.evaluation.interval_steps
    return 0 if every is None else steps // every


def figures(timed: TimedRun) -> EvaluationTime:
    """What every test takes."""
    declared, steps = timed.run.evaluation, timed.steps
    if declared.device_hours is not None:
        given = exactly(declared.device_hours * 3600 / timed.hardware.device_count)
        return EvaluationTime(tests=(), seconds=given, given=True)
    if not declared.tokens_per_evaluation and not declared.suites:
        return NO_TESTS
    if steps is None and declared.interval_steps is not None:
        return EvaluationTime(tests=(), seconds=None, reason=STEPS_UNKNOWN)
    periodic = declared.interval_steps is not None
    times = evaluations(timed.run, 0.0 if steps is None else steps)
    per_token = seconds_per_forward_token(timed)
    found = []

    def read(kind: str, name: str | None, tokens: int, often: Number) -> Test:
        if per_token is None:
            return Test(kind=kind, name=name, often=often, tokens=tokens, seconds=None, reason=TOKENS_OF_A_STEP_UNKNOWN)
        return Test(kind=kind, name=name, often=often, tokens=tokens, seconds=per_token.times(tokens * often))

    if declared.tokens_per_evaluation:
        # Tokens without an interval: once, at the end.
        found.append(read("validation", None, declared.tokens_per_evaluation, times if periodic else 1))
    for suite in declared.suites:
        often = _runs(suite, times, periodic)
        if suite.tokens:
            found.append(read(suite.kind, suite.name, suite.tokens, often))
        if suite.generated_tokens:
            # One evaluation's decoding, as often as it is run.
            context = timed.run.sequence_length or 1024
            decoded = decode(timed.run, timed.parameters, suite.generated_tokens, context, EVALUATION_BATCH)
            seconds = None if decoded.seconds is None else decoded.seconds.times(often)
            found.append(
                Test(kind=suite.kind, name=suite.name, often=often, tokens=suite.generated_tokens, seconds=seconds,
                     reason=decoded.reason or "", decoded=decoded)
            )  # fmt: skip
    return of_tests(tuple(found))


def _runs(suite: EvaluationSuite, times: Number, periodic: bool) -> Number:
    """How often a suite is run: as declared, else at every evaluation, else once at the end."""
    if suite.runs is not None:
        return suite.runs
    return times if periodic else 1


# -- words -------------------------------------------------------------------------------------------------------------
def nothing_words(run: Run, tested: EvaluationTime) -> tuple[str, tuple[str, ...], Basis]:
    """Formula, assumptions and basis of an evaluation without parts: given by the caller, or none."""
    if not tested.given:
        return FORMULA, NO_TOKENS_DECLARED if run.evaluation.suites else NONE_DECLARED, "formula"
    described = run.evaluation.tokens_per_evaluation or run.evaluation.suites
    return GIVEN_FORMULA, GIVEN_BESIDE_SUITES if described else GIVEN, "given"


def words(run: Run) -> tuple[str, ...]:
    """What the whole of an evaluation rests on."""
    return (f"training stands still meanwhile; the forward pass is 1/{1 / forward_share(run):g} of a training step a token",)


def kind_words(tested: EvaluationTime, kind: str) -> tuple[Basis, tuple[str, ...]]:
    """What a kind of evaluation rests on, and how its seconds came about."""
    known = [(test, test.seconds) for test in tested.tests if test.kind == kind and test.seconds is not None]
    basis: Basis = "prior" if any(seconds.low != seconds.high for _, seconds in known) else "formula"
    return basis, tuple(word for test, _ in known for word in test.words)


def people_items(run: Run, steps: Number | None) -> list[Item]:
    """People's hours of human suites: a unit of its own, and not known from tokens."""
    suites = [suite for suite in run.evaluation.suites if suite.kind == "human"]
    reviewed = run.post_training
    if not suites or (reviewed.human_review_items is not None and reviewed.human_seconds_per_item is not None):
        return []  # none, or counted in human_hours.review
    whole = run.evaluation.device_hours is not None  # the caller's figure is of one evaluation
    times = 1 if whole else 0 if steps is None else int(evaluations(run, steps))
    formula = " + ".join(f"{suite.name}: {suite.runs or times} runs x items x seconds an item" for suite in suites)
    return [unknown("human_hours.evaluation", "reserves", "human_hours", MINUTES_UNKNOWN, formula=formula)]
