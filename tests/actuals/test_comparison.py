"""Comparison, derived figures and decomposition, on figures worked out by hand."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.actuals.comparing import compare, observe
from service.actuals.comparison import current, grouped
from service.actuals.measurement import Measurement
from service.actuals.quoted import Quoted, QuotedItem

START = datetime(2026, 1, 1, tzinfo=UTC)


def quoted(**changes: Any) -> Quoted:
    """1000 steps of 10 s on 8 devices: 10,000 s of training, 12,000 s of wall clock; MFU 0.4."""
    expected = {
        "tokens.input": 1e6,
        "time.step": 10.0,
        "time.training": 10_000.0,
        "time.wall_clock": 12_000.0,
        "time.evaluation": 1_500.0,
        "device_hours.training": 10_000 * 8 / 3600,
        "device_hours.run": 12_000 * 8 / 3600,
        "efficiency.mfu": 0.4,
        "efficiency.mfu_causal": 0.42,
        "throughput.input_tokens_per_second": 100.0,
        "memory.peak_allocated": 60e9,
        "memory.peak_reserved": 66e9,
        "memory.peak_process": 68e9,
    }
    items = {code: QuotedItem(code=code, expected=v, low=0.9 * v, high=1.2 * v, uncalibrated=v) for code, v in expected.items()}
    return Quoted(items=items, steps=1000, device_count=8, device_memory_bytes=85e9, interval_coverage=0.8, **changes)


COUNTER = iter(range(10**9))


def value(code: str, number: float, **changes: Any) -> Measurement:
    """A measured value of a completed attempt."""
    base = {"id": f"m{next(COUNTER):06d}", "source": "slurm", "attempt": 1, "outcome": "completed", "method": "accounting"}
    return Measurement(**{**base, "code": code, "value": number, **changes})


def rows(*values: Measurement, of: Quoted | None = None) -> dict[str, dict[str, Any]]:
    """Rows by code; the first of each."""
    found: dict[str, dict[str, Any]] = {}
    for row in compare(of or quoted(), values)["rows"]:
        found.setdefault(row["code"], row)
    return found


def test_hours_add_up_and_memory_is_the_maximum() -> None:
    """Over the attempts that say they cover the run."""
    covers = ("training",)
    first = {"attempt": 1, "outcome": "preempted", "covers": covers}
    second = {"attempt": 2, "outcome": "completed", "covers": covers}
    found = rows(
        value("device_hours.run", 10.0, **first),
        value("device_hours.run", 20.0, **second),
        value("memory.peak_allocated", 61e9, method="torch", **first),
        value("memory.peak_allocated", 59e9, method="torch", **second),
    )
    hours, memory = found["device_hours.run"], found["memory.peak_allocated"]
    assert (hours["measured"], hours["attempts"], hours["attempt_numbers"]) == (30.0, 2, [1, 2])
    assert hours["ratio"] == pytest.approx(30 / (12_000 * 8 / 3600)) and hours["log_ratio"] == pytest.approx(math.log(hours["ratio"]))
    assert hours["within_interval"] is True and hours["bound"] is None and hours["derived"] is False
    assert (memory["measured"], memory["estimated"], memory["attempts"]) == (61e9, 60e9, 2)


def test_failed_attempts_count_only_if_they_say_so() -> None:
    """A failed try without `covers` is in the ledger and not in the error."""
    answer = compare(quoted(), [value("device_hours.run", 5.0, outcome="failed"), value("device_hours.run", 25.0, attempt=2)])
    (row,) = [row for row in answer["rows"] if row["code"] == "device_hours.run"]
    assert (row["measured"], row["attempts"]) == (25.0, 1)
    (left_out,) = answer["not_counted"]
    assert left_out["attempt"] == 1 and "does not say that it covers training" in left_out["reason"]
    assert answer["attempts"] == {"lost": 1, "lost_device_hours": 5.0, "waits_seconds": None}


@pytest.mark.parametrize("outcome", ["timeout", "cancelled", "preempted", "failed"])
def test_unfinished_runs_are_bounds(outcome: str) -> None:
    """No ratio; a projection where the share of steps is known; outside the interval only where that is certain."""
    unfinished = {"outcome": outcome, "covers": ("training",), "steps_completed": 250}
    row = rows(value("device_hours.run", 8.0, **unfinished))["device_hours.run"]
    assert (row["ratio"], row["log_ratio"], row["bound"], row["within_interval"]) == (None, None, "lower", None)
    assert row["projected"] == pytest.approx(32.0) and row["projected_ratio"] == pytest.approx(1.2)
    assert row["bound_ratio"] == pytest.approx(8 / (12_000 * 8 / 3600))
    beyond = rows(value("device_hours.run", 100.0, **unfinished))["device_hours.run"]
    assert beyond["within_interval"] is False
    unknown = rows(value("device_hours.run", 8.0, outcome=outcome, covers=("training",)))["device_hours.run"]
    assert unknown["projected"] is None


def test_a_step_of_an_unfinished_run_is_a_point() -> None:
    """A step's time and a peak do not wait for the end."""
    unfinished = {"outcome": "timeout", "covers": ("training",)}
    found = rows(value("time.step", 12.0, **unfinished), value("memory.peak_allocated", 61e9, **unfinished))
    assert found["time.step"]["ratio"] == pytest.approx(1.2) and found["memory.peak_allocated"]["bound"] is None
    died = rows(value("memory.peak_allocated", 61e9, outcome="failed"))["memory.peak_allocated"]
    assert died["bound"] == "lower", "a run that failed at once may have grown further"


def test_memories_are_never_compared_with_one_another() -> None:
    """Each of the three only with its own item."""
    found = rows(*(value(f"memory.peak_{kind}", 62e9, method=kind) for kind in ("allocated", "reserved", "process")))
    assert [found[f"memory.peak_{kind}"]["estimated"] for kind in ("allocated", "reserved", "process")] == [60e9, 66e9, 68e9]
    alone = rows(value("memory.peak_process", 70e9))
    assert not {"memory.peak_allocated", "memory.peak_reserved"} & alone.keys()


def test_what_cannot_be_set_beside_the_estimate() -> None:
    """Sums over ranks, one rank's rate, utilized hours."""
    answer = compare(
        quoted(),
        [
            value("memory.peak_allocated", 480e9, scope="sum"),
            value("throughput.input_tokens_per_second", 12.0, scope="rank0"),
            value("device_hours.run", 20.0, basis="utilized"),
        ],
    )
    assert answer["rows"] == [] and len(answer["not_counted"]) == 3


def test_methods_are_apart() -> None:
    """Two methods of one code are two rows, never summed."""
    answer = compare(quoted(), [value("device_hours.run", 26.0), value("device_hours.run", 27.0, source="wandb", method="runtime")])
    assert [(r["method"], r["measured"]) for r in answer["rows"] if r["code"] == "device_hours.run"] == [
        ("accounting", 26.0),
        ("runtime", 27.0),
    ]


def test_rates_and_steps_are_averaged_by_steps() -> None:
    """A thousand tokens at 100/s and three thousand at 50/s are 4000 in 70 s."""
    covers = ("training",)
    first, second = {"attempt": 1, "steps_completed": 100}, {"attempt": 2, "steps_completed": 300}
    rate = rows(*(value("throughput.input_tokens_per_second", n, covers=covers, **a) for n, a in ((100.0, first), (50.0, second))))[
        "throughput.input_tokens_per_second"
    ]
    assert rate["measured"] == pytest.approx(400 / (100 / 100 + 300 / 50))
    step = rows(*(value("time.step", n, covers=covers, **a) for n, a in ((10.0, first), (20.0, second))))["time.step"]
    assert step["measured"] == pytest.approx(17.5)


def test_corrections() -> None:
    """What was corrected does not count; the correction does."""
    wrong = value("device_hours.run", 1e6)
    right = value("device_hours.run", 26.0, corrects_id=wrong.id)
    assert rows(wrong, right)["device_hours.run"]["measured"] == 26.0


def test_repeats_of_a_run_are_said() -> None:
    """Two attempts that both did all steps are added, as the contract has it, and flagged."""
    twice = [value("device_hours.run", 26.0, attempt=n, steps_completed=1000) for n in (1, 2)]
    assert (rows(*twice)["device_hours.run"]["flags"], rows(*twice)["device_hours.run"]["measured"]) == (["several_completed"], 52.0)
    observed = observe(quoted(), twice)
    assert observed is not None and observed.value == 26.0, "accuracy is kept of one run"
    chained = [value("device_hours.run", 13.0, attempt=n, steps_completed=500 * n) for n in (1, 2)]
    assert rows(*chained)["device_hours.run"]["flags"] == []
    repeated = rows(value("time.step", 10.0, repeats=5, spread=0.02), value("time.step", 10.2, attempt=2, repeats=7, spread=0.05))[
        "time.step"
    ]
    assert (repeated["repeats"], repeated["spread"]) == (12, 0.05)


# --- What follows ---------------------------------------------------------------------------------------------------


def test_implied_mfu_of_a_whole_run() -> None:
    """Twice the hours of training are half the MFU, in every convention."""
    found = rows(value("device_hours.run", 2 * 10_000 * 8 / 3600))
    for code, expected in (("efficiency.mfu", 0.2), ("efficiency.mfu_causal", 0.21)):
        assert found[code]["measured"] == pytest.approx(expected) and found[code]["derived"] is True
    training = found["device_hours.training"]
    assert (training["bound"], training["derived"]) == ("upper", True) and training["ratio"] == pytest.approx(2.0)


def test_implied_mfu_prefers_the_step() -> None:
    """A step of 12.5 s instead of 10 s: 0.32, whatever the whole took. On 16 devices at 5 s a step: 0.4."""
    found = rows(value("time.step", 12.5), value("device_hours.run", 50.0))
    assert found["efficiency.mfu"]["measured"] == pytest.approx(0.32) and "time.step" in found["efficiency.mfu"]["method"]
    assert rows(value("time.step", 5.0, device_count=16))["efficiency.mfu"]["measured"] == pytest.approx(0.4)


def test_implied_mfu_of_half_a_run() -> None:
    """500 of 1000 steps in half the training hours: the MFU is the quoted one."""
    half = value("device_hours.training", 5_000 * 8 / 3600, outcome="timeout", covers=("training",), steps_completed=500)
    found = rows(half, value("device_hours.run", 5_000 * 8 / 3600, outcome="timeout", covers=("training",), steps_completed=500))
    assert found["efficiency.mfu"]["measured"] == pytest.approx(0.4)


def test_times_hours_and_steps_follow_from_one_another() -> None:
    """3600 s on 8 devices are 8 device-hours; 9000 s over 1000 steps are 9 s."""
    found = rows(value("time.training", 9_000.0, device_count=8, steps_completed=1000))
    assert found["device_hours.training"]["measured"] == pytest.approx(20.0) and found["device_hours.training"]["derived"]
    assert found["time.step"]["measured"] == pytest.approx(9.0)
    assert found["throughput.input_tokens_per_second"]["measured"] == pytest.approx(1e6 / 1000 / 9)
    window = {"started_at": START, "ended_at": START + timedelta(hours=3), "device_count": 8}
    derived = rows(value("memory.peak_allocated", 6e10, **window))
    assert derived["device_hours.run"]["measured"] == pytest.approx(24.0) and derived["device_hours.run"]["derived"]
    assert derived["time.wall_clock"]["measured"] == pytest.approx(10_800.0)


# --- Decomposition --------------------------------------------------------------------------------------------------


def parts(answer: dict[str, Any]) -> dict[str, float | None]:
    """Factors by name."""
    return {part["name"]: part["factor"] for part in answer["decomposition"]["parts"]}


def test_decomposition_by_hand() -> None:
    """10 % more steps, steps 20 % slower, and the rest: 1.1 x 1.2 x what is left."""
    done = {"steps_completed": 1100, "device_count": 8}
    answer = compare(quoted(), [value("device_hours.run", 40.0, **done), value("time.step", 12.0, **done)])
    whole = 40 / (12_000 * 8 / 3600)
    assert parts(answer) == {
        "spec_drift": pytest.approx(1.1),
        "efficiency": pytest.approx(1.2),
        "operations": pytest.approx(whole / 1.1 / 1.2),
    }
    assert answer["decomposition"]["unseparated"] is None
    assert sum(part["log"] for part in answer["decomposition"]["parts"]) == pytest.approx(answer["decomposition"]["log_ratio"])


def test_more_devices_are_drift_of_the_wall_clock_alone() -> None:
    """16 devices instead of 8 at the same efficiency: half the wall clock, the same device-hours."""
    done = {"steps_completed": 1000, "device_count": 16}
    clock = compare(quoted(), [value("time.wall_clock", 6_000.0, **done), value("time.step", 5.0, **done)])
    # Wall clock on known devices gives hours, but what was measured itself is decomposed first.
    assert parts(clock)["efficiency"] == pytest.approx(1.0)
    hours = compare(quoted(), [value("device_hours.run", 6_000 * 16 / 3600, **done), value("time.step", 5.0, **done)])
    assert parts(hours) == {"spec_drift": 1.0, "efficiency": pytest.approx(1.0), "operations": pytest.approx(1.0)}


def test_longer_steps_of_more_tokens_are_drift() -> None:
    """Twice the tokens in the same steps of twice the time: drift, not inefficiency."""
    done = {"steps_completed": 1000, "device_count": 8}
    answer = compare(
        quoted(),
        [value("device_hours.training", 20_000 * 8 / 3600, **done), value("time.step", 20.0, **done), value("tokens.input", 2e6, **done)],
    )
    assert parts(answer) == {"spec_drift": pytest.approx(2.0), "efficiency": pytest.approx(1.0), "operations": pytest.approx(1.0)}


def test_training_time_and_its_steps_tell_the_pace() -> None:
    """Half the steps in the quoted time of all: each took twice as long."""
    answer = compare(quoted(), [value("time.training", 10_000.0, steps_completed=500, device_count=8)])
    assert parts(answer) == {"spec_drift": 0.5, "efficiency": pytest.approx(2.0), "operations": pytest.approx(1.0)}


def test_what_is_not_known_is_not_guessed() -> None:
    """Without steps and step times the factors are null, together."""
    decomposition = compare(quoted(), [value("device_hours.run", 40.0)])["decomposition"]
    assert all(part["factor"] is None and part["reason"] for part in decomposition["parts"])
    assert decomposition["unseparated"]["factor"] == pytest.approx(decomposition["ratio"])


def test_operations_name_what_was_lost() -> None:
    """Lost attempts and the waits between them stand beside the factor."""
    covers = ("training",)
    windows = [(START, START + timedelta(hours=1)), (START + timedelta(hours=3), START + timedelta(hours=6))]
    answer = compare(
        quoted(),
        [
            value("device_hours.run", 8.0, attempt=1, outcome="failed", covers=covers, started_at=windows[0][0], ended_at=windows[0][1]),
            value("device_hours.run", 24.0, attempt=2, covers=covers, started_at=windows[1][0], ended_at=windows[1][1]),
            value("time.evaluation", 1_800.0, attempt=2, covers=("evaluation",)),
        ],
    )
    (operations,) = [part for part in answer["decomposition"]["parts"] if part["name"] == "operations"]
    assert (operations["detail"]["lost_attempts"], operations["detail"]["lost_device_hours"]) == (1, 8.0)
    assert operations["detail"]["waits_seconds"] == 7200.0
    assert {"code": "time.evaluation", "estimated": 1_500.0, "measured": 1_800.0} in operations["detail"]["parts"]


def test_a_try_that_several_sources_saw_is_lost_once() -> None:
    """Tries 1 and 2 as three sources saw them: 100 + 50 hours of devices, of which 300 are stored; of try 3 one source knows alone."""
    lost = {"outcome": "failed", "covers": ("training",)}
    answer = compare(
        quoted(),
        [
            value("device_hours.run", 100.0, attempt=1, source="slurm", **lost),
            value("device_hours.run", 98.0, attempt=1, source="prometheus", **lost),
            value("device_hours.run", 50.0, attempt=2, source="slurm", **lost),
            value("device_hours.run", 49.0, attempt=2, source="kubernetes", **lost),
            value("device_hours.run", 3.0, attempt=2, source="prometheus", basis="utilized", method="weighted", **lost),
            value("device_hours.run", 7.0, attempt=3, source="kubernetes", **lost),
        ],
    )
    assert answer["attempts"] == {"lost": 3, "lost_device_hours": 157.0, "waits_seconds": None}


def test_what_an_attempt_covers_decides_what_it_speaks_of() -> None:
    """Evaluation alone says nothing of the run, but its own time and a file's size count."""
    covers = ("evaluation", "checkpointing")
    answer = compare(
        quoted(),
        [
            value(code, number, covers=covers)
            for code, number in (("time.evaluation", 1_800.0), ("device_hours.run", 4.0), ("time.step", 1.0))
        ],
    )
    assert [row["code"] for row in answer["rows"]] == ["time.evaluation"]
    assert sorted(entry["code"] for entry in answer["not_counted"]) == ["device_hours.run", "time.step"]
    (file,) = compare(quoted(), [value("storage.checkpoint_full", 1e11, covers=covers)])["rows"]
    assert (file["measured"], file["bound"], file["ratio"]) == (100000000000, None, None)


# --- Order ----------------------------------------------------------------------------------------------------------

codes_drawn = st.sampled_from(
    ["device_hours.run", "time.step", "time.training", "memory.peak_allocated", "tokens.input", "throughput.input_tokens_per_second"]
)
drawn = st.builds(
    value,
    codes_drawn,
    st.floats(1e-3, 1e12),
    attempt=st.integers(1, 4),
    outcome=st.sampled_from(["completed", "failed", "timeout"]),
    covers=st.sampled_from([None, ("training",), ("evaluation",)]),
    source=st.sampled_from(["slurm", "megatron"]),
    steps_completed=st.none() | st.integers(1, 2000),
    device_count=st.none() | st.sampled_from([8, 16]),
)


@settings(max_examples=200, deadline=None)
@given(values=st.lists(drawn, max_size=8), data=st.data())
def test_order_does_not_matter(values: list[Measurement], data: st.DataObject) -> None:
    """Appended in any order, the same comparison and the same observations."""
    shuffled = data.draw(st.permutations(values))
    assert compare(quoted(), values) == compare(quoted(), shuffled)
    groups, again = grouped(current(values)), grouped(current(shuffled))
    assert [observe(quoted(), group) for group in groups] == [observe(quoted(), group) for group in again]


@settings(max_examples=400, deadline=None)
@given(values=st.lists(drawn, min_size=1, max_size=8))
def test_the_factors_multiply_to_the_ratio(values: list[Measurement]) -> None:
    """Whatever was measured, known factors and the unseparated rest give the whole error."""
    decomposition = compare(quoted(), values)["decomposition"]
    if decomposition is None:
        return
    known = math.prod(part["factor"] for part in decomposition["parts"] if part["factor"] is not None)
    rest = decomposition["unseparated"]["factor"] if decomposition["unseparated"] else 1.0
    assert known * rest == pytest.approx(decomposition["ratio"], rel=1e-9)


def test_observation_of_drift() -> None:
    """Twice the steps explain a factor of two of the hours."""
    found = observe(quoted(), [value("device_hours.run", 60.0, steps_completed=2000)])
    assert found is not None and found.spec_drift == pytest.approx(math.log(2)) and not found.censored
    unknown = observe(quoted(), [value("device_hours.run", 60.0)])
    assert unknown is not None and unknown.spec_drift is None
