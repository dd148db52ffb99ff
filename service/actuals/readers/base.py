"""What readers share: turning a document into JSON or lines, numbers, times and statistics of repeated readings."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from ..measurement import Hints, Unreadable, Value, utc

_LFS = "version https://git-lfs.github.com/spec/"
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def refuse_pointer(text: str) -> None:
    """Refuse a Git LFS pointer, which stands where the file should be."""
    if text.lstrip("\ufeff \t\r\n").startswith(_LFS):
        raise Unreadable("this is a Git LFS pointer, not the file: fetch it with `git lfs pull` and send its content")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(pairs)


def _constant(name: str) -> float:
    # Trainers write NaN for a diverged loss; the file is still their own, so it is read and the value is not used.
    return math.nan if name == "NaN" else math.inf if name == "Infinity" else -math.inf


def as_json(document: Any) -> Any:
    """The document as JSON, whether it was sent parsed or as text."""
    if isinstance(document, bytes):
        document = document.decode("utf-8", "replace")
    if not isinstance(document, str):
        return document
    refuse_pointer(document)
    try:
        return json.loads(document, object_pairs_hook=_pairs, parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        raise Unreadable("the document is not JSON") from error


def as_object(document: Any, what: str) -> dict[str, Any]:
    """The document as a JSON object."""
    parsed = as_json(document)
    if not isinstance(parsed, dict):
        raise Unreadable(f"{what} is a JSON object")
    return parsed


def as_lines(document: Any) -> list[str]:
    """The document as lines of text without terminal colours."""
    if isinstance(document, list) and all(isinstance(line, str) for line in document):
        document = "\n".join(document)
    if not isinstance(document, str):
        raise Unreadable("this format is text: send the document as a string")
    refuse_pointer(document)
    return _ANSI.sub("", document).splitlines()


def number(value: Any) -> float | None:
    """A finite number, also from the wrappers ``{set, infinite, number}`` of newer Slurm; None for anything else."""
    if isinstance(value, dict) and "number" in value:
        if value.get("set") is False or value.get("infinite") is True:
            return None
        value = value["number"]
    if isinstance(value, str):
        try:
            value = float(value.replace(",", ""))
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


def count(value: Any) -> int | None:
    """A whole number from 0 to 2**53; None for anything else."""
    found = number(value)
    return int(found) if found is not None and 0 <= found <= 2**53 and found == int(found) else None


def dig(value: Any, *keys: str) -> Any:
    """A value nested in objects, None where a level is missing."""
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def before(end: datetime | None, seconds: float | None) -> datetime | None:
    """When something began that took these seconds; None where that is no time."""
    if end is None or seconds is None:
        return None
    try:
        return end - timedelta(seconds=seconds)
    except OverflowError:
        return None


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects in a list; nothing where it is not a list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def parse_time(value: Any) -> datetime | None:
    """An instant from ISO 8601 text or seconds since 1970; text without a zone is taken as UTC."""
    if isinstance(value, dict) or (isinstance(value, int | float) and not isinstance(value, bool)):
        seconds = number(value)
        if not seconds or not 0 < seconds < 1e11:
            return None
        return datetime.fromtimestamp(seconds, UTC)
    if not isinstance(value, str) or not value[:1].isdigit():
        return None  # "Unknown", "None", ""
    try:
        return utc(datetime.fromisoformat(value))
    except (ValueError, OverflowError):
        return None


def zoneless(value: Any) -> bool:
    """Whether a time is text without a zone."""
    return isinstance(value, str) and parse_time(value) is not None and datetime.fromisoformat(value).tzinfo is None


def seconds_between(start: datetime | None, end: datetime | None) -> float | None:
    """Seconds from start to end where both are known."""
    return None if start is None or end is None else (end - start).total_seconds()


def median(values: Sequence[float]) -> float:
    """The median."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def spread(values: Sequence[float]) -> float | None:
    """(largest - smallest) / median of repeated readings."""
    if len(values) < 2 or not median(values):
        return None
    found = (max(values) - min(values)) / median(values)
    return found if math.isfinite(found) else None


def devices(hints: Hints, found: int | None = None) -> tuple[int | None, tuple[str, ...]]:
    """The device count: the document's, else the caller's, else the quote's with a flag that says so."""
    if found:
        return found, ()
    if hints.device_count:
        return hints.device_count, ()
    if hints.quoted_device_count:
        return hints.quoted_device_count, ("device_count_from_quote",)
    return None, ()


def inferred(values: Iterable[Value]) -> tuple[Value, ...]:
    """Values of an attempt whose ending the document does not state."""
    return tuple(replace(value, flags=(*value.flags, "outcome_inferred")) for value in values)


def first(values: Iterable[Any]) -> Any:
    """The first that is not None."""
    return next((value for value in values if value is not None), None)
