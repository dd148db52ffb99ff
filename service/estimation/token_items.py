"""Tokens described: what is read, what is learnt from, what is padding, and the lengths that attention works on."""

from __future__ import annotations

from .items import Item, unknown
from .numeric import Number, one
from .run import Run
from .tokens import Workload

GIVEN = "data.total_tokens"
FROM_SAMPLES = "sum of samples x (prompt + target) x epochs, less what is cut"
UNIQUE = "distinct tokens read at least once: tokens.input / epochs unless unique_tokens is given"
TRUNCATED = "sum of samples x max(0, length - sequence_length) x epochs"

Row = tuple[str, Number | None, str, str, tuple[str, ...]]  # code, value, formula, why it is not known, assumptions


def items(run: Run, work: Workload) -> list[Item]:
    """The token items of a quote."""
    given, missing, said = run.data.histogram is None, work.reason or "", work.assumptions
    positions = "sum over micro-batches of rows x padded length"
    rows: tuple[Row, ...] = (
        ("tokens.input", work.input_tokens, GIVEN if given else FROM_SAMPLES, missing, ()),
        ("tokens.target", work.target_tokens, "tokens that the loss is taken on", work.target_reason or missing, ()),
        ("tokens.padding", work.padding, "tokens.tensor_positions - tokens.input", missing, said),
        ("tokens.tensor_positions", work.tensor_positions, positions, missing, said),
        ("tokens.unique", work.unique_tokens, UNIQUE, missing, ()),
        ("tokens.truncated", work.truncated, TRUNCATED, missing, ()),
        ("tokens.squared_lengths", work.squared_lengths, "sum of squared attended lengths", missing, said),
    )
    first = _item(rows[0])
    return [first._replace(basis="given") if given and first.expected is not None else first, *[_item(row) for row in rows[1:]]]


def _item(row: Row) -> Item:
    code, value, formula, reason, notes = row
    if value is None:
        return unknown(code, "tokens", "tokens", reason, formula=formula)
    return Item(code=code, section="tokens", quantity="tokens", expected=one(value), formula=formula, assumptions=notes)
