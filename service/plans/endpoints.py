"""Plans over HTTP; nothing is stored."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import Response

from service.estimation.run import Run
from service.kit import api
from service.kit.documents import JsonBody
from service.kit.problems import Fault, Invalid, Unavailable
from service.kit.security import Caller, allow
from service.quotes import examples
from service.quotes.issuing import Desk

from . import search, space
from .schemas import Front, Note, Plan, PlanAnswer, PlanRequest
from .search import Candidates, Limits, Outcome

router = APIRouter(prefix="/plans", tags=["plans"])

JSON_TYPE = "application/json"
MOST_PARETO = 50
# Searches keep a core busy; more of them at once would only make each slower and every other request late.
_AT_ONCE = threading.BoundedSemaphore(2)
_WAIT_SECONDS = 30.0

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
    if not _AT_ONCE.acquire(timeout=_WAIT_SECONDS):
        raise Unavailable("Other searches are running; try again", headers={"Retry-After": "5"})
    try:
        answer = _answer(asked, free, Desk(request.app.state.database, caller), began)
    finally:
        _AT_ONCE.release()
    return Response(answer.model_dump_json(), media_type=JSON_TYPE)


def _answer(asked: PlanRequest, free: space.Space, desk: Desk, began: float) -> PlanAnswer:
    try:
        outcome = search.search(
            asked.spec,
            free,
            Limits(deadline_seconds=asked.deadline_seconds, budget_device_hours=asked.budget_device_hours),
            desk.corrections_for,
            clock=time.monotonic,
            until=began + asked.time_budget_seconds,
        )
        found = outcome.candidates
        price = _prices(outcome) if asked.objective == "cost" else None
        keys = {"device_hours": found.device_hours, "wall_clock": found.wall_clock_seconds}
        by = keys[asked.objective] if price is None else found.wall_clock_seconds * price
        best = search.ranked(found, by)[: asked.limit]
        plans = [_plan(outcome, free, desk, int(row), rank) for rank, row in enumerate(best, start=1)]
    except Invalid as problem:
        raise _within_spec(problem) from problem
    front = search.pareto(found)[:MOST_PARETO]
    return PlanAnswer(
        plans=plans,
        pareto=[_front(outcome, free, int(row)) for row in front],
        rejected={name: count for name, count in sorted(outcome.rejected.items()) if count},
        searched=outcome.searched,
        elapsed_seconds=time.monotonic() - began,
        complete=outcome.complete,
        held={} if outcome.held_global_batch_size is None else {"global_batch_size": outcome.held_global_batch_size},
        warnings=_warnings(asked, outcome, found, len(front)),
    )


def _within_spec(problem: Invalid) -> Invalid:
    """A fault of the spec, pointed at from the body."""
    own = ("/free", "/objective")
    errors = [fault if fault.pointer.startswith(own) else Fault("/spec" + fault.pointer, fault.detail) for fault in problem.errors]
    return Invalid(problem.detail, errors=errors)


def _plan(outcome: Outcome, free: space.Space, desk: Desk, row: int, rank: int) -> Plan:
    spec = search.chosen(outcome, free, row)
    quote = desk.price(spec).quote
    run = outcome.runs[int(outcome.candidates.choice[row])]
    assert run is not None
    return Plan(rank=rank, spec=spec, chosen=_values(outcome, free, row), summary=quote["summary"], cost=_cost(run, quote))


def _front(outcome: Outcome, free: space.Space, row: int) -> Front:
    found = outcome.candidates
    return Front(
        chosen=_values(outcome, free, row),
        wall_clock_seconds=float(found.wall_clock_seconds[row]),
        device_hours=float(found.device_hours[row]),
        headroom_bytes=float(found.headroom_bytes[row]),
        spec=search.chosen(outcome, free, row),
    )


def _values(outcome: Outcome, free: space.Space, row: int) -> dict[str, Any]:
    found = outcome.candidates
    spec = outcome.specs[int(found.choice[row])]
    values: dict[str, Any] = {name: int(column[row]) for name, column in found.axes.items()}
    for name in free.choices:
        part: Any = spec
        for step in name.split("."):
            part = part.get(step) if isinstance(part, Mapping) else None
        values[name] = part
    return values


def _rate(run: Run) -> tuple[Decimal, str] | None:
    """The price of a device-hour on the run's device, and its currency."""
    name = None if run.hardware is None else run.hardware.device.name
    for rate in run.rates:
        if rate.resource == "device_hour" and rate.device in (None, name):
            return Decimal(rate.amount), rate.currency
    return None


def _prices(outcome: Outcome) -> Any:
    """Money per second of wall clock for each candidate's choice."""
    prices: list[float] = []
    currencies: set[str] = set()
    for run in outcome.runs:
        rate = None if run is None else _rate(run)
        if run is not None and rate is None:
            raise Invalid(
                "objective: cost needs a device_hour rate",
                errors=[Fault("/objective", "cost needs a device_hour rate of every device in spec.rates")],
            )
        if run is None or rate is None or run.hardware is None:
            prices.append(float("inf"))
            continue
        currencies.add(rate[1])
        prices.append(float(rate[0]) * run.hardware.device_count / 3600.0)
    if len(currencies) > 1:
        raise Invalid(
            "objective: rates in several currencies",
            errors=[Fault("/objective", "the rates are in several currencies, which are not converted")],
        )
    return np.asarray(prices, dtype=np.float64)[outcome.candidates.choice]


def _cost(run: Run, quote: Mapping[str, Any]) -> dict[str, str] | None:
    rate = _rate(run)
    hours = next((item["expected"] for item in quote["items"] if item["code"] == "device_hours.run"), None)
    if rate is None or hours is None:
        return None
    return {"amount": f"{rate[0] * Decimal(repr(hours)):.2f}", "currency": rate[1]}


def _warnings(asked: PlanRequest, outcome: Outcome, found: Candidates, front: int) -> list[Note]:
    notes: list[Note] = []
    if "efficiency" in asked.spec:
        notes.append(
            Note(
                code="efficiency_left_out",
                detail="a search predicts the time of every layout: efficiency is left out of the plans",
                pointer="/spec/efficiency",
            )
        )
    if len(found) and not found.certain.any():
        notes.append(
            Note(code="none_certain_to_fit", detail="every layout's memory interval reaches beyond the device's memory", pointer=None)
        )
    devices = {run.hardware.device.name for run in outcome.runs if run is not None and run.hardware is not None}
    if len(devices) > 1 and asked.objective == "device_hours":
        notes.append(
            Note(
                code="unlike_devices",
                detail="device-hours of unlike devices are not equivalent: rank by wall_clock or cost",
                pointer="/objective",
            )
        )
    if front == MOST_PARETO:
        notes.append(Note(code="pareto_cut", detail=f"the fastest {MOST_PARETO} of the Pareto front", pointer=None))
    return notes
