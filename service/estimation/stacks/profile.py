"""The words in which a software stack is described: what its modules keep for the backward pass, gather, cast and reserve.

Every coefficient stands in a table of ``stacks/<stack>.py`` with its source; formulas read the tables and never ask
for the stack's name. A :data:`Widths` triple gives bytes in the three ways to train: ``half`` (16-bit weights and
residual stream), ``autocast`` (32-bit weights and residual stream, 16-bit matrix products) and ``single`` (32-bit).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ..architecture import Norm

Mode = Literal[0, 1, 2]
HALF: Mode = 0
AUTOCAST: Mode = 1
SINGLE: Mode = 2
Widths = tuple[float, float, float]
Widths4 = tuple[float, float, float, float]
COMPUTE: Widths = (2, 2, 4)  # width of what a matrix product reads and writes
RESIDUAL: Widths = (2, 4, 4)  # width of the residual stream


@dataclass(frozen=True, slots=True, kw_only=True)
class NormRule:
    """What a normalisation keeps, in bytes per element of its input unless said otherwise."""

    input_copy: Widths  # the input, or the wider copy that the kernel makes of it
    normalized: Widths  # the normalised value, kept only where the scale is trained
    statistics: float  # bytes a token: mean and reciprocal deviation
    half_input_copy: float  # under autocast: of a norm behind a matrix product, whose input is 16-bit
    half_normalized: float
    autocast_output: float = 2  # under autocast over 16-bit weights: a native kernel hands on 32 bits, a written-out norm casts back
    forward: float = 0  # in 16 bits, written out: what it makes beside that copy and holds until it returns; 0: unknown, or one kernel
    backward: float = 0  # what its gradient holds at once beside that copy
    trained_scale_copy: float = 0  # bytes per element of the scale, once a norm: (1 + weight) in 32 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationRule:
    """What the activation function of the MLP keeps, in bytes per element of the intermediate."""

    inner: Widths  # its input and its own intermediate results
    keeps_output: bool = False  # it keeps its output by itself (ReLU)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionRule:
    """What attention keeps besides queries, keys, values and its output."""

    repeats_key_values: tuple[bool, bool, bool]  # grouped keys and values are expanded to all heads, by mode, for the fused kernels
    score_bytes: Widths  # per score of the eager path, softmaxed in 32 bits
    own_width_score_bytes: Widths  # the same where the family softmaxes in the scores' own width
    softcap_bytes: Widths
    fused_softmax_multiple: int | None  # an eager softmax is one kernel where (sequence, head) pairs are a multiple of this
    scores_dropped: bool  # score_bytes has the mask and the dropped copy in it
    second_output: tuple[bool, bool, bool]  # partly rotated: a contiguous copy of the output


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockRule:
    """What the blocks of a model keep for the backward pass; one object of a stack's record, told apart by identity."""

    norms: Mapping[Norm, NormRule]  # every kind of ``Layer.norm``
    activations: Mapping[str, ActivationRule]  # by activation function; "" is the default
    attention: AttentionRule
    gate_output_kept: bool  # gate x up keeps the activated gate
    product_copy: Widths  # a cast copy for the down projection, of families that cast its input
    router_copy: Widths  # the 32-bit copy of the hidden state, of families whose routers read one
    routing_widths: tuple[Widths, Widths] | None  # of routing weights: cast back, and left in 32 bits; None: unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class LossRule:
    """What head and loss hold, in bytes per token and vocabulary entry."""

    saved: Widths  # from forward to backward: the log-probabilities
    forward_extra: Widths  # on top at the end of the forward pass: logits and their 32-bit copy
    backward_extra: Widths  # on top when the backward pass starts


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """Shares of a block's forward pass that checkpointing computes again in the backward pass."""

    products: float  # FLOPs and bytes of the matrix products
    attention: float  # of the attention core
    elementwise: float
    launches: float


NOTHING_REPEATED = Repeated(products=0.0, attention=0.0, elementwise=0.0, launches=0.0)
ALL_REPEATED = Repeated(products=1.0, attention=1.0, elementwise=1.0, launches=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectiveRule:
    """What selective checkpointing keeps of a block, and what it therefore computes again: memory, time and FLOPs all ask here."""

    drops: Literal["scores", "outputs"]  # the attention scores alone, or all but the block's input and some outputs
    kept_outputs: float  # with "outputs": share of the outputs of q, k, v, gate, up and down that is kept
    repeated: Repeated
    repeated_under_fused_kernels: Repeated  # the same where a fused kernel stores no scores


# Megatron-core checkpoints its attention core whatever kernel is in it (transformer/attention.py, ``_checkpointed_attention_forward``;
# Korthikanti et al. 2022, section 5): under a fused kernel nothing is saved, and the core is computed again all the same.
ATTENTION_CORE = Repeated(products=0.0, attention=1.0, elementwise=0.2, launches=0.2)
CHECKPOINTED_CORE = SelectiveRule(drops="scores", kept_outputs=1.0, repeated=ATTENTION_CORE, repeated_under_fused_kernels=ATTENTION_CORE)
# Trainers without a selective mode of their own: the caller wraps what stores the scores, and where nothing does, nothing is wrapped.
CHECKPOINTED_SCORES = SelectiveRule(
    drops="scores", kept_outputs=1.0, repeated=ATTENTION_CORE, repeated_under_fused_kernels=NOTHING_REPEATED
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingRule:
    """How sharded parameters are gathered and gradients reduced."""

    gathered_blocks: float  # whole blocks in memory at once: the running one and the prefetched one
    gathered_outside: float  # share of token table and head that stays gathered from forward to backward
    loss_blocks: float  # whole blocks gathered while the loss is computed
    loss_outside: float  # share of token table and head gathered then
    reduced_blocks: float  # blocks whose unsharded gradients wait for their reduction
    reduced_bytes: Widths  # width of an unsharded gradient
    reduces_every_micro_batch: bool  # stage 2 scatters the gradients of every micro-batch, not of the last alone
    bucket_elements: float  # fixed communication buckets, in elements of 2 bytes (ZeRO)
    replicated_gradient_copies: float  # flat copies of replicated gradients beside the gradients (DDP buckets)
    stage_two_keeps_gathered: bool  # "zero2" shards weights as well and keeps them gathered from forward to backward
    pipeline_accumulates_unsharded: bool  # pipeline schedules reduce gradients at the last micro-batch alone
    persistent_gradients: bool  # gradient buffers live through the whole step
    offload_moves_gradients: bool  # an optimizer in host memory takes the gradients there as they are reduced


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBuffers:
    """What an engine of 16-bit gradients makes at the optimizer step, in bytes per trained parameter of its partition.

    Whole partitions in one piece, or tensors as large as weights: the blocks that activations leave to the allocator are too small
    for them, and theirs serve no activation, so that both stay reserved (PyTorch, "CUDA semantics: memory management").
    """

    live: float  # at once
    freed: float = 0.0  # made and freed before, in other sizes
    at_once: float = math.inf  # parameters of the partition that are stepped at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Overheads:
    """What lies outside the tensors: from ``fitted/memory.py`` where a stack's rows tell it, priors elsewhere.

    Priors: a CUDA context of 0.2 to 0.7 GB with the libraries' kernels; reserved over active memory of 7 to 26 % (meta-llama/llama-cookbook
    pull 41 and issue 120); the allocator rounds blocks up to 2 MB and keeps pools by stream; a communicator holds NCCL_BUFFSIZE (4 MiB)
    for every channel and peer (NCCL, "Environment variables").
    """

    workspace_bytes: float  # cuBLAS and other workspaces inside the allocator
    late_gradients: float  # share of the gradients that come after the peak and find no room in what the peak left behind
    fragmentation: float  # share of the activations, logits and transients at the peak that is reserved but not allocated
    fragmentation_bytes: float
    framework_bytes: float  # context, kernels and libraries of one process
    communicator_bytes: float  # buffers of one collective communicator


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Bounds of an 80 % interval as multiples of the expected value, from leave-one-group-out residuals."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """One software stack."""

    title: str
    sources: tuple[str, ...]
    mixed_widths: Widths4  # bytes a parameter under mixed recipes: weights, gradients, master weights, one state of the optimizer
    default_sharding: Literal["none", "zero1", "zero2", "zero3", "hybrid"]  # unless the caller asks for another
    mixed_mode: Mode  # "mixed" recipes with 32-bit weights that are replicated
    mixed_sharded_mode: Mode  # the same behind a sharding engine that casts what it gathers
    transformers_modules: bool  # experts are executed as transformers' own modules do, all of them where those do
    weight_casts: bool  # autocast keeps a 16-bit copy of every matrix from forward to backward
    blocks: BlockRule
    compiled_blocks: BlockRule
    loss: LossRule
    compiled_loss: LossRule
    fused_loss: LossRule
    selective: SelectiveRule
    sharding: ShardingRule
    adapters_reenter: bool  # checkpointing is the reentrant kind where adapters are trained and nothing else is said
    fsdp_version: int | None  # of PyTorch's FSDP that shards by default; None where the stack shards itself
    overheads: Overheads
    intervals: Mapping[str, Interval]  # by observable: allocated, reserved, process
    measured_methods: frozenset[str]  # of the rows behind the intervals; others get wider ones
    measured_compiled: bool
    measured_sharding: frozenset[str]
    measured_narrow: bool  # recipes of 8 and 4 bits
    measured_attention: frozenset[str]
    own_width_loss: LossRule | None  # of families whose cross entropy reads the logits as they are; None: as the others'
    kept: float  # what a block keeps, as a multiple of the table's sum (fitted; 1 where the table is exact)
    kept_compiled: float
    kept_quantized: float
    working: float  # transient gradients of one block in its backward pass, as a multiple of two intermediates and two hidden states
    counted: bool  # moments inside a block follow PyTorch's own counters, with nothing fitted (``working`` is 1)
    fused_head_gradients: float  # copies of the head's gradient that a loss without whole logits holds while it accumulates it
    dimensions: frozenset[str]  # of model parallelism, that its trainers offer
    foreach_temporaries: bool  # the stack steps torch's optimizers; foreach makes one parameter-sized temporary
    step_buffers: Mapping[str, StepBuffers]  # by sharding; an engine with 32-bit gradients steps on them
    model_parallel_step_buffers: Mapping[str, StepBuffers] | None  # where tensor or pipeline says so: another trainer
    keeps_stage_outputs: bool  # a pipeline stage's output lives until its backward pass
    relatives: Mapping[float, Stack]  # stacks that share the name, told by the width of their gradients
    adapter_bytes: float | None  # the engine casts adapters to this width whatever was asked
    accumulates_unsharded: frozenset[str]  # recipes whose trainers skip the reduction between micro-batches
    quantized_mode: Mode | None  # how blocks run on a quantized base; None: as without
    loss_by_quantization: Mapping[str, LossRule]
    quantized_outside: bool  # quantized bases: the head is quantized too
    dequantized_matrices: float  # whole matrices that quantized products expand at once, in the width of the products
