"""Fitted numbers: the generated files are what the commands named in them make of the rows and priors of today."""

from __future__ import annotations

import re

import pytest

from service.estimation.fitted import memory, step_time
from service.estimation.stacks import STACKS, profile
from tests.benchmarks import fit_memory
from tests.benchmarks.fit_time import Model
from tests.benchmarks.fitted import FITTED
from tests.benchmarks.time_report import inputs
from tests.benchmarks.time_rows import CASES, FILES, rows_of

SOURCES = re.compile(r"written by ``python -m tests\.benchmarks\.(\w+) --write``; do not edit by hand")


def test_the_memory_file_is_what_its_command_writes() -> None:
    assert (FITTED / "memory.py").read_text("utf-8") == fit_memory.module(fit_memory.measured_lines())


def test_the_step_time_file_was_fitted_on_the_rows_counts_and_priors_of_today() -> None:
    """Efficiencies belong to the counts that they were fitted with: whoever changes what a step counts fits anew."""
    model = Model([row for name in FILES for row in rows_of(CASES / name)])
    assert inputs(model) == step_time.INPUTS
    assert set(step_time.COEFFICIENTS) == set(model.names)


@pytest.mark.parametrize("file", sorted(path.name for path in FITTED.glob("[a-z]*.py")))
def test_every_generated_file_names_the_command_that_makes_it(file: str) -> None:
    command = SOURCES.search((FITTED / file).read_text("utf-8"))
    assert command is not None
    assert (FITTED.parents[2] / "tests" / "benchmarks" / f"{command[1]}.py").is_file()


@pytest.mark.parametrize(("stack", "code"), [(stack, code) for stack, priors in fit_memory.FITTED.items() for code in priors])
def test_a_record_has_each_fitted_number_of_its_stack(stack: str, code: str) -> None:
    record: profile.Stack = fit_memory.TABLES[stack]
    holder = record.overheads if "." in code else record
    assert getattr(holder, code.rpartition(".")[2]) == memory.COEFFICIENTS[stack][code]


def test_every_stack_is_fitted_or_has_no_measured_rows() -> None:
    measured = {case.stack for case in fit_memory.cases(fit_memory.measured_lines()) if case.measured is not None}
    assert measured == set(memory.COEFFICIENTS)
    assert set(STACKS) - measured == {"llm_foundry"}  # no public memory measurement of it was found
