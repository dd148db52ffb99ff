"""What is held in host memory instead of the device's."""

from __future__ import annotations

from ..numeric import Number
from ..run import Run
from .setting import Setting
from .sizes import Size, add, divided
from .stages import Ranks

FULLY_SHARDED = ("zero3", "hybrid")
# bitsandbytes keeps these states in unified memory (``optim/optimizer.py``, ``get_paged``): the driver moves their pages to the host
# where the device is full, and torch's counters never see them.
PAGED = frozenset({"paged_adamw", "paged_adamw_8bit"})


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
