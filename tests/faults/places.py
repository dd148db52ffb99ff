"""Where the service of a scenario stores: a SQLite file or a PostgreSQL server, on a disk that can be filled."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, create_engine, text

from tests import postgres

from .writers import Tally

SMALL_DISK_MEGABYTES = {"sqlite": 24, "postgresql": 160}


@dataclass
class Place:
    """A database without a table, and what can be done to it."""

    url: URL
    folder: Path  # of the logs and other files of the service
    server: postgres.Own | None = None
    disk: Path | None = None  # a small one that is all the database's, where it could be mounted

    @property
    def file(self) -> Path:
        """The SQLite file."""
        return Path(self.url.database or "")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Somebody holds all of it, so that whoever takes a connection keeps it."""
        if self.server is None:
            holder = sqlite3.connect(self.file, isolation_level=None, timeout=30)
            holder.execute("BEGIN IMMEDIATE")
            try:
                yield
            finally:
                holder.execute("ROLLBACK")
                holder.close()
            return
        engine = create_engine(self.url)
        with engine.begin() as connection:
            connection.execute(text("LOCK TABLE quotes, idempotency_keys, teams IN ACCESS EXCLUSIVE MODE"))
            yield
        engine.dispose()

    @contextmanager
    def full(self, processes: list[int]) -> Iterator[None]:
        """No byte more can be stored: the disk is full, or, where none could be mounted, RLIMIT_FSIZE is 0.

        The limit is that of the processes given, or of the server's.
        """
        if self.disk is None:
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]

            def allow(soft: int) -> None:
                for process in processes if self.server is None else self.server.processes():
                    with suppress(ProcessLookupError):
                        resource.prlimit(process, resource.RLIMIT_FSIZE, (soft, hard))

            allow(0)
            try:
                yield
            finally:
                allow(hard)
            return
        ballast = self.disk / "ballast"
        with open(ballast, "wb", buffering=0) as filled, suppress(OSError):
            while filled.write(bytes(65536)):
                pass
        with open(ballast, "ab", buffering=0) as filled, suppress(OSError):
            while filled.write(bytes(512)):
                pass
        try:
            yield
        finally:
            ballast.unlink()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Every process of the server is stopped; its kernel still acknowledges what is sent."""
        server = self.running()
        stopped = server.processes()
        for process in stopped:
            os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in stopped:
                os.kill(process, signal.SIGCONT)

    def kill_server(self) -> None:
        """SIGKILL to every process of the server; it does not come back by itself."""
        self.running().signal(signal.SIGKILL)

    def start_server(self) -> None:
        """Start the server; the first tries fail while processes of the killed one are still ending."""
        end = time.monotonic() + 30
        while True:
            try:
                self.running().start()
                return
            except RuntimeError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def running(self) -> postgres.Own:
        """The PostgreSQL server."""
        if self.server is None:
            raise RuntimeError("this place has no server")
        return self.server

    def stored(self) -> dict[str, list[str]]:
        """Ids of stored quotes by name, as the database itself has them."""
        engine = create_engine(self.url)
        found: dict[str, list[str]] = {}
        with engine.connect() as connection:
            for name, id in connection.execute(text("SELECT name, id FROM quotes")):
                found.setdefault(name, []).append(id)
        engine.dispose()
        return found


@dataclass(frozen=True)
class Audit:
    """What the writers were told, beside what is stored."""

    acknowledged: int
    stored: int
    doubled: int
    lost: int  # acknowledged, and not stored under the id that was told


def audit(place: Place, tally: Tally) -> Audit:
    """Compare the two."""
    stored = place.stored()
    sizes = Counter({name: len(ids) for name, ids in stored.items()})
    lost = [
        name for name, id in tally.acknowledged.items() if not (id in stored.get(name, ()) if id and id != "quotes" else name in stored)
    ]
    return Audit(len(tally.acknowledged), sizes.total(), sum(size > 1 for size in sizes.values()), len(lost))


@contextmanager
def place(kind: str, *, small_disk: bool = False) -> Iterator[Place]:
    """A place for a scenario; it and all in it are gone when the block ends."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="runquote-faults-")))
        disk = stack.enter_context(_small_disk(folder / "disk", SMALL_DISK_MEGABYTES[kind])) if small_disk else None
        if kind == "sqlite":
            yield Place(URL.create("sqlite", database=str((disk or folder) / "runquote.db")), folder, disk=disk)
            return
        if disk is not None:
            folder.chmod(0o755)  # the server runs as another user, and must reach it
        server = stack.enter_context(postgres.own(disk))
        if server is None:
            raise RuntimeError("no PostgreSQL: neither installed nor in the wheel of the development lock")
        yield Place(server.create(), folder, server, disk)


@contextmanager
def _small_disk(at: Path, megabytes: int) -> Iterator[Path | None]:
    """A file system in memory, of this size; None where we may not mount."""
    at.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0755", "tmpfs", str(at)], capture_output=True)
    if mounted.returncode:
        yield None
        return
    try:
        yield at
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True, capture_output=True)
