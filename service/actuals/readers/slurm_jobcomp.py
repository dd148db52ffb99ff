"""What ``JobCompType=jobcomp/elasticsearch`` posts: one object for each attempt that ended.

A single post cannot number its attempt, so it is matched by job and start time. Times have no zone: taken as UTC.
Also taken: a list of posts, or lines of JSON, bare or as a capture with the post in ``body``.
"""

from __future__ import annotations

import json
from typing import Any

from ..measurement import Hints, Reading, Unreadable
from .base import as_json, count, number, parse_time, refuse_pointer, zoneless
from .slurm import Record, reading, refuse_many, tres


def read(document: Any, hints: Hints) -> Reading:
    """Attempts of every post."""
    records = [_record(post, f"/{index}" if several else "") for several, index, post in _posts(document)]
    return reading(records, hints, requeued_as_pending=True)


def _posts(document: Any) -> list[tuple[bool, int, Any]]:
    if isinstance(document, str):
        refuse_pointer(document)
        lines = [line for line in document.splitlines() if line.strip()]
        if len(lines) > 1 and all(line.lstrip().startswith("{") and line.rstrip().endswith("}") for line in lines):
            try:
                document = [json.loads(line) for line in lines]
            except ValueError as error:
                raise Unreadable("a line of the document is not JSON") from error
    parsed = as_json(document)
    posts = parsed if isinstance(parsed, list) else [parsed]
    refuse_many(len(posts))
    return [(isinstance(parsed, list), index, post) for index, post in enumerate(posts)]


def _record(post: Any, pointer: str) -> Record:
    if isinstance(post, dict) and isinstance(post.get("body"), str):
        post = as_json(post["body"])
    if isinstance(post, dict) and isinstance(post.get("_source"), dict):
        post = post["_source"]  # as Elasticsearch gives it back
    if not isinstance(post, dict) or count(post.get("jobid")) is None:
        raise Unreadable("a job completion has a whole number `jobid`", f"{pointer}/jobid")
    array, task = count(post.get("array_job_id")), count(post.get("array_task_id"))
    state = post.get("state")
    cluster = post.get("cluster")
    return Record(
        job_id=str(count(post["jobid"])),
        pointer=pointer,
        names=(f"{array}_{task}",) if array and task is not None else (),
        cluster=cluster if isinstance(cluster, str) and cluster else None,
        state=state if isinstance(state, str) else "",
        submit=parse_time(post.get("@submit")),
        start=parse_time(post.get("@start")),
        end=parse_time(post.get("@end")),
        elapsed_seconds=number(post.get("elapsed")),
        time_limit_seconds=number(post.get("time_limit")),  # seconds, unlike sacct's minutes
        zone_assumed=zoneless(post.get("@start")),
        tres=tres(post["tres_alloc"]) if isinstance(post.get("tres_alloc"), str) else {},
        text=" ".join(post[name] for name in ("script", "comment", "admin_comment") if isinstance(post.get(name), str)),
    )
