"""What a measurement is evidence of, and history replayed in order."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from service.learning import drivers as learning
from service.learning.backtest import Past, replay
from service.learning.drivers import Evidence, Facts, facts

FACTS = Facts(team="one", cluster="a", device="h100", stack="megatron", method="full", model_family="llama")


def evidence(run: int, code: str, ratio: float, share: float = 1.0, of: Facts = FACTS) -> Evidence:
    return Evidence(run=str(run), code=code, log_ratio=math.log(ratio), facts=of, training_share=share)


def corrected(found: list[Evidence], code: str, share: float = 1.0, of: Facts = FACTS) -> float:
    return math.exp(learning.log_correction(learning.learn(found), code, of, share))


def test_cells_are_nested_and_named() -> None:
    wide, place, narrow = FACTS.path()
    assert wide == "device=h100,stack=megatron"
    assert place == "team=one,cluster=a,device=h100,stack=megatron"
    assert narrow == "team=one,cluster=a,device=h100,stack=megatron,method=full,family=llama"
    given = replace(FACTS, speed_given=True)
    assert given.path()[0] == "device=h100,stack=megatron,speed=given"
    odd = facts(
        team="t",
        labels={"team": "a,b=c"},
        external_id="east/77",
        device=None,
        stack=None,
        method=None,
        model_family=None,
        speed_given=False,
    )
    assert odd.path()[1] == "team=t:a_b_c,cluster=east,device=-,stack=-"


@pytest.mark.parametrize(
    ("code", "ratio"),
    [
        ("time.step", 1.5),
        ("throughput.input_tokens_per_second", 1 / 1.5),
        ("efficiency.mfu", 1 / 1.5),
        ("device_hours.training", 1.5),
    ],
)
def test_whatever_tells_the_pace_corrects_the_step(code: str, ratio: float) -> None:
    found = [evidence(run, code, ratio) for run in range(12)]
    assert corrected(found, "time.step") == pytest.approx(1.5, rel=0.03)
    assert corrected(found, "throughput.input_tokens_per_second") == pytest.approx(1 / 1.5, rel=0.03)
    # The clock follows the part of it that trains.
    assert corrected(found, "device_hours.run", share=0.5) == pytest.approx(1.25, rel=0.03)


def test_one_slowness_is_not_corrected_twice() -> None:
    """Steps take 1.5 times as long, and whole jobs 1.2 times what their parts then add up to."""
    found = []
    for run in range(20):
        found += [evidence(run, "time.step", 1.5, 0.8), evidence(run, "time.wall_clock", 1.2 * (0.2 + 0.8 * 1.5), 0.8)]
    fits = learning.learn(found)
    made = learning.predictions(fits, FACTS)
    assert made["time.step"].factor == pytest.approx(1.5, rel=0.02)
    assert made["time.wall_clock"].factor == pytest.approx(1.2, rel=0.02)
    assert corrected(found, "time.wall_clock", share=0.8) == pytest.approx(1.2 * 1.4, rel=0.03)
    # Runs of which only the hours are known say the same once the step's correction is known.
    hours_only = [evidence(run, "device_hours.run", 1.2 * 1.4, 0.8) for run in range(100, 110)]
    assert corrected([*found, *hours_only], "time.wall_clock", share=0.8) == pytest.approx(1.2 * 1.4, rel=0.03)


def test_of_two_kinds_of_evidence_the_better_counts_once() -> None:
    found = []
    for run in range(10):
        found += [evidence(run, "device_hours.training", 3.0), evidence(run, "time.step", 1.5), evidence(run, "efficiency.mfu", 1 / 3)]
    prediction = learning.predictions(learning.learn(found), FACTS)["time.step"]
    assert (prediction.n, round(prediction.factor, 1)) == (10, 1.5)


def test_given_speeds_teach_nothing_about_predicted_ones() -> None:
    given = replace(FACTS, speed_given=True)
    found = [evidence(run, code, 2.0, of=given) for run in range(10) for code in ("time.step", "device_hours.run")]
    assert corrected(found, "time.step") == 1
    assert corrected(found, "device_hours.run", of=given) == pytest.approx(2, rel=0.05)
    # What is common to all cells is all that a predicted run inherits.
    assert corrected(found, "device_hours.run") < 1.5


def test_peaks_are_corrected_one_by_one() -> None:
    found = [evidence(run, "memory.peak_allocated", 0.9) for run in range(10)]
    assert corrected(found, "memory.peak_allocated") == pytest.approx(0.9, rel=0.01)
    assert corrected(found, "memory.peak_reserved") == 1


def past(run: int, error: float, estimate: float = 100.0, *, quoted_at: float | None = None, ended_at: float | None = None) -> Past:
    return Past(
        evidence=evidence(run, "time.step", math.exp(error)),
        log_estimate=math.log(estimate),
        log_error=error,
        quoted_at=run if quoted_at is None else quoted_at,
        ended_at=run + 0.5 if ended_at is None else ended_at,
    )


def test_a_replay_never_looks_ahead() -> None:
    """All runs are quoted before the first one ends: nothing can be learnt for any of them."""
    history = [past(run, 0.7, quoted_at=0, ended_at=10 + run) for run in range(20)]
    lines = {line.engine: line.summary for line in replay(history)}
    assert lines["calibrated"] == lines["uncalibrated"] and "last_similar" not in lines
    # Recorded after the fact, in one go: each is predicted from those that ended before it.
    recorded = [past(run, 0.7, quoted_at=1000, ended_at=run) for run in range(20)]
    lines = {line.engine: line.summary for line in replay(recorded)}
    assert lines["calibrated"].median_absolute_percentage_error < 0.05
    assert lines["last_similar"].n == 19


def test_the_order_given_does_not_matter() -> None:
    rng = np.random.default_rng(1)
    history = [past(run, float(rng.normal(0.3, 0.1))) for run in range(30)]
    shuffled = [history[index] for index in rng.permutation(30)]
    assert replay(history) == replay(shuffled)


def test_the_last_similar_run_has_a_like_estimate() -> None:
    history = [past(0, 0.0, 100.0), past(1, 0.0, 1000.0), past(2, 0.0, 150.0)]
    last = next(line for line in replay(history) if line.engine == "last_similar")
    assert last.summary.n == 1
    assert last.summary.median_absolute_percentage_error == pytest.approx(1 - 100 / 150)


def test_corrections_beat_the_last_run_where_runs_scatter() -> None:
    rng = np.random.default_rng(2)
    history = [past(run, float(rng.normal(0.5, 0.15))) for run in range(80)]
    lines = {line.engine: line.summary.median_absolute_percentage_error for line in replay(history)}
    assert lines["calibrated"] < lines["last_similar"] < lines["uncalibrated"]
