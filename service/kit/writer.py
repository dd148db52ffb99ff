"""Group commit: what several requests store at the same time is committed together.

A durable commit waits for the disk, and on SQLite there is one writer. Whatever comes while a commit runs goes into the next one, so
under load the wait is shared, and a request that is alone waits no longer than by itself. Nobody is told before the commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DataError, IntegrityError

from .database import Database

MOST_TOGETHER = 200

Row = TypeVar("Row")


class GroupWriter(Generic[Row]):
    """Stores rows for the requests of an event loop, in a thread of its own; all but `close` is called from the loop."""

    def __init__(self, database: Database, store: Callable[[Connection, Sequence[Row]], None]) -> None:
        self._database = database
        self._store = store
        self._thread: ThreadPoolExecutor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: list[tuple[Row, asyncio.Future[None]]] = []
        self._writing = False

    async def write(self, row: Row) -> None:
        """Returns once the row is committed; raises what storing it raised."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # the application was started again: whoever waited on the old loop is gone with it
            self._loop, self._waiting, self._writing = loop, [], False
        told: asyncio.Future[None] = loop.create_future()
        self._waiting.append((row, told))
        if not self._writing:
            self._writing = True
            loop.call_soon(self._begin, loop)  # not at once: requests that came together are committed together
        await told

    def close(self) -> None:
        """Wait for the commit that runs, and end the thread; a later row starts another."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown()

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="group-writer")
        together, self._waiting = self._waiting[:MOST_TOGETHER], self._waiting[MOST_TOGETHER:]
        done = loop.run_in_executor(self._thread, self._write, [row for row, _ in together])
        done.add_done_callback(lambda answer: self._end(loop, together, answer))

    def _end(
        self,
        loop: asyncio.AbstractEventLoop,
        together: list[tuple[Row, asyncio.Future[None]]],
        answer: asyncio.Future[list[BaseException | None]],
    ) -> None:
        for (_, told), error in zip(together, answer.result(), strict=True):
            if told.done():  # its request was given up
                continue
            if error is None:
                told.set_result(None)
            else:
                told.set_exception(error)
        if self._waiting:
            self._begin(loop)
        else:
            self._writing = False

    def _write(self, rows: list[Row]) -> list[BaseException | None]:
        """Store rows and commit; what went wrong with each."""
        try:
            with self._database.write() as work:
                self._store(work.connection, rows)
                work.commit()
        except (DataError, IntegrityError) as error:  # of one row: the others are not to suffer for it
            return [error] if len(rows) == 1 else [told for row in rows for told in self._write([row])]
        except Exception as error:
            return [error] * len(rows)
        return [None] * len(rows)
