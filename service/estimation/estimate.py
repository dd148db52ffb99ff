"""One estimate: every item of a run, from tokens to cost, in the order a budget is made.

Each topic first computes its figures, then describes them as items. Corrections from own measurements act on the drivers (the
step time, a checkpoint, a peak); figures that follow from them are computed beside those of the formulas alone, and every item
that moved says so (``correction.stated``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType

from . import (
    compute,
    compute_items,
    cost,
    memory,
    parameters,
    post_training,
    reserves,
    scaling_items,
    speed_items,
    step_time,
    storage,
    token_items,
    tokens,
    wall_clock,
)
from . import speed as speeds
from .correction import Corrections, stated
from .items import Item, Items
from .memory import MemoryEstimate
from .memory.peaks.figures import Fits
from .numeric import Number, one
from .parameters import Parameters
from .post_training import Pace
from .run import Run
from .speed import CountedFlops, Speed, SpeedInputs
from .storage import CheckpointBytes, Written
from .tokens import Workload
from .wall_clock import TimedRun, WallClock
from .warnings import Warning
from .warnings.rules import warnings

NO_CORRECTIONS: Corrections = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """All items of a run and what they rest on."""

    run: Run
    parameters: Parameters
    workload: Workload
    items: Items
    memory: MemoryEstimate
    speed: Speed
    fits: Fits
    evidence: tuple[str, ...]  # keys of the measured runs that a predicted step time rests on
    warnings: tuple[Warning, ...]


def estimate(run: Run, corrections: Corrections | None = None) -> Estimate:
    """Every item of a run. The same run and corrections give the same items to the last bit."""
    factors = corrections or NO_CORRECTIONS
    counts = parameters.count(run)
    work = tokens.workload(run)
    flops = compute.figures(run, work, counts)
    inputs = _speed_inputs(run, counts, work, flops)
    driven = _driven(inputs, counts, work, factors)
    plain = _driven(inputs, counts, work, NO_CORRECTIONS) if factors else driven
    used = memory.estimate(run, counts, factors)

    items = Items()
    items.extend(token_items.items(run, work))
    items.extend(compute_items.items(run, work, flops))
    items.extend(scaling_items.items(run, counts.active, inputs.tokens))
    items.extend(speed_items.items(driven.speed, plain.speed, inputs.steps))
    reserved = _wall_clock(items, driven, plain, factors)
    items.extend(speed_items.throughput_items(inputs, driven.speed, plain.speed, _amounts(work), _full_steps(run, work)))
    items.extend(speed_items.utilisation_items(run, driven.speed, plain.speed, inputs.flops))
    items.extend(used.items)
    items.extend(
        storage.items(run, driven.written, plain.written, unique_tokens=one(work.unique_tokens), steps=inputs.steps, corrections=factors)
    )
    items.extend(reserved)
    _device_hours(items, run, counts, work, driven, plain)
    items.extend(cost.items(run, items.get))
    if factors:
        items = Items.of(stated(item, factors) for item in items)

    return Estimate(
        run=run,
        parameters=counts,
        workload=work,
        items=items,
        memory=used,
        speed=driven.speed,
        fits=used.fits,
        evidence=() if inputs.predicted is None else inputs.predicted.evidence,
        warnings=tuple(warnings(run, items, active_parameters=counts.active, fits=used.fits, steps=inputs.steps)),
    )


def training_device_hours(run: Run, corrections: Corrections | None = None) -> float | None:
    """``device_hours.training`` alone: what alternatives are compared by."""
    counts, work = parameters.count(run), tokens.workload(run)
    inputs = _speed_inputs(run, counts, work, compute.figures(run, work, counts))
    speed = speeds.figures(inputs, (corrections or NO_CORRECTIONS).get("time.step"))
    if speed.training is None or run.hardware is None:
        return None
    return float(speed.training.expected) * run.hardware.device_count / 3600


# -- what the speed is told from ---------------------------------------------------------------------------------------
def _speed_inputs(run: Run, counts: Parameters, work: Workload, flops: compute.Figures) -> SpeedInputs:
    read = one(work.input_tokens)
    counted = CountedFlops(
        six_nd=one(flops.six_nd),
        causal=one(flops.training),
        full_attention=one(flops.full_attention),
        recompute=None if flops.executed is None else one(flops.executed.recompute),
        forward_6nd=None if read is None else 2.0 * counts.active * read,
    )
    return SpeedInputs(
        run=run,
        steps=one(work.steps),
        tokens=read,
        flops=counted,
        predicted=None if run.efficiency.given else step_time.predict(run, counts, work),
        why_not=step_time.why_not(run) or work.reason or "",
    )


def _amounts(work: Workload) -> dict[str, Number | None]:
    """What throughputs count."""
    return {"input_tokens": work.input_tokens, "target_tokens": work.target_tokens, "tensor_positions": work.tensor_positions}


def _full_steps(run: Run, work: Workload) -> float | None:
    """Steps of the run, a last one that is not full counted as its part."""
    if work.sequences is None:
        return None
    if run.data.histogram is None and work.longest_sequence and work.tensor_positions is not None:
        return float(work.tensor_positions / (work.sequences_per_step * work.longest_sequence))
    return float(work.sequences / work.sequences_per_step)


# -- what corrections move ---------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class _Driven:
    """Figures that hang on drivers which own measurements may correct."""

    speed: Speed
    timed: TimedRun | None  # None where the time of training is not known, for ``reason``
    clock: WallClock | None
    reason: str
    written: Written
    seconds_per_forward_token: float | None


def _driven(inputs: SpeedInputs, counts: Parameters, work: Workload, factors: Corrections) -> _Driven:
    run, hardware = inputs.run, inputs.run.hardware
    checkpoint = _checkpoint(run, counts, factors)
    speed = speeds.figures(inputs, factors.get("time.step"))
    if speed.training is None or hardware is None:
        reason = "no hardware is given" if hardware is None else speed.reason or ""
        saves = wall_clock.saves_without_time(run, inputs.steps, reason)
        written = Written(checkpoint=checkpoint, saves=saves)
        return _Driven(speed=speed, timed=None, clock=None, reason=reason, written=written, seconds_per_forward_token=None)
    timed = TimedRun(
        run=run, hardware=hardware, workload=work, parameters=counts, step=speed.step, training=speed.training, checkpoint=checkpoint
    )
    clock = wall_clock.figures(timed, factors.get("time.wall_clock"))
    per_token = wall_clock.seconds_per_forward_token(timed)
    return _Driven(
        speed=speed,
        timed=timed,
        clock=clock,
        reason="",
        written=Written(checkpoint=checkpoint, saves=wall_clock.saves(clock)),
        seconds_per_forward_token=None if per_token is None else one(per_token.expected),
    )


def _checkpoint(run: Run, counts: Parameters, factors: Corrections) -> CheckpointBytes | None:
    """Bytes of one checkpoint, corrected by what own checkpoints took; None where the adapters' size is not known."""
    if counts.trainable is None:
        return None
    checkpoint = storage.checkpoint_bytes(run, counts)
    return storage.corrected(checkpoint, factors) if factors else checkpoint


# -- topics that stand on others ---------------------------------------------------------------------------------------
def _wall_clock(items: Items, driven: _Driven, plain: _Driven, factors: Corrections) -> tuple[Item, ...]:
    """Adds the times of the whole job; answers with the reserves that follow from them, which stand further down."""
    if driven.timed is None or driven.clock is None or plain.clock is None:
        items.extend(wall_clock.unknown_items(driven.reason))
        return ()
    training, whole_jobs = items["time.training"], factors.get("time.wall_clock")
    described = wall_clock.items(driven.timed, driven.clock, plain.clock, training, whole_jobs)
    items.extend(described.items)
    return described.reserves


def _device_hours(items: Items, run: Run, counts: Parameters, work: Workload, driven: _Driven, plain: _Driven) -> None:
    """Adds what is spent beside the run, in the order of the sum, so that the parts as they stand give the whole to the last bit."""
    hours = items["device_hours.run"]
    training = items["device_hours.training"]
    pace = Pace.of(driven.seconds_per_forward_token, training)
    spent = post_training.figures(run, work, counts, pace)
    before = spent
    if plain is not driven:
        before = post_training.figures(run, work, counts, replace(pace, seconds_per_token=plain.seconds_per_forward_token))
    after = post_training.items(run, spent, before, training)
    beside = [*reserves.ablation(run, hours), reserves.rerun(run, hours), *after]
    items.extend(beside)
    parts = [item for item in beside if item.parent == "device_hours.total"]
    items.add(reserves.budget(hours, parts, decoded=any(item.code in post_training.DECODED for item in after)))
