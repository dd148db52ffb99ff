"""The wall clock described: seconds and device-hours of every part, their wholes, and what own actuals made of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ..correction import Factor
from ..item_sums import scaled, whole
from ..items import Basis, Item, unknown
from ..numeric import Number, ceil_divide, one
from ..run import Run
from ..spread import Spread, multiples
from ..storage import Saves
from . import data_loading, evaluation, interruptions, saving, saving_items, start_up
from .figures import BESIDE_TRAINING, PARTS, WallClock
from .timed_run import TimedRun

# Benchmarks time steady steps on quiet machines; whole runs are booked by their clock. What published runs took over the quote of
# their predicted steps, beyond the steps' own interval (80 %): with it, 17 of the 22 runs of tests/cases/measured_public.jsonl
# lie inside (77 %), and 8 of the 9 whose layout was not assumed; without it, 10 and 3.
WHOLE_RUN_RANGE = (0.85, 1.3)

RESTART_ASSUMPTIONS = (
    "lost work is half the saving interval an interruption; stragglers and slow links are in the measured step times",
    "corrupt checkpoints and bad data have no published rate: runs thrown away for them are in device_hours.rerun",
)
NO_EVALUATION_TIME = ("time.evaluation is not known: interruptions during it are left out",)
TRAINING_COVERS = (
    "steady state: every step alike; start-up, saves, evaluation, stalls and restarts are the other parts of device_hours.run",
)
CLOCK_COVERS = ("from launch to the last checkpoint; waiting in the scheduler's queue is not counted",)
WIDER = (
    f"the interval is wider than that of the parts: whole runs took {WHOLE_RUN_RANGE[0]:g} to {WHOLE_RUN_RANGE[1]:g} times what "
    "steps measured in benchmarks add up to",
)
LAST_CHECKPOINT_ALONE = "neither cadence nor the time of a step is known: the last checkpoint alone is counted"
EVERY_DEVICE = ("every device is held for the whole wall clock",)
_CLOCK_TOGETHER = frozenset({"time.training", "time.evaluation"})
_HOURS_TOGETHER = frozenset({"device_hours.training", "device_hours.evaluation"})
_CLOCK = "time.wall_clock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """Items of the job, apart from the reserves: interruptions, what they cost, spares, people's hours."""

    items: tuple[Item, ...]
    reserves: tuple[Item, ...]


def items(timed: TimedRun, clock: WallClock, plain: WallClock, training: Item, whole_jobs: Factor | None = None) -> Described:
    """Every item of the job but ``time.step`` and ``training``, the item ``time.training``, which the speed's owner adds.

    ``plain`` is the clock without corrections (the same object where there are none); ``whole_jobs`` the factor in ``clock``.
    """
    run = timed.run
    causes = _causes(timed, clock, plain)
    kinds = _kinds(clock, plain)
    described = {
        "startup": _start_up(run, clock, plain),
        "training": training,
        "checkpointing": _checkpointing(run, clock, plain),
        "evaluation": _evaluation(run, clock, plain, kinds),
        "data_stall": _data_stall(run, clock, plain),
        "restarts": _restarts(clock, causes),
    }
    scale = one(clock.beside_scale)
    if whole_jobs is not None and scale is not None:
        for name in BESIDE_TRAINING:
            described[name] = _rescaled(described[name], scale, whole_jobs)
        causes = [_rescaled(item, scale, whole_jobs) for item in causes]
        kinds = [_rescaled(item, scale, whole_jobs) for item in kinds]
    total = _total(run, clock, [described[name] for name in PARTS], training, whole_jobs)
    found = [described[name] for name in BESIDE_TRAINING]
    found += causes
    found += kinds
    found.append(total)
    found += _hours(timed, described, kinds, total)
    beside = evaluation.people_items(run, timed.steps)
    if clock.saving is not None and clock.restarts is not None:
        beside = saving_items.items(timed, clock.saving, clock.restarts, plain) + beside
    found += [item for item in beside if item.section == "time"]
    return Described(items=tuple(found), reserves=tuple([item for item in beside if item.section == "reserves"]))


def _seconds(
    name: str, seconds: Spread, plain: Number, formula: str, assumptions: tuple[str, ...], basis: Basis, parent: str = _CLOCK
) -> Item:
    expected = seconds.expected
    return Item(
        code="time." + name,
        section="time",
        quantity="seconds",
        expected=one(expected),
        formula=formula,
        basis=basis,
        low=one(seconds.low),
        high=one(seconds.high),
        assumptions=assumptions,
        parent=parent,
        uncalibrated=one(None if plain == expected else plain),
    )


def _start_up(run: Run, clock: WallClock, plain: WallClock) -> Item:
    start = clock.start_up
    return _seconds("startup", start.seconds, plain.start_up.seconds.expected, start_up.FORMULA, start_up.words(run, start), "prior")


def _data_stall(run: Run, clock: WallClock, plain: WallClock) -> Item:
    stall = clock.data_stall
    basis, words = data_loading.words(run, stall)
    return _seconds("data_stall", stall.seconds, plain.data_stall.seconds.expected, data_loading.FORMULA, words, basis)


def _checkpointing(run: Run, clock: WallClock, plain: WallClock) -> Item:
    cadence = clock.saving
    if cadence is None or plain.saving is None:
        return unknown("time.checkpointing", "time", "seconds", clock.why_no_saving, parent=_CLOCK)
    seconds = cadence.seconds
    before = seconds.expected if plain is clock else plain.saving.seconds.expected
    words = saving.words(run, cadence)
    return _seconds("checkpointing", seconds, before, saving.formula(cadence), words, saving.basis(run, cadence))


def _kinds(clock: WallClock, plain: WallClock) -> list[Item]:
    """The parts of ``time.evaluation``."""
    tested, found = clock.evaluation, []
    for kind in tested.kinds:
        name, reason = f"evaluation_{kind}", tested.reason_of(kind)
        if reason is not None:
            code = "time." + name
            found.append(unknown(code, "time", "seconds", reason, formula=evaluation.KIND_FORMULA, parent="time.evaluation"))
            continue
        seconds = tested.seconds_of(kind)
        before = seconds.expected if plain is clock else plain.evaluation.seconds_of(kind).expected
        basis, words = evaluation.kind_words(tested, kind)
        found.append(_seconds(name, seconds, before, evaluation.KIND_FORMULA, words, basis, "time.evaluation"))
    return found


def _evaluation(run: Run, clock: WallClock, plain: WallClock, kinds: list[Item]) -> Item:
    tested = clock.evaluation
    if tested.reason is not None:
        return unknown("time.evaluation", "time", "seconds", tested.reason, parent=_CLOCK)
    seconds = tested.seconds
    if kinds or seconds is None:
        return whole(
            "time.evaluation",
            "time",
            "seconds",
            kinds,
            parent=_CLOCK,
            together=frozenset([item.code for item in kinds]),
            assumptions=evaluation.words(run),
        )
    formula, words, basis = evaluation.nothing_words(run, tested)
    return _seconds("evaluation", seconds, seconds.expected, formula, words, basis)


def _causes(timed: TimedRun, clock: WallClock, plain: WallClock) -> list[Item]:
    """The parts of ``time.restarts``; unknown where the job would never end."""
    lost, cadence, before = clock.restarts, clock.saving, plain.restarts
    if lost is None or cadence is None or before is None:
        return []
    run = timed.run
    faults, basis = interruptions.fault_words(run), saving.interruption_basis(run)
    spikes: Basis = "prior" if interruptions.spikes_charged(run) else "formula"
    if not lost.progress > 0:
        reason = (
            "the job is interrupted faster than it can recover: one interruption "
            f"in {cadence.mean_time_between_interruptions:.3g} s, "
            f"{cadence.interval / 2 + cadence.restart.expected:.3g} s lost to each"
        )
        return [unknown("time." + name, "time", "seconds", reason, formula=formula, parent="time.restarts") for name, formula in _CAUSES]
    ends = before.progress > 0
    rows = (
        (lost.hardware, before.hardware, faults, basis),
        (lost.software, before.software, faults, basis),
        (lost.loss_spikes, before.loss_spikes, interruptions.spike_words(timed), spikes),
    )
    return [
        _seconds(name, seconds, was.expected if ends else math.nan, formula, words, rests_on, "time.restarts")
        for (name, formula), (seconds, was, words, rests_on) in zip(_CAUSES, rows, strict=True)
    ]


_CAUSES = (
    ("restarts_hardware", interruptions.HARDWARE_FORMULA),
    ("restarts_software", interruptions.SOFTWARE_FORMULA),
    ("restarts_loss_spikes", interruptions.SPIKES_FORMULA),
)


def _restarts(clock: WallClock, causes: list[Item]) -> Item:
    if clock.restarts is None:
        return unknown("time.restarts", "time", "seconds", clock.why_no_saving, parent=_CLOCK)
    left_out = () if clock.evaluation.seconds is not None else NO_EVALUATION_TIME
    return whole("time.restarts", "time", "seconds", causes, parent=_CLOCK, assumptions=RESTART_ASSUMPTIONS + left_out)


def _rescaled(item: Item, scale: float, factor: Factor) -> Item:
    """A part beside training as own actuals of whole jobs make it."""
    if item.expected is None:
        return item
    said = f"own actuals of {factor.cell}: whole jobs took {factor.factor:.3g} times what their parts add up to (n = {factor.n})"
    return item._replace(
        expected=item.expected * scale,
        low=None if item.low is None else item.low * scale,
        high=None if item.high is None else item.high * scale,
        basis="calibrated",
        assumptions=(*item.assumptions, said),
        uncalibrated=float(item.expected) if item.uncalibrated is None else item.uncalibrated,
        n=factor.n,
        factor=scale,
    )


def _total(run: Run, clock: WallClock, parts: list[Item], training: Item, whole_jobs: Factor | None) -> Item:
    """``time.wall_clock``: the sum, with the interval that whole jobs need beside that of the parts."""
    total = whole(_CLOCK, "time", "seconds", parts, together=_CLOCK_TOGETHER, assumptions=CLOCK_COVERS,
                  lower_bound=training.lower_bound)  # fmt: skip
    if total.expected is None:
        return total._replace(lower_bound=training.lower_bound)  # it holds whatever else is not known
    if whole_jobs is not None:
        return _as_whole_jobs(total, whole_jobs, sum(float(value or 0) for value in clock.unscaled().values()))
    return _beyond_benchmarks(total, run.interval_coverage) if training.basis == "prior" else total


def _as_whole_jobs(clock: Item, factor: Factor, before: float) -> Item:
    """The whole with the spread of own actuals added to its interval, which holds what they say themselves."""
    expected = float(clock.expected or 0.0)
    told = factor.factor * before
    below = expected - (expected if clock.low is None else clock.low)
    above = (expected if clock.high is None else clock.high) - expected
    low = min(expected - math.hypot(below, expected * (1 - factor.low)), told * factor.low)
    return clock._replace(
        low=max(low, 0.0),
        high=expected + math.hypot(above, expected * (factor.high - 1)),
        basis="calibrated",
        uncalibrated=before if clock.uncalibrated is None else clock.uncalibrated,
        n=factor.n,
        factor=factor.factor,
    )


def _beyond_benchmarks(clock: Item, coverage: float) -> Item:
    """The whole with an interval as wide as published runs took beyond their predicted steps; not below the time at the peak."""
    if clock.expected is None or clock.low is None or clock.high is None:
        return clock
    expected, told = float(clock.expected), multiples(float(clock.expected), *WHOLE_RUN_RANGE, coverage)
    low = expected - math.hypot(expected - clock.low, expected - told.low)
    return clock._replace(
        low=min(max(low, clock.lower_bound or 0.0), clock.low),
        high=expected + math.hypot(clock.high - expected, told.high - expected),
        assumptions=clock.assumptions + WIDER,
    )


# -- device-hours ------------------------------------------------------------------------------------------------------
def _hours(timed: TimedRun, described: Mapping[str, Item], kinds: list[Item], clock: Item) -> list[Item]:
    """The wall clock's parts as device-hours."""
    devices = timed.hardware.device_count
    per_second = devices / 3600.0
    bound = None if clock.lower_bound is None else clock.lower_bound * per_second
    held = f" x {devices} devices / 3600"

    def hours(item: Item, parent: str) -> Item:
        code = "device_hours." + item.code[len("time.") :]
        if item.expected is None:
            formula = item.code + " x devices / 3600"
            return unknown(code, "time", "device_hours", item.reason or "", formula=formula, parent=parent)
        return scaled(item, per_second, code=code, quantity="device_hours", formula=item.code + held, parent=parent)

    parts = [hours(described[name], "device_hours.run") for name in PARTS]
    if parts[1].expected is not None:
        parts[1] = parts[1]._replace(lower_bound=bound, assumptions=TRAINING_COVERS)
    run_hours = whole(
        "device_hours.run",
        "time",
        "device_hours",
        parts,
        parent="device_hours.total",
        lower_bound=bound,
        together=_HOURS_TOGETHER,
        assumptions=EVERY_DEVICE,
    )
    run_hours = run_hours._replace(
        low=None if clock.low is None else clock.low * per_second,
        high=None if clock.high is None else clock.high * per_second,
        n=clock.n,
        factor=clock.factor,
    )
    return [*parts, *[hours(item, "device_hours.evaluation") for item in kinds], run_hours]


# -- where the time of training is not known ---------------------------------------------------------------------------
def unknown_items(reason: str) -> tuple[Item, ...]:
    """The job's items where the time of training is not known."""
    result = [unknown(f"time.{name}", "time", "seconds", reason, parent=_CLOCK) for name in BESIDE_TRAINING]
    result.append(unknown(_CLOCK, "time", "seconds", reason))
    result += [unknown(f"device_hours.{name}", "time", "device_hours", reason, parent="device_hours.run") for name in PARTS]
    result.append(unknown("device_hours.run", "time", "device_hours", reason, parent="device_hours.total"))
    return tuple(result)


def saves(clock: WallClock) -> Saves:
    """How many checkpoints the job writes."""
    if clock.saving is None:
        return Saves(main=None, reason=clock.why_no_saving)
    return Saves(main=float(clock.saving.saves), weights_tier=float(clock.saving.light_saves))


def saves_without_time(run: Run, steps: Number | None, reason: str) -> Saves:
    """Checkpoints as far as steps alone tell them."""
    policy = run.checkpointing
    light = policy.weights_interval_steps
    tier = 0.0
    if steps is None:
        if policy.interval_steps is not None or light is not None:
            return Saves(main=None, reason=reason)
    elif light is not None:
        tier = float(ceil_divide(steps, light))
    if steps is not None and policy.interval_steps is not None:
        return Saves(main=float(ceil_divide(steps, policy.interval_steps)), weights_tier=tier)
    if policy.interval_seconds is not None:
        return Saves(main=None, weights_tier=tier, reason=reason)
    return Saves(main=1.0, weights_tier=tier, reason=LAST_CHECKPOINT_ALONE)
