"""Long answers: a body of many parts is sent as it is, never put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

SENT_BYTES = 256 * 1024  # at a time, about


class PartedResponse(Response):
    """Sends parts one after another.

    To join tens of megabytes, and to hand them to the socket at once, holds Python's lock and the event loop for tens of milliseconds
    in which nobody else is answered.
    """

    def __init__(self, parts: Sequence[bytes], status: int, headers: Mapping[str, str], media_type: str) -> None:
        super().__init__(None, status, {**headers, "Content-Length": str(sum(map(len, parts)))}, media_type)
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; the server waits where the client reads slowly."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for together in _together(self._parts):
            await send({"type": "http.response.body", "body": together, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _together(parts: Sequence[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of about `SENT_BYTES`."""
    waiting: list[bytes] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += len(part)
        if size >= SENT_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)
