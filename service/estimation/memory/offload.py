"""What is held in host memory instead of the device's, and how much that takes there."""

from __future__ import annotations

from ..numeric import Number, maximum
from ..run import Run
from .setting import Setting
from .sizes import Size, add, blocks, divided, size
from .stages import Ranks, ranks, stages

FULLY_SHARDED = ("zero3", "hybrid")
# bitsandbytes keeps these states in unified memory (``optim/optimizer.py``, ``get_paged``): the driver moves their pages to the host
# where the device is full, and torch's counters never see them.
PAGED = frozenset({"paged_adamw", "paged_adamw_8bit"})
HOST_GRADIENT_BYTES = 4.0  # the optimizer steps in 32 bits there


def offloaded(run: Run, setting: Setting) -> frozenset[str]:
    """Of ``states`` (of the optimizer alone), ``optimizer``, ``gradients``, ``parameters``, ``activations``.

    Parameters leave the device only where they are fully sharded, and gradients and optimizer go with them: DeepSpeed refuses
    them without the optimizer (``runtime/zero/stage3.py``), FSDP's ``CPUOffload`` steps where the shards are.
    """
    held = set(run.software.cpu_offload)
    if run.layout.sharding not in FULLY_SHARDED:
        held.discard("parameters")
    if "parameters" in held:
        held |= {"optimizer", "gradients"}
    if "optimizer" in held and setting.stack.sharding.offload_moves_gradients:
        held.add("gradients")
    if run.optimizer.name in PAGED and "optimizer" not in held:
        held.add("states")
    return frozenset(held)


def stepped_per_rank(own: Size, spread: Ranks) -> Number:
    """Trained elements of a stage that one rank's optimizer steps."""
    return divided(add(own.trained, own.adapters), own.trained_experts, spread.states_over, spread.expert_states_over)


def host_bytes(run: Run, setting: Setting) -> Number:
    """Host memory of one rank for what is offloaded, at the fullest stage."""
    spread, held = ranks(run, setting.sequences), offloaded(run, setting)
    each = blocks(setting, spread)
    worst: Number = 0.0
    for stage in stages(setting, spread):
        own = size(setting, stage, spread, each)
        total: Number = 0.0
        if "optimizer" in held:
            per = run.precision.master_weight_bytes + run.precision.optimizer_state_bytes + HOST_GRADIENT_BYTES
            total = total + stepped_per_rank(own, spread) * (per * (1.0 + setting.value_share))
        elif "states" in held:
            total = total + stepped_per_rank(own, spread) * (run.precision.optimizer_state_bytes * (1.0 + setting.value_share))
        if "parameters" in held:
            width = run.precision.weight_bytes
            total = total + divided(own.weights, own.experts, spread.weights_over, spread.expert_weights_over) * width
        if "activations" in held:
            total = total + own.kept * stage.in_flight
        worst = maximum(worst, total)
    return worst
