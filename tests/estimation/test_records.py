"""Records of stacks, optimizers and recipes: what is true of one stands in its record, whole, and names records that there are."""

from __future__ import annotations

import dataclasses

import pytest

from service.estimation.optimizers import OPTIMIZERS, OptimizerRecord
from service.estimation.recipes import RECIPES, Recipe
from service.estimation.stacks import STACKS, profile

# What a norm, an activation or a step makes besides is nothing unless its rule says so.
CELLS = (profile.NormRule, profile.ActivationRule, profile.StepBuffers)
KINDS = [kind for kind in vars(profile).values() if isinstance(kind, type) and kind.__module__ == profile.__name__ and kind not in CELLS]


@pytest.mark.parametrize("record", [*KINDS, OptimizerRecord, Recipe], ids=lambda record: record.__name__)
def test_no_field_of_a_record_has_a_default(record: type) -> None:
    assert dataclasses.is_dataclass(record)
    missing = dataclasses.MISSING
    assert [f.name for f in dataclasses.fields(record) if f.default is not missing or f.default_factory is not missing] == []


def test_lighter_optimizers_are_optimizers_of_fewer_states_or_of_states_that_leave_the_device() -> None:
    for name, record in OPTIMIZERS.items():
        for other in record.lighter:
            states, fewer = (4 * r.plain_states + r.quantized_state_bytes for r in (record, OPTIMIZERS[other]))
            assert fewer < states or OPTIMIZERS[other].paged, (name, other)


def test_lighter_recipes_are_recipes_of_narrower_weights_or_activations() -> None:
    for name, record in RECIPES.items():
        for other in record.lighter:
            for stack in STACKS.values():
                now, then = ((r.activation_bytes, *(r.widths or stack.mixed_widths)) for r in (record, RECIPES[other]))
                assert then[0] <= now[0] and then[1] <= now[1], (name, other)
                assert then < now or sum(then) < sum(now), (name, other)
