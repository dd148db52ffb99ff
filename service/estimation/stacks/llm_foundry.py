"""MosaicML LLM Foundry (Composer) on FSDP.

Sources: mosaicml/llm-foundry ``mpt`` modeling (16-bit low-precision layer norm, fused QKV, Flash/Triton attention;
``loss_fn`` is by default ``fused_crossentropy``, flash-attention's kernel on the 16-bit logits) and its benchmark tables:
mixed_precision PURE (bf16 parameters and reduction in compute), full sharding, backward prefetch; Composer's
``DecoupledAdamW`` steps one tensor after the other. No public memory measurement of this stack was found: its intervals are
wider than those of any measured one. All 125 published runs, most of them near their device's limit, stay within it.
"""

from __future__ import annotations

from .fsdp_native import COMPILED_BLOCKS
from .hugging_face import FUSED_LOSS
from .profile import (
    CHECKPOINTED_SCORES,
    HALF,
    ActivationRule,
    AttentionRule,
    BlockRule,
    Interval,
    LossRule,
    NormRule,
    Overheads,
    ShardingRule,
    Stack,
)

_RMS = NormRule(input_copy=(2, 4, 4), normalized=(0, 0, 0), statistics=4, half_input_copy=2, half_normalized=0)
BLOCKS = BlockRule(
    norms={
        "rms": _RMS,
        "rms_scale_plus_one": _RMS,
        "rms_two_copies": _RMS,
        "layer": NormRule(input_copy=(2, 4, 4), normalized=(0, 0, 0), statistics=8, half_input_copy=2, half_normalized=0),
    },
    activations={"": ActivationRule(inner=(2, 2, 4)), "relu": ActivationRule(inner=(0, 0, 0), keeps_output=True)},
    attention=AttentionRule(repeats_key_values=(False, False, True), score_bytes=(6, 6, 4), own_width_score_bytes=(6, 6, 4)),
)

LLM_FOUNDRY = Stack(
    title="LLM Foundry (Composer)",
    sources=("mosaicml/llm-foundry",),
    mixed_mode=HALF,
    mixed_sharded_mode=HALF,
    transformers_modules=False,
    weight_casts=False,
    blocks=BLOCKS,
    compiled_blocks=COMPILED_BLOCKS,
    loss=LossRule(saved=(2, 2, 4), forward_extra=(0, 0, 0), backward_extra=(2, 2, 4)),  # the logits, and their gradient beside them
    compiled_loss=LossRule(saved=(2, 2, 4), forward_extra=(0, 0, 0), backward_extra=(2, 2, 4)),
    fused_loss=FUSED_LOSS,
    selective=CHECKPOINTED_SCORES,
    sharding=ShardingRule(
        stage_two_keeps_gathered=True,
        gathered_blocks=2,
        gathered_outside=1,
        loss_blocks=1,
        loss_outside=1,
        reduced_blocks=1,
        reduced_bytes=(2, 2, 4),
    ),
    foreach_temporaries=False,
    overheads=Overheads(
        workspace_bytes=0.0, late_gradients=0.0, fragmentation=0.08, fragmentation_bytes=5e8, framework_bytes=1.2e9, communicator_bytes=5e8
    ),
    dimensions=frozenset(),  # Composer trains data-parallel alone
    intervals={
        "allocated": Interval(low=0.82, high=1.16),
        "reserved": Interval(low=0.82, high=1.18),
        "process": Interval(low=0.82, high=1.18),
    },
)
