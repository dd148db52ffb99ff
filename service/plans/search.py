"""The search: every legal layout through the core's own expressions, what does not fit or comes late put aside, the rest ranked.

Wall clock, device-hours and peak memory of thousands of layouts are arrays that the same functions compute which price one quote;
the few that are answered are then quoted singly, so that a plan says what its quote will say. Everything here is plain data, so
that a search can run in a process of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.estimation import memory, parameters, step_time, storage, tokens, wall_clock
from service.estimation.correction import Corrections
from service.estimation.numeric import minimum
from service.estimation.parameters import Parameters
from service.estimation.run import Run
from service.estimation.speed import of_prediction
from service.estimation.spread import exactly
from service.estimation.step_time import StepTime
from service.estimation.tokens import Workload
from service.estimation.wall_clock import TimedRun
from service.kit.problems import Invalid

from . import legal
from .passes import Pass
from .space import Space, Values

RULED = 65_536  # layouts that the rules look at in one go
PRICED = 8_192  # layouts that are priced in one go: their arrays stay in the cache

_PARALLELISM = ("tensor", "pipeline", "context", "expert", "virtual_pipeline")
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a plan may not exceed."""

    deadline_seconds: float | None = None
    budget_device_hours: float | None = None


@dataclass(slots=True)
class Candidates:
    """Layouts that fit, one row each."""

    number: NDArray[np.int64]  # of the pass
    axes: dict[str, Values]
    wall_clock_seconds: Values
    device_hours: Values  # of pure training, as the summary of a quote gives them
    process_bytes: Values
    headroom_bytes: Values
    certain: NDArray[np.bool_]  # fits even at the interval's upper end

    def __len__(self) -> int:
        return len(self.number)

    def take(self, rows: NDArray[Any]) -> Candidates:
        """Some of the rows."""
        return Candidates(
            number=self.number[rows],
            axes={name: column[rows] for name, column in self.axes.items()},
            wall_clock_seconds=self.wall_clock_seconds[rows],
            device_hours=self.device_hours[rows],
            process_bytes=self.process_bytes[rows],
            headroom_bytes=self.headroom_bytes[rows],
            certain=self.certain[rows],
        )


@dataclass(slots=True)
class Found:
    """What a search found and what it put aside."""

    candidates: Candidates
    rejected: Counter[str] = field(default_factory=Counter)
    closest: dict[str, float] = field(default_factory=dict)  # by the reason: the least bytes, seconds or device-hours put aside
    searched: int = 0
    complete: bool = True

    def came_close(self, reason: str, value: float) -> None:
        """Remember the least of what was put aside for a reason."""
        self.closest[reason] = min(value, self.closest.get(reason, value))


def search(passes: Sequence[Pass], space: Space, held: int | None, limits: Limits, *, clock: Clock, until: float) -> Found:
    """Evaluate the passes in their order, until ``clock()`` passes ``until``; something is always searched."""
    result = Found(candidates=_none(space))
    kept: list[Candidates] = []
    for number, each in enumerate(passes):
        for columns in _legal(each, space, held, result, clock, until):
            found = _priced(each, number, columns, held, limits, result)
            if len(found):
                kept.append(found)
        if not result.complete:
            break
    result.candidates = _joined(kept, space)
    return result


def _legal(each: Pass, space: Space, held: int | None, result: Found, clock: Clock, until: float) -> Iterator[dict[str, Values]]:
    """The legal layouts of a pass, gathered into pieces that are worth pricing."""
    assert each.run.hardware is not None
    pending: list[dict[str, Values]] = []
    rows_pending = 0
    for chunk in space.chunks(RULED):
        if clock() >= until and result.searched:
            result.complete = False
            break
        rows = len(next(iter(chunk.values()))) if chunk else 1
        result.searched += rows
        alive = np.ones(rows, dtype=bool)
        for name, broken in legal.faults(_laid_out(each, chunk, held), each.run.hardware.device_count):
            fallen = alive & broken
            result.rejected[name] += int(fallen.sum())
            alive &= ~fallen
        count = int(alive.sum())
        if count:
            pending.append({name: column[alive] for name, column in chunk.items()} if chunk else {})
            rows_pending += count
        if rows_pending >= PRICED:
            yield from _pieces(pending)
            pending, rows_pending = [], 0
    if rows_pending:
        yield from _pieces(pending)


def _pieces(pending: list[dict[str, Values]]) -> Iterator[dict[str, Values]]:
    joined = {name: np.concatenate([columns[name] for columns in pending]) for name in pending[0]}
    rows = len(next(iter(joined.values()))) if joined else 1
    for start in range(0, rows, PRICED):
        yield {name: column[start : start + PRICED] for name, column in joined.items()}


def _priced(each: Pass, number: int, columns: dict[str, Values], held: int | None, limits: Limits, result: Found) -> Candidates:
    """The layouts of a piece that fit and come in time."""
    run, corrections, rejected = each.run, each.corrections, result.rejected
    assert run.hardware is not None
    rows = len(next(iter(columns.values()))) if columns else 1
    limit = float(run.hardware.device.memory_bytes)
    figures = memory.figures(_laid_out(each, columns, held), corrections)
    if figures is None:
        raise Invalid("The memory of the run cannot be estimated: its shape or sequence_length is not known")
    ones, peaks = np.ones(rows), figures.process
    process = peaks.expected * ones
    fits = process <= limit  # uncertain ones are kept where they are expected to fit
    hopeless = peaks.low * ones > limit
    rejected["does_not_fit"] += int(hopeless.sum())
    rejected["unlikely_to_fit"] += int((~fits & ~hopeless).sum())
    if not fits.all():
        result.came_close("does_not_fit", float(process[~fits].min()))
    columns = {name: column[fits] for name, column in columns.items()}
    process, certain = process[fits], (peaks.high * ones)[fits] <= limit
    if not len(process):
        return _empty(columns)
    laid = _laid_out(each, columns, held)
    counts = parameters.count(run)
    work = tokens.workload(laid)
    predicted = step_time.predict(laid, counts, work)
    if predicted is None or work.steps is None:
        raise Invalid("The step time of the run cannot be predicted")
    training, wall = _times(laid, counts, work, predicted, corrections)
    ones = np.ones(len(process))
    found = Candidates(
        number=np.full(len(process), number),
        axes=columns,
        wall_clock_seconds=wall * ones,
        device_hours=training * ones * (run.hardware.device_count / 3600.0),
        process_bytes=process,
        headroom_bytes=limit - process,
        certain=certain,
    )
    endless = ~np.isfinite(found.wall_clock_seconds)
    rejected["interrupted_faster_than_it_recovers"] += int(endless.sum())
    found = found.take(~endless)
    budget = None if limits.budget_device_hours is None else limits.budget_device_hours * 3600.0 / run.hardware.device_count
    for name, seconds in (("over_deadline", limits.deadline_seconds), ("over_budget", budget)):
        if seconds is not None:
            over = found.wall_clock_seconds > seconds
            rejected[name] += int(over.sum())
            if over.any():
                scale = run.hardware.device_count / 3600.0 if name == "over_budget" else 1.0
                result.came_close(name, float(found.wall_clock_seconds[over].min()) * scale)
            found = found.take(~over)
    return found


def _times(run: Run, counts: Parameters, work: Workload, predicted: StepTime, corrections: Corrections) -> tuple[Any, Any]:
    """Seconds of pure training and of the whole job, corrected as a quote is."""
    if run.hardware is None or work.steps is None:
        raise Invalid("The step time of the run cannot be predicted")
    time = of_prediction(predicted, work.steps, corrections.get("time.step"))
    checkpoint = storage.corrected(storage.checkpoint_bytes(run, counts), corrections)
    timed = TimedRun(
        run=run,
        hardware=run.hardware,
        workload=work,
        parameters=counts,
        step=exactly(time.step),
        training=exactly(time.training),
        checkpoint=checkpoint,
    )
    wall = wall_clock.figures(timed, corrections.get("time.wall_clock")).seconds
    return time.training, time.training if wall is None else wall


def _laid_out(each: Pass, columns: Mapping[str, Values], held: int | None) -> Run:
    """The run with its layout and batch as arrays; what is not free stays a number."""
    run = each.run
    assert run.hardware is not None
    layout, batch = run.layout, run.batch
    sizes: dict[str, Any] = {name: columns.get(f"parallelism.{name}", float(getattr(layout, name))) for name in _PARALLELISM}
    data = run.hardware.device_count / (sizes["tensor"] * sizes["pipeline"] * sizes["context"])
    micro: Any = columns.get("batch.micro_batch_size", float(batch.micro_batch_size))
    whole: Any = columns.get("batch.global_batch_size", None if held is None else float(held))
    steps: Any = columns.get("batch.gradient_accumulation_steps")
    if steps is None:
        steps = float(batch.gradient_accumulation_steps) if whole is None else whole / (micro * data)
    if whole is None:
        whole = micro * steps * data
    return replace(
        run,
        # What is not free stays as the spec says: no field of it may be lost on the way through a search.
        layout=replace(
            layout,
            **sizes,
            data=data,
            shard_group_size=minimum(data, float(run.hardware.devices_per_node)) if each.group_follows else layout.shard_group_size,
        ),
        batch=replace(batch, micro_batch_size=micro, gradient_accumulation_steps=steps, global_batch_size=whole),
    )


def _empty(columns: Mapping[str, Values]) -> Candidates:
    none = np.zeros(0)
    axes = dict.fromkeys(columns, none)
    return Candidates(np.zeros(0, dtype=np.int64), axes, none, none, none, none, np.zeros(0, dtype=bool))


def _none(space: Space) -> Candidates:
    return _empty(dict.fromkeys(space.axes, np.zeros(0)))


def _joined(found: list[Candidates], space: Space) -> Candidates:
    if not found:
        return _none(space)

    def column(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in found])

    return Candidates(
        number=column("number"),
        axes={name: np.concatenate([part.axes[name] for part in found]) for name in space.axes},
        wall_clock_seconds=column("wall_clock_seconds"),
        device_hours=column("device_hours"),
        process_bytes=column("process_bytes"),
        headroom_bytes=column("headroom_bytes"),
        certain=column("certain"),
    )


def ranked(candidates: Candidates, by: Values) -> NDArray[np.int64]:
    """Rows from best to worst; equal ones by more head-room, then in the order of the space."""
    return np.lexsort((-candidates.headroom_bytes, by))


def pareto(candidates: Candidates) -> NDArray[np.int64]:
    """Rows that no other beats in wall clock, device-hours and head-room together, fastest first; of equal rows the first."""
    order = np.lexsort((-candidates.headroom_bytes, candidates.device_hours, candidates.wall_clock_seconds))
    front: list[int] = []
    best: list[tuple[float, float]] = []  # (device-hours, head-room) of the front that none of the front beats
    hours, room = candidates.device_hours, candidates.headroom_bytes
    for row in order:
        h, r = float(hours[row]), float(room[row])
        if any(other_h <= h and other_r >= r for other_h, other_r in best):
            continue
        best = [(other_h, other_r) for other_h, other_r in best if not (h <= other_h and r >= other_r)]
        best.append((h, r))
        front.append(int(row))
    return np.asarray(front, dtype=np.int64)
