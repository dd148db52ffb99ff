"""A quote's document from a run spec: pure, no database, no clock; the same spec and corrections give the same document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any

from service import __version__
from service.alternatives.search import Offer
from service.alternatives.suggestions import suggestions
from service.estimation.correction import Corrections, Factor
from service.estimation.estimate import Estimate, estimate
from service.estimation.items import Item, Items
from service.estimation.run import Efficiency, Run
from service.estimation.warnings import Warning
from service.specs.load import parse
from service.specs.resolve import Resolved, resolve
from service.specs.spec import RunSpec

# Peaks repeat from run to run but for what the allocator makes of the order of requests.
PEAK_SPREAD = 1.03
_NOTHING: Mapping[str, float] = {}


_NOT_SEARCHED = "changes that make a run fit are searched for the first misfits of a batch; quote this run alone to have them"


def build(
    spec: RunSpec | Resolved | dict[str, Any],
    corrections: Corrections | None = None,
    calibration_version: str | None = None,
    pilot: Mapping[str, float] = _NOTHING,
) -> dict[str, Any]:
    """The quote but for what storing adds (id, moment, status). ``pilot`` holds values that a pilot run measured, by code."""
    resolved = spec if isinstance(spec, Resolved) else resolve(spec if isinstance(spec, RunSpec) else parse(spec))
    return document(resolved, estimated(resolved, corrections, pilot), corrections, calibration_version)


def estimated(resolved: Resolved, corrections: Corrections | None = None, pilot: Mapping[str, float] = _NOTHING) -> Estimate:
    """What the core says about the run, a pilot's measurements counted in."""
    run = resolved.run if not pilot else _piloted(resolved.run, pilot)
    result = estimate(run, corrections)
    if any(code.startswith("memory.") for code in pilot):
        return _with_piloted_peaks(run, result, corrections, pilot)
    return result


def document(
    resolved: Resolved,
    result: Estimate,
    corrections: Corrections | None = None,
    calibration_version: str | None = None,
    *,
    search: bool = True,
) -> dict[str, Any]:
    """The quote of an estimate. Where the run does not fit, changes that would make it fit are searched for: that takes its time, so
    ``search`` may say that it is left out, and the quote says so.
    """
    offer = suggestions(resolved, result.fits, corrections or {}) if search else Offer([])
    nothing = () if offer.reason is None else (Warning(code="no_alternative", detail=offer.reason, pointer="/hardware"),)
    if not search:
        nothing = (Warning(code="alternatives_not_searched", detail=_NOT_SEARCHED, pointer="/hardware"),)
    return {
        "engine_version": __version__,
        "calibration_version": calibration_version,
        "spec": resolved.spec,
        "provenance": resolved.provenance,
        "resolved": _resolved(result),
        "summary": _summary(result),
        "items": [_item(item) for item in result.items],
        "memory_phases": result.memory.phases,
        "saved_bytes_per_layer": result.memory.saved_bytes_per_layer,
        "warnings": [_warning(warning) for warning in (*resolved.warnings, *result.warnings, *nothing)],
        "alternatives": offer.rows,
    }


def sum_of_numbers(quote: Mapping[str, Any]) -> float:
    """A sum of every number of a quote that was computed, to see at once that all are finite: it is not where one of them is not."""
    items, phases = quote["items"], quote["memory_phases"]
    figures: list[Any] = [sum(filter(None, map(itemgetter(name), items))) for name in ("expected", "lower_bound", "low", "high")]
    figures += [item["factor"] + item["uncalibrated"] for item in items if "factor" in item]
    figures += [phase["allocated_bytes"] + sum(phase["parts"].values()) for phase in phases]
    figures += quote["saved_bytes_per_layer"] or ()
    figures += [number for row in quote["alternatives"] for number in row.values() if isinstance(number, float)]
    return float(sum(figures))


def _piloted(run: Run, pilot: Mapping[str, float]) -> Run:
    """The run at the speed that a pilot measured."""
    step, rate = pilot.get("time.step"), pilot.get("throughput.input_tokens_per_second")
    if step is None and rate is None:
        return run
    convention = run.efficiency.mfu_convention
    measured = Efficiency(step_seconds=step, input_tokens_per_second=rate if step is None else None, mfu_convention=convention, pilot=True)
    return replace(run, efficiency=measured)


def _with_piloted_peaks(run: Run, before: Estimate, corrections: Corrections | None, pilot: Mapping[str, float]) -> Estimate:
    """The estimate with its peaks moved to what a pilot measured."""
    factors: dict[str, Factor] = dict(corrections or {})
    plain = estimate(run, {code: factor for code, factor in factors.items() if not code.startswith("memory.")})
    piloted: list[str] = []
    for code, measured in pilot.items():
        expected = plain.items.expected(code) if code.startswith("memory.") else None
        if expected:
            low, high = 1 / PEAK_SPREAD, PEAK_SPREAD
            factors[code] = Factor(code=code, factor=measured / expected, n=1, low=low, high=high, cell="pilot")
            piloted.append(code)
    if not piloted:
        return before
    result = estimate(run, factors)

    def told(item: Item) -> Item:
        # What lies above a measured peak rests on it too.
        follows = item.basis == "calibrated" and item.code.startswith("memory.") and item.expected != before.items.expected(item.code)
        return item._replace(basis="pilot") if item.code in piloted or follows else item

    return replace(result, items=Items.of(told(item) for item in result.items))


def _item(item: Item) -> dict[str, Any]:
    document = {
        "code": item.code,
        "section": item.section,
        "quantity": item.quantity,
        "expected": item.expected,
        "lower_bound": item.lower_bound,
        "low": item.low,
        "high": item.high,
        "basis": item.basis,
        "formula": item.formula,
        "assumptions": item.assumptions,
        "parent": item.parent,
        "reason": item.reason,
    }
    if item.factor is not None:
        document["n"] = item.n
        document["factor"] = item.factor
        document["uncalibrated"] = item.uncalibrated
    return document


def _warning(warning: Warning) -> dict[str, Any]:
    return {"code": warning.code, "detail": warning.detail, "pointer": warning.pointer}


def _resolved(result: Estimate) -> dict[str, Any]:
    run, counts = result.run, result.parameters
    shape = run.architecture.shape_known  # of a bare count nothing else is known
    return {
        "parameters": {
            "total": counts.total,
            "active": counts.active,
            "trainable": counts.trainable,
            "embedding": counts.embedding if shape else None,
            "lm_head": counts.lm_head if shape else None,
            "lm_head_tied": counts.lm_head_tied if shape else None,
            "non_embedding": counts.non_embedding if shape else None,
            "experts": counts.experts if shape else None,
            "adapters": counts.adapters,
            "per_layer": counts.per_layer,
        },
        "data_parallel_size": run.layout.data,
        "global_batch_size": run.batch.global_batch_size,
        "steps": result.workload.steps,
        "assumptions": (*run.architecture.assumptions, *counts.assumptions),
    }


def _interval(items: Items, code: str) -> dict[str, Any]:
    item = items.get(code)
    if item is None:
        return {"lower_bound": None, "expected": None, "low": None, "high": None}
    return {"lower_bound": item.lower_bound, "expected": item.expected, "low": item.low, "high": item.high}


def _summary(result: Estimate) -> dict[str, Any]:
    items = result.items
    counted = "compute.training" if items.expected("compute.training") is not None else "compute.6nd"
    return {
        "training_flops": items.expected(counted),
        "training_flops_code": counted,  # 6ND where the model's own FLOPs cannot be counted
        "mfu_convention": result.run.efficiency.mfu_convention,
        "device_hours": _interval(items, "device_hours.training"),
        "wall_clock_seconds": _interval(items, "time.wall_clock"),
        "total_budget_device_hours": _interval(items, "device_hours.total"),
        "peak_memory_bytes_per_device": _interval(items, "memory.peak_process"),
        "peak_phase": result.memory.peak_phase,
        "peak_stage": result.memory.peak_stage,
        "fits": result.fits,
        "storage_bytes": _interval(items, "storage.total"),
    }
