"""Fit the step-time model to the published measurements and report how well it does on rows it has not seen.

    python -m tests.benchmarks.fit_time            report, without writing anything
    python -m tests.benchmarks.fit_time --write    also write service/estimation/fitted/step_time.py and the README's table

Two stages. The first fits the efficiencies of the mechanistic model (``service/estimation/step_time``) by robust least squares
on the log error, each drawn to a prior from the literature. The second fits a shrunk factor per stack, device family,
recipe, ... to what is left. Errors are reported leaving each ``group`` of like rows out, and leaving each source out; both stages
are fitted again without the rows left out.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from service.estimation import parameters
from service.estimation.step_time import rates as rate_names
from service.estimation.step_time import seconds
from service.estimation.step_time.counts import SequenceShape, counts_of
from service.estimation.step_time.predictable import PredictableRun
from service.estimation.step_time.residual import features
from tests.benchmarks.time_report import TARGET, covered, describe, fragment, intervals, module, share, subsets, write_fragment
from tests.benchmarks.time_rows import CASES, FILES, Array, Row, rows_of

NOISE = 0.10  # log error of a row that counts as one standard deviation
ROBUST = 1.5  # in standard deviations: from there on errors weigh linearly
SWEEP_WEIGHT = 3.0  # 915 layouts of six shapes weigh 24 rows; as the only sweep of one variable at a time they teach more
WHOLE_RUN_WEIGHT = 0.15  # device-hours of model cards hold more than steps


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
    ("tpu", 0.1),
    ("ada", 0.15),
):
    _prior(f"matrix:{_family}", 1.0, _width)
# MI300X reaches about half of its peak where H100 reaches three quarters; its kin of other generations are put beside it unmeasured.
for _family, _width in (("cdna2", 0.01), ("cdna3", 0.15), ("cdna4", 0.01)):
    _prior(f"matrix:{_family}", 0.66, _width)
    _prior(f"attention:{_family}", 0.7, _width)
_prior("matrix/fp8", 0.7, 0.2)
for _family in ("hopper", "blackwell", "cdna3"):
    _prior(f"matrix/fp8:{_family}", 1.0, 0.15)
_prior("expert", 0.6, 0.3)
_prior("expert/fp8", 0.8, 0.2)
_prior("matrix_bytes", 2.0, 0.5)
_prior("attention", 0.5, 0.2)
for _family in ("ampere", "hopper", "blackwell"):
    _prior(f"attention:{_family}", 1.0, 0.25)
for _stack in ("llm_foundry", "fsdp_native", "hf_transformers", "deepspeed", "megatron"):
    _prior(f"attention@{_stack}", 1.0, 0.2)
    _prior(f"matrix@{_stack}", 1.0, 0.1)
    _prior(f"elementwise@{_stack}", 1.0, 0.2)
    _prior(f"kernel_host_seconds@{_stack}", 1.0, 0.3)
    _prior(f"data_exposed@{_stack}", 1.0, 0.3)
_prior("attention/eager", 0.4, 0.3)
for _sharding in ("none", "zero1"):
    _prior(f"matrix@megatron+eager/{_sharding}", 1.0, 0.15)
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


def fields_of(thing: Any) -> tuple[str, ...] | None:
    """Names of a record's fields; None where it is a number or an array of them."""
    if dataclasses.is_dataclass(thing):
        return tuple(field.name for field in dataclasses.fields(thing))
    return getattr(thing, "_fields", None)


def stacked(objects: list[Any]) -> Any:
    """One record of arrays from many of numbers."""
    names = fields_of(objects[0])
    if names is None:
        return np.array([float(o) for o in objects])
    return type(objects[0])(**{name: stacked([getattr(o, name) for o in objects]) for name in names})


def chosen(thing: Any, index: Array) -> Any:
    """The rows of that index."""
    names = fields_of(thing)
    return thing[index] if names is None else type(thing)(**{name: chosen(getattr(thing, name), index) for name in names})


class Model:
    """The mechanistic model over all rows, as a function of the logarithms of its coefficients."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self.counts = stacked([self._counts(row.known) for row in rows])
        self.names = list(PRIORS)
        self.mean = np.log([PRIORS[n][0] for n in self.names])
        self.deviation = np.array([PRIORS[n][1] for n in self.names])
        index = {name: i for i, name in enumerate(self.names)}
        bases = [rate_names.bases(row.known) for row in rows]
        keys = [rate_names.key(row.known) for row in rows]
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
        factor = [WHOLE_RUN_WEIGHT if row.whole else SWEEP_WEIGHT if row.source == "vTrain" else 1.0 for row in rows]
        self.fit_weight = np.sqrt(self.weight * np.array(factor))

    @staticmethod
    def _counts(known: PredictableRun) -> Any:
        shape = SequenceShape(length=known.length, decoder_length=known.decoder_length)
        return counts_of(known, parameters.count(known.run), shape)

    def parts(self, theta: Array, index: Array | None = None, counts: Any = None) -> dict[str, Array]:
        """Seconds of every part of the rows' steps."""
        rows = slice(None) if index is None else index
        kind = self.kind[rows]
        values = {rate: self.base[rate][rows] * np.exp(self.design[rate] @ theta)[kind] for rate in self.design}
        if counts is None:
            counts = self.counts if index is None else chosen(self.counts, index)
        return seconds.parts_of(counts, seconds.Rates(**values))

    def log_error(self, theta: Array) -> Array:
        """ln(predicted / measured) of every row."""
        return np.log(sum(self.parts(theta).values())) - self.measured

    def robust(self, theta: Array, index: Array, counts: Any) -> Array:
        """Weighted residuals of the rows; beyond ``ROBUST`` deviations they grow as a square root does."""
        error = (np.log(sum(self.parts(theta, index, counts).values())) - self.measured[index]) / NOISE
        bent = np.sqrt(2 * ROBUST**2 * (np.sqrt(1 + (error / ROBUST) ** 2) - 1))
        return np.asarray(np.sign(error) * bent * self.fit_weight[index])

    def steps(self, theta: Array) -> Callable[[Array], Array]:
        """One Gauss-Newton step from ``theta`` towards the fit on a part of the rows."""
        index = np.arange(len(self.rows))
        at = self.robust(theta, index, self.counts)
        slopes = np.column_stack([(self.robust(theta + 1e-4 * unit, index, self.counts) - at) / 1e-4 for unit in np.eye(len(theta))])

        def step(keep: Array) -> Array:
            normal = slopes[keep].T @ slopes[keep] + np.diag(1 / self.deviation**2)
            return np.asarray(theta - np.linalg.solve(normal, slopes[keep].T @ at[keep] + (theta - self.mean) / self.deviation**2))

        return step

    def fit(self, keep: Array, start: Array | None = None, evaluations: int = 40) -> Array:
        """Coefficients from the rows in ``keep``."""
        index = np.flatnonzero(keep)
        counts = chosen(self.counts, index)

        def residuals(theta: Array) -> Array:
            return np.concatenate([self.robust(theta, index, counts), (theta - self.mean) / self.deviation])

        return np.asarray(least_squares(residuals, self.mean if start is None else start, max_nfev=evaluations).x)


class Residual:
    """Factors on top of the mechanistic model: a ridge on named features, shrunk to 1."""

    def __init__(self, rows: list[Row], strength: float = 1.0) -> None:
        named = [features(row.known, parameters.count(row.run)) for row in rows]
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


def crossed(model: Model, residual: Residual, theta: Array, keys: Array, keep: Array, evaluations: int) -> tuple[Array, Array]:
    """Log errors of both stages on rows whose key was left out of both."""
    first, second = np.zeros(len(model.rows)), np.zeros(len(model.rows))
    step = model.steps(theta)
    for value in sorted(set(keys)):
        out = keys == value
        inside = keep & ~out
        t = model.fit(inside, step(inside), evaluations)
        error = model.log_error(t)
        beta = residual.fit(-error, model.fit_weight**2, inside)
        first[out], second[out] = error[out], (error + residual.matrix @ beta)[out]
    return first, second


def main(argv: list[str] | None = None) -> int:
    """Fit, report, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--quick", action="store_true", help="no refitting for rows left out")
    parser.add_argument("--save", help="keep all errors in this .npz file")
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
            first, second = crossed(model, residual, theta, np.array(keys), keep, 2 if title == "group" else 6)
            tables[f"leave one {title} out, stage 1"], tables[f"leave one {title} out"] = first, second
    if arguments.save:
        np.savez(arguments.save, theta=theta, **tables)
    for title, values in tables.items():
        print(f"== {title}")
        for name, mask in sets.items():
            print(f"  {name:34s}{describe(values, rows, mask)}")
    if not arguments.quick:
        group, source = tables["leave one group out"], tables["leave one source out"]
        inside = covered(rows, keep, group, source)
        print("== coverage of the 80 % interval, group left out of fit and interval")
        for name, mask in sets.items():
            print(f"  {name:34s}{share(rows, inside, mask):.2f}")
        if arguments.write:
            TARGET.write_text(module(model, theta, residual, beta, rows, keep, *intervals(rows, keep, group, source)), encoding="utf-8")
            write_fragment(fragment(rows, sets, tables, inside))
    for name, value, mean, deviation in zip(model.names, theta, model.mean, model.deviation, strict=True):
        print(f"{name:36s} {math.exp(value):10.4g}  prior {math.exp(mean):10.4g}  {(value - mean) / deviation:+.1f} sd")
    return 0


if __name__ == "__main__":
    sys.exit(main())
