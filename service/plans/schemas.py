"""What the plan endpoint takes and answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, JsonValue

from service.kit.documents import RequestModel
from service.quotes.schemas import Summary

Objective = Literal["device_hours", "wall_clock", "cost"]


class PlanRequest(RequestModel):
    """A run spec, and what of it is free."""

    spec: dict[str, Any] = Field(description="A run spec as for `POST /v1/quotes`; what is free may be left out of it.")
    free: dict[str, Annotated[list[JsonValue], Field(max_length=256)]] = Field(
        description="Fields of the spec by dotted name (`parallelism.tensor`), each with the values to try."
    )
    objective: Objective = Field(default="device_hours", description="What plans are ranked by; `cost` needs a device_hour rate.")
    deadline_seconds: Annotated[float, Field(gt=0)] | None = Field(default=None, description="The whole job's wall clock at most.")
    budget_device_hours: Annotated[float, Field(gt=0)] | None = Field(default=None, description="`device_hours.run` at most.")
    limit: Annotated[int, Field(ge=1, le=100)] = Field(default=10, description="Plans to answer.")
    time_budget_seconds: Annotated[float, Field(gt=0, le=60)] = Field(default=10, description="Search no longer than this.")


class Plan(BaseModel):
    """One layout that fits."""

    rank: int
    spec: dict[str, Any] = Field(description="Post it to `POST /v1/quotes` for the quote with these figures.")
    chosen: dict[str, JsonValue] = Field(description="The free fields with their values.")
    summary: Summary
    cost: dict[str, str] | None = Field(default=None, description="Amount and currency of `device_hours.run` at the given rate.")


class Front(BaseModel):
    """One layout that no other beats in wall clock, device-hours and memory head-room together."""

    chosen: dict[str, JsonValue]
    wall_clock_seconds: float
    device_hours: float
    headroom_bytes: float = Field(description="The device's memory less the expected peak of the process; negative where uncertain.")
    spec: dict[str, Any]


class Note(BaseModel):
    """Something to know before trusting the ranking."""

    code: str
    detail: str
    pointer: str | None = None


class PlanAnswer(BaseModel):
    """The ranked plans, and why the others are not among them."""

    plans: list[Plan]
    pareto: list[Front]
    rejected: dict[str, int] = Field(description="Layouts put aside, by the first reason that held.")
    searched: int = Field(description="Layouts evaluated, the rejected ones included.")
    elapsed_seconds: float
    complete: bool = Field(description="False where the time budget ended the search early.")
    held: dict[str, int] = Field(description="What the search keeps so that the training stays the same.")
    warnings: list[Note]
