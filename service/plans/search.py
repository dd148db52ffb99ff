"""The search: every legal layout through the core's own expressions, what does not fit or comes late put aside, the rest ranked.

Pure training time, device-hours and peak memory of thousands of layouts are arrays that the same functions compute which price
one quote; the few that are answered are then quoted singly, whole job included, so that a plan says what its quote will say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.estimation import job, memory, parameters, step_time, storage, tokens
from service.estimation.correction import Corrections
from service.estimation.parameters import Parameters
from service.estimation.run import Batch, Layout, Run
from service.estimation.spread import Spread
from service.estimation.step_time import StepTime
from service.estimation.tokens import Workload
from service.kit.problems import Invalid
from service.specs.load import parse
from service.specs.resolve import resolve

from . import legal
from .space import Space, Values, with_values, without

CHUNK = 8_192  # layouts a pass: the arrays of one stay in the cache

_PARALLELISM = ("tensor", "pipeline", "context", "expert", "virtual_pipeline")
CorrectionsFor = Callable[[Mapping[str, Any], Run], Corrections]
Clock = Callable[[], float]


@dataclass(slots=True)
class Candidates:
    """Layouts that fit, one row each."""

    choice: NDArray[np.int64]
    axes: dict[str, Values]
    training_seconds: Values
    wall_clock_seconds: Values
    device_hours: Values  # of pure training, as the summary of a quote gives them
    process_bytes: Values
    headroom_bytes: Values
    certain: NDArray[np.bool_]  # fits even at the interval's upper end

    def __len__(self) -> int:
        return len(self.choice)

    def take(self, rows: NDArray[Any]) -> Candidates:
        """Some of the rows."""
        return Candidates(
            choice=self.choice[rows],
            axes={name: column[rows] for name, column in self.axes.items()},
            training_seconds=self.training_seconds[rows],
            wall_clock_seconds=self.wall_clock_seconds[rows],
            device_hours=self.device_hours[rows],
            process_bytes=self.process_bytes[rows],
            headroom_bytes=self.headroom_bytes[rows],
            certain=self.certain[rows],
        )


@dataclass(slots=True)
class Outcome:
    """What a search found and what it put aside."""

    candidates: Candidates
    specs: list[dict[str, Any]]  # the spec of each choice, its axes left out
    runs: list[Run | None]
    rejected: Counter[str] = field(default_factory=Counter)
    searched: int = 0
    complete: bool = True
    held_global_batch_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a plan may not exceed."""

    deadline_seconds: float | None = None
    budget_device_hours: float | None = None


def search(
    spec: Mapping[str, Any], space: Space, limits: Limits, corrections_for: CorrectionsFor, *, clock: Clock, until: float
) -> Outcome:
    """Evaluate the space in its own order, until ``clock()`` passes ``until``."""
    spec = without(spec, ["efficiency"])
    held = _held_batch(spec, space)
    outcome = Outcome(candidates=_none(space), specs=[], runs=[], held_global_batch_size=held)
    found: list[Candidates] = []
    for number, values in enumerate(space.passes()):
        if clock() >= until and outcome.searched:
            outcome.complete = False
            break
        chosen = with_values(spec, values)
        base = _base(chosen, space, held)
        outcome.specs.append(chosen)
        try:
            run = resolve(parse(base)).run
        except Invalid as problem:
            outcome.rejected[_of_a_choice(problem, values)] += space.layouts_per_choice
            outcome.searched += space.layouts_per_choice
            outcome.runs.append(None)
            continue
        outcome.runs.append(run)
        reason = step_time.why_not(run)
        if reason is not None:
            raise Invalid(f"The step time of the run cannot be predicted: {reason}")
        corrections = corrections_for(base, run)
        for chunk in space.chunks(CHUNK):
            if clock() >= until and outcome.searched:
                outcome.complete = False
                break
            outcome.searched += len(next(iter(chunk.values()))) if chunk else 1
            kept = _evaluate(run, number, chunk, space, held, limits, corrections, outcome.rejected)
            if kept is not None and len(kept):
                found.append(kept)
    outcome.candidates = _joined(found, space)
    return outcome


def _of_a_choice(problem: Invalid, values: Mapping[str, Any]) -> str:
    """Why a combination of choices makes no spec; raises the problem where the choices are not to blame."""
    pointers = [fault.pointer for fault in problem.errors]
    own = ["/" + name.replace(".", "/") for name in values]
    if "hardware.device_count" in values:
        own.append("/parallelism")  # what is not free does not divide it
    if not pointers or not all(pointer.startswith(tuple(own)) for pointer in pointers):
        raise problem
    return "invalid_choice:" + pointers[0]


def _held_batch(spec: Mapping[str, Any], space: Space) -> int | None:
    """Sequences a step that the search keeps: a layout must not change the training. None where the caller frees it."""
    if "batch.global_batch_size" in space.axes or "batch.gradient_accumulation_steps" in space.axes:
        return None
    given = spec.get("batch")
    if isinstance(given, Mapping) and given.get("global_batch_size") is not None:
        return int(given["global_batch_size"])
    first = {name: values[0] for name, values in space.choices.items()}
    laid_out = [name for name in space.axes if name.startswith("parallelism.")]
    return int(resolve(parse(without(with_values(spec, first), laid_out))).run.batch.global_batch_size)


def _base(spec: Mapping[str, Any], space: Space, held: int | None) -> dict[str, Any]:
    """A spec of the pass with the layout that is not free: what the arrays replace takes its default."""
    free = list(space.axes)
    if held is not None:
        free.append("batch.gradient_accumulation_steps")
        return with_values(without(spec, free), {"batch.global_batch_size": held})
    return without(spec, [*free, "batch.global_batch_size"])


def _evaluate(
    run: Run,
    number: int,
    chunk: Mapping[str, Values],
    space: Space,
    held: int | None,
    limits: Limits,
    corrections: Corrections,
    rejected: Counter[str],
) -> Candidates | None:
    assert run.hardware is not None
    rows = len(next(iter(chunk.values()))) if chunk else 1
    everything = _laid_out(run, chunk, held, rows)
    alive = np.ones(rows, dtype=bool)
    for name, broken in legal.faults(everything, run.hardware.device_count, run.hardware.devices_per_node):
        fallen = alive & broken
        rejected[name] += int(fallen.sum())
        alive &= ~fallen
    if not alive.any():
        return None
    chunk = {name: column[alive] for name, column in chunk.items()}
    laid = _laid_out(run, chunk, held, int(alive.sum()))
    peaks = memory.process_peaks(laid, corrections)
    if peaks is None:
        raise Invalid("The memory of the run cannot be estimated: its shape or sequence_length is not known")
    limit = float(run.hardware.device.memory_bytes)
    shape = np.ones(int(alive.sum()))
    process = np.asarray(peaks.expected * shape)
    fits = process <= limit  # uncertain ones are kept where they are expected to fit
    hopeless = np.asarray(peaks.low * shape) > limit
    rejected["does_not_fit"] += int(hopeless.sum())
    rejected["unlikely_to_fit"] += int((~fits & ~hopeless).sum())
    if not fits.any():
        return None
    chunk = {name: column[fits] for name, column in chunk.items()}
    laid = _laid_out(run, chunk, held, int(fits.sum()))
    counts = parameters.count(run)
    work = tokens.workload(laid)
    predicted = step_time.predict(laid, counts, work)
    if predicted is None or work.steps is None:
        raise Invalid("The step time of the run cannot be predicted")
    ones = np.ones(int(fits.sum()))
    training, wall = _times(laid, counts, work, predicted, corrections)
    kept = Candidates(
        choice=np.full(int(fits.sum()), number),
        axes=dict(chunk),
        training_seconds=training * ones,
        wall_clock_seconds=wall * ones,
        device_hours=training * ones * (run.hardware.device_count / 3600.0),
        process_bytes=process[fits],
        headroom_bytes=limit - process[fits],
        certain=np.asarray(peaks.high * shape)[fits] <= limit,
    )
    for name, seconds in (
        ("over_deadline", limits.deadline_seconds),
        ("over_budget", None if limits.budget_device_hours is None else limits.budget_device_hours * 3600.0 / run.hardware.device_count),
    ):
        if seconds is not None:
            over = kept.wall_clock_seconds > seconds
            rejected[name] += int(over.sum())
            kept = kept.take(~over)
    return kept


def _times(run: Run, counts: Parameters, work: Workload, predicted: StepTime, corrections: Corrections) -> tuple[Any, Any]:
    """Seconds of pure training and of the whole job, corrected as a quote is."""
    own = corrections.get("time.step")
    factor = 1.0 if own is None else own.factor
    step = Spread(predicted.seconds * factor, predicted.seconds * factor, predicted.seconds * factor)
    training = step.times(work.steps)
    checkpoint = storage.checkpoint_bytes(run, counts)
    wall = job.wall_clock_seconds(run, work, counts, step=step, training=training, checkpoint=checkpoint)
    operations = corrections.get("time.wall_clock")
    if wall is None:
        wall = training.expected
    elif operations is not None:
        wall = np.maximum(operations.factor * wall, training.expected)
    return training.expected, wall


def _laid_out(run: Run, chunk: Mapping[str, Values], held: int | None, rows: int) -> Run:
    """The run with its layout and batch as arrays."""
    assert run.hardware is not None
    layout = run.layout
    sizes: dict[str, Any] = {name: chunk.get(f"parallelism.{name}", np.full(rows, float(getattr(layout, name)))) for name in _PARALLELISM}
    data = run.hardware.device_count / (sizes["tensor"] * sizes["pipeline"] * sizes["context"])
    micro = chunk.get("batch.micro_batch_size", np.full(rows, float(run.batch.micro_batch_size)))
    whole = chunk.get("batch.global_batch_size", None if held is None else np.full(rows, float(held)))
    steps = chunk.get("batch.gradient_accumulation_steps")
    if steps is None:
        steps = np.full(rows, float(run.batch.gradient_accumulation_steps)) if whole is None else whole / (micro * data)
    if whole is None:
        whole = micro * steps * data
    group = layout.shard_group_size
    return replace(
        run,
        layout=Layout(**sizes, data=data, sequence_parallel=layout.sequence_parallel, sharding=layout.sharding, shard_group_size=group),
        batch=Batch(micro_batch_size=micro, gradient_accumulation_steps=steps, global_batch_size=whole),
    )


def chosen(outcome: Outcome, space: Space, row: int) -> dict[str, Any]:
    """The spec of one candidate, ready to be posted."""
    found = outcome.candidates
    values: dict[str, Any] = {name: int(column[row]) for name, column in found.axes.items()}
    spec = outcome.specs[int(found.choice[row])]
    if outcome.held_global_batch_size is not None:
        spec = without(spec, ["batch.gradient_accumulation_steps"])
        values["batch.global_batch_size"] = outcome.held_global_batch_size
    elif "batch.gradient_accumulation_steps" not in space.axes:
        spec = without(spec, ["batch.gradient_accumulation_steps"])
    elif "batch.global_batch_size" not in space.axes:
        spec = without(spec, ["batch.global_batch_size"])
    return with_values(spec, values)


def _none(space: Space) -> Candidates:
    empty = np.zeros(0)
    return Candidates(
        np.zeros(0, dtype=np.int64), dict.fromkeys(space.axes, empty), empty, empty, empty, empty, empty, np.zeros(0, dtype=bool)
    )


def _joined(found: list[Candidates], space: Space) -> Candidates:
    if not found:
        return _none(space)
    return Candidates(
        choice=np.concatenate([part.choice for part in found]),
        axes={name: np.concatenate([part.axes[name] for part in found]) for name in space.axes},
        training_seconds=np.concatenate([part.training_seconds for part in found]),
        wall_clock_seconds=np.concatenate([part.wall_clock_seconds for part in found]),
        device_hours=np.concatenate([part.device_hours for part in found]),
        process_bytes=np.concatenate([part.process_bytes for part in found]),
        headroom_bytes=np.concatenate([part.headroom_bytes for part in found]),
        certain=np.concatenate([part.certain for part in found]),
    )


def ranked(candidates: Candidates, by: Values) -> NDArray[np.int64]:
    """Rows from best to worst; equal ones by more head-room, then in the order of the space."""
    return np.lexsort((-candidates.headroom_bytes, by))


def pareto(candidates: Candidates) -> NDArray[np.int64]:
    """Rows that no other beats in wall clock, device-hours and head-room together, fastest first."""
    order = np.lexsort((-candidates.headroom_bytes, candidates.device_hours, candidates.wall_clock_seconds))
    front: list[int] = []
    best: list[tuple[float, float]] = []  # (device-hours, head-room) of the front, each beaten by none before it
    hours, room = candidates.device_hours, candidates.headroom_bytes
    for row in order:
        h, r = float(hours[row]), float(room[row])
        if any(other_h <= h and other_r >= r for other_h, other_r in best):
            continue
        best = [(other_h, other_r) for other_h, other_r in best if not (h <= other_h and r >= other_r)]
        best.append((h, r))
        front.append(int(row))
    return np.asarray(front, dtype=np.int64)
