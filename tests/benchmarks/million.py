"""A million quotes with measurements on PostgreSQL: how long lists, comparisons and figures of accuracy take.

    python -m tests.benchmarks.million [--rows 1000000] [--repeats 15]

Loads with COPY into a database of its own (on TEST_DATABASE_URL's server, or one started for the purpose), rebuilds the
daily histograms with the command's own function, and prints the median latency of each request through the application
beside that of the plain SQL that asks the same of the raw rows. All but the newest thousand quotes carry a short document.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
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
from service.kit.security import DEFAULT_TEAM_ID
from service.quotes import examples
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
FAMILIES = ("llama", "qwen2", "mixtral", "gpt2", "deepseek_v3")
METHODS = ("full", "lora")
TEAMS = ("search", "ads", "speech", "vision")
DAYS = 90
FULL_DOCUMENTS = 1000
COHORTS = 40  # of device, stack, model family and method together
QUOTES = "id, team_id, created_at, engine_version, name, model, model_family, device, device_count, method, stack, received, document"
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


def load(url: URL, rows: int) -> float:
    """Quotes and measurements by COPY; seconds taken."""
    rng = np.random.default_rng(17)
    now = datetime.now(UTC)
    start = time.perf_counter()
    settings = Settings(database_url=url.render_as_string(hide_password=False), auth="off")  # type: ignore[arg-type]
    with TestClient(create_app(settings)) as client:
        document = json.dumps({k: v for k, v in client.post("/v1/quotes/preview", json=examples.SPEC).json().items() if k != "id"})
    short = json.dumps({"summary": {}, "items": []})
    cohorts = [tuple(str(rng.choice(values)) for values in (DEVICES, STACKS, FAMILIES, METHODS)) for _ in range(COHORTS)]
    cohort, team = rng.integers(COHORTS, size=rows), rng.integers(len(TEAMS), size=rows)
    codes = rng.choice(len(CODES), p=list(CODES.values()), size=rows)
    ages = np.sort(rng.random(rows) * DAYS)[::-1]
    ratios = rng.normal(0, 0.2, size=COHORTS)[cohort] + rng.standard_t(4, size=rows) * 0.15
    names = list(CODES)
    plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain) as connection, connection.cursor() as cursor:
        with cursor.copy(f"COPY quotes ({QUOTES}) FROM STDIN") as copy:
            for i in range(rows):
                device, stack, family, method = cohorts[cohort[i]]
                moment = now - timedelta(days=float(ages[i]) + 1)
                text = document if i >= rows - FULL_DOCUMENTS else short
                named = (f"run {i}", f"{family}-8b", family, device, 64, method, stack)
                copy.write_row((identifier(i, 1), DEFAULT_TEAM_ID, moment, "1.0.0", *named, "{}", text))
        with cursor.copy(f"COPY measurements ({MEASUREMENTS}) FROM STDIN") as copy:
            for i in range(rows):
                device, stack, family, method = cohorts[cohort[i]]
                ratio, moment = float(ratios[i]), now - timedelta(days=float(ages[i]))
                value = 1000 * math.exp(ratio)
                attempt = (moment, moment, "slurm", 1, "completed", names[codes[i]], value, "scheduler", "", "", "")
                judged = (1000.0, 800.0, 1250.0, 1000.0, 0.8, value, ratio, False, 0.0)
                labels = json.dumps({"team": TEAMS[team[i]]})
                named = (device, f"{family}-8b", family, method, stack, "1.0.0", labels)
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
            ("list quotes of a model", lambda: get("/v1/quotes", limit=50, model="llama-8b"), None),
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
