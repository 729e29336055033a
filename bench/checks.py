"""How long the checks of a run take, beside the decoding of the same run.

Run it: `python -m bench checks [WORK|all] [ROUNDS]` (defaults: all, 3). Seconds are those of
`spark-submit`, JVM and imports included; for `narrow` those without start-up, both steps in one Spark session.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.spark import SOURCE, make_lake
from bench.timing import Run, python, run
from bench.workloads import NARROW, NARROW_ROWS, NUMBERS, make_demo
from strata_cdc.environment import LIBRARIES
from strata_cdc.pipeline.decode.decode_slice import decode_slice_to_files, planned_tasks, store_decoded
from strata_cdc.quality.check_step.check_interval import Checking, check_interval
from strata_cdc.spark_jobs.decode_slices import decode_all
from strata_cdc.spark_jobs.session import open_local_session
from strata_cdc.startup.spark import JOBS, SUBMIT, short_job
from tests.mysql_server import MysqlServer, start_server

if TYPE_CHECKING:
    from collections.abc import Callable

REPOSITORY = Path(__file__).resolve().parents[1]
JOB = JOBS / "check_interval.py"
NARROW_MILLIONS = int(os.environ.get("BENCH_MILLIONS", "2"))
"""Of rows; of fewer the ratio is worse: a process that checks for the first time pays for its memory."""


def versions(server: MysqlServer) -> list[Path]:
    """A million rows in 20 tables, each of which changes twice."""
    path = _begin(server, "versions")
    for table in range(20):
        name = f"t{table}"
        insert = f"INSERT INTO {name} (n, c) SELECT n, CONCAT('value ', n) FROM n;"
        rows = insert * 3 + f"INSERT INTO {name} (n, c) SELECT n, 'x' FROM n WHERE n <= 1667;"
        server.run_sql(
            f"CREATE TABLE {name} (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, n INT NOT NULL, c VARCHAR(30));"
            f"{rows} ALTER TABLE {name} ADD COLUMN price DECIMAL(10,2); {rows}"
            f"ALTER TABLE {name} ADD COLUMN state ENUM('a','b') NOT NULL DEFAULT 'a'; {rows}",
            "versions",
        )
    return _end(server, path)


def many(server: MysqlServer) -> list[Path]:
    """A thousand rows in each of 200 tables."""
    path = _begin(server, "many")
    for table in range(200):
        server.run_sql(
            f"CREATE TABLE t{table} (id INT NOT NULL PRIMARY KEY, c VARCHAR(30) NOT NULL, state ENUM('a','b'));"
            f"INSERT INTO t{table} SELECT n, CONCAT('value ', n), 'a' FROM n WHERE n <= 1000;",
            "many",
        )
    return _end(server, path)


def narrow(server: MysqlServer) -> list[Path]:
    """Millions of rows of one table; one in ten is changed."""
    path = _begin(server, "narrow")
    server.run_sql(NARROW, "narrow")
    # InnoDB hands out more numbers than there are rows; the first of a statement is known.
    update = "UPDATE sbtest SET k = k + 1 WHERE id >= LAST_INSERT_ID() AND id % 10 = 0;"
    server.run_sql((NARROW_ROWS + update) * (NARROW_MILLIONS * 1_000_000 // 5500), "narrow")
    return _end(server, path)


def _begin(server: MysqlServer, database: str) -> Path:
    server.run_sql("FLUSH BINARY LOGS;")
    path = server.binlogs()[-1]
    server.run_sql(f"CREATE DATABASE {database};")
    server.run_sql(NUMBERS, database)
    return path


def _end(server: MysqlServer, path: Path) -> list[Path]:
    """The binlogs from one on: MySQL begins another after 1 GB."""
    server.run_sql("FLUSH BINARY LOGS;")
    return [one for one in server.binlogs() if one.name >= path.name][:-1]


WORKS: dict[str, Callable[[MysqlServer], list[Path]]] = {
    "demo": lambda server: [make_demo(server)],
    "versions": versions,
    "many": many,
    "narrow": narrow,
}


def decode(folder: Path) -> tuple[str, int]:
    """Decodes a planned run in this process; the URL of its folder and its rows."""
    url = (folder / "run").read_text().partition(" ")[2]
    files = [file for task in planned_tasks(url) for file in decode_slice_to_files(task)]
    return url, store_decoded(url, files).rows


def submitted(url: str) -> Run:
    """One check as Airflow starts it."""
    options = ["--master", "local[2]", "--conf", "spark.log.level=WARN", "--driver-java-options", short_job()]
    os.environ["PYTHONPATH"] = f"{REPOSITORY}/include:{REPOSITORY}"
    return run([SUBMIT, *options, JOB, "--run-url", url])


_INSIDE = "import sys; from bench.checks import measure_inside; measure_inside(sys.argv[1])"


def measure_inside(folder: str) -> None:
    """Decodes and checks in one Spark session that runs already; prints the seconds of the check, then of decode."""
    run_name, _, url = (Path(folder) / "run").read_text().partition(" ")
    lake = url.rsplit("/", 3)[0]
    spark = open_local_session("bench", {"spark.ui.showConsoleProgress": "false"})
    spark.range(1).count()
    tasks = planned_tasks(url)
    begin = time.perf_counter()
    outcomes = decode_all(tasks, spark, len(tasks))
    store_decoded(url, [file for outcome in outcomes for file in outcome.files])
    decoded = time.perf_counter() - begin
    begin = time.perf_counter()
    check_interval(lake, SOURCE, run_name, lambda: spark, Checking()).raise_if_failed()
    checked = time.perf_counter() - begin
    spark.stop()
    print(checked, decoded)


def main(arguments: list[str]) -> None:
    """Measures each work, in processes that are told what Airflow and the command tell theirs."""
    os.environ.update({**LIBRARIES, **os.environ})
    wanted, rounds = [*arguments, *("all", "3")[len(arguments) :]]
    with tempfile.TemporaryDirectory() as folder, start_server(Path(folder) / "server") as server:
        for name in WORKS if wanted == "all" else [wanted]:
            lake = make_lake(Path(folder) / name, *WORKS[name](server))
            if name == "narrow":
                found = [python(_INSIDE, lake) for _ in range(int(rounds))]
                check, decoded = (statistics.median(times) for times in zip(*map(_pair, found), strict=True))
                print(
                    f"{name:10} check {check:6.2f} s, decode {decoded:6.2f} s: {check / decoded:.2f} of it", flush=True
                )
                continue
            url, rows = decode(lake)
            seconds = statistics.median(submitted(url).seconds for _ in range(int(rounds)))
            print(f"{name:10} {rows:10,} rows {seconds:7.1f} s", flush=True)


def _pair(found: Run) -> tuple[float, float]:
    return found.seconds, float(found.output)


if __name__ == "__main__":
    main(sys.argv[1:])
