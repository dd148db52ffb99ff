"""What a quote's predicted step time rests on: the measured runs most like it, their sources, how they differ."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from service.catalog import evidence
from service.estimation import parameters, step_time
from service.estimation.fitted.step_time import FITTED_ON
from service.estimation.run import Run


class Difference(BaseModel):
    """A fact in which the quoted and the measured run differ."""

    field: str
    run: Any = Field(description="Of the quoted run.")
    measured_run: Any = Field(description="Of the measured one.")


class Source(BaseModel):
    """Where a measurement was published."""

    repo: str | None = Field(default=None, description="On GitHub; else `arxiv` or `url` says where.")
    path: str | None = None
    commit: str | None = None
    config: str | None = None
    arxiv: str | None = None
    url: str | None = None
    table: str | None = None


class MeasuredRun(BaseModel):
    """A published measurement of a run like the quoted one."""

    id: str
    source: Source
    group: str = Field(description="Near-identical rows share one; at most one row of each is listed.")
    tags: list[str] = Field(description="What had to be assumed of it.")
    measured: dict[str, float] = Field(description="As published, by item code.")
    step_seconds: float = Field(description="The seconds of a step that follow.")
    distance: float = Field(description="How unlike it is; it only ranks.")
    differences: list[Difference]


class Evidence(BaseModel):
    """The measured runs nearest to a quote's."""

    items: list[MeasuredRun] = Field(description="The nearest first.")
    interval_basis: str | None = Field(description="What the interval of a predicted step time rests on; null where it is not predicted.")
    fitted_on: str = Field(description="All measurements that the step-time model was fitted on.")


def of(run: Run, limit: int) -> dict[str, Any]:
    """The answer for a run."""
    counts = parameters.count(run)
    predicted = None if run.efficiency.given else step_time.predict(run, counts)
    return {
        "items": [near.as_json() for near in evidence.nearest(run, counts, limit)],
        "interval_basis": None if predicted is None else predicted.basis,
        "fitted_on": FITTED_ON,
    }
