"""One estimate: every item of a run, from tokens to cost, in the order a budget is made.

Tokens, FLOPs, time, memory, storage, reserves, cost. Corrections from own measurements act on the drivers (the step time, a
peak, a checkpoint) and everything derived from them follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from . import compute, cost, efficiency, job, memory, parameters, post_training, reserves, scaling_items, storage, tokens
from . import step_time as prediction
from .correction import Corrections, Factor
from .efficiency import Flops, Speed
from .items import Item, Ledger, Warning
from .memory import MemoryEstimate
from .memory.peaks.figures import Fits
from .parameters import Parameters
from .run import Run
from .stated import state
from .step_time import StepTime
from .storage import CheckpointBytes
from .tokens import Workload
from .warnings import warnings


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """All items of a run and what they rest on."""

    run: Run
    parameters: Parameters
    workload: Workload
    items: Ledger
    memory: MemoryEstimate
    speed: Speed
    fits: Fits
    evidence: tuple[str, ...]  # keys of the measured runs that a predicted step time rests on
    warnings: tuple[Warning, ...]


def estimate(run: Run, corrections: Corrections | None = None) -> Estimate:
    """Every item of a run. The same run and corrections give the same items to the last bit."""
    result = _estimate(run, corrections or {})
    if corrections:
        state(result.items, _estimate(run, {}).items, corrections)
    return result


def _estimate(run: Run, factors: Corrections) -> Estimate:
    counts = parameters.count(run)
    work = tokens.workload(run)
    items = Ledger()
    items.extend(tokens.items(run, work))
    items.extend(compute.items(run, work, counts))
    items.extend(scaling_items.items(run, counts.active, work.input_tokens))

    flops = _flops(counts, work, items.expected)
    predicted = None if run.efficiency.given else prediction.predict(run, counts, work)
    speed = efficiency.speed(
        run,
        steps=work.steps,
        tokens=work.input_tokens,
        flops=flops,
        predicted=predicted,
        why_not=prediction.why_not(run) or work.reason or "",
        correction=factors.get("time.step"),
    )
    checkpoint = _checkpoint(run, counts, factors)
    whole = job.estimate(
        run,
        work,
        counts,
        step=speed.step if checkpoint is not None else None,
        training=speed.training,
        checkpoint=checkpoint,
        training_lower_bound=speed.lower_bound,
        training_basis=speed.basis,
        unknown_reason=speed.reason or (storage.NO_ADAPTER_SIZE if checkpoint is None else efficiency.NO_STEPS),
        operations=factors.get("time.wall_clock"),
    )
    items.extend(efficiency.items(speed, steps=work.steps))
    items.extend(whole.items)
    _mark(items.get("device_hours.training"), speed)
    amounts = {"input_tokens": work.input_tokens, "target_tokens": work.target_tokens, "tensor_positions": work.tensor_positions}
    items.extend(efficiency.throughput_items(run, speed, amounts, _steps(run, work), work.steps))
    items.extend(efficiency.efficiency_items(run, speed, flops))

    used = memory.estimate(run, counts, factors)
    items.extend(used.items)

    stored = storage.items(run, checkpoint, whole.saves, unique_tokens=work.unique_tokens, steps=work.steps)
    items.extend(_corrected(stored, factors))

    hours = items["device_hours.run"]
    after = post_training.items(
        run, work, counts, seconds_per_forward_token=whole.seconds_per_forward_token, training_hours=items["device_hours.training"]
    )
    small_runs = reserves.ablation(run, hours)
    again = reserves.rerun(run, hours)
    items.extend(whole.reserves)
    # In the order of the sum, so that adding the parts up as they stand gives the whole to the last bit.
    items.extend(small_runs)
    items.add(again)
    items.extend(after)
    parts = [item for item in (*small_runs, again, *after) if item.parent == "device_hours.total"]
    items.add(reserves.budget(hours, parts, decoded=any(item.code in post_training.DECODED for item in after)))
    items.extend(cost.items(run, items.get))
    return Estimate(
        run=run,
        parameters=counts,
        workload=work,
        items=items,
        memory=used,
        speed=speed,
        fits=used.fits,
        evidence=predicted.evidence if isinstance(predicted, StepTime) else (),
        warnings=tuple(warnings(run, items, active_parameters=counts.active, fits=used.fits, steps=work.steps)),
    )


def training_device_hours(run: Run, corrections: Corrections | None = None) -> float | None:
    """``device_hours.training`` alone: what alternatives are compared by."""
    factors = corrections or {}
    counts, work = parameters.count(run), tokens.workload(run)
    speed = efficiency.speed(
        run,
        steps=work.steps,
        tokens=work.input_tokens,
        flops=_flops(counts, work, compute.figures(run, work, counts).get),
        predicted=None if run.efficiency.given else prediction.predict(run, counts, work),
        why_not=prediction.why_not(run) or work.reason or "",
        correction=factors.get("time.step"),
    )
    if speed.training is None or run.hardware is None:
        return None
    return float(speed.training.expected) * run.hardware.device_count / 3600


def _flops(counts: Parameters, work: Workload, value: Callable[[str], Any]) -> Flops:
    """The run's work in every convention; ``value`` gives that of a compute item by its code."""
    active, read = counts.active, work.input_tokens
    return Flops(
        six_nd=value("compute.6nd"),
        causal=value("compute.training"),
        full_attention=value("compute.training_full_attention"),
        recompute=value("compute.recompute"),
        forward_6nd=None if read is None else 2.0 * active * read,
    )


def _steps(run: Run, work: Workload) -> float | None:
    """Steps of the run, a last one that is not full counted as its part."""
    if work.sequences is None:
        return None
    if run.data.histogram is None and work.longest_sequence and work.tensor_positions is not None:
        return float(work.tensor_positions / (work.sequences_per_step * work.longest_sequence))
    return float(work.sequences / work.sequences_per_step)


def _checkpoint(run: Run, counts: Parameters, factors: Corrections) -> CheckpointBytes | None:
    """Bytes of one checkpoint, corrected by what own checkpoints took; None where the adapters' size is not known."""
    if counts.trainable is None:
        return None
    checkpoint = storage.checkpoint_bytes(run, counts)
    full, weights = factors.get("storage.checkpoint_full"), factors.get("storage.checkpoint_weights")
    if full is not None:
        checkpoint = replace(checkpoint, full=checkpoint.full * full.factor)
    if weights is not None:
        checkpoint = replace(checkpoint, weights=checkpoint.weights * weights.factor)
    return checkpoint


def _corrected(items: Iterable[Item], factors: Corrections) -> Iterable[Item]:
    """Checkpoint items say that they are calibrated."""
    for item in items:
        factor = factors.get(item.code) if item.code.startswith("storage.checkpoint_") else None
        if factor is not None and item.expected is not None:
            _calibrated(item, factor)
        yield item


def _calibrated(item: Item, factor: Factor) -> None:
    """State the correction that an item's expected value already contains."""
    assert item.expected is not None
    item.basis, item.n, item.factor = "calibrated", factor.n, factor.factor
    item.uncalibrated = item.expected / factor.factor
    item.low, item.high = item.expected * factor.low, item.expected * factor.high


def _mark(hours: Item | None, speed: Speed) -> None:
    """Pure training hours follow the step time, correction included."""
    if hours is None or hours.expected is None or speed.correction is None or speed.training is None or speed.uncalibrated is None:
        return
    hours.n, hours.factor = speed.correction.n, speed.correction.factor
    hours.uncalibrated = hours.expected / speed.training.expected * speed.uncalibrated
