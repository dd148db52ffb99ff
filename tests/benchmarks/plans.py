"""The plan search: layouts a second beside a loop of single evaluations, and what two searches do to other requests.

    python -m tests.benchmarks.plans

Rates are of one core and of the whole search: specs read, rules, memory, time, ranking and Pareto front. `priced` counts the layouts
that have all their figures: those that the rules refuse or that do not fit are told apart from them. The latency of `/healthz` is
taken by a process of its own while two searches run in two others.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx
import numpy as np

from service.estimation import memory, parameters, step_time, tokens
from service.plans import search, space
from service.plans.passes import prepare
from service.plans.search import Limits
from service.plans.worker import Job, work
from service.specs.load import run_of

SPEC: dict[str, Any] = {
    "model": {"preset": "llama-3.1-8b"},
    "data": {"total_tokens": 15_000_000_000_000},
    "sequence_length": 8192,
    "batch": {"global_batch_size": 5040},
    "software": {"stack": "megatron"},
    "parallelism": {"sharding": "zero1", "sequence_parallel": True},
    "hardware": {"device": "h100-sxm-80gb", "device_count": 5040},
}
# The batch is free, so that it comes out even whatever the layout.
DENSE: dict[str, list[Any]] = {
    "parallelism.tensor": [1, 2, 4, 8],
    "parallelism.pipeline": [1, 2, 4, 8, 16, 32],
    "parallelism.context": [1, 2, 4, 8, 16],
    "parallelism.virtual_pipeline": [1, 2, 4],
    "batch.micro_batch_size": [1, 2, 4, 8, 16, 32, 64, 128],
    "batch.gradient_accumulation_steps": [32 * step for step in range(1, 65)],
    "activation_checkpointing": ["none", "selective", "full"],
}
FREE: dict[str, list[Any]] = {
    "parallelism.tensor": [1, 2, 4, 8],
    "parallelism.pipeline": list(range(1, 33)),
    "parallelism.context": [1, 2, 4, 8, 16],
    "parallelism.virtual_pipeline": [1, 2, 4, 8, 16],
    "batch.micro_batch_size": list(range(1, 65)),
    "activation_checkpointing": ["none", "selective", "full"],
}


def searched(name: str, spec: dict[str, Any], free: dict[str, list[Any]]) -> None:
    """Layouts a second of a whole search."""
    wanted = space.read(free)
    taken = []
    for _ in range(5):
        begin = time.perf_counter()
        prepared = prepare(spec, wanted, lambda _, __: {})
        shortlist = work(
            Job(
                passes=prepared.passes,
                space=wanted,
                held=prepared.held_global_batch_size,
                limits=Limits(),
                objective="wall_clock",
                prices=None,
                limit=10,
                seconds=300.0,
            )
        )
        taken.append(time.perf_counter() - begin)
    seconds, priced = statistics.median(taken), shortlist.found
    too_large = shortlist.rejected["does_not_fit"] + shortlist.rejected["unlikely_to_fit"]
    print(f"{name}: {shortlist.searched} layouts, {priced + too_large} legal, {priced} priced in {seconds * 1e3:.0f} ms;", end=" ")
    print(f"{shortlist.searched / seconds:,.0f} all/s, {(priced + too_large) / seconds:,.0f} legal/s, {priced / seconds:,.0f} priced/s")


def arrays_and_scalars() -> None:
    """100,000 layouts through memory and step time as arrays, beside the same functions one layout at a time."""
    run = run_of(SPEC)
    generator = np.random.default_rng(1)
    rows = 100_000
    picks = {name: generator.choice([1.0, 2.0, 4.0, 8.0], rows) for name in ("tensor", "pipeline", "context")}
    micro = generator.choice([1.0, 2.0, 3.0, 4.0], rows)
    accumulation = generator.integers(1, 64, rows).astype(float)
    counts = parameters.count(run)

    def laid(index: Any) -> Any:
        sizes = {name: column[index] for name, column in picks.items()}
        data = 5040 / (sizes["tensor"] * sizes["pipeline"] * sizes["context"])
        whole = micro[index] * accumulation[index] * data
        batch = replace(run.batch, micro_batch_size=micro[index], gradient_accumulation_steps=accumulation[index], global_batch_size=whole)
        return replace(run, layout=replace(run.layout, data=data, **sizes), batch=batch)

    chunks = [slice(start, start + search.PRICED) for start in range(0, rows, search.PRICED)]
    seconds: dict[str, list[float]] = {"memory": [], "step time": []}
    peaks: list[Any] = []
    steps: list[Any] = []
    for _ in range(3):
        begin = time.perf_counter()
        peaks = [memory.figures(laid(chunk)) for chunk in chunks]
        middle = time.perf_counter()
        works = [laid(chunk) for chunk in chunks]
        steps = [step_time.predict(each, counts, tokens.workload(each)) for each in works]
        seconds["memory"].append(middle - begin)
        seconds["step time"].append(time.perf_counter() - middle)
    few = 300
    begin = time.perf_counter()
    singles = [memory.figures(_scalar(laid(index))) for index in range(few)]
    middle = time.perf_counter()
    times = [step_time.predict(each, counts, tokens.workload(each)) for each in map(_scalar, map(laid, range(few)))]
    alone = {"memory": (middle - begin) / few * rows, "step time": (time.perf_counter() - middle) / few * rows}
    equal = all(singles[i].process.expected == peaks[0].process.expected[i] and times[i].seconds == steps[0].seconds[i] for i in range(few))
    for name, taken in seconds.items():
        best = statistics.median(taken)
        one_by_one = f"{alone[name] * 1e3:,.0f} ms one by one: ratio {alone[name] / best:.0f}"
        print(f"{name}: 100,000 layouts in {best * 1e3:.0f} ms as arrays, {one_by_one}")
    print(f"equal to the single evaluations to the last bit: {equal} ({few} compared)")


def _scalar(run: Any) -> Any:
    """The same run with Python floats."""
    layout = {name: float(getattr(run.layout, name)) for name in ("tensor", "pipeline", "context", "data")}
    names = ("micro_batch_size", "gradient_accumulation_steps", "global_batch_size")
    batch = {name: float(getattr(run.batch, name)) for name in names}
    return replace(run, layout=replace(run.layout, **layout), batch=replace(run.batch, **batch))


@contextmanager
def served() -> Iterator[str]:
    """A server process on a free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "RUNQUOTE_DATABASE_URL": f"sqlite:///{folder}/plans.db", "RUNQUOTE_SEARCH_PROCESSES": "2"}
        command = [sys.executable, "-m", "service", "serve", "--port", str(port)]
        with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            url = f"http://127.0.0.1:{port}"
            for _ in range(120):
                try:
                    if httpx.get(url + "/readyz").status_code == 200:
                        break
                except httpx.TransportError:
                    pass
                time.sleep(0.25)
            try:
                yield url
            finally:
                process.terminate()


def latencies(url: str, seconds: float) -> list[float]:
    """Seconds of `/healthz`, asked one after the other with a short rest."""
    taken = []
    with httpx.Client(base_url=url) as client:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            begin = time.perf_counter()
            client.get("/healthz").raise_for_status()
            taken.append(time.perf_counter() - begin)
            time.sleep(0.002)
    return taken


def beside_searches() -> None:
    """The latency of `/healthz` idle and while two searches run, asked by a process that does nothing else."""
    # Wide enough that each search runs for a second and more: what is measured is other requests beside a search that runs.
    body = {"spec": SPEC, "free": {**FREE, "batch.micro_batch_size": list(range(1, 257))}, "limit": 1, "time_budget_seconds": 20}
    spawned = multiprocessing.get_context("spawn")
    with served() as url, ProcessPoolExecutor(1, mp_context=spawned) as prober:
        prober.submit(latencies, url, 1.0).result()
        idle = prober.submit(latencies, url, 6.0).result()
        stop = threading.Event()

        def searching() -> None:
            with httpx.Client(base_url=url, timeout=60) as client:
                while not stop.is_set():
                    client.post("/v1/plans", json=body).raise_for_status()

        threads = [threading.Thread(target=searching) for _ in range(2)]
        for thread in threads:
            thread.start()
        time.sleep(3.0)  # both search processes have started
        busy = prober.submit(latencies, url, 6.0).result()
        stop.set()
        for thread in threads:
            thread.join()
    cuts = {name: (statistics.median(values), float(np.quantile(values, 0.99))) for name, values in (("idle", idle), ("busy", busy))}
    for name, (middle, late) in cuts.items():
        print(f"/healthz {name}: median {middle * 1e3:.1f} ms, p99 {late * 1e3:.1f} ms")
    print(f"/healthz p99 under two searches / idle: {cuts['busy'][1] / cuts['idle'][1]:.2f}")


if __name__ == "__main__":
    dense = {**SPEC, "batch": {}, "hardware": {**SPEC["hardware"], "device_count": 4096}}
    searched("a space of which most is legal", dense, DENSE)
    searched("a space of which little is legal", SPEC, FREE)
    arrays_and_scalars()
    beside_searches()
