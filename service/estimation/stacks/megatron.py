"""Megatron-LM, Megatron-core with Transformer Engine, and Megatron-DeepSpeed.

Sources: Korthikanti et al. 2022 (arXiv 2205.05198), table 2: a block keeps 34 s b h bytes and 5 a s^2 b where scores are
stored; selective recomputation drops the scores; tensor parallelism leaves 10 s b h whole unless the sequence is split too;
Transformer Engine fuses norms (input kept in 16 bits) and SwiGLU (gate and up kept); vocabulary-parallel cross entropy in 32
bits, whose fused form keeps the logits whole too (megatron/core/fusions/fused_cross_entropy.py); gradients are views of one
32-bit buffer that lives through the step and is reduced in place. Under Megatron-DeepSpeed gradients have 16 bits, or 16 and
32 (BF16_Optimizer), and DeepSpeed's engine reduces and steps.
"""

from __future__ import annotations

from dataclasses import replace

from ..fitted import memory as fitted
from .deepspeed import STEP_BUFFERS
from .profile import (
    CHECKPOINTED_CORE,
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

_RMS = NormRule(input_copy=(2, 2, 4), normalized=(0, 0, 0), statistics=4, half_input_copy=2, half_normalized=0)
BLOCKS = BlockRule(
    norms={
        "rms": _RMS,
        "rms_scale_plus_one": _RMS,
        "rms_two_copies": _RMS,
        "layer": NormRule(input_copy=(2, 2, 4), normalized=(0, 0, 0), statistics=8, half_input_copy=2, half_normalized=0),
    },
    activations={"": ActivationRule(inner=(2, 2, 4)), "relu": ActivationRule(inner=(0, 0, 0), keeps_output=True)},
    # The softmax, its mask and its dropped copy; the fused softmax wants four (sequence, head) pairs
    # (megatron/core/fusions/fused_softmax.py).
    attention=AttentionRule(
        repeats_key_values=(False, False, False),
        score_bytes=(5, 5, 9),
        own_width_score_bytes=(5, 5, 9),
        scores_dropped=True,
        fused_softmax_multiple=4,
        softcap_bytes=(2, 2, 4),
        second_output=(False, False, False),
    ),
    gate_output_kept=False,
    product_copy=(0, 0, 0),
    router_copy=(0, 0, 0),
    routing_widths=None,
)

# Megatron-DeepSpeed's vocabulary-parallel cross entropy makes its softmax, its gradient and the 16-bit copy of that beside the logits.
_LOSS = LossRule(saved=(4, 4, 4), forward_extra=(6, 6, 4), backward_extra=(6, 6, 4))
_WHOLE_LOSS = LossRule(saved=(4, 4, 4), forward_extra=(2, 2, 4), backward_extra=(2, 2, 4))  # the 32-bit softmax in place of the logits
# Megatron-core since mid 2024: the 16-bit logits and one 32-bit copy in which maximum, exponential, quotient and gradient are made in
# place (tensor_parallel/cross_entropy.py); its native fusion is compiled and makes the gradient beside both
# (fusions/fused_cross_entropy.py).
_CORE_LOSS, _CORE_FUSED_LOSS = _WHOLE_LOSS, _LOSS
_SHARDING = ShardingRule(
    gathered_blocks=2,
    gathered_outside=1,
    loss_blocks=1,
    loss_outside=1,
    reduced_blocks=1,
    reduced_bytes=(2, 4, 4),
    persistent_gradients=True,
    reduces_every_micro_batch=False,
    bucket_elements=0.0,
    replicated_gradient_copies=0.0,
    stage_two_keeps_gathered=False,
    pipeline_accumulates_unsharded=False,
    offload_moves_gradients=False,
)

FITTED, FITTED_DEEPSPEED = fitted.COEFFICIENTS["megatron"], fitted.COEFFICIENTS["megatron, DeepSpeed's engine"]

MEGATRON_DEEPSPEED = Stack(
    title="Megatron-DeepSpeed",
    sources=("arXiv 2205.05198", "deepspeedai/DeepSpeed runtime", "bigscience-workshop/bigscience chronicles-prequel.md"),
    mixed_mode=HALF,
    mixed_sharded_mode=HALF,
    transformers_modules=False,
    weight_casts=False,
    blocks=BLOCKS,
    compiled_blocks=BLOCKS,  # fused by hand already
    loss=_LOSS,
    compiled_loss=_WHOLE_LOSS,
    fused_loss=_WHOLE_LOSS,
    selective=CHECKPOINTED_CORE,
    adapters_reenter=False,
    fsdp_version=None,
    sharding=replace(_SHARDING, bucket_elements=5e8),
    step_buffers=STEP_BUFFERS,
    keeps_stage_outputs=True,
    foreach_temporaries=False,
    fused_head_gradients=0.0,
    adapter_bytes=2,  # Float16Module casts the whole model
    overheads=Overheads(
        workspace_bytes=0.0,
        late_gradients=0.0,
        fragmentation=FITTED_DEEPSPEED["overheads.fragmentation"],
        fragmentation_bytes=FITTED_DEEPSPEED["overheads.fragmentation_bytes"],
        framework_bytes=FITTED_DEEPSPEED["overheads.framework_bytes"],
        communicator_bytes=6e8,
    ),
    measured_attention=frozenset({"eager"}),
    intervals={
        "allocated": Interval(low=0.91, high=1.09),
        "reserved": Interval(low=0.91, high=1.09),
        "process": Interval(low=0.92, high=1.075),
    },
    mixed_widths=(2, 4, 4, 4),
    default_sharding="none",
    measured_methods=frozenset({"full"}),
    measured_compiled=False,
    measured_sharding=frozenset({"none", "zero1", "zero2", "zero3", "hybrid"}),
    measured_narrow=False,
    own_width_loss=None,
    kept=1.0,
    kept_compiled=1.0,
    kept_quantized=1.0,
    working=1.0,
    counted=False,
    dimensions=frozenset({"tensor", "pipeline", "context", "expert"}),
    model_parallel_step_buffers=None,
    relatives={},
    accumulates_unsharded=frozenset(),
    quantized_mode=None,
    loss_by_quantization={},
    quantized_outside=False,
    dequantized_matrices=1.0,
)

MEGATRON = Stack(
    title="Megatron-core",
    sources=("arXiv 2205.05198", "NVIDIA/Megatron-LM", "modelscope/ms-swift Megatron-SWIFT"),
    mixed_mode=HALF,
    mixed_sharded_mode=HALF,
    transformers_modules=False,
    weight_casts=False,
    blocks=BLOCKS,
    compiled_blocks=BLOCKS,  # fused by hand already
    loss=_CORE_LOSS,
    compiled_loss=_CORE_LOSS,
    fused_loss=_CORE_FUSED_LOSS,
    selective=CHECKPOINTED_CORE,
    adapters_reenter=False,
    fsdp_version=None,
    sharding=_SHARDING,
    foreach_temporaries=False,
    fused_head_gradients=0.0,
    adapter_bytes=2,  # Float16Module casts the whole model
    overheads=Overheads(
        # cuBLAS and Transformer Engine: what Megatron-LM's own tests hold between steps beyond the states is 0.03 to 0.14 GB, median 0.10
        # (tests/cases/measured_megatron.jsonl, mem_allocated_between_steps).
        workspace_bytes=1.0e8,
        late_gradients=0.0,
        fragmentation=FITTED["overheads.fragmentation"],
        fragmentation_bytes=8e8,
        framework_bytes=FITTED["overheads.framework_bytes"],
        communicator_bytes=6e8,
    ),
    measured_attention=frozenset({"flash"}),
    intervals={
        "allocated": Interval(low=0.87, high=1.14),
        "reserved": Interval(low=0.87, high=1.15),
        "process": Interval(low=0.87, high=1.15),
    },
    relatives={2.0: MEGATRON_DEEPSPEED, 6.0: MEGATRON_DEEPSPEED},
    mixed_widths=(2, 4, 4, 4),
    default_sharding="none",
    measured_methods=frozenset({"full"}),
    measured_compiled=False,
    measured_sharding=frozenset({"none", "zero1", "zero2", "zero3", "hybrid"}),
    measured_narrow=False,
    own_width_loss=None,
    kept=1.0,
    kept_compiled=1.0,
    kept_quantized=1.0,
    working=1.0,
    counted=False,
    dimensions=frozenset({"tensor", "pipeline", "context", "expert"}),
    step_buffers={},
    model_parallel_step_buffers=None,
    keeps_stage_outputs=False,
    accumulates_unsharded=frozenset(),
    quantized_mode=None,
    loss_by_quantization={},
    quantized_outside=False,
    dequantized_matrices=1.0,
)
