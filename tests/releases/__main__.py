"""Write the databases of this release: the rows of `tests.kit.test_migrations.populate`, as text."""

from __future__ import annotations

import sqlite3
import subprocess
import tempfile
from pathlib import Path

from sqlalchemy import URL

from service.kit import migration
from tests import postgres
from tests.kit.test_migrations import populate

FOLDER = Path(__file__).parent


def main() -> None:
    """Both engines, one file each."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "release.db"
        url = URL.create("sqlite", database=str(path))
        migration.upgrade(url)
        populate(url)
        connection = sqlite3.connect(path)
        (FOLDER / f"{migration.head()}.sqlite.sql").write_text("\n".join(connection.iterdump()) + "\n")
        connection.close()
    with postgres.server() as server:
        binaries = postgres.binaries()
        assert server is not None and binaries is not None, "PostgreSQL is needed"
        url = server.create()
        migration.upgrade(url)
        populate(url)
        command = [
            binaries / "pg_dump",
            "--inserts",
            "--no-owner",
            "--host",
            str(url.query["host"]),
            "--username",
            "runquote",
            url.database,
        ]
        text = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout
        # psql's own commands, and what only says which program wrote the file
        kept = [line for line in text.splitlines() if line and not line.startswith(("\\", "--"))]
        (FOLDER / f"{migration.head()}.postgresql.sql").write_text("\n".join(kept) + "\n")


if __name__ == "__main__":
    main()
