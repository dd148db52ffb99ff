"""Plans over HTTP; nothing is stored."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from service.estimation import cost
from service.estimation.run import Run
from service.kit import api, documents
from service.kit.documents import JsonBody
from service.kit.problems import Fault, Invalid, Unavailable, invalid
from service.kit.security import Caller, allow
from service.quotes import examples
from service.quotes.issuing import Desk

from . import space
from .candidates import Candidates
from .passes import Prepared, posted, prepare
from .schemas import Front, Note, Plan, PlanAnswer, PlanRequest
from .search import Limits
from .worker import MOST_ON_FRONT, Job, Shortlist, Workers

router = APIRouter(prefix="/plans", tags=["plans"])

# Searches wait for a process, and each holds one of the threads that answer other requests: more of them are turned away.
_AT_ONCE = threading.BoundedSemaphore(4)

_EXAMPLE = {
    "spec": {**examples.SPEC, "batch": {"global_batch_size": 1024}},
    "free": {"parallelism.tensor": [1, 2, 4, 8], "parallelism.pipeline": [1, 2, 4], "batch.micro_batch_size": [1, 2, 4]},
    "objective": "device_hours",
    "limit": 3,
}


@router.post(
    "",
    summary="Search the layouts of a run",
    openapi_extra=api.takes(PlanRequest, _EXAMPLE),
    responses=api.gives(200, PlanAnswer, "The best layouts, the Pareto front, and why the others lost.") | api.problems(*api.BODY),
)
def create_plans(request: Request, body: JsonBody, caller: Caller = allow("plans:run")) -> Response:
    """Search everything legal, keep what fits, rank by device-hours, wall clock or cost."""
    began = time.monotonic()
    asked = body.read(PlanRequest)
    free = space.read(asked.free)
    if not _AT_ONCE.acquire(blocking=False):
        raise Unavailable("Other searches are running; try again", headers={"Retry-After": "5"})
    try:
        answer = _answer(asked, free, Desk(request.app.state.database, caller), request.app.state.searches, began)
    except Invalid as problem:
        raise _within_spec(problem) from problem
    finally:
        _AT_ONCE.release()
    return Response(answer.model_dump_json(), media_type=documents.JSON)


def _answer(asked: PlanRequest, free: space.Space, desk: Desk, searches: Workers, began: float) -> PlanAnswer:
    until = began + asked.time_budget_seconds
    prepared = prepare(asked.spec, free, desk.corrections_for, lambda: time.monotonic() >= until)
    limits = Limits(deadline_seconds=asked.deadline_seconds, budget_device_hours=asked.budget_device_hours)
    shortlist = searches.run(
        Job(
            passes=prepared.passes,
            space=free,
            held=prepared.held_global_batch_size,
            limits=limits,
            objective=asked.objective,
            prices=_prices(prepared) if asked.objective == "cost" else None,
            limit=asked.limit,
            seconds=until - time.monotonic(),
        )
    )
    rejected = prepared.rejected + Counter(shortlist.rejected)
    return PlanAnswer(
        plans=[_plan(prepared, free, desk, shortlist.best, row) for row in range(len(shortlist.best))],
        pareto=[_front(prepared, free, shortlist.front, row) for row in range(len(shortlist.front))],
        rejected={name: count for name, count in sorted(rejected.items()) if count},
        searched=shortlist.searched + prepared.rejected.total(),
        elapsed_seconds=time.monotonic() - began,
        complete=shortlist.complete and prepared.complete,
        held={} if prepared.held_global_batch_size is None else {"global_batch_size": prepared.held_global_batch_size},
        warnings=_warnings(asked, prepared, shortlist),
    )


def _within_spec(problem: Invalid) -> Invalid:
    """A fault of the spec, pointed at from the body."""
    own = ("/free", "/objective")
    errors = [fault if fault.pointer.startswith(own) else Fault("/spec" + fault.pointer, fault.detail) for fault in problem.errors]
    return Invalid(problem.detail, errors=errors)


def _plan(prepared: Prepared, free: space.Space, desk: Desk, best: Candidates, row: int) -> Plan:
    number, axes = _at(best, row)
    spec = posted(prepared, free, number, axes)
    quote = desk.price(spec).quote
    chosen = _chosen(prepared, free, number, axes)
    return Plan(rank=row + 1, spec=spec, chosen=chosen, summary=quote["summary"], cost=_cost(prepared.passes[number].run, quote))


def _front(prepared: Prepared, free: space.Space, front: Candidates, row: int) -> Front:
    number, axes = _at(front, row)
    return Front(
        chosen=_chosen(prepared, free, number, axes),
        wall_clock_seconds=float(front.wall_clock_seconds[row]),
        device_hours=float(front.device_hours[row]),
        headroom_bytes=float(front.headroom_bytes[row]),
        spec=posted(prepared, free, number, axes),
    )


def _at(candidates: Candidates, row: int) -> tuple[int, dict[str, int]]:
    return int(candidates.number[row]), {name: int(column[row]) for name, column in candidates.axes.items()}


def _chosen(prepared: Prepared, free: space.Space, number: int, axes: Mapping[str, int]) -> dict[str, Any]:
    values: dict[str, Any] = dict(axes)
    for name in free.choices:
        part: Any = prepared.passes[number].spec
        for step in name.split("."):
            part = part.get(step) if isinstance(part, Mapping) else None
        values[name] = part
    return values


def _rates(run: Run) -> dict[str, Decimal]:
    """The price of a device-hour on the run's device, by currency."""
    name = None if run.hardware is None else run.hardware.device.name
    prices: dict[str, Decimal] = {}
    for rate in cost.applied(run):
        if rate.resource == "device_hour" and rate.device in (None, name):
            prices[rate.currency] = prices.get(rate.currency, Decimal(0)) + Decimal(rate.amount)
    return prices


def _prices(prepared: Prepared) -> list[float]:
    """Money per second of wall clock for each pass."""
    prices: list[float] = []
    currencies: set[str] = set()
    for each in prepared.passes:
        rates = _rates(each.run)
        if not rates:
            raise invalid("/objective", "cost needs a device_hour rate of every device in spec.rates")
        currencies |= rates.keys()
        prices.append(float(next(iter(rates.values()))) * each.hardware.device_count / 3600.0)
    if len(currencies) > 1:
        raise invalid("/objective", "the rates are in several currencies, which are not converted")
    return prices


def _cost(run: Run, quote: Mapping[str, Any]) -> dict[str, str] | None:
    """What ``device_hours.run`` costs; nothing where no rate applies, or rates of several currencies do."""
    rates = _rates(run)
    hours = next((item["expected"] for item in quote["items"] if item["code"] == "device_hours.run"), None)
    if len(rates) != 1 or hours is None:
        return None
    ((currency, rate),) = rates.items()
    return {"amount": f"{rate * Decimal(repr(hours)):.2f}", "currency": currency}


def _why_none(closest: Mapping[str, float]) -> str:
    """How near the layouts that were put aside came to the limits."""
    told = []
    if "over_deadline" in closest:
        told.append(f"the fastest layout that fits takes {closest['over_deadline']:,.0f} s ({closest['over_deadline'] / 86400:,.1f} days)")
    if "over_budget" in closest:
        told.append(f"the cheapest that fits and is in time takes {closest['over_budget']:,.0f} device-hours")
    if "does_not_fit" in closest and not told:
        told.append(f"the smallest needs {closest['does_not_fit'] / 2**30:,.1f} GiB a device")
    return "no layout is within the limits: " + ("; ".join(told) if told else "rejected says why")


def _warnings(asked: PlanRequest, prepared: Prepared, shortlist: Shortlist) -> list[Note]:
    notes: list[Note] = []

    def note(code: str, detail: str, pointer: str | None = None) -> None:
        notes.append(Note(code=code, detail=detail, pointer=pointer))

    if "efficiency" in asked.spec:
        note("efficiency_left_out", "a search predicts the time of every layout: efficiency is left out of the plans", "/spec/efficiency")
    if not shortlist.found:
        note("no_plan", _why_none(shortlist.closest))
    if shortlist.found and not shortlist.any_certain:
        note("none_certain_to_fit", "every layout's memory interval reaches beyond the device's memory")
    if prepared.condensed:
        note(
            "lengths_in_bins",
            "layouts are compared by mean lengths of bins of samples; the plans' own figures are of every length",
            "/spec/data",
        )
    devices = {each.hardware.device.name for each in prepared.passes}
    if len(devices) > 1 and asked.objective == "device_hours":
        note("unlike_devices", "device-hours of unlike devices are not equivalent: rank by wall_clock or cost", "/objective")
    if len(shortlist.front) == MOST_ON_FRONT:
        note("pareto_cut", f"the fastest {MOST_ON_FRONT} of the Pareto front are answered")
    return notes
