"""Bodies of the accuracy endpoints."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from service.kit.documents import RequestModel
from service.learning.statistics import Summary

WINDOW = r"^[1-9][0-9]{0,3}[dw]$"

Window = Annotated[str, Field(pattern=WINDOW, description="Days or weeks up to today (UTC): `30d`, `8w`. Left out: all of history.")]


def days(window: str | None) -> int | None:
    """Days of a window."""
    return None if window is None else int(window[:-1]) * (7 if window.endswith("w") else 1)


class Figures(BaseModel):
    """Error figures of a group of runs; an error is |estimated / measured - 1| as a fraction, a rate inverted first."""

    n: int = Field(description="Measured runs.")
    bias: float = Field(description="Median of ln(measured / estimated).")
    median_absolute_percentage_error: float = Field(description="The error that half of the runs stay below.")
    p90_absolute_percentage_error: float = Field(description="The error that nine of ten runs stay below.")


def figures(summary: Summary) -> dict[str, Any]:
    """The figures that every table of errors has."""
    return {
        "n": summary.n,
        "bias": summary.bias,
        "median_absolute_percentage_error": summary.median_absolute_percentage_error,
        "p90_absolute_percentage_error": summary.p90_absolute_percentage_error,
    }


class AccuracyRow(Figures):
    """The figures of one group and code."""

    group: dict[str, str | None] = Field(description="What the row is about: a value for each `group_by`.")
    code: str
    interval_coverage: float | None = Field(description="Share of runs inside their quote's interval; null where no quote had one.")
    coverage_low: float | None = Field(description="Wilson's 95 % interval of that share.")
    coverage_high: float | None
    pinball_loss: float | None = Field(description="Mean loss of the intervals' ends, in logs: 0.1 is about 10 % of the quantity.")
    drift: bool | None = Field(description="Whether a change in bias was found; null where too few runs tell.")
    drift_since: datetime | None = Field(description="The first run of the latest change.")
    drift_direction: Literal["up", "down"] | None = Field(description="Whether measured over estimated rose or fell.")
    exact: bool = Field(description="False: from daily histograms, within 2 % of the exact figures.")


class Accuracy(BaseModel):
    """Figures by group and code."""

    rows: list[AccuracyRow]


class CalibrationRequest(RequestModel):
    """What a calibration is learnt from."""

    window: Window | None = None
    half_life_runs: float = Field(
        default=30, ge=1, le=10_000, description="After how many newer runs of its cell a run weighs half as much.", strict=False
    )


class FactorRow(BaseModel):
    """What a driver's estimate is multiplied by in one cell."""

    cell: str = Field(description="`global`, a device and stack, a team and cluster there, or a method and family there.")
    code: str = Field(description="The corrected driver.")
    factor: float = Field(description="measured / estimated, as learnt.")
    n: int = Field(description="Runs it rests on.")
    low: float = Field(description="Of the corrected value: where the 80 % interval begins.")
    high: float = Field(description="Where it ends.")


class Calibration(BaseModel):
    """A version of the corrections; it never changes."""

    version: str = Field(description="What a spec's `calibration` names.", examples=["v3"])
    created_at: datetime
    window: str | None
    half_life_runs: float
    evidence: int = Field(description="Measurements it was learnt from.")
    factors: list[FactorRow]


class CalibrationPage(BaseModel):
    """A page of calibrations, newest first."""

    items: list[Calibration]
    next_cursor: str | None


class BacktestRequest(RequestModel):
    """What history is replayed."""

    window: Window | None = None
    code: Annotated[str, Field(max_length=80, description="One item alone.")] | None = None


class BacktestRow(Figures):
    """How one engine would have done for one code."""

    engine: Literal["uncalibrated", "calibrated", "last_similar"]
    code: str
    common: Figures | None = Field(description="The same over the runs that every engine could predict.")


class Backtest(BaseModel):
    """The engines side by side."""

    rows: list[BacktestRow]
