"""Rows a second of `strata decode --format parquet` beside `mysqlbinlog -v`, on the binlog of the demo's life.

Run it: `python -m bench [ROUNDS]` (default 5). Larger workloads: `python -m bench.decode`; schema: `bench.history` and
`bench.ddl`.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import tempfile
from pathlib import Path

from bench.decode import peer, to_parquet
from demo.shop import chapters, play
from tests.mysql_server import start_server

ROUNDS = 5


def main() -> None:
    """Plays the life, then times both tools in turn; start-up is included in both."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with tempfile.TemporaryDirectory() as folder, start_server(Path(folder)) as server:
        print("playing the demo's life ...", flush=True)
        server.run_sql("CREATE DATABASE shop")
        with server.connect("shop") as connection:
            rows = sum(changed for chapter in chapters() for changed in play(chapter, connection))
        server.run_sql("FLUSH BINARY LOGS")
        path = server.binlogs()[0]
        megabytes = path.stat().st_size / 1e6
        print(f"{rows:,} changed rows, {megabytes:.0f} MB of binlog; {os.cpu_count()} cores, "
              f"Python {platform.python_version()}; medians of {rounds} runs in turn")  # fmt: skip
        to_parquet(path)
        pairs = [(peer(path), to_parquet(path)) for _ in range(rounds)]
    print(f"{'':34}{'seconds':>9}{'rows/s':>12}{'MB/s':>8}")
    for name, seconds in zip(
        ("mysqlbinlog -v", "strata decode --format parquet"), zip(*pairs, strict=True), strict=True
    ):
        median = statistics.median(seconds)
        print(f"{name:34}{median:9.2f}{rows / median:12,.0f}{megabytes / median:8.0f}")
    ratio = statistics.median(slow / fast for slow, fast in pairs)
    print(f"strata is {ratio:.2f} times as fast as mysqlbinlog -v")


if __name__ == "__main__":
    main()
