"""How fast rows are decoded, as ratios to MySQL's own C++ tool on the same file.

Run it: `python -m bench decode [MEGABYTES] [ROUNDS]` (defaults 200 and 5).
"""

from __future__ import annotations

import json
import sys
import tempfile
from functools import partial
from pathlib import Path

from bench.spark import make_lake, spark_job
from bench.timing import Run, interleaved, print_ratios, python, quietly
from bench.workloads import WORKLOADS, make, make_demo, write_definitions
from scripts.mysql import program
from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.changes.blocks import RowReader
from strata_cdc.changes.decode import decode_blocks
from strata_cdc.changes.decode_plans import DecodePlans
from strata_cdc.changes.plan import Slice
from strata_cdc.changes.port import ChangeBatch, TableVersion
from strata_cdc.changes.windows import read_windows
from strata_cdc.schema.model.definition import definition_from_json
from tests.mysql_server import MysqlServer, start_server

PEER = "mysqlbinlog -v"
PEER_SECONDS = 10
"""python-mysql-replication is given this time, and what it read until then is counted."""

_TO_ARROW = """
import sys, time
from bench.decode import decode_all
decode_all(sys.argv[1], 1 << 22)
begin = time.perf_counter()
rows = decode_all(sys.argv[1])
print(time.perf_counter() - begin, rows)
"""

_INDEX = """
import sys, time
from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.bytes.frames import index_events, verify_checksums
def index(binlog, end):
    at, events = 4, 0
    while at < end:
        found = index_events(binlog.buffer, at, end, binlog.format)
        verify_checksums(binlog.buffer, found)
        at, events = found.next, events + len(found)
        if not len(found):
            break
    return events
with open_binlog(sys.argv[1]) as binlog:
    index(binlog, len(binlog.buffer))
    begin = time.perf_counter()
    events = index(binlog, len(binlog.buffer))
    print(time.perf_counter() - begin, events)
"""

_REPLICATION = """
import logging, sys, time
logging.disable()
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent
port, name, seconds = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
stream = BinLogStreamReader(
    connection_settings={"host": "127.0.0.1", "port": port, "user": "root", "passwd": ""}, server_id=4711,
    log_file=name, log_pos=4, resume_stream=True, blocking=False,
    ignore_decode_errors=True,  # it takes BINARY for text where the metadata has no charset
    only_events=[DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent])
begin, rows = time.perf_counter(), 0
for event in stream:
    rows += len(event.rows)
    if time.perf_counter() - begin > seconds:
        break
print(time.perf_counter() - begin, rows)
"""


def peer(path: Path) -> Run:
    """`mysqlbinlog -v`, which prints every row."""
    return quietly([program("mysqlbinlog"), "--base64-output=DECODE-ROWS", "-v", path])


def to_parquet(path: Path) -> Run:
    """`strata decode --format parquet`, start-up and reading the schema included."""
    with tempfile.TemporaryDirectory() as folder:
        strata = Path(sys.executable).with_name("strata")
        return quietly([strata, "decode", path, "--out", folder, "--format", "parquet"])


def to_arrow(path: Path) -> Run:
    """File to record batches in a warm process: checksums verified, JSON as text, GTIDs attributed."""
    return python(_TO_ARROW, path)


def index(path: Path) -> Run:
    """All event headers and checksums."""
    return python(_INDEX, path)


def replication(server: MysqlServer, path: Path) -> Run:
    """python-mysql-replication, which reads from the server, for some seconds: a run's rows are in its output."""
    return python(_REPLICATION, str(server.port), path.name, str(PEER_SECONDS))


def decode_all(path: str, end: int | None = None) -> int:
    """Decodes a file (its first bytes) with the definitions beside it; returns the number of changed rows."""
    definitions = json.loads(Path(f"{path}.definitions").read_text())
    versions = {name: TableVersion(1, definition_from_json(text)) for name, text in definitions.items()}
    rows = 0
    with open_binlog(path) as binlog:
        size = len(binlog.buffer) if end is None else min(end, len(binlog.buffer))
        whole = Slice("bench", path, binlog.name, 4, size, 4, 1, 0, 0)
        plans = DecodePlans(lambda table, _: versions.get(str(table)), wanted=lambda _: True)
        try:
            for step in decode_blocks(RowReader(binlog, plans).read(read_windows(binlog, whole.ranges())), binlog.name):
                if isinstance(step, ChangeBatch):
                    rows += step.batch.num_rows
        except Exception:
            if end is None:
                raise
    return rows


def demo(rounds: int) -> None:
    """The binlog of the demo's life: small, and full of DDL."""
    with tempfile.TemporaryDirectory() as folder, start_server(Path(folder)) as server:
        path = make_demo(server)
        runs = {PEER: partial(peer, path), "strata decode --format parquet": partial(to_parquet, path)}
        to_parquet(path)
        found = interleaved(runs, rounds)
        rows = 419_900
        print_ratios("demo", found, megabytes=path.stat().st_size / 1e6, rows=rows, base=PEER)


def workloads(megabytes: int, rounds: int) -> None:
    """Two kinds of tables."""
    with tempfile.TemporaryDirectory() as folder, start_server(Path(folder), "--max-binlog-size=1G") as server:
        for workload in WORKLOADS:
            path = make(server, workload, megabytes)
            write_definitions(server, path, f"bench_{workload.name}")
            lake = make_lake(Path(folder) / workload.name, path)
            runs = {
                PEER: partial(peer, path),
                "file to Arrow, one thread": partial(to_arrow, path),
                "strata decode --format parquet": partial(to_parquet, path),
                "Spark job, local[2], slices to Delta commit": partial(spark_job, lake),
                "event index with checksums": partial(index, path),
            }
            to_parquet(path)
            found = interleaved(runs, rounds)
            rows = int(found["file to Arrow, one thread"][0].output)
            print_ratios(workload.name, found, megabytes=path.stat().st_size / 1e6, rows=rows, base=PEER)
            slow = replication(server, path)
            rate = int(slow.output) / slow.seconds
            print(f"{'python-mysql-replication':44}{'':9}{rate:13,.0f}{'':8}{slow.megabytes:9.0f}")


def main(arguments: list[str]) -> None:
    """Prints a table a workload."""
    megabytes, rounds = (int(arguments[0]) if arguments else 200), (int(arguments[1]) if arguments[1:] else 5)
    demo(rounds)
    workloads(megabytes, rounds)
