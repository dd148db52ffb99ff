"""In-process time of one quote, beside a plain 6ND function: ``python -m tests.benchmarks.quote_latency``.

The quote runs from a parsed JSON document to the answer, everything but HTTP and the database. 6ND answers one question; the ratio says
what the other answers cost. All rows are measured in turn in every round, so that a busy machine slows them alike; an "unseen" quote has
a Hugging Face config whose sizes no earlier round had, so that nothing remembered helps. Misfits are random runs that do not fit,
whose quotes search for changes that make them fit.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from service.kit import documents
from service.kit.problems import Problem
from service.quotes.quoting import build, sum_of_numbers
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


def unseen() -> Callable[[], Any]:
    """A quote as text whose model no call had before."""
    sizes = itertools.count(1)

    def quote() -> bytes:
        number = next(sizes)
        config = {
            "model_type": "llama",
            "hidden_size": 4096,
            "intermediate_size": 11008 + 8 * number,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "vocab_size": 32000 + number,
        }
        return as_text(SPEC | {"model": {"hf_config": config}})

    return quote


def as_text(spec: dict[str, Any]) -> bytes:
    """A quote as it is sent."""
    quote = build(spec)
    return documents.encode(quote, sum_of_numbers(quote))


PRESETS = ("llama-3.1-8b", "llama-3.1-70b", "qwen2.5-7b", "mixtral-8x7b", "gpt2-xl", "deepseek-v3")
STACKS = ("hf_transformers", "fsdp_native", "deepspeed", "megatron", "llm_foundry")


def misfits(wanted: int) -> list[dict[str, Any]]:
    """Random runs that do not fit, the same in every run of this benchmark."""
    choose = random.Random(7)
    found: list[dict[str, Any]] = []
    while len(found) < wanted:
        tensor = choose.choice((1, 1, 2, 8))
        spec = {
            "model": {"preset": choose.choice(PRESETS)},
            "method": choose.choice(({"kind": "full"}, {"kind": "full"}, {"kind": "lora", "lora": {"rank": 16}})),
            "data": {"total_tokens": 10**11},
            "sequence_length": choose.choice((2048, 8192, 32768)),
            "batch": {"micro_batch_size": choose.choice((1, 4, 16)), "gradient_accumulation_steps": choose.choice((1, 4))},
            "precision": {"recipe": choose.choice(("bf16_mixed", "fp32", "bf16_pure"))},
            "activation_checkpointing": choose.choice(("none", "selective", "full")),
            "software": {"stack": choose.choice(STACKS)},
            "parallelism": {"sharding": choose.choice(("none", "zero1", "zero2", "zero3")), "tensor": tensor},
            "hardware": {
                "device": choose.choice(("a100-sxm-40gb", "h100-sxm-80gb", "rtx-4090-24gb")),
                "device_count": choose.choice((8, 16, 64, 512)),
            },
        }
        try:
            quote = build(spec)
        except Problem:
            continue
        if quote["summary"]["fits"] in (False, "uncertain"):
            found.append(spec)
    return found


def interleaved(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, tuple[float, float]]:
    """Median and fastest microseconds of each call, one after another in every round."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: (statistics.median(found) * 1e6, min(found) * 1e6) for name, found in times.items()}


def main() -> None:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--misfits", type=int, default=150, help="how many runs that do not fit; 0: none")
    options = parser.parse_args()
    checked = parse(SPEC)
    document = build(SPEC)
    assert build(TOO_LARGE)["alternatives"], "the run fits: no alternatives are measured"
    rows: dict[str, Callable[[], Any]] = {
        "6ND": six_nd,
        "sum(range(1000))": lambda: sum(range(1000)),  # how fast this machine is now: about 10 us on a quiet one
        "parse": lambda: parse(SPEC),
        "quote from a checked spec": lambda: build(checked),
        "quote": lambda: build(SPEC),
        "quote as text": lambda: as_text(SPEC),
        "quote as text, unseen": unseen(),
        "quote with alternatives": lambda: build(TOO_LARGE),
    }
    interleaved(rows, 20)
    medians = interleaved(rows, options.rounds)
    print(f"{len(document['items'])} items, {len(as_text(SPEC))} bytes of JSON, {options.rounds} rounds")
    for name, (median, fastest) in medians.items():
        print(f"{name:26} median {median:9.1f} us   fastest {fastest:9.1f} us   {median / medians['6ND'][0]:8.0f} x 6ND")
    if options.misfits:
        specs = misfits(options.misfits)
        found = sorted(min(interleaved({"": lambda spec=spec: as_text(spec)}, 3).values())[1] / 1000 for spec in specs)  # type: ignore[misc]
        parts = statistics.quantiles(found, n=10)
        offered = sum(bool(build(spec)["alternatives"]) for spec in specs)
        print(
            f"{len(found)} misfits ({offered} with alternatives): median {statistics.median(found):.1f} ms, P90 {parts[8]:.1f} ms, "
            f"maximum {found[-1]:.1f} ms"
        )


if __name__ == "__main__":
    main()
