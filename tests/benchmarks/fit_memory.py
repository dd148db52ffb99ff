"""Refit of the memory coefficients on published measurements, with residuals and honest leave-out figures.

    python -m tests.benchmarks.fit_memory                # residuals of the coefficients in force, by stack and source
    python -m tests.benchmarks.fit_memory --leave-out    # refits without each group, and without each source
    python -m tests.benchmarks.fit_memory --refit        # what a refit would give beside what is in force
    python -m tests.benchmarks.fit_memory --write        # writes service/estimation/fitted/memory.py, and the README's table

The rows are ``service/catalog/data/measured_memory.jsonl`` (each with its source); the headline set leaves out the tags in
``EXCLUDED``. Only the coefficients in ``FITTED`` are fitted, a few a stack, never one for a row; all else in
``service/estimation/stacks`` is what the stack's code does, or, where a stack has no rows to fit it on, the prior named there.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from service.estimation import memory
from service.estimation.memory.blocks.trained_model import trained_model
from service.estimation.memory.peaks.figures import interval, unlike
from service.estimation.run import Run
from service.estimation.stacks import STACKS
from service.estimation.stacks.megatron import MEGATRON_DEEPSPEED
from service.estimation.stacks.profile import Stack
from service.specs.load import run_of
from tests.benchmarks.fitted import FITTED as FITTED_FILES
from tests.benchmarks.fitted import digest

EXCLUDED = frozenset({"fsdp-load-peak", "data-dependent-length", "conflict-in-source", "unknown-micro-batch", "config-ambiguous"})
TABLES: Mapping[str, Stack] = {**STACKS, "megatron, DeepSpeed's engine": MEGATRON_DEEPSPEED}


@dataclass(frozen=True, slots=True)
class Prior:
    """What is believed of a coefficient before any row is seen, and the step from which a search starts."""

    mean: float
    deviation: float
    step: float


# A CUDA context of 0.2 to 0.7 GB with the libraries' kernels; reserved over active memory of 7 to 26 % in published runs
# (meta-llama/llama-cookbook pull 41 and issue 120); blocks of the allocator are rounded up to 2 MB, and its pools are per stream.
FRAMEWORK = Prior(1.2e9, 6e8, 4e8)
FRAGMENTATION = Prior(0.12, 0.05, 0.04)
ROUNDING = Prior(8e8, 1e9, 8e8)
# What is fitted. A dot leads into the stack's overheads.
FITTED: Mapping[str, Mapping[str, Prior]] = {
    "hf_transformers": {"overheads.framework_bytes": FRAMEWORK, "overheads.fragmentation": FRAGMENTATION},
    "fsdp_native": {
        "overheads.fragmentation": FRAGMENTATION,
        "overheads.late_gradients": Prior(1.0, 0.5, 0.25),
        "kept_compiled": Prior(1.0, 0.1, 0.05),
        "kept_quantized": Prior(1.0, 0.1, 0.05),
    },
    "deepspeed": {"overheads.fragmentation": FRAGMENTATION, "overheads.framework_bytes": FRAMEWORK},
    "megatron": {"overheads.fragmentation": FRAGMENTATION, "overheads.framework_bytes": FRAMEWORK},
    "megatron, DeepSpeed's engine": {
        "overheads.fragmentation": FRAGMENTATION,
        "overheads.framework_bytes": FRAMEWORK,
        "overheads.fragmentation_bytes": ROUNDING,
    },
}
SCALE = 0.04  # of a residual, against which the priors weigh
GAIN = 0.05  # a refit that lowers the loss by less leaves a stack's numbers as they are: quotes do not move for nothing
# Scored, but the common coefficients are not fitted on it: the tool is not stated, and another engine steps.
NOT_FITTED = frozenset({"InternEvo"})
TARGET, README = FITTED_FILES / "memory.py", Path(__file__).resolve().parents[2] / "README.md"
BEGIN, END = "<!-- memory-accuracy:begin -->", "<!-- memory-accuracy:end -->"


@dataclass(frozen=True, slots=True)
class Case:
    """One measured peak, or one run that ran out of memory."""

    id: str
    run: Run
    stack: str
    source: str
    group: str
    weight: float
    observable: str | None
    measured: float | None
    oom: bool


@dataclass(frozen=True, slots=True)
class Residual:
    """One measured peak beside its estimate."""

    case: Case
    log_ratio: float  # of measured over estimated


def _table(run: Run) -> str:
    """The name of the table that describes the run's stack."""
    known = trained_model(run)
    assert known is not None
    return next(name for name, table in TABLES.items() if table is known.stack)


def measured_lines() -> list[str]:
    """The measured rows as lines of JSON."""
    return resources.files("service.catalog").joinpath("data/measured_memory.jsonl").read_text("utf-8").splitlines()


def cases(lines: Iterable[str] | None = None, *, headline: bool = True) -> list[Case]:
    """The measured rows as runs."""
    if lines is None:
        lines = measured_lines()
    found = []
    for line in lines:
        row = json.loads(line)
        codes = [(code, value) for code, value in row["measured"].items() if code.startswith("memory.peak_")]
        if not codes and not row["oom"]:
            continue
        if headline and EXCLUDED & set(row["tags"]):
            continue
        run = run_of(row["spec"])
        code, value = codes[0] if codes else (None, None)
        found.append(
            Case(
                id=row["id"],
                run=run,
                stack=_table(run),
                source=row["source"]["repo"].split("/")[-1],
                group=row["group"],
                weight=row["weight"],
                observable=None if code is None else code.removeprefix("memory.peak_"),
                measured=value,
                oom=row["oom"],
            )
        )
    return found


def residual(case: Case, table: Stack | None = None) -> Residual | None:
    """Measured over estimated of one case, under the coefficients in force or other ones."""
    if case.measured is None or case.observable is None:
        return None
    figures = memory.figures(case.run, table=table)
    assert figures is not None
    return Residual(case, math.log(case.measured / getattr(figures, case.observable).expected))


# -- statistics ----------------------------------------------------------------------------------------------------------
def quantile(pairs: list[tuple[float, float]], share: float) -> float:
    """Weighted quantile: the smallest value whose cumulative weight reaches the share."""
    goal, seen = share * sum(weight for _, weight in pairs), 0.0
    for value, weight in sorted(pairs):
        seen += weight
        if seen >= goal - 1e-12:
            return value
    raise ValueError("no values")


@dataclass(frozen=True, slots=True)
class Score:
    """Errors of a set of residuals; fractions."""

    n: int
    median: float
    p90: float
    bias: float  # median of measured / estimated
    coverage: float


def score(found: list[Residual]) -> Score:
    """The usual statistics, weighted as the rows are."""
    errors = [(abs(math.exp(-r.log_ratio) - 1), r.case.weight) for r in found]
    ratios = [(r.log_ratio, r.case.weight) for r in found]
    inside = 0.0
    for r in found:
        assert r.case.observable is not None
        known = trained_model(r.case.run)
        assert known is not None
        width = interval(known, r.case.observable, unlike(r.case.run, known))
        inside += r.case.weight if width.low <= math.exp(r.log_ratio) <= width.high else 0.0
    total = sum(r.case.weight for r in found)
    return Score(len(found), quantile(errors, 0.5), quantile(errors, 0.9), math.exp(quantile(ratios, 0.5)), inside / total)


# -- fitting -------------------------------------------------------------------------------------------------------------
def _get(stack: Stack, name: str) -> float:
    value: Any = stack
    for part in name.split("."):
        value = getattr(value, part)
    return float(value)


def _with(stack: Stack, name: str, value: float) -> Stack:
    if "." not in name:
        return replace(stack, **{name: value})
    outer, inner = name.split(".")
    return replace(stack, **{outer: replace(getattr(stack, outer), **{inner: value})})


def _loss(found: list[Case], stack: Stack, priors: Mapping[str, Prior]) -> float:
    """Weighted sum of |log error|, rounded off at one per cent, and what the priors have against the coefficients."""
    total = 0.0
    for case in found:
        r = residual(case, stack)
        assert r is not None
        total += case.weight * math.sqrt(r.log_ratio * r.log_ratio + 1e-4) / SCALE
    return total + sum(((_get(stack, name) - prior.mean) / prior.deviation) ** 2 / 2 for name, prior in priors.items())


def fit(found: list[Case], stack: Stack, priors: Mapping[str, Prior], rounds: int = 3, turns: int = 0) -> Stack:
    """Coordinate descent from the priors, or after ``turns`` from the stack's own coefficients; steps are halved each round."""
    found = [case for case in found if case.measured is not None and case.source not in NOT_FITTED]
    for name, prior in priors.items() if not turns else ():
        stack = _with(stack, name, prior.mean)
    best = _loss(found, stack, priors)
    for turn in range(turns, rounds):
        for name, prior in priors.items():
            for sign in (1.0, -1.0):
                moved = False
                while True:
                    value = _get(stack, name) + sign * prior.step / 2**turn
                    if value < 0:
                        break
                    trial = _with(stack, name, value)
                    loss = _loss(found, trial, priors)
                    if loss >= best - 1e-3:
                        break
                    stack, best, moved = trial, loss, True
                if moved:
                    break
    return stack


def refit(found: list[Case], name: str) -> Stack:
    """A stack's record with its coefficients fitted to all its rows, or as it is where they gain nothing."""
    rows = [case for case in found if case.stack == name and case.measured is not None]
    fitted, known = fit(rows, TABLES[name], FITTED[name], rounds=4), [case for case in rows if case.source not in NOT_FITTED]
    gain = _loss(known, TABLES[name], FITTED[name]) - _loss(known, fitted, FITTED[name])
    return fitted if gain >= GAIN else TABLES[name]


def inputs(lines: Iterable[str]) -> str:
    """Digest of the rows and priors of the fit."""
    return digest(lines, {name: {key: asdict(prior) for key, prior in priors.items()} for name, priors in FITTED.items()})


def module(lines: list[str]) -> str:
    """Text of the generated module: every fitted coefficient with its prior."""
    found = cases(lines)
    known = [case for case in found if case.measured is not None and case.source not in NOT_FITTED]
    sources = sorted({case.source for case in known})
    out = [
        '"""Fitted data of the memory model, written by ``python -m tests.benchmarks.fit_memory --write``; do not edit by hand.',
        "",
        "Rows: service/catalog/data/measured_memory.jsonl, each with its source; the priors and where they come from:",
        'tests/benchmarks/fit_memory.py. What an entry means is said in stacks/profile.py."""',
        "",
        "from __future__ import annotations",
        "",
        f'FITTED_ON = "{len(known)} measured peaks of {len(sources)} sources: {", ".join(sources)}"',
        f'INPUTS = "{inputs(lines)}"  # digest of the rows and priors (tests/benchmarks/fitted.py)',
        "",
        "# By stack (name: value; prior and its standard deviation beside it); a dot leads into the stack's overheads.",
        "COEFFICIENTS: dict[str, dict[str, float]] = {",
    ]
    for name, priors in FITTED.items():
        table = refit(found, name)
        out.append(f'    "{name}": {{')
        for key, prior in priors.items():
            out.append(f'        "{key}": {_get(table, key):.6g},  # prior {prior.mean:g}, {prior.deviation:g}')
        out.append("    },")
    ran = {case.run.hardware.device.architecture for case in cases(lines, headline=False) if case.run.hardware is not None}
    generations = ", ".join(f'"{name}"' for name in sorted(name for name in ran if name))
    out += ["}", "", "# Device generations that the rows ran on.", f"GENERATIONS = frozenset({{{generations}}})", ""]
    return "\n".join(out).replace("e+0", "e")


def leave_out(found: list[Case], key: Callable[[Case], str]) -> list[Residual]:
    """Residuals of every case under a fit that has not seen its group."""
    result: list[Residual] = []
    for name, priors in FITTED.items():
        rows = [case for case in found if case.stack == name and case.measured is not None]
        whole = fit(rows, TABLES[name], priors)
        for left in sorted({key(case) for case in rows}):
            kept = [case for case in rows if key(case) != left]
            # Without a few rows the descent ends near the one with all, from which it can start; without many it may not.
            table = fit(kept, whole, priors, turns=1) if len(kept) > 0.7 * len(rows) else fit(kept, whole, priors)
            result.extend(r for case in rows if key(case) == left and (r := residual(case, table)) is not None)
    return result


# -- output --------------------------------------------------------------------------------------------------------------
def _row(name: str, seen: list[Residual], out: list[Residual] | None, by_source: list[Residual] | None) -> str:
    s = score(seen)
    cells = [name, str(s.n), f"{s.median:.1%}", f"{s.p90:.1%}", f"{s.bias:.3f}", f"{s.coverage:.0%}"]
    for other in (out, by_source):
        cells.append("–" if not other else f"{score(other).median:.1%} / {score(other).p90:.1%}")
    return "| " + " | ".join(cells) + " |"


def _within(found: list[Residual] | None, ids: set[str]) -> list[Residual] | None:
    return None if found is None else [r for r in found if r.case.id in ids]


def markdown(found: list[Case], out: list[Residual] | None = None, by_source: list[Residual] | None = None) -> str:
    """The accuracy table: one row a stack and source, and all together."""
    seen = [r for case in found if (r := residual(case)) is not None]
    lines = [
        "| stack · source (observable) | rows | median error | ninth decile | measured / estimated | in 80 % interval | group left out "
        "| source left out |",
        "|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[str, list[str]] = defaultdict(list)
    for r in seen:
        groups[f"{r.case.stack} · {r.case.source} ({r.case.observable})"].append(r.case.id)
    for name, ids in groups.items():
        members = set(ids)
        lines.append(_row(name, _within(seen, members) or [], _within(out, members), _within(by_source, members)))
    lines.append(_row("**all**", seen, out, by_source))
    fits = {case.id: memory_fits(case) for case in found}
    oom = [case for case in found if case.oom]
    ran = [case for case in found if not case.oom]
    told = sum(fits[case.id] in (False, "uncertain") for case in oom)
    wrong = sum(fits[case.id] is False for case in ran)
    lines.append("")
    lines.append(f"Out of memory: {told} of {len(oom)} told `false` or `uncertain`; ran but told `false`: {wrong} of {len(ran)}.")
    misses = [name for name, ids in groups.items() if score([r for r in seen if r.case.id in set(ids)]).median > 0.1]
    if misses:
        lines.append("Off by more than 10 % in the median: " + ", ".join(misses) + ".")
    return "\n".join(lines)


def memory_fits(case: Case) -> bool | str | None:
    """What a quote says of the run."""
    from service.estimation import parameters

    return memory.estimate(case.run, parameters.count(case.run)).fits


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--leave-out", action="store_true", help="refit without each group and without each source")
    parser.add_argument("--refit", action="store_true", help="print what a refit gives")
    parser.add_argument("--intervals", action="store_true", help="print 80 %% bounds of the leave-group-out residuals")
    parser.add_argument("--worst", type=int, default=0, help="print the worst rows")
    parser.add_argument("--write", action="store_true", help="write the generated module, and the table into the README")
    args = parser.parse_args(arguments)
    found = cases()
    if args.refit:
        for name, priors in FITTED.items():
            table = refit(found, name)
            print(name, {key: (f"{_get(TABLES[name], key):.4g} in force", f"{_get(table, key):.4g} refitted") for key in priors})
    out = leave_out(found, lambda case: case.group) if args.leave_out or args.intervals or args.write else None
    by_source = leave_out(found, lambda case: case.source) if args.leave_out or args.write else None
    if args.intervals and out is not None:
        for name in FITTED:
            for observable in ("allocated", "reserved", "process"):
                pairs = [(math.exp(r.log_ratio), r.case.weight) for r in out if r.case.stack == name and r.case.observable == observable]
                if pairs:
                    print(f"{name} {observable}: n {len(pairs)}, 10 % {quantile(pairs, 0.1):.3f}, 90 % {quantile(pairs, 0.9):.3f}")
    table_text = markdown(found, out, by_source)
    print(table_text)
    if args.worst:
        seen = [r for case in found if (r := residual(case)) is not None]
        for r in sorted(seen, key=lambda r: -abs(r.log_ratio))[: args.worst]:
            print(f"{math.exp(-r.log_ratio) - 1:+.3f}  {r.case.id}")
    if args.write:
        TARGET.write_text(module(measured_lines()), "utf-8")
        text = README.read_text("utf-8")
        before, rest = text.split(BEGIN, 1)
        after = rest.split(END, 1)[1]
        README.write_text(before + BEGIN + "\n" + table_text + "\n" + END + after, "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
