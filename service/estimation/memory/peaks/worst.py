"""The worst moment of the worst pipeline stage, and what the process holds beyond the tensors that are live in it.

One function serves one quote and a search: where layouts or batches are arrays, the worst moment is found for each of them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ...numeric import Number, indicator, maximum, minimum
from ...placement import Placement, place
from ...run import Run
from ..blocks.trained_model import TrainedModel
from ..timeline.moment import BufferedStep, Moment, Parts
from ..timeline.timeline import timeline

ROUNDING_LIMIT = 0.3  # of the allocated peak: a small job does not strand gigabytes
PIECE = 4096  # layouts at once: what a core's first caches hold of a few dozen arrays
NO_PARTS = Parts(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Worst:
    """Bytes of the worst device before any correction."""

    allocated: Number
    fragmentation: Number  # reserved and not allocated
    cached: Number  # of it, what the allocator holds for another phase and gives back where memory runs out
    framework: float
    communication: Number
    communicators: Number
    parts: Parts  # of ``allocated``; nothing in a search that did not ask for them

    @property
    def reserved(self) -> Number:
        """What the allocator holds."""
        return self.allocated + self.fragmentation

    @property
    def process(self) -> Number:
        """What the process holds."""
        return self.reserved + self.framework + self.communication


@dataclass(frozen=True, slots=True)
class Shown:
    """The moments of one layout that an answer shows: the fullest of each phase and stage, and the one that is the peak."""

    phases: tuple[Moment, ...]
    peak: Moment


@dataclass(slots=True)
class _Fullest:
    """The moment at which most is held of all that were seen, layout by layout where there are many."""

    detailed: bool  # the parts of a search too
    rank: Number = 0.0  # what moments are compared by
    held: tuple[Number, ...] = ()  # allocated, comes and goes, late, cached; then the parts

    def see(self, moment: Moment, comes_and_goes: Number | None = None) -> None:
        """Compare by what is allocated."""
        better = moment.allocated > self.rank
        if isinstance(better, np.ndarray):
            if not better.any():
                return
        elif not better:
            return
        active = moment.comes_and_goes if comes_and_goes is None else comes_and_goes
        parts = moment.parts if self.detailed else ()
        self._take(better, moment.allocated, (moment.allocated, active, moment.late, 0.0, *parts))

    def see_stage(self, rank: Number, fullest: _Fullest, cached: Number) -> None:
        """Compare a stage's fullest moment by what is reserved while it lasts."""
        better = rank > self.rank
        if isinstance(better, np.ndarray) or better:
            self._take(better, rank, (*fullest.held[:3], cached, *fullest.held[4:]))

    def _take(self, better: Any, rank: Number, held: tuple[Number, ...]) -> None:
        if not isinstance(better, np.ndarray):
            self.rank, self.held = rank, held
            return
        before = self.held or (0.0,) * len(held)
        self.rank = np.maximum(self.rank, rank)
        self.held = tuple(_choose(better, new, old) for new, old in zip(held, before, strict=True))


def _choose(better: Any, new: Number, old: Number) -> Number:
    """``new`` where it is better; spared where both are the same number."""
    if isinstance(new, float) and isinstance(old, float) and new == old:
        return new
    return np.where(better, new, old)


def worst(run: Run, model: TrainedModel, *, detailed: bool = False) -> Worst:
    """The worst device of every layout; ``detailed``: with the parts of its peak."""
    pieces = [_worst(piece, model, place(piece), detailed, None) for piece in _pieces(run)]
    return pieces[0] if len(pieces) == 1 else _joined(pieces)


def worst_shown(run: Run, model: TrainedModel, placed: Placement) -> tuple[Worst, Shown]:
    """The worst device of one layout, and the moments that an answer shows."""
    shown: dict[tuple[int, str], Moment] = {}
    found = _worst(run, model, placed, True, shown)
    # Of phases that are as full the first one shown.
    peak = next(moment for moment in shown.values() if moment.phase != "load" and moment.allocated == found.allocated)
    return found, Shown(tuple(shown.values()), peak)


def _worst(run: Run, model: TrainedModel, placed: Placement, detailed: bool, shown: dict[tuple[int, str], Moment] | None) -> Worst:
    """With ``shown`` the fullest moment of each phase and stage is put there."""
    rule, count = model.stack.overheads, communicators(run)
    communication = count * rule.communicator_bytes
    outside = rule.framework_bytes + communication
    found = _Fullest(detailed)
    for stage in timeline(run, model, placed, shown=shown is not None):
        if stage.buffered_step is None:
            for moment in stage.step:
                found.see(moment)
        else:
            inside, cached = _with_buffers(stage.step, stage.buffered_step, detailed)
            allocated, active, late, *_ = inside.held
            gap, _ = fragmentation(run, model, outside, allocated, active, late, cached)
            found.see_stage(allocated + gap, inside, cached)
        for moment in stage.beside:
            found.see(moment)
        if shown is not None:
            buffered = [] if stage.buffered_step is None else [stage.buffered_step.moment]
            _show(shown, [stage.load, *stage.step, *buffered, *stage.beside])
    allocated, active, late, cached, *parts = found.held
    gap, cached = fragmentation(run, model, outside, allocated, active, late, cached)
    return Worst(allocated, gap, cached, rule.framework_bytes, communication, count, Parts(*parts) if parts else NO_PARTS)


def _with_buffers(step: list[Moment], buffered: BufferedStep, detailed: bool) -> tuple[_Fullest, Number]:
    """The fullest moment of a step with an engine's buffers, and what stays reserved beside it.

    The buffers serve nothing else, and all else at its peak serves no buffers; what fragments is what came and went at that peak.
    """
    fullest = _Fullest(detailed)
    for moment in step:
        fullest.see(moment)
    reserved = fullest.held[0] + buffered.buffers
    fullest.see(buffered.moment, fullest.held[1])
    return fullest, reserved - fullest.held[0]


def _show(shown: dict[tuple[int, str], Moment], moments: list[Moment]) -> None:
    for moment in moments:
        key = (int(moment.stage), moment.phase)
        if key not in shown or moment.allocated > shown[key].allocated:
            shown[key] = moment


def fragmentation(
    run: Run, model: TrainedModel, outside: Number, allocated: Number, active: Number, late: Number, cached: Number
) -> tuple[Number, Number]:
    """Reserved and not allocated, and how much of it is cached for another phase.

    A share of what comes and goes, gradients that fit into none of its holes, and rounding; what is cached stays within the device,
    since PyTorch gives cached blocks back before it runs out of memory.
    """
    rule = model.stack.overheads
    rounding = minimum(rule.fragmentation_bytes, ROUNDING_LIMIT * allocated)
    lost = rule.fragmentation * active + rule.late_gradients * late + rounding
    if type(cached) is float and cached == 0.0:
        return lost, cached
    if run.hardware is not None:
        cached = minimum(cached, maximum(run.hardware.device.memory_bytes - (allocated + lost + outside), 0.0))
    return lost + cached, cached


def communicators(run: Run) -> Number:
    """Collective communicators of one rank.

    One for each dimension of the layout that has more than one rank, a second one for the pipeline (one with either neighbour:
    ProcessGroupNCCL makes one for every pair that sends), and the world's where no dimension spans it.
    """
    layout = run.layout
    total: Number = 0.0
    data, model = layout.data * layout.context, layout.tensor * layout.pipeline
    for size in (data, layout.tensor, layout.pipeline, layout.pipeline, layout.context, layout.expert):
        total = total + indicator(size > 1)
    world = data * model
    spans = (data == world) | (layout.tensor == world) | (layout.pipeline == world)
    return total + (1.0 - indicator(spans))


def _pieces(run: Run) -> list[Run]:
    """A search cut into runs of ``PIECE`` layouts; every formula is elementwise, so the values are the same."""
    arrays = {
        (part, name): value
        for part, fields in (("layout", run.layout), ("batch", run.batch))
        for name in fields.__slots__
        if isinstance(value := getattr(fields, name), np.ndarray) and value.ndim == 1
    }
    count = max((len(value) for value in arrays.values()), default=0)
    if count <= PIECE:
        return [run]
    pieces = []
    for start in range(0, count, PIECE):
        cut: dict[str, dict[str, Any]] = {"layout": {}, "batch": {}}
        for (part, name), value in arrays.items():
            cut[part][name] = value[start : start + PIECE]
        pieces.append(replace(run, layout=replace(run.layout, **cut["layout"]), batch=replace(run.batch, **cut["batch"])))
    return pieces


def _joined(pieces: list[Worst]) -> Worst:
    """The pieces of a search one after another."""
    lengths = [np.shape(piece.process) or (1,) for piece in pieces]

    def column(values: list[Number]) -> Number:
        if all(isinstance(value, float) and value == values[0] for value in values):
            return values[0]
        return np.concatenate([np.broadcast_to(value, length) for value, length in zip(values, lengths, strict=True)])

    whole: dict[str, Any] = {
        part.name: column([getattr(piece, part.name) for piece in pieces]) for part in fields(Worst) if part.name != "parts"
    }
    return Worst(**whole, parts=Parts(*(column(list(values)) for values in zip(*(piece.parts for piece in pieces), strict=True))))
