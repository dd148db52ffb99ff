"""The saving interval that was chosen beside the optimum, and what each costs, described."""

from __future__ import annotations

from ..items import Item, unknown
from ..numeric import Number, one
from ..spread import multiples
from . import interruptions, saving
from .figures import WallClock
from .interruptions import HARDWARE_SHARE, Restarts
from .saving import Saving
from .timed_run import TimedRun

# No source gives the time a node is away for repair; a day, four hours where a spare part lies ready, three days where it does not.
REPAIR_HOURS = 24.0
REPAIR_RANGE = (1 / 6, 3.0)

NEVER_INTERRUPTED = "no interruptions are expected: saving less often is always better"
SPARES_FORMULA = "interruptions an hour x hardware share x repair hours x devices of a node"
SPARES_WORDS = (
    f"a failed device takes its node away for {REPAIR_HOURS:g} h (assumed); BLOOM held 4 spare nodes beside 48",
    "not in device_hours: whether spares are paid for is the cluster's affair",
)
OPTIMUM = "time.checkpoint_interval_optimum"
OPTIMUM_FORMULA = "sqrt(2 x M x C), the whole run where that is longer (Young 1974, Daly 2006)"
LOST_FORMULA = "C/T + (T/2 + R)/M, first order"


def items(timed: TimedRun, cadence: Saving, lost: Restarts, plain: WallClock) -> list[Item]:
    """The chosen interval first, then interruptions, spares, the optimum and the share of time that each interval loses."""
    before, lost_before = plain.saving or cadence, plain.restarts or lost
    run = timed.run
    basis = saving.interruption_basis(run)
    result = [
        Item(
            code="time.checkpoint_interval",
            section="time",
            quantity="seconds",
            expected=one(cadence.interval),
            formula=saving.chosen(run),
            assumptions=(f"{cadence.saves:.6g} saves in the run",),
            uncalibrated=one(_moved(cadence.interval, before.interval)),
        ),
        Item(
            code="reserve.interruptions",
            section="reserves",
            quantity="count",
            expected=one(lost.interruptions.expected),
            low=one(lost.interruptions.low),
            high=one(lost.interruptions.high),
            formula="rate x devices x busy hours",
            basis=basis,
            assumptions=(interruptions.rate_words(run),),
            uncalibrated=one(_moved(lost.interruptions.expected, lost_before.interruptions.expected)),
        ),
        _spares(timed, cadence),
    ]
    if cadence.mean_time_between_interruptions == float("inf"):
        return [*result, unknown(OPTIMUM, "time", "seconds", NEVER_INTERRUPTED, formula="sqrt(2 x M x C)")]
    said = f"M = {cadence.mean_time_between_interruptions:.4g} s between interruptions, C = {cadence.save.expected:.4g} s a save"
    result.append(
        Item(
            code=OPTIMUM,
            section="time",
            quantity="seconds",
            expected=one(cadence.optimum),
            formula=OPTIMUM_FORMULA,
            assumptions=(said,),
            uncalibrated=one(_moved(cadence.optimum, before.optimum)),
        )
    )
    for code, interval, was in (
        ("reserve.failure_fraction", cadence.interval, before.interval),
        ("reserve.failure_fraction_at_optimum", cadence.optimum, before.optimum),
    ):
        result.append(
            Item(
                code=code,
                section="reserves",
                quantity="fraction",
                expected=one(cadence.lost_share(interval)),
                formula=LOST_FORMULA,
                basis=basis,
                assumptions=(f"T = {interval:.4g} s, R = {cadence.restart.expected:.4g} s to detect, restart and load",),
                uncalibrated=one(_moved(cadence.lost_share(interval), before.lost_share(was))),
            )
        )
    return result


def _moved(value: Number, plain: Number) -> Number | None:
    """The value of the formulas alone, where a correction may have moved it."""
    return None if plain == value else plain


def _spares(timed: TimedRun, cadence: Saving) -> Item:
    """Devices of nodes under repair at any time: what a cluster must hold beside the job to keep it whole."""
    devices, node = timed.hardware.device_count, timed.hardware.devices_per_node
    away = cadence.rate.expected * HARDWARE_SHARE * devices * REPAIR_HOURS * min(node, devices)
    spread = multiples(away, *REPAIR_RANGE, timed.run.interval_coverage)
    return Item(
        code="reserve.spare_devices",
        section="reserves",
        quantity="count",
        expected=one(spread.expected),
        low=one(spread.low),
        high=one(spread.high),
        formula=SPARES_FORMULA,
        basis="prior",
        assumptions=SPARES_WORDS,
    )
