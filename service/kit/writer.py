"""Group commit: what several requests store at the same time is committed together.

A durable commit waits for the disk, and on SQLite there is one writer. Whatever comes while a commit runs goes into the next one, so
under load the wait is shared, and alone a request waits no longer than by itself. Nobody is told before the commit.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DataError, IntegrityError

from .database import Database

MOST_TOGETHER = 200

Row = TypeVar("Row")
_Waiting = tuple[Row, "asyncio.Future[None]"]


class GroupWriter(Generic[Row]):
    """Stores rows in a thread of its own."""

    def __init__(self, database: Database, store: Callable[[Connection, Sequence[Row]], None]) -> None:
        self._database = database
        self._store = store
        self._waiting: queue.SimpleQueue[_Waiting[Row] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    async def write(self, row: Row) -> None:
        """Returns once the row is committed; raises what storing it raised."""
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._thread is None:
            self._start()
        self._waiting.put((row, told))
        await told

    def close(self) -> None:
        """Store what waits, then end the thread."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._waiting.put(None)
            thread.join()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="group-writer", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        last = False
        while not last:
            entry = self._waiting.get()
            together: list[_Waiting[Row]] = []
            while entry is not None:
                together.append(entry)
                if len(together) == MOST_TOGETHER:
                    break
                try:
                    entry = self._waiting.get_nowait()
                except queue.Empty:
                    break
            last = entry is None
            if together:
                self._write(together)

    def _write(self, together: list[_Waiting[Row]]) -> None:
        error: BaseException | None = None
        try:
            with self._database.write() as work:
                self._store(work.connection, [row for row, _ in together])
                work.commit()
        except (DataError, IntegrityError) as refused:  # of one row: the others are not to suffer for it
            if len(together) > 1:
                for entry in together:
                    self._write([entry])
                return
            error = refused
        except BaseException as failed:
            error = failed
        for loop in {told.get_loop() for _, told in together}:
            loop.call_soon_threadsafe(_tell, [told for _, told in together if told.get_loop() is loop], error)


def _tell(futures: Sequence[asyncio.Future[None]], error: BaseException | None) -> None:
    for told in futures:
        if told.done():  # its request was given up
            continue
        if error is None:
            told.set_result(None)
        else:
            told.set_exception(error)
