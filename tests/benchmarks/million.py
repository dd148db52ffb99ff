"""A million quotes with measurements on PostgreSQL: how long lists, comparisons and figures of accuracy take.

    python -m tests.benchmarks.million [--rows 1000000] [--repeats 15]

Prices a thousand unlike runs and stores them as a million quotes, each with its document, by the function that every request stores with,
in a database of its own (on TEST_DATABASE_URL's server, or one started for the purpose); measurements are loaded with COPY. Then it
says what a quote takes on disk, rebuilds the daily histograms with the command's own function, and prints the median latency of each
request through the application beside that of the plain SQL that asks the same of the raw rows.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import psycopg
from sqlalchemy import URL
from starlette.testclient import TestClient

from service.accuracy import rollup
from service.app import create_app
from service.kit import migration
from service.kit.database import Database
from service.kit.security import DEFAULT_CALLER, DEFAULT_TEAM_ID
from service.quotes import examples, issuing, repository
from service.settings import Settings
from tests import postgres

CODES = {
    "device_hours.run": 0.5,
    "time.step": 0.1,
    "memory.peak_reserved": 0.1,
    "memory.peak_allocated": 0.1,
    "throughput.input_tokens_per_second": 0.1,
    "storage.checkpoint_full": 0.1,
}
DEVICES = ("h100-sxm-80gb", "a100-sxm-80gb", "h200-sxm-141gb", "b200-sxm-192gb")
STACKS = ("megatron", "hf_transformers", "fsdp_native", "deepspeed")
MODELS = ("llama-3.1-8b", "qwen2.5-7b", "mixtral-8x7b", "gpt2-xl", "deepseek-v3")
METHODS = ("full", "lora")
TEAMS = ("search", "ads", "speech", "vision")
DAYS = 90
COHORTS = 40  # of device, stack, model and method together
VARIANTS = 25  # priced quotes of each; what is stored is theirs under other ids, names and moments
TOGETHER = 1000  # quotes in a transaction
MEASUREMENTS = (
    "id, team_id, quote_id, created_at, observed_at, source, attempt, outcome, code, value, method, scope, excludes, flags,"
    " estimated, low, high, uncalibrated, interval_coverage, observed_value, log_ratio, censored, drift,"
    " device, model, model_family, training_method, stack, engine_version, labels"
)


def main() -> None:
    """Load and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    with postgres.server() as server:
        if server is None:
            raise SystemExit(f"no PostgreSQL here: {options.rows} rows need one")
        url = server.create()
        try:
            migration.upgrade(url)
            run(url, options.rows, options.repeats)
        finally:
            server.drop(url)


def identifier(number: int, kind: int) -> str:
    """A UUID that sorts by number."""
    return f"{number:08x}-0000-7000-8{kind:03d}-000000000000"


def cohorts(database: Database, rng: np.random.Generator) -> list[list[repository.New]]:
    """Real quotes of many kinds of runs, and of each kind several that differ in how long they train."""
    desk = issuing.Desk(database, DEFAULT_CALLER)
    found = []
    for _ in range(COHORTS):
        device, stack, model, method = (str(rng.choice(values)) for values in (DEVICES, STACKS, MODELS, METHODS))
        spec = examples.SPEC | {
            "model": {"preset": model},
            "method": {"kind": method} | ({"lora": {"rank": 16}} if method == "lora" else {}),
            "software": {"stack": stack},
            "sequence_length": 1024,
            "hardware": {"device": device, "device_count": 1024},
        }
        variants = [spec | {"data": {"total_tokens": 10**12 + int(rng.integers(10**12))}} for _ in range(VARIANTS)]
        found.append([desk.price(variant).to_store(DEFAULT_CALLER) for variant in variants])
    return found


def load(url: URL, rows: int) -> float:
    """Quotes by the function that stores them, measurements by COPY; seconds taken."""
    rng = np.random.default_rng(17)
    now = datetime.now(UTC)
    start = time.perf_counter()
    database = Database(url, timeout_seconds=600)
    priced = cohorts(database, rng)
    cohort, team = rng.integers(COHORTS, size=rows), rng.integers(len(TEAMS), size=rows)
    codes = rng.choice(len(CODES), p=list(CODES.values()), size=rows)
    ages = np.sort(rng.random(rows) * DAYS)[::-1]
    ratios = rng.normal(0, 0.2, size=COHORTS)[cohort] + rng.standard_t(4, size=rows) * 0.15
    for first in range(0, rows, TOGETHER):
        new = []
        for i in range(first, min(first + TOGETHER, rows)):
            quote = priced[cohort[i]][i % VARIANTS]
            columns = {**quote.columns, "name": f"run {i}"}
            moment = now - timedelta(days=float(ages[i]) + 1)
            new.append(replace(quote, id=identifier(i, 1), created_at=moment, columns=columns, labels={"team": TEAMS[team[i]]}))
        with database.write() as work:
            repository.add(work.connection, new)
            work.commit()
    database.close()
    told = [[quotes[0].columns[name] for name in ("device", "model", "model_family", "method", "stack")] for quotes in priced]
    names = list(CODES)
    plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain) as connection, connection.cursor() as cursor:
        with cursor.copy(f"COPY measurements ({MEASUREMENTS}) FROM STDIN") as copy:
            for i in range(rows):
                ratio, moment = float(ratios[i]), now - timedelta(days=float(ages[i]))
                value = 1000 * math.exp(ratio)
                attempt = (moment, moment, "slurm", 1, "completed", names[codes[i]], value, "scheduler", "", "", "")
                judged = (1000.0, 800.0, 1250.0, 1000.0, 0.8, value, ratio, False, 0.0)
                labels = json.dumps({"team": TEAMS[team[i]]})
                named = (*told[cohort[i]], "1.0.0", labels)
                copy.write_row((identifier(i, 2), DEFAULT_TEAM_ID, identifier(i, 1), *attempt, *judged, *named))
        connection.commit()
        connection.autocommit = True
        cursor.execute("VACUUM ANALYZE quotes")
        cursor.execute("VACUUM ANALYZE measurements")
    return time.perf_counter() - start


def naive(groups: str, where: str) -> str:
    """What the figures are without histograms: percentiles over the raw rows."""
    by = f"{groups}, " if groups else ""
    return f"""
        SELECT {by} m.code, count(*), percentile_cont(0.5) WITHIN GROUP (ORDER BY m.log_ratio),
               percentile_cont(ARRAY[0.5, 0.9]) WITHIN GROUP (ORDER BY abs(exp(-m.log_ratio) - 1)),
               avg(CASE WHEN m.observed_value BETWEEN m.low AND m.high THEN 1 ELSE 0 END)
        FROM measurements m
        WHERE m.team_id = '{DEFAULT_TEAM_ID}' AND m.log_ratio IS NOT NULL AND NOT m.censored {where}
          AND NOT EXISTS (SELECT 1 FROM measurements l WHERE l.replaces_id = m.id)
        GROUP BY {by} m.code"""


HOURS = "AND m.code = 'device_hours.run'"
MONTH = f"{HOURS} AND m.observed_at >= date_trunc('day', now()) - interval '29 days'"
DAY = "date_trunc('day', m.observed_at)"
WEEK, MON = "date_trunc('week', m.observed_at)", "date_trunc('month', m.observed_at)"
RUN = {"code": "device_hours.run"}
QUESTIONS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("1 item, 30 days", RUN | {"window": "30d"}, naive("", MONTH)),
    ("1 item by day, 30 days", RUN | {"window": "30d", "group_by": ["day"]}, naive(DAY, MONTH)),
    ("1 item by device, stack, 30 days", RUN | {"window": "30d", "group_by": ["device", "stack"]}, naive("m.device, m.stack", MONTH)),
    (
        "1 item by day, device, stack, 30 days",
        RUN | {"window": "30d", "group_by": ["day", "device", "stack"]},
        naive(f"{DAY}, m.device, m.stack", MONTH),
    ),
    ("1 item by device, 90 days", RUN | {"group_by": ["device"]}, naive("m.device", HOURS)),
    ("1 item by week, model family, 90 days", RUN | {"group_by": ["week", "model_family"]}, naive(f"{WEEK}, m.model_family", HOURS)),
    ("1 item by label, 90 days", RUN | {"group_by": ["label.team"]}, naive("m.labels::json->>'team'", HOURS)),
    ("6 items, 30 days", {"window": "30d"}, naive("", MONTH.replace(HOURS, ""))),
    ("6 items by device, 90 days", {"group_by": ["device"]}, naive("m.device", "")),
    ("6 items by month, method, 90 days", {"group_by": ["month", "method"]}, naive(f"{MON}, m.training_method", "")),
    ("6 items by device, stack, 90 days", {"group_by": ["device", "stack"]}, naive("m.device, m.stack", "")),
)


def timed(action: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """Median milliseconds on the clock, and of this process's own CPU (application and client; not PostgreSQL's)."""
    clock, own = [], []
    for _ in range(repeats):
        start, cpu = time.perf_counter(), time.process_time()
        action()
        clock.append(time.perf_counter() - start)
        own.append(time.process_time() - cpu)
    return statistics.median(clock) * 1000, statistics.median(own) * 1000


def run(url: URL, rows: int, repeats: int) -> None:
    """Load, rebuild, measure, print."""
    seconds = load(url, rows)
    print(f"{rows:,} quotes and {rows:,} measurements loaded in {seconds:.0f} s ({2 * rows / seconds:,.0f} rows/s)", flush=True)
    database = Database(url, timeout_seconds=600)
    start = time.perf_counter()
    rollup.rebuild(database)
    print(f"daily histograms rebuilt in {time.perf_counter() - start:.0f} s", flush=True)
    with database.engine.connect() as connection:
        connection.exec_driver_sql("COMMIT")
        parts = connection.exec_driver_sql(
            "SELECT pg_relation_size('quotes'), pg_table_size('quotes') - pg_relation_size('quotes'), pg_indexes_size('quotes'),"
            " pg_total_relation_size('quote_labels'), (SELECT avg(length(document) + length(received)) FROM quotes)"
        ).one()
        rest = ", ".join(f"{part / rows:,.0f} {name}" for part, name in zip(parts, ("row", "texts", "indexes", "labels"), strict=False))
        print(f"a quote takes {sum(parts[:4]) / rows:,.0f} bytes ({rest}), {parts[4]:,.0f} of them its texts, compressed", flush=True)
        n, size = connection.exec_driver_sql("SELECT count(*), pg_total_relation_size('accuracy_daily') FROM accuracy_daily").one()
    print(f"{n:,} histogram rows, {size / 2**20:.0f} MiB with their index", flush=True)
    with psycopg.connect(url.set(drivername="postgresql").render_as_string(hide_password=False), autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE accuracy_daily")
    settings = Settings(database_url=url.render_as_string(hide_password=False), auth="off", log_level="error")  # type: ignore[arg-type]
    with TestClient(create_app(settings)) as client:

        def get(path: str, **parameters: Any) -> dict[str, Any]:
            response = client.get(path, params=parameters)
            assert response.status_code == 200, response.text
            found: dict[str, Any] = response.json()
            return found

        def sql(statement: str) -> Callable[[], Any]:
            def ask() -> Any:
                with database.engine.connect() as connection:
                    return connection.exec_driver_sql(statement).all()

            return ask

        print(f"\n{'request':44} {'ms':>8} {'CPU ms':>7} {'naive ms':>9} {'ratio':>6}")
        cursor = get("/v1/quotes", limit=50)["next_cursor"]
        newest = identifier(rows - 1, 1)
        plain = (
            ("list quotes, first page of 50", lambda: get("/v1/quotes", limit=50), None),
            ("list quotes, next page", lambda: get("/v1/quotes", limit=50, cursor=cursor), None),
            ("list quotes of a model", lambda: get("/v1/quotes", limit=50, model="llama-3.1-8b"), None),
            ("comparison of a quote", lambda: get(f"/v1/quotes/{newest}/comparison"), None),
        )
        for name, action, _ in plain:
            ours, cpu = timed(action, repeats)
            print(f"{name:44} {ours:8.1f} {cpu:7.1f}", flush=True)
        for name, parameters, statement in QUESTIONS:
            ours, cpu = timed(lambda parameters=parameters: get("/v1/accuracy", **parameters), repeats)  # type: ignore[misc]
            theirs, _ = timed(sql(statement), max(1, repeats // 5))
            print(f"{name:44} {ours:8.1f} {cpu:7.1f} {theirs:9.1f} {theirs / ours:6.1f}", flush=True)
    database.close()


if __name__ == "__main__":
    main()
