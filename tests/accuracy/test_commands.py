"""The commands that act on measured history."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import URL
from starlette.testclient import TestClient

from service.__main__ import main
from tests.accuracy.test_endpoints import STEP, history


@pytest.fixture(autouse=True)
def _same_database(monkeypatch: pytest.MonkeyPatch, database_url: URL) -> None:
    monkeypatch.setenv("RUNQUOTE_DATABASE_URL", database_url.render_as_string(hide_password=False))


def test_backtest_and_rebuild(client: TestClient, capsys: pytest.CaptureFixture[str]) -> None:
    history(client, [1.5, 1.5, 1.5], STEP)
    assert main(["backtest", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert rows == client.post("/v1/backtests", json={}).json()["rows"]
    assert main(["backtest", "--code", STEP, "--window", "8w"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split()[:2] == ["code", "engine"] and "33.3%" in table[1]
    assert main(["rebuild-accuracy"]) == 0
    assert capsys.readouterr().out == "3 observations\n"


@pytest.mark.parametrize("arguments", [["--team", "nobody"], ["--window", "soon"], ["--code", "tokens.input"]])
def test_a_backtest_of_nothing_says_why(client: TestClient, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(["backtest", *arguments]) == 2
    assert capsys.readouterr().err.startswith("runquote: ")
