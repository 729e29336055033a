"""Memory while a binlog is decoded whose larger part is one transaction.

Run it: `python -m bench memory [MEGABYTES]` (default 2000; the transaction is three quarters of it).
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.decode import peer, to_parquet
from bench.timing import print_ratios
from bench.workloads import NUMBERS, WIDE, WIDE_ROWS
from tests.mysql_server import MysqlServer, start_server

OPTIONS = ("--max-binlog-size=1G", "--innodb-buffer-pool-size=512M")
ROWS = 5000
"""Of one statement."""


def make_large(server: MysqlServer, megabytes: int) -> tuple[Path, int]:
    """Transactions of a few megabytes, then one of three times their sum; returns how many rows changed, too."""
    server.run_sql("FLUSH BINARY LOGS;")
    path, rows = server.binlogs()[-1], 0
    server.run_sql(f"CREATE DATABASE large; USE large; {WIDE} {NUMBERS}")
    rows += ROWS
    inserted = 0
    while path.stat().st_size < megabytes * 250_000:
        server.run_sql(WIDE_ROWS, "large")
        inserted += ROWS
    # An update logs both images of a row, so that of all rows is twice as large as what was inserted.
    update = "UPDATE wide SET number = number + 1"
    server.run_sql(f"BEGIN; {update}; {update} WHERE id <= {inserted // 2}; COMMIT; FLUSH BINARY LOGS;", "large")
    return path, rows + inserted + inserted + inserted // 2


def main(arguments: list[str]) -> None:
    """Prints seconds and peak memory."""
    megabytes = int(arguments[0]) if arguments else 2000
    with tempfile.TemporaryDirectory() as folder, start_server(Path(folder), *OPTIONS) as server:
        path, rows = make_large(server, megabytes)
        found = {"mysqlbinlog -v": [peer(path)], "strata decode --format parquet": [to_parquet(path)]}
        size = path.stat().st_size / 1e6
        print_ratios("one large transaction", found, megabytes=size, rows=rows, base="mysqlbinlog -v")
