"""From a body to a quote that is ready to be stored: parse, ask for corrections, price, write the columns that lists filter by.

To price a run is to estimate it with the corrections that its team has learnt, and to write that down as a quote's document: every
item, not money alone. ``quoting`` is the pure part of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from fastapi.concurrency import run_in_threadpool

from service.calibrations import corrections
from service.estimation.correction import Corrections
from service.estimation.estimate import Estimate
from service.estimation.run import Run
from service.kit import documents
from service.kit.database import Database
from service.kit.documents import Body
from service.kit.identifiers import uuid7
from service.kit.packing import pack
from service.kit.problems import invalid
from service.kit.security import Caller
from service.learning.drivers import Facts, facts
from service.specs.load import parse
from service.specs.resolve import Resolved, resolve
from service.specs.spec import RunSpec

from . import quoting, repository
from .schemas import Pilot

Measurement = dict[str, Any]  # of a pilot, as it came: code, value, how it was measured

MOST_BYTES_AT_ONCE = 16 * 1024  # of a body that is priced on the event loop

MOST_SEARCHED = 100  # misfits of one request for which changes that would make them fit are looked for: ten times a quote's work each

MOST_REMEMBERED = 2  # priced runs of one request

# What a spec says of a run without changing its price.
_NAMES_OF_A_RUN = frozenset({"name", "project", "labels", "external_ref"})

# A pilot measures one of these: either says how fast the run is.
SPEEDS = frozenset({"time.step", "throughput.input_tokens_per_second"})

# What a pilot measured holds as long as nothing of the step changes: a change to these leaves it alone.
BESIDE_THE_STEP = frozenset(
    {
        *_NAMES_OF_A_RUN,
        "checkpointing",
        "data_pipeline",
        "evaluation",
        "reserves",
        "rates",
        "interval_coverage",
        "calibration",
    }
)


@dataclass(frozen=True, slots=True)
class Priced:
    """A quote that is not stored."""

    received: dict[str, Any]
    spec: RunSpec
    run: Run
    quote: dict[str, Any]  # as `quoting.document` gives it
    pilot: list[Measurement]

    def preview(self) -> bytes:
        """The quote as JSON, with `id: null`."""
        return repository.envelope(self._document(), None, engine_version=self._engine, calibration_version=self._calibration)

    def saying(self, code: str, detail: str, pointer: str | None = None) -> Priced:
        """The same with a warning of what only the quote's history shows."""
        warning = {"code": code, "detail": detail, "pointer": pointer}
        return replace(self, quote={**self.quote, "warnings": [*self.quote["warnings"], warning]})

    @property
    def _engine(self) -> str:
        return str(self.quote["engine_version"])

    @property
    def _calibration(self) -> str | None:
        version: str | None = self.quote.get("calibration_version")
        return version

    def _document(self) -> bytes:
        document = {key: value for key, value in self.quote.items() if key not in repository.ENVELOPE}
        document["pilot"] = {"measurements": self.pilot} if self.pilot else None
        return documents.encode(document, quoting.sum_of_numbers(document))

    def to_store(self, caller: Caller, supersedes_id: str | None = None) -> repository.New:
        """With an id and a moment, and the columns that lists filter by."""
        spec, run = self.spec, self.run
        hardware = run.hardware
        items = {item["code"]: item for item in self.quote["items"]}
        step = items["time.step"]
        document = self._document()
        return repository.New(
            id=uuid7(),
            team_id=caller.team_id,
            key_id=caller.key_id,
            created_at=datetime.now(UTC),
            engine_version=self._engine,
            calibration_version=self._calibration,
            supersedes_id=supersedes_id,
            received=pack(documents.encode(self.received)),
            pilot=documents.dump(self.pilot) if self.pilot else None,
            document=document,
            packed=pack(document),
            columns={
                "name": spec.name,
                "project": spec.project,
                "model": spec.model.preset or run.architecture.name or run.architecture.family,
                "model_family": run.architecture.family,
                "device": None if hardware is None else hardware.device.name,
                "device_count": None if hardware is None else hardware.device_count,
                "method": run.method.kind,
                "stack": run.software.stack,
                "external_system": None if spec.external_ref is None else spec.external_ref.system,
                "external_id": None if spec.external_ref is None else spec.external_ref.id,
                "step_basis": None if step["expected"] is None else step["basis"],
                "training_seconds": items["time.training"]["expected"],
                "wall_clock_seconds": items["time.wall_clock"]["expected"],
            },
            labels=spec.labels or {},
        )


class Desk:
    """Prices specs for one caller; what it looks up (corrections) it looks up once, and of equal runs it prices the first."""

    def __init__(self, database: Database, caller: Caller) -> None:
        self._database = database
        self._caller = caller
        self._calibrations: dict[str | None, corrections.Calibration | None] = {}
        self._misfits = 0
        self._priced: dict[bytes, tuple[corrections.Pinned, Mapping[str, Any]]] = {}  # by what of a spec decides the price

    def price(self, received: Any, *, pilot: Sequence[Measurement] = ()) -> Priced:
        """Price a run spec as it came; raises `Invalid` with a pointer to every fault."""
        spec = parse(received)
        resolved = resolve(spec)
        pinned = _pinned(self._caller, spec, resolved.run, self._calibration(spec.calibration), pilot)
        decisive = documents.encode([{name: received[name] for name in received if name not in _NAMES_OF_A_RUN}, list(pilot)])
        known = self._priced.get(decisive)
        if known is not None and known[0] == pinned:  # labels decide about corrections
            quote = {**known[1], "spec": resolved.spec, "provenance": resolved.provenance, "warnings": [*known[1]["warnings"]]}
            return Priced(received, spec, resolved.run, quote, list(pilot))
        draft = _draft(received, spec, resolved, pinned, pilot)
        if draft.misfit:
            self._misfits += 1
        priced = draft.finish(search=not draft.misfit or self._misfits <= MOST_SEARCHED)
        if len(self._priced) >= MOST_REMEMBERED:
            self._priced.clear()
        self._priced[decisive] = (pinned, {**priced.quote, "warnings": [*priced.quote["warnings"]]})
        return priced

    def corrections_for(self, received: Any, run: Run) -> Corrections:
        """What own measurements say about a run of this spec."""
        spec = parse(received)
        found = self._calibration(spec.calibration)
        return corrections.apply(found, _facts(self._caller, spec, run, {}), run.interval_coverage).factors

    def _calibration(self, wanted: str | None) -> corrections.Calibration | None:
        if wanted not in self._calibrations:
            self._calibrations[wanted] = corrections.find(self._database, self._caller.team_id, wanted)
        return self._calibrations[wanted]


@dataclass(frozen=True, slots=True)
class _Draft:
    """An estimated run; what may take long, changes that would make it fit, is not yet looked for."""

    received: Any
    spec: RunSpec
    resolved: Resolved
    pinned: corrections.Pinned
    estimate: Estimate
    pilot: Sequence[Measurement]

    @property
    def misfit(self) -> bool:
        """Whether changes that would make it fit have to be looked for."""
        return self.estimate.fits not in (True, None)

    def finish(self, *, search: bool = True) -> Priced:
        quote = quoting.document(self.resolved, self.estimate, self.pinned.factors, self.pinned.version, search=search)
        return Priced(self.received, self.spec, self.resolved.run, quote, list(self.pilot))


def _pinned(
    caller: Caller, spec: RunSpec, run: Run, calibration: corrections.Calibration | None, pilot: Sequence[Measurement] = ()
) -> corrections.Pinned:
    return corrections.apply(calibration, _facts(caller, spec, run, _values(pilot)), run.interval_coverage)


def _draft(received: Any, spec: RunSpec, resolved: Resolved, pinned: corrections.Pinned, pilot: Sequence[Measurement] = ()) -> _Draft:
    return _Draft(received, spec, resolved, pinned, quoting.estimated(resolved, pinned.factors, _values(pilot)), pilot)


def _values(pilot: Sequence[Measurement]) -> dict[str, float]:
    return {measurement["code"]: measurement["value"] for measurement in pilot}


def _facts(caller: Caller, spec: RunSpec, run: Run, pilot: Mapping[str, float]) -> Facts:
    return facts(
        team=caller.team,
        labels=spec.labels or {},
        external_id=None if spec.external_ref is None else spec.external_ref.id,
        device=None if run.hardware is None else run.hardware.device.name,
        stack=run.software.stack,
        method=run.method.kind,
        model_family=run.architecture.family,
        speed_given=run.efficiency.given or not pilot.keys().isdisjoint(SPEEDS),
    )


def price(database: Database, caller: Caller, received: Any, *, pilot: Sequence[Measurement] = ()) -> Priced:
    """Price one run spec as it came; raises `Invalid` with a pointer to every fault."""
    return Desk(database, caller).price(received, pilot=pilot)


async def price_body(database: Database, caller: Caller, body: Body) -> Priced:
    """Price the run spec in a body, from the event loop.

    A quote takes less time than to hand it to a thread and back, so it is priced where it is asked for; what may take longer (a large
    body, a look into the database, the search for changes that make a run fit) goes to a thread.
    """
    if len(body.content) > MOST_BYTES_AT_ONCE:
        return await run_in_threadpool(lambda: price(database, caller, body.json()))
    received = body.json()
    spec = parse(received)
    resolved = resolve(spec)
    known = corrections.remembered(database, caller.team_id, spec.calibration)
    calibration = known[0] if known else await run_in_threadpool(corrections.find, database, caller.team_id, spec.calibration)
    draft = _draft(received, spec, resolved, _pinned(caller, spec, resolved.run, calibration))
    return await run_in_threadpool(draft.finish) if draft.misfit else draft.finish()


def with_pilot(known: Sequence[Measurement], pilot: Pilot) -> list[Measurement]:
    """What a pilot measured, over what an earlier one did; a code twice, or two speeds, would contradict each other."""
    codes = [measurement.code for measurement in pilot.measurements]
    for index, code in enumerate(codes):
        if code in codes[:index]:
            raise invalid(f"/pilot/measurements/{index}/code", "measured twice")
    if set(codes) >= SPEEDS:
        raise invalid("/pilot/measurements", "give time.step or throughput.input_tokens_per_second, not both")
    replaced = set(codes) | (SPEEDS if SPEEDS & set(codes) else set())
    older = [measurement for measurement in known if measurement["code"] not in replaced]
    return older + [measurement.model_dump(exclude_none=True) for measurement in pilot.measurements]
