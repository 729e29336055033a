"""How fast rows are decoded, as ratios to MySQL's own C++ tool on the same file.

Run it: `python -m bench.decode [MEGABYTES] [ROUNDS]` (defaults 200 and 5).
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from strata.rows.book import TableBook, Version
from strata.rows.decode import ChangeBatch, decode_steps
from strata.rows.plan import Slice
from strata.rows.slots import Slots
from strata.rows.stream import RowStream
from strata.schema.model import Column, TableDefinition, definition_from_json
from strata.wire.files import open_binlog
from tests.mysql_server import MysqlServer, program, start_server

if TYPE_CHECKING:
    from collections.abc import Callable

NARROW = """
CREATE TABLE sbtest (id INT NOT NULL AUTO_INCREMENT, k INT NOT NULL DEFAULT 0, c CHAR(120) NOT NULL DEFAULT '',
                     pad CHAR(60) NOT NULL DEFAULT '', PRIMARY KEY (id), KEY k_1 (k));
"""

WIDE = """
CREATE TABLE wide (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, tiny TINYINT, small SMALLINT UNSIGNED, medium MEDIUMINT, number INT,
  big BIGINT UNSIGNED, price DECIMAL(18,4), ratio DOUBLE, score FLOAT, flag BIT(1), mask BIT(12), born DATE,
  at DATETIME(6), stamp TIMESTAMP(3) NULL, span TIME(2), in_year YEAR, code CHAR(12), name VARCHAR(80),
  old VARCHAR(40) CHARACTER SET latin1, note TEXT, digest BINARY(16), raw VARBINARY(40),
  state ENUM('new','paid','sent','gone'), tags SET('a','b','c','d'), doc JSON);
"""

NUMBERS = """
SET SESSION cte_max_recursion_depth = 100000;
CREATE TABLE n (n INT PRIMARY KEY) WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5000)
SELECT n FROM r;
"""

NARROW_ROWS = """
INSERT INTO sbtest (k, c, pad) SELECT FLOOR(RAND() * 1e6), CONCAT_WS('-', LPAD(FLOOR(RAND() * 1e11), 11, '0'),
  LPAD(FLOOR(RAND() * 1e11), 11, '0'), LPAD(FLOOR(RAND() * 1e11), 11, '0'), LPAD(FLOOR(RAND() * 1e11), 11, '0'),
  LPAD(FLOOR(RAND() * 1e11), 11, '0'), LPAD(FLOOR(RAND() * 1e11), 11, '0'), LPAD(FLOOR(RAND() * 1e11), 11, '0'),
  LPAD(FLOOR(RAND() * 1e11), 11, '0'), LPAD(FLOOR(RAND() * 1e11), 11, '0'), LPAD(FLOOR(RAND() * 1e11), 11, '0')),
  CONCAT_WS('-', LPAD(FLOOR(RAND() * 1e11), 11, '0'), LPAD(FLOOR(RAND() * 1e11), 11, '0'),
  LPAD(FLOOR(RAND() * 1e11), 11, '0'), LPAD(FLOOR(RAND() * 1e11), 11, '0'), LPAD(FLOOR(RAND() * 1e11), 11, '0'))
FROM n;
"""

WIDE_ROWS = """
INSERT INTO wide (tiny, small, medium, number, big, price, ratio, score, flag, mask, born, at, stamp, span, in_year,
                  code, name, old, note, digest, raw, state, tags, doc)
SELECT FLOOR(RAND() * 200) - 100, FLOOR(RAND() * 60000), FLOOR(RAND() * 1e6) - 500000, FLOOR(RAND() * 1e9),
  FLOOR(RAND() * 1e15), RAND() * 1e9, RAND(), RAND() * 100, RAND() < 0.5, FLOOR(RAND() * 4096),
  DATE_ADD('1970-01-02', INTERVAL FLOOR(RAND() * 20000) DAY),
  DATE_ADD('2000-01-01', INTERVAL FLOOR(RAND() * 1e15) MICROSECOND), FROM_UNIXTIME(1 + FLOOR(RAND() * 1e9)),
  SEC_TO_TIME(FLOOR(RAND() * 80000)), 1990 + FLOOR(RAND() * 40), LEFT(UUID(), 8), CONCAT('customer ', n, ' of town'),
  'caf\\u00e9 au lait', CONCAT('a note of some length about order ', n, ', which nobody reads'), RANDOM_BYTES(16),
  RANDOM_BYTES(20), ELT(1 + FLOOR(RAND() * 4), 'new', 'paid', 'sent', 'gone'), FLOOR(RAND() * 16),
  JSON_OBJECT('order', n, 'total', ROUND(RAND() * 100, 2), 'open', RAND() < 0.5, 'lines',
              JSON_ARRAY(JSON_OBJECT('sku', LEFT(UUID(), 8), 'n', FLOOR(RAND() * 9)), 'gift'))
FROM n;
"""


@dataclass(frozen=True)
class Workload:
    """A binlog of one kind of table."""

    name: str
    table: str
    rows: str
    small: int
    """Rows that are changed by a transaction each, a round."""


WORKLOADS = (Workload("narrow", NARROW, NARROW_ROWS, 500), Workload("wide", WIDE, WIDE_ROWS, 50))


def make(server: MysqlServer, workload: Workload, megabytes: int) -> Path:
    """A binlog of about that size: large inserts and updates, and small transactions between them."""
    database = f"bench_{workload.name}"
    table = "sbtest" if workload.name == "narrow" else "wide"
    server.run_sql("FLUSH BINARY LOGS;")
    path = server.binlogs()[-1]
    server.run_sql(f"CREATE DATABASE {database};")
    server.run_sql(workload.table + NUMBERS, database)
    column = "k" if workload.name == "narrow" else "number"
    round_ = 0
    while path.stat().st_size < megabytes << 20:
        first = round_ * 5000
        small = "".join(
            f"UPDATE {table} SET {column} = {column} + 1 WHERE id = {first + k + 1};" for k in range(workload.small)
        )
        server.run_sql(
            workload.rows
            + f"UPDATE {table} SET {column} = {column} + 1 WHERE id % 10 = {round_ % 10} AND id > {first};"
            + small
            + f"DELETE FROM {table} WHERE id % 50 = 0 AND id > {first};",
            database,
        )
        round_ += 1
    server.run_sql("FLUSH BINARY LOGS;")
    return path


def peer(path: Path) -> float:
    """Seconds of `mysqlbinlog -v`, which prints every row."""
    started = time.perf_counter()
    with Path(os.devnull).open("wb") as nowhere:
        subprocess.run(
            [program("mysqlbinlog"), "--base64-output=DECODE-ROWS", "-v", str(path)], stdout=nowhere, check=True
        )
    return time.perf_counter() - started


def to_arrow(path: Path) -> float:
    """Seconds from file to record batches in a warm process: checksums verified, JSON as text, GTIDs attributed."""
    code = (
        "import sys, time\n"
        "from bench.decode import decode_all\n"
        "decode_all(sys.argv[1], 1 << 22)\n"
        "t = time.perf_counter(); n = decode_all(sys.argv[1]); print(time.perf_counter() - t, n)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[0])


def decode_all(path: str, end: int | None = None) -> int:
    """Decodes a file (its first bytes) by versions that its own DDL gives; returns the number of rows."""
    definitions = json.loads(Path(f"{path}.definitions").read_text())
    versions = {name: Version(1, definition_from_json(text)) for name, text in definitions.items()}
    rows = 0
    with open_binlog(path) as binlog:
        size = len(binlog.buffer) if end is None else min(end, len(binlog.buffer))
        whole = Slice("bench", path, binlog.name, 4, size, 4, 1, 0, 0)
        slots = Slots(binlog.format)
        book = TableBook(slots, lambda table, _: versions.get(str(table)), wanted=lambda _: True)
        try:
            for step in decode_steps(RowStream(binlog, whole, slots, book), slots, binlog.name):
                if isinstance(step, ChangeBatch):
                    rows += step.batch.num_rows
        except Exception:
            if end is None:
                raise
    return rows


def write_definitions(server: MysqlServer, path: Path, database: str) -> None:
    """Notes the tables' definitions beside the binlog."""
    found: dict[str, str] = {}
    with server.connect("information_schema") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT table_name FROM tables WHERE table_schema = %s", (database,))
        for (table,) in cursor.fetchall():
            cursor.execute(
                "SELECT column_name, column_type, is_nullable, character_set_name FROM columns "
                "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
                (database, table),
            )
            columns = tuple(Column(n, t, null == "YES", charset) for n, t, null, charset in cursor.fetchall())
            found[f"{database}.{table}"] = TableDefinition(columns).to_json()
    Path(f"{path}.definitions").write_text(json.dumps(found))


def to_parquet(path: Path) -> float:
    """Seconds of `strata decode --format parquet`, start-up included."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        subprocess.run(
            [Path(sys.executable).with_name("strata"), "decode", path, "--out", folder, "--format", "parquet"],
            check=True,
            capture_output=True,
        )
        return time.perf_counter() - started


def measure(path: Path, rounds: int) -> dict[str, float]:
    """Medians of interleaved runs."""
    runs: dict[str, Callable[[Path], float]] = {"mysqlbinlog -v": peer, "arrow": to_arrow, "parquet": to_parquet}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            seconds[name].append(run(path))
    return {name: statistics.median(found) for name, found in seconds.items()}


def main() -> None:
    """Makes both workloads and prints a table."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as folder, start_server(Path(folder), "--max-binlog-size=1G") as server:
        for workload in WORKLOADS:
            path = make(server, workload, megabytes)
            write_definitions(server, path, f"bench_{workload.name}")
            found = measure(path, rounds)
            base = found["mysqlbinlog -v"]
            for name, seconds in found.items():
                rate = path.stat().st_size / seconds / 1e6
                print(f"{workload.name:8} {name:16} {seconds:7.3f} s {rate:8.0f} MB/s  x{base / seconds:.2f}")
    print(f"peak memory of children: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10} MiB")


if __name__ == "__main__":
    main()
