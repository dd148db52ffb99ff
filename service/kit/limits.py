"""What one caller may take of the service: requests a second by key and by team, requests at once, and a lane for heavy ones.

Counted where the request is worked on, so each worker process allows as much. Where no key is asked for there is one caller, and the
lane alone holds. The headers are those of https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .problems import TooManyRequests, Unavailable

MOST_BUCKETS = 10_000  # who has not asked for longest is forgotten, which is to say has all of its allowance again
LANE_WAIT_SECONDS = 30.0
LARGE_BYTES = 1024 * 1024  # a longer body is heavy wherever it is sent: to read it alone takes as long as many quotes
GIVEN_WAY_SECONDS = 0.005  # before a part of a heavy request, at most: longer than a quote takes
MOST_GIVEN_WAY_SECONDS = 2.0  # by one heavy request in all: light ones that never end must not hold it up for ever
LOOK_SECONDS = 0.0005
# A thousand quotes, a search, a file of an accounting, a replay of history: seconds of work each.
HEAVY = re.compile(r"/v1/(quotes/batch|plans|backtests|calibrations|actuals|quotes/[^/]+/actuals)")


@dataclass(slots=True)
class _Bucket:
    """An allowance that fills again: `left` requests at the moment `at`."""

    left: float
    at: float


class Limits:
    """The allowances of one process; everything is called from its event loop."""

    def __init__(
        self,
        *,
        key_per_second: float,
        team_per_second: float,
        team_at_once: int,
        heavy_at_once: int,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rates = {"key": key_per_second, "team": team_per_second}
        self._team_at_once = team_at_once
        self._heavy_at_once = heavy_at_once
        self._now = now
        self._buckets: OrderedDict[tuple[str, str], _Bucket] = OrderedDict()
        self._running: dict[str, int] = {}
        self._light = 0
        self._lane: asyncio.Semaphore | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def admit(self, scope: Scope, *, key_id: str, team_id: str) -> None:
        """Count a request; raises `TooManyRequests` where its key or team has none left. It is released by the middleware."""
        refusals = [self._take(scope, kind, name) for kind, name in (("key", key_id), ("team", team_id))]
        wait = max(refusals)
        if wait > 0:
            raise TooManyRequests("Fewer requests a second, please", headers={"Retry-After": str(math.ceil(wait))})
        running = self._running.get(team_id, 0)
        if running >= self._team_at_once:
            raise TooManyRequests(f"A team has {self._team_at_once} requests at once", headers={"Retry-After": "1"})
        self._running[team_id] = running + 1
        _releases(scope).append(lambda: self._leave(team_id))

    async def lane(self, scope: Scope, body_bytes: int = 0) -> None:
        """Wait for a place among the heavy requests, if this is one; it is released by the middleware."""
        if HEAVY.fullmatch(scope["path"]) is None and body_bytes <= LARGE_BYTES:
            return
        loop = asyncio.get_running_loop()
        if self._lane is None or loop is not self._loop:
            self._lane, self._loop = asyncio.Semaphore(self._heavy_at_once), loop
        lane = self._lane
        try:
            await asyncio.wait_for(lane.acquire(), LANE_WAIT_SECONDS)
        except TimeoutError:
            raise Unavailable("Too many heavy requests wait already", headers={"Retry-After": "10"}) from None
        _releases(scope).append(lane.release)

    def begin(self, scope: Scope) -> None:
        """A request begins; one that is not heavy is given way to until it is answered."""
        if HEAVY.fullmatch(scope["path"]) is None:
            self._light += 1
            _releases(scope).append(self._end_light)

    def way(self) -> Way:
        """What a heavy request asks between its parts, from its own thread."""
        return Way(lambda: self._light > 0)

    def _end_light(self) -> None:
        self._light -= 1

    def _take(self, scope: Scope, kind: str, name: str) -> float:
        """Take one of an allowance: 0, or the seconds until there is one."""
        rate = self._rates[kind]
        most = max(1.0, 2 * rate)  # two seconds' worth may come at once
        now = self._now()
        bucket = self._buckets.setdefault((kind, name), _Bucket(most, now))
        self._buckets.move_to_end((kind, name))
        while len(self._buckets) > MOST_BUCKETS:
            self._buckets.popitem(last=False)
        bucket.left, bucket.at = min(most, bucket.left + (now - bucket.at) * rate), now
        missing = 1 - bucket.left
        if missing <= 0:
            bucket.left -= 1
        until_full = math.ceil((most - bucket.left) / rate)
        scope.setdefault("ratelimit", {})[kind] = (int(most), math.ceil(most / rate), max(0, int(bucket.left)), until_full)
        return max(0.0, missing / rate)

    def _leave(self, team_id: str) -> None:
        left = self._running[team_id] - 1
        if left:
            self._running[team_id] = left
        else:
            del self._running[team_id]


class Way:
    """Lets light requests go first: a thread that is always busy makes each of their steps wait for Python's lock."""

    def __init__(self, wanted: Callable[[], bool], *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._wanted = wanted
        self._sleep = sleep
        self._left_seconds = MOST_GIVEN_WAY_SECONDS

    def give(self) -> None:
        """Wait a moment while a light request is worked on."""
        longest = min(GIVEN_WAY_SECONDS, self._left_seconds)
        waited = 0.0
        while waited < longest and self._wanted():
            self._sleep(LOOK_SECONDS)
            waited += LOOK_SECONDS
        self._left_seconds -= waited


def _releases(scope: Scope) -> list[Callable[[], None]]:
    found: list[Callable[[], None]] = scope.setdefault("releases", [])
    return found


class Releasing:
    """Middleware: gives back what a request took, and says in headers what is left."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        releases = _releases(scope)
        limits: Limits = scope["app"].state.limits
        limits.begin(scope)

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start" and (left := scope.get("ratelimit")):
                headers = MutableHeaders(raw=list(message["headers"]))
                headers["RateLimit-Policy"] = ", ".join(f'"{kind}";q={most};w={window}' for kind, (most, window, _, _) in left.items())
                headers["RateLimit"] = ", ".join(f'"{kind}";r={rest};t={seconds}' for kind, (_, _, rest, seconds) in left.items())
                message["headers"] = headers.raw
            await send(message)

        try:
            await self.app(scope, receive, told)
        finally:
            for release in releases:
                release()
