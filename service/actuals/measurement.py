"""Measurements as plain data. Readers find ``Attempt``s with ``Value``s; recording numbers them into ``Measurement``s, which are
compared with the quote; a ``KeptMeasurement`` is one as it is stored, with what the quote said of it, and accuracy follows those.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

Outcome = Literal["completed", "failed", "cancelled", "preempted", "timeout"]
Phase = Literal["startup", "training", "evaluation", "checkpointing", "data", "restarts"]
Scope = Literal["rank0", "max", "sum"]
Exclusion = Literal["warmup", "first_step", "compile"]
AllocationBasis = Literal["allocated", "utilized"]

OUTCOMES: tuple[Outcome, ...] = ("completed", "failed", "cancelled", "preempted", "timeout")

# What may be said of a measurement. The first two are the caller's to say; the others are added where they are seen.
FLAGS: Mapping[str, str] = {
    "shared_device": "other jobs used the same devices while this was measured",
    "host_timed": "timed on the host without waiting for the device",
    "first_step_included": "the first step, which allocates, compiles and warms up, is part of the average",
    "includes_overheads": "evaluation, saving or other pauses are part of the time",
    "sampled": "sampled at intervals: a peak between two samples is missed",
    "window_only": "covers a recorded window only",
    "padding_unknown": "the tool does not say whether padding is counted",
    "device_count_from_quote": "the document does not say how many devices; the quote's number was used",
    "elapsed_differs_from_window": "elapsed and end minus start differ (suspension): elapsed is used",
    "zone_assumed": "the times in the document have no zone and were taken as UTC",
    "over_time_limit": "ran much longer than its time limit",
    "earlier_attempts_missing": "the job was restarted, and the document lacks its earlier attempts",
    "retries_not_counted": "failed tries of the job are not in the document",
    "outcome_inferred": "the document does not state how the attempt ended",
    "device_count_differs": "ran on another number of devices than quoted",
    "below_lower_bound": "faster than the quote's lower bound at the device's peak",
    "above_device_memory": "slightly above what the device's driver reports",
    "above_peak": "above the device's dense peak",
    "far_from_estimate": "more than 30 times off the estimate: a unit or the wrong run is likelier than an error of the estimate",
    "longer_than_window": "longer than the attempt's end minus start",
    "allocated_above_reserved": "allocated memory above reserved memory of the same attempt",
    "several_completed": "several attempts completed all steps: repeats of the run rather than parts of it",
}

GIB = 2**30
MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One measured value in the unit of its contract code."""

    code: str
    value: float
    method: str
    scope: Scope | None = None  # over ranks
    excludes: tuple[Exclusion, ...] = ()
    basis: AllocationBasis | None = None
    corrects: str | None = None  # id of the measurement that this one replaces
    flags: tuple[str, ...] = ()
    repeats: int | None = None  # how many readings the value stands for
    spread: float | None = None  # (largest - smallest) / median of those readings


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try of a run: how it ended, what it covers, and what was measured.

    ``attempt`` is None where the document cannot number it. ``covers`` is None where nothing says what is covered.
    ``steps_completed`` is the optimizer step that was reached. Times are UTC.
    """

    source: str
    outcome: Outcome
    attempt: int | None = None
    covers: tuple[Phase, ...] | None = None
    steps_completed: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    device_count: int | None = None
    job_id: str | None = None
    values: tuple[Value, ...] = ()
    job_names: tuple[str, ...] = ()  # other names of the same job: array notation, with its cluster
    quote_ids: tuple[str, ...] = ()  # quotes the job itself names (a comment "quote:ID")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One measured value with the attempt it belongs to, numbered: what is kept, compared and learnt from."""

    id: str
    source: str
    attempt: int
    outcome: str
    code: str
    value: float
    method: str
    scope: str | None = None
    basis: str | None = None
    covers: tuple[str, ...] | None = None  # None: not said
    excludes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    steps_completed: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    device_count: int | None = None
    job_id: str | None = None
    corrects_id: str | None = None
    repeats: int | None = None
    spread: float | None = None

    @property
    def group(self) -> tuple[str, str, str, str]:
        """Values that are put together: one code by one method of one source over one scope."""
        return (self.code, self.source, self.method, self.scope or "")

    @property
    def speaks_of_training(self) -> bool:
        """A completed attempt unless it says otherwise; any other only if it says that it covers training."""
        return self.covers_one_of(("training",))

    def covers_one_of(self, phases: Collection[str]) -> bool:
        """Whether the attempt covers one of the phases; where it does not say, whether it completed."""
        if self.covers is None:
            return self.outcome == "completed"
        return not set(phases).isdisjoint(self.covers)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotedFigures:
    """What the quote said of the measured code, copied beside the value; None where it said nothing of it."""

    expected: float | None
    low: float | None
    high: float | None
    uncalibrated: float | None  # before calibration; the expected value where nothing was calibrated
    interval_coverage: float | None  # which share of runs the quote meant to lie between low and high


@dataclass(frozen=True, slots=True, kw_only=True)
class QuoteKeys:
    """What figures of accuracy are grouped by, from the quote."""

    device: str | None
    model: str | None
    model_family: str | None
    training_method: str
    stack: str | None
    engine_version: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a group of values (one code by one method of one source) says of the quote: the figure that accuracy is kept of."""

    value: float
    log_ratio: float | None  # ln(value / estimated); of a bound: what it is at least
    censored: bool  # the run did not finish: a lower bound
    spec_drift: float | None  # log of the part of the ratio that steps, tokens and devices explain; None where unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptMeasurement:
    """A measurement as it is kept: when, of which quote, beside which estimate, and what its group says once it is there."""

    measurement: Measurement
    team_id: str
    quote_id: str
    created_at: datetime
    observed_at: datetime  # the attempt's end; when it was recorded where that is not known
    quoted: QuotedFigures
    keys: QuoteKeys
    observation: Observation | None = None
    replaces_id: str | None = None  # whose word of the group this one's observation takes the place of


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """A part of a document that was not taken as a measurement, and why."""

    pointer: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a reader found in one document."""

    attempts: tuple[Attempt, ...]
    ignored: tuple[Ignored, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What the caller or the quote says beside the document; a reader never asks anything else."""

    device_count: int | None = None  # the caller's word
    quoted_device_count: int | None = None  # the quote's: used with a flag
    outcome: Outcome | None = None
    query: str | None = None  # the query a metrics server answered


class Unreadable(ValueError):
    """A document that is not what its format says; ``pointer`` is relative to the document."""

    def __init__(self, detail: str, pointer: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.pointer = pointer


@dataclass(slots=True)
class Collector:
    """Values and ignored parts gathered while one attempt is read."""

    values: list[Value] = field(default_factory=list)
    ignored: list[Ignored] = field(default_factory=list)

    def ignore(self, pointer: str, detail: str) -> None:
        """Note a part that is not a measurement."""
        self.ignored.append(Ignored(pointer=pointer, detail=detail))


def utc(value: datetime) -> datetime:
    """The instant in UTC; a time without a zone is taken as UTC."""
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
