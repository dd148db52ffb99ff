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
    formula = " + ".join([part.code for part in parts])
    expected = plain = 0.0
    below = above = joint_below = joint_above = 0.0
    known = corrected = False
    for part in parts:
        value = part.expected
        if value is None:
            why = part.reason or ""
            # A whole of wholes names the part that is not known, not the chain that leads to it.
            reason = why if " is not known: " in why else f"{part.code} is not known: {why}"
            return unknown(code, section, quantity, reason, formula=formula, parent=parent)
        expected += value
        low, high = part.low, part.high
        if low is not None or high is not None:
            known = True
            down, up = 0.0 if low is None else value - low, 0.0 if high is None else high - value
            if part.code in together:
                joint_below, joint_above = joint_below + down, joint_above + up
            else:
                below, above = below + down * down, above + up * up
        if part.uncalibrated is None:
            plain += value
        else:
            plain, corrected = plain + part.uncalibrated, True
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
        uncalibrated=plain if corrected else None,
    )


def scaled(item: Item, factor: float, *, code: str, quantity: str, formula: str, parent: str | None = None) -> Item:
    """A known item times a factor that is exact: its interval, its basis and what was corrected about it follow."""
    if item.expected is None:
        raise ValueError(f"{item.code} is not known")
    return Item(
        code=code,
        section=item.section,
        quantity=quantity,
        expected=item.expected * factor,
        low=None if item.low is None else item.low * factor,
        high=None if item.high is None else item.high * factor,
        formula=formula,
        basis=item.basis,
        parent=parent,
        uncalibrated=None if item.uncalibrated is None else item.uncalibrated * factor,
        n=item.n,
        factor=item.factor,
    )


def total(values: Sequence[float]) -> float:
    """The plain left-to-right sum that every whole is made with."""
    result = 0.0
    for value in values:
        result += value
    return result


def basis_of(parts: Sequence[Item]) -> Basis:
    """What a whole rests on: own actuals, a pilot or a prior where any of its parts with a value does."""
    bases = {part.basis for part in parts if part.expected}
    for basis in _BASES:
        if basis in bases:
            return basis
    return "given" if bases else "formula"


_BASES: tuple[Basis, ...] = ("calibrated", "pilot", "prior", "formula")
