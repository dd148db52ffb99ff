"""The whole job against hand computations, published jobs and its own identities."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.estimation import wall_clock
from service.estimation.correction import Factor
from service.estimation.items import Item
from service.estimation.run import (
    CheckpointPolicy,
    DataPipeline,
    Evaluation,
    EvaluationSuite,
    Hardware,
    Layout,
    Method,
    Reserves,
    Run,
    Software,
)
from service.estimation.spread import Spread, exactly, independently, prior, together
from service.estimation.storage import CheckpointBytes
from service.estimation.wall_clock import TimedRun, interruptions, saving
from service.estimation.wall_clock.storage_rate import storage_rate

from .whole_jobs import H100, Tokens, assert_adds_up, by_code, described, run, timed

DAY = 86_400.0
TOKENS = Tokens()


def whole(one: Run, seconds: float = 30 * DAY, tokens: Tokens = TOKENS, operations: Factor | None = None) -> wall_clock.Described:
    """The job of a run whose training takes that long."""
    return described(timed(one, seconds, tokens), operations)


def everything(*arguments: Any, **known: Any) -> list[Item]:
    """Items of the job and its reserves."""
    found = whole(*arguments, **known)
    return [*found.items, *found.reserves]


def column_of(job: TimedRun) -> tuple[saving.Saving, interruptions.Restarts]:
    """The cadence and what interruptions of its training alone cost."""
    plan = saving.figures(job)
    return plan, interruptions.figures(job, plan, job.training)


def test_young_daly_example_of_1024_devices() -> None:
    """1,024 devices, 49 h between interruptions, saves of 60 s, restarts of half an hour: T = 1.3 h, 3.6 % lost."""
    one = run(
        checkpointing=CheckpointPolicy(storage_bytes_per_second=8e9 * 14 / 60),
        reserves=Reserves(interruptions_per_device_hour=1 / (49 * 1024), restart_seconds=1800),
    )
    items = by_code(everything(one))
    assert items["time.checkpoint_interval_optimum"].expected == pytest.approx(1.3 * 3600, rel=0.02)
    assert items["reserve.failure_fraction_at_optimum"].expected == pytest.approx(0.036, rel=0.02)


def test_chosen_interval_stands_beside_the_optimum() -> None:
    """A cadence that is given is used, and costs more than the optimum."""
    one = run(checkpointing=CheckpointPolicy(interval_steps=1000, storage_bytes_per_second=2e9))
    items = by_code(everything(one))
    assert items["time.checkpoint_interval"].expected == pytest.approx(3 * DAY)
    assert items["reserve.failure_fraction"].expected > items["reserve.failure_fraction_at_optimum"].expected
    assert wall_clock.saves(wall_clock.figures(timed(one, 30 * DAY))).main == 10


def test_llama3_405b_lost_less_than_a_tenth() -> None:
    """54 days on 16,384 H100: 419 unexpected interruptions, over 90 % effective time (arXiv:2407.21783, section 3.3.4)."""
    # 2 TB/s of storage is theirs (section 3.3.1); the time of a restart is the prior.
    one = run(16384, checkpointing=CheckpointPolicy(storage_bytes_per_second=2e12))
    items = by_code(everything(one, 54 * DAY, Tokens(steps=500_000, input_tokens=8e12)))
    assert items["reserve.interruptions"].expected == pytest.approx(419, rel=0.05)
    effective = 54 * DAY / (items["time.wall_clock"].expected or 0)
    assert 0.85 < effective < 0.97


def test_bloom_checkpoint_takes_forty_seconds() -> None:
    """2.3 TB from 48 nodes took 40 s."""
    one = run(384, layout=Layout(tensor=4, pipeline=12, data=8, sharding="zero1"))
    rate = storage_rate(timed(one, 30 * DAY))
    assert 2.3e12 / rate.bytes_per_second.expected == pytest.approx(40, rel=0.01)
    assert rate.basis == "prior"


def test_parts_add_up_with_everything_declared() -> None:
    """Wall clock, device-hours, evaluation by kind and restarts by cause are sums of their parts."""
    one = run(
        software=Software(compile=True),
        method=Method(objective="sft"),
        checkpointing=CheckpointPolicy(interval_steps=500, weights_interval_steps=100, asynchronous=True),
        data_pipeline=DataPipeline(input_tokens_per_second=1.0e4),
        evaluation=Evaluation(
            interval_steps=100,
            tokens_per_evaluation=10**7,
            suites=(
                EvaluationSuite(name="mmlu", kind="downstream", tokens=10**6, generated_tokens=10**5),
                EvaluationSuite(name="red team", kind="safety", tokens=10**6, runs=3),
            ),
        ),
    )
    items = whole(one).items
    assert_adds_up(items_with_training(items))
    found = by_code(items)
    assert found["time.data_stall"].expected == pytest.approx(4e10 / 1e4 - 30 * DAY)
    run_hours = found["device_hours.run"].expected or 0
    assert run_hours == pytest.approx((found["time.wall_clock"].expected or 0) * 1024 / 3600, rel=1e-12)
    assert all(item.low <= item.expected <= item.high for item in items if item.low is not None and item.high is not None)


def items_with_training(items: tuple) -> list:
    """``time.training`` is the step time's item; it is put back here for the sum."""
    found = by_code(items)
    hours = found["device_hours.training"]
    return [*items, hours._replace(code="time.training", parent="time.wall_clock", expected=(hours.expected or 0) * 3600 / 1024)]


def test_evaluation_costs_a_third_of_a_training_token() -> None:
    """Forward is a third of forward and backward; under adapters a half; with recomputation a quarter and a third."""
    evaluation = Evaluation(interval_steps=1000, tokens_per_evaluation=4 * 10**8)  # 10 evaluations: a tenth of the tokens
    expected = 30 * DAY * 0.1
    for changes, units in (
        ({}, 3),
        ({"activation_checkpointing": "full"}, 4),
    ):
        items = by_code(whole(run(evaluation=evaluation, **changes)).items)
        assert items["time.evaluation"].expected == pytest.approx(expected / units)


def test_given_evaluation_hours_are_taken_as_they_are() -> None:
    """``evaluation.device_hours`` is the whole of it."""
    items = by_code(whole(run(evaluation=Evaluation(device_hours=512.0, interval_steps=10, tokens_per_evaluation=10**9))).items)
    assert items["device_hours.evaluation"].expected == pytest.approx(512)
    assert items["time.evaluation"].basis == "given"


def test_human_suites_are_not_device_time() -> None:
    """People's hours are a unit of their own, and not known from tokens."""
    items = by_code(everything(run(evaluation=Evaluation(suites=(EvaluationSuite(name="panel", kind="human"),)))))
    assert items["human_hours.evaluation"].expected is None
    assert items["time.evaluation"].expected == 0


def test_decoding_without_a_known_bandwidth_is_unknown_not_zero() -> None:
    """No bandwidth: evaluation, wall clock and device-hours are null with the reason."""
    blind = Hardware(device=replace(H100, hbm_bytes_per_second=None), device_count=1024)
    suites = (EvaluationSuite(name="gsm8k", kind="downstream", generated_tokens=10**6),)
    items = by_code(whole(run(hardware=blind, evaluation=Evaluation(suites=suites))).items)
    for code in ("time.evaluation_downstream", "time.evaluation", "time.wall_clock", "device_hours.run"):
        assert items[code].expected is None
        assert "bandwidth" in (items[code].reason or "")


def test_asynchronous_saves_wait_for_the_copy_alone_unless_storage_is_too_slow() -> None:
    """The copy to host memory is fast; a write longer than the interval holds up the next one."""
    sync = CheckpointPolicy(interval_steps=100, storage_bytes_per_second=1e9)
    asyn = replace(sync, asynchronous=True)
    costs = [by_code(whole(run(checkpointing=policy)).items)["time.checkpointing"].expected or 0 for policy in (sync, asyn)]
    assert costs[0] == pytest.approx(100 * 8e9 * 14 / 1e9, rel=0.001)
    assert costs[1] == pytest.approx(100 * 8e9 * 14 / 1024 / 10e9, rel=0.001)
    slow = replace(asyn, storage_bytes_per_second=8e9 * 14 / (1.1 * 30 * DAY / 100))
    assert by_code(whole(run(checkpointing=slow)).items)["time.checkpointing"].expected == pytest.approx(0.1 * 30 * DAY, rel=0.001)


def test_a_job_that_cannot_recover_is_said_to_be_one() -> None:
    """More time lost to an interruption than passes between two: no wall clock, and why."""
    one = run(reserves=Reserves(interruptions_per_device_hour=0.01, restart_seconds=3600))
    items = by_code(everything(one))
    assert items["time.wall_clock"].expected is None
    assert "faster than it can recover" in (items["time.wall_clock"].reason or "")


def test_spares_of_llama3_are_a_few_nodes() -> None:
    """16,384 devices at one interruption in 50,000 h, 78 % of them hardware, a day's repair of a node of eight: 49 devices."""
    spares = by_code(everything(run(16384)))["reserve.spare_devices"]
    assert spares.expected == pytest.approx(16384 / 50_000 * 0.78 * 24 * 8)


def test_no_interruptions_no_restarts() -> None:
    """A given rate of zero sets nothing aside, loss spikes included."""
    items = by_code(whole(run(reserves=Reserves(interruptions_per_device_hour=0.0))).items)
    assert items["time.restarts"].expected == 0
    assert items["time.checkpoint_interval_optimum"].expected is None


def test_small_short_runs_lose_next_to_nothing_to_hardware() -> None:
    """Eight devices for an hour: start-up is felt, failures are not."""
    items = by_code(whole(run(8, layout=Layout(data=8, sharding="zero3")), 3600.0, Tokens(steps=100, input_tokens=1e7)).items)
    assert (items["time.restarts"].expected or 0) < 10
    assert 60 < (items["time.startup"].expected or 0) < 300


def test_operations_factor_moves_the_whole_and_keeps_the_sum() -> None:
    """Own actuals: whole jobs took 1.3 times what the parts add up to."""
    factor = Factor(code="time.wall_clock", factor=1.3, n=12, low=0.9, high=1.2, cell="global")
    plain, scaled = by_code(whole(run()).items), whole(run(), operations=factor).items
    found = by_code(scaled)
    assert found["time.wall_clock"].expected == pytest.approx(1.3 * (plain["time.wall_clock"].expected or 0))
    assert found["device_hours.training"].expected == plain["device_hours.training"].expected
    assert found["time.wall_clock"].basis == "calibrated"
    assert found["time.startup"].uncalibrated == plain["time.startup"].expected
    clock, hours = found["time.wall_clock"], found["device_hours.run"]
    assert (clock.n, clock.factor) == (12, 1.3) == (hours.n, hours.factor)
    assert clock.uncalibrated == pytest.approx(plain["time.wall_clock"].expected)
    assert hours.uncalibrated == pytest.approx(plain["device_hours.run"].expected)
    assert (clock.high or 0) > 1.19 * (clock.expected or 0)  # the factor's own spread
    assert_adds_up(items_with_training(scaled))


def test_no_factor_makes_launching_and_saving_free() -> None:
    """Jobs at half of the estimate, most of which is training: the parts beside it keep a third, the interval holds the half."""
    factor = Factor(code="time.wall_clock", factor=0.5, n=2, low=0.8, high=1.25, cell="global")
    plain, found = by_code(whole(run()).items), by_code(whole(run(), operations=factor).items)
    for code in ("time.startup", "time.checkpointing", "time.restarts"):
        assert found[code].expected == pytest.approx((plain[code].expected or 0) / 3), code
    clock = found["time.wall_clock"]
    assert clock.low == pytest.approx(0.5 * 0.8 * (plain["time.wall_clock"].expected or 0))
    assert found["device_hours.training"].expected == plain["device_hours.training"].expected < (found["device_hours.run"].expected or 0)


def test_without_hardware_everything_is_null_with_a_reason() -> None:
    """Nothing is guessed; checkpoints are still counted from steps."""
    one = run(hardware=None, checkpointing=CheckpointPolicy(interval_steps=1000))
    assert all(item.expected is None and item.reason for item in wall_clock.unknown_items("no hardware is given"))
    assert wall_clock.saves_without_time(one, 10_000, "no hardware is given").main == 10


def test_a_rate_alone_gives_the_job_without_a_number_of_steps() -> None:
    """No sequence_length: everything but what is told in steps."""
    items = described(timed(run(), 30 * DAY, Tokens(steps=None), step=None)).items
    assert_adds_up(items_with_training(items))
    found = by_code(items)
    assert found["time.wall_clock"].expected > 30 * DAY
    assert any("4 million tokens" in text for text in found["time.restarts_loss_spikes"].assumptions)
    told = run(checkpointing=CheckpointPolicy(interval_steps=100), evaluation=Evaluation(interval_steps=100, tokens_per_evaluation=10))
    blind = by_code(described(timed(told, 30 * DAY, Tokens(steps=None), step=None)).items)
    for code in ("time.checkpointing", "time.evaluation", "time.restarts", "time.wall_clock"):
        assert blind[code].expected is None and "sequence_length" in (blind[code].reason or "")
    assert blind["device_hours.training"].expected == pytest.approx(30 * 24 * 1024)


def test_unknown_adapters_leave_training_hours_known() -> None:
    """A bare parameter count says nothing of the adapters' size."""
    found = by_code(described(timed(run(), 1e4, checkpoint=None)).items)
    assert found["time.wall_clock"].expected is None and "adapters" in (found["time.wall_clock"].reason or "")
    assert found["device_hours.training"].expected == pytest.approx(1e4 * 1024 / 3600)
    assert found["time.startup"].expected


def test_layouts_broadcast_to_the_same_figures() -> None:
    """A column of layouts gives what each gives alone, to the last bit."""
    tensor = np.array([1, 2, 4, 8], dtype=float)
    data = 1024 / tensor
    one = run(layout=Layout(tensor=tensor, data=data, sharding="none"), checkpointing=CheckpointPolicy(interval_steps=100))
    step = exactly(np.array([10.0, 11.0, 12.0, 13.0]))
    sizes = CheckpointBytes(weights=2e10, full=1e11, export=2e10, weights_formula="", full_formula="", assumptions=())
    tokens = Tokens(steps=1000)
    column, lost = column_of(timed(one, step.times(1000.0), tokens, step=step, checkpoint=sizes))
    for i in range(4):
        alone = run(layout=Layout(tensor=float(tensor[i]), data=float(data[i]), sharding="none"), checkpointing=one.checkpointing)
        single = exactly(float(step.expected[i]))
        plan, lost_alone = column_of(timed(alone, single.times(1000.0), tokens, step=single, checkpoint=sizes))
        assert plan.save.expected == column.save.expected[i]
        assert plan.seconds.high == column.seconds.high[i]
        assert lost_alone.hardware.high == lost.hardware.high[i]


def test_a_search_ranks_by_the_very_wall_clock_of_the_quote() -> None:
    """A column of step times gives the quotes' wall clocks to the last bit."""
    one = run(
        checkpointing=CheckpointPolicy(interval_steps=300, weights_interval_steps=50),
        evaluation=Evaluation(
            interval_steps=100,
            tokens_per_evaluation=10**6,
            suites=(EvaluationSuite(name="gsm8k", kind="downstream", tokens=10**5, generated_tokens=10**4),),
        ),
        data_pipeline=DataPipeline(input_tokens_per_second=15_400.0),
    )
    steps = np.array([1.0, 20.0, 259.2, 300.0])
    factor = Factor(code="time.wall_clock", factor=1.3, n=12, low=0.9, high=1.2, cell="global")
    for actuals in (None, factor):
        column = wall_clock.figures(timed(one, steps * 10_000, step=exactly(steps)), actuals).seconds
        for i, seconds in enumerate(steps.tolist()):
            items = described(timed(one, seconds * 10_000, step=exactly(seconds)), actuals).items
            assert by_code(items)["time.wall_clock"].expected == column[i]


@given(
    seconds=st.floats(60, 1e7),
    devices=st.sampled_from([1, 8, 64, 1024, 16384]),
    steps=st.integers(1, 10**6),
    interval=st.one_of(st.none(), st.integers(1, 10**6)),
)
def test_any_job_adds_up_and_is_longer_than_its_training(seconds: float, devices: int, steps: int, interval: int | None) -> None:
    """Whatever the cadence: the whole is its parts, no part is negative, the interval holds the expectation."""
    one = run(devices, layout=Layout(data=devices, sharding="zero3"), checkpointing=CheckpointPolicy(interval_steps=interval))
    items = by_code(whole(one, seconds, Tokens(steps=steps)).items)
    clock = items["time.wall_clock"]
    if clock.expected is None:
        assert clock.reason
        return
    assert clock.low is not None and clock.high is not None
    assert seconds <= clock.expected and clock.low <= clock.expected <= clock.high
    assert all((item.expected or 0) >= 0 for item in items.values())
    assert math.isfinite(clock.high)


def test_optimum_costs_least() -> None:
    """No interval on a grid loses less than the Young/Daly one, to first order."""
    sizes = CheckpointBytes(weights=1e11, full=1e12, export=1e11, weights_formula="", full_formula="", assumptions=())
    plan = saving.figures(timed(run(), 2.6e6, checkpoint=sizes))
    best = plan.lost_share(plan.optimum)
    assert all(plan.lost_share(plan.optimum * scale) >= best for scale in (0.2, 0.5, 0.9, 1.1, 2, 5))


def test_intervals_add_up() -> None:
    """Together linearly, independently as root sums of squares; other coverages as a log-normal distribution's."""
    a, b = Spread(10.0, 7.0, 14.0), Spread(20.0, 16.0, 23.0)
    assert together(a, b) == Spread(30.0, 23.0, 37.0)
    assert independently(a, b) == Spread(30.0, 25.0, 35.0)
    wide = prior(10.0, 7.0, 14.0, 0.9)
    assert wide.high == pytest.approx(10 * 1.4 ** (1.6449 / 1.2816), rel=1e-3)
    assert wide.low == pytest.approx(10 * 0.7 ** (1.6449 / 1.2816), rel=1e-3)
    assert prior(10.0, 0.0, 20.0, 0.999999).low == 0
    assert 0 < prior(10.0, 7.0, 14.0, 0.999999).low < 3  # a positive amount keeps a positive bound
