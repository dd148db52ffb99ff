"""How much of the host's memory offloading takes."""

from __future__ import annotations

from ...numeric import Number, maximum
from ...placement import held_on_host, place
from ...run import Run
from ..blocks.kept import blocks
from ..blocks.trained_model import TrainedModel
from .share import share_of
from .stages import stages
from .states import stepped_per_rank, weights_of

HOST_GRADIENT_BYTES = 4.0  # the optimizer steps in 32 bits there


def host_bytes(run: Run, model: TrainedModel) -> Number:
    """Host memory of one rank for what is offloaded, at the fullest stage."""
    placed, held = place(run), held_on_host(run)
    each = blocks(model, placed)
    worst: Number = 0.0
    for stage in stages(model, placed):
        own = share_of(model, stage, placed, each)
        total: Number = 0.0
        if "optimizer" in held:
            per = run.precision.master_weight_bytes + run.precision.optimizer_state_bytes + HOST_GRADIENT_BYTES
            total = total + stepped_per_rank(own, placed) * (per * (1.0 + model.companions.value_share))
        elif "states" in held:
            total = total + stepped_per_rank(own, placed) * (run.precision.optimizer_state_bytes * (1.0 + model.companions.value_share))
        if "parameters" in held:
            total = total + weights_of(run, model, placed, own)
        if "activations" in held:
            total = total + own.kept * stage.in_flight
        worst = maximum(worst, total)
    return worst
