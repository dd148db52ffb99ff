"""PyTorch's allocator: ``memory_stats()``, ``memory_summary()``, two bare peaks, or a memory snapshot; a list is one a rank.

Allocated, reserved and what the driver reports are three quantities and get three codes; keys as documented at
https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.memory_stats.html.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..measurement import GIB, MIB, Attempt, Collector, Hints, Reading, Scope, Unreadable, Value
from .base import as_json, dig, inferred, number, objects, refuse_pointer

_ALLOCATED, _RESERVED = "memory.peak_allocated", "memory.peak_reserved"
_METHODS = {_ALLOCATED: "torch.cuda.max_memory_allocated", _RESERVED: "torch.cuda.max_memory_reserved"}
_SUFFIXES = {"_gib": GIB, "_mib": MIB}  # `_gb` is not taken: it is written for both
_KEYS: Mapping[str, str] = {
    "allocated_bytes.all.peak": _ALLOCATED,
    "max_memory_allocated": _ALLOCATED,
    "max_memory_allocated_bytes": _ALLOCATED,
    "reserved_bytes.all.peak": _RESERVED,
    "max_memory_reserved": _RESERVED,
    "max_memory_reserved_bytes": _RESERVED,
    "max_memory_cached": _RESERVED,  # its name before PyTorch 1.4
}
# What an event of a trace adds when it is undone: the replay goes backwards.
_ALLOCATES: Mapping[str, int] = {"alloc": -1, "free_completed": 1}
_RESERVES: Mapping[str, int] = {"segment_alloc": -1, "segment_free": 1, "segment_map": -1, "segment_unmap": 1}
_UNITS = {"B": 1, "KB": 2**10, "KiB": 2**10, "MB": MIB, "MiB": MIB, "GB": GIB, "GiB": GIB, "TiB": 2**40}
_ROW = re.compile(r"\|\s*(Allocated memory|GPU reserved memory)\s*\|\s*\d+(?:\.\d+)?\s*[A-Za-z]+\s*\|\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*\|")


def read(document: Any, hints: Hints) -> Reading:
    """One attempt with the largest peak over the ranks given."""
    into = Collector()
    if isinstance(document, str) and not document.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
        refuse_pointer(document)
        ranks = _summaries(document)
    else:
        parsed = as_json(document)
        ranks = [_rank(entry, into) for entry in (parsed if isinstance(parsed, list) else [parsed])]
    peaks = {code: [rank[code] for rank in ranks if code in rank] for code in _METHODS}
    if not any(peaks.values()):
        raise Unreadable("no peak in it: send memory_stats(), memory_summary() or a snapshot with its trace")
    scope: Scope = "max" if len(ranks) > 1 else "rank0"
    traced = any("trace" in rank for rank in ranks)
    values = tuple(
        Value(
            code=code,
            value=max(found),
            method="memory snapshot, trace replayed" if traced else _METHODS[code],
            scope=scope,
            flags=("window_only",) if traced else (),
        )
        for code, found in peaks.items()
        if found
    )
    attempt = Attempt(
        source="torch",
        outcome=hints.outcome or "completed",
        covers=("training",),
        device_count=hints.device_count,
        values=values if hints.outcome else inferred(values),
    )
    return Reading(attempts=(attempt,), ignored=tuple(into.ignored))


def _summaries(text: str) -> list[dict[str, float]]:
    """One dictionary a printed table."""
    ranks: list[dict[str, float]] = []
    for name, value, unit in _ROW.findall(text):
        code = _ALLOCATED if name.startswith("Allocated") else _RESERVED
        if unit not in _UNITS:
            raise Unreadable("a unit in the table is not one of PyTorch's")
        if code == _ALLOCATED or not ranks:
            ranks.append({})
        ranks[-1][code] = float(value) * _UNITS[unit]
    return ranks


def _rank(entry: Any, into: Collector) -> dict[str, float]:
    if not isinstance(entry, dict):
        raise Unreadable("a rank's statistics are a JSON object")
    if "segments" in entry:
        return _snapshot(entry)
    found: dict[str, float] = {}
    for key, code in _KEYS.items():
        value = number(entry.get(key))
        if value is None and "." in key:
            value = number(dig(entry, *key.split(".")))  # memory_stats_as_nested_dict
        for suffix, unit in _SUFFIXES.items():
            if (scaled := number(entry.get(key + suffix))) is not None:
                value = scaled * unit
        if value is not None:
            found[code] = max(value, found.get(code, 0.0))
    if number(entry.get("num_ooms")):
        into.ignore("/num_ooms", "the allocator ran out of memory and went on, or this rank failed: set `outcome`")
    return found


def _snapshot(entry: Mapping[str, Any]) -> dict[str, float]:
    """The peak over the recorded trace, replayed backwards from the state at the dump; without a trace there is no peak."""
    segments = entry.get("segments")
    traces = entry.get("device_traces")
    if not isinstance(segments, list) or not isinstance(traces, list) or not any(traces):
        raise Unreadable("a snapshot without a trace holds the state at its dump, not the peak", "/device_traces")
    found: dict[str, float] = {"trace": 1}
    held = [[0.0, 0.0] for _ in traces]  # allocated and reserved bytes by device
    for segment in objects(segments):
        device = segment.get("device", 0)
        if isinstance(device, int) and 0 <= device < len(held):
            held[device][0] += number(segment.get("allocated_size")) or 0
            held[device][1] += number(segment.get("total_size")) or 0
    for (allocated, reserved), trace in zip(held, traces, strict=True):
        most_allocated, most_reserved = allocated, reserved
        for event in reversed(objects(trace)):
            action = event.get("action")
            if not isinstance(action, str):
                continue
            if (sign := _ALLOCATES.get(action)) is not None:
                allocated += sign * (number(event.get("size")) or 0)
                most_allocated = max(most_allocated, allocated)
            elif (sign := _RESERVES.get(action)) is not None:
                reserved += sign * (number(event.get("size")) or 0)
                most_reserved = max(most_reserved, reserved)
        found[_ALLOCATED] = max(found.get(_ALLOCATED, 0.0), most_allocated)
        found[_RESERVED] = max(found.get(_RESERVED, 0.0), most_reserved)
    return found
