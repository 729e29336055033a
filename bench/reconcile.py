"""What a comparison with the server costs, there and here: reading rows, beside checksums that the server computes.

Run it: `python -m bench.reconcile [ROWS]` (default 1,000,000).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from scripts.mysql import program
from strata_cdc.binlog.protocol.connection import ServerAddress
from strata_cdc.quality.reconcile.server_rows import Pace, ServerRows
from strata_cdc.schema.model.definition import TableName
from tests.mysql_server import start_server
from tests.quality.live_world import LiveWorld

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.mysql_server import MysqlServer

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, a BIGINT, b VARCHAR(40), c DECIMAL(12, 2), d DATETIME(6), e DOUBLE)"
ROWS = (
    "SET SESSION cte_max_recursion_depth = 100000000; INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT "
    "i + 1 FROM n WHERE i < {rows}) SELECT i, i * 7919, LEFT(SHA2(i, 224), 40), i / 7, "
    "'2026-01-01' + INTERVAL i SECOND, i / 3 FROM n"
)
COLUMNS = "COUNT(*), BIT_XOR(CAST(CRC32(CONCAT_WS('#', id, a, b, c, d, e)) AS UNSIGNED))"
CHUNK = 10_000


def checksums(server: MysqlServer, rows: int) -> None:
    """By key range, as pt-table-checksum does it."""
    with server.connect("shop") as connection, connection.cursor() as cursor:
        for first in range(1, rows + 1, CHUNK):
            cursor.execute(f"SELECT {COLUMNS} FROM t WHERE id >= {first} AND id < {first + CHUNK}")
            cursor.fetchall()


def plain(server: MysqlServer) -> None:
    """Reads the table by the server's own client, to nowhere."""
    command = [program("mysql"), "--no-defaults", f"--port={server.port}", "--host=127.0.0.1", "--user=root", "--quick"]
    subprocess.run([*command, "-e", "SELECT * FROM shop.t"], stdout=subprocess.DEVNULL, check=True)


def reading(server: MysqlServer, rows: int) -> None:
    """Reads it as a comparison does, without pauses."""
    found = ServerRows(ServerAddress.from_url(server.url), Pace(CHUNK))
    name = TableName("shop", "t")
    definition = found.definition(name)
    assert definition is not None
    assert sum(part.num_rows for part in found.whole(name, definition)) == rows
    found.close()


def measured(server: MysqlServer, name: str, rows: int, work: Callable[[], object]) -> None:
    """Prints rows a second, and the CPU of server and of this process and its children."""
    there, here = psutil.Process(server.process.pid), psutil.Process()
    before, own, began = there.cpu_times(), here.cpu_times(), time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    after, later = there.cpu_times(), here.cpu_times()
    on_server = after.user + after.system - before.user - before.system
    mine = sum(getattr(later, part) - getattr(own, part) for part in ("user", "system", "children_user"))
    print(f"| {name} | {rows / seconds / 1000:,.0f} | {seconds:.2f} | {on_server:.2f} | {mine:.2f} |", flush=True)


def main(arguments: list[str]) -> None:
    """Prints a table."""
    rows = int(arguments[0]) if arguments else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        options = ("--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--innodb-buffer-pool-size=512M")
        with start_server(Path(folder) / "mysql", *options) as server:
            server.run_sql(f"CREATE DATABASE shop; USE shop; {TABLE}; {ROWS.format(rows=rows)}")
            world = LiveWorld(server, Path(folder) / "world")
            world.run()
            reading(server, rows)
            print(f"\n## Comparing with the server: {rows:,} rows\n")
            print("| way | 1,000 rows/s | seconds | CPU of the server | CPU here |\n|---|---|---|---|---|")
            measured(server, "`mysql --quick`, SELECT * to /dev/null", rows, lambda: plain(server))
            measured(server, "checksums by the server, key range by key range", rows, lambda: checksums(server, rows))
            measured(server, "rows read as a comparison reads them", rows, lambda: reading(server, rows))
            measured(server, "`strata reconcile`, all of it", rows, lambda: world.said("t"))
            measured(server, "`strata reconcile --keys 10000`", rows, lambda: world.said("t", keys=10_000))


if __name__ == "__main__":
    main(sys.argv[1:])
