"""Live bytes of one device, phase by phase and pipeline stage by stage.

Plain arithmetic that broadcasts over ``Layout`` and ``Batch`` (``numeric`` rules): one quote and a search of 100,000 layouts
use the same expressions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..numeric import Number, maximum, minimum, where
from ..placement import Placement, held_on_host, place
from ..run import Run
from . import moments
from .beside import beside, may_be_the_peak
from .micro import micro_batch
from .phase import Phase
from .setting import Setting
from .sizes import Block, blocks, size
from .stages import stages
from .states import Model, States, states_of
from .surroundings import Surroundings, surroundings


def phases(run: Run, setting: Setting, *, all_phases: bool = False) -> Iterator[Phase]:
    """All moments of all stages that can be the peak, stage by stage; with ``all_phases`` those too that never are."""
    placed = place(run)
    each, micro, host = blocks(setting, placed), micro_batch(run, setting, placed), held_on_host(run)
    for stage in stages(setting, placed):
        own = size(setting, stage, placed, each)
        states = states_of(run, setting, placed, own, host)
        if all_phases:
            model = Model(states.weights, 0.0, 0.0, 0.0)  # nothing yet that only training makes
            yield Phase("load", stage.index, model, 0.0, 0.0, setting.stack.overheads.workspace_bytes, in_peak=False)
        around = surroundings(run, setting, placed, stage, own, states, micro, host)
        yield from _step(around, each, merge=not all_phases)
        if all_phases or may_be_the_peak(run):
            for name, model, *live in beside(run, setting, placed, stage, own, states, around.shard.gathered, around.shard.buckets):
                yield Phase(name, stage.index, model, *live)


def _step(around: Surroundings, each: Sequence[Block], *, merge: bool) -> list[Phase]:
    """Forward end, the moments of the backward pass, and the optimizer step; with ``merge`` an engine's as one."""
    setting, first = around.setting, around.stage.first
    found: list[Phase] = []
    if setting.checkpointing == "full" or around.micro.experts is not None:
        found.append(moments.last_mlp(around))
    if around.micro.experts is not None and around.micro.experts.trained_down is not None:
        found += moments.experts(around, around.micro.experts, around.micro.experts.trained_down)
    if setting.kinds[-1].adapted is not None:
        found += moments.adapted_mlp(around)
    if setting.adapter is not None and setting.written_out:
        found += moments.final_norm(around)
    if setting.scores:
        found += moments.scores(around)
    if setting.first_squares and not setting.recomputes and not setting.scores and first:
        found.append(moments.masks(around))
    if setting.biased and first:
        found += moments.biases(around, each)
    gradients_of_scores = setting.scores or (setting.first_squares and setting.bias_trained)
    if setting.cross and gradients_of_scores and not setting.recomputes and first and "activations" not in around.host:
        found.append(moments.encoder(around, each))
    if setting.untabled and first:
        found.append(moments.patch_convolution(around))
    found += moments.loss(around)
    found += moments.blocks(around)
    found += (moments.token_table(around), moments.optimizer_step(around))
    buffers = None if "optimizer" in around.host else _step_buffers(around.run, around.setting, around.placed, around.gradients.states)
    if buffers is None:
        return found
    live, freed = buffers
    return _with_buffers(found, moments.optimizer_step(around, live), live + freed, merge)


def _step_buffers(run: Run, setting: Setting, placed: Placement, states: States) -> tuple[Number, Number] | None:
    """Bytes that the engine makes at the step: what is live at once, and what was freed before."""
    own, others = setting.stack.step_buffers.get(run.layout.sharding), setting.stack.model_parallel_step_buffers
    if own is None or run.precision.gradient_bytes >= 4:
        return None
    live: Number = own.live
    freed: Number = own.freed
    at_once: Number = own.at_once
    if others is not None:
        other, split = others.get(run.layout.sharding, own), placed.tensor * placed.pipeline > 1
        live, freed, at_once = where(split, other.live, live), where(split, other.freed, freed), where(split, other.at_once, at_once)
    partition = minimum(states.stepped, at_once)
    return partition * live, partition * freed


def _with_buffers(moments: list[Phase], step: Phase, buffers: Number, merge: bool) -> list[Phase]:
    """The moments with that of the step's buffers: they and all else stay reserved for one another.

    With ``merge`` the peak of them all alone, of no moment in particular.
    """
    before, active = moments[0].allocated, moments[0].active
    for moment in moments[1:]:
        better = moment.allocated > before
        before, active = maximum(before, moment.allocated), where(better, moment.active, active)
    step.fragmented = active
    reserved, top = before + buffers, maximum(before, step.allocated)
    if merge:
        step.allocated, step.cached = top, reserved - top
        return [step]
    for moment in (*moments, step):
        moment.cached = reserved - moment.allocated
        moment.top = moment.allocated >= top
    return [*moments, step]
