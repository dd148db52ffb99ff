"""The whole job: wall clock and device-hours of everything from launch to the last checkpoint, with what interrupts it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

from . import cadence, evaluation, job_parts
from .correction import Factor
from .items import Basis, Item, unknown
from .job_parts import START_UP_RANGE, WHOLE_RUN_RANGE, Cadence, Timed
from .numeric import Number, maximum, where
from .run import Run
from .spread import Spread, exactly, multiples, together
from .storage import NO_ADAPTER_SIZE, CheckpointBytes, Saves
from .wholes import whole

RESTART_ASSUMPTIONS = (
    "lost work is half the saving interval an interruption; stragglers and slow links are in the measured step times",
    "corrupt checkpoints and bad data have no published rate: runs thrown away for them are in device_hours.rerun",
)
# What the two figures that are most often confused cover.
COVERED = {
    "time.training": (
        "steady state: every step alike; start-up, saves, evaluation, stalls and restarts are the other parts of device_hours.run",
    )
}
OVERHEADS = ("startup", "checkpointing", "evaluation", "data_stall", "restarts")
# The order of the parts in every whole.
PARTS = ("startup", "training", "checkpointing", "evaluation", "data_stall", "restarts")


class Work(Protocol):
    """What the job needs to know of the tokens."""

    @property
    def steps(self) -> Any:
        """Optimizer steps."""

    @property
    def input_tokens(self) -> Any:
        """Tokens read."""


@dataclass(frozen=True, slots=True)
class Job:
    """Items of the whole job, and what others need of them."""

    items: tuple[Item, ...]
    reserves: tuple[Item, ...]  # interruptions, what they cost, spares, people's hours: they stand with the other reserves
    saves: Saves
    seconds_per_forward_token: float | None  # of the whole job, for rollouts and reward passes


def estimate(
    run: Run,
    work: Work,
    parameters: Any,
    *,
    step: Spread | None,
    training: Spread | None,
    checkpoint: CheckpointBytes | None,
    training_lower_bound: float | None = None,
    training_basis: Basis = "formula",
    unknown_reason: str = "the step time is not known",
    operations: Factor | None = None,
) -> Job:
    """Every item of the job but ``time.step`` and ``time.training``, which the step time's owner adds.

    ``training`` is the time of all steps. ``operations`` is what own actuals say the whole job takes over what its parts add
    up to: the parts beside training are scaled until the whole is that multiple.
    """
    steps, tokens = work.steps, work.input_tokens
    if run.hardware is None or training is None:
        return _unknown(run, steps, unknown_reason if run.hardware is not None else "no hardware is given")
    plan, why = None, ""
    if checkpoint is None:
        why = NO_ADAPTER_SIZE
    elif job_parts.needs_steps(run) and (step is None or steps is None):
        why = "the cadence is told in steps and their number is not known: sequence_length is not given"
    else:
        plan = job_parts.cadence(run, steps, step, training, checkpoint.full, checkpoint.weights)
    per_token = training.times(evaluation.forward_share(run) / tokens) if tokens else None
    startup = job_parts.startup(run, _loaded_bytes(run, parameters, checkpoint))
    stall = job_parts.data_stall(run, tokens, training)
    tested = evaluation.items(run, parameters, steps, per_token)
    timed: dict[str, Item] = {
        "startup": _item("time.startup", startup),
        "training": Item(
            code="time.training",
            section="time",
            quantity="seconds",
            expected=training.expected,
            low=training.low,
            high=training.high,
            formula="",
            basis=training_basis,
        ),
        "evaluation": tested.whole,
        "data_stall": _item("time.data_stall", stall),
    }
    causes: list[Item] = []
    lost = None
    if plan is None:
        timed["checkpointing"] = unknown("time.checkpointing", "time", "seconds", why, parent="time.wall_clock")
        timed["restarts"] = unknown("time.restarts", "time", "seconds", why, parent="time.wall_clock")
    else:
        saving = job_parts.checkpointing(plan)
        timed["checkpointing"] = _item("time.checkpointing", saving)
        tested_seconds = Spread(*(getattr(tested.whole, name) or 0.0 for name in ("expected", "low", "high")))
        words = ""
        if step is None:
            step, words = job_parts.typical_step(training, tokens)
        lost = job_parts.restarts(run, plan, step, together(training, saving.seconds, tested_seconds, stall.seconds), step_words=words)
        causes = _causes(plan, lost)
        left_out = () if tested.whole.expected is not None else ("time.evaluation is not known: interruptions during it are left out",)
        timed["restarts"] = whole(
            "time.restarts", "time", "seconds", causes, parent="time.wall_clock", assumptions=RESTART_ASSUMPTIONS + left_out
        )
    if operations is not None:
        _calibrate(timed, causes, tested.parts, operations)
    clock = whole(
        "time.wall_clock",
        "time",
        "seconds",
        [timed[name] for name in PARTS],
        together=frozenset({"time.training", "time.evaluation"}),
        assumptions=("from launch to the last checkpoint; waiting in the scheduler's queue is not counted",),
    )
    clock.lower_bound = training_lower_bound  # it holds whatever else is not known
    if training_basis == "prior" and operations is None:
        _beyond_benchmarks(clock, run.interval_coverage)
    if operations is not None and clock.expected is not None:
        _state(clock, operations, sum(float(timed[name].uncalibrated or timed[name].expected or 0) for name in PARTS))
    result = [timed[name] for name in OVERHEADS] + causes + tested.parts + [clock]
    result += _hours(run, timed, tested.parts, clock)
    saves = Saves(main=None, reason=why)
    if plan is not None and lost is not None:
        result += cadence.items(run, plan, lost)
        saves = Saves(main=float(plan.saves), weights_tier=float(plan.light_saves))
    result += tested.others
    return Job(
        items=tuple(item for item in result if item.section != "reserves"),
        reserves=tuple(item for item in result if item.section == "reserves"),
        saves=saves,
        seconds_per_forward_token=None if per_token is None else per_token.expected,
    )


def _causes(plan: Cadence, lost: job_parts.Restarts) -> list[Item]:
    """The parts of ``time.restarts``; unknown where the job would never end."""
    causes = [
        _item("time.restarts_hardware", lost.hardware, "time.restarts"),
        _item("time.restarts_software", lost.software, "time.restarts"),
        _item("time.restarts_loss_spikes", lost.loss_spikes, "time.restarts"),
    ]
    if lost.progress > 0:
        return causes
    reason = (
        "the job is interrupted faster than it can recover: one interruption "
        f"in {plan.mean_time_between_interruptions:.3g} s, {plan.interval / 2 + plan.restart.expected:.3g} s lost to each"
    )
    return [unknown(cause.code, "time", "seconds", reason, formula=cause.formula, parent="time.restarts") for cause in causes]


def wall_clock_seconds(
    run: Run,
    work: Work,
    parameters: Any,
    *,
    step: Spread,
    training: Spread,
    checkpoint: CheckpointBytes,
) -> Number | None:
    """The expected ``time.wall_clock`` of every layout of a search: the sum that :func:`estimate` makes, to the last bit.

    None where a part is not known; infinite where a layout is interrupted faster than it recovers.
    """
    plan = job_parts.cadence(run, work.steps, step, training, checkpoint.full, checkpoint.weights)
    per_token = training.times(evaluation.forward_share(run) / work.input_tokens)
    tested = evaluation.expected_seconds(run, parameters, work.steps, per_token)
    if tested is None:
        return None
    startup = job_parts.startup(run, _loaded_bytes(run, parameters, checkpoint)).seconds.expected
    saving = job_parts.checkpointing(plan).seconds
    stall = job_parts.data_stall(run, work.input_tokens, training).seconds
    busy = together(training, saving, exactly(tested), stall)
    lost = job_parts.restarts(run, plan, step, busy)
    restarts = 0.0 + lost.hardware.seconds.expected + lost.software.seconds.expected + lost.loss_spikes.seconds.expected
    total = 0.0 + startup + training.expected + saving.expected + tested + stall.expected + restarts
    return where(lost.progress > 0, total, float("inf"))


def items(run: Run, work: Work, parameters: Any, **known: Any) -> list[Item]:
    """All items of :func:`estimate`."""
    found = estimate(run, work, parameters, **known)
    return [*found.items, *found.reserves]


def _loaded_bytes(run: Run, parameters: Any, checkpoint: CheckpointBytes | None) -> float:
    """Bytes of the bf16 file that a run starts from; under adapters that of the frozen base."""
    return float(parameters.total) * 2 if run.method.adapters or checkpoint is None else checkpoint.export


def _state(clock: Item, factor: Factor, uncalibrated: float) -> None:
    """Say on the whole what own actuals made of it, their spread added to its interval, which holds what they say themselves."""
    assert clock.expected is not None
    told = factor.factor * uncalibrated
    low, high = clock.expected * (1 - factor.low), clock.expected * (factor.high - 1)
    below = clock.expected - (clock.expected if clock.low is None else clock.low)
    above = (clock.expected if clock.high is None else clock.high) - clock.expected
    clock.low = max(min(clock.expected - math.hypot(below, low), told * factor.low), 0.0)
    clock.high = clock.expected + math.hypot(above, high)
    clock.basis, clock.n, clock.factor, clock.uncalibrated = "calibrated", factor.n, factor.factor, uncalibrated


def _beyond_benchmarks(clock: Item, coverage: float) -> None:
    """Widen the whole's interval by what published runs took beyond their predicted steps; not below the time at the peak."""
    if clock.expected is None or clock.low is None or clock.high is None:
        return
    expected, told = float(clock.expected), multiples(float(clock.expected), *WHOLE_RUN_RANGE, coverage)
    low = expected - math.hypot(expected - clock.low, expected - told.low)
    clock.low = min(max(low, clock.lower_bound or 0.0), clock.low)
    clock.high = expected + math.hypot(clock.high - expected, told.high - expected)
    clock.assumptions += (
        f"the interval is wider than that of the parts: whole runs took {WHOLE_RUN_RANGE[0]:g} to {WHOLE_RUN_RANGE[1]:g} times what "
        "steps measured in benchmarks add up to",
    )


def _item(code: str, part: Timed, parent: str = "time.wall_clock") -> Item:
    seconds = part.seconds
    return Item(
        code=code,
        section="time",
        quantity="seconds",
        expected=seconds.expected,
        low=seconds.low,
        high=seconds.high,
        formula=part.formula,
        basis=part.basis,
        assumptions=part.assumptions,
        parent=parent,
    )


def beside_training(factor: float, training: Number, beside: Number) -> Number:
    """Seconds beside training once own actuals say that the whole takes ``factor`` times as long.

    A whole shorter than its training alone says that the steps are faster, not that launching and saving took no time: no part
    falls below the least share that the prior of start-up allows.
    """
    return maximum(factor * (training + beside) - training, START_UP_RANGE[0] * beside)


def _calibrate(timed: dict[str, Item], causes: list[Item], tests: list[Item], factor: Factor) -> None:
    """Scale what is beside training until the whole job is ``factor`` times what its parts add up to, as far as it goes."""
    values = {name: timed[name].expected for name in PARTS}
    if any(value is None for value in values.values()):
        return
    training = values["training"] or 0.0
    beside = sum(value or 0.0 for name, value in values.items() if name != "training")
    if beside <= 0:
        return
    scale = beside_training(factor.factor, training, beside) / beside
    for item in [timed[name] for name in OVERHEADS] + causes + tests:
        if item.expected is None:
            continue
        item.uncalibrated, item.expected = float(item.expected), item.expected * scale
        item.low = None if item.low is None else item.low * scale
        item.high = None if item.high is None else item.high * scale
        item.basis, item.n, item.factor = "calibrated", factor.n, scale
        item.assumptions += (
            f"own actuals of {factor.cell}: whole jobs took {factor.factor:.3g} times what their parts add up to (n = {factor.n})",
        )


def _hours(run: Run, timed: dict[str, Item], tests: list[Item], clock: Item) -> list[Item]:
    """The wall clock's parts as device-hours."""
    assert run.hardware is not None
    devices = run.hardware.device_count
    per_second = devices / 3600.0
    bound = None if clock.lower_bound is None else clock.lower_bound * per_second

    def hours(item: Item, code: str, parent: str | None) -> Item:
        if item.expected is None:
            return unknown(
                code,
                "time",
                "device_hours",
                item.reason or "",
                formula=f"{item.code} x devices / 3600",
                parent=parent,
            )
        return Item(
            code=code,
            section="time",
            quantity="device_hours",
            expected=item.expected * per_second,
            lower_bound=bound if item.code == "time.training" else None,
            low=None if item.low is None else item.low * per_second,
            high=None if item.high is None else item.high * per_second,
            formula=f"{item.code} x {devices} devices / 3600",
            assumptions=COVERED.get(item.code, ()),
            basis=item.basis,
            parent=parent,
            n=item.n,
            factor=item.factor,
            uncalibrated=None if item.uncalibrated is None else item.uncalibrated * per_second,
        )

    parts = [hours(timed[name], f"device_hours.{name}", "device_hours.run") for name in PARTS]
    run_hours = whole(
        "device_hours.run",
        "time",
        "device_hours",
        parts,
        parent="device_hours.total",
        lower_bound=bound,
        together=frozenset({"device_hours.training", "device_hours.evaluation"}),
        assumptions=("every device is held for the whole wall clock",),
    )
    for name in ("low", "high", "uncalibrated"):
        value = getattr(clock, name)
        setattr(run_hours, name, None if value is None else value * per_second)
    run_hours.n, run_hours.factor = clock.n, clock.factor
    kinds = [
        hours(
            item,
            "device_hours." + item.code.removeprefix("time."),
            "device_hours.evaluation",
        )
        for item in tests
    ]
    return [*parts, *kinds, run_hours]


def _unknown(run: Run, steps: Any, reason: str) -> Job:
    """The job's items where the time of training is not known."""
    result = [unknown(f"time.{name}", "time", "seconds", reason, parent="time.wall_clock") for name in OVERHEADS]
    result.append(unknown("time.wall_clock", "time", "seconds", reason))
    result += [unknown(f"device_hours.{name}", "time", "device_hours", reason, parent="device_hours.run") for name in PARTS]
    result.append(unknown("device_hours.run", "time", "device_hours", reason, parent="device_hours.total"))
    return Job(items=tuple(result), reserves=(), saves=_saves_without_time(run, steps, reason), seconds_per_forward_token=None)


def _saves_without_time(run: Run, steps: Any, reason: str) -> Saves:
    """Checkpoints as far as steps alone tell them."""
    policy = run.checkpointing
    light = policy.weights_interval_steps
    if steps is None and (policy.interval_steps is not None or light is not None):
        return Saves(main=None, reason=reason)
    tier = 0.0 if light is None else float(-(-steps // light))
    if policy.interval_steps is not None:
        return Saves(main=float(-(-steps // policy.interval_steps)), weights_tier=tier)
    if policy.interval_seconds is not None:
        return Saves(main=None, weights_tier=tier, reason=reason)
    return Saves(
        main=1.0, weights_tier=tier, reason="neither cadence nor the time of a step is known: the last checkpoint alone is counted"
    )
