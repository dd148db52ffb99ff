"""FLOPs of the whole run in named conventions: what the model needs, what full attention would, the 6ND rule, what is executed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .by_identity import ByIdentity
from .flops import CROSS, DECODER, ENCODER, MODEL, Convention, Flops, Pairs, Terms, model_flops
from .items import Item, unknown
from .numeric import Number, one
from .parameters import Parameters
from .recomputation import repeated
from .run import Run
from .stacks import stack_of
from .tokens import Rows, Workload, exact

NO_SHAPE = "the model's layers and hidden size are not known, only a parameter count"
HF_EXAMPLE = "PyTorch 2.13 with transformers 5.24 and PEFT 0.21"


Figures = Mapping[str, Number | None]  # FLOPs of the whole run by the code of their item; None where they cannot be computed


@dataclass(frozen=True, slots=True)
class Executed:
    """What the framework executes, and its parts."""

    forward: Number
    backward: Number
    recompute: Number

    @property
    def total(self) -> Number:
        """All of it."""
        return self.forward + self.backward + self.recompute


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
    attended = work.attended if _variable_length(run) else rows
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


def _variable_length(run: Run) -> bool:
    """Whether the kernel skips pairs across samples: packed samples under flash attention with sequence boundaries."""
    packed = run.data.packing == "packed" and run.data.histogram is not None and not run.data.cross_sample_attention
    return packed and run.attention == "flash"


def figures(run: Run, work: Workload, parameters: Parameters) -> Figures:
    """The value of every compute item by its code; None where the spec does not allow it to be computed."""
    return {**_model(run, work), **_rules(run, work, parameters), **_executed(run, work)}


def _model(run: Run, work: Workload) -> dict[str, Number | None]:
    """What the model itself asks for."""
    codes = ("compute.training", "compute.linear", "compute.attention", "compute.training_full_attention")
    if not run.architecture.shape_known or (work.reason is not None and not work.attended):
        return dict.fromkeys(codes)
    both, rows = _both(model_terms(run)), work.attended
    linear = exact(both.linear_at(_tokens(rows), _sum_counts(rows), 0))
    attention = exact(_attention(both, rows, True))
    values = (exact(linear + attention), linear, attention, exact(linear + _attention(both, rows, False)))
    return dict(zip(codes, values, strict=True))


def _rules(run: Run, work: Workload, parameters: Parameters) -> dict[str, Number | None]:
    """6ND and its variant without embeddings; 4ND where the base is frozen under adapters."""
    factor, tokens, active = _factor(run), work.input_tokens, parameters.active
    without = active - (parameters.total - parameters.non_embedding)
    return {
        "compute.6nd": None if tokens is None else exact(factor * active * tokens),
        "compute.6nd_non_embedding": None if tokens is None or not run.architecture.shape_known else exact(factor * without * tokens),
    }


def _factor(run: Run) -> int:
    return 4 if run.method.adapters else 6


def _executed(run: Run, work: Workload) -> dict[str, Number | None]:
    """What the framework executes."""
    found = executed(run, work)
    codes = ("compute.executed", "compute.forward", "compute.backward", "compute.recompute")
    if found is None:
        return dict.fromkeys(codes)
    return dict(zip(codes, (exact(found.total), found.forward, found.backward, found.recompute), strict=True))


def items(run: Run, work: Workload, values: Figures) -> list[Item]:
    """The compute items of a quote."""
    return [*_model_items(run, work, values), *_rule_items(run, work, values), *_executed_items(run, work, values)]


def _model_items(run: Run, work: Workload, values: Mapping[str, Number | None]) -> list[Item]:
    codes = (
        ("compute.training", None, "compute.linear + compute.attention"),
        (
            "compute.linear",
            "compute.training",
            "2 x inputs x outputs a token and matrix: forward, input gradient, weight gradient where each is needed",
        ),
        (
            "compute.attention",
            "compute.training",
            "2 x heads x (query_key_dim + value_dim) a pair that the mask lets through; backward twice that",
        ),
        ("compute.training_full_attention", None, "compute.linear + attention over every pair of positions"),
    )
    if not run.architecture.shape_known:
        return [unknown(code, "compute", "flops", NO_SHAPE, formula=formula, parent=parent) for code, parent, formula in codes]
    if work.reason is not None and not work.attended:
        return [unknown(code, "compute", "flops", work.reason, formula=formula, parent=parent) for code, parent, formula in codes]
    notes = ("output head counted, embedding look-up not; no recomputation; causal attention as (s + 1) / 2s of full, windows limited",)
    return [
        Item(
            code=code,
            section="compute",
            quantity="flops",
            expected=one(values[code]),
            formula=formula,
            parent=parent,
            assumptions=() if parent else notes,
        )
        for code, parent, formula in codes
    ]


def _sum_counts(rows: tuple[Rows, ...]) -> Number:
    total: Number = 0
    for row in rows:
        total = total + row.count
    return total


def _rule_items(run: Run, work: Workload, values: Mapping[str, Number | None]) -> list[Item]:
    factor = _factor(run)
    result = []
    for code, needs_shape, what in (
        ("compute.6nd", False, "active parameters, embeddings included"),
        ("compute.6nd_non_embedding", True, "active parameters without embeddings and untied head"),
    ):
        formula = f"{factor} x N x D; N = {what}, D = tokens.input"
        if needs_shape and not run.architecture.shape_known:
            result.append(unknown(code, "compute", "flops", NO_SHAPE, formula=formula))
        elif work.input_tokens is None:
            result.append(unknown(code, "compute", "flops", work.reason or "tokens are not known", formula=formula))
        else:
            notes = ("adapters on a frozen base: no weight gradients of the base",) if factor == 4 else ()
            item = Item(code=code, section="compute", quantity="flops", expected=one(values[code]), formula=formula, assumptions=notes)
            result.append(item)
    return result


def _repeated_words(run: Run) -> str:
    """What selective checkpointing repeats, in words."""
    shares = repeated(run)
    if not shares.products and not shares.attention:
        return "nothing: a fused kernel stores no scores that could be computed again"
    said = [f"{shares.products:g} of the blocks' matrix products"] if shares.products else []
    return "forward of " + " and ".join([*said, "the attention core"] if shares.attention else said)


def _executed_items(run: Run, work: Workload, values: Mapping[str, Number | None]) -> list[Item]:
    fused = (
        "2.5 times forward attention (the fused kernel recomputes the scores)" if run.attention != "eager" else "twice forward attention"
    )
    stop = "all of each block" if run.software.checkpoint_reentrant else "each block up to its last saved value"
    formulas = {
        "full": f"forward of {stop}; head and embeddings are not recomputed",
        "selective": _repeated_words(run),
        "none": "no checkpointing",
    }
    codes = (
        ("compute.executed", None, "compute.forward + compute.backward + compute.recompute"),
        ("compute.forward", "compute.executed", "every matrix and every pair of tensor positions"),
        ("compute.backward", "compute.executed", f"input and weight gradients where needed; attention {fused}"),
        ("compute.recompute", "compute.executed", formulas[run.activation_checkpointing]),
    )
    if values["compute.executed"] is None:
        reason = NO_SHAPE if not run.architecture.shape_known else work.reason or "lengths are not known"
        return [unknown(code, "compute", "flops", reason, formula=formula, parent=parent) for code, parent, formula in codes]
    notes = (f"as {HF_EXAMPLE} execute it, on tensor positions, attention over every pair",)
    if _variable_length(run):
        notes = (f"as {HF_EXAMPLE} execute it; the flash kernel is given the samples' boundaries and skips pairs across them",)
    return [
        Item(
            code=code,
            section="compute",
            quantity="flops",
            expected=one(values[code]),
            formula=formula,
            parent=parent,
            assumptions=() if parent else notes,
        )
        for code, parent, formula in codes
    ]


__all__ = ["Executed", "Pairs", "executed", "executed_terms", "figures", "items", "model_terms", "pairs"]
