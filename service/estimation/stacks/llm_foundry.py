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
    attention=AttentionRule(
        repeats_key_values=(False, False, True),
        score_bytes=(6, 6, 4),
        own_width_score_bytes=(6, 6, 4),
        softcap_bytes=(2, 2, 4),
        fused_softmax_multiple=None,
        scores_dropped=False,
        second_output=(False, False, False),
    ),
    gate_output_kept=True,
    product_copy=(0, 0, 0),
    router_copy=(0, 0, 0),
    routing_widths=None,
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
    adapters_reenter=False,
    fsdp_version=1,  # Composer wraps in FullyShardedDataParallel
    sharding=ShardingRule(
        stage_two_keeps_gathered=True,
        gathered_blocks=2,
        gathered_outside=1,
        loss_blocks=1,
        loss_outside=1,
        reduced_blocks=1,
        reduced_bytes=(2, 2, 4),
        reduces_every_micro_batch=False,
        bucket_elements=0.0,
        replicated_gradient_copies=0.0,
        pipeline_accumulates_unsharded=False,
        persistent_gradients=False,
        offload_moves_gradients=False,
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
    mixed_widths=(4, 4, 0, 4),
    default_sharding="zero3",
    measured_methods=frozenset({"full"}),
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
    step_buffers={},
    model_parallel_step_buffers=None,
    keeps_stage_outputs=False,
    relatives={},
    adapter_bytes=None,
    accumulates_unsharded=frozenset(),
    quantized_mode=None,
    loss_by_quantization={},
    quantized_outside=False,
    dequantized_matrices=1.0,
)
