"""Hugging Face Transformers: modules as they stand in the library's modeling files, run eagerly by PyTorch autograd.

Sources: the modeling files of transformers 5.24 and PyTorch's saved-tensor hooks and live storages over them
(tests/cases/oracle.jsonl, oracle_step.jsonl):
RMSNorm makes a 32-bit copy of its input and keeps the 16-bit normalised value; SwiGLU keeps gate, its activation, up
and their product; ``NewGELUActivation`` is written out in five kept steps; Gemma normalises in 32 bits and keeps
1 + weight; T5 keeps both the 16-bit input and its 32-bit copy; softmax is 32-bit, cast back (GPT-2, T5: native).
"""

from __future__ import annotations

from collections.abc import Mapping

from ..architecture import Norm
from ..fitted import memory as fitted
from .profile import (
    AUTOCAST,
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

BLOCKS = BlockRule(
    norms={
        "rms_scale_plus_one": NormRule(
            input_copy=(4, 4, 4), normalized=(4, 4, 4), statistics=4, half_input_copy=4, half_normalized=4, trained_scale_copy=4
        ),
        "rms_two_copies": NormRule(input_copy=(6, 4, 4), normalized=(2, 4, 4), statistics=4, half_input_copy=6, half_normalized=2),
        # Forward: the 32-bit product, its cast and that scaled. Backward: the two factors' gradients and the three steps of the power's.
        "rms": NormRule(
            input_copy=(4, 4, 4), normalized=(2, 4, 4), statistics=4, half_input_copy=4, half_normalized=2, forward=8, backward=20
        ),
        # ``layer_norm`` is one of autocast's 32-bit operators (PyTorch, "Automatic Mixed Precision package: ops that autocast to float32").
        "layer": NormRule(
            input_copy=(2, 4, 4), normalized=(0, 0, 0), statistics=8, half_input_copy=4, half_normalized=0, autocast_output=4
        ),
    },
    activations={
        "": ActivationRule(inner=(2, 2, 4)),
        "relu": ActivationRule(inner=(0, 0, 0), keeps_output=True),
        "relu2": ActivationRule(inner=(2, 2, 4)),
        "gelu_new": ActivationRule(inner=(8, 14, 16)),
        "gelu_fast": ActivationRule(inner=(8, 14, 16)),
    },
    attention=AttentionRule(
        repeats_key_values=(False, False, True),
        score_bytes=(6, 6, 4),
        own_width_score_bytes=(2, 6, 4),
        second_output=(True, True, False),
        softcap_bytes=(2, 2, 4),
        fused_softmax_multiple=None,
        scores_dropped=False,
    ),
    product_copy=(0, 2, 0),
    router_copy=(4, 0, 0),
    routing_widths=((2, 4, 4), (4, 4, 4)),
    gate_output_kept=True,
)
LOSS = LossRule(saved=(4, 4, 4), forward_extra=(6, 6, 4), backward_extra=(8, 8, 8))

# torch.compile with the default partitioner keeps what matrix products and attention read and recomputes what lies between.
COMPILED_NORMS: Mapping[Norm, NormRule] = {
    "rms_scale_plus_one": NormRule(input_copy=(2, 4, 4), normalized=(0, 0, 0), statistics=4, half_input_copy=2, half_normalized=0),
    "rms_two_copies": NormRule(input_copy=(2, 4, 4), normalized=(0, 0, 0), statistics=4, half_input_copy=2, half_normalized=0),
    "rms": NormRule(input_copy=(2, 4, 4), normalized=(0, 0, 0), statistics=4, half_input_copy=2, half_normalized=0),
    "layer": NormRule(input_copy=(2, 4, 4), normalized=(0, 0, 0), statistics=8, half_input_copy=2, half_normalized=0),
}
COMPILED_BLOCKS = BlockRule(
    norms=COMPILED_NORMS,
    activations={"": ActivationRule(inner=(2, 2, 4)), "relu": ActivationRule(inner=(0, 0, 0), keeps_output=True)},
    attention=AttentionRule(
        repeats_key_values=(False, False, True),
        score_bytes=(2, 2, 4),
        own_width_score_bytes=(2, 2, 4),
        softcap_bytes=(0, 0, 0),
        fused_softmax_multiple=None,
        scores_dropped=False,
        second_output=(False, False, False),
    ),
    gate_output_kept=False,
    product_copy=(0, 0, 0),
    router_copy=(0, 0, 0),
    routing_widths=None,
)
COMPILED_LOSS = LossRule(saved=(2, 2, 4), forward_extra=(0, 0, 0), backward_extra=(4, 4, 4))
FUSED_LOSS = LossRule(saved=(0, 0, 0), forward_extra=(0, 0, 0), backward_extra=(0, 0, 0))

FITTED = fitted.COEFFICIENTS["hf_transformers"]

HUGGING_FACE = Stack(
    title="Hugging Face Transformers and PEFT on PyTorch",
    sources=("transformers 5.24 modeling files", "tests/cases/oracle.jsonl", "QwenLM/Qwen README.md"),
    mixed_mode=AUTOCAST,
    # accelerate hands FSDP a 16-bit MixedPrecision for parameters, reduction and buffers (``utils/dataclasses.py``,
    # ``set_mixed_precision``): what is gathered is 16-bit already, so autocast has nothing to cast and to keep.
    mixed_sharded_mode=HALF,
    transformers_modules=True,
    weight_casts=True,
    counted=True,
    blocks=BLOCKS,
    compiled_blocks=COMPILED_BLOCKS,
    loss=LOSS,
    compiled_loss=COMPILED_LOSS,
    fused_loss=FUSED_LOSS,
    own_width_loss=LossRule(saved=(2, 6, 4), forward_extra=(2, 2, 4), backward_extra=(4, 4, 8)),
    # Qwen's GPTQ Q-LoRA script runs fp16 under DeepSpeed: no autocast, cross entropy on 16-bit logits.
    loss_by_quantization={"gptq_int4": LossRule(saved=(2, 2, 4), forward_extra=(4, 4, 4), backward_extra=(6, 6, 8))},
    selective=CHECKPOINTED_SCORES,
    adapters_reenter=True,  # peft, prepare_model_for_kbit_training, as transformers 4 did for all models
    fsdp_version=1,  # accelerate, FullyShardedDataParallelPlugin.fsdp_version
    sharding=ShardingRule(
        gathered_blocks=2,
        gathered_outside=1,
        loss_blocks=1,
        loss_outside=1,
        reduced_blocks=1,
        reduced_bytes=(2, 4, 4),
        replicated_gradient_copies=1,
        stage_two_keeps_gathered=True,  # FSDP's SHARD_GRAD_OP
        reduces_every_micro_batch=False,
        bucket_elements=0.0,
        pipeline_accumulates_unsharded=False,
        persistent_gradients=False,
        offload_moves_gradients=False,
    ),
    overheads=Overheads(
        workspace_bytes=0.0,
        late_gradients=0.0,
        fragmentation=FITTED["overheads.fragmentation"],
        fragmentation_bytes=8e8,
        framework_bytes=FITTED["overheads.framework_bytes"],
        communicator_bytes=4e8,
    ),
    dimensions=frozenset({"tensor", "context"}),  # accelerate's ParallelismConfig; experts are not spread
    measured_sharding=frozenset({"none"}),
    measured_methods=frozenset({"full", "frozen", "lora", "qlora"}),  # full and frozen: PyTorch's own counters
    intervals={
        "allocated": Interval(low=0.95, high=1.06),
        "reserved": Interval(low=0.94, high=1.09),
        "process": Interval(low=0.94, high=1.07),
    },
    mixed_widths=(4, 4, 0, 4),
    default_sharding="none",
    measured_compiled=False,
    measured_narrow=False,
    measured_attention=frozenset({"flash", "sdpa", "eager"}),
    kept=1.0,
    kept_compiled=1.0,
    kept_quantized=1.0,
    working=1.0,
    fused_head_gradients=1.0,
    foreach_temporaries=True,
    step_buffers={},
    model_parallel_step_buffers=None,
    keeps_stage_outputs=False,
    relatives={},
    adapter_bytes=None,
    accumulates_unsharded=frozenset(),
    quantized_mode=None,
    quantized_outside=False,
    dequantized_matrices=1.0,
)
