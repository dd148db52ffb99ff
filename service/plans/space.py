"""The space of a search: which fields of the spec are free, and every combination of what they may be.

Fields of the layout and the batch become arrays, and one pass of the core prices them all. The rest (checkpointing, sharding,
precision, device ...) are choices: a pass for each combination of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.kit.documents import dump, nearest
from service.kit.problems import Invalid, invalid

# Fields that broadcast: they are arrays in a pass.
AXES = (
    "parallelism.tensor",
    "parallelism.pipeline",
    "parallelism.context",
    "parallelism.expert",
    "parallelism.virtual_pipeline",
    "batch.micro_batch_size",
    "batch.gradient_accumulation_steps",
    "batch.global_batch_size",
)
# Fields that are tried one after the other.
CHOICES = (
    "parallelism.sharding",
    "parallelism.shard_group_size",
    "parallelism.sequence_parallel",
    "activation_checkpointing",
    "attention",
    "precision.recipe",
    "optimizer.name",
    "optimizer.implementation",
    "software.stack",
    "software.compile",
    "software.fused_loss",
    "software.cpu_offload",
    "method",
    "method.kind",
    "sequence_length",
    "hardware.device",
    "hardware.device_count",
    "hardware.devices_per_node",
)
MAXIMUM_CHOICES = 512
MAXIMUM_LAYOUTS = 4_000_000

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Space:
    """The free fields: arrays of layout values, and lists of choices."""

    axes: dict[str, list[int]]
    choices: dict[str, list[Any]]

    @property
    def layouts_per_choice(self) -> int:
        """Layouts of one pass."""
        return math.prod(len(values) for values in self.axes.values())

    @property
    def size(self) -> int:
        """All layouts, legal or not."""
        return self.layouts_per_choice * math.prod(len(values) for values in self.choices.values())

    def passes(self) -> Iterator[dict[str, Any]]:
        """Each combination of the choices, in the order they were given."""
        for values in itertools.product(*self.choices.values()):
            yield dict(zip(self.choices, values, strict=True))

    def chunks(self, layouts: int) -> Iterator[dict[str, Values]]:
        """The grid of the axes, ``layouts`` rows at a time; the last axis varies fastest."""
        names = list(self.axes)
        columns = [np.asarray(values, dtype=np.float64) for values in self.axes.values()]
        shape = tuple(len(column) for column in columns)
        for start in range(0, self.layouts_per_choice, layouts):
            rows = np.arange(start, min(start + layouts, self.layouts_per_choice))
            picks = np.unravel_index(rows, shape) if shape else ()
            yield {name: column[pick] for name, column, pick in zip(names, columns, picks, strict=True)}


def read(free: Mapping[str, Sequence[Any]]) -> Space:
    """The space of a request's ``free``; raises ``Invalid`` for a field that cannot be searched or a list that is empty."""
    axes: dict[str, list[int]] = {}
    choices: dict[str, list[Any]] = {}
    for name, values in free.items():
        pointer = "/free/" + name.replace("~", "~0").replace("/", "~1")
        if name not in AXES and name not in CHOICES:
            raise invalid(pointer, "is not a field that can be searched" + nearest(name, [*AXES, *CHOICES]))
        if not values:
            raise invalid(pointer, "has no value to try")
        distinct = list({dump(value): value for value in values}.values())
        if name in AXES:
            bad = next((i for i, v in enumerate(values) if isinstance(v, bool) or not isinstance(v, int) or not 1 <= v <= 2**31), None)
            if bad is not None:
                raise invalid(f"{pointer}/{bad}", "must be a whole number from 1")
            axes[name] = distinct
        else:
            choices[name] = distinct
    if "method" in choices and "method.kind" in choices:
        raise invalid("/free/method.kind", "is a part of method, which is free as a whole")
    space = Space(axes=axes, choices=choices)
    passes = math.prod(len(values) for values in choices.values())
    if passes > MAXIMUM_CHOICES:
        raise Invalid(f"The choices combine to {passes}; at most {MAXIMUM_CHOICES} are searched")
    if space.size > MAXIMUM_LAYOUTS:
        raise Invalid(f"The space has {space.size} layouts; at most {MAXIMUM_LAYOUTS} are searched")
    return space


def with_values(spec: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a spec with dotted fields set; what is not on the way to one of them is shared."""
    result = dict(spec)
    for name, value in values.items():
        *path, last = name.split(".")
        part = result
        for step in path:
            inner = part.get(step)
            part[step] = dict(inner) if isinstance(inner, Mapping) else {}
            part = part[step]
        part[last] = value
    return result


def without(spec: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """A copy of a spec with dotted fields left out."""
    result = dict(spec)
    for name in names:
        section, _, last = name.partition(".")
        part = result.get(section)
        if isinstance(part, Mapping) and last in part:
            result[section] = {key: value for key, value in part.items() if key != last}
    return result
