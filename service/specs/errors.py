"""Faults of a run spec that only resolving it can find."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from service.kit.problems import Fault, Invalid


class SpecError(Invalid):
    """A run spec that cannot be quoted (422); ``errors`` says where. Nothing received is echoed."""


def spec_error(pointer: str, detail: str) -> SpecError:
    """One fault at one JSON Pointer."""
    return SpecError(f"{pointer}: {detail}", errors=[Fault(pointer, detail)])


def suggestion(name: str, known: Iterable[str]) -> str:
    """``; did you mean `x`?`` where a known name is close, else nothing."""
    matches = difflib.get_close_matches(name[:100].lower(), list(known), n=1, cutoff=0.5)
    return f"; did you mean `{matches[0]}`?" if matches else ""
