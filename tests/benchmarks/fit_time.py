"""Fit the step-time model to the published measurements and report how well it does on rows it has not seen.

    python -m tests.benchmarks.fit_time            report, without writing anything
    python -m tests.benchmarks.fit_time --write    also write service/estimation/step_time/coefficients.py and the README's table

Two stages. The first fits the efficiencies of the mechanistic model (``service/estimation/step_time``) by robust least squares
on the log error, each drawn to a prior from the literature. The second fits a shrunk factor per stack, device family,
recipe, ... to what is left. Errors are reported leaving each ``group`` of like rows out, and leaving each source out; both stages
are fitted again without the rows left out.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from service.estimation import parameters
from service.estimation.run import Run
from service.estimation.step_time import rates as rate_names
from service.estimation.step_time import seconds
from service.estimation.step_time.interval import cell, coordinates
from service.estimation.step_time.residual import features
from service.estimation.step_time.work import Shape, work_of
from service.specs.load import run_of

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "cases"
FILES = ("measured_public.jsonl", "measured_vtrain.jsonl")
TARGET = ROOT / "service" / "estimation" / "step_time" / "coefficients.py"
POOLED = 10.0  # rows that all others together count in a cell's bounds
TIME_CODES = ("throughput.input_tokens_per_second", "time.step", "device_hours.run", "device_hours.training")
# Rows that measure something else than a step of their spec (see measured_audit): kept out of the fit, reported apart.
APART = ("known-regression", "device-contradicted-by-source", "conflict-in-source", "moe-token-drop")
UNCLEAN = ("unknown-", "assumed-", "precision-assumed", "conflict", "recalled", "aggregated", "data-dep", "config-amb", "known-regression",
           "device-contradicted")  # fmt: skip
NOISE = 0.10  # log error of a row that counts as one standard deviation
ROBUST = 1.5  # in standard deviations: from there on errors weigh linearly
WHOLE_RUN_WEIGHT = 0.15  # device-hours of model cards hold more than steps

Array = NDArray[np.float64]

# (prior, standard deviation of its logarithm). Priors: matrix products reach 65-80 % of the dense peak, FlashAttention-2 50 % on A100
# (Dao 2023), streaming kernels 60-80 % of the memory bandwidth, collectives 75 % of NVLink; launches take 5-30 us in eager mode.
PRIORS: OrderedDict[str, tuple[float, float]] = OrderedDict()


def _prior(name: str, value: float, deviation: float) -> None:
    PRIORS[name] = (value, deviation)


_prior("matrix", 0.72, 0.15)
for _family, _width in (
    ("ampere", 0.15),
    ("hopper", 0.15),
    ("blackwell", 0.15),
    ("volta", 0.1),
    ("cdna3", 0.15),
    ("tpu", 0.1),
    ("ada", 0.15),
):
    _prior(f"matrix:{_family}", 1.0, _width)
_prior("matrix/fp8", 0.7, 0.2)
for _family in ("hopper", "blackwell", "cdna3"):
    _prior(f"matrix/fp8:{_family}", 1.0, 0.15)
_prior("expert", 0.6, 0.3)
_prior("expert/fp8", 0.8, 0.2)
_prior("matrix_bytes", 2.0, 0.5)
_prior("attention", 0.5, 0.2)
for _family in ("ampere", "hopper", "blackwell", "cdna3"):
    _prior(f"attention:{_family}", 1.0, 0.25)
for _stack in ("llm_foundry", "fsdp_native", "hf_transformers", "deepspeed", "megatron"):
    _prior(f"attention@{_stack}", 1.0, 0.2)
    _prior(f"elementwise@{_stack}", 1.0, 0.2)
    _prior(f"kernel_host_seconds@{_stack}", 1.0, 0.3)
    _prior(f"data_exposed@{_stack}", 1.0, 0.3)
_prior("attention/eager", 0.4, 0.3)
_prior("attention_bytes", 0.8, 0.3)
_prior("elementwise", 0.6, 0.3)
_prior("elementwise+compile", 1.6, 0.3)
_prior("logits", 1 / 16, 0.5)
_prior("logits+fused_loss", 2.0, 0.3)
_prior("kernel_seconds", 2e-6, 0.5)
_prior("kernel_host_seconds", 25e-6, 0.4)
_prior("kernel_host_seconds:blackwell", 0.3, 0.5)
_prior("kernel_host_seconds+compile", 0.5, 0.3)
_prior("message_seconds", 5e-6, 0.5)
_prior("message_host_seconds", 10e-6, 0.5)
_prior("stage_message_seconds", 5e-4, 0.7)
_prior("step_seconds", 5e-3, 0.7)
_prior("intra", 0.75, 0.1)
_prior("inter", 0.6, 0.3)
_prior("tensor_exposed", 1.0, 0.1)
_prior("tensor_exposed+sequence_parallel", 0.7, 0.2)
_prior("context_exposed", 0.5, 0.4)
_prior("expert_exposed", 0.8, 0.4)
_prior("sharding_exposed", 0.2, 0.5)
_prior("sharding_cover", 0.7, 0.3)
_prior("data_exposed", 0.6, 0.3)
_prior("dequantized", 5e10, 0.5)
_prior("host_link", 2e10, 0.3)
_prior("optimizer", 0.7, 0.3)


@dataclasses.dataclass(slots=True)
class Row:
    """One measured run."""

    id: str
    group: str
    source: str
    weight: float
    tags: tuple[str, ...]
    run: Run
    step: float  # measured seconds
    whole: bool
    case: dict[str, Any]

    @property
    def apart(self) -> bool:
        """Whether it is judged apart."""
        return any(tag in APART for tag in self.tags)

    @property
    def clean(self) -> bool:
        """Whether nothing about it was assumed."""
        return not any(tag.startswith(UNCLEAN) for tag in self.tags)

    @property
    def full16(self) -> bool:
        """Whether all weights are trained in a 16-bit recipe."""
        return not self.run.method.adapters and self.run.precision.recipe in ("bf16_mixed", "bf16_pure", "fp16_mixed")


def rows_of(path: Path) -> list[Row]:
    """Rows with a measured time."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        code = next((c for c in TIME_CODES if c in case["measured"]), None)
        if code is None:
            continue
        run, value = run_of(case["spec"]), float(case["measured"][code])
        assert run.hardware is not None and run.sequence_length is not None and run.data.total_tokens is not None
        tokens = run.batch.global_batch_size * run.sequence_length
        steps = -(-run.data.total_tokens // tokens)
        step = (
            tokens / value
            if code.startswith("throughput")
            else value
            if code == "time.step"
            else value * 3600 / run.hardware.device_count / steps
        )
        source = next((t[7:] for t in case["tags"] if t.startswith("source:")), "?")
        found.append(
            Row(case["id"], case["group"], source, case["weight"], tuple(case["tags"]), run, step, code.startswith("device"), case)
        )
    return found


def stacked(objects: list[Any]) -> Any:
    """One dataclass of arrays from many of numbers."""
    first = objects[0]
    if dataclasses.is_dataclass(first) and not isinstance(first, type):
        return dataclasses.replace(first, **{f.name: stacked([getattr(o, f.name) for o in objects]) for f in dataclasses.fields(first)})
    return np.array([float(o) for o in objects])


def chosen(thing: Any, index: Array) -> Any:
    """The rows of that index."""
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        return dataclasses.replace(thing, **{f.name: chosen(getattr(thing, f.name), index) for f in dataclasses.fields(thing)})
    return thing[index]


class Model:
    """The mechanistic model over all rows, as a function of the logarithms of its coefficients."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self.work = stacked([self._work(row.run) for row in rows])
        self.names = list(PRIORS)
        self.mean = np.log([PRIORS[n][0] for n in self.names])
        self.deviation = np.array([PRIORS[n][1] for n in self.names])
        index = {name: i for i, name in enumerate(self.names)}
        bases = [rate_names.bases(row.run) for row in rows]
        keys = [rate_names.key(row.run) for row in rows]
        self.base = {rate: np.array([b.get(rate, 1.0) for b in bases]) for rate in rate_names.names(keys[0])}
        kinds = sorted(set(keys))  # rows of one kind share their efficiencies
        self.kind = np.array([kinds.index(key) for key in keys])
        self.design: dict[str, Array] = {}
        for rate in self.base:
            matrix = np.zeros((len(kinds), len(self.names)))
            for i, key in enumerate(kinds):
                for name in rate_names.names(key)[rate]:
                    if name in index:
                        matrix[i, index[name]] += 1.0
            self.design[rate] = matrix
        self.measured = np.log([row.step for row in rows])
        self.weight = np.array([row.weight for row in rows])
        self.fit_weight = np.sqrt(self.weight * np.where([row.whole for row in rows], WHOLE_RUN_WEIGHT, 1.0))

    @staticmethod
    def _work(run: Run) -> Any:
        length = float(run.sequence_length or 0)
        return work_of(run, parameters.count(run), Shape(length, float(run.decoder_sequence_length or length)))

    def parts(self, theta: Array, index: Array | None = None, counts: Any = None) -> dict[str, Array]:
        """Seconds of every part of the rows' steps."""
        rows = slice(None) if index is None else index
        kind = self.kind[rows]
        values = {rate: self.base[rate][rows] * np.exp(self.design[rate] @ theta)[kind] for rate in self.design}
        if counts is None:
            counts = self.work if index is None else chosen(self.work, index)
        return seconds.parts(counts, seconds.Rates(**values))

    def log_error(self, theta: Array) -> Array:
        """ln(predicted / measured) of every row."""
        return np.log(sum(self.parts(theta).values())) - self.measured

    def fit(self, keep: Array, start: Array | None = None, evaluations: int = 40) -> Array:
        """Coefficients from the rows in ``keep``."""
        index = np.flatnonzero(keep)
        counts = chosen(self.work, index)

        def residuals(theta: Array) -> Array:
            error = (np.log(sum(self.parts(theta, index, counts).values())) - self.measured[index]) / NOISE
            robust = np.sign(error) * np.sqrt(2 * ROBUST**2 * (np.sqrt(1 + (error / ROBUST) ** 2) - 1))
            return np.concatenate([robust * self.fit_weight[index], (theta - self.mean) / self.deviation])

        return np.asarray(least_squares(residuals, self.mean if start is None else start, max_nfev=evaluations).x)


class Residual:
    """Factors on top of the mechanistic model: a ridge on named features, shrunk to 1."""

    def __init__(self, rows: list[Row], strength: float = 1.0) -> None:
        named = [features(row.run, parameters.count(row.run)) for row in rows]
        self.names = sorted({name for f in named for name in f})
        index = {name: i for i, name in enumerate(self.names)}
        self.matrix = np.zeros((len(rows), len(self.names)))
        for i, f in enumerate(named):
            for name, value in f.items():
                self.matrix[i, index[name]] = value
        self.strength = strength

    def fit(self, left: Array, weight: Array, keep: Array) -> Array:
        """Coefficients that explain ``left``, the log error to take away, on the rows in ``keep``."""
        x, y = self.matrix[keep], left[keep]
        beta = np.zeros(x.shape[1])
        for _ in range(4):
            w = weight[keep] / np.sqrt(1 + ((y - x @ beta) / (ROBUST * NOISE)) ** 2)
            beta = np.linalg.solve((x.T * w) @ x + self.strength * np.eye(x.shape[1]), (x.T * w) @ y)
        return np.asarray(beta)


def quantile(values: Array, weights: Array, q: float) -> float:
    """Weighted quantile: the smallest value whose cumulative weight reaches q."""
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(cumulative, q * cumulative[-1] - 1e-12)])


def crossed(model: Model, residual: Residual, theta: Array, keys: Array, keep: Array, evaluations: int) -> tuple[Array, Array]:
    """Log errors of both stages on rows whose key was left out of both."""
    first, second = np.zeros(len(model.rows)), np.zeros(len(model.rows))
    for value in sorted(set(keys)):
        out = keys == value
        inside = keep & ~out
        t = model.fit(inside, theta, evaluations)
        error = model.log_error(t)
        beta = residual.fit(-error, model.fit_weight**2, inside)
        first[out], second[out] = error[out], (error + residual.matrix @ beta)[out]
    return first, second


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

    A cell's bounds are quantiles of its own errors and those of all rows, which together weigh ``POOLED`` rows.
    """
    names = np.array([cell(row.run) for row in rows])
    weight = np.array([row.weight for row in rows])
    usable = keep & ~np.array([row.whole for row in rows])
    seen, ranges = {}, {}
    everything = weight * usable * (POOLED / np.sum(weight * usable))
    for name in sorted(set(names[usable])):
        mine = usable & (names == name)
        errors, weights = np.concatenate([-group[mine], -group[usable]]), np.concatenate([weight[mine], everything[usable]])
        seen[name] = (bound(errors, weights, 0.1), bound(errors, weights, 0.9))
        places = [coordinates(rows[i].run, parameters.count(rows[i].run)) for i in np.flatnonzero(mine)]
        ranges[name] = {size: (min(p[size] for p in places), max(p[size] for p in places)) for size in places[0]}
    return seen, (bound(-source[usable], weight[usable], 0.1), bound(-source[usable], weight[usable], 0.9)), ranges


def bound(errors: Array, weights: Array, q: float) -> float:
    """A quantile of measured / predicted."""
    return round(math.exp(quantile(errors, weights, q)), 4)


def module(model: Model, theta: Array, residual: Residual, beta: Array, rows: list[Row], keep: Array, seen: dict[str, Any],
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
        f"FITTED_ON = {json.dumps(fitted)}",
        "",
        "# Efficiencies, shares and latencies (name: value; prior and its standard deviation in the logarithm beside it).",
        "COEFFICIENTS: dict[str, float] = {",
    ]
    for name, value, mean, deviation in zip(model.names, theta, model.mean, model.deviation, strict=True):
        out.append(f'    "{name}": {math.exp(value):.5g},  # prior {math.exp(mean):.3g}, {deviation:g}')
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


def main(argv: list[str] | None = None) -> int:
    """Fit, report, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--quick", action="store_true", help="no refitting for rows left out")
    parser.add_argument("--strength", type=float, default=1.0)
    arguments = parser.parse_args(argv)
    rows = [row for name in FILES for row in rows_of(CASES / name)]
    model, residual = Model(rows), Residual(rows, arguments.strength)
    keep = np.array([not row.apart for row in rows])
    theta = model.fit(keep)
    error = model.log_error(theta)
    beta = residual.fit(-error, model.fit_weight**2, keep)
    sets = subsets(rows)
    tables = {"in sample, stage 1": error, "in sample": error + residual.matrix @ beta}
    if not arguments.quick:
        for title, keys in (("group", [r.group for r in rows]), ("source", [r.source for r in rows])):
            first, second = crossed(model, residual, theta, np.array(keys), keep, 6)
            tables[f"leave one {title} out, stage 1"], tables[f"leave one {title} out"] = first, second
    for title, values in tables.items():
        print(f"== {title}")
        for name, mask in sets.items():
            print(f"  {name:34s}{describe(values, rows, mask)}")
    if arguments.write:
        assert not arguments.quick, "the intervals need rows left out"
        spreads = intervals(rows, keep, tables["leave one group out"], tables["leave one source out"])
        TARGET.write_text(module(model, theta, residual, beta, rows, keep, *spreads), encoding="utf-8")
    for name, value, mean, deviation in zip(model.names, theta, model.mean, model.deviation, strict=True):
        print(f"{name:36s} {math.exp(value):10.4g}  prior {math.exp(mean):10.4g}  {(value - mean) / deviation:+.1f} sd")
    return 0


if __name__ == "__main__":
    sys.exit(main())
