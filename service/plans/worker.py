"""Where searches run: a process of its own, below the priority of the one that answers requests.

A search keeps a core busy with many short array operations, and each of them wants Python's lock: in a thread of the server it
multiplies the latency of every other request (`python -m tests.benchmarks.plans` measures both). The process is started by the
first search. It is spawned: a forked child would hold the listening socket open after the server ends.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from . import search
from .candidates import Candidates, pareto, ranked
from .passes import Pass
from .search import Found, Limits
from .space import Space

MOST_ON_FRONT = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Everything a search needs."""

    passes: Sequence[Pass]
    space: Space
    held: int | None
    limits: Limits
    objective: Literal["device_hours", "wall_clock", "cost"]
    prices: Sequence[float] | None  # money a second of wall clock, for each pass
    limit: int
    seconds: float


@dataclass(slots=True)
class Shortlist:
    """The rows that are answered, and what became of the others."""

    best: Candidates
    front: Candidates
    found: int
    any_certain: bool
    rejected: dict[str, int]
    closest: dict[str, float]
    searched: int
    complete: bool


def work(job: Job) -> Shortlist:
    """Search, rank, and keep what is answered."""
    until = time.monotonic() + job.seconds
    result: Found = search.search(job.passes, job.space, job.held, job.limits, clock=time.monotonic, until=until)
    rows = result.candidates
    by = rows.device_hours if job.objective == "device_hours" else rows.wall_clock_seconds
    if job.prices is not None:
        by = by * np.asarray(job.prices, dtype=np.float64)[rows.number]
    return Shortlist(
        best=rows.take(ranked(rows, by, job.limit)),
        front=rows.take(pareto(rows, MOST_ON_FRONT)),
        found=len(rows),
        any_certain=bool(rows.certain.any()),
        rejected=dict(result.rejected),
        closest=result.closest,
        searched=result.searched,
        complete=result.complete,
    )


def _below_others() -> None:
    os.nice(10)


class Workers:
    """The search processes of one server process."""

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None

    def run(self, job: Job) -> Shortlist:
        """Search in a process; the search starts once one is free."""
        try:
            return self._started().submit(work, job).result()
        except BrokenProcessPool:
            # The process was killed (out of memory, an operator): a new one is started, once.
            self.close()
            return self._started().submit(work, job).result()

    def _started(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._pool is None:
                context: Any = multiprocessing.get_context("spawn")
                self._pool = ProcessPoolExecutor(self._processes, mp_context=context, initializer=_below_others)
            return self._pool

    def close(self) -> None:
        """End the processes; a search that runs is not waited for."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)
