"""FLOPs of the whole run in named conventions: what the model needs, what full attention would, the 6ND rule, what is executed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .by_identity import ByIdentity
from .flops import CROSS, DECODER, ENCODER, MODEL, Convention, Flops, Pairs, Terms, model_flops
from .numeric import Number
from .parameters import Parameters
from .recomputation import repeated
from .run import Run
from .stacks import stack_of
from .tokens import Rows, Workload, exact


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """FLOPs of the whole run in every convention; None where the spec does not allow them to be counted."""

    training: Number | None  # of the model itself, under its masks
    linear: Number | None  # ... its matrices
    attention: Number | None  # ... and its attention, which add up to it
    full_attention: Number | None  # of the model, with every pair of positions attending
    six_nd: Number | None  # 6 N D; 4 N D where the base is frozen under adapters
    six_nd_non_embedding: Number | None
    executed: Executed | None


@dataclass(frozen=True, slots=True)
class Executed:
    """What the framework executes, and its parts."""

    forward: Number
    backward: Number
    recompute: Number

    @property
    def total(self) -> Number:
        """All of it."""
        return exact(self.forward + self.backward + self.recompute)


def model_terms(run: Run) -> Flops:
    """The model's own FLOPs as coefficients (no recomputation, adapters per token)."""
    return model_flops(run.architecture, run.method, MODEL, False)


def executed_terms(run: Run) -> Flops:
    """What the framework executes as coefficients."""
    convention = Convention(
        fused_attention=run.attention != "eager", as_executed=stack_of(run.software, run.precision).transformers_modules
    )
    return model_flops(run.architecture, run.method, convention, _input_grads(run))


def _input_grads(run: Run) -> bool:
    """Whether the embeddings' output is made to need a gradient.

    By the caller, or by transformers' checkpointing under adapters (its hook sits on token embeddings; the patch projection
    of a vision model gets none).
    """
    lora = run.method.lora
    if lora is None:
        return False
    return lora.input_grads or (run.activation_checkpointing == "full" and run.architecture.image_positions is None)


# -- volumes -----------------------------------------------------------------------------------------------------------
def _sum(rows: tuple[Rows, ...], value: str, window: int | None = None, causal: bool = False) -> Number:
    """Sum over rows of tokens or of attended pairs; exact while counts are whole."""
    total: Number = 0
    for row in rows:
        if value == "tokens":
            each = row.length
        elif value == "decoder_tokens":
            each = row.decoder
        elif value == CROSS:
            each = row.length * row.decoder
        else:
            each = pairs(row.decoder if value == DECODER else row.length, window, causal)
        total = total + each * row.count
    return total


def pairs(length: int, window: int | None = None, causal: bool = False) -> int:
    """Pairs of positions within a sequence that may attend: all, the causal half with the diagonal, or those in a window."""
    if not causal:
        if window is None or window >= length:
            return length * length
        return length * (2 * window + 1) - window * (window + 1)  # a window of w to each side
    if window is None or window >= length:
        return length * (length + 1) // 2
    return window * (window + 1) // 2 + (length - window) * window


def _tokens(rows: tuple[Rows, ...]) -> dict[str, Number]:
    return {ENCODER: _sum(rows, "tokens"), DECODER: _sum(rows, "decoder_tokens")}


def _attention(terms: Terms, rows: tuple[Rows, ...], masked: bool) -> Number:
    """Attention FLOPs over rows: with the masks' pairs only, or with every pair."""
    total: Number = 0
    for key, flops in terms.pairs.items():
        stream, window, causal = key
        total = total + flops * (_sum(rows, stream, window, causal) if masked else _sum(rows, stream))
    return total


@ByIdentity
def _both(terms: Flops) -> Terms:
    """Forward and backward together."""
    whole = Terms()
    whole.add(terms.forward)
    whole.add(terms.backward)
    return whole


# -- figures -----------------------------------------------------------------------------------------------------------
def executed(run: Run, work: Workload) -> Executed | None:
    """FLOPs that the framework executes in the whole run; None where lengths or shape are not known."""
    sequences, passes = work.sequences, work.forward_passes
    if not run.architecture.shape_known or work.reason is not None or sequences is None or passes is None:
        return None
    terms = executed_terms(run)
    rows = work.tensor
    attended = work.attended if variable_length(run) else rows
    tokens = _tokens(rows)

    def linear(part: Terms) -> Number:
        return part.linear_at(tokens, sequences, passes)

    def core(part: Terms) -> Number:
        return _attention(part, attended, False)

    def at(part: Terms) -> Number:
        return exact(linear(part) + core(part))

    return Executed(at(terms.forward), at(terms.backward), _recomputed(run, terms, at, linear, core))


Count = Callable[[Terms], Number]


def _recomputed(run: Run, terms: Flops, at: Count, linear: Count, core: Count) -> Number:
    """FLOPs that checkpointing computes again: blocks up to their last saved value, or what the stack's selective mode repeats."""
    if run.activation_checkpointing == "none":
        return 0
    if run.activation_checkpointing == "full":
        return at(terms.recompute_reentrant if run.software.checkpoint_reentrant else terms.recompute)
    shares = repeated(run)
    # The shares are of whole blocks, which reentrant checkpointing runs to their end.
    products = linear(terms.recompute_reentrant) if shares.products else 0
    attention = core(terms.recompute_attention) if shares.attention else 0
    return exact(products * shares.products + attention * shares.attention)


def variable_length(run: Run) -> bool:
    """Whether the kernel skips pairs across samples: packed samples under flash attention with sequence boundaries."""
    packed = run.data.packing == "packed" and run.data.histogram is not None and not run.data.cross_sample_attention
    return packed and run.attention == "flash"


def figures(run: Run, work: Workload, parameters: Parameters) -> Figures:
    """The run's work in every convention."""
    linear = attention = training = full = None
    if run.architecture.shape_known and (work.reason is None or work.attended):
        both, rows = _both(model_terms(run)), work.attended
        linear = exact(both.linear_at(_tokens(rows), _sum_counts(rows), 0))
        attention = exact(_attention(both, rows, True))
        training, full = exact(linear + attention), exact(linear + _attention(both, rows, False))
    read, factor, active = work.input_tokens, rule_factor(run), parameters.active
    without = active - (parameters.total - parameters.non_embedding)
    return Figures(
        training=training,
        linear=linear,
        attention=attention,
        full_attention=full,
        six_nd=None if read is None else exact(factor * active * read),
        six_nd_non_embedding=None if read is None or not run.architecture.shape_known else exact(factor * without * read),
        executed=executed(run, work),
    )


def rule_factor(run: Run) -> int:
    """FLOPs a parameter and token of the rule: 6; 4 where the base is frozen under adapters."""
    return 4 if run.method.adapters else 6


def _sum_counts(rows: tuple[Rows, ...]) -> Number:
    total: Number = 0
    for row in rows:
        total = total + row.count
    return total


__all__ = [
    "Executed",
    "Figures",
    "Pairs",
    "executed",
    "executed_terms",
    "figures",
    "model_terms",
    "pairs",
    "rule_factor",
    "variable_length",
]
