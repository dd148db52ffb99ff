"""What quotes look like on the wire. Answers are written as JSON text by the repository; these models document them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from service.kit.api import ProblemBody
from service.kit.documents import RequestModel

Status = Literal["open", "superseded", "measured"]
Basis = Literal["formula", "prior", "calibrated", "pilot", "given"]


class Parameters(BaseModel):
    """Parameter counts. `total` excludes adapters; a tied head is reported, not added twice."""

    model_config = ConfigDict(extra="allow")

    total: int
    active: int
    trainable: int | None
    embedding: int | None
    lm_head: int | None
    lm_head_tied: bool | None
    non_embedding: int | None
    experts: int | None
    adapters: int | None
    per_layer: list[int] = Field(description="Distinct sizes of layers.")


class Resolved(BaseModel):
    """What follows from the spec before anything is priced."""

    model_config = ConfigDict(extra="allow")

    parameters: Parameters
    data_parallel_size: int
    global_batch_size: int
    steps: int | None


class Interval(BaseModel):
    """An expected value with the bounds of the run's `interval_coverage`; null where it cannot be computed."""

    model_config = ConfigDict(extra="allow")

    lower_bound: float | None = Field(default=None, description="What no real run can beat: the arithmetic at peak speed.")
    expected: float | None
    low: float | None
    high: float | None


class Summary(BaseModel):
    """The figures that a reader looks for first."""

    model_config = ConfigDict(extra="allow")

    training_flops: float | None
    mfu_convention: Literal["6nd", "causal", "full_attention"] | None
    device_hours: Interval
    wall_clock_seconds: Interval
    total_budget_device_hours: Interval
    peak_memory_bytes_per_device: Interval
    peak_phase: str | None
    peak_stage: int | None
    fits: bool | Literal["uncertain"] | None
    storage_bytes: Interval


class Item(BaseModel):
    """One named quantity. Parts name their `parent` and add up to it exactly."""

    model_config = ConfigDict(extra="allow")

    code: str
    section: str
    quantity: str
    expected: float | None = Field(description="Null exactly where `reason` says why.")
    lower_bound: float | None
    low: float | None
    high: float | None
    basis: Basis
    formula: str
    assumptions: list[str]
    parent: str | None
    reason: str | None


class MemoryPhase(BaseModel):
    """Bytes that are live in one phase of a step on one pipeline stage."""

    model_config = ConfigDict(extra="allow")

    phase: str
    pipeline_stage: int
    allocated_bytes: float
    parts: dict[str, float]


class QuoteWarning(BaseModel):
    """Something to know before the quote is trusted."""

    code: str
    detail: str
    pointer: str | None


class Alternative(BaseModel):
    """A change to the spec, and what it would do."""

    model_config = ConfigDict(extra="allow")

    change: dict[str, Any] = Field(description="A JSON merge patch (RFC 7396) of the run spec; the global batch stays.")
    peak_memory_bytes_per_device_delta: float | None = Field(default=None, description="Of `memory.peak_process`: capacity.")
    peak_memory_bytes_per_device: float | None = Field(
        default=None, description="`memory.peak_process` with the change; its interval fits."
    )
    device_hours_ratio: float | None = Field(default=None, description="`device_hours.training` with the change over that without.")
    throughput_ratio: float | None = Field(default=None, description="How many times as fast the same job is done.")
    host_memory_bytes_per_device: float | None = Field(
        default=None, description="`host_memory.offload` with the change, where it offloads."
    )
    note: str | None = Field(default=None, description="What to know before taking it.")


PilotCode = Literal[
    "time.step",
    "throughput.input_tokens_per_second",
    "memory.peak_allocated",
    "memory.peak_reserved",
    "memory.peak_process",
]


class PilotMeasurement(RequestModel):
    """One measured value of a pilot: a short run with the layout of the real one."""

    code: PilotCode
    value: float = Field(gt=0, le=1e30, description="In the unit of the item of that code.")
    method: str | None = Field(default=None, max_length=200, description="How it was measured.")
    scope: Literal["rank0", "max", "sum"] | None = None
    basis: Literal["allocated", "utilized"] | None = None
    excludes: list[Literal["warmup", "first_step", "compile"]] | None = Field(default=None, max_length=3)


class Pilot(RequestModel):
    """What a pilot measured; it replaces the priors of the quote."""

    measurements: list[PilotMeasurement] = Field(min_length=1, max_length=20)


class Quote(BaseModel):
    """The budget of a training run, item by item. It never changes once stored, but for its `status`."""

    model_config = ConfigDict(extra="allow")

    id: str | None = Field(description="Null for a preview.")
    created_at: str | None = Field(description="RFC 3339, UTC; null for a preview.")
    engine_version: str
    calibration_version: str | None
    status: Status
    supersedes_id: str | None
    spec: dict[str, Any] = Field(description="As received, every default filled in; posted again it gives the same items.")
    provenance: dict[str, str] = Field(description="Where each value of the spec came from, by JSON Pointer.")
    resolved: Resolved
    summary: Summary
    items: list[Item]
    memory_phases: list[MemoryPhase]
    saved_bytes_per_layer: list[float] | None
    warnings: list[QuoteWarning]
    alternatives: list[Alternative]
    pilot: Pilot | None = Field(default=None, description="What a pilot measured, where the quote rests on one.")


class QuotePage(BaseModel):
    """Quotes, newest first."""

    items: list[Quote]
    next_cursor: str | None


class Batch(RequestModel):
    """Many specs; each is priced on its own, and the good ones are stored in one transaction."""

    specs: list[Any] = Field(min_length=1, max_length=1000, description="Run specs.")


class BatchItem(BaseModel):
    """What became of one spec: a quote or a problem."""

    index: int
    quote: Quote | None = None
    problem: ProblemBody | None = None


class BatchResult(BaseModel):
    """One entry for each spec, in their order."""

    items: list[BatchItem] = Field(max_length=1000)


class Revision(RequestModel):
    """How a quote is revised: a change to its spec, measurements of a pilot, or both."""

    spec: dict[str, JsonValue] | None = Field(default=None, description="A JSON merge patch (RFC 7396) of the spec as it was received.")
    pilot: Pilot | None = None
