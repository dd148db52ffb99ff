"""A change tried on the run itself is the change of its spec: every step of every lever, both ways."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from service.alternatives.levers import levers, settled
from service.alternatives.trials import Trials
from service.kit.merge_patch import both
from service.specs.load import parse
from service.specs.resolve import resolve
from tests.alternatives.test_offers import SCENES

MORE: dict[str, dict[str, Any]] = {
    "hybrid shards": {
        "model": {"preset": "llama-3.1-8b"},
        "data": {"total_tokens": 10**9},
        "sequence_length": 8192,
        "batch": {"global_batch_size": 60, "micro_batch_size": 2},
        "parallelism": {"sharding": "hybrid", "tensor": 2},
        "hardware": {"device": "a100-sxm-40gb", "device_count": 32},
    },
    "two stacks": {
        "model": {"preset": "t5-11b"},
        "data": {"total_tokens": 10**9},
        "sequence_length": 1024,
        "decoder_sequence_length": 256,
        "batch": {"micro_batch_size": 8},
        "attention": "eager",
        "hardware": {"device": "a100-sxm-40gb", "device_count": 4},
    },
}


@pytest.mark.parametrize("name", [*SCENES, *MORE])
def test_what_is_tried_directly_is_what_the_spec_makes(name: str) -> None:
    trials = Trials.of(resolve(parse({**SCENES, **MORE}[name])), {})
    compared = 0
    for lever in levers(trials.run):
        for step in lever.steps:
            change = settled(trials.run, step)
            if change is None:
                continue
            tried, read = trials.attempt(change), trials.read(change)
            assert (tried is None) == (read is None), change
            if tried is None or read is None:
                continue
            assert trials.tried(read) is not None
            assert trials.confirmed(change, tried) == trials.tried(read)
            exact = trials.tried(read)
            assert exact is not None and (tried.peak, tried.high) == (exact.peak, exact.high), change
            compared += 1
    assert compared > 10


@pytest.mark.parametrize("name", [*SCENES, *MORE])
def test_two_levers_together_are_what_the_spec_makes(name: str) -> None:
    trials = Trials.of(resolve(parse({**SCENES, **MORE}[name])), {})
    compared = 0
    for one, other in itertools.combinations(levers(trials.run), 2):
        change = settled(trials.run, both(one.steps[0], other.steps[-1]))
        if change is None:
            continue
        tried, read = trials.attempt(change), trials.read(change)
        exact = None if read is None else trials.tried(read)
        if tried is None or exact is None:
            assert tried is None or trials.confirmed(change, tried) is None, change
            continue
        assert (tried.peak, tried.high) == (exact.peak, exact.high), change
        compared += 1
    assert compared > 10
