"""What is set aside beside the run itself: runs thrown away and repeated, and the small runs that choose its settings."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .item_sums import whole
from .items import Item, unknown
from .numeric import one
from .run import Run
from .spread import prior

# Device time of runs that failed, as a share of all device time: four clusters' published traces (Acme's Seren and Kalos, Philly,
# Helios; arXiv:2403.07648, table 2 of its data), the restart of SmolLM3 after 1 of 11 trillion tokens, and DeepSeek-V3, which
# reports neither rollback nor irrecoverable spike (arXiv:2412.19437, section 1).
FAILED_SHARES = {
    "DeepSeek-V3": 0.0,
    "Kalos": 0.080,
    "SmolLM3": 0.09,
    "Helios": 0.093,
    "Seren": 0.124,
    "Philly": 0.386,
}


def _quantile(values: Sequence[float], share: float) -> float:
    """The quantile of a few values, linear between neighbours."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


# What is thrown away on top of what succeeds: share / (1 - share); median and the 80 % between.
_MULTIPLES = [share / (1 - share) for share in FAILED_SHARES.values()]
RERUN_FRACTION = round(_quantile(_MULTIPLES, 0.5), 2)
RERUN_LOW = round(_quantile(_MULTIPLES, 0.1), 2)
RERUN_HIGH = round(_quantile(_MULTIPLES, 0.9), 2)
RERUN_FORMULA = f"{RERUN_FRACTION:g} x device_hours.run"
RERUN_WORDS = (
    f"runs thrown away over runs that succeed, median and 80 % of {', '.join(FAILED_SHARES)}: "
    f"{RERUN_FRACTION:g} ({RERUN_LOW:g} to {RERUN_HIGH:g})",
    "interruptions that a checkpoint survives are in time.restarts, not here",
)
SMALL_RERUN_WORDS = ("on few devices most failures are the user's own and short (median job 2 minutes in Acme's trace)",)
NO_ABLATION = (
    "no ablation is declared, so none is budgeted; published projects spent 1.15 (a replication), 2 (BLOOM) to 5 times "
    "(Olmo 3, arXiv:2605.01158) the final run in all",
)
TOTAL_WORDS = ("device-hours of the run's own device; work on other devices is not converted into them",)


def rerun(run: Run, run_hours: Item) -> Item:
    """``device_hours.rerun``: runs that fail and are thrown away."""
    parent = "device_hours.total"
    given = run.reserves.rerun_fraction
    formula = "fraction x device_hours.run"
    if run_hours.expected is None:
        return unknown(
            "device_hours.rerun",
            "reserves",
            "device_hours",
            f"device_hours.run: {run_hours.reason}",
            formula=formula,
            parent=parent,
        )
    if given is not None:
        return _share_of_run("device_hours.rerun", given, run_hours, parent)
    hours = float(run_hours.expected)
    share = prior(RERUN_FRACTION, RERUN_LOW, RERUN_HIGH, run.interval_coverage)
    small = run.hardware is not None and run.hardware.device_count < 64
    return Item(
        code="device_hours.rerun",
        section="reserves",
        quantity="device_hours",
        expected=one(hours * share.expected),
        low=one(hours * share.low),
        high=one(hours * share.high),
        formula=RERUN_FORMULA,
        basis="prior",
        assumptions=RERUN_WORDS + SMALL_RERUN_WORDS if small else RERUN_WORDS,
        parent=parent,
        uncalibrated=one(None if run_hours.uncalibrated is None else run_hours.uncalibrated * share.expected),
    )


def _share_of_run(code: str, share: float, run_hours: Item, parent: str) -> Item:
    """A fraction that the caller gave of the run's hours, as uncertain as they are."""
    hours = float(run_hours.expected or 0.0)
    return Item(
        code=code,
        section="reserves",
        quantity="device_hours",
        expected=hours * share,
        low=(hours if run_hours.low is None else run_hours.low) * share,
        high=(hours if run_hours.high is None else run_hours.high) * share,
        formula=f"{share:g} x device_hours.run",
        basis="given",
        parent=parent,
        uncalibrated=None if run_hours.uncalibrated is None else run_hours.uncalibrated * share,
    )


def ablation(run: Run, run_hours: Item) -> list[Item]:
    """``device_hours.ablation`` with its parts by kind."""
    code, parent = "device_hours.ablation", "device_hours.total"
    declared = run.reserves
    parts: list[Item] = []
    if declared.ablation_fraction is not None:
        if run_hours.expected is None:
            reason = f"device_hours.run: {run_hours.reason}"
            parts.append(unknown(f"{code}.fraction", "reserves", "device_hours", reason, parent=code))
        else:
            parts.append(_share_of_run(f"{code}.fraction", declared.ablation_fraction, run_hours, code))
    kinds: dict[str, float] = {}
    said: dict[str, list[str]] = {}
    for small in declared.ablation_runs:
        kind = re.sub(r"[^a-z0-9]+", "_", small.kind.lower()).strip("_") or "other"
        kinds[kind] = kinds.get(kind, 0.0) + small.count * small.device_hours
        said.setdefault(kind, []).append(f"{small.name}: {small.count} x {small.device_hours:g} h")
    parts += [
        Item(
            code=f"{code}_{kind}",
            section="reserves",
            quantity="device_hours",
            expected=hours,
            formula="runs x device-hours of each",
            basis="given",
            assumptions=tuple(said[kind]),
            parent=code,
        )
        for kind, hours in kinds.items()
    ]
    if not parts:
        nothing = Item(
            code=code,
            section="reserves",
            quantity="device_hours",
            expected=0.0,
            formula="none declared",
            assumptions=NO_ABLATION,
            parent=parent,
        )
        return [nothing]
    return [whole(code, "reserves", "device_hours", parts, parent=parent), *parts]


def budget(run_hours: Item, others: Sequence[Item], *, decoded: bool = False) -> Item:
    """``device_hours.total`` = run + ablation + rerun + generation.

    Given fractions of the run's hours, and passes at its pace, are off by what the run is off by. Of ablations nothing else has an
    interval. The prior of reruns is of failures, and what is ``decoded`` takes another pace: those err on their own.
    """
    together = {"device_hours.run", "device_hours.ablation"}
    together |= {one.code for one in others if one.code == "device_hours.rerun" and one.basis == "given"}
    together |= set() if decoded else {"device_hours.generation"}
    return whole(
        "device_hours.total",
        "reserves",
        "device_hours",
        [run_hours, *others],
        lower_bound=run_hours.lower_bound,
        together=frozenset(together),
        assumptions=TOTAL_WORDS,
    )
