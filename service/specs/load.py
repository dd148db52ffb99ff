"""From a JSON document to a checked spec and to a ``Run``."""

from __future__ import annotations

from typing import Any

from service.estimation.run import Run
from service.kit import documents

from .resolve import resolve
from .spec import RunSpec


def parse(document: Any) -> RunSpec:
    """The checked run spec of a JSON document; ``Invalid`` (422) names every fault by pointer."""
    return documents.validate(RunSpec, document)


def run_of(spec: dict[str, Any] | RunSpec) -> Run:
    """The run that a spec describes, every default filled in."""
    return resolve(spec if isinstance(spec, RunSpec) else parse(spec)).run
