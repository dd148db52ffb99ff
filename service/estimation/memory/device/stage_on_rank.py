"""One pipeline stage on one rank: its share of the model, its states, what sharding gathers there, and what its host holds for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...numeric import Number, maximum
from ...placement import Placement, held_on_host, place
from ...run import Run
from ..blocks.kept import BlockOnRank, blocks_on_rank
from ..blocks.trained_model import TrainedModel
from .stages import Stage, StageShare, share_of, stages
from .states import Gathered, ModelStates, gathered_on, states_of, stepped_per_rank, weights_of


@dataclass(frozen=True, slots=True)
class StageOnRank:
    """All that a rank holds of a stage whatever it computes."""

    run: Run
    model: TrainedModel
    placed: Placement
    host: frozenset[str]  # what lies in host memory (``placement.held_on_host``)
    stage: Stage
    own: StageShare
    states: ModelStates
    gathered: Gathered


def stages_on_ranks(run: Run, model: TrainedModel, placed: Placement, each: Sequence[BlockOnRank]) -> Iterator[StageOnRank]:
    """The stages that can be the peak; ``each`` is a block of each kind."""
    host = held_on_host(run)
    for stage in stages(model, placed):
        own = share_of(model, stage, placed, each)
        states = states_of(run, model, placed, own, host)
        yield StageOnRank(run, model, placed, host, stage, own, states, gathered_on(run, model, placed, own, states, host))


HOST_GRADIENT_BYTES = 4.0  # the optimizer steps in 32 bits there


def host_bytes(run: Run, model: TrainedModel) -> Number:
    """Host memory of one rank for what is offloaded, at the fullest stage."""
    placed, host = place(run), held_on_host(run)
    each = blocks_on_rank(model, placed)
    worst: Number = 0.0
    for stage in stages(model, placed):
        own = share_of(model, stage, placed, each)
        total: Number = 0.0
        if "optimizer" in host:
            per = run.precision.master_weight_bytes + run.precision.optimizer_state_bytes + HOST_GRADIENT_BYTES
            total = total + stepped_per_rank(own, placed) * (per * (1.0 + model.companions.value_share))
        elif "states" in host:
            total = total + stepped_per_rank(own, placed) * (run.precision.optimizer_state_bytes * (1.0 + model.companions.value_share))
        if "parameters" in host:
            total = total + weights_of(run, model, placed, own)
        if "activations" in host:
            total = total + own.kept * stage.in_flight
        worst = maximum(worst, total)
    return worst
