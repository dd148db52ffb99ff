"""From a body to a quote that is ready to be stored: parse, ask for corrections, price, write the columns that lists filter by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from service.accuracy import corrections
from service.accuracy.learning import Facts, facts
from service.estimation.correction import Corrections
from service.estimation.run import Run
from service.kit import documents
from service.kit.database import Database
from service.kit.identifiers import uuid7
from service.kit.problems import invalid
from service.kit.security import Caller
from service.specs.load import parse
from service.specs.resolve import resolve
from service.specs.spec import RunSpec

from . import quoting, repository
from .schemas import Pilot

Measurement = dict[str, Any]  # of a pilot, as it came: code, value, how it was measured

# A pilot measures one of these: either says how fast the run is.
SPEEDS = frozenset({"time.step", "throughput.input_tokens_per_second"})

# What a pilot measured holds as long as nothing of the step changes: a change to these leaves it alone.
BESIDE_THE_STEP = frozenset(
    {
        "name",
        "project",
        "labels",
        "external_ref",
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
    quote: dict[str, Any]  # as `quoting.build` gives it
    pilot: list[Measurement]

    def preview(self) -> bytes:
        """The quote as JSON, with `id: null`."""
        return repository.envelope(self._document(), None, engine_version=self._engine, calibration_version=self._calibration)

    def warn(self, code: str, detail: str, pointer: str | None = None) -> None:
        """Say something that only the quote's history shows."""
        self.quote["warnings"].append({"code": code, "detail": detail, "pointer": pointer})

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
        return documents.encode(document)

    def to_store(self, supersedes_id: str | None = None) -> repository.New:
        """With an id and a moment, and the columns that lists filter by."""
        spec, run = self.spec, self.run
        hardware = run.hardware
        items = {item["code"]: item for item in self.quote["items"]}
        step = items["time.step"]
        return repository.New(
            id=uuid7(),
            created_at=datetime.now(UTC),
            engine_version=self._engine,
            calibration_version=self._calibration,
            supersedes_id=supersedes_id,
            received=documents.encode(self.received),
            pilot=documents.dump(self.pilot) if self.pilot else None,
            document=self._document(),
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
    """Prices specs for one caller; what it looks up (corrections) it looks up once."""

    def __init__(self, database: Database, caller: Caller) -> None:
        self._database = database
        self._caller = caller
        self._calibrations: dict[str | None, corrections.Calibration | None] = {}

    def price(self, received: Any, *, pilot: Sequence[Measurement] = ()) -> Priced:
        """Price a run spec as it came; raises `Invalid` with a pointer to every fault."""
        spec = parse(received)
        resolved = resolve(spec)
        measured = {measurement["code"]: measurement["value"] for measurement in pilot}
        found = self._calibration(spec.calibration)
        pinned = corrections.apply(found, self._facts(spec, resolved.run, measured), resolved.run.interval_coverage)
        quote = quoting.build(resolved, pinned.factors, pinned.version, measured)
        return Priced(received, spec, resolved.run, quote, list(pilot))

    def corrections_for(self, received: Any, run: Run) -> Corrections:
        """What own measurements say about a run of this spec."""
        spec = parse(received)
        found = self._calibration(spec.calibration)
        return corrections.apply(found, self._facts(spec, run, {}), run.interval_coverage).factors

    def _calibration(self, wanted: str | None) -> corrections.Calibration | None:
        if wanted not in self._calibrations:
            with self._database.read() as connection:
                self._calibrations[wanted] = corrections.find(connection, self._caller.team_id, wanted)
        return self._calibrations[wanted]

    def _facts(self, spec: RunSpec, run: Run, pilot: Mapping[str, float]) -> Facts:
        return facts(
            team=self._caller.team,
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


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7396: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged
