"""Measured step times: the public runs and vTrain's sweep, as runs of the core."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.catalog import evidence
from service.estimation import parameters
from service.estimation.run import Run
from service.estimation.step_time.predictable import PredictableRun, predictable
from service.specs.load import run_of

ROOT = Path(__file__).absolute().parents[2]
CASES = ROOT / "tests" / "cases"
FILES = ("measured_public.jsonl", "measured_vtrain.jsonl")
TIME_CODES = ("throughput.input_tokens_per_second", "time.step", "device_hours.run", "device_hours.training")
# Rows that measure something else than a step of their spec, as their sources show: kept out of the fit, reported apart.
APART = ("known-regression", "device-contradicted-by-source", "conflict-in-source", "moe-token-drop")
UNCLEAN = ("unknown-", "assumed-", "precision-assumed", "conflict", "recalled", "aggregated", "data-dep", "config-amb", "known-regression",
           "device-contradicted")  # fmt: skip
Array = NDArray[np.float64]


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
    def known(self) -> PredictableRun:
        """The run with all that a prediction needs: every row has it."""
        found = predictable(self.run)
        assert isinstance(found, PredictableRun), f"{self.id}: {found}"
        return found

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


def main() -> None:
    """Write the catalog's data file: every row's measurement and source, and the facts that likeness is judged by."""
    lines = []
    for path in FILES:
        for row in rows_of(CASES / path):
            facts = evidence.facts(row.run, parameters.count(row.run))
            entry = {
                "id": row.id,
                "source": row.case["source"],
                "group": row.group,
                "tags": [tag for tag in row.tags if not tag.startswith("source:")],
                "measured": {code: value for code, value in row.case["measured"].items() if code in TIME_CODES},
                "step_seconds": float(f"{row.step:.6g}"),
                "facts": facts,
            }
            lines.append(json.dumps(entry, separators=(",", ":")))
    (ROOT / "service" / "catalog" / "data" / "measured_time.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
