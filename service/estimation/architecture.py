"""What a model is made of, as plain data: every matrix and vector of every layer.

An ``Architecture`` is scalar data (never an array): the search varies the layout, not the model. It is built from a
preset or a Hugging Face config by ``service.specs``; parameters, FLOPs and saved activations are all sums over it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from .by_identity import ByIdentity

Part = Literal["embeddings", "attention", "mlp", "experts", "shared_experts", "router", "norms", "lm_head", "other"]
# How hidden states are normalised: RMS (plain; with a scale of 1 + weight in 32 bits; keeping its input beside the 32-bit copy of it), or
# a layer norm.
Norm = Literal["rms", "rms_scale_plus_one", "rms_two_copies", "layer"]
# What a matrix multiplies: "block" the normalised input of the block (q, k, v; in parallel blocks the MLP too),
# "query_latent" and "key_value_latent" the low-rank values of MLA, "attended" the heads' output, "middle" the normalised
# hidden state before the MLP, "activated" what leaves the activation, "cross" the hidden state before cross-attention,
# "cross_attended" its heads' output, "encoder" the encoder's output, "pixels" the input image, "final" the last hidden state.
Reads = Literal[
    "block",
    "query_latent",
    "key_value_latent",
    "attended",
    "middle",
    "activated",
    "shared_activated",
    "cross",
    "cross_attended",
    "encoder",
    "pixels",
    "final",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """A weight that a token is multiplied by: 2 x inputs x outputs FLOPs a token and active copy."""

    name: str  # the model's own name of the module: "q_proj", "c_attn", "query_key_value", "gate_up_proj"
    inputs: int
    outputs: int
    part: Part
    roles: tuple[str, ...] = ()  # canonical LoRA targets that it covers: ("q_proj", "k_proj", "v_proj") where fused
    bias: bool = False
    copies: int = 1  # experts hold `copies` of it ...
    active_copies: float = 1  # ... and a token passes through this many
    executed_copies: float | None = None  # transformers' own module runs it through this many (Llama 4: all experts)
    per_token: bool = True  # False: applied once a sequence or image (a pooler, a classifier head)
    reads: Reads = "block"  # which value it multiplies
    lora: bool = True  # PEFT can adapt it (a torch Linear, or an expert weight that PEFT knows)
    lora_materialized: bool = False  # PEFT adapts the bare weight: it forms W + BA of all copies on every forward

    @property
    def weights(self) -> int:
        """Weights in all copies, biases left out."""
        return self.inputs * self.outputs * self.copies

    @property
    def parameters(self) -> int:
        """Weights and biases in all copies."""
        return (self.inputs * self.outputs + (self.outputs if self.bias else 0)) * self.copies


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """Parameters that are not multiplied as a matrix: norm scales, attention sinks, relative position tables."""

    name: str
    size: int
    part: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Softmax attention of one layer."""

    query_heads: int
    key_value_heads: int
    query_key_dim: int  # per head
    value_dim: int  # per head
    window: int | None = None  # tokens a query may look back, None for all
    causal: bool = True
    cross: bool = False  # keys and values come from the encoder
    latent: bool = False  # MLA: low-rank queries and keys/values
    query_lora_rank: int | None = None
    key_value_lora_rank: int | None = None
    rope_dim: int | None = None
    query_key_norm: bool = False
    rotary: bool = True
    softcap: bool = False
    sinks: bool = False
    position_bias: Literal["shared", "own"] | None = None  # learned, added to the scores: looked up by the first block for all, or by each
    softmax_in_single: bool = True  # the eager softmax is 32-bit and cast back (False: in the scores' own width)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mlp:
    """The feed-forward part of one layer: dense, or a mixture of experts."""

    intermediate: int  # of one expert where there are experts
    gated: bool
    activation: str  # "silu", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "relu2", ...
    experts: int = 0  # 0: dense
    experts_per_token: int = 0
    shared_intermediate: int = 0  # of the shared expert(s) together
    product_cast: bool = False  # what the down projection reads is cast to the width of its weights
    router_in_single: bool = False  # the router reads a 32-bit copy of the hidden state
    routing_in_single: bool = False  # weights of the chosen experts stay 32-bit, and so do the experts' weighted outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropout:
    """Values of one block that are dropped in training; each leaves a mask."""

    hidden: int = 0  # of the hidden width
    scores: bool = False  # attention scores
    inner: bool = False  # what leaves the MLP's activation


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One block. Blocks of the same shape are the same object."""

    kind: str  # "decoder", "encoder", "vision", and "moe" where the MLP is a mixture of experts
    matrices: tuple[Matrix, ...]
    vectors: tuple[Vector, ...]
    attention: Attention
    mlp: Mlp
    cross_attention: Attention | None = None
    norm: Norm = "rms"
    norms: int = 2  # how many normalisations of the hidden state
    parallel_residual: bool = False
    pre_norm: bool = True  # attention reads a normalised hidden state (False: norms come after each part)
    dropout: Dropout | None = None
    closing: str | None = None  # the last matrix, where nothing saves its output: recomputation stops before it

    @property
    def parameters(self) -> int:
        """All parameters of the block."""
        return sum(m.parameters for m in self.matrices) + sum(v.size for v in self.vectors)


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A model. ``layers`` is empty where only a parameter count is known (then ``declared_*`` speak)."""

    family: str  # Hugging Face model_type, or "counted" for a bare parameter count
    name: str | None = None
    hidden: int = 0
    vocabulary: int = 0
    layers: tuple[Layer, ...] = ()  # in order; encoder blocks first where there are two stacks
    embeddings: tuple[Vector, ...] = ()  # look-up tables: tokens, positions, token types
    outside: tuple[Matrix, ...] = ()  # matrices outside the blocks: patch convolution, poolers, projections
    outside_vectors: tuple[Vector, ...] = ()  # final norms and the like
    head: Matrix | None = None  # the output projection
    head_tied: bool = False  # it shares the token embedding's weights
    logit_softcap: bool = False
    loss_in_single: bool = True  # cross entropy reads a 32-bit copy of the logits (False: the logits as they are)
    max_positions: int | None = None
    image_positions: int | None = None  # tokens an image becomes (vision); None for text
    encoder_decoder: bool = False
    embedding_dropouts: int = 0  # values of the hidden width that are dropped outside the blocks, of each stack
    multi_token_prediction_layers: int = 0  # extra blocks with a head, counted apart from `layers`
    declared_total: int | None = None  # a parameter count that the caller gave
    declared_active: int | None = None
    assumptions: tuple[str, ...] = field(default=())  # what had to be assumed to read the shape

    @property
    def shape_known(self) -> bool:
        """Whether the blocks are known, not only a parameter count."""
        return bool(self.layers)

    def kinds(self) -> tuple[tuple[Layer, int], ...]:
        """Distinct blocks with how often each occurs, in order of first appearance."""
        return _kinds(self)


@ByIdentity
def _kinds(architecture: Architecture) -> tuple[tuple[Layer, int], ...]:
    counts: Counter[int] = Counter(id(layer) for layer in architecture.layers)
    seen: dict[int, Layer] = {}
    for layer in architecture.layers:
        seen.setdefault(id(layer), layer)
    return tuple((layer, counts[key]) for key, layer in seen.items())
