"""The service as a process, or several, that can be killed, told to stop and started again."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path

from sqlalchemy import URL

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 90.0
STOP_SECONDS = 60.0


def free_port() -> int:
    """A port of the loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Service:
    """`python -m service serve` on a port of its own that stays the same when it is started again."""

    def __init__(self, url: URL, folder: Path, *, workers: int = 1, settings: Mapping[str, str] | None = None) -> None:
        self.port = free_port()
        self.exits: list[int] = []  # what it answered each time it was told to stop
        self._folder = folder
        self._workers = workers
        self._variables = {
            **{name: value for name, value in os.environ.items() if not name.startswith("RUNQUOTE_")},
            "PYTHONPATH": str(ROOT),
            "RUNQUOTE_DATABASE_URL": url.render_as_string(hide_password=False),
            "RUNQUOTE_AUTH": "off",
            "RUNQUOTE_LOG_LEVEL": "warning",
            **(settings or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; `wait_until_ready` says when it serves."""
        with open(self._folder / f"service-{self.port}.log", "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "service", "serve", "--port", str(self.port), "--workers", str(self._workers)],
                cwd=self._folder,
                env=self._variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # its workers die with it, whatever happens
            )

    def wait_until_ready(self) -> None:
        """Until `/readyz` answers 200."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            if self._running().poll() is not None:
                break
            with (
                suppress(OSError, http.client.HTTPException),
                closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)) as connection,
            ):
                connection.request("GET", "/readyz")
                if connection.getresponse().status == 200:
                    return
            time.sleep(0.05)
        raise RuntimeError(f"the service did not become ready:\n{self.log()[-3000:]}")

    def workers(self) -> list[int]:
        """The processes that answer: its own, or those it started."""
        first = self._running().pid
        if self._workers == 1:
            return [first]
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        return [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]

    def kill(self) -> None:
        """End it and all of its processes with SIGKILL, as the kernel does when memory runs out."""
        process = self._running()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def terminate(self) -> None:
        """Tell it to stop, and keep its exit status."""
        process = self._running()
        process.send_signal(signal.SIGTERM)
        self.exits.append(process.wait(STOP_SECONDS))

    def close(self) -> None:
        """Leave nothing behind."""
        if self._process is not None:
            self.kill()

    def log(self) -> str:
        """All it wrote."""
        path = self._folder / f"service-{self.port}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the service was not started")
        return self._process
