"""Connections that send their head without end, or never finish it, are closed. uvicorn bounds neither with its fast parser."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES = 64 * 1024
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with a limit on bytes and seconds of a request's line and headers."""

    head_seconds: ClassVar[float] = 10.0
    _head_bytes = 0
    _in_head = True
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """A connection is new: its first head is awaited."""
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._head_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes came; those of a head are counted."""
        super().data_received(data)
        if not self._in_head:
            return
        self._head_bytes += len(data)
        if self._head_bytes > MOST_HEAD_BYTES and not self.transport.is_closing():
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    def on_message_begin(self) -> None:
        """A head begins."""
        super().on_message_begin()
        if not self._in_head:
            self._await_head()

    def on_headers_complete(self) -> None:
        """It is here."""
        self._head_came()
        super().on_headers_complete()

    def _await_head(self) -> None:
        self._in_head, self._head_bytes = True, 0
        self._patience = self.loop.call_later(self.head_seconds, self._give_up)

    def _head_came(self) -> None:
        self._in_head = False
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
