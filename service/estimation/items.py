"""Items: the named quantities a quote is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

Basis = Literal["formula", "prior", "calibrated", "pilot", "given"]
Section = Literal["tokens", "compute", "time", "memory", "storage", "reserves", "cost"]


class Item(NamedTuple):
    """One quantity of a quote; nothing changes it after it is made.

    ``expected`` is ``None`` exactly when ``reason`` says why it cannot be computed; ``low`` and ``high`` bound
    the interval of the run's ``interval_coverage``; ``parent`` names the item this one is a part of, and the
    parts of a parent add up to it exactly. A named tuple: a quote makes a hundred, and frozen dataclasses take three times as long.
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
    # What the formulas alone give, where corrections move it (NaN: nothing); then how many actuals the factor rests on, and it.
    uncalibrated: float | None = None
    n: int | None = None
    factor: float | None = None


def unknown(code: str, section: Section, quantity: str, reason: str, *, formula: str = "", parent: str | None = None) -> Item:
    """An item that applies to the run but that its spec does not allow to be computed."""
    return Item(code=code, section=section, quantity=quantity, expected=None, formula=formula, parent=parent, reason=reason)


@dataclass(slots=True)
class Items:
    """Items in the order of the budget, found by code; a code is used once."""

    _items: dict[str, Item] = field(default_factory=dict)

    @classmethod
    def of(cls, items: Iterable[Item]) -> Items:
        """Those items, in their order."""
        found = cls()
        found.extend(items)
        return found

    def add(self, *items: Item) -> None:
        """Append items; a repeated code is a programming error."""
        self.extend(items)

    def extend(self, items: Iterable[Item]) -> None:
        """Append every item of an iterable."""
        kept = self._items
        for item in items:
            if item.code in kept:
                raise ValueError(f"item {item.code} computed twice")
            kept[item.code] = item

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
