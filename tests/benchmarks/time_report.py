"""What the fit of the step time says of itself: tables, intervals, the data module and the README's fragment."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import OrderedDict
from typing import Any

import numpy as np

from service.estimation import parameters
from service.estimation.step_time.interval import cell, coordinates
from service.estimation.wall_clock.items import WHOLE_RUN_RANGE
from tests.benchmarks.fitted import FITTED, digest
from tests.benchmarks.time_rows import CASES, FILES, ROOT, Array, Row

TARGET = FITTED / "step_time.py"
FRAGMENT = ROOT / "tests" / "benchmarks" / "time_accuracy.md"
BEGIN, END = "<!-- time-accuracy:begin -->", "<!-- time-accuracy:end -->"
FEW, NEAREST = 4, 0.05  # a cell of fewer groups leans towards the unseen, and no bound comes nearer to the prediction
POOLED = 4.0  # rows that the others of a cell's width and method together count in its bounds


def quantile(values: Array, weights: Array, q: float) -> float:
    """Weighted quantile: the smallest value whose cumulative weight reaches q."""
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(cumulative, q * cumulative[-1] - 1e-12)])


def describe(error: Array, rows: list[Row], mask: Array) -> str:
    """One line of statistics."""
    w = np.array([row.weight for row in rows])[mask]
    e = error[mask]
    ape = np.abs(np.expm1(e))
    return (
        f"n {mask.sum():4d}  MdAPE {100 * quantile(ape, w, 0.5):5.1f}  P90 {100 * quantile(ape, w, 0.9):5.1f}  "
        f"bias {math.exp(quantile(-e, w, 0.5)):.3f}  mean {100 * np.mean(ape):5.1f}"
    )


def subsets(rows: list[Row]) -> OrderedDict[str, Array]:
    """Named sets of rows."""
    make = lambda f: np.array([f(row) for row in rows], dtype=bool)  # noqa: E731
    public = make(lambda r: r.source != "vTrain")
    multi = make(lambda r: "multi-node" in r.tags)
    result = OrderedDict(
        {
            "clean, full, 16 bit": public & make(lambda r: r.clean and r.full16),
            "all rows": public,
            "all rows but those judged apart": public & make(lambda r: not r.apart),
            "fp8": public & make(lambda r: r.run.precision.recipe == "fp8_mixed"),
            "LoRA and Q-LoRA": public & make(lambda r: r.run.method.adapters),
            "whole runs": public & make(lambda r: r.whole),
            "vTrain, one node": ~public & ~multi,
            "vTrain, across nodes": multi,
        }
    )
    for source in sorted({r.source for r in rows}):
        result[f"  {source}"] = make(lambda r, s=source: r.source == s)
    return result


def intervals(rows: list[Row], keep: Array, group: Array, source: Array) -> tuple[dict[str, Any], tuple[float, float], dict[str, Any]]:
    """80 % bounds of measured / predicted: by cell of like runs, for runs unlike all measured, and the sizes a cell covers.

    A cell's bounds are quantiles of its own errors and of those of all rows of its width and method, which together weigh
    ``POOLED`` rows.
    """
    names = np.array([cell(row.known) for row in rows])
    weight = np.array([row.weight for row in rows])
    usable = keep & ~np.array([row.whole for row in rows])
    seen, ranges = {}, {}
    unseen = quantile(-source[usable], weight[usable], 0.1), quantile(-source[usable], weight[usable], 0.9)
    alike = np.array([name.split(", ", 2)[2] for name in names])  # width and method
    for name in sorted(set(names[usable])):
        mine = usable & (names == name)
        pool = weight * usable * (alike == name.split(", ", 2)[2])
        everything = pool * (POOLED / np.sum(pool))
        errors, weights = np.concatenate([-group[mine], -group[usable]]), np.concatenate([weight[mine], everything[usable]])
        count = len({rows[i].group for i in np.flatnonzero(mine)})
        doubt = 1.0 / (1.0 + count) if count < FEW else 0.0
        low, high = quantile(errors, weights, 0.1), quantile(errors, weights, 0.9)
        low, high = min(low, -NEAREST) * (1 - doubt) + unseen[0] * doubt, max(high, NEAREST) * (1 - doubt) + unseen[1] * doubt
        seen[name] = (round(math.exp(low), 4), round(math.exp(high), 4))
        places = [coordinates(rows[i].known, parameters.count(rows[i].run)) for i in np.flatnonzero(mine)]
        ranges[name] = {size: (min(p[size] for p in places), max(p[size] for p in places)) for size in places[0]}
    return seen, (round(math.exp(unseen[0]), 4), round(math.exp(unseen[1]), 4)), ranges


def covered(rows: list[Row], keep: Array, group: Array, source: Array) -> Array:
    """Whether each row lies in the interval that the other groups give it."""
    inside = np.zeros(len(rows), dtype=bool)
    names, groups = np.array([cell(row.known) for row in rows]), np.array([row.group for row in rows])
    for value in sorted(set(groups)):
        seen, unseen, _ = intervals(rows, keep & (groups != value), group, source)
        for i in np.flatnonzero(groups == value):
            low, high = seen.get(names[i], unseen)
            if rows[i].whole:  # booked by the clock: as wide as the quote of a whole job is
                low, high = 1 - math.hypot(1 - low, 1 - WHOLE_RUN_RANGE[0]), 1 + math.hypot(high - 1, WHOLE_RUN_RANGE[1] - 1)
            inside[i] = low <= math.exp(-group[i]) <= high
    return inside


def share(rows: list[Row], inside: Array, mask: Array) -> float:
    """Weighted share of the rows in ``mask`` that lie inside."""
    w = np.array([row.weight for row in rows])[mask]
    return float(np.sum(w * inside[mask]) / np.sum(w))


PEERS = (
    ("6ND at 40 % MFU", "510 of 510", 28.8, 75.7),
    ("llm-analysis", "305 of 510", 16.2, 46.3),
    ("transformer cookbook at 40 %", "362 of 510", 25.1, 72.8),
    ("Megatron's FLOPs at 40 %", "440 of 510", 24.5, 56.3),
    ("Calculon", "283 of 510", 30.0, 194.7),
    ("SimuMax (system files it ships)", "141 of 510", 100.0, 178.2),
)


def fragment(rows: list[Row], sets: OrderedDict[str, Array], tables: dict[str, Array], inside: Array) -> str:
    """The README's table."""
    weights = np.array([row.weight for row in rows])

    def cells(values: Array, mask: Array) -> str:
        ape = np.abs(np.expm1(values[mask]))
        return f"{100 * quantile(ape, weights[mask], 0.5):.1f} / {100 * quantile(ape, weights[mask], 0.9):.1f} %"

    out = [
        BEGIN,
        "Absolute error of the predicted step time, median / ninth decile, against published measurements (weighted: near-identical rows",
        "share one weight). The fit sees every row of the last column; the two columns before it are the honest ones. Whole runs are",
        "judged by the interval of a quote's device-hours, which is wider than that of its steps.",
        "",
        "| rows | n | group left out | source left out | inside the 80 % interval (group left out) | in sample |",
        "|---|---|---|---|---|---|",
    ]
    for name in ("clean, full, 16 bit", "all rows", "fp8", "LoRA and Q-LoRA", "whole runs", "vTrain, one node", "vTrain, across nodes"):
        mask = sets[name]
        out.append(
            f"| {name} | {int(mask.sum())} | {cells(tables['leave one group out'], mask)} | {cells(tables['leave one source out'], mask)} "
            f"| {100 * share(rows, inside, mask):.0f} % | {cells(tables['in sample'], mask)} |"
        )
    single, multi = sets["vTrain, one node"], sets["vTrain, across nodes"]
    mean = [100 * float(np.mean(np.abs(np.expm1(tables["leave one group out"][mask])))) for mask in (single, multi)]
    constant = [-np.log(0.4 * row_flops_rate(row) * row.step) for row in rows]
    base = np.array(constant)
    out += [
        "",
        f"vTrain's sweep, shapes left out, mean error: {mean[0]:.1f} % on one node and {mean[1]:.1f} % across nodes; the vTrain",
        "simulator, which profiles its kernels on the device first, reports 8.4 and 14.7 % (MICRO 2024).",
        f"Without the factor per stack, device and method the mechanistic model alone reaches "
        f"{cells(tables['leave one group out, stage 1'], sets['all rows'])} on all rows.",
        "",
        "The same rows by other means (each tool's own code; rows it cannot express left out):",
        "",
        "| | rows expressed | median / ninth decile |",
        "|---|---|---|",
        f"| 6 N D at 40 % MFU, computed here | {int(sets['all rows'].sum())} | {cells(base, sets['all rows'])} |",
    ]
    out += [f"| {name} | {count} | {median} / {ninth} % |" for name, count, median, ninth in PEERS[1:]]
    out += ["", "Median under 4 % on all rows would be the noise of repetition (the same spec published twice differs by 1.3 to 6 %).", END]
    return "\n".join(out)


def row_flops_rate(row: Row) -> float:
    """Steps a second at the dense peak for 6 N D (4 N D under adapters)."""
    counts, hardware = parameters.count(row.run), row.run.hardware
    assert hardware is not None
    tokens = row.run.batch.global_batch_size * (row.run.sequence_length or 0)
    work = (4.0 if row.run.method.adapters else 6.0) * float(counts.active or 0) * tokens
    return float(hardware.device_count * (hardware.device.reference_peak_flops_per_second or 0.0) / work)


def write_fragment(text: str) -> None:
    """Into the README between its marks, where they are."""
    FRAGMENT.write_text(text + "\n", encoding="utf-8")
    readme = ROOT / "README.md"
    if readme.exists():
        old = readme.read_text(encoding="utf-8")
        if BEGIN in old and END in old:
            readme.write_text(old[: old.index(BEGIN)] + text + old[old.index(END) + len(END) :], encoding="utf-8")


def pieces(text: str, width: int = 110) -> list[str]:
    """The text cut at spaces."""
    out = [""]
    for word in text.split(" "):
        if len(out[-1]) + len(word) > width:
            out.append("")
        out[-1] += word + " "
    out[-1] = out[-1].rstrip()
    return out


def inputs(model: Any) -> str:
    """Digest of what the fit reads: the rows, what the model counts of each (six digits), and the priors."""
    priors = {name: f"{mean:.6g}, {deviation:.6g}" for name, mean, deviation in zip(model.names, model.mean, model.deviation, strict=True)}
    measured = [line for name in FILES for line in (CASES / name).read_text("utf-8").splitlines()]
    counted = np.column_stack(leaves(model.counts))
    counts = [row.id + "".join(f" {value:.6g}" for value in values) for row, values in zip(model.rows, counted, strict=True)]
    return digest([*measured, *counts], priors)


def leaves(thing: Any) -> list[Array]:
    """The arrays of a record of arrays, or of records of them."""
    names = [field.name for field in dataclasses.fields(thing)] if dataclasses.is_dataclass(thing) else getattr(thing, "_fields", None)
    return [thing] if names is None else [leaf for name in names for leaf in leaves(getattr(thing, name))]


def module(model: Any, theta: Array, residual: Any, beta: Array, rows: list[Row], keep: Array, seen: dict[str, Any],
           unseen: tuple[float, float], ranges: dict[str, Any]) -> str:  # fmt: skip
    """Text of the data module."""
    sources = sorted({row.source for row, kept in zip(rows, keep, strict=True) if kept})
    fitted = f"{int(keep.sum())} measured step times of {len(sources)} sources: {', '.join(sources)}"
    out = [
        '"""Fitted data of the step-time model, written by ``python -m tests.benchmarks.fit_time --write``; do not edit by hand.',
        "",
        "Rows: tests/cases/measured_public.jsonl and measured_vtrain.jsonl, each with its source; what an entry means is said in rates.py,",
        'residual.py and interval.py, the priors of the fit in tests/benchmarks/fit_time.py."""',
        "",
        "from __future__ import annotations",
        "",
        "FITTED_ON = (",
        *(f"    {json.dumps(part)}" for part in pieces(fitted)),
        ")",
        f'INPUTS = "{inputs(model)}"  # digest of the rows, their counts and the priors (tests/benchmarks/fitted.py)',
        "",
        "# Efficiencies, shares and latencies (name: value; prior and its standard deviation in the logarithm beside it).",
        "COEFFICIENTS: dict[str, float] = {",
    ]
    for name, value, mean, deviation in zip(model.names, theta, model.mean, model.deviation, strict=True):
        out.append(f'    "{name}": {f"{math.exp(value):.5g}".replace("e+", "e")},  # prior {math.exp(mean):.3g}, {deviation:g}')
    out += ["}", "", "# Shrunk logarithmic weights of the features in residual.py.", "RESIDUAL: dict[str, float] = {"]
    out += [f'    "{name}": {value:.5g},' for name, value in zip(residual.names, beta, strict=True)]
    out += [
        "}",
        "",
        "# 80 % bounds of measured / predicted, like runs left out of the fit, by cell.",
        "SEEN: dict[str, tuple[float, float]] = {",
    ]
    out += [f'    "{name}": {value},' for name, value in seen.items()]
    out += ["}", "", "# The same with whole sources left out.", f"UNSEEN: tuple[float, float] = {unseen}", ""]
    out += ["# Sizes that a cell's runs cover, as powers of two.", "RANGES: dict[str, dict[str, tuple[float, float]]] = {"]
    for name, sizes in ranges.items():
        out.append(f'    "{name}": {{' + ", ".join(f'"{size}": ({low:.2f}, {high:.2f})' for size, (low, high) in sizes.items()) + "},")
    out += ["}", ""]
    return "\n".join(out)
