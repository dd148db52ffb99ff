"""What would make a run fit: the core's alternatives, tried on the spec as the caller gave it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from service.estimation.correction import Corrections
from service.estimation.estimate import training_device_hours
from service.estimation.memory.alternatives import Change, alternatives, merged
from service.estimation.memory.bounds import process_peaks
from service.estimation.run import Efficiency, Run
from service.kit.problems import Problem
from service.specs.resolve import Resolved, resolve
from service.specs.spec import RunSpec

FILLED_IN = frozenset({"default", "derived", "catalog"})


def suggestions(resolved: Resolved, fits: bool | str | None, corrections: Corrections) -> list[dict[str, Any]]:
    """Changes that make the run fit, with their device-hours; nothing where it fits or that cannot be said."""
    if fits is True or fits is None:
        return []
    given = _given(resolved.spec, resolved.provenance, "")

    def rebuild(change: Change) -> Run | None:
        try:
            return resolve(RunSpec.model_validate(merged(given, change))).run
        except (Problem, ValueError):
            return None  # a patch that the rest of the spec forbids is no alternative

    def peak(run: Run) -> tuple[float, float] | None:
        bounds = process_peaks(run, corrections)
        return None if bounds is None else (float(bounds.expected), float(bounds.high))

    def hours(run: Run) -> float | None:
        # Predicted on both sides: an efficiency that the caller gave holds for the run as it is, not for a changed one.
        return training_device_hours(replace(run, efficiency=Efficiency()), corrections)

    return alternatives(resolved.run, rebuild, peak, hours)


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
