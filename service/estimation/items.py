"""Items: the named quantities a quote is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

Basis = Literal["formula", "prior", "calibrated", "pilot", "given"]
Section = Literal["tokens", "compute", "time", "memory", "storage", "reserves", "cost"]


@dataclass(slots=True, kw_only=True)
class Item:
    """One quantity of a quote.

    ``expected`` is ``None`` exactly when ``reason`` says why it cannot be computed; ``low`` and ``high`` bound
    the interval of the run's ``interval_coverage``; ``parent`` names the item this one is a part of, and the
    parts of a parent add up to it exactly.
    """

    code: str
    section: Section
    quantity: str  # flops | tokens | seconds | device_hours | bytes | per_second | fraction | count | ...
    expected: float | int | None
    formula: str
    basis: Basis = "formula"
    lower_bound: float | None = None
    low: float | None = None
    high: float | None = None
    assumptions: tuple[str, ...] = ()
    parent: str | None = None
    reason: str | None = None
    # Only on calibrated items: how many actuals the factor rests on, the factor, and the value before it.
    n: int | None = None
    factor: float | None = None
    uncalibrated: float | None = None


def unknown(code: str, section: Section, quantity: str, reason: str, *, formula: str = "", parent: str | None = None) -> Item:
    """An item that applies to the run but that its spec does not allow to be computed."""
    return Item(code=code, section=section, quantity=quantity, expected=None, formula=formula, parent=parent, reason=reason)


@dataclass(slots=True, kw_only=True)
class Warning:
    """Something the caller should know before trusting the quote."""

    code: str
    detail: str
    pointer: str | None = None


def no_effect(pointer: str, why: str) -> Warning:
    """A field that was given and changes nothing: said, never silently ignored."""
    return Warning(code="no_effect", detail=f"{pointer} changes nothing: {why}", pointer=pointer)


@dataclass(slots=True)
class Ledger:
    """Items in the order they were computed, found by code; a code is used once."""

    _items: dict[str, Item] = field(default_factory=dict)

    def add(self, *items: Item) -> None:
        """Append items; a repeated code is a programming error."""
        for item in items:
            if item.code in self._items:
                raise ValueError(f"item {item.code} computed twice")
            self._items[item.code] = item

    def extend(self, items: Iterable[Item]) -> None:
        """Append every item of an iterable."""
        self.add(*items)

    def __getitem__(self, code: str) -> Item:
        return self._items[code]

    def get(self, code: str) -> Item | None:
        """The item of that code, or None."""
        return self._items.get(code)

    def expected(self, code: str) -> Any:
        """The expected value of an item; None where the item is unknown or does not apply."""
        item = self._items.get(code)
        return None if item is None else item.expected

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items.values())

    def __contains__(self, code: object) -> bool:
        return code in self._items

    def __len__(self) -> int:
        return len(self._items)
