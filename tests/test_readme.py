"""The README is true: its commands run and answer what it shows, its tables are those of the code."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from service.settings import Settings
from tests import readme
from tests.test_command_line import ROOT, ask, run, serving

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


@pytest.mark.skipif(shutil.which("curl") is None, reason="LOUD: the README's curl was NOT run: there is no curl here")
def test_the_schedulers_accounting_is_taken_as_shown(tmp_path: Path) -> None:
    found = re.search(r"```console\n\$ (TZ=UTC sacct -P .*? -o (\S+)) \|\n(.*?)```", TEXT, re.DOTALL)
    assert found
    accounting = ROOT / "tests/cases/slurm/debian12_22.05_sacct_P_select.txt"  # of a real Slurm, with more columns than these
    assert set(found[2].split(",")) <= set(accounting.read_text().partition("\n")[0].split("|"))
    spec = {"model": {"preset": "gpt2"}, "data": {"total_tokens": 10**9}, "sequence_length": 1024, "hardware": {"device": "h100-sxm-80gb"}}
    with serving(tmp_path) as (address, _, _):
        _, quote = ask(f"{address}/v1/quotes", {**spec, "external_ref": {"system": "slurm", "id": "quotetest/1"}})
        command = found[3].replace(readme.ADDRESS, address)
        with accounting.open() as written:
            answer = subprocess.run(["sh", "-c", command], stdin=written, capture_output=True, text=True, timeout=60)
        assert {item["quote_id"] for item in json.loads(answer.stdout)["items"]} == {quote["id"]}, answer.stdout


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
