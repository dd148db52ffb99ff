"""DeepSpeed ZeRO under the Hugging Face trainer (and trainers of its kind).

Sources: DeepSpeed ``runtime/zero`` (flat 16-bit partitions, fp32 master partition and states, reduce buckets of 5e8
elements, allgather buckets of 5e8, stage 3: prefetch 5e7 and live parameters up to 1e9); ``bf16.enabled`` casts the whole
module to bf16, adapters too, and runs without autocast. Blocks are Hugging Face's.
"""

from __future__ import annotations

from ..fitted import memory as fitted
from .hugging_face import BLOCKS, COMPILED_BLOCKS, COMPILED_LOSS, FUSED_LOSS, LOSS
from .profile import CHECKPOINTED_SCORES, HALF, Interval, Overheads, ShardingRule, Stack, StepBuffers

# ZeRO 1 and 2 flatten the partition's gradients and cast the result to 32 bits before they let go of the gradients; ZeRO 3 does so by
# sub-groups of 1e9 of its own parameters; without ZeRO the cast copies of FP16_Optimizer are flattened (runtime/zero/stage_1_and_2.py,
# stage3.py: sub_group_size, runtime/fp16/fused_optimizer.py).
STEP_BUFFERS = {
    "none": StepBuffers(live=8),
    "zero1": StepBuffers(live=6),
    "zero2": StepBuffers(live=6),
    "zero3": StepBuffers(live=6, at_once=1e9),
    "hybrid": StepBuffers(live=6, at_once=1e9),
}

FITTED = fitted.COEFFICIENTS["deepspeed"]

DEEPSPEED = Stack(
    title="DeepSpeed ZeRO",
    sources=(
        "deepspeedai/DeepSpeed runtime/zero",
        "QwenLM/Qwen README.md",
        "modelscope/ms-swift",
        "InternLM/InternEvo doc/en/train_performance.md",
    ),
    mixed_mode=HALF,
    mixed_sharded_mode=HALF,
    transformers_modules=True,
    weight_casts=False,
    blocks=BLOCKS,
    compiled_blocks=COMPILED_BLOCKS,
    loss=LOSS,
    compiled_loss=COMPILED_LOSS,
    fused_loss=FUSED_LOSS,
    selective=CHECKPOINTED_SCORES,
    adapters_reenter=False,
    fsdp_version=None,
    sharding=ShardingRule(
        gathered_blocks=2,
        gathered_outside=1,
        loss_blocks=0,
        loss_outside=0.5,
        reduced_blocks=1,
        reduced_bytes=(2, 2, 4),
        reduces_every_micro_batch=True,  # stage2.py: reduce buckets in the backward hooks
        bucket_elements=5e8,
        persistent_gradients=True,
        offload_moves_gradients=True,  # ZeRO-Offload (arXiv 2101.06840, section 3): gradients go to the host as they are reduced
        replicated_gradient_copies=0.0,
        stage_two_keeps_gathered=False,
        pipeline_accumulates_unsharded=False,
    ),
    step_buffers=STEP_BUFFERS,
    # InternEvo (the only measured trainer with tensor or pipeline parallel on this stack; internlm/solver/optimizer): 32-bit copies of the
    # gradients for their norm (4), then flat gradients in 16 (2) and in 32 bits (4), and a temporary of torch's AdamW (4). Under FSDP
    # the step's 32-bit gradients take the place of the norm's, tensor by tensor.
    model_parallel_step_buffers={
        "none": StepBuffers(live=8, freed=6),
        "zero1": StepBuffers(live=8, freed=6),
        "zero2": StepBuffers(live=8, freed=6),
        "zero3": StepBuffers(live=8),
        "hybrid": StepBuffers(live=8),
    },
    foreach_temporaries=False,  # FusedAdam
    adapter_bytes=2,
    overheads=Overheads(
        workspace_bytes=0.0,
        late_gradients=0.0,
        fragmentation=FITTED["overheads.fragmentation"],
        fragmentation_bytes=5e8,
        framework_bytes=FITTED["overheads.framework_bytes"],
        communicator_bytes=4e8,
    ),
    dimensions=frozenset({"tensor", "context", "expert"}),  # AutoTP, Ulysses and DeepSpeed-MoE; its pipelines want a model written for them
    measured_methods=frozenset({"full", "lora"}),
    intervals={
        "allocated": Interval(low=0.91, high=1.12),
        "reserved": Interval(low=0.91, high=1.13),
        "process": Interval(low=0.92, high=1.13),
    },
    mixed_widths=(2, 2, 4, 4),
    default_sharding="none",
    measured_compiled=False,
    measured_sharding=frozenset({"none", "zero1", "zero2", "zero3", "hybrid"}),
    measured_narrow=False,
    measured_attention=frozenset({"flash", "sdpa", "eager"}),
    own_width_loss=None,
    kept=1.0,
    kept_compiled=1.0,
    kept_quantized=1.0,
    working=1.0,
    counted=False,
    fused_head_gradients=1.0,
    keeps_stage_outputs=False,
    relatives={},
    accumulates_unsharded=frozenset(),
    quantized_mode=None,
    loss_by_quantization={},
    quantized_outside=False,
    dequantized_matrices=1.0,
)
