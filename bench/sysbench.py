"""sysbench's `oltp_update_index` from landed binlog to mirrors: each update is a transaction of its own that changes an
indexed column of a random row of one of eight tables.

Run it: `python -m bench sysbench [THOUSANDS] [ENGINE]`: rows of each table (default: 125, the last part of `bench
mirrors`; an update for every second row), and `spark` or `local`. With 1000 it is 8 million rows and 4 million updates.
Measured are the steps of a run: track, plan, decode and check with the start of Spark or whatever they need, publish,
mirror. Afterwards rows and sums are compared with the server's.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

import strata_cdc.mirrors
from bench.timing import ChildrenCpu, python
from strata_cdc.cli.engine_steps import EngineSteps
from strata_cdc.cli.options import LOCAL
from strata_cdc.config.engines import Engine
from strata_cdc.config.settings import load_settings
from strata_cdc.pipeline import ingest
from strata_cdc.pipeline.dump_source import dump_source
from tests.mysql_server import start_server

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.config.settings import Settings
    from tests.mysql_server import MysqlServer

SOURCE = "bench"
TABLES = 8
_SERVER = (
    "--innodb-buffer-pool-size=2G",
    "--innodb-flush-log-at-trx-commit=0",
    "--sync-binlog=0",
    "--innodb-doublewrite=OFF",
)
_WRITERS = 4
_CODE = "import sys; from bench.sysbench import measure; measure(*sys.argv[1:])"


def main(arguments: list[str]) -> None:
    """Prints a table."""
    rows = int(arguments[0]) * 1000 if arguments else 125_000
    engine = arguments[1] if len(arguments) > 1 else "spark"
    updates = rows * TABLES // 2
    with tempfile.TemporaryDirectory() as folder, start_server(Path(folder) / "server", *_SERVER) as server:
        settings = _settings(Path(folder), server)
        _fill(server, rows)
        ingest.land(SOURCE, settings=settings)
        ingest.track(SOURCE, settings=settings)
        dump_source(SOURCE, settings=settings).raise_if_wrong()
        _update(server, updates)
        ingest.land(SOURCE, settings=settings)
        done = python(_CODE, folder, engine)
        measured = json.loads(done.output)
        _compare(settings, server)
    speed = updates / done.seconds
    print(f"\n{TABLES} tables of {rows:,} rows, {updates:,} updates, decoded by {engine}: {speed:,.0f} a second\n")
    print("| step | s | CPU s | updates a second |\n|---|---|---|---|")
    for step, seconds, cpu in measured["steps"]:
        print(f"| {step} | {seconds:.1f} | {cpu:.1f} | {updates / seconds:,.0f} |")
    cpu = sum(one for _, _, one in measured["steps"])
    print(f"| all | {done.seconds:.1f} | {cpu:.1f} | {updates / done.seconds:,.0f} |")
    print(f"\nPeak memory: {measured['peak_mb']} MB of the process that mirrors, {done.megabytes:,.0f} MB of all.")


def measure(folder: str, engine: str) -> None:
    """One run of what has landed; prints its seconds and, as JSON, those of its steps, of the clock and of CPU."""
    settings = load_settings(json.loads((Path(folder) / "environment.json").read_text()))
    steps: list[tuple[str, float, float]] = []

    def timed(name: str, step: Callable[[], Any]) -> Any:
        with ChildrenCpu() as children:
            begin, cpu = time.perf_counter(), time.process_time()
            found = step()
            seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
        steps.append((name, seconds, cpu + children.seconds))
        return found

    begin = time.perf_counter()
    by = EngineSteps(settings.source(SOURCE), Engine(engine), LOCAL if engine == Engine.SPARK else None)
    timed("track", lambda: ingest.track(SOURCE, settings=settings))
    run = timed("plan", lambda: ingest.plan(SOURCE, None, None, settings=settings)).run
    timed("decode", lambda: by.decode(run))
    timed("check", lambda: by.check(run))
    timed("publish", lambda: ingest.publish(SOURCE, run, settings=settings)).raise_if_withheld()
    report = timed("mirror", lambda: ingest.mirror(SOURCE, settings=settings))
    seconds = time.perf_counter() - begin
    assert not report.behind, report.behind
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(seconds, json.dumps({"steps": steps, "peak_mb": peak}), file=sys.stdout)


def _settings(folder: Path, server: MysqlServer) -> Settings:
    """Of a source whose mirrors hold all of its tables; another process finds them in the folder."""
    (folder / "strata.toml").write_text(
        f'lake = "{folder}/lake"\nstore = "sqlite:///{folder}/store.db"\n'
        f'[sources.{SOURCE}]\nconnection = "mysql_bench"\nmirrors = ["sbtest.*"]\n'
    )
    environment = {"STRATA_SETTINGS": f"{folder}/strata.toml", "AIRFLOW_CONN_MYSQL_BENCH": server.url}
    (folder / "environment.json").write_text(json.dumps(environment))
    return load_settings(environment)


def _fill(server: MysqlServer, rows: int) -> None:
    """Rows that no binlog has, as sysbench makes them: groups of eleven digits."""
    c, pad = (", ".join(f"LPAD(n * {7919 * one} % 99999999977, 11, '0')" for one in range(1, most)) for most in (11, 6))
    numbers = f"WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < {rows})"
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE sbtest")
        cursor.execute("SET SESSION cte_max_recursion_depth = 100000000, sql_log_bin = 0")
        cursor.execute("USE sbtest")
        for table in range(1, TABLES + 1):
            cursor.execute(
                f"CREATE TABLE sbtest{table} (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL DEFAULT 0, "
                "c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '', KEY k_1 (k))"
            )
            made = f"{numbers} SELECT n, n * 7919 % {rows}, CONCAT_WS('-', {c}), CONCAT_WS('-', {pad}) FROM r"
            cursor.execute(f"INSERT INTO sbtest{table} {made if table == 1 else 'SELECT * FROM sbtest1'}")
        choices = " ".join(
            f"WHEN {table - 1} THEN UPDATE sbtest{table} SET k = k + 1 WHERE id = chosen;"
            for table in range(1, TABLES + 1)
        )
        cursor.execute(
            "CREATE PROCEDURE change_rows(updates INT) BEGIN DECLARE done, chosen INT DEFAULT 0; "
            f"WHILE done < updates DO SET chosen = 1 + FLOOR(RAND() * {rows}); "
            f"CASE FLOOR(RAND() * {TABLES}) {choices} END CASE; SET done = done + 1; END WHILE; END"
        )


def _update(server: MysqlServer, updates: int) -> None:
    """By several connections at once, inside the server: nothing goes over the wire."""

    def write(_: int) -> None:
        with server.connect("sbtest") as connection, connection.cursor() as cursor:
            cursor.execute(f"CALL change_rows({updates // _WRITERS})")

    with ThreadPoolExecutor(_WRITERS) as pool:
        list(pool.map(write, range(_WRITERS)))


def _compare(settings: Settings, server: MysqlServer) -> None:
    """The mirrors have as many rows as the tables, and the same sums."""
    with server.connect("sbtest") as connection, connection.cursor() as cursor:
        for table in range(1, TABLES + 1):
            cursor.execute(f"SELECT COUNT(*), SUM(id), SUM(k), SUM(id * k) FROM sbtest{table}")
            there = tuple(int(one) for one in cursor.fetchall()[0])
            found = strata_cdc.mirrors.open(settings.lake, SOURCE, f"sbtest.sbtest{table}").to_arrow(["id", "k"])
            ids, numbers = (pc.cast(found[name], "int64") for name in ("id", "k"))
            sums = (pc.sum(one).as_py() for one in (ids, numbers, pc.multiply(ids, numbers)))
            assert (found.num_rows, *sums) == there, table
