"""Long answers are sent in parts and arrive whole."""

from __future__ import annotations

from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from service.kit.parted import SENT_BYTES, PartedResponse


def test_parts_arrive_whole_with_their_length_and_headers_and_no_piece_is_long() -> None:
    parts = [b"", b"[", b"x" * (3 * SENT_BYTES // 4), b"y" * SENT_BYTES, b"z", b"]"]
    pieces: list[bytes] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async def seen(message: Message) -> None:
            pieces.append(message.get("body", b""))
            await send(message)

        await PartedResponse(parts, 201, {"X-Own": "1"}, "application/json")(scope, receive, seen)

    answer = TestClient(app).get("/")
    assert answer.status_code == 201 and answer.content == b"".join(parts)
    assert answer.headers["content-length"] == str(len(answer.content))
    assert answer.headers["x-own"] == "1" and answer.headers["content-type"] == "application/json"
    assert max(map(len, pieces)) < 2 * SENT_BYTES
