"""The README is true: its commands run and answer what it shows, its tables are those of the code."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from service.settings import Settings
from tests import readme
from tests.test_command_line import ROOT, run, serving

TEXT = readme.README.read_text()


def test_the_tables_are_those_of_the_code() -> None:
    assert readme.generated(TEXT) == TEXT, "run: python -m tests.readme"
    for name, field in Settings.model_fields.items():
        assert f"`RUNQUOTE_{name.upper()}`" in TEXT
        assert field.description


@pytest.mark.skipif(shutil.which("curl") is None, reason="LOUD: the README's curl was NOT run: there is no curl here")
def test_the_commands_answer_what_is_shown(tmp_path: Path) -> None:
    with serving(tmp_path) as (address, _, _):
        assert readme.executed(TEXT, address) == TEXT, "run: python -m tests.readme"


def shell_commands() -> list[str]:
    return [line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.strip().splitlines()]


def test_what_is_to_be_typed_is_one_line_each_and_names_what_is_there() -> None:
    serve, test, keys = shell_commands()
    for command, lock in ((serve, "requirements.lock"), (test, "requirements-dev.lock")):
        assert command.startswith(f"python3 -m venv .venv && .venv/bin/pip install --require-hashes -r {lock} && .venv/bin/python -m ")
        assert (ROOT / lock).exists()
    assert serve.endswith("-m service")
    assert test.endswith("-m pytest")
    assert keys.startswith(".venv/bin/python -m service ")


def test_the_key_command_makes_a_key(tmp_path: Path) -> None:
    made = run(*shell_commands()[2].split()[3:], folder=tmp_path)
    assert made.stdout.startswith("rq_"), made.stderr


def test_every_link_and_path_named_is_there() -> None:
    for path in re.findall(r"`((?:service|openapi|tests|\.ci)/[\w./]*)`", TEXT):
        assert (ROOT / path).exists(), path
