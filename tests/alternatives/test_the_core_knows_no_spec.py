"""Alternatives speak of spec fields and devices; the core speaks of runs: no patch of a spec is written in it."""

from __future__ import annotations

import ast
from pathlib import Path

import service.estimation
from service.catalog.devices import devices
from service.specs.spec import RunSpec


def test_no_patch_of_a_spec_and_no_device_is_named_in_the_core() -> None:
    core = Path(service.estimation.__file__).parent
    patched = {"parallelism", "hardware", "software", "optimizer", "precision", "method", "checkpointing", "post_training"}
    assert patched <= set(RunSpec.model_fields)
    found: list[tuple[str, str]] = []
    for path in sorted(core.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Dict):
                inner = [
                    key.value
                    for key, value in zip(node.keys, node.values, strict=True)
                    if isinstance(key, ast.Constant) and isinstance(value, ast.Dict)
                ]
                found += [(path.name, str(name)) for name in inner if name in patched]
            if isinstance(node, ast.Constant) and node.value in devices():
                found.append((path.name, str(node.value)))
    assert found == []
