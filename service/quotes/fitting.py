"""What would make a run fit: the core's alternatives, tried on the spec as the caller gave it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from service.estimation.correction import Corrections
from service.estimation.estimate import training_device_hours
from service.estimation.memory.alternatives import Change, Offer, alternatives, merged
from service.estimation.memory.peaks.figures import figures
from service.estimation.run import Data, Efficiency, Run
from service.kit.problems import Problem
from service.specs.resolve import Resolved, resolve
from service.specs.spec import RunSpec

BINS = 64  # of sample lengths, when layouts are compared; the longest sample stays as it is
FILLED_IN = frozenset({"default", "derived", "catalog"})


def suggestions(resolved: Resolved, fits: bool | str | None, corrections: Corrections) -> Offer:
    """Changes that make the run fit, with their device-hours, or why there are none; nothing where it fits or that cannot be said."""
    if fits is True or fits is None:
        return Offer([])
    given = _given(resolved.spec, resolved.provenance, "")
    data = condensed(resolved.run.data)
    if data.histogram is not None:  # of a million samples only a few bins are looked at again and again
        given["data"] = {"samples": 1, "prompt_tokens": 1, "target_tokens": 1, "packing": data.packing}

    def rebuild(change: Change) -> Run | None:
        try:
            run = resolve(RunSpec.model_validate(merged(given, change))).run
            return run if data.histogram is None else replace(run, data=data)
        except (Problem, ValueError):
            return None  # a patch that the rest of the spec forbids is no alternative

    def peak(run: Run) -> tuple[float, float] | None:
        found = figures(run, corrections)
        return None if found is None else (float(found.process.expected), float(found.process.high))

    def hours(run: Run) -> float | None:
        # Predicted on both sides: an efficiency that the caller gave holds for the run as it is, not for a changed one.
        return training_device_hours(replace(run, efficiency=Efficiency()), corrections)

    return alternatives(replace(resolved.run, data=data), rebuild, peak, hours)


def condensed(data: Data) -> Data:
    """The data with its samples in ``BINS`` bins of mean length: what ratios of hours need; the longest decides the peak and is kept."""
    rows = data.histogram
    if rows is None or len(rows) <= BINS:
        return data
    ordered = sorted(rows, key=lambda row: row[0] + row[1])
    longest, rest = ordered[-1], ordered[:-1]
    size = -(-len(rest) // (BINS - 1))
    bins = []
    for start in range(0, len(rest), size):
        part = rest[start : start + size]
        count = sum(row[2] for row in part)
        prompt, target = (max(0, round(sum(row[i] * row[2] for row in part) / count)) for i in (0, 1))
        bins.append((prompt, max(target, 0 if prompt else 1), count))
    return replace(data, histogram=(*bins, longest))


def _given(document: Mapping[str, Any], provenance: Mapping[str, str], pointer: str) -> dict[str, Any]:
    """The spec without what was filled in, so that defaults follow a change."""
    result = {}
    for name, value in document.items():
        where = f"{pointer}/{name}"
        if provenance.get(where) in FILLED_IN:
            continue
        inner = _given(value, provenance, where) if isinstance(value, Mapping) and where not in provenance else value
        if inner != {}:
            result[name] = inner
    return result
