"""One object of the spec while it is filled in: what is taken from it is echoed, with where it came from."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


class Section:
    """Takes fields of one part of the spec; ``out`` is the part as the quote echoes it."""

    __slots__ = ("_part", "_pointer", "_provenance", "out")

    def __init__(
        self,
        part: BaseModel | None,
        pointer: str,
        provenance: dict[str, str],
        parent: dict[str, Any] | None = None,
        name: str | None = None,
    ) -> None:
        self._part = part
        self._pointer = pointer + "/"
        self._provenance = provenance
        self.out: dict[str, Any] = {}
        if parent is not None:
            parent[name or pointer.rpartition("/")[2]] = self.out

    def given(self, name: str) -> Any:
        """The value as it was given, or None."""
        return None if self._part is None else getattr(self._part, name)

    def take(self, name: str, default: Any = None, origin: str = "default") -> Any:
        """The given value or the default; either is echoed (nothing is where both are None)."""
        value = None if self._part is None else getattr(self._part, name)
        if value is None:
            if default is None:
                return None
            value = default
        else:
            origin = "given"
        self.out[name] = value
        self._provenance[self._pointer + name] = origin
        return value

    def take_all(self) -> None:
        """Every field that was given."""
        if self._part is not None:
            for name in type(self._part).model_fields:
                self.take(name)

    def items(self, name: str, defaults: dict[str, Any]) -> list[dict[str, Any]]:
        """A list of objects, each with its defaults filled in."""
        entries = self.given(name)
        if entries is None:
            return []
        filled = [{**defaults, **entry.model_dump(exclude_none=True)} for entry in entries]
        self.out[name] = filled
        self._provenance[self._pointer + name] = "given"
        return filled
