"""Median in-process time of one quote, beside a plain 6ND function: ``python -m tests.benchmarks.quote_latency``.

The quote runs from a parsed JSON document to the document of the answer, everything but HTTP and the database. 6ND answers
one question; the ratio says what the other answers cost.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from service.kit import documents
from service.quotes.quoting import build
from service.specs.load import parse

SPEC: dict[str, Any] = {
    "model": {"preset": "llama-3.1-8b"},
    "method": {"kind": "full", "objective": "pretrain"},
    "data": {"total_tokens": 15_000_000_000_000},
    "sequence_length": 8192,
    "batch": {"micro_batch_size": 1, "gradient_accumulation_steps": 16},
    "precision": {"recipe": "bf16_mixed"},
    "activation_checkpointing": "full",
    "parallelism": {"sharding": "zero3"},
    "hardware": {"device": "h100-sxm-80gb", "device_count": 1024},
}
TOO_LARGE: dict[str, Any] = {**SPEC, "activation_checkpointing": "none", "batch": {"micro_batch_size": 8, "gradient_accumulation_steps": 2}}


def six_nd() -> float:
    """6ND and its device-hours, as a notebook has them."""
    flops = 6 * 8.03e9 * 15e12
    seconds = flops / (1024 * 0.4 * 989e12)
    return seconds * 1024 / 3600


def median_microseconds(call: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """Median and fastest of single calls."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6, min(times) * 1e6


def main() -> None:
    """Print the medians."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=1000)
    rounds = options.parse_args().rounds
    checked = parse(SPEC)
    document = build(SPEC)
    assert build(TOO_LARGE)["alternatives"], "the run fits: no alternatives are measured"
    rows = {
        "6ND": six_nd,
        "sum(range(1000))": lambda: sum(range(1000)),  # how fast this machine is now: about 10 us on a quiet one
        "parse": lambda: parse(SPEC),
        "quote from a checked spec": lambda: build(checked),
        "quote": lambda: build(SPEC),
        "quote as JSON text": lambda: documents.dump(build(SPEC)),
        "quote with alternatives": lambda: build(TOO_LARGE),
    }
    for call in rows.values():
        median_microseconds(call, 20)
    medians = {name: median_microseconds(call, rounds) for name, call in rows.items()}
    print(f"{len(document['items'])} items, {len(json.dumps(document))} bytes of JSON, {rounds} rounds")
    for name, (median, fastest) in medians.items():
        print(f"{name:26} median {median:9.1f} us   fastest {fastest:9.1f} us   {median / medians['6ND'][0]:8.0f} x 6ND")


if __name__ == "__main__":
    main()
