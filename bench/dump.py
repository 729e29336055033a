"""Reading a table's rows from a server, beside `mysqldump --single-transaction` to nowhere on the same table.
Not here: making mirrors of them, changes that come meanwhile."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.timing import python, quietly
from scripts.mysql import program
from strata_cdc.binlog.protocol.connection import ServerAddress, open_connection
from strata_cdc.changes.select.rows import SelectedRows, ServerSelect
from strata_cdc.changes.select.statement import prepare_session
from strata_cdc.mirrors.dump.folder import DumpFolder
from strata_cdc.mirrors.dump.manifest import Manifest
from strata_cdc.mirrors.dump.read import TableReader
from strata_cdc.schema.live.engine import LiveSchema
from strata_cdc.schema.model.definition import TableName
from tests.mysql_server import start_server

if TYPE_CHECKING:
    from tests.mysql_server import MysqlServer

_ROUNDS = 5
_WIDE = ("i{} INT", "s{} VARCHAR(40)", "d{} DECIMAL(12,2)", "t{} DATETIME(3)", "f{} DOUBLE")
_WIDE_VALUES = ("n * {}", "CONCAT('text of column {} row ', n)", "n / 100", "'2024-01-02 03:04:05.678'", "n / 7")
TABLES = {
    "narrow": (
        1_000_000,
        "id INT PRIMARY KEY, k INT NOT NULL, c VARCHAR(60), p DATETIME",
        "n, n * 7 % 1000003, CONCAT('some text of row ', n), NOW()",
    ),
    "wide": (
        300_000,
        "id INT PRIMARY KEY, " + ", ".join(one.format(k) for k in range(5) for one in _WIDE),
        "n, " + ", ".join(one.format(k) for k in range(5) for one in _WIDE_VALUES),
    ),
}
_CODE = "import sys; from bench.dump import measure; measure(*sys.argv[1:])"


def main(_: list[str]) -> None:
    """Prints rows a second."""
    with tempfile.TemporaryDirectory() as folder, start_server(Path(folder), "--innodb-buffer-pool-size=1G") as server:
        _fill(server)
        print("table    what                        rows a second   MB a second    peak MB   CPU s")
        for table, (rows, *_columns) in TABLES.items():
            for what in ("mysqldump", "select", "dump"):
                timed = sorted((_once(server, table, what, folder) for _ in range(_ROUNDS)), key=lambda run: run[0])
                seconds, megabytes, peak, cpu = timed[_ROUNDS // 2]
                print(
                    f"{table:<8} {_NAMES[what]:<27} {rows / seconds:>13,.0f} {megabytes / seconds:>13,.0f} "
                    f"{peak:>10,.0f} {cpu:>7.2f}",
                    flush=True,
                )


_NAMES = {"mysqldump": "mysqldump to /dev/null", "select": "rows as Arrow", "dump": "chunks on disk"}


def _once(server: MysqlServer, table: str, what: str, folder: str) -> tuple[float, float, float, float]:
    if what == "mysqldump":
        login = ("--no-defaults", "--host=127.0.0.1", f"--port={server.port}", "--user=root", "--ssl-mode=DISABLED")
        more = ("--single-transaction", "--no-tablespaces", "--set-gtid-purged=OFF", "d", table)
        run = quietly([program("mysqldump"), *login, *more])
        return run.seconds, 0.0, run.megabytes, run.cpu_seconds
    run = python(_CODE, server.url, table, what, folder)
    return run.seconds, float(run.output), run.megabytes, run.cpu_seconds


def measure(url: str, table: str, what: str, folder: str) -> None:
    """One reading in this process: prints the seconds and the megabytes that the server sent."""
    address = ServerAddress.from_url(f"{url}?ssl_mode=DISABLED")
    name = TableName("d", table)
    definition = dict(LiveSchema(open_connection(address, autocommit=True)).tables())[name]
    connection = open_connection(address, autocommit=True)
    prepare_session(connection)
    sum(1 for _ in SelectedRows(connection, ServerSelect(name, definition, "LIMIT 100")))
    begin = time.perf_counter()
    if what == "select":
        sent = sum(batch.nbytes for batch in SelectedRows(connection, ServerSelect(name, definition)))
    else:
        kept = DumpFolder(f"{folder}/lake", "bench", name)
        reader = TableReader(
            connection, kept, Manifest.begin("bench", name, 1, definition, ""), 64 << 20, lambda _: True
        )
        while not reader.manifest.is_read:
            reader.read_chunk()
        sent = reader.manifest.sent_bytes
        kept.clear()
    print(time.perf_counter() - begin, sent / 1e6, file=sys.stdout)


def _fill(server: MysqlServer) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE d")
        cursor.execute("USE d")
        cursor.execute("SET SESSION cte_max_recursion_depth = 10000000, sql_log_bin = 0")
        for table, (rows, columns, values) in TABLES.items():
            cursor.execute(f"CREATE TABLE {table} ({columns})")
            numbers = f"WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < {rows})"
            cursor.execute(f"INSERT INTO {table} {numbers} SELECT {values} FROM r")
            cursor.execute(f"ANALYZE TABLE {table}")
