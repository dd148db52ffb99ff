"""Hours of processors and people, which no device-hour holds: tools of rollouts, human review, preparing the data."""

from __future__ import annotations

from .items import Item, unknown
from .numeric import one
from .run import Run
from .spread import multiples

# Tokenizing a gigabyte takes "less than 20 seconds on a server's CPU" (Hugging Face tokenizers, README): about 32 cores.
TOKENIZE_CORE_SECONDS_PER_BYTE = 20 * 32 / 1e9
TOKENIZE_RANGE = (0.3, 4.0)


def tools(run: Run, samples: float | None) -> list[Item]:
    """Processor hours of tools that rollouts call."""
    seconds = run.post_training.tool_seconds_per_sample
    if seconds is None:
        return []
    formula = "samples x tool seconds / 3600"
    if samples is None:
        return [
            unknown(
                "cpu_hours.tools",
                "reserves",
                "cpu_hours",
                "give post_training.prompts",
                formula=formula,
            )
        ]
    return [
        Item(
            code="cpu_hours.tools",
            section="reserves",
            quantity="cpu_hours",
            expected=samples * seconds / 3600,
            formula=formula,
            assumptions=("tools run on processors while other rollouts are decoded: they hold up no device",),
        )
    ]


def people(run: Run) -> list[Item]:
    """Hours of human review."""
    wanted = run.post_training
    if not wanted.human_review_items:
        return []
    formula = "items x seconds an item / 3600"
    if wanted.human_seconds_per_item is None:
        return [
            unknown(
                "human_hours.review",
                "reserves",
                "human_hours",
                "give post_training.human_seconds_per_item",
                formula=formula,
            )
        ]
    hours = wanted.human_review_items * wanted.human_seconds_per_item / 3600
    return [
        Item(
            code="human_hours.review",
            section="reserves",
            quantity="human_hours",
            expected=hours,
            formula=formula,
            basis="given",
        )
    ]


def preparation(run: Run) -> list[Item]:
    """Processor hours before training: tokenizing, and cleaning where raw data is declared."""
    result: list[Item] = []
    declared = run.data_pipeline
    if declared.processed_bytes is not None:
        seconds = declared.processed_bytes * TOKENIZE_CORE_SECONDS_PER_BYTE / 3600
        low, high = TOKENIZE_RANGE
        hours = multiples(seconds, low, high, run.interval_coverage)
        result.append(
            Item(
                code="cpu_hours.tokenization",
                section="reserves",
                quantity="cpu_hours",
                expected=one(hours.expected),
                low=one(hours.low),
                high=one(hours.high),
                formula="processed bytes x 640 core-seconds a gigabyte / 3600",
                basis="prior",
                assumptions=("a gigabyte of text in 20 s on about 32 cores (Hugging Face tokenizers)",),
            )
        )
    if declared.raw_bytes is not None:
        result.append(
            unknown(
                "cpu_hours.data_preparation",
                "reserves",
                "cpu_hours",
                "cleaning, deduplication and download have no published rate that carries over; measure a sample",
                formula="raw bytes x core-seconds a byte / 3600",
            )
        )
    return result
