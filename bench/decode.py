"""How fast rows are decoded, as ratios to the server's own C++ tool on the same file. Files of MySQL and of MariaDB
with the same workload are read in turn.

Run it: `python -m bench decode [MEGABYTES] [ROUNDS]` (defaults 200 and 5).
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

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
from tests.mariadb_server import PREFIXES, start_mariadb
from tests.mysql_server import MysqlServer, start_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.workloads import Workload

MYSQL, MARIADB = "MySQL", "MariaDB 11.8"
PEER = "mysqlbinlog -v"
PEERS = {MYSQL: PEER, MARIADB: "mariadb-binlog -vv"}
"""The server's own tool, and the option with which it prints rows."""
TO_ARROW, TO_PARQUET = "file to Arrow, one thread", "strata decode --format parquet"
TO_DELTA, INDEX = "Spark job, local[2], slices to Delta commit", "event index with checksums"
PEER_SECONDS = 10
"""python-mysql-replication is given this time, and what it read until then is counted."""

_TO_ARROW = """
import gc, sys, time
gc.set_threshold(50_000)  # as in a command
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


class Written(NamedTuple):
    """A binlog that is measured."""

    family: str
    server: MysqlServer
    path: Path
    lake: Path

    def runs(self) -> dict[str, Callable[[], Run]]:
        """What reads it, by name."""
        return {
            PEERS[self.family]: partial(
                peer, self.path, self.server.program("mysqlbinlog"), PEERS[self.family].split()[1]
            ),
            TO_ARROW: partial(to_arrow, self.path),
            TO_PARQUET: partial(to_parquet, self.path),
            TO_DELTA: partial(spark_job, self.lake),
            INDEX: partial(index, self.path),
        }


def peer(path: Path, tool: str = "", verbose: str = "-v") -> Run:
    """`mysqlbinlog -v`, which prints every row; or another server's tool."""
    return quietly([tool or program("mysqlbinlog"), "--base64-output=DECODE-ROWS", verbose, path])


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
            for step in decode_blocks(
                RowReader(binlog, plans).read_blocks(read_windows(binlog, whole.ranges())), binlog.name
            ):
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
        runs = {PEER: partial(peer, path), TO_PARQUET: partial(to_parquet, path)}
        to_parquet(path)
        found = interleaved(runs, rounds)
        rows = 419_900
        print_ratios("demo", found, megabytes=path.stat().st_size / 1e6, rows=rows, base=PEER)


@contextmanager
def servers(folder: Path) -> Iterator[dict[str, MysqlServer]]:
    """The servers that write binlogs, by family; MariaDB if it is installed."""
    size = "--max-binlog-size=1G"
    with start_server(folder / "mysql", size) as mysql:
        if not PREFIXES["11.8"].exists():
            yield {MYSQL: mysql}
            return
        with start_mariadb(folder / "mariadb", "11.8", size) as mariadb:
            yield {MYSQL: mysql, MARIADB: mariadb}


def write(server: MysqlServer, family: str, folder: Path, workload: Workload, megabytes: int) -> Written:
    """A binlog of a workload, with what its readers need beside it."""
    path = make(server, workload, megabytes)
    write_definitions(server, path, f"bench_{workload.name}")
    return Written(family, server, path, make_lake(folder / f"{workload.name}-{server.port}", path))


def workloads(megabytes: int, rounds: int) -> None:
    """Two kinds of tables."""
    with tempfile.TemporaryDirectory() as folder, servers(Path(folder)) as running:
        for workload in WORKLOADS:
            files = [write(server, family, Path(folder), workload, megabytes) for family, server in running.items()]
            runs = {(one.family, name): once for one in files for name, once in one.runs().items()}
            to_parquet(files[0].path)
            found = interleaved(runs, rounds)
            for one in files:
                own = {name: found[one.family, name] for name in one.runs()}
                title = f"{workload.name}, {one.family}"
                size = one.path.stat().st_size / 1e6
                print_ratios(title, own, megabytes=size, rows=_rows(own[TO_ARROW]), base=PEERS[one.family])
            print_replication(running[MYSQL], files[0].path)
            if MARIADB in running:
                print_families(found)


def print_replication(server: MysqlServer, path: Path) -> None:
    """What python-mysql-replication does of a file."""
    slow = replication(server, path)
    rate = int(slow.output) / slow.seconds
    print(f"{'python-mysql-replication, of MySQL':44}{'':9}{rate:13,.0f}{'':8}{slow.megabytes:9.0f}")


def print_families(found: dict[tuple[str, str], list[Run]]) -> None:
    """The time that a row of MariaDB's file takes, beside one of MySQL's: the median of the rounds' own ratios."""
    rows = {family: _rows(found[family, TO_ARROW]) for family in (MYSQL, MARIADB)}
    print(f"\n{'a row of MariaDB in times of a row of MySQL':44}{'seconds':>9}{'CPU':>9}")
    for name in (TO_ARROW, TO_PARQUET, TO_DELTA, INDEX):
        pairs = list(zip(found[MYSQL, name], found[MARIADB, name], strict=True))
        per_row = rows[MYSQL] / rows[MARIADB]
        seconds = statistics.median(other.seconds / one.seconds for one, other in pairs) * per_row
        cpu = statistics.median(other.cpu_seconds / one.cpu_seconds for one, other in pairs) * per_row
        print(f"{name:44}{seconds:9.2f}{cpu:9.2f}")


def _rows(runs: list[Run]) -> int:
    return int(runs[0].output)


def main(arguments: list[str]) -> None:
    """Prints a table a workload."""
    megabytes, rounds = (int(arguments[0]) if arguments else 200), (int(arguments[1]) if arguments[1:] else 5)
    demo(rounds)
    workloads(megabytes, rounds)
