"""Benchmarks are run by hand: that each can still be loaded is held here, so that a renamed function does not end one unseen."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

NAMES = sorted(path.stem for path in (Path(__file__).parent / "benchmarks").glob("[a-z]*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_loads(name: str) -> None:
    importlib.import_module(f"tests.benchmarks.{name}")
