"""Update streams: how soon after its commit a change is at a reader, and how fast one catches up from what has landed,
beside `mysqlbinlog -v` on the same file.

Run it: `python -m bench streams [MEGABYTES] [ROUNDS] [SECONDS]` (defaults 100, 3 and 15).
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.decode import PEER, peer
from bench.timing import Run, interleaved, print_ratios, python
from bench.workloads import WORKLOADS, make
from tests.mysql_server import MysqlServer, start_server
from tests.streams.world import World

if TYPE_CHECKING:
    from collections.abc import Sequence

RATE = 2000
"""Transactions a second."""
_WRITERS = 5
_WORLD = """
import sys, time
from pathlib import Path
from tests.mysql_server import MysqlServer
from tests.streams.world import World
world = World(MysqlServer(Path("."), int(sys.argv[1]), None), Path(sys.argv[2]))
"""
_ARROW = (
    _WORLD
    + """
def rows():
    spans = world.stream(until="landed").spans()
    return sum(batch.batch.num_rows for span in spans for batch in span.batches)
rows()
begin = time.perf_counter()
found = rows()
print(time.perf_counter() - begin, found)
"""
)
_LINES = (
    _WORLD
    + """
def size():
    return sum(map(len, world.stream(until="landed").written()))
begin = time.perf_counter()
found = size()
print(time.perf_counter() - begin, found)
"""
)
_DELAYS = (
    _WORLD
    + """
import json
delays = []
stream = world.stream("now", follow=True)
print("ready", flush=True)
for written in stream.written():
    now = time.time()
    for line in written.splitlines():
        if b'"commit":true' in line:
            at = json.loads(line)["committed_at"][17:26]
            delays.append((now - float(at)) % 60)
    if sys.stdin in __import__("select").select([sys.stdin], [], [], 0)[0]:
        break
delays.sort()
print(json.dumps(delays))
"""
)


def delay(seconds: float) -> None:
    """From the commit on the server to the line at a reader in another process."""
    with tempfile.TemporaryDirectory() as folder, start_server(Path(folder) / "server") as server:
        server.run_sql(
            "CREATE DATABASE d; USE d; CREATE TABLE t (a BIGINT PRIMARY KEY AUTO_INCREMENT, b INT, c VARCHAR(40));"
        )
        with server.connect("d") as connection, connection.cursor() as cursor:
            cursor.execute(
                "CREATE PROCEDURE p (pause DOUBLE, until DOUBLE) BEGIN WHILE UNIX_TIMESTAMP(SYSDATE(6)) < until DO"
                " INSERT INTO t (b, c) VALUES (1, 'something that is said'); DO SLEEP(pause); END WHILE; END"
            )
        world = World(server, Path(folder))
        world.land()
        world.track()
        command = [sys.executable, "-c", _DELAYS, str(server.port), folder]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
            assert reader.stdout is not None
            assert reader.stdin is not None
            reader.stdout.readline()
            writers = [threading.Thread(target=_write, args=(server, seconds)) for _ in range(_WRITERS)]
            for writer in writers:
                writer.start()
            for writer in writers:
                writer.join()
            reader.stdin.close()
            # A heartbeat wakes it.
            delays = json.loads(reader.stdout.read())
    _print_delays(delays, seconds)


def _write(server: MysqlServer, seconds: float) -> None:
    with server.connect("d") as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION max_execution_time = 0")
        pause = _WRITERS / RATE - 0.0004
        cursor.execute(f"CALL p({pause}, UNIX_TIMESTAMP(SYSDATE(6)) + {seconds})")


def _print_delays(delays: Sequence[float], seconds: float) -> None:
    found = [1000 * one for one in delays]
    last = found[int(0.99 * len(found))]
    print(
        f"commit to line at {len(found) / seconds:,.0f} transactions a second: "
        f"median {statistics.median(found):.1f} ms, 99th percentile {last:.1f} ms, slowest {found[-1]:.1f} ms"
    )


def catching_up(megabytes: int, rounds: int) -> None:
    """What has landed, by one reader in one process."""
    with (
        tempfile.TemporaryDirectory() as folder,
        start_server(Path(folder) / "server", "--max-binlog-size=1G") as server,
    ):
        for workload in WORKLOADS:
            server.run_sql("RESET BINARY LOGS AND GTIDS")
            path = make(server, workload, megabytes)
            place = Path(folder) / workload.name
            place.mkdir()
            world = World(server, place, segment_bytes=256 << 20)
            world.land()
            world.track()
            runs = {
                PEER: partial(peer, path),
                "landed to Arrow": partial(_run, _ARROW, world),
                "landed to JSON lines": partial(_run, _LINES, world),
            }
            found = interleaved(runs, rounds)
            rows = int(found["landed to Arrow"][0].output)
            print_ratios(workload.name, found, megabytes=path.stat().st_size / 1e6, rows=rows, base=PEER)


def _run(code: str, world: World) -> Run:
    return python(code, str(world.server.port), str(world.folder))


def main(arguments: list[str]) -> None:
    """Prints the delays, and a table a workload."""
    numbers = [int(one) for one in arguments]
    megabytes, rounds, seconds = (*numbers, *(100, 3, 15)[len(numbers) :])
    delay(seconds)
    catching_up(megabytes, rounds)
