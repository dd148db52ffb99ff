"""The command line: `python -m service`; `--help` says the rest."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from pydantic import ValidationError
from sqlalchemy.exc import ArgumentError, OperationalError, ProgrammingError

from .kit.problems import is_not_migrated
from .kit.usage import UsageError
from .settings import Settings

log = logging.getLogger("runquote")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the answer is the exit status."""
    parser = _parser()
    given = list(sys.argv[1:] if arguments is None else arguments)
    commands = ("serve", "migrate", "downgrade", "keys", "teams", "openapi", "backtest", "rebuild-accuracy", "export", "delete-team")
    if not any(word in commands for word in given) and not {"-h", "--help"} & set(given):
        given.insert(0, "serve")
    options = parser.parse_args(given)
    for name, hint in _unknown_settings():
        print(f"runquote: {name} is not a setting and changes nothing{hint}", file=sys.stderr)
    try:
        result: int = options.run(options)
    except UsageError as error:
        for line in str(error).splitlines():
            print(f"runquote: {line}", file=sys.stderr)
        return error.exit_status
    except (OperationalError, ProgrammingError) as error:
        if isinstance(error, ProgrammingError) and not is_not_migrated(error):
            raise
        told = str(error.orig).partition("\n")[0]
        print(f"runquote: the database (RUNQUOTE_DATABASE_URL; `migrate` brings it up to date) says: {told}", file=sys.stderr)
        return 1
    return result


def _unknown_settings() -> list[tuple[str, str]]:
    """Variables that look like settings and are none, with the nearest one."""
    known = [f"RUNQUOTE_{name.upper()}" for name in Settings.model_fields]
    strays = sorted(name for name in os.environ if name.startswith("RUNQUOTE_") and name.upper() not in known)
    return [(name, f"; the nearest is {near[0]}" if (near := difflib.get_close_matches(name, known, n=1)) else "") for name in strays]


def _parser() -> argparse.ArgumentParser:
    from .keys.commands import add as add_keys
    from .kit.database import Database
    from .team_data.commands import add as add_team_data

    parser = argparse.ArgumentParser(
        prog="python -m service",
        description="Runquote: the budget of a model-training run, quoted before it starts and checked after it ends. "
        "Without a command it serves. Settings are environment variables RUNQUOTE_*; see the README.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    serve = commands.add_parser("serve", help="migrate and serve (the default)", description="Bring the database up to date, then serve.")
    serve.add_argument("--host", help="address to bind (RUNQUOTE_HOST, default 127.0.0.1)")
    serve.add_argument("--port", type=int, help="port to bind (RUNQUOTE_PORT, default 8000)")
    serve.add_argument("--workers", type=int, help="processes (RUNQUOTE_WORKERS, default 1)")
    serve.set_defaults(run=_serve)

    migrate = commands.add_parser("migrate", help="bring the database up to date", description="Bring the database up to date.")
    migrate.add_argument("revision", nargs="?", default="head", help="the revision to go up to (default: the newest)")
    migrate.set_defaults(run=_migrate)

    downgrade = commands.add_parser(
        "downgrade",
        help="take the database back to an earlier revision",
        description="Take the database back to an earlier revision, for an earlier service. Refused where rows would be lost.",
    )
    downgrade.add_argument("revision", help="the revision to go back to; `base` empties the database")
    downgrade.add_argument("--discard", action="store_true", help="lose the rows that the earlier revision has no place for")
    downgrade.set_defaults(run=_downgrade)

    add_keys(commands, lambda options: Database(_settings(options).url))

    teams = commands.add_parser("teams", help="list teams, and whether they share what they learn", description="Teams.")
    acts = teams.add_subparsers(title="actions", metavar="ACTION", required=True)
    acts.add_parser("list", help="list teams", description="List teams, one a line: name, whether it shares what it learns.").set_defaults(
        run=_list_teams
    )
    share = acts.add_parser(
        "share",
        help="agree to learn from other teams, and to be learnt from",
        description="Both ways: its calibrations may learn from teams that agreed too, and theirs from it. "
        "Nothing is shared unless RUNQUOTE_SHARED_LEARNING is on.",
    )
    share.add_argument("team", help="the team's name")
    share.add_argument("answer", choices=("on", "off"), help="whether it agrees")
    share.set_defaults(run=_share_learning)

    # A team may have more than a request may wait for.
    add_team_data(commands, lambda options: Database(_settings(options).url, timeout_seconds=3600))

    openapi = commands.add_parser("openapi", help="print the OpenAPI document", description="Print the OpenAPI document as JSON.")
    openapi.set_defaults(run=_openapi)

    backtest = commands.add_parser(
        "backtest",
        help="replay history against the engine",
        description="Replay a team's measured runs in order: the error of the formulas, of corrections, of the last similar run.",
    )
    backtest.add_argument("--team", default="default", help="whose history (default: default)")
    backtest.add_argument("--window", help="days or weeks up to today, for example 90d (default: all of history)")
    backtest.add_argument("--code", help="one item alone, for example device_hours.run")
    backtest.add_argument("--json", action="store_true", help="print JSON instead of a table")
    backtest.set_defaults(run=_backtest)

    rebuild = commands.add_parser(
        "rebuild-accuracy",
        help="make the daily accuracy figures again",
        description="Make the daily histograms of accuracy again from the measurements; they are the same as those kept with every write.",
    )
    rebuild.set_defaults(run=_rebuild_accuracy)
    return parser


def _settings(options: argparse.Namespace) -> Settings:
    """Settings from the environment, with what the command line says over them."""
    for name in ("host", "port", "workers"):
        value = getattr(options, name, None)
        if value is not None:
            os.environ[f"RUNQUOTE_{name.upper()}"] = str(value)  # worker processes read it too
    try:
        settings = Settings()
        settings.url.get_dialect()  # unknown ones are refused here
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        told = [f"RUNQUOTE_{'_'.join(map(str, fault['loc'])).upper()}: {fault['msg']}" for fault in faults]
        raise UsageError("\n".join(told)) from error
    except ArgumentError as error:
        raise UsageError(f"RUNQUOTE_DATABASE_URL: {error}") from error
    return settings


def _serve(options: argparse.Namespace) -> int:
    from .kit import telemetry

    settings = _settings(options)
    telemetry.set_up_logging(settings.log_level)
    if settings.workers > 1 and settings.url.get_backend_name() == "sqlite":
        raise UsageError("SQLite has one writer: use PostgreSQL for more than one worker")
    _bring_up(settings)
    log.info("keys are %s", "required" if settings.auth_required else "not asked for: everything belongs to team 'default'")
    if not settings.auth_required and not settings.loopback:
        log.warning("RUNQUOTE_AUTH=off and the service is bound to %s: whoever reaches it may read and write everything", settings.host)
    with telemetry.shared_metrics() if settings.workers > 1 else contextlib.nullcontext():
        return _listen(settings)


def _listen(settings: Settings) -> int:
    """Serve until told to stop; where, is logged once connections are taken."""
    import uvicorn

    from .kit.connections import BoundedProtocol

    def announce(listening: socket.socket) -> None:
        log.info("documentation at http://%s:%s/docs", _shown(settings.host), listening.getsockname()[1])

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                announce(self.servers[0].sockets[0])

    config = uvicorn.Config(
        "service.app:served",
        factory=True,
        host=settings.host,
        port=settings.port,
        http=BoundedProtocol,
        workers=settings.workers,
        log_config=None,
        ws="none",
        access_log=False,  # telemetry writes its own line
        server_header=False,
        timeout_graceful_shutdown=settings.shutdown_seconds,
    )
    if settings.workers > 1:
        from uvicorn.supervisors import Multiprocess

        shared = config.bind_socket()
        shared.listen(config.backlog)  # connections wait here for the workers
        announce(shared)
        Multiprocess(config, sockets=[shared]).run()
        return 0
    server = Server(config)

    def told_to_stop(*_: object) -> None:
        """The server takes signals while it runs, and raises them again once it has stopped: then nothing is left to do."""
        if not server.should_exit:
            sys.exit(0)

    signal.signal(signal.SIGTERM, told_to_stop)
    with contextlib.suppress(KeyboardInterrupt):
        server.run()
    return 0 if server.started else 3  # what uvicorn's own command answers where the application does not start


def _shown(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)


def _bring_up(settings: Settings, revision: str = "head") -> None:
    from .kit import migration

    url = settings.url
    if url.get_backend_name() == "sqlite":
        log.info("database: SQLite file %s", os.path.abspath(url.database or ""))
    else:
        log.info("database: %s", url.render_as_string(hide_password=True))
    if revision == "head":
        migration.ensure_newest(url)
    else:
        migration.upgrade(url, revision)


def _migrate(options: argparse.Namespace) -> int:
    from .kit import telemetry

    settings = _settings(options)
    telemetry.set_up_logging(settings.log_level)
    _bring_up(settings, options.revision)
    return 0


def _downgrade(options: argparse.Namespace) -> int:
    from .kit import migration, telemetry

    settings = _settings(options)
    telemetry.set_up_logging(settings.log_level)
    migration.downgrade(settings.url, options.revision, discard=options.discard)
    return 0


def _list_teams(options: argparse.Namespace) -> int:
    from .kit import security
    from .kit.database import Database

    database = Database(_settings(options).url)
    with database.read() as connection:
        for name, shares in security.list_teams(connection):
            print(name, "shares" if shares else "-", sep="\t")
    database.close()
    return 0


def _share_learning(options: argparse.Namespace) -> int:
    from .kit import security
    from .kit.database import Database

    database = Database(_settings(options).url)
    with database.write() as work:
        known = security.share_learning(work.connection, options.team, options.answer == "on", datetime.now(UTC))
        work.commit()
    database.close()
    if not known:
        print("runquote: there is no such team", file=sys.stderr)
        return 1
    return 0


def _backtest(options: argparse.Namespace) -> int:
    from .accuracy import backtests
    from .kit.database import Database

    database = Database(_settings(options).url)
    try:
        rows = backtests.of_team(database, options.team, window=options.window, code=options.code, now=datetime.now(UTC))
    finally:
        database.close()
    print(json.dumps({"rows": rows}, indent=1) if options.json else backtests.as_table(rows))
    return 0


def _rebuild_accuracy(options: argparse.Namespace) -> int:
    from .accuracy import rollup
    from .kit.database import Database

    database = Database(_settings(options).url)
    try:
        print(f"{rollup.rebuild(database)} observations")
    finally:
        database.close()
    return 0


def _openapi(options: argparse.Namespace) -> int:
    from .app import create_app

    print(json.dumps(create_app(_settings(options)).openapi(), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
