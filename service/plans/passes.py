"""The passes of a search: one run for each combination of the choices, its layout still open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from service.alternatives.condensed import condensed
from service.estimation import step_time
from service.estimation.correction import Corrections
from service.estimation.run import Hardware, Run
from service.kit.problems import Invalid, invalid
from service.specs.load import parse
from service.specs.resolve import resolve

from .space import Space, with_values, without

CorrectionsFor = Callable[[Mapping[str, Any], Run], Corrections]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One combination of the choices."""

    spec: dict[str, Any]  # as received, the choices set
    run: Run  # the axes at their defaults
    hardware: Hardware  # the run's: what has none is not searched
    corrections: Corrections
    group_follows: bool = False  # hybrid shards span what the layout leaves of a node: nobody said how many ranks


@dataclass(slots=True)
class Prepared:
    """All passes, and the layouts of the combinations that make no spec."""

    passes: list[Pass]
    held_global_batch_size: int | None  # sequences a step that every layout keeps
    rejected: Counter[str] = field(default_factory=Counter)
    complete: bool = True  # whether every combination was resolved in time
    condensed: bool = False  # whether sample lengths are in bins


def prepare(spec: Mapping[str, Any], space: Space, corrections_for: CorrectionsFor, out_of_time: Callable[[], bool] = bool) -> Prepared:
    """Resolve every combination, one at least; raises ``Invalid`` where the spec itself is bad or its step time cannot be predicted.

    Of a million sample lengths every layout would carry a million rows: they are looked at in bins, as alternatives are.
    """
    # A search predicts the time of every layout: what the caller says of speed would hold for one of them.
    spec = without_speed(spec)
    held = _held_batch(spec, space)
    prepared = Prepared(passes=[], held_global_batch_size=held)
    for values in space.passes():
        if prepared.passes and out_of_time():
            prepared.complete = False
            break
        chosen = with_values(spec, values)
        base = _base(chosen, space, held)
        try:
            run = resolve(parse(base)).run
        except Invalid as problem:
            prepared.rejected[_of_a_choice(problem, values)] += space.layouts_per_choice
            continue
        reason = step_time.why_not(run)
        if reason is not None or run.hardware is None:
            missing = "/hardware" if run.hardware is None else "/sequence_length" if run.sequence_length is None else "/model"
            raise invalid(missing, f"a search predicts step times: {reason}")
        data = condensed(run.data)
        prepared.condensed |= data is not run.data
        parallelism = chosen.get("parallelism")
        grouped = isinstance(parallelism, Mapping) and parallelism.get("shard_group_size") is not None
        follows = run.layout.sharding == "hybrid" and not grouped
        prepared.passes.append(
            Pass(
                spec=chosen,
                run=replace(run, data=data),
                hardware=run.hardware,
                corrections=corrections_for(base, run),
                group_follows=follows,
            )
        )
    return prepared


def without_speed(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec without ``efficiency``."""
    return {name: value for name, value in spec.items() if name != "efficiency"}


def _of_a_choice(problem: Invalid, values: Mapping[str, Any]) -> str:
    """Why a combination of choices makes no spec; raises the problem where the choices are not to blame."""
    pointers = [fault.pointer for fault in problem.errors]
    own = ["/" + name.replace(".", "/") for name in values]
    if "hardware.device_count" in values:
        own.append("/parallelism")  # what is not free does not divide it
    if not pointers or not all(pointer.startswith(tuple(own)) for pointer in pointers):
        raise problem
    return "invalid_choice:" + pointers[0]


def _held_batch(spec: Mapping[str, Any], space: Space) -> int | None:
    """Sequences a step that the search keeps: a layout must not change the training. None where the caller frees it."""
    if "batch.global_batch_size" in space.axes or "batch.gradient_accumulation_steps" in space.axes:
        return None
    given = spec.get("batch")
    if isinstance(given, Mapping) and isinstance(given.get("global_batch_size"), int | float):
        return int(given["global_batch_size"])
    first = {name: values[0] for name, values in space.choices.items()}
    laid_out = [name for name in space.axes if name.startswith("parallelism.")]
    return int(resolve(parse(without(with_values(spec, first), laid_out))).run.batch.global_batch_size)


def _base(spec: Mapping[str, Any], space: Space, held: int | None) -> dict[str, Any]:
    """A spec of the pass with the layout that is not free: what the arrays replace takes its default."""
    free = list(space.axes)
    if held is not None:
        free.append("batch.gradient_accumulation_steps")
        return with_values(without(spec, free), {"batch.global_batch_size": held})
    return without(spec, [*free, "batch.global_batch_size"])


def posted(prepared: Prepared, space: Space, number: int, axes: Mapping[str, int]) -> dict[str, Any]:
    """The spec of one layout of a pass, ready to be posted."""
    spec: dict[str, Any] = prepared.passes[number].spec
    values: dict[str, Any] = dict(axes)
    if prepared.held_global_batch_size is not None:
        spec = without(spec, ["batch.gradient_accumulation_steps"])
        values["batch.global_batch_size"] = prepared.held_global_batch_size
    elif "batch.gradient_accumulation_steps" not in space.axes:
        spec = without(spec, ["batch.gradient_accumulation_steps"])
    elif "batch.global_batch_size" not in space.axes:
        spec = without(spec, ["batch.global_batch_size"])
    return with_values(spec, values)
