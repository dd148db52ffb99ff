"""A Kubernetes batch/v1 Job, alone or with its pods (``{"job", "pods"}`` or a List of both).

Retries are further pods, so hours are summed over pods; a Job alone only knows its start and completion.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from ..measurement import Attempt, Collector, Hints, Outcome, Reading, Unreadable, Value
from .base import as_json, count, devices, dig, objects, parse_time, seconds_between
from .slurm import COVERS

_DEVICES = ("nvidia.com/gpu", "amd.com/gpu", "google.com/tpu", "habana.ai/gaudi", "gpu.intel.com/i915")
_METHOD = "pod container times"


def read(document: Any, hints: Hints) -> Reading:
    """One attempt a pod where the Job runs one pod at a time, else one attempt with all its pods."""
    job, pods = _parts(as_json(document))
    into = Collector()
    name = str(dig(job, "metadata", "name") or "") or None
    uid = dig(job, "metadata", "uid")
    outcome = hints.outcome or _job_outcome(job)
    attempts = _from_pods(job, pods, outcome, hints, into) if pods else [_from_job(job, outcome, hints, into)]
    if not any(attempt.values for attempt in attempts):
        raise Unreadable("neither start and completion of the Job nor times of its pods", "/status")
    numbered = tuple(
        _named(attempt, index if len(attempts) > 1 else 1, name, uid if isinstance(uid, str) else None)
        for index, attempt in enumerate(attempts, start=1)
    )
    return Reading(attempts=numbered, ignored=tuple(into.ignored))


def _parts(parsed: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    if isinstance(parsed, dict) and "job" in parsed:
        entries = [parsed["job"], *_items(parsed.get("pods"))]
    elif isinstance(parsed, list):
        entries = parsed
    else:
        entries = _items(parsed)
    found = objects(entries)
    pods: list[dict[str, Any]] = []
    jobs: list[dict[str, Any]] = []
    for entry in found:
        is_pod = entry.get("kind") == "Pod" or dig(entry, "status", "containerStatuses") is not None
        (pods if is_pod else jobs).append(entry)
    if len(jobs) != 1 or not isinstance(jobs[0].get("status"), dict):
        raise Unreadable("one batch/v1 Job with its status, alone or with its pods")
    return jobs[0], pods


def _items(value: Any) -> list[Any]:
    if isinstance(value, dict) and isinstance(value.get("items"), list):
        return list(value["items"])
    return value if isinstance(value, list) else [] if value is None else [value]


def _job_outcome(job: dict[str, Any]) -> Outcome:
    for condition in objects(dig(job, "status", "conditions")):
        if condition.get("status") == "True":
            if condition.get("type") == "Complete":
                return "completed"
            if condition.get("type") == "Failed":
                return "timeout" if condition.get("reason") == "DeadlineExceeded" else "failed"
    if count(dig(job, "status", "active")):
        raise Unreadable("the Job has not ended: pods are active", "/status/active")
    if dig(job, "spec", "suspend") is True:
        return "preempted"
    raise Unreadable("the Job has neither completed nor failed", "/status/conditions")


def _pod_outcome(pod: dict[str, Any]) -> Outcome:
    if dig(pod, "status", "phase") == "Succeeded":
        return "completed"
    disrupted = any(c.get("type") == "DisruptionTarget" and c.get("status") == "True" for c in objects(dig(pod, "status", "conditions")))
    reason = str(dig(pod, "status", "reason"))
    if disrupted or reason in {"Evicted", "Preempting", "Terminated", "Shutdown"}:
        return "preempted"
    return "timeout" if reason == "DeadlineExceeded" else "failed"


def _limits(spec: Any) -> int | None:
    """Devices a pod holds: the sum over its containers."""
    total = 0
    for container in objects(dig(spec, "containers")):
        total += sum(count(dig(container, "resources", "limits", kind)) or 0 for kind in _DEVICES)
    return total or None


def _pod_window(pod: dict[str, Any]) -> tuple[datetime, datetime] | None:
    ends = []
    for status in objects(dig(pod, "status", "containerStatuses")):
        ended = dig(status, "state", "terminated")
        start, end = parse_time(dig(ended, "startedAt")), parse_time(dig(ended, "finishedAt"))
        if start and end:
            ends.append((start, end))
    return (min(s for s, _ in ends), max(e for _, e in ends)) if ends else None


def _from_pods(job: dict[str, Any], pods: list[dict[str, Any]], outcome: Outcome, hints: Hints, into: Collector) -> list[Attempt]:
    runs = []
    of_template = _limits(dig(job, "spec", "template", "spec"))
    for index, pod in enumerate(pods):
        window = _pod_window(pod)
        if window is None:
            into.ignore(f"/pods/{index}", "no terminated container: nothing is measured of it")
            continue
        held = _limits(pod.get("spec")) or of_template
        restarts = sum(count(dig(s, "restartCount")) or 0 for s in objects(dig(pod, "status", "containerStatuses")))
        runs.append((window[0], window[1], held, pod, restarts))
    runs.sort(key=lambda run: (run[0], run[1]))
    if (count(dig(job, "spec", "parallelism")) or 1) == 1:
        return [
            _attempt([(start, end, held)], _pod_outcome(pod), hints, into, ("retries_not_counted",) if restarts else ())
            for start, end, held, pod, restarts in runs
        ]
    restarted = ("retries_not_counted",) if any(run[4] for run in runs) else ()
    return [_attempt([run[:3] for run in runs], outcome, hints, into, restarted)] if runs else []


def _from_job(job: dict[str, Any], outcome: Outcome, hints: Hints, into: Collector) -> Attempt:
    status = job["status"]
    start = parse_time(status.get("startTime"))
    stopped = [parse_time(c.get("lastTransitionTime")) for c in objects(status.get("conditions"))]
    end = parse_time(status.get("completionTime")) or max((t for t in stopped if t), default=None)
    if start is None or end is None:
        return Attempt(source="kubernetes", outcome=outcome)
    held = _limits(dig(job, "spec", "template", "spec"))
    parallel = count(dig(job, "spec", "parallelism")) or 1
    flags = ("retries_not_counted",) if count(status.get("failed")) else ()
    # As many pods at once as a number in the document says are one that holds their devices: a list of them may fit in no memory.
    together = None if held is None else count(held * parallel)
    return _attempt([(start, end, together)], outcome, hints, into, flags, method="job start to completion")


def _attempt(
    pods: list[tuple[datetime, datetime, int | None]],
    outcome: Outcome,
    hints: Hints,
    into: Collector,
    flags: tuple[str, ...],
    method: str = _METHOD,
) -> Attempt:
    start, end = min(pod[0] for pod in pods), max(pod[1] for pod in pods)
    held = [pod[2] for pod in pods]
    total, assumed = devices(hints, None if None in held else _most_at_once(pods))
    values = [Value(code="time.wall_clock", value=seconds_between(start, end) or 0.0, method=method, flags=flags)]
    if total is None:
        into.ignore("/spec", "no device limits on the containers: say device_count to have device-hours")
    else:
        hours = (
            sum((pod[1] - pod[0]).total_seconds() * (pod[2] or 0) for pod in pods) / 3600
            if None not in held
            else (end - start).total_seconds() * total / 3600
        )
        values.insert(0, Value(code="device_hours.run", value=hours, method=method, basis="allocated", flags=flags + assumed))
    return Attempt(
        source="kubernetes",
        outcome=outcome,
        covers=COVERS,
        started_at=start,
        ended_at=end,
        device_count=total,
        values=tuple(values),
    )


def _most_at_once(pods: list[tuple[datetime, datetime, int | None]]) -> int:
    """The largest number of devices held at one time."""
    changes = sorted([(start, held or 0) for start, _, held in pods] + [(end, -(held or 0)) for _, end, held in pods])
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


def _named(attempt: Attempt, index: int, name: str | None, uid: str | None) -> Attempt:
    return replace(attempt, attempt=index, job_id=name, job_names=(uid,) if uid else ())
