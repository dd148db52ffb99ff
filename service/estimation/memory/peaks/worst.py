"""The worst moment of the worst pipeline stage, and what the process holds beyond the tensors that are live in it.

One function serves one quote and a search: where layouts or batches are arrays, the worst moment is found for each of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...numeric import Number, indicator, maximum, minimum
from ...placement import Placement, place
from ...run import Run
from ..blocks.trained_model import TrainedModel
from ..timeline.moment import BufferedStep, Moment, Parts, StageTimeline
from ..timeline.timeline import timeline

ROUNDING_LIMIT = 0.3  # of the allocated peak: a small job does not strand gigabytes
PIECE = 4096  # layouts at once: what a core's first caches hold of a few dozen arrays
NO_PARTS = Parts(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


class Worst(NamedTuple):
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


class Shown(NamedTuple):
    """The moments of one layout that an answer shows: the fullest of each phase and stage, and the one that is the peak."""

    phases: tuple[Moment, ...]
    peak: Moment


class Live(NamedTuple):
    """What is live at a moment, as far as gaps depend on it, in bytes."""

    allocated: Number = 0.0
    comes_and_goes: Number = 0.0
    late: Number = 0.0
    cached: Number = 0.0  # reserved for another phase all the while


NOTHING = Live()


@dataclass(slots=True)
class _Fullest:
    """The moment at which most is held of all that were seen, layout by layout where there are many."""

    detailed: bool  # the parts of a search too
    rank: Number = 0.0  # what moments are compared by
    moment: Moment | None = None  # where it is the same one for all layouts
    chosen: Live | None = None  # what is live where it is not, or where it is not the moment's alone
    chosen_parts: Parts | None = None

    @property
    def live(self) -> Live:
        """What is live at it."""
        if self.chosen is not None:
            return self.chosen
        moment = self.moment
        return NOTHING if moment is None else Live(moment.allocated, moment.comes_and_goes, moment.late)

    @property
    def parts(self) -> Parts:
        """What is live, part by part; nothing where nobody asked for it."""
        if not self.detailed:
            return NO_PARTS
        return self.chosen_parts or (NO_PARTS if self.moment is None else self.moment.parts)

    def see(self, moment: Moment, comes_and_goes: Number | None = None) -> None:
        """Compare by what is allocated; ``comes_and_goes`` stands in for the moment's own."""
        better = moment.allocated > self.rank
        if isinstance(better, np.ndarray):
            if not better.any():
                return
        elif not better:
            return
        live = None if comes_and_goes is None else Live(moment.allocated, comes_and_goes, moment.late)
        if isinstance(better, np.ndarray):
            self._choose(better, _Fullest(self.detailed, moment.allocated, moment, live))
        else:
            self.rank, self.moment, self.chosen, self.chosen_parts = moment.allocated, moment, live, None

    def see_reserved(self, other: _Fullest, gap: Number) -> None:
        """Compare the fullest moment of several with this one by what is reserved while they last."""
        rank = other.live.allocated + gap
        better = rank > self.rank
        if isinstance(better, np.ndarray):
            self._choose(better, replace(other, rank=rank))
        elif better:
            self.rank, self.moment, self.chosen, self.chosen_parts = rank, other.moment, other.chosen, other.chosen_parts

    def _choose(self, better: NDArray[np.bool_], other: _Fullest) -> None:
        """The other one where it is better."""
        if self.detailed:
            self.chosen_parts = Parts(*(_choose(better, new, old) for new, old in zip(other.parts, self.parts, strict=True)))
        self.chosen = Live(*(_choose(better, new, old) for new, old in zip(other.live, self.live, strict=True)))
        self.rank, self.moment = np.maximum(self.rank, other.rank), None


def _choose(better: NDArray[np.bool_], new: Number, old: Number) -> Number:
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
    beyond = beyond_tensors(run, model)
    found = _Fullest(detailed)
    for stage in timeline(run, model, placed, shown=shown is not None):
        if model.stack.step_buffers:  # an engine may hold back memory that no moment's tensors are in
            for fullest in _fullest_of_an_engine(stage, detailed):
                found.see_reserved(fullest, fragmentation(run, model, beyond, fullest.live)[0])
        else:
            for moment in (*stage.step, *stage.beside):
                found.see(moment)
        if shown is not None:
            buffered = [] if stage.buffered_step is None else [stage.buffered_step.moment]
            _show(shown, [*([] if stage.load is None else [stage.load]), *stage.step, *buffered, *stage.beside])
    gap, cached = fragmentation(run, model, beyond, found.live)
    return Worst(found.live.allocated, gap, cached, beyond.framework, beyond.communication, beyond.communicators, found.parts)


def _fullest_of_an_engine(stage: StageTimeline, detailed: bool) -> list[_Fullest]:
    """The moments that compete by what is reserved: the step's with its buffers, else one of each phase; and those beside it."""
    phases: dict[str, _Fullest] = {}
    for moment in (*(stage.step if stage.buffered_step is None else ()), *stage.beside):
        phases.setdefault(moment.phase, _Fullest(detailed)).see(moment)
    buffered = [] if stage.buffered_step is None else [_with_buffers(stage.step, stage.buffered_step, detailed)]
    return [*buffered, *phases.values()]


def _with_buffers(step: list[Moment], buffered: BufferedStep, detailed: bool) -> _Fullest:
    """The fullest moment of a step with an engine's buffers, and what stays reserved beside it.

    The buffers serve nothing else, and all else at its peak serves no buffers; what fragments is what came and went at that peak.
    """
    fullest = _Fullest(detailed)
    for moment in step:
        fullest.see(moment)
    reserved = fullest.live.allocated + buffered.buffers
    fullest.see(buffered.moment, fullest.live.comes_and_goes)
    fullest.chosen = fullest.live._replace(cached=reserved - fullest.live.allocated)
    return fullest


def _show(shown: dict[tuple[int, str], Moment], moments: list[Moment]) -> None:
    for moment in moments:
        key = (int(moment.stage), moment.phase)
        if key not in shown or moment.allocated > shown[key].allocated:
            shown[key] = moment


class BeyondTensors(NamedTuple):
    """What a process holds outside PyTorch's allocator, in bytes."""

    framework: float
    communication: Number
    communicators: Number  # a count


def beyond_tensors(run: Run, model: TrainedModel) -> BeyondTensors:
    """The stack's framework, and a buffer for each communicator."""
    rule, count = model.stack.overheads, communicators(run)
    return BeyondTensors(rule.framework_bytes, count * rule.communicator_bytes, count)


def fragmentation(run: Run, model: TrainedModel, beyond: BeyondTensors, live: Live) -> tuple[Number, Number]:
    """Reserved and not allocated, and how much of it is cached for another phase.

    A share of what comes and goes, gradients that fit into none of its holes, and rounding; what is cached stays within the device,
    since PyTorch gives cached blocks back before it runs out of memory.
    """
    rule, cached = model.stack.overheads, live.cached
    rounding = minimum(rule.fragmentation_bytes, ROUNDING_LIMIT * live.allocated)
    lost = rule.fragmentation * live.comes_and_goes + rule.late_gradients * live.late + rounding
    if type(cached) is float and cached == 0.0:
        return lost, cached
    if run.hardware is not None:
        outside = beyond.framework + beyond.communication
        cached = minimum(cached, maximum(run.hardware.device.memory_bytes - (live.allocated + lost + outside), 0.0))
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

    whole: dict[str, Any] = {name: column([getattr(piece, name) for piece in pieces]) for name in Worst._fields if name != "parts"}
    return Worst(**whole, parts=Parts(*(column(list(values)) for values in zip(*(piece.parts for piece in pieces), strict=True))))
