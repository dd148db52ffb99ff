"""PyTorch-native trainers on FSDP2: torchtitan, torchtune, LitGPT.

Sources: torchtitan 9dec370 (``parallelize_llama.py``: fully_shard per block with bf16 parameters and fp32 reduction;
operator-level selective checkpointing keeps attention and every second matrix product; ``loss.py``: cross entropy on
32-bit logits, compiled from bbb1b616e on), torchtune bd2a0fc (packed SFT, chunked cross entropy), litgpt 8641822 (RMSNorm and
rotary positions in 32 bits, grouped keys and values expanded before SDPA, bitsandbytes for every linear, head included).
"""

from __future__ import annotations

from ..fitted import memory as fitted
from .hugging_face import COMPILED_NORMS
from .profile import (
    AUTOCAST,
    HALF,
    SINGLE,
    ActivationRule,
    AttentionRule,
    BlockRule,
    Interval,
    LossRule,
    NormRule,
    Overheads,
    Repeated,
    SelectiveRule,
    ShardingRule,
    Stack,
)

_ATTENTION = AttentionRule(
    repeats_key_values=(True, True, True),
    score_bytes=(6, 6, 4),
    own_width_score_bytes=(6, 6, 4),
    softcap_bytes=(2, 2, 4),
    fused_softmax_multiple=None,
    scores_dropped=False,
    second_output=(False, False, False),
)
_RMS = NormRule(input_copy=(4, 4, 4), normalized=(2, 4, 4), statistics=4, half_input_copy=4, half_normalized=2)
BLOCKS = BlockRule(
    norms={
        "rms": _RMS,
        "rms_scale_plus_one": _RMS,
        "rms_two_copies": _RMS,
        "layer": NormRule(input_copy=(2, 4, 4), normalized=(0, 0, 0), statistics=8, half_input_copy=4, half_normalized=0),
    },
    activations={"": ActivationRule(inner=(2, 2, 4)), "relu": ActivationRule(inner=(0, 0, 0), keeps_output=True)},
    attention=_ATTENTION,
    gate_output_kept=True,
    product_copy=(0, 0, 0),
    router_copy=(0, 0, 0),
    routing_widths=None,
)
COMPILED_BLOCKS = BlockRule(
    norms=COMPILED_NORMS,
    activations={"": ActivationRule(inner=(2, 2, 4)), "relu": ActivationRule(inner=(0, 0, 0), keeps_output=True)},
    attention=AttentionRule(
        repeats_key_values=(True, True, True),
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

# torchtune's chunked cross entropy: an eighth of the rows at a time in 32 bits, log-probabilities, gradient and its 16-bit copy (14 / 8).
CHUNKED_LOSS = LossRule(saved=(0, 0, 0), forward_extra=(1.75, 1.75, 1.75), backward_extra=(1.75, 1.75, 1.75))

# torchtitan's operator policy (parallelize_llama.py, ``_apply_ac_to_transformer_block``): attention and every second matrix product
# are kept. In their order k, o and up are computed again: 37 % of a Llama-3 block's products (8B: 79.7 of 218.1 M weights), and q, v,
# gate and down are kept: 56 % of the outputs (19,456 of 34,816 a token).
OPERATOR_POLICY = SelectiveRule(
    drops="outputs",
    kept_outputs=0.56,
    repeated=Repeated(products=0.37, attention=0.0, elementwise=1.0, launches=0.8),
    repeated_under_fused_kernels=Repeated(products=0.37, attention=0.0, elementwise=1.0, launches=0.8),
)

FITTED = fitted.COEFFICIENTS["fsdp_native"]

FSDP_NATIVE = Stack(
    title="PyTorch-native trainers on FSDP2 (torchtitan, torchtune, LitGPT)",
    sources=("pytorch/torchtitan 9dec370", "pytorch/torchtune bd2a0fc", "Lightning-AI/litgpt 8641822", "pytorch/ao"),
    mixed_mode=AUTOCAST,
    mixed_sharded_mode=HALF,
    transformers_modules=False,
    weight_casts=True,
    blocks=BLOCKS,
    compiled_blocks=COMPILED_BLOCKS,
    # Log-probabilities 4; at the start of the backward pass their gradient and that of the 32-bit logits 4 + 4, and its 16-bit copy 2.
    loss=LossRule(saved=(4, 4, 4), forward_extra=(6, 6, 4), backward_extra=(10, 10, 8)),
    compiled_loss=LossRule(saved=(2, 2, 4), forward_extra=(2, 2, 4), backward_extra=(2, 2, 4)),
    fused_loss=CHUNKED_LOSS,
    selective=OPERATOR_POLICY,
    adapters_reenter=False,
    fsdp_version=2,  # torchtitan and torchtune call fully_shard; LitGPT's strategy wraps in the first
    # FSDP: reshard_after_forward=False is stage 2; with pipelines torchtitan asks for it and reduces once a step.
    sharding=ShardingRule(
        stage_two_keeps_gathered=True,
        pipeline_accumulates_unsharded=True,
        gathered_blocks=2,
        gathered_outside=1,
        loss_blocks=1,
        loss_outside=1,
        reduced_blocks=1,
        reduced_bytes=(2, 4, 4),
        reduces_every_micro_batch=False,
        bucket_elements=0.0,
        replicated_gradient_copies=0.0,
        persistent_gradients=False,
        offload_moves_gradients=False,
    ),
    overheads=Overheads(
        workspace_bytes=0.0,
        late_gradients=FITTED["overheads.late_gradients"],
        fragmentation=FITTED["overheads.fragmentation"],
        fragmentation_bytes=0,
        framework_bytes=6e8,
        communicator_bytes=5e8,
    ),
    measured_methods=frozenset({"full", "lora", "qlora"}),
    measured_compiled=True,
    measured_narrow=True,
    intervals={
        "allocated": Interval(low=0.94, high=1.055),
        "reserved": Interval(low=0.92, high=1.12),
        "process": Interval(low=0.91, high=1.12),
    },
    kept_compiled=FITTED["kept_compiled"],
    kept_quantized=FITTED["kept_quantized"],
    quantized_outside=True,
    # LitGPT: bitsandbytes' Linear4bit casts its output back to its input's width, and the token table stays 32-bit; compiled
    # runs (torchtune) quantize with torchao instead, which keeps 16 bits.
    quantized_mode=SINGLE,
    # LitGPT: fabric.no_backward_sync between micro-batches; torchtitan's mixed runs reduce each time.
    keeps_stage_outputs=True,  # torch/distributed/pipelining/stage.py: fwd_cache
    fused_head_gradients=2,  # the sum so far and the chunk's own
    accumulates_unsharded=frozenset({"bf16_pure"}),
    foreach_temporaries=False,  # the recipes of all three ask for the fused AdamW
    mixed_widths=(4, 4, 0, 4),
    default_sharding="zero3",
    measured_sharding=frozenset({"none", "zero1", "zero2", "zero3", "hybrid"}),
    measured_attention=frozenset({"flash", "sdpa", "eager"}),
    own_width_loss=None,
    kept=1.0,
    working=1.0,
    counted=False,
    dimensions=frozenset({"tensor", "pipeline", "context", "expert"}),
    step_buffers={},
    model_parallel_step_buffers=None,
    relatives={},
    adapter_bytes=None,
    loss_by_quantization={},
    dequantized_matrices=1.0,
)
