"""Megatron-LM, Megatron-core with Transformer Engine, and Megatron-DeepSpeed.

Sources: Korthikanti et al. 2022 (arXiv 2205.05198), table 2: a block keeps 34 s b h bytes and 5 a s^2 b where scores are
stored; selective recomputation drops the scores; tensor parallelism leaves 10 s b h whole unless the sequence is split too;
Transformer Engine fuses norms (input kept in 16 bits) and SwiGLU (gate and up kept); vocabulary-parallel cross entropy in 32
bits; 32-bit gradient buffers live through the step.
"""

from __future__ import annotations

from .hugging_face import COMPILED_BLOCKS, FUSED_LOSS
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
        "rms": NormRule(input_copy=(2, 2, 4), normalized=(0, 0, 0), statistics=4, half_input_copy=2, half_normalized=0),
        "layer": NormRule(input_copy=(2, 2, 4), normalized=(0, 0, 0), statistics=8, half_input_copy=2, half_normalized=0),
    },
    activations={"": ActivationRule(inner=(2, 2, 4)), "relu": ActivationRule(inner=(0, 0, 0), keeps_output=True)},
    attention=AttentionRule(repeats_key_values=(False, False, False), score_bytes={"": (5, 5, 9)}),  # softmax, its dropout and mask
    gate_output_kept=False,
    dropout_mask_bytes=0.0,
)

MEGATRON = Stack(
    title="Megatron-core and its relatives",
    sources=(
        "arXiv 2205.05198",
        "NVIDIA/Megatron-LM",
        "bigscience-workshop/bigscience chronicles-prequel.md",
        "modelscope/ms-swift Megatron-SWIFT",
    ),
    mixed_mode=HALF,
    mixed_sharded_mode=HALF,
    weight_casts=False,
    blocks=BLOCKS,
    compiled_blocks=COMPILED_BLOCKS,
    loss=LossRule(saved=(4, 4, 4), forward_extra=(6, 6, 4), backward_extra=(6, 6, 4)),
    compiled_loss=LossRule(saved=(4, 4, 4), forward_extra=(2, 2, 4), backward_extra=(2, 2, 4)),
    fused_loss=FUSED_LOSS,
    selective=SelectiveRule(kind="scores"),
    sharding=ShardingRule(
        gathered_blocks=2,
        gathered_outside=1,
        loss_blocks=1,
        loss_outside=1,
        reduced_blocks=1,
        reduced_bytes=(2, 4, 4),
        replicated_gradient_copies=1,
        persistent_gradients=True,
    ),
    step_gradient_bytes=4,  # Megatron-DeepSpeed in fp16: the optimizer steps on a 32-bit copy of its partition's gradients
    foreach_temporaries=False,
    overheads=Overheads(
        workspace_bytes=0.0, late_gradients=0.0, fragmentation=0.17, fragmentation_bytes=7.25e9, framework_bytes=2e9, communicator_bytes=6e8
    ),
    measured_attention=frozenset({"eager"}),  # BigScience; one row alone has fused attention
    intervals={
        "allocated": Interval(low=0.88, high=1.12),
        "reserved": Interval(low=0.88, high=1.12),
        "process": Interval(low=0.94, high=1.08),
    },
)
