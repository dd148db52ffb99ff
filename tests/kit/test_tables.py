"""A table belongs to one room: another that reads it imports it, so that the import contracts see every arrow."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import service

SOURCES = {path: ast.parse(path.read_text("utf-8")) for path in Path(service.__file__).parent.rglob("*.py")}


def test_every_table_is_declared_in_one_room() -> None:
    declared = Counter(
        call.args[0].value
        for tree in SOURCES.values()
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "Table"
        and isinstance(call.args[0], ast.Constant)
    )
    assert {"quotes", "measurements", "accuracy_daily", "calibrations", "ledger_entries"} <= declared.keys()
    assert set(declared.values()) == {1}


def test_no_room_names_columns_of_a_table_that_it_does_not_import() -> None:
    """SQLAlchemy's `table()` and `column()` describe a table by hand, and no import shows whose it is."""
    by_hand = [
        f"{path.name}:{node.lineno}"
        for path, tree in SOURCES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sqlalchemy")
        if {"table", "column"} & {name.name for name in node.names}
    ]
    assert by_hand == []
