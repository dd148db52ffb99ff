"""The command line: a service that starts by itself and stops when told, keys, and `--help` for everything."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from sqlalchemy import URL

from service.__main__ import main
from service.kit.security import SCOPES
from service.quotes import examples
from service.quotes.schemas import Quote

ROOT = Path(__file__).resolve().parents[1]


def run(*arguments: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(
        [sys.executable, "-m", "service", *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ask(url: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.loads(answer.read() or "null")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read() or "null")


@contextmanager
def serving(folder: Path, *arguments: str, **variables: str) -> Iterator[tuple[str, subprocess.Popen[bytes], Path]]:
    """A service in a process of its own: its address, the process, and its log; it is stopped when the block ends."""
    port = free_port()
    log = folder / "serve.log"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "service", *arguments, "--port", str(port)],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        try:
            address = f"http://127.0.0.1:{port}"
            deadline = time.monotonic() + 90
            while True:
                assert process.poll() is None and time.monotonic() < deadline, log.read_text()
                try:
                    if ask(address + "/readyz")[0] == 200:
                        break
                except OSError:
                    time.sleep(0.1)
            yield address, process, log
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise


def test_it_serves_on_a_file_of_its_own_and_says_where(tmp_path: Path) -> None:
    with serving(tmp_path, "serve") as (address, process, log):
        status, quote = ask(address + "/v1/quotes", examples.SPEC)
        assert status == 201
        assert ask(f"{address}/v1/quotes/{quote['id']}") == (200, quote)
        assert str(tmp_path / "runquote.db") in log.read_text()
        assert f"{address}/docs" in log.read_text()
    assert process.returncode == 0  # however many workers there are
    assert "Traceback" not in log.read_text()
    with serving(tmp_path) as (address, _, _):  # serve is the default, and what was stored is still there
        assert ask(f"{address}/v1/quotes/{quote['id']}") == (200, quote)


def test_the_line_that_says_where_is_true_when_it_is_written(tmp_path: Path) -> None:
    """The port that was taken, and a connection at once."""
    process = subprocess.Popen(
        [sys.executable, "-m", "service", "--port", "0"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        address = next(found[1] for line in process.stderr if (found := re.search(r"documentation at (http://\S+)/docs", line)))
        assert ask(address + "/healthz") == (200, {"status": "ok"})
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def test_workers_on_postgresql_share_keys_quotes_and_metrics(tmp_path: Path, postgresql_server: Any) -> None:
    url: URL = postgresql_server.create()
    text = url.render_as_string(hide_password=False)
    key = run(
        "keys",
        "create",
        "--team",
        "search",
        "--scope",
        "quotes:write",
        "--scope",
        "quotes:read",
        folder=tmp_path,
        RUNQUOTE_DATABASE_URL=text,
    )
    assert key.returncode == 0, key.stderr
    bearer = {"Authorization": f"Bearer {key.stdout.strip()}"}
    with serving(tmp_path, "serve", "--workers", "2", RUNQUOTE_DATABASE_URL=text) as (address, process, log):
        assert ask(address + "/v1/quotes", examples.SPEC)[0] == 401
        made = [ask(address + "/v1/quotes", examples.SPEC, **bearer, **{"X-Request-ID": f"made-{n}"})[1]["id"] for n in range(6)]
        listed = ask(address + "/v1/quotes", **bearer)[1]["items"]
        assert [quote["id"] for quote in listed] == made[::-1]
        with urllib.request.urlopen(address + "/metrics", timeout=30) as answer:
            assert re.search(r'runquote_quotes_total{kind="single"} 6\.0', answer.read().decode())
    assert process.returncode == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]  # JSON all of it, whichever process wrote it
    assert {f"made-{n}" for n in range(6)} <= {line.get("request_id") for line in lines}
    postgresql_server.drop(url)


def test_several_workers_need_postgresql(tmp_path: Path) -> None:
    refused = run("serve", "--workers", "2", folder=tmp_path)
    assert refused.returncode == 2
    assert "PostgreSQL" in refused.stderr


def test_keys_are_made_listed_and_revoked(tmp_path: Path) -> None:
    made = run("keys", "create", "--team", "search", "--scope", "quotes:read", folder=tmp_path)
    assert made.returncode == 0, made.stderr
    key = made.stdout.strip()
    assert re.fullmatch(r"rq_[0-9a-f]{16}_[A-Za-z0-9_-]{43}", key)
    assert made.stdout == key + "\n"  # alone on stdout
    listed = run("keys", "list", folder=tmp_path).stdout.strip().split("\t")
    assert listed[1:3] == ["search", "quotes:read"]
    assert key not in "".join(listed)
    assert run("keys", "list", "--team", "other", folder=tmp_path).stdout == ""
    successor = run("keys", "rotate", listed[0], "--overlap", "8h", "--expires", "90d", folder=tmp_path).stdout.strip()
    assert re.fullmatch(r"rq_[0-9a-f]{16}_[A-Za-z0-9_-]{43}", successor)
    old, new = (line.split("\t") for line in run("keys", "list", folder=tmp_path).stdout.strip().splitlines())
    assert old[0] == new[-1] == listed[0] and old[5] != "-" and new[5] != "-"  # both expire
    for refused in (["rotate", listed[0]], ["rotate", "rq_nothing"], ["rotate", new[0], "--overlap", "soon"]):
        answer = run("keys", *refused, folder=tmp_path)
        assert answer.returncode == 2 and answer.stderr.startswith("runquote: ") and answer.stdout == ""
    assert run("keys", "revoke", key[:20] + "garbage", folder=tmp_path).returncode == 1  # it names another key than that one
    assert run("keys", "revoke", listed[0], folder=tmp_path).returncode == 0
    again = run("keys", "revoke", listed[0], folder=tmp_path)
    assert again.returncode == 1
    assert "Traceback" not in again.stderr


@pytest.mark.parametrize(
    "arguments", [["keys", "create", "--team", "search", "--scope", "everything"], ["keys"], ["brew"], ["serve", "--port", "x"]]
)
def test_wrong_commands_are_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        status: Any = main(arguments)
    except SystemExit as stopped:
        status = stopped.code
    assert status == 2
    assert capsys.readouterr().err


COMMANDS = [
    *("", "serve", "migrate", "downgrade", "keys", "keys create", "keys list", "keys rotate", "keys revoke"),
    *("openapi", "backtest", "export", "delete-team"),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main([*command.split(), "--help"])
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    assert "usage: python -m service" in printed
    assert command != "keys create" or all(scope in printed for scope in SCOPES)
    assert list(tmp_path.iterdir()) == []  # asking for help makes no database


def test_the_openapi_command_needs_no_database(tmp_path: Path) -> None:
    printed = run("openapi", folder=tmp_path)
    assert json.loads(printed.stdout)["info"]["title"] == "Runquote"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("RUNQUOTE_AUTH", "sometimes", "RUNQUOTE_AUTH: Input should be 'off' or 'required'"),
        ("RUNQUOTE_DATABASE_URL", "nonsense", "RUNQUOTE_DATABASE_URL: "),
        ("RUNQUOTE_DATABASE_URL", "sqlite:///empty.db", "`migrate` brings it up to date"),
        ("RUNQUOTE_WORKRS", "2", "RUNQUOTE_WORKRS is not a setting and changes nothing; the nearest is RUNQUOTE_WORKERS"),
    ],
)
def test_bad_settings_are_named(
    name: str, value: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(name, value)
    assert main(["keys", "list"]) != 0
    errors = capsys.readouterr().err
    assert told in errors and "Traceback" not in errors


@pytest.mark.parametrize("bug", [ValueError("math domain error"), RuntimeError("dictionary changed size"), KeyError("steps")])
def test_a_bug_shows_its_traceback(bug: Exception, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only what the person at the command line can mend is a line; a bug told like that could not be found."""
    monkeypatch.chdir(tmp_path)

    def fail(*_: Any, **__: Any) -> None:
        raise bug

    monkeypatch.setattr("service.keys.repository.list_keys", fail)
    with pytest.raises(type(bug)):
        main(["keys", "list"])


def test_an_invalid_object_inside_is_not_taken_for_a_wrong_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("service.keys.repository.list_keys", lambda *_: Quote.model_validate({}))
    with pytest.raises(ValidationError):
        main(["keys", "list"])


@pytest.mark.parametrize("arguments", [["migrate", "9999"], ["backtest", "--window", "soon"]])
def test_what_can_be_mended_is_one_line(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("runquote: ")]
    assert len(told) == 1
