"""Plans: what the arrays say is what the quotes say, and nothing illegal or too large is answered."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from service.estimation.run import Run
from service.kit.problems import Invalid
from service.plans import candidates, search, space
from service.plans.passes import posted, prepare
from service.plans.search import Limits
from service.quotes import quoting
from service.specs.load import run_of

SPEC: dict[str, Any] = {
    "model": {"preset": "llama-3.1-8b"},
    "data": {"total_tokens": 1_000_000_000_000},
    "sequence_length": 8192,
    "batch": {"global_batch_size": 512},
    "software": {"stack": "megatron"},
    "parallelism": {"sharding": "zero1", "sequence_parallel": True},
    "hardware": {"device": "h100-sxm-80gb", "device_count": 64},
}
FREE: dict[str, list[Any]] = {
    "parallelism.tensor": [1, 2, 3, 4, 8],
    "parallelism.pipeline": [1, 2, 4, 5],
    "parallelism.context": [1, 2],
    "parallelism.virtual_pipeline": [1, 2],
    "batch.micro_batch_size": [1, 2, 3],
    "activation_checkpointing": ["none", "full"],
}


class Outcome:
    """A whole search in this process."""

    def __init__(self, limits: Limits) -> None:
        self.space = space.read(FREE)
        self.prepared = prepare(SPEC, self.space, lambda _, __: {})
        held = self.prepared.held_global_batch_size
        found = search.search(self.prepared.passes, self.space, held, limits, clock=time.monotonic, until=time.monotonic() + 60)
        self.candidates, self.rejected = found.candidates, found.rejected
        self.searched, self.complete = found.searched, found.complete

    def spec(self, row: int) -> dict[str, Any]:
        axes = {name: int(column[row]) for name, column in self.candidates.axes.items()}
        return posted(self.prepared, self.space, int(self.candidates.number[row]), axes)


def run_search(limits: Limits | None = None) -> tuple[Outcome, space.Space]:
    outcome = Outcome(limits or Limits())
    return outcome, outcome.space


def figures(quote: Mapping[str, Any]) -> tuple[float, float, float]:
    summary = quote["summary"]
    return (
        summary["device_hours"]["expected"],
        summary["wall_clock_seconds"]["expected"],
        summary["peak_memory_bytes_per_device"]["expected"],
    )


def test_every_candidate_quoted_singly_gives_the_same_figures_to_the_last_bit() -> None:
    outcome, _wanted = run_search()
    found = outcome.candidates
    assert len(found) > 20
    for row in range(len(found)):
        quote = quoting.build(outcome.spec(row))
        assert figures(quote) == (found.device_hours[row], found.wall_clock_seconds[row], found.process_bytes[row])


SAMPLES: dict[str, Any] = {"lengths": {"histogram": [[100, 50, 1000], [900, 300, 777], [3000, 2000, 55]]}, "epochs": 3}
SMALL: dict[str, Any] = {
    "model": {"preset": "llama-3.2-1b"},
    "method": {"objective": "sft"},
    "data": SAMPLES,
    "sequence_length": 4096,
    "parallelism": {"sharding": "zero3"},
    "hardware": {"device": "h100-sxm-80gb", "device_count": 16},
}
SMALL_FREE: dict[str, list[Any]] = {
    "parallelism.tensor": [1, 2],
    "parallelism.context": [1, 2],
    "batch.micro_batch_size": [1, 2, 4],
    "batch.gradient_accumulation_steps": [1, 3],
}


def assert_quoted_alike(spec: dict[str, Any], free: dict[str, list[Any]]) -> None:
    """Every fifth candidate has the figures of its quote to the last bit, and is certain to fit where the quote says so."""
    wanted = space.read(free)
    prepared = prepare(spec, wanted, lambda _, __: {})
    held = prepared.held_global_batch_size
    found = search.search(prepared.passes, wanted, held, Limits(), clock=time.monotonic, until=time.monotonic() + 60).candidates
    assert len(found) > 5
    for row in range(0, len(found), 5):
        quote = quoting.build(posted(prepared, wanted, 0, {name: int(column[row]) for name, column in found.axes.items()}))
        assert figures(quote) == (found.device_hours[row], found.wall_clock_seconds[row], found.process_bytes[row])
        assert found.certain[row] == (quote["summary"]["fits"] is True)


@pytest.mark.parametrize("packing", ["none", "packed", "pad_to_max"])
@pytest.mark.parametrize("objective", ["sft", "dpo"])
def test_samples_of_many_lengths_are_searched_with_the_figures_of_their_quotes(packing: str, objective: str) -> None:
    """Padding depends on the micro-batch, which is an array here."""
    assert_quoted_alike({**SMALL, "method": {"objective": objective}, "data": {**SAMPLES, "packing": packing}}, SMALL_FREE)


@pytest.mark.parametrize("coverage", [0.5, 0.95])
def test_other_coverages_are_searched(coverage: float) -> None:
    """Whether a layout is certain to fit hangs on it."""
    assert_quoted_alike({**SMALL, "interval_coverage": coverage}, SMALL_FREE)


@pytest.mark.parametrize("parallelism", [{"sharding": "hybrid"}, {"sharding": "hybrid", "shard_group_size": 2}])
def test_hybrid_shards_follow_the_layout_unless_they_are_given(parallelism: dict[str, Any]) -> None:
    """Left out, they span what tensor and context parallelism leave of a node, in a quote as in a search."""
    assert_quoted_alike({**SMALL, "parallelism": parallelism}, SMALL_FREE)


def test_a_job_that_never_ends_is_no_plan(client: TestClient) -> None:
    """Ten interruptions a second: no layout recovers, and each is counted."""
    reserves = {"interruptions_per_device_hour": 36_000}
    answer = client.post("/v1/plans", json={"spec": {**SMALL, "reserves": reserves}, "free": SMALL_FREE}).json()
    assert not answer["plans"] and not answer["pareto"]
    assert answer["rejected"]["interrupted_faster_than_it_recovers"] > 0
    assert sum(answer["rejected"].values()) == answer["searched"]


def test_a_thousand_lengths_are_binned_and_said(client: TestClient) -> None:
    """Every layout would carry a row of each; the answered plans are quoted with all of them."""
    data = {"lengths": {"histogram": [[length, 10, 5] for length in range(1, 1001)]}}
    answer = client.post("/v1/plans", json={"spec": {**SMALL, "data": data}, "free": SMALL_FREE, "limit": 1}).json()
    assert "lengths_in_bins" in [note["code"] for note in answer["warnings"]]
    best = answer["plans"][0]
    assert client.post("/v1/quotes/preview", json=best["spec"]).json()["summary"] == best["summary"]
    near = answer["pareto"][0]
    exact = quoting.build(near["spec"])["summary"]["wall_clock_seconds"]["expected"]
    assert near["wall_clock_seconds"] == pytest.approx(exact, rel=0.02)


def test_choices_that_take_too_long_to_read_are_left_out_and_said() -> None:
    """One at least is searched."""
    wanted = space.read({**SMALL_FREE, "activation_checkpointing": ["none", "full"], "attention": ["flash", "sdpa"]})
    assert len(prepare(SMALL, wanted, lambda _, __: {}).passes) == 4
    hurried = prepare(SMALL, wanted, lambda _, __: {}, lambda: True)
    assert len(hurried.passes) == 1 and not hurried.complete


def test_all_of_the_space_is_accounted_for() -> None:
    outcome, wanted = run_search()
    assert outcome.complete
    assert outcome.searched == wanted.size == 5 * 4 * 2 * 2 * 3 * 2
    assert len(outcome.candidates) + sum(outcome.rejected.values()) == wanted.size


def legal_by_hand(run: Run, t: int, p: int, c: int, v: int, m: int) -> bool:
    """A second implementation of the rules, one layout at a time in integers."""
    if 64 % (t * p * c) or 32 % t or (8 % t and t % 8) or 14336 % t or 4096 % t:
        return False
    if p * v > 32 or (v > 1 and (p == 1 or all((32 + extra) % (p * v) for extra in (0, 1, 2)))):
        return False
    if 8192 % (c * t) or (c > 1 and 8192 % (2 * c)):
        return False
    per_step = m * (64 // (t * p * c))
    return 512 % per_step == 0 and not (v > 1 and (512 // per_step) % p)


def test_the_legal_layouts_are_those_of_a_second_implementation() -> None:
    outcome, _ = run_search()
    run = run_of(SPEC)
    names = list(FREE)[:5]
    layouts = itertools.product(*(FREE[name] for name in names))
    legal = sum(legal_by_hand(run, *layout) for layout in layouts) * len(FREE["activation_checkpointing"])
    memory = outcome.rejected["does_not_fit"] + outcome.rejected["unlikely_to_fit"]
    assert len(outcome.candidates) + memory == legal
    rows = {tuple(int(outcome.candidates.axes[name][row]) for name in names) for row in range(len(outcome.candidates))}
    assert all(legal_by_hand(run, *row) for row in rows)


def test_the_training_is_the_same_in_every_plan() -> None:
    outcome, _wanted = run_search()
    for row in range(0, len(outcome.candidates), 7):
        run = run_of(outcome.spec(row))
        assert run.batch.global_batch_size == 512
        assert run.batch.micro_batch_size * run.batch.gradient_accumulation_steps * run.layout.data == 512


def test_ranking_and_front() -> None:
    found = run_search()[0].candidates
    order = candidates.ranked(found, found.device_hours)
    assert list(found.device_hours[order]) == sorted(found.device_hours)
    front = set(candidates.pareto(found).tolist())
    points = np.stack([found.wall_clock_seconds, found.device_hours, -found.headroom_bytes], axis=1)
    for row in range(len(found)):
        beaten = np.all(points <= points[row], axis=1) & np.any(points < points[row], axis=1)
        if row in front:
            assert not beaten.any()
        else:
            assert beaten.any() or any(np.array_equal(points[row], points[other]) for other in front)


def test_deadline_and_budget_put_layouts_aside_with_the_reason() -> None:
    free, _ = run_search()
    seconds = np.sort(free.candidates.wall_clock_seconds)
    middle = float(seconds[len(seconds) // 2])
    late, _ = run_search(limits=Limits(deadline_seconds=middle))
    assert late.rejected["over_deadline"] == int((seconds > middle).sum()) > 0
    assert late.candidates.wall_clock_seconds.max() <= middle
    dear, _ = run_search(limits=Limits(budget_device_hours=middle * 64 / 3600))
    assert dear.rejected["over_budget"] == late.rejected["over_deadline"]


def test_the_same_search_gives_the_same_answer() -> None:
    first, second = run_search()[0].candidates, run_search()[0].candidates
    assert np.array_equal(first.wall_clock_seconds, second.wall_clock_seconds)
    assert np.array_equal(candidates.ranked(first, first.device_hours), candidates.ranked(second, second.device_hours))


def test_a_spent_time_budget_is_reported() -> None:
    wanted = space.read(FREE)
    ticks = itertools.count()
    passes = prepare(SPEC, wanted, lambda _, __: {}).passes
    outcome = search.search(passes, wanted, 512, Limits(), clock=lambda: float(next(ticks)), until=1.0)
    assert not outcome.complete
    assert 0 < outcome.searched < wanted.size


@settings(max_examples=40, deadline=None)
@given(
    shape=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    size=st.integers(1, 50),
)
def test_chunks_are_the_grid_in_order(shape: list[int], size: int) -> None:
    names = ["parallelism.tensor", "parallelism.pipeline", "parallelism.context", "batch.micro_batch_size"][: len(shape)]
    wanted = space.read({name: list(range(1, length + 1)) for name, length in zip(names, shape, strict=True)})
    rows = [tuple(row) for chunk in wanted.chunks(size) for row in zip(*(chunk[name].astype(int).tolist() for name in names), strict=True)]
    assert rows == list(itertools.product(*(range(1, length + 1) for length in shape)))


@pytest.mark.parametrize(
    ("free", "pointer"),
    [
        ({"parallelism.tensr": [1]}, "/free/parallelism.tensr"),
        ({"parallelism.tensor": []}, "/free/parallelism.tensor"),
        ({"parallelism.tensor": [0]}, "/free/parallelism.tensor/0"),
        ({"parallelism.tensor": [1, "2"]}, "/free/parallelism.tensor/1"),
        ({"parallelism.tensor": [True]}, "/free/parallelism.tensor/0"),
    ],
)
def test_a_bad_space_is_refused_with_a_pointer(free: dict[str, list[Any]], pointer: str) -> None:
    with pytest.raises(Invalid) as caught:
        space.read(free)
    assert [fault.pointer for fault in caught.value.errors] == [pointer]


def test_over_http(client: TestClient) -> None:
    body = {"spec": SPEC, "free": FREE, "limit": 4}
    answer = client.post("/v1/plans", json=body)
    assert answer.status_code == 200
    plans = answer.json()
    assert [plan["rank"] for plan in plans["plans"]] == [1, 2, 3, 4]
    hours = [plan["summary"]["device_hours"]["expected"] for plan in plans["plans"]]
    assert hours == sorted(hours)
    assert plans["complete"] and plans["held"] == {"global_batch_size": 512} and plans["pareto"]
    for plan in plans["plans"]:
        quote = client.post("/v1/quotes/preview", json=plan["spec"]).json()
        assert quote["summary"] == plan["summary"]
        assert plan["summary"]["fits"] in (True, "uncertain")


def test_limits_that_nothing_meets_are_answered_with_what_comes_nearest(client: TestClient) -> None:
    free = {"parallelism.tensor": [2, 4], "activation_checkpointing": ["full"]}
    best = client.post("/v1/plans", json={"spec": SPEC, "free": free, "objective": "wall_clock", "limit": 1}).json()["plans"][0]["summary"]

    def why(**limits: Any) -> str:
        answer = client.post("/v1/plans", json={"spec": SPEC, "free": free, **limits}).json()
        assert answer["plans"] == [] and [note["code"] for note in answer["warnings"]] == ["no_plan"]
        return str(answer["warnings"][0]["detail"])

    assert f"takes {best['wall_clock_seconds']['expected']:,.0f} s" in why(deadline_seconds=60)
    assert "device-hours" in why(budget_device_hours=1)
    small = {**SPEC["hardware"], "device": "v100-sxm-16gb"}
    assert "GiB a device" in why(spec={**SPEC, "hardware": small, "batch": {"global_batch_size": 512, "micro_batch_size": 8}})


def test_http_errors_point_into_the_body(client: TestClient) -> None:
    bad = client.post("/v1/plans", json={"spec": {**SPEC, "sequence_lenght": 1}, "free": FREE})
    assert bad.status_code == 422
    assert bad.json()["errors"][0]["pointer"] == "/spec/sequence_lenght"
    costly = client.post("/v1/plans", json={"spec": SPEC, "free": FREE, "objective": "cost"})
    assert costly.status_code == 422
    assert costly.json()["errors"][0]["pointer"] == "/objective"
    unknown = client.post("/v1/plans", json={"spec": SPEC, "free": FREE, "objectiv": "cost"})
    assert unknown.status_code == 422


def test_cost_ranks_unlike_devices_by_money(client: TestClient) -> None:
    rates = [
        {
            "resource": "device_hour",
            "device": "h100-sxm-80gb",
            "amount": "4.00",
            "currency": "EUR",
            "source": "contract",
            "date": "2026-11-01",
        },
        {
            "resource": "device_hour",
            "device": "a100-sxm-80gb",
            "amount": "0.10",
            "currency": "EUR",
            "source": "contract",
            "date": "2026-11-01",
        },
    ]
    body = {
        "spec": {**SPEC, "rates": rates},
        "free": {**FREE, "hardware.device": ["h100-sxm-80gb", "a100-sxm-80gb"]},
        "objective": "cost",
        "limit": 1,
    }
    best = client.post("/v1/plans", json=body).json()["plans"][0]
    assert best["chosen"]["hardware.device"] == "a100-sxm-80gb"
    assert best["cost"]["currency"] == "EUR"
    hours = client.post("/v1/quotes/preview", json=best["spec"]).json()
    run_hours = next(item["expected"] for item in hours["items"] if item["code"] == "device_hours.run")
    assert float(best["cost"]["amount"]) == pytest.approx(run_hours * 0.10, abs=0.01)
    assert next(item["expected"] for item in hours["items"] if item["code"] == "cost.total_eur") is not None


def test_a_plan_scope_is_needed(secured: TestClient, make_key: Any) -> None:
    body = {"spec": SPEC, "free": {"parallelism.tensor": [1, 2]}}
    assert secured.post("/v1/plans", json=body).status_code == 401
    assert secured.post("/v1/plans", json=body, headers=make_key("a", "quotes:read")).status_code == 403
    assert secured.post("/v1/plans", json=body, headers=make_key("a", "plans:run")).status_code == 200
