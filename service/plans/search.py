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

from service.estimation import memory, parameters, step_time, storage, tokens, wall_clock
from service.estimation.numeric import Number, minimum
from service.estimation.run import Run
from service.estimation.speed import of_prediction
from service.estimation.spread import exactly
from service.estimation.wall_clock import TimedRun
from service.kit.problems import Invalid

from . import legal
from .candidates import Candidates, joined, none
from .legal import Mask
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
    result = Found(candidates=none(space))
    kept: list[Candidates] = []
    for number, each in enumerate(passes):
        for columns in _legal(each, space, held, result, clock, until):
            found = _in_time(_priced(each, number, columns, held, result), each, limits, result)
            if len(found):
                kept.append(found)
        if not result.complete:
            break
    result.candidates = joined(kept, space)
    return result


def _legal(each: Pass, space: Space, held: int | None, result: Found, clock: Clock, until: float) -> Iterator[dict[str, Values]]:
    """The legal layouts of a pass, gathered into pieces that are worth pricing."""
    pending: list[dict[str, Values]] = []
    rows_pending = 0
    for chunk in space.chunks(RULED):
        if clock() >= until and result.searched:
            result.complete = False
            break
        rows = _rows(chunk)
        result.searched += rows
        alive = np.ones(rows, dtype=bool)
        left = rows
        for name, broken in legal.faults(_laid_out(each, chunk, held), each.hardware.device_count):
            alive &= ~broken
            before, left = left, int(np.count_nonzero(alive))
            result.rejected[name] += before - left
        if left:
            pending.append(_of(chunk, alive))
            rows_pending += left
        if rows_pending >= PRICED:
            yield from _pieces(pending)
            pending, rows_pending = [], 0
    if rows_pending:
        yield from _pieces(pending)


def _pieces(pending: list[dict[str, Values]]) -> Iterator[dict[str, Values]]:
    whole = {name: np.concatenate([columns[name] for columns in pending]) for name in pending[0]}
    for start in range(0, _rows(whole), PRICED):
        yield {name: column[start : start + PRICED] for name, column in whole.items()}


def _rows(columns: Mapping[str, Values]) -> int:
    """Layouts in the columns; one where nothing is free."""
    return len(next(iter(columns.values()))) if columns else 1


def _of(columns: Mapping[str, Values], rows: Mask) -> dict[str, Values]:
    """The columns' rows where the mask holds."""
    if rows.all():
        return dict(columns)
    return {name: column[rows] for name, column in columns.items()}


def _priced(each: Pass, number: int, columns: dict[str, Values], held: int | None, result: Found) -> Candidates:
    """The layouts of a piece that fit, with their hours."""
    rejected, limit = result.rejected, float(each.hardware.device.memory_bytes)
    figures = memory.figures(_laid_out(each, columns, held), each.corrections)
    if figures is None:
        raise Invalid("The memory of the run cannot be estimated: its shape or sequence_length is not known")
    ones, peaks = np.ones(_rows(columns)), figures.process
    process = peaks.expected * ones
    fits = process <= limit  # uncertain ones are kept where they are expected to fit
    hopeless = peaks.low * ones > limit
    rejected["does_not_fit"] += int(hopeless.sum())
    rejected["unlikely_to_fit"] += int((~fits & ~hopeless).sum())
    if not fits.all():
        result.came_close("does_not_fit", float(process[~fits].min()))
    process, certain = process[fits], (peaks.high * ones)[fits] <= limit
    columns = _of(columns, fits)
    if len(process):
        training, wall = _times(each, _laid_out(each, columns, held))
    else:
        training, wall = 0.0, 0.0
    ones = np.ones(len(process))
    return Candidates(
        number=np.full(len(process), number),
        axes=columns,
        wall_clock_seconds=wall * ones,
        device_hours=training * ones * (each.hardware.device_count / 3600.0),
        process_bytes=process,
        headroom_bytes=limit - process,
        certain=certain,
    )


def _in_time(found: Candidates, each: Pass, limits: Limits, result: Found) -> Candidates:
    """Those that end, by the deadline and within the budget."""
    endless = ~np.isfinite(found.wall_clock_seconds)
    result.rejected["interrupted_faster_than_it_recovers"] += int(endless.sum())
    if endless.any():
        found = found.take(~endless)
    device_hours = each.hardware.device_count / 3600.0  # device-hours of a second
    budget = None if limits.budget_device_hours is None else limits.budget_device_hours * 3600.0 / each.hardware.device_count
    for name, seconds, unit in (("over_deadline", limits.deadline_seconds, 1.0), ("over_budget", budget, device_hours)):
        if seconds is None:
            continue
        over = found.wall_clock_seconds > seconds
        result.rejected[name] += int(over.sum())
        if over.any():
            result.came_close(name, float(found.wall_clock_seconds[over].min()) * unit)
            found = found.take(~over)
    return found


def _times(each: Pass, run: Run) -> tuple[Number, Number]:
    """Seconds of pure training and of the whole job, corrected as a quote is."""
    counts, work = parameters.count(each.run), tokens.workload(run)
    predicted = step_time.predict(run, counts, work)
    if predicted is None or work.steps is None:
        raise Invalid("The step time of the run cannot be predicted")
    time = of_prediction(predicted, work.steps, each.corrections.get("time.step"))
    timed = TimedRun(
        run=run,
        hardware=each.hardware,
        workload=work,
        parameters=counts,
        step=exactly(time.step),
        training=exactly(time.training),
        checkpoint=storage.corrected(storage.checkpoint_bytes(run, counts), each.corrections),
    )
    wall = wall_clock.figures(timed, each.corrections.get("time.wall_clock")).seconds
    return time.training, time.training if wall is None else wall


def _laid_out(each: Pass, columns: Mapping[str, Values], held: int | None) -> Run:
    """The run with its layout and batch as arrays; what is not free stays a number."""
    run, hardware = each.run, each.hardware
    layout, batch = run.layout, run.batch
    sizes: dict[str, Any] = {name: columns.get(f"parallelism.{name}", float(getattr(layout, name))) for name in _PARALLELISM}
    data = hardware.device_count / (sizes["tensor"] * sizes["pipeline"] * sizes["context"])
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
            shard_group_size=minimum(data, float(hardware.devices_per_node)) if each.group_follows else layout.shard_group_size,
        ),
        batch=replace(batch, micro_batch_size=micro, gradient_accumulation_steps=steps, global_batch_size=whole),
    )
