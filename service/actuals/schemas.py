"""What actuals look like on the wire."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, JsonValue, model_validator

from service.kit.documents import Moment, RequestModel

from .measurement import FLAGS, AllocationBasis, Exclusion, Outcome, Phase, Scope
from .readers import Format
from .readers.slurm import MOST_JOBS


def _text_only(value: Any) -> Any:
    if value is not None and not isinstance(value, str):
        raise ValueError("a time is RFC 3339 text")
    return value


# Bodies are strict (text is no number); a moment is always written as text.
BodyMoment = Annotated[Moment, Field(strict=False), BeforeValidator(_text_only)]

Count = Annotated[int, Field(ge=1, le=2**53)]


MOST_NOTES = 1000  # parts of a document that were not taken: as many are told
MOST_ATTEMPTS = 1000  # of one run in one document
DOCUMENT_LIMITS = (
    f"The tool's own output: JSON, or text as a string. At most {MOST_JOBS} attempts of jobs in all and {MOST_ATTEMPTS} of one run (422)."
)


class ExternalReference(RequestModel):
    """The job in the caller's own system, as the run spec names it."""

    system: str = Field(min_length=1, max_length=200)
    id: str = Field(min_length=1, max_length=200)


class MeasuredValue(RequestModel):
    """One measured value, in the unit of the item of that code."""

    code: str = Field(min_length=1, max_length=80, description="An item of the quote, such as `device_hours.run`.")
    value: float = Field(le=1e300, description="In the unit of the item of that code: bytes, seconds, device-hours, tokens, FLOPs.")
    method: str = Field(default="not stated", min_length=1, max_length=200, description="How it was measured.")
    scope: Scope | None = Field(default=None, description="Over ranks: rank 0 alone, the maximum or the sum.")
    excludes: list[Exclusion] | Exclusion = Field(default=[], description="What was left out of an average.")
    basis: AllocationBasis | None = Field(default=None, description="Of hours: devices allocated, or weighted with their utilization.")
    corrects: str | None = Field(default=None, max_length=36, description="The measurement that this one replaces; both are kept.")
    flags: list[Literal["shared_device", "host_timed"]] = Field(
        default=[], max_length=2, description="`shared_device`: " + FLAGS["shared_device"] + "; `host_timed`: " + FLAGS["host_timed"] + "."
    )
    repeats: int | None = Field(default=None, ge=1, le=2**31 - 1, description="How many readings the value stands for.")
    spread: float | None = Field(default=None, ge=0, le=1e30, description="(largest - smallest) / median of those readings.")

    @property
    def exclusions(self) -> tuple[Exclusion, ...]:
        """What was left out, as a list whichever way it was given."""
        return (self.excludes,) if isinstance(self.excludes, str) else tuple(self.excludes)


class Actuals(RequestModel):
    """What one attempt of a run measured: values by code, or a tool's own file as it is.

    With a document, the other fields say what it leaves open (how many devices, how the run ended, which job of several).
    """

    attempt: int | None = Field(default=None, ge=1, le=2**31 - 1, description="Counts the tries of a run; 1 where it is left out.")
    outcome: Outcome | None = Field(default=None, description="How the attempt ended; `completed` where it is left out.")
    covers: list[Phase] | None = Field(
        default=None,
        max_length=6,
        description="Which phases the values cover. An attempt that did not complete counts in the error of a whole-run estimate "
        "only if it says that it covers `training`.",
    )
    steps_completed: int | None = Field(default=None, ge=0, le=2**53, description="The optimizer step that was reached.")
    started_at: BodyMoment | None = None
    ended_at: BodyMoment | None = None
    device_count: Count | None = None
    source: str | None = Field(default=None, min_length=1, max_length=60, description="Who measured: `slurm`, `hf_trainer`, ...")
    job_id: str | None = Field(default=None, min_length=1, max_length=200, description="The job; of a document with several, which one.")
    measurements: list[MeasuredValue] = Field(default=[], max_length=500)
    format: Format | None = Field(default=None, description="What `document` is.")
    document: JsonValue = Field(default=None, description=DOCUMENT_LIMITS)

    @model_validator(mode="after")
    def _one_of_both(self) -> Actuals:
        if (self.format is None) != (self.document is None):
            raise ValueError("`format` and `document` go together")
        if self.format is not None and self.measurements:
            raise ValueError("give measurements or a document, not both")
        return self


class ReferencedActuals(Actuals):
    """Actuals of the newest quote for a job: named by `external_ref`, or by the document itself."""

    external_ref: ExternalReference | None = None


class StoredMeasurement(BaseModel):
    """A measurement as it is kept."""

    id: str
    quote_id: str
    created_at: str
    attempt: int
    outcome: Outcome
    covers: list[Phase] | None
    steps_completed: int | None
    started_at: str | None
    ended_at: str | None
    device_count: int | None
    source: str
    job_id: str | None
    code: str
    value: float
    method: str
    scope: Scope | None
    excludes: list[Exclusion]
    basis: AllocationBasis | None
    corrects: str | None
    flags: list[str] = Field(description="What should be known before the value is trusted.")
    repeats: int | None
    spread: float | None
    estimated: float | None = Field(description="The quote's item of that code.")
    log_ratio: float | None = Field(description="ln(measured / estimated) of the run, where this row settled it.")
    censored: bool = Field(description="Whether the run did not finish, so that the value is a lower bound.")


class IgnoredPart(BaseModel):
    """A part of a document that is not a measurement."""

    pointer: str
    detail: str


class Recorded(BaseModel):
    """The measurements of the request, as they are kept."""

    items: list[StoredMeasurement]
    ignored: list[IgnoredPart] = Field(
        max_length=MOST_NOTES + 1, description=f"Parts of the document that were not taken, and why; after {MOST_NOTES} how many more."
    )


class MeasurementPage(BaseModel):
    """Measurements, newest first."""

    items: list[StoredMeasurement]
    next_cursor: str | None


class ComparisonRow(BaseModel):
    """One code by one method: estimated and measured in separate columns."""

    code: str
    estimated: float | None
    low: float | None
    high: float | None
    measured: float
    ratio: float | None = Field(description="measured / estimated; null where the run did not finish, so that there is only `bound_ratio`.")
    log_ratio: float | None
    within_interval: bool | None
    method: str
    attempts: int = Field(description="How many attempts the measured value is made of.")
    derived: bool = Field(description="Whether it follows from a measurement of another code.")
    bound: Literal["lower", "upper"] | None = Field(
        description="`lower`: the run did not finish. `upper`: derived from a whole that holds more."
    )
    bound_ratio: float | None
    projected: float | None = Field(description="An unfinished run scaled to all its steps.")
    projected_ratio: float | None
    source: str | None
    scope: Scope | None
    basis: AllocationBasis | None
    attempt_numbers: list[int]
    excludes: list[str]
    flags: list[str]
    repeats: int | None = Field(description="How many readings the value stands for.")
    spread: float | None = Field(description="(largest - smallest) / median of those readings, the widest of the attempts.")
    measurement_ids: list[str]


class DecompositionPart(BaseModel):
    """One factor of a time error."""

    name: Literal["spec_drift", "efficiency", "operations"]
    factor: float | None
    log: float | None
    reason: str | None
    detail: Any = None


class Unseparated(BaseModel):
    """The product of the factors that nothing told apart."""

    of: list[str]
    factor: float


class Decomposition(BaseModel):
    """measured / estimated of a time as a product of spec drift, efficiency and operations."""

    code: str
    method: str
    ratio: float
    log_ratio: float | None
    parts: list[DecompositionPart]
    unseparated: Unseparated | None


class AttemptFigures(BaseModel):
    """What was lost to attempts that did not complete."""

    lost: int
    lost_device_hours: float | None
    waits_seconds: float | None = Field(description="Between the end of an attempt and the start of the next.")


class NotCounted(BaseModel):
    """A value that is kept but is not set beside the estimate."""

    code: str
    value: float
    method: str
    source: str
    attempt: int
    outcome: Outcome
    reason: str


class Comparison(BaseModel):
    """A quote beside what was measured."""

    rows: list[ComparisonRow]
    decomposition: Decomposition | None
    attempts: AttemptFigures
    not_counted: list[NotCounted]
