"""The words in which this room speaks of a block: how it is computed, what of it is trained, and what it keeps of a token."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...architecture import Attention, Layer
from ...stacks.profile import AUTOCAST, COMPUTE, HALF, RESIDUAL, ActivationRule, BlockRule, Mode, NormRule, Widths

MASK = 1.0  # byte of a dropped element: torch's native_dropout keeps a boolean


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """How low-rank adapters hold their inputs."""

    rank: int
    element_bytes: float
    dropout: bool
    autocast: bool  # inputs are cast to 16 bits whatever the adapter's own width
    gathered: bool = False  # the engine hands the products 16-bit copies of the adapters, whatever it stores

    def own_input_bytes(self, compute_bytes: float) -> float:
        """Bytes per input element of the copy that one adapted matrix keeps for itself; 0 where it shares the input."""
        mask = MASK if self.dropout else 0.0
        if self.gathered:
            return compute_bytes + mask if self.dropout else 0.0
        if self.autocast and self.element_bytes > compute_bytes:
            return compute_bytes + mask
        if self.element_bytes > compute_bytes:
            return self.element_bytes + mask
        return compute_bytes + mask if self.dropout else 0.0

    @property
    def autocasts(self) -> bool:
        """Whether autocast stands over the frozen base, whose norms it then widens, and casts wider adapters."""
        return self.autocast and not self.gathered

    def frame_bytes(self, compute_bytes: float) -> float:
        """Bytes per input element of the cast that the adapted layer makes and its frame holds until it returns."""
        return self.element_bytes if self.element_bytes > compute_bytes and not self.gathered else 0.0

    @property
    def inner_bytes(self) -> float:
        """Bytes per rank of the value between the two low-rank matrices."""
        return 2.0 if self.autocast or self.gathered else self.element_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Computing:
    """How every block of a model is computed: the stack's rules, in which widths, through which attention kernel."""

    rules: BlockRule
    mode: Mode
    fused: bool  # attention scores are never stored (flash or memory-efficient kernels)
    hidden: int
    adapter: Adapter | None
    width: float = field(init=False)  # bytes of an element that a matrix product reads or writes
    residual: float = field(init=False)  # bytes of an element of the residual stream
    operators: Mode = field(init=False)  # whose widths the operators have that autocast runs in 32 bits: powers, softmax, cross entropy

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", COMPUTE[self.mode])
        object.__setattr__(self, "residual", RESIDUAL[self.mode])
        object.__setattr__(self, "operators", AUTOCAST if self._autocast_over_half else self.mode)

    @property
    def _autocast_over_half(self) -> bool:
        """Whether autocast stands over 16-bit weights: a frozen base under adapters."""
        return self.mode == HALF and self.adapter is not None and self.adapter.autocasts

    def norm(self, layer: Layer) -> NormRule:
        """The rule of a block's normalisations."""
        return self.rules.norms[layer.norm]

    def activation(self, name: str) -> ActivationRule:
        """The rule of an activation function."""
        return self.rules.activations.get(name, self.rules.activations[""])

    def norm_input(self, rule: NormRule) -> float:
        """Bytes per element that a norm of the residual stream keeps of its input."""
        return rule.half_input_copy if self._autocast_over_half else rule.input_copy[self.mode]

    def norm_output(self, rule: NormRule) -> float:
        """Bytes per element of what a norm hands on."""
        return rule.autocast_output if self._autocast_over_half else self.width

    def own_copy(self, rule: NormRule) -> float:
        """Bytes per input element that an adapted reader of a norm keeps for itself.

        A 32-bit output of the norm is cast for each reader, whatever the reader's width.
        """
        if self.adapter is None:
            return 0.0
        own = self.adapter.own_input_bytes(self.width)
        return own or (self.width if self.norm_output(rule) > self.width else 0.0)

    def score_widths(self, attention: Attention) -> Widths:
        """Bytes that the eager path keeps of one score, softcap left out, in the three ways to train."""
        return self.rules.attention.score_bytes if attention.softmax_in_single else self.rules.attention.own_width_score_bytes

    def score_bytes(self, attention: Attention) -> float:
        """Bytes that the eager path keeps of one attention score."""
        softcap = self.rules.attention.softcap_bytes[self.operators] if attention.softcap else 0.0
        return self.score_widths(attention)[self.operators] + softcap


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientFlow:
    """Which parts of a block are trained, and through which the gradient flows."""

    attention: bool = True
    mlp: bool = True
    norms: bool = True
    reached: bool = True  # some parameter here or below is trained, so this block has a backward pass
    into_input: bool = True  # the block's input needs a gradient
    adapted: frozenset[str] = frozenset()  # names of the adapted matrices


@dataclass(frozen=True, slots=True)
class Kept:
    """What one block keeps, as coefficients: bytes = tokens x (replicated + split/t + scores x keys/t + routed) + ..."""

    replicated: float = 0.0  # per token; whole on every tensor-parallel rank unless the sequence is split too
    split: float = 0.0  # per token; divided by tensor parallelism (heads, intermediate)
    scores: float = 0.0  # per token and key position; divided by tensor parallelism
    squares: float = 0.0  # per squared position, whatever the batch size (a position bias kept as a mask)
    single: float = 0.0  # per token, only where the micro-batch is one sequence (views keep their base)
    routed: float = 0.0  # per token, hidden states sent to experts: grows with the load imbalance
    routed_inner: float = 0.0  # per token, inside the experts: likewise, and their matrices are split
    fixed: float = 0.0  # per block
    fixed_experts: float = 0.0  # per block, divided by expert parallelism
    positions: float = 0.0  # per position, whatever the batch size
    shared_squares: float = 0.0  # per squared position, held for all blocks even where they are recomputed
    # Of cross-attention, whose keys and values are as many as the encoder's tokens:
    cross: float = 0.0  # per token of the encoder; divided by tensor parallelism
    cross_replicated: float = 0.0  # per token of the encoder
    cross_scores: float = 0.0  # per token and position of the encoder; divided by tensor parallelism
    cross_squares: float = 0.0  # per position and position of the encoder, whatever the batch size

    def __add__(self, other: Kept) -> Kept:
        return Kept(*(getattr(self, name) + getattr(other, name) for name in Kept.__slots__))

    def __sub__(self, other: Kept) -> Kept:
        return Kept(*(getattr(self, name) - getattr(other, name) for name in Kept.__slots__))
