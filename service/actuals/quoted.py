"""What a measurement is set beside: the quote, reduced to the numbers that comparison and rules need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotedItem:
    """One item of the quote."""

    code: str
    expected: float | None
    low: float | None = None
    high: float | None = None
    lower_bound: float | None = None
    uncalibrated: float | None = None  # before calibration; the expected value where nothing was calibrated


@dataclass(frozen=True, slots=True, kw_only=True)
class Quoted:
    """The quoted run."""

    items: Mapping[str, QuotedItem] = field(default_factory=dict)  # in the quote's order
    steps: float | None = None
    device_count: int | None = None
    device_memory_bytes: float | None = None  # as the driver reports it
    global_batch_size: float | None = None
    interval_coverage: float | None = None

    def expected(self, code: str) -> float | None:
        """The expected value of an item, None where it is unknown or not quoted."""
        item = self.items.get(code)
        return None if item is None else item.expected


def quoted(document: Mapping[str, Any], device_memory_bytes: float | None = None) -> Quoted:
    """From a quote's document (``spec``, ``resolved``, ``items``)."""
    spec, resolved = document.get("spec") or {}, document.get("resolved") or {}
    hardware = spec.get("hardware") or {}
    override = (hardware.get("device_override") or {}).get("memory_bytes")
    return Quoted(
        items={entry["code"]: _item(entry) for entry in document.get("items") or ()},
        steps=resolved.get("steps"),
        device_count=hardware.get("device_count"),
        device_memory_bytes=override or device_memory_bytes,
        global_batch_size=resolved.get("global_batch_size"),
        interval_coverage=spec.get("interval_coverage"),
    )


def _item(entry: Mapping[str, Any]) -> QuotedItem:
    uncalibrated = entry.get("uncalibrated")
    return QuotedItem(
        code=entry["code"],
        expected=entry.get("expected"),
        low=entry.get("low"),
        high=entry.get("high"),
        lower_bound=entry.get("lower_bound"),
        uncalibrated=entry.get("expected") if uncalibrated is None else uncalibrated,
    )
