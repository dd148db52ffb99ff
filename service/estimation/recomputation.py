"""What activation checkpointing computes again in the backward pass: one answer for FLOPs and for step time."""

from __future__ import annotations

from .run import Run
from .stacks import stack_of
from .stacks.profile import ALL_REPEATED, NOTHING_REPEATED, Repeated


def repeated(run: Run) -> Repeated:
    """Shares of a block's forward pass that are computed again; of selective checkpointing the stack says it, as it says what is kept."""
    if run.activation_checkpointing == "none":
        return NOTHING_REPEATED
    if run.activation_checkpointing == "full":
        return ALL_REPEATED
    rule = stack_of(run.software, run.precision).selective
    return rule.repeated if run.attention == "eager" else rule.repeated_under_fused_kernels
