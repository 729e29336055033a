"""Update streams: how soon after its commit a change is at a reader, and how fast one catches up from what has landed,
beside `mysqlbinlog -v` on the same file.

Run it: `python -m bench streams [MEGABYTES] [ROUNDS] [SECONDS]` (defaults 200, 3 and 15).
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from bench.decode import PEER, peer
from bench.timing import Run, interleaved, print_ratios, python
from bench.workloads import WORKLOADS, make
from bench.writers import make_writer, writing
from scripts.ports import free_port
from tests.mysql_server import MysqlServer, start_server
from tests.streams.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_READERS = 100
_SECRET = "a-token-of-the-measurement-alone"
_PATIENCE_SECONDS = 60
_WORLD = """
import sys, time
from pathlib import Path
from scripts.ports import free_port
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
_DELAYS = """
import json, time
delays = []
def take(lines):
    now = time.time()
    for line in lines:
        if b'"commit":true' in line:
            at = json.loads(line[line.index(b"{"):])["committed_at"][17:26]
            delays.append((now - float(at)) % 60)
def is_over():
    return select.select([sys.stdin], [], [], 0)[0]
def report():
    print(json.dumps(sorted(delays)))
"""
_IN_PROCESS = (
    _WORLD
    + _DELAYS
    + """
import select
print("ready", flush=True)
for written in world.stream("now", follow=True).written():
    take(written.splitlines())
    if is_over():
        break
report()
"""
)
_OVER_HTTP = (
    "import select, socket, sys\n"
    + _DELAYS
    + """
def lines():
    rest = b""
    while not is_over():
        # Chunks of HTTP end with an event, so their heads are lines of their own.
        *whole, rest = (rest + reader.recv(1 << 20)).split(b"\\n")
        yield whole
reader = socket.socket(fileno=int(sys.argv[1]))
for some in lines():
    take(some)
report()
"""
)


def delay(seconds: float) -> None:
    """From the commit on the server to the line at a reader in another process: one that decodes himself, and one that
    reads over HTTP."""
    with tempfile.TemporaryDirectory() as folder, start_server(Path(folder) / "server") as server:
        server.run_sql(
            "CREATE DATABASE d; USE d; CREATE TABLE t (a BIGINT PRIMARY KEY AUTO_INCREMENT, b INT, c VARCHAR(40));"
        )
        make_writer(server, "INSERT INTO t (b, c) VALUES (1, 'something that is said')")
        world = _landed(server, folder)
        command = [sys.executable, "-c", _IN_PROCESS, str(server.port), folder]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
            assert reader.stdout is not None
            reader.stdout.readline()
            _print_delays("commit to line", _delays(reader, server, seconds), seconds)
        with _serving(world) as serving, _reader(serving.port) as connection:
            command = [sys.executable, "-c", _OVER_HTTP, str(connection.fileno())]
            with subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[connection.fileno()]
            ) as reader:
                time.sleep(2)
                _print_delays("over HTTP", _delays(reader, server, seconds), seconds)


def _landed(server: MysqlServer, folder: str) -> World:
    world = World(server, Path(folder))
    world.land()
    world.track()
    return world


def _delays(reader: subprocess.Popen[bytes], server: MysqlServer, seconds: float) -> list[float]:
    assert reader.stdin is not None
    assert reader.stdout is not None
    with writing(server, seconds):
        pass
    reader.stdin.close()
    # One more wakes it.
    server.run_sql("INSERT INTO d.t (b, c) VALUES (1, 'the last')")
    found: list[float] = json.loads(reader.stdout.read())
    return found


def _print_delays(what: str, delays: Sequence[float], seconds: float) -> None:
    found = [1000 * one for one in delays]
    last = found[int(0.99 * len(found))]
    print(
        f"{what} at {len(found) / seconds:,.0f} transactions a second: "
        f"median {statistics.median(found):.1f} ms, 99th percentile {last:.1f} ms, slowest {found[-1]:.1f} ms"
    )


@dataclass
class _Serving:
    port: int
    process: psutil.Process


@contextmanager
def _serving(world: World) -> Iterator[_Serving]:
    """`strata serve` of a world."""
    settings = world.folder / "strata.toml"
    settings.write_text('lake = "lake"\nstore = "sqlite:///store.db"\n[sources.s]\nconnection = "c"\n')
    port = free_port()
    environment = os.environ | {
        "STRATA_SETTINGS": str(settings),
        "AIRFLOW_CONN_C": f"mysql://root@127.0.0.1:{world.server.port}/",
        "STRATA_SERVE_TOKEN": _SECRET,
    }
    command = [str(Path(sys.executable).with_name("strata")), "serve", "--port", str(port)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as started:
        try:
            yield _Serving(port, psutil.Process(started.pid))
        finally:
            started.terminate()


def idle(seconds: float) -> None:
    """What readers over HTTP cost while nothing happens."""
    with tempfile.TemporaryDirectory() as folder, start_server(Path(folder) / "server") as server:
        server.run_sql("CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY)")
        with _serving(_landed(server, folder)) as serving, ExitStack() as stack:
            for _ in range(_READERS):
                stack.enter_context(_reader(serving.port))
            time.sleep(2)
            before = sum(serving.process.cpu_times()[:2])
            time.sleep(seconds)
            cost = (sum(serving.process.cpu_times()[:2]) - before) / seconds
    print(f"{_READERS} idle readers over HTTP: {100 * cost:.2f}% of a core")


def _reader(port: int) -> socket.socket:
    """One that has been let in."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            found = socket.create_connection(("127.0.0.1", port), _PATIENCE_SECONDS)
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
            continue
        found.sendall(f"GET /api/streams/s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {_SECRET}\r\n\r\n".encode())
        assert found.recv(100).startswith(b"HTTP/1.1 200")
        found.settimeout(None)
        return found


def catching_up(megabytes: int, rounds: int) -> None:
    """What has landed, by one reader in one process."""
    with (
        tempfile.TemporaryDirectory() as folder,
        start_server(Path(folder) / "server", "--max-binlog-size=1G") as server,
    ):
        makers = {workload.name: partial(make, server, workload, megabytes) for workload in WORKLOADS}
        makers["each row a transaction"] = partial(_make_single, server, megabytes // 10)
        for name, maker in makers.items():
            server.run_sql("RESET BINARY LOGS AND GTIDS")
            path = maker()
            position = Path(folder) / name
            position.mkdir()
            world = World(server, position, segment_bytes=256 << 20)
            world.land()
            world.track()
            runs = {
                PEER: partial(peer, path),
                "landed to Arrow": partial(_run, _ARROW, world),
                "landed to JSON lines": partial(_run, _LINES, world),
            }
            found = interleaved(runs, rounds)
            rows = int(found["landed to Arrow"][0].output)
            print_ratios(name, found, megabytes=path.stat().st_size / 1e6, rows=rows, base=PEER)


def _make_single(server: MysqlServer, megabytes: int) -> Path:
    """A binlog of about that size, of transactions of one row each."""
    server.run_sql("CREATE DATABASE d; CREATE TABLE d.t (a BIGINT PRIMARY KEY AUTO_INCREMENT, b INT, c VARCHAR(40))")
    with server.connect("d") as connection, connection.cursor() as cursor:
        cursor.execute(
            "CREATE PROCEDURE p (left_ INT) BEGIN WHILE left_ > 0 DO"
            " INSERT INTO t (b, c) VALUES (left_, 'something that is said'); SET left_ = left_ - 1; END WHILE; END"
        )
        path = server.binlogs()[-1]
        while path.stat().st_size < megabytes << 20:
            cursor.execute("CALL p(5000)")
    server.run_sql("FLUSH BINARY LOGS")
    return path


def _run(code: str, world: World) -> Run:
    return python(code, str(world.server.port), str(world.folder))


def main(arguments: list[str]) -> None:
    """Prints the delays, and a table a workload."""
    numbers = [int(one) for one in arguments]
    megabytes, rounds, seconds = (*numbers, *(200, 3, 15)[len(numbers) :])
    delay(seconds)
    idle(seconds)
    catching_up(megabytes, rounds)
