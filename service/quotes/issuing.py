"""From a body to a quote that is ready to be stored: parse, ask for corrections, price, write the columns that lists filter by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from service.kit import documents
from service.kit.database import Database
from service.kit.identifiers import uuid7
from service.kit.problems import invalid
from service.kit.security import Caller
from service.specs.load import parse
from service.specs.spec import RunSpec

from . import quoting, repository
from .schemas import Pilot

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
    quote: dict[str, Any]  # as `quoting.build` gives it
    pilot: dict[str, float]

    def preview(self) -> str:
        """The quote as JSON text, with `id: null`."""
        return repository.envelope(self._document(), None, engine_version=self._engine, calibration_version=self._calibration)

    @property
    def _engine(self) -> str:
        return str(self.quote["engine_version"])

    @property
    def _calibration(self) -> str | None:
        version: str | None = self.quote.get("calibration_version")
        return version

    def _document(self) -> str:
        return documents.dump({key: value for key, value in self.quote.items() if key not in repository.ENVELOPE})

    def to_store(self, supersedes_id: str | None = None) -> repository.New:
        """With an id and a moment, and the columns that lists filter by."""
        spec, filled = self.spec, self.quote["spec"]
        hardware = filled.get("hardware") or {}
        return repository.New(
            id=uuid7(),
            created_at=datetime.now(UTC),
            engine_version=self._engine,
            calibration_version=self._calibration,
            supersedes_id=supersedes_id,
            received=documents.dump(self.received),
            pilot=documents.dump(self.pilot) if self.pilot else None,
            document=self._document(),
            columns={
                "name": spec.name,
                "project": spec.project,
                **model_names(filled["model"]),
                "device": hardware.get("device"),
                "device_count": hardware.get("device_count"),
                "method": filled["method"]["kind"],
                "stack": (filled.get("software") or {}).get("stack"),
                "external_system": None if spec.external_ref is None else spec.external_ref.system,
                "external_id": None if spec.external_ref is None else spec.external_ref.id,
            },
            labels=spec.labels or {},
            items=self.quote["items"],
        )


class Desk:
    """Prices specs for one caller; what it looks up (corrections) it looks up once."""

    def __init__(self, database: Database, caller: Caller) -> None:
        self._database = database
        self._caller = caller

    def price(self, received: Any, *, pilot: Mapping[str, float] | None = None) -> Priced:
        """Price a run spec as it came; raises `Invalid` with a pointer to every fault."""
        spec = parse(received)
        quote = quoting.build(spec, None, None, pilot or {})
        return Priced(received, spec, quote, dict(pilot or {}))


def price(database: Database, caller: Caller, received: Any, *, pilot: Mapping[str, float] | None = None) -> Priced:
    """Price one run spec as it came; raises `Invalid` with a pointer to every fault."""
    return Desk(database, caller).price(received, pilot=pilot)


def pilot_values(pilot: Pilot) -> dict[str, float]:
    """What a pilot measured, by code; a code twice, or two speeds, would contradict each other."""
    values: dict[str, float] = {}
    for index, measurement in enumerate(pilot.measurements):
        if measurement.code in values:
            raise invalid(f"/pilot/measurements/{index}/code", "measured twice")
        values[measurement.code] = measurement.value
    if "time.step" in values and "throughput.input_tokens_per_second" in values:
        raise invalid("/pilot/measurements", "give time.step or throughput.input_tokens_per_second, not both")
    return values


def model_names(model: Mapping[str, Any]) -> dict[str, str | None]:
    """What `?model=` finds: the preset, or the name or type that a Hugging Face config gives."""
    config = model.get("hf_config")
    if isinstance(config, Mapping):
        kind = config.get("model_type")
        name = config.get("_name_or_path") or kind
        return {"model": _short(name), "model_family": _short(kind)}
    return {"model": _short(model.get("preset")), "model_family": None}


def _short(value: Any) -> str | None:
    return value[:100] if isinstance(value, str) and value else None


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
