"""The saving interval that was chosen beside the optimum, and what each costs, as items."""

from __future__ import annotations

from .items import Item, unknown
from .job_parts import HARDWARE_SHARE, Cadence, Restarts, failure_share
from .run import Run
from .spread import multiples


def items(run: Run, plan: Cadence, lost: Restarts) -> list[Item]:
    """The chosen saving interval beside the optimum, and what each costs."""
    infinite = plan.mean_time_between_interruptions == float("inf")
    result = [
        Item(
            code="time.checkpoint_interval",
            section="time",
            quantity="seconds",
            expected=plan.interval,
            formula=plan.chosen,
            assumptions=(f"{plan.saves:.6g} saves in the run",),
        ),
        Item(
            code="reserve.interruptions",
            section="reserves",
            quantity="count",
            expected=lost.interruptions.expected,
            low=lost.interruptions.low,
            high=lost.interruptions.high,
            formula="rate x devices x busy hours",
            basis=lost.hardware.basis,
            assumptions=lost.hardware.assumptions[:1],
        ),
    ]
    result.append(_spares(run, plan))
    if infinite:
        reason = "no interruptions are expected: saving less often is always better"
        result.append(
            unknown(
                "time.checkpoint_interval_optimum",
                "time",
                "seconds",
                reason,
                formula="sqrt(2 x M x C)",
            )
        )
        return result
    result.append(
        Item(
            code="time.checkpoint_interval_optimum",
            section="time",
            quantity="seconds",
            expected=plan.optimum,
            formula="sqrt(2 x M x C), the whole run where that is longer (Young 1974, Daly 2006)",
            assumptions=(f"M = {plan.mean_time_between_interruptions:.4g} s between interruptions, C = {plan.save.expected:.4g} s a save",),
        )
    )
    for code, interval in (
        ("reserve.failure_fraction", plan.interval),
        ("reserve.failure_fraction_at_optimum", plan.optimum),
    ):
        result.append(
            Item(
                code=code,
                section="reserves",
                quantity="fraction",
                expected=failure_share(plan, interval),
                formula="C/T + (T/2 + R)/M, first order",
                basis=lost.hardware.basis,
                assumptions=(f"T = {interval:.4g} s, R = {plan.restart.expected:.4g} s to detect, restart and load",),
            )
        )
    return result


# No source gives the time a node is away for repair; a day, four hours where a spare part lies ready, three days where it does not.
REPAIR_HOURS = 24.0
REPAIR_RANGE = (1 / 6, 3.0)


def _spares(run: Run, plan: Cadence) -> Item:
    """Devices of nodes under repair at any time: what a cluster must hold beside the job to keep it whole."""
    assert run.hardware is not None
    devices, node = run.hardware.device_count, run.hardware.devices_per_node
    away = plan.rate.expected * HARDWARE_SHARE * devices * REPAIR_HOURS * min(node, devices)
    spread = multiples(away, *REPAIR_RANGE, run.interval_coverage)
    return Item(
        code="reserve.spare_devices",
        section="reserves",
        quantity="count",
        expected=spread.expected,
        low=spread.low,
        high=spread.high,
        formula="interruptions an hour x hardware share x repair hours x devices of a node",
        basis="prior",
        assumptions=(
            f"a failed device takes its node away for {REPAIR_HOURS:g} h (assumed); BLOOM held 4 spare nodes beside 48",
            "not in device_hours: whether spares are paid for is the cluster's affair",
        ),
    )
