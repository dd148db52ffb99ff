"""Answers of the Prometheus query API about DCGM's counters (units as in dcgm-exporter's default-counters.csv: FB_USED
in MiB, GPU_UTIL in percent, energy in mJ).

``max_over_time(...)`` drops the metric's name: send ``{"query": ..., "response": {...}}``, or a list of those.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from ..measurement import MIB, Attempt, Collector, Hints, Reading, Unreadable, Value
from .base import as_json, dig, inferred, median, number, parse_time

_METRIC = re.compile(r"DCGM_FI_[A-Z0-9_]+")
_MEMORY, _UTILIZATION = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_GPU_UTIL"
_IGNORED = {
    "DCGM_FI_DEV_FB_FREE": "free memory has no code: send DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": "energy has no code",
    "DCGM_FI_DEV_POWER_USAGE": "power has no code",
    "DCGM_FI_DEV_FB_RESERVED": "the driver's own memory has no code",
}
_Series = tuple[str, list[tuple[float, float]]]  # the device's identity, (time, value)


def read(document: Any, hints: Hints) -> Reading:
    """One attempt of everything asked: the largest memory in use and the hours that devices were seen."""
    parsed = as_json(document)
    into = Collector()
    span: list[float] = []
    for index, answer in enumerate(parsed if isinstance(parsed, list) else [parsed]):
        pointer = f"/{index}" if isinstance(parsed, list) else ""
        _answer(answer, pointer, hints, into, span)
    if not into.values:
        raise Unreadable("no metric with a code in the answer")
    attempt = Attempt(
        source="prometheus",
        outcome=hints.outcome or "completed",
        covers=("training", "evaluation", "checkpointing"),
        started_at=parse_time(min(span)) if len(set(span)) > 1 else None,
        ended_at=parse_time(max(span)) if len(set(span)) > 1 else None,
        device_count=hints.device_count,
        values=tuple(into.values) if hints.outcome else inferred(into.values),
    )
    return Reading(attempts=(attempt,), ignored=tuple(into.ignored))


def _answer(answer: Any, pointer: str, hints: Hints, into: Collector, span: list[float]) -> None:
    query = dig(answer, "query")
    response = answer.get("response", answer) if isinstance(answer, dict) else answer
    if dig(response, "status") == "error":
        raise Unreadable("the server answered with an error", f"{pointer}/status")
    results = dig(response, "data", "result")
    if not isinstance(results, list):
        raise Unreadable("a Prometheus answer has a list at data.result", f"{pointer}/data/result")
    asked = query if isinstance(query, str) else hints.query
    named = _METRIC.search(asked) if asked else None  # once: a query may be as long as its answer
    by_name: dict[str, list[_Series]] = {}
    for entry in results:
        if not isinstance(entry, dict):
            raise Unreadable("a result is an object with `metric` and `value` or `values`", f"{pointer}/data/result")
        name = _name(entry, None if named is None else named[0], pointer)
        by_name.setdefault(name, []).append(_series(entry, pointer))
    for name, series in by_name.items():
        readings = [value for _, points in series for _, value in points]
        if not readings:
            continue
        if name == _MEMORY:
            span.extend(time for _, points in series for time, _ in points)
            into.values.append(Value(code="memory.peak_process", value=max(readings) * MIB, method=name, scope="max", flags=("sampled",)))
        elif name == _UTILIZATION:
            span.extend(time for _, points in series for time, _ in points)
            _hours(series, into, pointer)
        else:
            into.ignore(pointer, _IGNORED.get(name, "this metric has no code"))


def _name(entry: dict[str, Any], asked: str | None, pointer: str) -> str:
    """The metric of a result: by its own name, else the one that was asked for."""
    named = dig(entry, "metric", "__name__")
    if isinstance(named, str):
        return named
    if asked is None:
        raise Unreadable("the answer does not name its metric (a function dropped it): send the query beside it", pointer)
    return asked


def _series(entry: dict[str, Any], pointer: str) -> _Series:
    points = entry.get("values", [entry["value"]] if "value" in entry else None)
    if not isinstance(points, list) or not all(isinstance(point, list | tuple) and len(point) == 2 for point in points):
        raise Unreadable("`value` is [time, value] and `values` a list of those", f"{pointer}/data/result")
    identity = "/".join(str(dig(entry, "metric", key) or "") for key in ("Hostname", "instance", "UUID", "gpu", "GPU_I_ID"))
    pairs = [(number(time), number(value)) for time, value in points]
    return identity, [(time, value) for time, value in pairs if time is not None and value is not None]


def _hours(series: list[_Series], into: Collector, pointer: str) -> None:
    """Hours that devices were seen under the job (allocated), and the same weighted with utilization."""
    sampled = [points for _, points in series if len(points) > 1]
    if not sampled:
        into.ignore(pointer, f"{_UTILIZATION} at one instant has no duration: send a range query")
        return
    step = median([later[0] - earlier[0] for points in sampled for earlier, later in pairwise(points)])
    seen = sum(len(points) for _, points in series) * step / 3600
    used = sum(value for _, points in series for _, value in points) / 100 * step / 3600
    into.values.append(Value(code="device_hours.run", value=seen, method=f"{_UTILIZATION} samples", basis="allocated", flags=("sampled",)))
    into.values.append(Value(code="device_hours.run", value=used, method=f"{_UTILIZATION} weighted", basis="utilized", flags=("sampled",)))
