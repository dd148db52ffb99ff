"""A database that hangs hangs nobody: PostgreSQL is frozen, and every question has its answer within the stated time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import URL, create_engine, text
from starlette.testclient import TestClient

from service.app import create_app
from service.kit import migration
from service.kit.database import HUNG_FOR_SECONDS
from service.quotes import examples
from tests import postgres
from tests.conftest import settings_for
from tests.test_command_line import ROOT, free_port

TIMEOUT_SECONDS = 1.0


@pytest.fixture(scope="module")
def own_server() -> Iterator[URL]:
    """A migrated database on a server of its own: the one that other tests share is not to be frozen."""
    with postgres.server() as server:
        if server is None or os.environ.get("TEST_DATABASE_URL"):
            pytest.skip("a server that this test may freeze is needed")
        url = server.create()
        migration.upgrade(url)
        yield url


@contextmanager
def frozen(url: URL) -> Iterator[None]:
    """Every process of the server is stopped: its kernel still acknowledges what is sent."""
    engine = create_engine(url)
    with engine.connect() as connection:
        backend = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
    parent = int(Path(f"/proc/{backend}/stat").read_text().rpartition(")")[2].split()[1])
    children = [int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
    stopped = [parent, *children]
    for process in stopped:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in reversed(stopped):
            os.kill(process, signal.SIGCONT)
        engine.dispose()


ASKED: dict[str, Callable[[Any], Any]] = {
    "a read": lambda client: client.get("/v1/quotes"),
    "a write": lambda client: client.post("/v1/quotes", json=examples.SPEC),
    "a write with a key": lambda client: client.post("/v1/quotes", json=examples.SPEC, headers={"Idempotency-Key": "k"}),
    "readiness": lambda client: client.get("/readyz"),
}


@pytest.mark.parametrize("question", ASKED)
def test_everything_answers_503_while_the_database_is_frozen(own_server: URL, question: str) -> None:
    with TestClient(create_app(settings_for(own_server, database_timeout_seconds=TIMEOUT_SECONDS))) as client:
        assert client.get("/readyz").status_code == 200
        assert client.get("/v1/quotes").status_code == 200  # so that there are connections in the pool
        with frozen(own_server):
            started = time.monotonic()
            answer = ASKED[question](client)
            waited = time.monotonic() - started
        assert answer.status_code == 503
        assert answer.headers["retry-after"]
        assert waited < 20  # not a measurement: without a clock on this side it never ends, as only the test thaws the server
        time.sleep(HUNG_FOR_SECONDS)
        assert ASKED[question](client).status_code in (200, 201)  # and afterwards all is as before


def test_more_requests_than_connections_are_told_so_too(own_server: URL) -> None:
    with (
        TestClient(create_app(settings_for(own_server, database_timeout_seconds=TIMEOUT_SECONDS, database_connections=2))) as client,
        ThreadPoolExecutor(12) as pool,
    ):
        with frozen(own_server):
            reads = [pool.submit(client.get, "/v1/quotes") for _ in range(10)]
            ready = client.get("/readyz")
            assert ready.status_code == 503 and "does not answer" in ready.json()["detail"]
            assert {read.result().status_code for read in reads} == {503}
        time.sleep(HUNG_FOR_SECONDS)
        assert client.get("/v1/quotes").status_code == 200


def test_a_stop_signal_ends_it_while_the_database_is_frozen(own_server: URL, tmp_path: Path) -> None:
    port = free_port()
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "RUNQUOTE_AUTH": "off",
        "RUNQUOTE_DATABASE_URL": own_server.render_as_string(hide_password=False),
        "RUNQUOTE_DATABASE_TIMEOUT_SECONDS": str(TIMEOUT_SECONDS),
        "RUNQUOTE_SHUTDOWN_SECONDS": "60",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "service", "--port", str(port)],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client, ThreadPoolExecutor(4) as pool:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                try:
                    if client.get("/readyz").status_code == 200:
                        break
                except httpx.TransportError:
                    time.sleep(0.1)
            with frozen(own_server):
                asked = [pool.submit(client.get, "/v1/quotes") for _ in range(4)]
                time.sleep(0.3)
                process.send_signal(signal.SIGTERM)
                assert process.wait(20) == 0
                assert {read.result().status_code for read in asked} == {503}
    finally:
        process.kill()
        process.wait()
