"""One pipeline stage on one rank: its share of the model, its states, and what sharding gathers there for a while."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...placement import Placement, held_on_host
from ...run import Run
from ..blocks.kept import BlockOnRank
from ..blocks.trained_model import TrainedModel
from .sharding import Gathered, gathered_on
from .share import StageShare, share_of
from .stages import Stage, stages
from .states import ModelStates, states_of


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
