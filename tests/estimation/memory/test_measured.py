"""Accuracy on published runs: the limits of the memory issue, in sample and with each group left out of the fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks import fit_memory as fitting

LINES = (Path(__file__).parents[2] / "cases" / "measured_public.jsonl").read_text("utf-8").splitlines()


@pytest.fixture(scope="module")
def headline() -> list[fitting.Case]:
    return fitting.cases(LINES)


@pytest.fixture(scope="module")
def residuals(headline: list[fitting.Case]) -> list[fitting.Residual]:
    return [found for case in headline if (found := fitting.residual(case)) is not None]


def test_the_headline_set_meets_its_goals(residuals: list[fitting.Residual]) -> None:
    score = fitting.score(residuals)
    assert score.n == 182
    assert score.median <= 0.04
    assert score.p90 <= 0.15
    assert 0.97 <= score.bias <= 1.03
    assert 0.75 <= score.coverage <= 0.90


def test_every_stack_is_within_ten_per_cent(residuals: list[fitting.Residual]) -> None:
    for stack, source in {(r.case.stack, r.case.source) for r in residuals}:
        score = fitting.score([r for r in residuals if (r.case.stack, r.case.source) == (stack, source)])
        assert score.median <= 0.10, (stack, source, score)


def test_runs_out_of_memory_are_told_so(headline: list[fitting.Case]) -> None:
    said = {case.id: fitting.memory_fits(case) for case in headline}
    out = [case.id for case in headline if case.oom]
    ran = [case.id for case in headline if not case.oom]
    assert len(out) == 11
    assert all(said[name] in (False, "uncertain") for name in out)
    assert sum(said[name] is False for name in ran) <= 0.03 * len(ran)


def test_each_group_left_out_of_the_fit(headline: list[fitting.Case]) -> None:
    score = fitting.score(fitting.leave_out(headline, lambda case: case.group))
    assert score.median <= 0.05
    assert score.p90 <= 0.15


def test_each_source_left_out_of_the_fit(headline: list[fitting.Case]) -> None:
    score = fitting.score(fitting.leave_out(headline, lambda case: case.source))
    assert score.median <= 0.07
    assert score.p90 <= 0.15


def test_the_catalog_rows_are_the_cases() -> None:
    shared, own = fitting.cases(LINES, headline=False), fitting.cases(headline=False)
    assert [(case.id, case.measured, case.group, case.weight) for case in own] == [(c.id, c.measured, c.group, c.weight) for c in shared]
