"""How soon after its commit a change is published and in its mirror, while `strata run --follow` works beside writers.

Run it: `python -m bench follow [SECONDS] [EVERY] [TABLES] [MERGE_MINUTES]` (defaults 120, 2s, 20 and 10); about 1,000
transactions a second, each of one row, if the machine can. With 1 minute, intervals are merged from the sixth minute
on; with 0 they are not.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import numpy as np
import psutil
import pyarrow.parquet as pq
from deltalake import DeltaTable

from strata_cdc import mirrors
from tests.mysql_server import start_server

if TYPE_CHECKING:
    import numpy.typing as npt

    from tests.mysql_server import MysqlServer

RATE = 1000
_WRITERS = 4
_MEMORY_SECONDS = 10.0
_SETTLE_SECONDS = 10.0
_SETTINGS = """lake = "{folder}/lake"
store = "sqlite:///{folder}/s.db"
[sources.shop]
connection = "x"
tables = ["shop.*"]
mirrors = ["shop.*"]
merge_minutes = {merge_minutes}
"""
_STATEMENT_SECONDS = 0.0004
_SHOWN = (("median", 50), ("99%", 99), ("most", 100))


def main(arguments: list[str]) -> None:
    """Prints the latencies, the memory at the start and at the end, and what the lake holds."""
    seconds = float(arguments[0]) if arguments else 120.0
    every = arguments[1] if arguments[1:] else "2s"
    tables = int(arguments[2]) if arguments[2:] else 20
    merge_minutes = int(arguments[3]) if arguments[3:] else 10
    with tempfile.TemporaryDirectory() as text, start_server(Path(text) / "server") as server:
        folder = Path(text)
        _make_tables(server, tables)
        (folder / "strata.toml").write_text(_SETTINGS.format(folder=folder, merge_minutes=merge_minutes))
        memory = _follow(folder, server, seconds, every, tables)
        _report(folder, server, seconds, memory, tables)


def _make_tables(server: MysqlServer, tables: int) -> None:
    server.run_sql("CREATE DATABASE shop")
    for number in range(tables):
        server.run_sql(f"CREATE TABLE shop.t{number} (id BIGINT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(40), n INT)")
    inserts = "".join(
        f"WHEN {number} THEN INSERT INTO t{number} (v, n) VALUES (UUID(), 0);" for number in range(tables)
    )
    updates = "".join(
        f"WHEN {number} THEN UPDATE t{number} SET n = n + 1 ORDER BY id DESC LIMIT 1;" for number in range(tables)
    )
    with server.connect("shop") as connection, connection.cursor() as cursor:
        cursor.execute(
            "CREATE PROCEDURE p (pause DOUBLE, until DOUBLE) BEGIN DECLARE i INT;"
            f" WHILE UNIX_TIMESTAMP(SYSDATE(6)) < until DO SET i = FLOOR(RAND() * {tables});"
            f" IF RAND() < 0.7 THEN CASE i {inserts} END CASE; ELSE CASE i {updates} END CASE; END IF;"
            " DO SLEEP(pause); END WHILE; END"
        )


def _write(server: MysqlServer, seconds: float) -> None:
    with server.connect("shop") as connection, connection.cursor() as cursor:
        pause = max(0.0, _WRITERS / RATE - _STATEMENT_SECONDS)
        cursor.execute(f"CALL p({pause}, UNIX_TIMESTAMP(SYSDATE(6)) + {seconds})")


def _follow(folder: Path, server: MysqlServer, seconds: float, every: str, tables: int) -> list[float]:
    """Runs the command while others write, and for a while after; returns its resident memory (megabytes)."""
    environment = {**os.environ, "STRATA_SETTINGS": str(folder / "strata.toml"), "AIRFLOW_CONN_X": server.url}
    command = [str(Path(sys.executable).with_name("strata")), "run", "--follow", "--every", every]
    memory: list[float] = []
    with (folder / "out").open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
        measured = psutil.Process(process.pid)
        # The first run makes all tables and mirrors.
        server.run_sql(";".join(f"INSERT INTO shop.t{number} (v) VALUES ('first')" for number in range(tables)))
        while len(list((folder / "lake").glob("mirrors/shop/*/*/_delta_log"))) < tables:
            time.sleep(0.2)
        writers = [threading.Thread(target=_write, args=(server, seconds)) for _ in range(_WRITERS)]
        for writer in writers:
            writer.start()
        until = time.monotonic() + seconds + _SETTLE_SECONDS
        while time.monotonic() < until:
            memory.append(measured.memory_info().rss / 1e6)
            if len(memory) % 6 == 0:
                print(f"{memory[-1]:,.0f} MB; {_sizes(folder)}", flush=True)
            time.sleep(min(_MEMORY_SECONDS, max(0.0, until - time.monotonic())))
        for writer in writers:
            writer.join()
        process.send_signal(signal.SIGTERM)
        if process.wait(60):
            raise SystemExit((folder / "out").read_text()[-2000:])
    return memory


def _report(folder: Path, server: MysqlServer, seconds: float, memory: list[float], tables: int) -> None:
    lake, published, mirrored = folder / "lake", [], []
    commits = files = 0
    for number in range(tables):
        table = lake / "changes" / "shop" / "shop" / f"t{number}"
        log = _commits(table)
        commits, files = commits + len(log), files + len(list(table.glob("**/*.parquet")))
        mirror = mirrors.open(str(lake), "shop", f"shop.t{number}")
        assert mirror.to_arrow().num_rows == _count(server, number), f"the mirror of t{number} differs"
        (mirror_log,) = lake.glob(f"mirrors/shop/shop/t{number}/_delta_log")
        mirror_times = np.array([at for at, _ in _commits(mirror_log.parent)])
        for at, added in log:
            for name in added:
                committed = _committed_at(table / name)
                published.append(at - committed)
                mirrored.append(mirror_times[np.searchsorted(mirror_times, at)] - committed)
    rounds = len((folder / "out").read_text().splitlines()) - 1
    print(f"{len(np.concatenate(published)) / seconds:,.0f} changes a second, {tables} tables, {rounds} runs")
    for name, parts in (("published", published), ("in the mirror", mirrored)):
        delays = np.concatenate(parts) / 1e3
        shown = ", ".join(f"{word} {np.percentile(delays, part):.1f} s" for word, part in _SHOWN)
        print(f"commit to {name}: {shown}")
    print(f"memory: {memory[len(memory) // 4]:,.0f} MB after a quarter of the time, {memory[-1]:,.0f} MB at the end")
    print(f"change tables: {commits:,} commits, {files:,} files; the mirrors equal the server's number of rows")


def _sizes(folder: Path) -> str:
    """What there is of change tables and intervals."""
    tables = [DeltaTable(log.parent) for log in (folder / "lake" / "changes").glob("*/*/*/_delta_log")]
    live = sum(len(table.file_uris()) for table in tables)
    logs = sum(1 for _ in (folder / "lake" / "changes").glob("*/*/*/_delta_log/*.json"))
    runs = sum(1 for _ in (folder / "lake" / "runs" / "shop").glob("*"))
    with closing(sqlite3.connect(folder / "s.db")) as store:
        rows = [
            f"{store.execute(f'SELECT COUNT(*) FROM {name}').fetchone()[0]:,} {name}"
            for name in ("closed_interval", "table_interval", "published_interval", "verdict", "file_merge")
        ]
    return f"{live:,} live files, {logs:,} commits, {runs:,} run folders; {', '.join(rows)}"


def _commits(table: Path) -> list[tuple[int, list[str]]]:
    """The time of each commit of a Delta table (milliseconds) and the files that it added, in order."""
    found = []
    for path in sorted((table / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        at = next(action["commitInfo"]["timestamp"] for action in actions if "commitInfo" in action)
        found.append(
            (at, [unquote(action["add"]["path"]) for action in actions if action.get("add", {}).get("dataChange")])
        )
    return found


def _committed_at(path: Path) -> npt.NDArray[np.int64]:
    """When the rows of a file were committed, milliseconds."""
    column = pq.read_table(path, columns=["_committed_at"]).column(0)
    return np.asarray(column.cast("int64"), np.int64) // 1000


def _count(server: MysqlServer, number: int) -> int:
    with server.connect("shop") as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*) FROM t{number}")
        (count,) = cursor.fetchone()
        return int(count)
