"""Peaks of a training step, phase by phase, against PyTorch's memory tracker (step 2: the optimizer's states are there)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from service.estimation import memory, parameters

from . import oracle

TOLERANCE = 0.005
PEAKS = {"forward": "peak_forward", "backward": "peak_backward", "optimizer_step": "peak_optimizer"}


def measured() -> Iterator[tuple[dict[str, Any], str, float, float]]:
    """Row, phase, estimated and measured bytes."""
    for row in oracle.rows("step"):
        if row["keep_outputs"]:
            continue
        run = oracle.run(row)
        phases = {phase["phase"]: phase["allocated_bytes"] for phase in memory.estimate(run, parameters.count(run)).phases}
        for phase, key in PEAKS.items():
            states = 0 if row.get("steps") == 2 or phase == "optimizer_step" else row["optim_bytes"]
            yield row, phase, phases[phase], row[key] + states


def test_phase_peaks_equal_pytorchs_tracker() -> None:
    off = [(oracle.name(row), phase, found / true - 1) for row, phase, found, true in measured() if abs(found / true - 1) > TOLERANCE]
    assert not off


def test_rows_measured_again_differ_in_the_kernel_of_silus_gradient_alone() -> None:
    """The CPU build has no CUDA kernel for it and makes a tensor for every step of it, a GPU one (tests/benchmarks/oracle_step.py)."""
    first, again = (oracle.rows("step", files=(file,)) for file in ("oracle.jsonl", "oracle_step.jsonl"))
    pairs = [(before, after) for before in first for after in again if oracle.name(before) == oracle.name(after)]
    assert len(pairs) == 3
    for before, after in pairs:
        assert all(after[key] == before[key] for key in ("param_bytes", "grad_bytes", "optim_bytes", "peak_forward", "peak_optimizer"))
        assert after["peak_backward"] < before["peak_backward"]


@pytest.mark.parametrize(("implementation", "copies"), [("foreach", 5), ("fused", 4)])
def test_foreach_makes_one_parameter_sized_temporary(implementation: str, copies: int) -> None:
    row = next(r for r in oracle.rows("step") if r["model"] == "llama-3.1-8b" and r["opt"] == implementation and r["mode"] == "bf16")
    run = oracle.run(row)
    phases = {phase["phase"]: phase for phase in memory.estimate(run, parameters.count(run)).phases}
    assert phases["optimizer_step"]["allocated_bytes"] == copies * row["param_bytes"]
