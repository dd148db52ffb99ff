"""DeepSpeed ZeRO under the Hugging Face trainer (and trainers of its kind).

Sources: DeepSpeed ``runtime/zero`` (flat 16-bit partitions, fp32 master partition and states, reduce buckets of 5e8
elements, allgather buckets of 5e8, stage 3: prefetch 5e7 and live parameters up to 1e9); ``bf16.enabled`` casts the whole
module to bf16, adapters too, and runs without autocast. Blocks are Hugging Face's.
"""

from __future__ import annotations

from .hugging_face import BLOCKS, COMPILED_BLOCKS, COMPILED_LOSS, FUSED_LOSS, LOSS
from .profile import HALF, Interval, Overheads, SelectiveRule, ShardingRule, Stack

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
    weight_casts=False,
    blocks=BLOCKS,
    compiled_blocks=COMPILED_BLOCKS,
    loss=LOSS,
    compiled_loss=COMPILED_LOSS,
    fused_loss=FUSED_LOSS,
    selective=SelectiveRule(kind="scores"),
    sharding=ShardingRule(
        gathered_blocks=2,
        gathered_outside=1,
        loss_blocks=0,
        loss_outside=0.5,
        reduced_blocks=1,
        reduced_bytes=(2, 2, 4),
        bucket_elements=5e8,
        persistent_gradients=True,
        offload_moves_gradients=True,  # ZeRO-Offload (arXiv 2101.06840, section 3): gradients go to the host as they are reduced
    ),
    step_gradient_bytes=4,  # the partition's 16-bit gradients are copied to 32 bits for the step
    # InternEvo's hybrid ZeRO optimizer (the only measured trainer with tensor or pipeline parallel on this stack) holds 32-bit flat
    # gradients, their reduced and clipped copies and the flat updated weights at the step. Fitted on its rows alone.
    model_parallel_step_bytes=11,
    foreach_temporaries=False,  # FusedAdam
    adapter_bytes=2,
    overheads=Overheads(
        workspace_bytes=0.0, late_gradients=0.0, fragmentation=0.22, fragmentation_bytes=5e8, framework_bytes=8e8, communicator_bytes=4e8
    ),
    measured_methods=frozenset({"full", "lora"}),
    intervals={
        "allocated": Interval(low=0.86, high=1.25),
        "reserved": Interval(low=0.86, high=1.3),
        "process": Interval(low=0.88, high=1.3),
    },
)
