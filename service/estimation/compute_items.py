"""FLOPs described: what the model needs, what full attention would, the 6ND rule, what is executed."""

from __future__ import annotations

from .compute import Figures, rule_factor, variable_length
from .items import Item, unknown
from .numeric import Number, one
from .recomputation import repeated
from .run import Run
from .tokens import Workload

NO_SHAPE = "the model's layers and hidden size are not known, only a parameter count"
HF_EXAMPLE = "PyTorch 2.13 with transformers 5.24 and PEFT 0.21"

LINEAR = "2 x inputs x outputs a token and matrix: forward, input gradient, weight gradient where each is needed"
ATTENTION = "2 x heads x (query_key_dim + value_dim) a pair that the mask lets through; backward twice that"
COUNTED = ("output head counted, embedding look-up not; no recomputation; causal attention as (s + 1) / 2s of full, windows limited",)
FROZEN_BASE = ("adapters on a frozen base: no weight gradients of the base",)
FUSED = "input and weight gradients where needed; attention 2.5 times forward attention (the fused kernel recomputes the scores)"
EAGER = "input and weight gradients where needed; attention twice forward attention"
WHOLE_BLOCKS = "forward of all of each block; head and embeddings are not recomputed"
TO_THE_LAST_SAVED = "forward of each block up to its last saved value; head and embeddings are not recomputed"
EVERY_PAIR = (f"as {HF_EXAMPLE} execute it, on tensor positions, attention over every pair",)
WITHIN_SAMPLES = (f"as {HF_EXAMPLE} execute it; the flash kernel is given the samples' boundaries and skips pairs across them",)

Row = tuple[str, str | None, str, Number | None, tuple[str, ...]]  # code, parent, formula, value, assumptions


def items(run: Run, work: Workload, flops: Figures) -> list[Item]:
    """The compute items of a quote."""
    shape = None if run.architecture.shape_known else NO_SHAPE
    # Attended lengths may be known where the rows of the kernels are not.
    model = shape or (work.reason if not work.attended else None)
    rule = work.reason or "tokens are not known"
    executed = shape or work.reason or "lengths are not known"
    return [
        *[_item(row, model or "") for row in _model(flops)],
        *[_item(row, shape or rule if row[0].endswith("non_embedding") else rule) for row in _rules(run, flops)],
        *[_item(row, executed) for row in _executed(run, flops)],
    ]


def _item(row: Row, reason: str) -> Item:
    code, parent, formula, value, notes = row
    if value is None:
        return unknown(code, "compute", "flops", reason, formula=formula, parent=parent)
    return Item(
        code=code,
        section="compute",
        quantity="flops",
        expected=one(value),
        formula=formula,
        assumptions=notes,
        parent=parent,
    )


def _model(flops: Figures) -> tuple[Row, ...]:
    whole = "compute.training"
    return (
        (whole, None, "compute.linear + compute.attention", flops.training, COUNTED),
        ("compute.linear", whole, LINEAR, flops.linear, ()),
        ("compute.attention", whole, ATTENTION, flops.attention, ()),
        (
            "compute.training_full_attention",
            None,
            "compute.linear + attention over every pair of positions",
            flops.full_attention,
            COUNTED,
        ),
    )


def _rules(run: Run, flops: Figures) -> tuple[Row, ...]:
    factor = rule_factor(run)
    notes = FROZEN_BASE if factor == 4 else ()
    with_embeddings = f"{factor} x N x D; N = active parameters, embeddings included, D = tokens.input"
    without = f"{factor} x N x D; N = active parameters without embeddings and untied head, D = tokens.input"
    return (
        ("compute.6nd", None, with_embeddings, flops.six_nd, notes),
        ("compute.6nd_non_embedding", None, without, flops.six_nd_non_embedding, notes),
    )


def _executed(run: Run, flops: Figures) -> tuple[Row, ...]:
    again = "no checkpointing"
    if run.activation_checkpointing == "full":
        again = WHOLE_BLOCKS if run.software.checkpoint_reentrant else TO_THE_LAST_SAVED
    elif run.activation_checkpointing == "selective":
        again = _repeated_words(run)
    done, whole = flops.executed, "compute.executed"
    forward, backward, recompute, total = (None,) * 4 if done is None else (done.forward, done.backward, done.recompute, done.total)
    notes = WITHIN_SAMPLES if variable_length(run) else EVERY_PAIR
    return (
        (whole, None, "compute.forward + compute.backward + compute.recompute", total, notes),
        ("compute.forward", whole, "every matrix and every pair of tensor positions", forward, ()),
        ("compute.backward", whole, FUSED if run.attention != "eager" else EAGER, backward, ()),
        ("compute.recompute", whole, again, recompute, ()),
    )


def _repeated_words(run: Run) -> str:
    """What selective checkpointing repeats, in words."""
    shares = repeated(run)
    if not shares.products and not shares.attention:
        return "nothing: a fused kernel stores no scores that could be computed again"
    said = [f"{shares.products:g} of the blocks' matrix products"] if shares.products else []
    return "forward of " + " and ".join([*said, "the attention core"] if shares.attention else said)
