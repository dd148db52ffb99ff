"""A whole from its parts: it adds up exactly, and it is unknown where a part is."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from .items import Basis, Item, Section, unknown


def whole(
    code: str,
    section: Section,
    quantity: str,
    parts: Sequence[Item],
    *,
    parent: str | None = None,
    lower_bound: float | None = None,
    together: frozenset[str] = frozenset(),
    assumptions: tuple[str, ...] = (),
) -> Item:
    """The sum of ``parts`` in their order. Parts named in ``together`` err together, the others independently."""
    formula = " + ".join(part.code for part in parts)
    values = [part.expected for part in parts]
    missing = next((part for part in parts if part.expected is None), None)
    if missing is not None:
        why = missing.reason or ""
        # A whole of wholes names the part that is not known, not the chain that leads to it.
        reason = why if " is not known: " in why else f"{missing.code} is not known: {why}"
        return unknown(code, section, quantity, reason, formula=formula, parent=parent)
    expected = total(values)
    below = above = 0.0
    joint_below = joint_above = 0.0
    for part in parts:
        value = part.expected or 0.0
        down, up = (
            value - (value if part.low is None else part.low),
            (value if part.high is None else part.high) - value,
        )
        if part.code in together:
            joint_below, joint_above = joint_below + down, joint_above + up
        else:
            below, above = below + down * down, above + up * up
    known = any(part.low is not None or part.high is not None for part in parts)
    return Item(
        code=code,
        section=section,
        quantity=quantity,
        expected=expected,
        lower_bound=lower_bound,
        low=max(expected - sqrt(below + joint_below * joint_below), 0.0) if known else None,
        high=expected + sqrt(above + joint_above * joint_above) if known else None,
        formula=formula,
        basis=basis_of(parts),
        assumptions=assumptions,
        parent=parent,
    )


def total(values: Sequence[float | int | None]) -> float:
    """The plain left-to-right sum that every whole is made with."""
    result = 0.0
    for value in values:
        if value is None:
            raise ValueError("a whole of an unknown part")
        result += value
    return result


def basis_of(parts: Sequence[Item]) -> Basis:
    """What a whole rests on: own actuals, a pilot or a prior where any of its parts with a value does."""
    bases = {part.basis for part in parts if part.expected}
    for basis in ("calibrated", "pilot", "prior", "formula"):
        if basis in bases:
            return basis
    return "given" if bases else "formula"
