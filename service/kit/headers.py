"""What every answer says to browsers and caches, whoever made it. Pure ASGI."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

NOTHING_MAY_LOAD = "default-src 'none'; frame-ancestors 'none'"
_REDIRECTS = (307, 308)


class Headers:
    """Adds what is missing: no guessing of types, nothing to load, nothing kept by a cache; and sends nobody to another host."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=list(message["headers"]))
                headers.setdefault("X-Content-Type-Options", "nosniff")
                headers.setdefault("Content-Security-Policy", NOTHING_MAY_LOAD)
                # What has an `ETag` may be kept by its caller, who asks each time whether it is still so.
                headers.setdefault("Cache-Control", "private, no-cache" if "etag" in headers else "no-store")
                if message["status"] in _REDIRECTS and "location" in headers:
                    headers["Location"] = _here(headers["Location"])
                message["headers"] = headers.raw
            await send(message)

        await self.app(scope, receive, guarded)


def _here(location: str) -> str:
    """The path and query alone: the router puts the `Host` that was sent before them, which anybody may invent."""
    parts = urlsplit(location)
    return "/" + parts.path.lstrip("/\\") + (f"?{parts.query}" if parts.query else "")
