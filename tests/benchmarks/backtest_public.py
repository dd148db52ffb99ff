"""The backtest on the public rows, each source a stream of its own: prints the README's table.

    python -m tests.benchmarks.backtest_public [--write README.md]

A source plays a team that the engine has never seen: the fitted coefficients of the step time and of memory are fitted again
without its rows, each run is quoted with them, then measured, in the order of the file (the sources give no dates). Its
runs are corrected by what it measured before, and by nothing of other sources. Takes some minutes; ``--as-shipped`` leaves
the refitting out and shows the coefficients in force, which have seen these very rows.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from service.learning import drivers as learning
from service.learning.backtest import Line, Past, replay
from service.learning.drivers import Evidence
from service.quotes import quoting
from service.specs.load import parse
from service.specs.resolve import resolve
from tests.benchmarks import fit_memory, fit_time, time_rows

CASES = Path(__file__).parents[1] / "cases" / "measured_public.jsonl"
LEFT_OUT = {"known-regression", "device-contradicted-by-source", "conflict-in-source", "moe-token-drop"}
TIME = ("throughput.input_tokens_per_second", "time.step", "device_hours.run", "device_hours.training")
MEMORY = ("memory.peak_allocated", "memory.peak_reserved", "memory.peak_process")
BEGIN, END = "<!-- backtest:begin -->", "<!-- backtest:end -->"
ENOUGH = 10  # a source is shown with more rows than this


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A measured item of a public row beside its estimate."""

    source: str
    kind: str  # time or memory
    past: Past


def unseen() -> dict[str, dict[str, float]]:
    """ln(measured / estimated) by kind and row, the row's source left out of every fit."""
    rows = [row for name in time_rows.FILES for row in time_rows.rows_of(time_rows.CASES / name)]
    model, residual = fit_time.Model(rows), fit_time.Residual(rows)
    keep = np.array([not row.apart for row in rows])
    _, errors = fit_time.crossed(model, residual, model.fit(keep), np.array([row.source for row in rows]), keep, 6)
    memory = fit_memory.leave_out(fit_memory.cases(), lambda case: case.source)
    return {
        "time": {row.id: -float(error) for row, error in zip(rows, errors, strict=True)},
        "memory": {found.case.id: found.log_ratio for found in memory},
    }


def history(left_out: Mapping[str, Mapping[str, float]] | None) -> Iterable[Measured]:
    """The rows in order; what cannot be quoted is left out."""
    for place, line in enumerate(CASES.read_text().splitlines()):
        row = json.loads(line)
        if LEFT_OUT.intersection(row["tags"]):
            continue
        source = next(tag.partition(":")[2] for tag in row["tags"] if tag.startswith("source:"))
        resolved = resolve(parse(row["spec"]))
        items = {item["code"]: item for item in quoting.build(resolved)["items"]}
        facts = learning.facts(
            team=source,
            labels={},
            external_id=None,
            device=None if resolved.run.hardware is None else resolved.run.hardware.device.name,
            stack=resolved.run.software.stack,
            method=resolved.run.method.kind,
            model_family=resolved.run.architecture.family,
            speed_given=resolved.run.efficiency.given,
        )
        training, clock = (items.get(code, {}).get("expected") for code in ("time.training", "time.wall_clock"))
        share = min(1.0, training / clock) if training and clock else 1.0
        for kind, codes in (("time", TIME), ("memory", MEMORY)):
            # One item of a kind: a row that gives tokens/s and seconds a step says one thing twice.
            code = next((code for code in codes if row["measured"].get(code) and items.get(code, {}).get("expected")), None)
            if code is None:
                continue
            estimate, value = items[code]["expected"], row["measured"][code]
            error = math.log(value / estimate)
            if left_out is not None:
                if row["id"] not in left_out[kind]:
                    continue
                longer = left_out[kind][row["id"]]
                error = -longer if code.startswith("throughput.") else longer
                estimate = value / math.exp(error)
            evidence = Evidence(run=row["id"], code=code, log_ratio=error, facts=facts, training_share=share)
            past = Past(evidence=evidence, log_estimate=math.log(estimate), log_error=error, quoted_at=place, ended_at=place + 0.5)
            yield Measured(source=source, kind=kind, past=past)


def figures(lines: Sequence[Line]) -> dict[str, tuple[int, float, float]]:
    """Runs, median and ninth-decile error by engine."""
    return {
        line.engine: (line.summary.n, line.summary.median_absolute_percentage_error, line.summary.p90_absolute_percentage_error)
        for line in lines
    }


def table(left_out: Mapping[str, Mapping[str, float]] | None) -> str:
    """The table, and what it says."""
    grouped: dict[tuple[str, str, str], list[Past]] = defaultdict(list)
    for measured in history(left_out):
        grouped[measured.kind, measured.source, measured.past.evidence.code].append(measured.past)
    rows, worse = [], []
    for kind, source, code in sorted(grouped, key=lambda key: (key[0] != "time", key[1], key[2])):
        past = grouped[kind, source, code]
        if len(past) <= ENOUGH:
            continue
        found = figures(replay(past))
        plain, learnt, last = (found.get(engine) for engine in ("uncalibrated", "calibrated", "last_similar"))
        assert plain is not None and learnt is not None
        similar = "–" if last is None else f"{last[1]:.1%} ({last[0]})"
        rows.append(
            f"| {source} | `{code}` | {plain[0]} | {plain[1]:.1%} / {plain[2]:.1%} | {learnt[1]:.1%} / {learnt[2]:.1%} | {similar} |"
        )
        if learnt[1] >= plain[1]:
            worse.append(f"{source} `{code}` ({plain[1]:.1%} to {learnt[1]:.1%})")
    head = [
        "| source | item | runs | formulas, median / p90 | corrected by its earlier runs | its last similar run (runs that had one) |",
        "|---|---|---|---|---|---|",
    ]
    note = "In each of them the corrected median is below the formulas'."
    if worse:
        note = "The corrected median is not below the formulas' in: " + "; ".join(worse) + "."
    return "\n".join([*head, *rows, "", note])


def main() -> None:
    """Print the table, or put it into a file between its marks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="a file with the marks " + BEGIN + " and " + END)
    parser.add_argument("--as-shipped", action="store_true", help="with the coefficients in force, without refitting")
    options = parser.parse_args()
    text = table(None if options.as_shipped else unseen())
    print(text)
    if options.write is not None:
        whole = options.write.read_text()
        before, _, rest = whole.partition(BEGIN)
        _, _, after = rest.partition(END)
        options.write.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


if __name__ == "__main__":
    main()
