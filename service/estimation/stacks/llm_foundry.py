"""MosaicML LLM Foundry (Composer) on FSDP.

Sources: mosaicml/llm-foundry ``mpt`` modeling (16-bit low-precision layer norm, fused QKV, Flash/Triton attention) and its
benchmark tables: mixed_precision PURE (bf16 parameters and reduction in compute), full sharding, backward prefetch. No
public memory measurement of this stack was found: its intervals are those of a stack never seen.
"""

from __future__ import annotations

from .fsdp_native import COMPILED_BLOCKS
from .hugging_face import COMPILED_LOSS, FUSED_LOSS
from .profile import (
    HALF,
    ActivationRule,
    AttentionRule,
    BlockRule,
    Interval,
    LossRule,
    NormRule,
    Overheads,
    SelectiveRule,
    ShardingRule,
    Stack,
)

BLOCKS = BlockRule(
    norms={
        "rms": NormRule(input_copy=(2, 4, 4), normalized=(0, 0, 0), statistics=4, half_input_copy=2, half_normalized=0),
        "layer": NormRule(input_copy=(2, 4, 4), normalized=(0, 0, 0), statistics=8, half_input_copy=2, half_normalized=0),
    },
    activations={"": ActivationRule(inner=(2, 2, 4)), "relu": ActivationRule(inner=(0, 0, 0), keeps_output=True)},
    attention=AttentionRule(repeats_key_values=(False, False, True), score_bytes={"": (6, 6, 4)}),
)

LLM_FOUNDRY = Stack(
    title="LLM Foundry (Composer)",
    sources=("mosaicml/llm-foundry",),
    mixed_mode=HALF,
    mixed_sharded_mode=HALF,
    weight_casts=False,
    blocks=BLOCKS,
    compiled_blocks=COMPILED_BLOCKS,
    loss=LossRule(saved=(4, 4, 4), forward_extra=(6, 6, 4), backward_extra=(8, 8, 8)),
    compiled_loss=COMPILED_LOSS,
    fused_loss=FUSED_LOSS,
    selective=SelectiveRule(kind="scores"),
    sharding=ShardingRule(
        stage_two_keeps_gathered=True,
        gathered_blocks=2,
        gathered_outside=1,
        loss_blocks=1,
        loss_outside=1,
        reduced_blocks=1,
        reduced_bytes=(2, 2, 4),
    ),
    overheads=Overheads(
        workspace_bytes=0.0, late_gradients=0.0, fragmentation=0.08, fragmentation_bytes=5e8, framework_bytes=6e8, communicator_bytes=5e8
    ),
    intervals={
        "allocated": Interval(low=0.75, high=1.3),
        "reserved": Interval(low=0.75, high=1.35),
        "process": Interval(low=0.75, high=1.35),
    },
)
