"""``sacct -P`` or ``-p``, with or without ``-D``: a header line and rows of fields between bars.

Without ``-D`` sacct shows only the last attempt of a requeued job; where a ``Restarts`` column says so it is flagged.
"""

from __future__ import annotations

import re
from typing import Any

from ..measurement import Hints, Reading, Unreadable
from .base import as_lines, count, first, number, parse_time, zoneless
from .slurm import Record, reading, refuse_many, size_bytes, tres

_NEEDED = ("JobID", "State")


def read(document: Any, hints: Hints) -> Reading:
    """Attempts of every job in the table; rows of steps only add what their job lacks."""
    lines = [line for line in as_lines(document) if line.strip()]
    header = lines[0].split("|") if lines else []
    missing = [name for name in _NEEDED if name not in header]
    if missing:
        raise Unreadable(f"the first line names the fields, {' and '.join(missing)} among them (sacct -P, without -n)")
    if not {"ElapsedRaw", "Elapsed"} & set(header):
        raise Unreadable("the table needs Elapsed or ElapsedRaw")
    records: list[Record] = []
    latest: dict[str, Record] = {}  # by raw job id: a requeued job's steps follow each of its rows
    for index, line in enumerate(lines[1:], start=1):
        fields = line.split("|")
        if len(fields) != len(header):
            # A name or comment with a bar in it would shift every number behind it.
            raise Unreadable(
                "a row has more or fewer fields than the first line names (a value with a bar in it? leave that field out)", f"/{index}"
            )
        row = dict(zip(header, fields, strict=True))
        if "." in row["JobID"]:
            _step(row, latest)
        else:
            records.append(_record(row, f"/{index}"))
            refuse_many(len(records))
            latest[records[-1].job_id] = records[-1]
    return reading(records, hints)


def _record(row: dict[str, str], pointer: str) -> Record:
    shown, raw = row["JobID"], row.get("JobIDRaw") or row["JobID"]
    limit = number(row.get("TimelimitRaw"))  # minutes, or a word such as Partition_Limit
    return Record(
        job_id=raw,
        pointer=pointer,
        names=(shown,) if shown != raw else (),
        cluster=row.get("Cluster") or None,
        state=row["State"],
        submit=parse_time(row.get("Submit")),
        start=parse_time(row.get("Start")),
        end=parse_time(row.get("End")),
        elapsed_seconds=first((number(row.get("ElapsedRaw")), _duration(row.get("Elapsed", "")))),
        time_limit_seconds=limit * 60 if limit is not None else _duration(row.get("Timelimit", "")),
        tres=tres(row.get("AllocTRES", "")),
        restarts=count(row.get("Restarts")) or 0,
        zone_assumed=zoneless(row.get("Start")),
        text=" ".join(row.get(name, "") for name in ("Comment", "AdminComment", "SystemComment", "Extra", "SubmitLine")),
    )


def _step(row: dict[str, str], latest: dict[str, Record]) -> None:
    record = latest.get((row.get("JobIDRaw") or row["JobID"]).partition(".")[0])
    memory = size_bytes(tres(row.get("TRESUsageInMax", "")).get("gres/gpumem"))
    if record is not None and memory is not None and memory >= (record.device_memory_bytes or 0):
        record.device_memory_bytes, record.tasks = memory, count(row.get("NTasks"))


def _duration(text: str) -> float | None:
    """Seconds from ``[days-]hours:minutes:seconds``."""
    match = re.fullmatch(r"(?:(\d{1,9})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9})(?:\.\d+)?", text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
