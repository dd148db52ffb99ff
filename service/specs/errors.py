"""Faults of a run spec that only resolving it can find."""

from __future__ import annotations

from service.kit.problems import Fault, Invalid


class SpecError(Invalid):
    """A run spec that cannot be quoted (422); ``errors`` says where. Nothing received is echoed."""


def spec_error(pointer: str, detail: str) -> SpecError:
    """One fault at one JSON Pointer."""
    return SpecError(f"{pointer}: {detail}", errors=[Fault(pointer, detail)])
