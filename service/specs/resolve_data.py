"""The data of a spec: tokens, or a histogram of sample lengths."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from service.estimation import run as r
from service.estimation.architecture import Architecture
from service.estimation.warnings import Warning, no_effect

from .errors import spec_error
from .section import Section
from .spec import DataSpec


def resolve_data(
    spec: DataSpec,
    architecture: Architecture,
    sequence_length: int | None,
    top: Section,
    provenance: dict[str, str],
    warnings: list[Warning],
) -> r.Data:
    """The core's data; the form it was given in is echoed."""
    section = Section(spec, "/data", provenance, top.out, "data")
    for name in ("total_tokens", "samples", "prompt_tokens"):
        section.take(name)
    histogram = None
    if spec.total_tokens is None:
        histogram = _histogram(spec, architecture, section)
    epochs: float = section.take("epochs", 1.0)
    packing = section.take("packing", "packed" if histogram is None else "none")
    cross: bool = section.take("cross_sample_attention", False)
    truncation: bool = section.take("truncation", True)
    # A default said aloud is no mistake: the spec of an answer, posted again, is not warned of it.
    if cross and packing != "packed":
        warnings.append(no_effect("/data/cross_sample_attention", "samples are not packed into one sequence"))
    if histogram is None and packing != "packed":
        warnings.append(no_effect("/data/packing", "total_tokens gives no sample lengths, so that there is nothing to pad"))
    if histogram is None and not truncation:
        warnings.append(no_effect("/data/truncation", "total_tokens gives no sample lengths, so that nothing is cut"))
    datasets = section.items("datasets", {})
    unique = spec.unique_tokens
    if unique is None and histogram is None:
        unique = _unique(datasets, spec.total_tokens or 0)
    if unique is not None:
        section.take("unique_tokens", unique, "derived")
    return r.Data(
        total_tokens=spec.total_tokens,
        histogram=histogram,
        epochs=epochs,
        packing=packing,
        cross_sample_attention=cross,
        truncation=truncation,
        unique_tokens=unique,
        dataset_versions=tuple(f"{d['name']}@{d['version']}" if "version" in d else d["name"] for d in datasets),
    )


def _histogram(spec: DataSpec, architecture: Architecture, section: Section) -> tuple[tuple[int, int, int], ...]:
    """(prompt tokens, target tokens, samples), sorted, each pair once."""
    counts: Counter[tuple[int, int]] = Counter()
    prompts, targets = spec.prompt_tokens, spec.target_tokens
    if spec.lengths is not None:
        section.out["lengths"] = {"histogram": [list(row) for row in spec.lengths.histogram]}
        for prompt, target, samples in spec.lengths.histogram:
            counts[prompt, target] += samples
    elif prompts is None and targets is None:
        # Images: every sample has the positions that the config gives.
        if architecture.image_positions is None:
            raise spec_error("/data/prompt_tokens", "the lengths of the samples are needed (prompt_tokens, target_tokens or lengths)")
        counts[architecture.image_positions, 0] = spec.samples or 0
    elif isinstance(prompts, list) or isinstance(targets, list):
        length = len(prompts) if isinstance(prompts, list) else len(targets)  # type: ignore[arg-type]
        column = prompts if isinstance(prompts, list) else [section.take("prompt_tokens", 0)] * length
        other = section.take("target_tokens", 0)
        counts.update(zip(column, other if isinstance(other, list) else [other] * length, strict=True))
    else:
        counts[section.take("prompt_tokens", 0), section.take("target_tokens", 0)] = spec.samples or 0
    if architecture.encoder_decoder and any(target and not prompt for prompt, target in counts):
        where = "/data/lengths/histogram" if spec.lengths is not None else "/data/prompt_tokens"
        raise spec_error(where, "an encoder reads the prompt: a sample without one has nothing for it to read")
    return _in_order(counts)


def _in_order(counts: Counter[tuple[int, int]]) -> tuple[tuple[int, int, int], ...]:
    """By prompt, then target. Sorted as columns: a million samples' lengths, compared pair by pair, would keep a caller waiting."""
    pairs = np.array(list(counts), dtype=np.int64).reshape(-1, 2)
    samples = np.array(list(counts.values()), dtype=np.int64)  # all of them together are at most MAX_COUNT
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    prompts, targets = pairs[order].T.tolist()
    return tuple(zip(prompts, targets, samples[order].tolist(), strict=True))


def _unique(datasets: list[dict[str, Any]], total: int) -> int | None:
    """Distinct tokens that a weighted mixture of data sets gives within ``total`` tokens; None where a size is missing."""
    if not datasets or any("tokens" not in d for d in datasets):
        return None
    weights = [d.get("weight", d["tokens"]) for d in datasets]
    whole = sum(weights)
    if whole <= 0:
        return None
    unique: int = sum(min(d["tokens"], round(total * weight / whole)) for d, weight in zip(datasets, weights, strict=True))
    return unique
