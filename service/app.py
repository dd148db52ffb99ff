"""The application: `create_app(settings)` builds it; nothing happens at import."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio.to_thread
from fastapi import Depends, FastAPI, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.middleware.cors import CORSMiddleware

from . import __version__
from .accuracy import endpoints as accuracy
from .accuracy import rollup
from .actuals import endpoints as actuals
from .audit import endpoints as audit
from .catalog import endpoints as catalog
from .keys import endpoints as keys
from .kit import api, idempotency, migration, problems, reference
from .kit.database import Database, HungDatabase
from .kit.headers import Headers
from .kit.key_uses import SECONDS_BETWEEN_WRITES, KeyUses
from .kit.limits import Limits, Releasing
from .kit.telemetry import Metrics, Telemetry, set_up_logging
from .kit.writer import GroupWriter
from .plans import endpoints as plans
from .plans.worker import Workers
from .projects import endpoints as projects
from .quotes import endpoints as quotes
from .quotes import repository
from .scaling import endpoints as scaling
from .settings import Settings
from .team_data import endpoints as team_data

log = logging.getLogger(__name__)

OBJECTS_BETWEEN_COLLECTIONS = 10_000
SWEEP_SECONDS = 3600.0
READY_SECONDS = 1.8  # who asks for readiness gives up after 2 or more
LONGEST_TURN_SECONDS = 0.001  # a thread waits for Python's lock this long at most; five times as long is the default

DESCRIPTION = """\
Quotes the budget of a model-training run (FLOPs, device-hours, wall clock, peak memory, storage, reserves), item by item, each
with its formula, its assumptions and an interval; keeps the quote; takes what was measured afterwards; compares and calibrates.

The unit stands in every name. What cannot be computed is `null` with a reason, never zero. Errors are problem+json (RFC 9457).
"""

TAGS = [
    {"name": "quotes", "description": "Price a run, keep the quote, revise it."},
    {"name": "plans", "description": "The layouts of a run that fit, ranked."},
    {"name": "actuals", "description": "What runs measured, beside what was quoted."},
    {"name": "accuracy", "description": "How far quotes were off, and what the next one learns from it."},
    {"name": "projects", "description": "Everything a project spent: explorations, failures and the final run."},
    {"name": "scaling", "description": "Published scaling laws, and what a faster stage gains the whole job."},
    {"name": "catalog", "description": "Devices and models, each with its source and date."},
    {"name": "keys", "description": "A team's own keys, and who did what with them; for its admins."},
    {"name": "operations", "description": "Health and metrics; no key is needed."},
]


class Health(BaseModel):
    """How the service is."""

    status: str = Field(description="`ok`, or why it is not.", examples=["ok"])


async def _sweep(database: Database) -> None:
    """Remove what is kept for a day alone."""
    try:
        await run_in_threadpool(idempotency.forget_expired, database)
    except Exception as error:
        log.warning("old idempotency keys were not removed: %s", type(error).__name__)


async def _sweep_on(database: Database) -> None:
    """Again and again: a service runs for months."""
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        await _sweep(database)


async def _write_uses_on(uses: KeyUses, database: Database) -> None:
    """When keys were last used, again and again."""
    while True:
        await asyncio.sleep(SECONDS_BETWEEN_WRITES)
        await _write_uses(uses, database)


async def _write_uses(uses: KeyUses, database: Database) -> None:
    try:
        await run_in_threadpool(uses.write, database)
    except Exception as error:
        log.warning("when keys were last used was not written: %s", type(error).__name__)


def create_app(settings: Settings | None = None) -> FastAPI:
    """The application for these settings (from the environment where none are given)."""
    settings = settings or Settings()
    database = Database(settings.url, connections=settings.database_connections, timeout_seconds=settings.database_timeout_seconds)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        # A request holds one connection at a time, so as many requests are worked on as there are connections.
        anyio.to_thread.current_default_thread_limiter().total_tokens = settings.database_connections
        await _sweep(database)
        chores = [asyncio.create_task(_sweep_on(database)), asyncio.create_task(_write_uses_on(app.state.key_uses, database))]
        yield
        for chore in chores:
            chore.cancel()
            with suppress(asyncio.CancelledError):
                await chore
        await _write_uses(app.state.key_uses, database)
        app.state.quote_writer.close()
        app.state.searches.close()
        database.close()

    app = FastAPI(
        title="Runquote",
        summary="The budget of a model-training run, quoted before it starts and checked after it ends.",
        description=DESCRIPTION,
        version=__version__,
        openapi_tags=TAGS,
        servers=[{"url": "/", "description": "This service"}],
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.settings = settings
    app.state.database = database
    app.state.metrics = Metrics()
    app.state.probes = anyio.CapacityLimiter(2)
    app.state.key_uses = KeyUses()
    app.state.quote_writer = GroupWriter(database, repository.add)
    app.state.measurement_followers = (rollup.follow,)
    app.state.searches = Workers(settings.search_processes)
    app.state.limits = Limits(
        key_per_second=settings.key_requests_per_second,
        team_per_second=settings.team_requests_per_second,
        team_at_once=settings.team_requests_at_once,
        heavy_at_once=settings.heavy_requests_at_once,
    )
    app.add_middleware(Releasing)
    app.add_middleware(Headers)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins.split(),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "X-Request-ID"],
            expose_headers=["ETag", "Idempotency-Replayed", "Link", "Location", "RateLimit", "Retry-After", "X-Request-ID"],
        )
    app.add_middleware(Telemetry, metrics=app.state.metrics)
    problems.install(app)
    _add_operations(app)
    routers = (
        *quotes.routers,
        plans.router,
        actuals.router,
        accuracy.router,
        projects.router,
        catalog.router,
        scaling.router,
        keys.router,
        audit.router,
        team_data.router,
    )
    for router in routers:
        app.include_router(
            router, prefix="/v1", dependencies=[Depends(api.known_parameters)], responses=api.problems(401, 403, 422, 429, 500, 503)
        )
    reference.add(app)
    app.openapi = lambda: api.describe(app)  # type: ignore[method-assign]  # FastAPI's documented way to extend it
    return app


def served() -> FastAPI:
    """The application of a process that serves.

    What a process makes at its start stays to its end: the garbage collector need not walk it again and again, and a quote, which
    makes thousands of small objects and leaves no cycles, need not be interrupted by it several times.
    """
    settings = Settings()
    set_up_logging(settings.log_level)  # in every worker: what the command line set up, it set up for itself
    app = create_app(settings)
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    sys.setswitchinterval(LONGEST_TURN_SECONDS)
    return app


def _add_operations(app: FastAPI) -> None:
    @app.get("/healthz", tags=["operations"], summary="Whether the process answers")
    async def get_health() -> Health:
        """Says nothing of the database: a restart would not bring it back."""
        return Health(status="ok")

    @app.get(
        "/readyz",
        tags=["operations"],
        summary="Whether requests can be served",
        responses=api.gives(200, Health, "The database answers at the expected migration.") | api.problems(503),
    )
    async def get_readiness(request: Request) -> Health:
        """The database answers, and is at the migration that this code expects; 503 with the reason otherwise, within 2 seconds."""
        database: Database = request.app.state.database

        def ask() -> str | None:
            with database.probe() as connection:
                return migration.current(connection)

        try:
            # A thread of its own kind: those of requests may all be waiting for the database.
            with anyio.fail_after(READY_SECONDS):
                current = await anyio.to_thread.run_sync(ask, abandon_on_cancel=True, limiter=request.app.state.probes)
        except Exception as error:
            log.warning("not ready: %s", type(error).__name__)
            told = (
                f"no answer within {READY_SECONDS:g} s"
                if isinstance(error, TimeoutError) or isinstance(getattr(error, "orig", None), HungDatabase)
                else type(error).__name__
            )
            raise problems.Unavailable(f"The database does not answer ({told})", headers={"Retry-After": "2"}) from error
        if current != migration.head():
            expected = f"The database is at migration {current or 'none'}, this code expects {migration.head()}: run `migrate`"
            raise problems.Unavailable(expected, headers={"Retry-After": "10"})
        return Health(status="ok")

    @app.get(
        "/metrics",
        tags=["operations"],
        summary="Metrics for Prometheus",
        response_class=Response,
        responses={200: {"description": "Text exposition format.", "content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    def get_metrics(request: Request) -> Response:
        """Requests and their seconds by route, quotes stored."""
        metrics: Metrics = request.app.state.metrics
        return Response(metrics.render(), media_type=metrics.content_type)
