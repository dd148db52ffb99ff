"""Records of stacks: all that is true of a stack stands in its file, and a fact that is missing there is missed loudly."""

from __future__ import annotations

import dataclasses
import inspect

import pytest

from service.estimation.stacks import STACKS, profile

RECORDS = [
    thing
    for _, thing in inspect.getmembers(profile, inspect.isclass)
    if dataclasses.is_dataclass(thing) and thing.__module__ == profile.__name__
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_no_field_of_a_record_has_a_default(record: type) -> None:
    assert dataclasses.is_dataclass(record)
    defaulted = [
        field.name
        for field in dataclasses.fields(record)
        if field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
    ]
    assert not defaulted


@pytest.mark.parametrize("missing", [field.name for field in dataclasses.fields(profile.Stack)])
def test_a_stack_without_one_of_its_facts_cannot_be_made(missing: str) -> None:
    facts = {field.name: getattr(STACKS["megatron"], field.name) for field in dataclasses.fields(profile.Stack)}
    del facts[missing]
    with pytest.raises(TypeError, match=missing):
        profile.Stack(**facts)
