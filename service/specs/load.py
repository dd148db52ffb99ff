"""From a JSON body to a checked spec and to a ``Run``."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from service.estimation.run import Run

from .errors import SpecError, explain
from .spec import RunSpec


def parse(body: Any) -> RunSpec:
    """The checked run spec of a JSON body; ``SpecError`` names every fault by pointer."""
    try:
        return RunSpec.model_validate(body)
    except ValidationError as error:
        raise SpecError(explain(RunSpec, error, body)) from None


def run_of(spec: dict[str, Any] | RunSpec) -> Run:
    """The run that a spec describes, every default filled in."""
    from .resolve import resolve

    return resolve(spec if isinstance(spec, RunSpec) else parse(spec)).run
