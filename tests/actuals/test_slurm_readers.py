"""Slurm's three outputs about the same nine jobs of a real cluster, and hand-made ones of other versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from service.actuals.measurement import Attempt, Hints, Unreadable
from service.actuals.readers import read

CASES = Path(__file__).parents[1] / "cases" / "slurm"
JSON = json.loads((CASES / "debian12_22.05_sacct_json_dbv0.0.38.json").read_text())
PARSABLE = (CASES / "debian12_22.05_sacct_P_ALL_duplicates.txt").read_text()
SELECT = (CASES / "debian12_22.05_sacct_P_select.txt").read_text()
POSTS = (CASES / "debian12_22.05_jobcomp_elasticsearch_POSTs.jsonl").read_text()

# What the cluster was made to do: job -> (outcome, elapsed seconds, devices) of each attempt.
TRUTH = {
    "1": [("completed", 6, 4)],
    "2": [("completed", 6, 4)],
    "3": [("completed", 6, 4)],
    "4": [("failed", 3, 2)],
    "5": [("timeout", 87, 2)],
    "6": [("preempted", 3, 8), ("completed", 2, 8)],
    "8": [("completed", 2, 2)],
    "9": [("completed", 2, 2)],
}


def value(attempt: Attempt, code: str) -> float:
    """The only value of a code."""
    (found,) = [entry.value for entry in attempt.values if entry.code == code]
    return found


def facts(attempts: tuple[Attempt, ...]) -> dict[str, list[tuple[str, float, float]]]:
    """Attempts by job, in their order."""
    found: dict[str, list[tuple[str, float, float]]] = {}
    for attempt in sorted(attempts, key=lambda a: (a.job_id or "", a.attempt or 0)):
        assert attempt.device_count is not None and attempt.job_id is not None
        seconds = value(attempt, "time.wall_clock")
        assert value(attempt, "device_hours.run") == pytest.approx(seconds * attempt.device_count / 3600, rel=1e-12)
        found.setdefault(attempt.job_id, []).append((attempt.outcome, seconds, attempt.device_count))
    return found


@pytest.mark.parametrize(("format_name", "document"), [("sacct_json", JSON), ("sacct_parsable", PARSABLE)])
def test_every_attempt_of_every_job(format_name: Any, document: Any) -> None:
    """Typed and untyped gres are not added; both attempts of the requeued job count; elapsed is seconds."""
    reading = read(format_name, document)
    assert facts(reading.attempts) == TRUTH
    assert [a.attempt for a in reading.attempts if a.job_id == "6"] == [1, 2]
    assert any("job 7 ended before it started" in note.detail for note in reading.ignored), "cancelled while pending"


def test_posts_at_completion() -> None:
    """jobcomp reports the requeued attempt as PENDING; it is one all the same. Jobs 1-3 ended before the plugin was on."""
    reading = read("slurm_jobcomp", POSTS)
    assert facts(reading.attempts) == {job: rows for job, rows in TRUTH.items() if job not in "123"}
    assert any("job 7" in note.detail for note in reading.ignored)


def test_one_post_is_one_attempt() -> None:
    """As Slurm sends it: an object, by itself."""
    body = json.loads(json.loads(POSTS.splitlines()[5])["body"])
    (attempt,) = read("slurm_jobcomp", body).attempts
    assert (attempt.job_id, attempt.outcome, attempt.device_count) == ("6", "preempted", 8)
    assert attempt.started_at is not None and attempt.started_at.isoformat() == "2026-11-29T14:30:55+00:00"
    (attempt,) = read("slurm_jobcomp", json.dumps(body)).attempts
    assert attempt.job_names == ("quotetest/6",)


def test_the_three_agree_on_when() -> None:
    """Attempts are matched by start across the tools."""
    starts = [{(a.job_id, a.started_at) for a in read(f, d).attempts} for f, d in (("sacct_json", JSON), ("sacct_parsable", PARSABLE))]  # type: ignore[arg-type]
    assert starts[0] == starts[1]
    assert {(a.job_id, a.started_at) for a in read("slurm_jobcomp", POSTS).attempts} <= starts[0]


def test_array_tasks_have_two_names() -> None:
    """`4_1` is raw job 9."""
    for format_name, document in (("sacct_json", JSON), ("sacct_parsable", PARSABLE), ("slurm_jobcomp", POSTS)):
        (task,) = [a for a in read(format_name, document).attempts if "4_1" in a.job_names]  # type: ignore[arg-type]
        assert task.job_id == "9"


def test_the_quote_that_a_job_names() -> None:
    """`#SBATCH --comment=quote:...` is found in the comment."""
    for format_name, document in (("sacct_json", JSON), ("sacct_parsable", SELECT)):
        (job,) = [a for a in read(format_name, document).attempts if a.job_id == "1"]  # type: ignore[arg-type]
        assert job.quote_ids == ("q_01HZX",)


def job(**changes: Any) -> dict[str, Any]:
    """A job as Slurm 23.11 and later (data_parser v0.0.40) writes it."""
    wrapped = {"set": True, "infinite": False}
    base: dict[str, Any] = {
        "job_id": 1234,
        "cluster": "alpha",
        "array": {"job_id": 0, "task_id": {"set": False, "infinite": False, "number": 0}},
        "comment": {"administrator": "", "job": "", "system": ""},
        "state": {"current": ["COMPLETED"], "reason": "None"},
        "time": {
            "elapsed": 7200,
            "start": 1700000000,
            "end": 1700007200,
            "submission": 1699999000,
            "limit": {**wrapped, "number": 180},
        },
        "tres": {"allocated": [{"type": "cpu", "name": "", "id": 1, "count": 64}, {"type": "gres", "name": "gpu", "id": 1001, "count": 8}]},
        "steps": [],
    }
    base.update(changes)
    return base


def test_newer_json() -> None:
    """States are lists, numbers are wrapped."""
    (attempt,) = read("sacct_json", {"jobs": [job()]}).attempts
    assert (attempt.outcome, attempt.device_count, value(attempt, "device_hours.run")) == ("completed", 8, 16.0)
    wrapped = job(
        time={
            name: {"set": True, "infinite": False, "number": n}
            for name, n in (("elapsed", 3600), ("start", 1700000000), ("end", 1700003600))
        }
    )
    assert value(read("sacct_json", {"jobs": [wrapped]}).attempts[0], "device_hours.run") == 8.0
    requeued = job(state={"current": ["CANCELLED", "REQUEUED"], "reason": "None"})
    assert read("sacct_json", {"jobs": [requeued]}).attempts[0].outcome == "preempted"


def test_older_json() -> None:
    """21.08 has plain numbers and a plain state."""
    older = job(state={"current": "NODE_FAIL", "reason": "None"})
    older["time"]["limit"] = 180
    older["array"] = {"job_id": 0, "task_id": None}
    (attempt,) = read("sacct_json", {"metadata": {}, "errors": [], "jobs": [older]}).attempts
    assert (attempt.outcome, value(attempt, "time.wall_clock")) == ("failed", 7200)


def test_typed_gres_alone_is_added() -> None:
    """Without the untyped entry the typed ones are the devices."""
    tres = {"allocated": [{"type": "gres", "name": "gpu:h100", "count": 4}, {"type": "gres", "name": "gpu:a100", "count": 2}]}
    assert read("sacct_json", {"jobs": [job(tres=tres)]}).attempts[0].device_count == 6


def test_untracked_devices() -> None:
    """A cluster that does not track gres/gpu: the caller's count, the quote's with a flag, or no hours at all."""
    document = {"jobs": [job(tres={"allocated": [{"type": "cpu", "name": "", "count": 8}]})]}
    reading = read("sacct_json", document)
    assert [entry.code for entry in reading.attempts[0].values] == ["time.wall_clock"]
    assert any("not tracked" in note.detail for note in reading.ignored)
    said = read("sacct_json", document, Hints(device_count=16)).attempts[0].values[0]
    assert (said.code, said.value, said.flags) == ("device_hours.run", 32.0, ())
    assumed = read("sacct_json", document, Hints(quoted_device_count=4)).attempts[0].values[0]
    assert (assumed.value, assumed.flags) == (8.0, ("device_count_from_quote",))


def test_elapsed_is_not_end_minus_start() -> None:
    """A suspended job: 20,615 s of work in a window of 50,599 s (figures of a public fixture)."""
    suspended = job(time={"elapsed": 20615, "start": 1700000000, "end": 1700050599, "submission": 1699999000})
    (attempt,) = read("sacct_json", {"jobs": [suspended]}).attempts
    hours = attempt.values[0]
    assert hours.value == pytest.approx(20615 * 8 / 3600) and "elapsed_differs_from_window" in hours.flags


HEADER = "JobID|State|Start|End|ElapsedRaw|TimelimitRaw|AllocTRES|NTasks|TRESUsageInMax|Restarts"
MAIN = "77|COMPLETED|2026-01-01T00:00:00|2026-01-01T01:00:00|3600|120|gres/gpu=2|||0"


def test_limits_are_minutes_in_sacct_and_seconds_in_jobcomp() -> None:
    """3600 s of a limit of 120 minutes is fine; of 120 s it is not."""
    (attempt,) = read("sacct_parsable", f"{HEADER}\n{MAIN}").attempts
    assert "over_time_limit" not in attempt.values[0].flags
    times = {"@start": "2026-01-01T00:00:00", "@end": "2026-01-01T01:00:00", "elapsed": 3600, "time_limit": 120}
    post = {"jobid": 1, "state": "COMPLETED", **times, "tres_alloc": "gres/gpu=1"}
    assert "over_time_limit" in read("slurm_jobcomp", post).attempts[0].values[0].flags


def test_device_memory_of_steps() -> None:
    """`gres/gpumem` is MiB with a suffix, the largest of any task: a device's only where a task has one."""
    steps = "77.0|COMPLETED|||3600||gres/gpu=2|2|gres/gpumem=38888M,gres/gpuutil=100|"
    (attempt,) = read("sacct_parsable", f"{HEADER}\n{MAIN}\n{steps}").attempts
    assert value(attempt, "memory.peak_process") == 38888 * 2**20
    one_task = steps.replace("gres/gpu=2|2|", "gres/gpu=2|1|")
    reading = read("sacct_parsable", f"{HEADER}\n{MAIN}\n{one_task}")
    assert all(entry.code != "memory.peak_process" for entry in reading.attempts[0].values)
    assert any("several devices" in note.detail for note in reading.ignored)
    zero = steps.replace("38888M", "0")
    assert any("MIG" in note.detail for note in read("sacct_parsable", f"{HEADER}\n{MAIN}\n{zero}").ignored)


def test_hidden_attempts_are_flagged() -> None:
    """Without -D sacct hides what ran before a requeue; the number of restarts tells."""
    restarted = MAIN[:-1] + "2"
    assert "earlier_attempts_missing" in read("sacct_parsable", f"{HEADER}\n{restarted}").attempts[0].values[0].flags
    assert "earlier_attempts_missing" not in read("sacct_parsable", f"{HEADER}\n{MAIN}").attempts[0].values[0].flags


def test_elapsed_as_text() -> None:
    """`Elapsed` is [days-]hours:minutes:seconds."""
    rows = "JobID|State|Elapsed|AllocTRES\n5|COMPLETED|1-02:00:30|gres/gpu=1"
    assert value(read("sacct_parsable", rows).attempts[0], "time.wall_clock") == 26 * 3600 + 30


def test_running_jobs_are_not_measured() -> None:
    """A job that has not ended is no attempt."""
    reading = read("sacct_json", {"jobs": [job(state={"current": ["RUNNING"], "reason": "None"}), job(job_id=5)]})
    assert [a.job_id for a in reading.attempts] == ["5"] and any("RUNNING" in note.detail for note in reading.ignored)


@pytest.mark.parametrize(
    ("format_name", "document", "says"),
    [
        ("sacct_json", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1234\n", "Git LFS pointer"),
        ("sacct_parsable", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1234\n", "Git LFS pointer"),
        ("slurm_jobcomp", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1234\n", "Git LFS pointer"),
        ("sacct_json", {"job": []}, "list `jobs`"),
        ("sacct_json", {"jobs": []}, "no jobs"),
        ("sacct_json", {"jobs": [job(state={"current": "DANCING"})]}, "does not document"),
        ("sacct_parsable", "JobID|Start\n1|x", "State"),
        ("sacct_parsable", f"{HEADER}\n{MAIN}|x", "more or fewer fields"),
        ("sacct_parsable", f"{HEADER}\n{MAIN[:-2]}", "more or fewer fields"),
        ("slurm_jobcomp", {"state": "COMPLETED"}, "jobid"),
        ("slurm_jobcomp", "not json", "not JSON"),
    ],
)
def test_refused(format_name: Any, document: Any, says: str) -> None:
    """What is not the tool's output is refused with a reason."""
    with pytest.raises(Unreadable, match=says):
        read(format_name, document)
