"""Megatron-LM's (and Megatron-DeepSpeed's) training log.

The first interval of a session holds the first iteration, which takes many times the usual: it is left out. Sessions
that were appended to one file are attempts. Memory lines say MB and mean 2^20 bytes.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ..measurement import GIB, MIB, Attempt, Collector, Hints, Outcome, Reading, Unreadable, Value
from .base import as_lines, devices, median, spread

# Each is looked for on its own, so that a line is read in time proportional to its length.
_ITERATION = re.compile(r"iteration\s+(\d{1,15})\s*/\s*(\d{1,15}|infinity)\s*\|")
_ELAPSED = re.compile(r"elapsed time per iteration \((ms|s)\):\s*(\d+(?:\.\d+)?)")
_BATCH = re.compile(r"global batch size:\s*(\d{1,15})")
_RATE = re.compile(r"(?:\(tokens?/s(?:ec)?/GPU\)|tokens/s/GPU):\s*(\d[\d,]*(?:\.\d+)?)")
_MEMORY = re.compile(r"memory \((MB|GB)\)\s*\|")
_ALLOCATED = re.compile(r"max allocated:\s*(\d+(?:\.\d+)?)")
_RESERVED = re.compile(r"max reserved:\s*(\d+(?:\.\d+)?)")
_RANK = re.compile(r"\[Rank (\d{1,9})\]", re.IGNORECASE)
_MILLISECONDS = {"ms": 1e-3, "s": 1.0}
_BYTES = {"MB": MIB, "GB": GIB}


@dataclass(slots=True)
class _Session:
    steps: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)  # tokens per second and device, one a row
    planned: int | None = None
    allocated: list[float] = field(default_factory=list)
    reserved: list[float] = field(default_factory=list)
    ranks: set[str] = field(default_factory=set)


def read(document: Any, hints: Hints) -> Reading:
    """One attempt a session, numbered in the order of the file."""
    sessions = _sessions(as_lines(document))
    if not sessions:
        raise Unreadable("no line with `iteration N/ M | ... elapsed time per iteration (ms): ...`")
    into = Collector()
    if "TFLOP/s" in str(document):
        into.ignore("", "throughput in TFLOP/s is a formula of the tool, not a measurement")
    attempts = tuple(_attempt(session, index, index == len(sessions), hints, into) for index, session in enumerate(sessions, start=1))
    return Reading(attempts=attempts, ignored=tuple(into.ignored))


def _sessions(lines: list[str]) -> list[_Session]:
    sessions: list[_Session] = []
    current = _Session()
    for line in lines:
        if "[before the start of training step]" in line and current.steps:
            sessions.append(current)
            current = _Session()
        if memory := _MEMORY.search(line):
            for pattern, kept in ((_ALLOCATED, current.allocated), (_RESERVED, current.reserved)):
                if found := pattern.search(line):
                    kept.append(float(found[1]) * _BYTES[memory[1]])
            current.ranks.add(rank[1] if (rank := _RANK.search(line)) else "0")
        iteration, elapsed = _ITERATION.search(line), _ELAPSED.search(line)
        if iteration is None or elapsed is None:
            continue
        step = int(iteration[1])
        if current.steps and step <= current.steps[-1]:
            sessions.append(current)
            current = _Session()
        current.steps.append(step)
        current.planned = None if iteration[2] == "infinity" else int(iteration[2])
        current.seconds.append(float(elapsed[2]) * _MILLISECONDS[elapsed[1]])
        current.batches.append(int(batch[1]) if (batch := _BATCH.search(line)) else 0)
        rate = _RATE.search(line)
        current.rates.append(float(rate[1].replace(",", "")) if rate else 0.0)
    return [*sessions, current] if current.steps else sessions


def _attempt(session: _Session, index: int, last: bool, hints: Hints, into: Collector) -> Attempt:
    where = f"session {index}"
    # After the first interval, and at the batch size that most rows have: a ramp-up has shorter steps.
    usual = Counter(session.batches[1:] or session.batches).most_common(1)[0][0]
    kept = [i for i in range(1, len(session.steps)) if session.batches[i] == usual and session.seconds[i] > 0]
    flags: tuple[str, ...] = ()
    if not kept:
        kept, flags = [len(session.steps) - 1], ("first_step_included",)
    if len(set(session.batches)) > 1:
        into.ignore("", f"{where}: iterations at other batch sizes than {usual} (ramp-up) are left out of the step time")
    seconds = [session.seconds[i] for i in kept]
    outcome = _outcome(session, last, hints)
    ending: tuple[str, ...] = () if outcome == "completed" or (last and hints.outcome) else ("outcome_inferred",)
    values = [
        Value(
            code="time.step",
            value=median(seconds),
            method="elapsed time per iteration, median",
            excludes=() if flags else ("first_step",),
            flags=flags + ending,
            repeats=len(seconds),
            spread=spread(seconds),
        )
    ]
    rates = [session.rates[i] for i in kept if session.rates[i]]
    if rates:
        values.extend(_throughput(rates, flags, hints, into, where))
    scope = "rank0" if session.ranks == {"0"} else "max"
    for code, found, method in (
        ("memory.peak_allocated", session.allocated, "torch.cuda.max_memory_allocated"),
        ("memory.peak_reserved", session.reserved, "torch.cuda.max_memory_reserved"),
    ):
        if found:
            values.append(Value(code=code, value=max(found), method=method, scope=scope))  # type: ignore[arg-type]
    return Attempt(
        source="megatron",
        attempt=index,
        outcome=outcome,
        covers=("training",),
        steps_completed=session.steps[-1],
        device_count=hints.device_count,
        values=tuple(values),
    )


def _throughput(rates: list[float], flags: tuple[str, ...], hints: Hints, into: Collector, where: str) -> list[Value]:
    found, assumed = devices(hints)
    if found is None:
        into.ignore("", f"{where}: tokens per second and device need device_count to become the job's")
        return []
    return [
        Value(
            code="throughput.input_tokens_per_second",
            value=median(rates) * found,
            method="tokens/s/GPU x devices, median",
            scope="sum",
            excludes=() if flags else ("first_step",),
            flags=flags + assumed,
            repeats=len(rates),
            spread=spread(rates),
        )
    ]


def _outcome(session: _Session, last: bool, hints: Hints) -> Outcome:
    if last and hints.outcome:
        return hints.outcome
    return "completed" if session.planned is not None and session.steps[-1] >= session.planned else "failed"
