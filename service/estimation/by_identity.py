"""A small cache keyed on the identity of one argument: hashing an ``Architecture`` would cost more than most sums over it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")

_LIMIT = 512


class ByIdentity(Generic[Value]):
    """``call(owner, *rest)`` remembered by the owner's identity and the (small, hashable) rest.

    The owner is kept alive while its entry is, so an identity is never met again with another object behind it. Results
    must be immutable. When full the older half is dropped.
    """

    def __init__(self, function: Callable[..., Value]) -> None:
        self._function = function
        self._entries: dict[tuple[int, tuple[Hashable, ...]], tuple[Any, Value]] = {}
        self.__doc__ = function.__doc__

    def __call__(self, owner: Any, *rest: Hashable) -> Value:
        """The function's value, computed once."""
        key = (id(owner), rest)
        entry = self._entries.get(key)
        if entry is not None and entry[0] is owner:
            return entry[1]
        value = self._function(owner, *rest)
        entries = self._entries
        if len(entries) >= _LIMIT:
            for old in list(entries)[: _LIMIT // 2]:
                entries.pop(old, None)
        entries[key] = (owner, value)
        return value
