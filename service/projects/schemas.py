"""Bodies of the project endpoints."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StringConstraints

from service.kit.documents import RequestModel

from .ledger import Outcome, Stage

Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Text = Annotated[str, StringConstraints(max_length=4000)]
Hours = Annotated[float, Field(ge=0, le=1e15)]
Count = Annotated[int, Field(ge=0, lt=2**63)]
Price = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,12}(\.[0-9]{1,9})?$")]


class RateBody(RequestModel):
    """A price, as the caller knows it."""

    resource: Literal["device_hour", "cpu_hour", "storage_gib_month", "human_hour"]
    amount: Price = Field(description="A decimal number as text.", examples=["2.49"])
    currency: Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")]
    device: Name | None = Field(default=None, description="The device it holds for; left out: any.")
    source: Text | None = None
    date: Annotated[str, StringConstraints(max_length=40)] | None = None


class ProjectBody(RequestModel):
    """A project."""

    name: Name = Field(description="What quotes name in `project`; unique within the team.")
    description: Text | None = None
    rates: Annotated[list[RateBody], Field(max_length=200)] = Field(default=[], description="Prices; without them there is no money.")


class Project(BaseModel):
    """A project as it is stored."""

    id: str
    created_at: datetime
    name: str
    description: str | None
    rates: list[dict[str, Any]]


class ProjectPage(BaseModel):
    """A page of projects, newest first."""

    items: list[Project]
    next_cursor: str | None


class EffectBody(RequestModel):
    """A metric that was reached."""

    metric: Name
    value: float
    better: Literal["higher", "lower"] | None = Field(default=None, description="Left out: as the metric's name suggests; the ledger says.")


class EntryBody(RequestModel):
    """Something the project spent."""

    stage: Stage
    outcome: Outcome = "completed"
    final: bool = Field(default=False, description="The run that is shown in the end.")
    exploration: bool | None = Field(
        default=None, description="Whether it is one of the runs among which the final one was chosen. Left out: every training run is."
    )
    name: Name | None = None
    option: Name | None = Field(default=None, description="Entries of one option are compared as one.")
    device: Name | None = None
    device_hours: Hours | None = None
    device_count: Count | None = Field(default=None, description="With `hours`, instead of `device_hours`.")
    hours: Hours | None = None
    cpu_hours: Hours | None = None
    human_hours: Hours | None = None
    tokens: Count | None = None
    bytes: Count | None = None
    effect: EffectBody | float | Annotated[dict[Name, float], Field(max_length=100)] | None = Field(
        default=None, description="A metric the caller names: `{metric, value, better}`, values by metric, or a bare number."
    )
    quote_id: Name | None = Field(
        default=None, description="A quote of this run. Its measured attempts are then this entry's, and are not counted again."
    )
    corrects: Name | None = Field(default=None, description="The id of an entry that this one replaces.")
    note: Text | None = None


class Entry(BaseModel):
    """An entry as it is stored."""

    id: str
    created_at: datetime
    stage: str
    outcome: str
    final: bool
    exploration: bool | None
    name: str | None
    option: str | None
    device: str | None
    device_hours: float | None
    cpu_hours: float | None
    human_hours: float | None
    tokens: int | None
    bytes: int | None
    effect: list[dict[str, Any]] | None
    quote_id: str | None
    corrects: str | None
    note: str | None


class Spent(BaseModel):
    """Amounts; null: no entry says anything of it. Device-hours are by device kind and never added."""

    entries: int
    device_hours: dict[str, float]
    cpu_hours: float | None
    human_hours: float | None
    tokens: int | None
    bytes: int | None


class StageSpent(Spent):
    """What a stage spent."""

    stage: str


class OutcomeSpent(Spent):
    """What runs of one outcome spent."""

    outcome: str


class Explorations(Spent):
    """Runs among which the final one was chosen, and the final one where it is one of them."""

    unsuccessful: int
    without_final: Spent


class Final(Spent):
    """The run that is shown in the end."""

    share: dict[str, Any] | None = Field(description="Its part of all that was spent, by resource and device kind.")
    is_exploration: bool | None
    reason: str | None


class Ledger(BaseModel):
    """Everything a project spent."""

    project: Project
    totals: Spent
    stages: list[StageSpent]
    outcomes: list[OutcomeSpent]
    explorations: Explorations
    final: Final
    money: list[dict[str, Any]] = Field(description="By currency, from the project's rates; null where something spent has none.")
    options: dict[str, Any] = Field(description="Options by effect and cost; `pareto`: none is at least as good and as cheap in all.")
    notes: list[str]
    entries: list[dict[str, Any]] = Field(description="The entries, oldest first; `measured`: from a quote's actuals.")
