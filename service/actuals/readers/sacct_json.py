"""``sacct --json``, from 21.08 (plain numbers) to 23.11 and later ({set, infinite, number} and lists of states)."""

from __future__ import annotations

from typing import Any

from ..measurement import Hints, Reading, Unreadable
from .base import as_object, count, dig, number, objects, parse_time
from .slurm import Record, reading, refuse_many, tres_list


def read(document: Any, hints: Hints) -> Reading:
    """Attempts of every job in the answer; this command lists earlier attempts without being asked."""
    jobs = as_object(document, "the output of sacct --json").get("jobs")
    if not isinstance(jobs, list):
        raise Unreadable("the output of sacct --json has a list `jobs`", "/jobs")
    refuse_many(len(jobs), "/jobs")
    return reading([_record(job, f"/jobs/{index}") for index, job in enumerate(jobs)], hints)


def _record(job: Any, pointer: str) -> Record:
    if not isinstance(job, dict) or count(job.get("job_id")) is None:
        raise Unreadable("a job has a whole number `job_id`", f"{pointer}/job_id")
    job_id = str(count(job["job_id"]))
    array, task = count(dig(job, "array", "job_id")), count(dig(job, "array", "task_id"))
    limit = number(dig(job, "time", "limit"))  # minutes
    memory, tasks = _device_memory(job.get("steps"))
    comments = job.get("comment")
    texts = comments.values() if isinstance(comments, dict) else (comments,)
    return Record(
        job_id=job_id,
        pointer=pointer,
        names=(f"{array}_{task}",) if array and task is not None else (),
        cluster=job.get("cluster") if isinstance(job.get("cluster"), str) else None,
        state=_state(dig(job, "state", "current")),
        submit=parse_time(dig(job, "time", "submission")),
        start=parse_time(dig(job, "time", "start")),
        end=parse_time(dig(job, "time", "end")),
        elapsed_seconds=number(dig(job, "time", "elapsed")),
        time_limit_seconds=None if limit is None else limit * 60,
        tres=tres_list(dig(job, "tres", "allocated")),
        device_memory_bytes=memory,
        tasks=tasks,
        restarts=count(job.get("restart_cnt")) or 0,
        text=" ".join(text for text in (*texts, job.get("extra"), job.get("submit_line"), job.get("script")) if isinstance(text, str)),
    )


def _state(current: Any) -> str:
    """The state; since 23.11 a list whose further words qualify the first."""
    if isinstance(current, list):
        words = [word for word in current if isinstance(word, str)]
        return "REQUEUED" if "REQUEUED" in words else next(iter(words), "")
    return current if isinstance(current, str) else ""


def _device_memory(steps: Any) -> tuple[float | None, int | None]:
    found: tuple[float | None, int | None] = (None, None)
    for step in objects(steps):
        memory = number(tres_list(dig(step, "tres", "requested", "max")).get("gres/gpumem"))
        if memory is not None and (found[0] is None or memory > found[0]):
            found = (memory, count(dig(step, "tasks", "count")))
    return found
