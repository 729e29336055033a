"""Groups of sources: what the merge costs over reading the same sources one after the other (in one process, and by
the command), what idle ones cost to read and to follow, and how far the watermark is behind where one source writes and
two are silent.

Run it: `python -m bench groups [TRANSACTIONS] [ROUNDS]` (defaults 20000 and 21): three servers' landed streams, written
at the same time, as lines, again and again in turn; besides them ten sources that have nothing. Then one server that is
written to is followed, beside one that is idle and beside ten.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from bench.timing import Run, interleaved, python, quietly
from strata_cdc.groups.stream import GroupHeartbeat
from strata_cdc.streams.events import RowChange
from tests.groups.world import Shards
from tests.mysql_server import start_server
from tests.streams.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.mysql_server import MysqlServer

_HEARTBEAT, _ROWS, _COMMANDS = 1.0, 20, 5
_REPEATED = """
import gc, json, sys, time
from pathlib import Path
from tests.mysql_server import MysqlServer
from tests.streams.world import World
from tests.groups.world import Shards
gc.set_threshold(50_000)  # as the command has it
folder, rounds = Path(sys.argv[1]), int(sys.argv[2])
names = [f"busy_{at}" for at in range(3)] + [f"idle_{at}" for at in range(10)]
worlds = [World(MysqlServer(folder, int(sys.argv[3]), None), folder / name, name) for name in names]
def alone(): return sum(len(lines) for world in worlds[:3] for lines in world.stream(until="landed").written())
def together(count): return sum(len(lines) for lines in Shards(worlds[:count]).stream(until="landed").written())
runs = {
    "three, one after the other": alone,
    "three merged": lambda: together(3),
    "three merged, ten idle": lambda: together(13),
}
found = {name: [] for name in runs}
for at in range(rounds + 2):
    for name, read in runs.items():
        begin, cpu = time.perf_counter(), time.process_time()
        size = read()
        # The first time everything is new.
        if at > 1:
            found[name].append((time.perf_counter() - begin, time.process_time() - cpu, size))
print(0, json.dumps(found))
"""


def main(arguments: list[str]) -> None:
    """Prints seconds and CPU seconds of each, and the ratios."""
    transactions, rounds = (*map(int, arguments), *(20_000, 21)[len(arguments) :])
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        port = _write(folder, transactions)
        done = python(_REPEATED, folder, str(rounds), str(port))
        _print_repeated(json.loads(done.output))
        _print_commands(interleaved(_commands(folder), _COMMANDS))
        _follow(folder)
        _follow_beside_idle(folder)


def _print_repeated(found: dict[str, list[tuple[float, float, int]]]) -> None:
    bases: list[float] = []
    for name, every in found.items():
        seconds, cpu, sizes = (list(column) for column in zip(*every, strict=True))
        bases = bases or seconds
        least, median = min(seconds), statistics.median(seconds)
        print(
            f"{name:28} least {least:5.3f} s ({least / min(bases):.3f} of the first), median {median:5.3f} s "
            f"({median / statistics.median(bases):.3f}), CPU {statistics.median(cpu):5.3f} s, "
            f"{sizes[0] / 1e6:,.0f} MB of lines"
        )


def _commands(folder: Path) -> dict[str, Callable[[], Run]]:
    """The same as people get it: a command for each source, and one for the group."""
    names = [f"busy_{at}" for at in range(3)]
    lake, settings = folder / "lake", [f'lake = "{folder}/lake"']
    (lake / "landing").mkdir(parents=True)
    for name in names:
        (lake / "landing" / name).symlink_to(folder / name / "lake" / "landing" / name)
        settings += [f"[sources.{name}]", 'connection = "none"', f'store = "sqlite:///{folder}/{name}/store.db"']
    (folder / "strata.toml").write_text("\n".join([*settings, "[groups.all]", f"sources = {json.dumps(names)}"]))
    os.environ |= {"STRATA_SETTINGS": str(folder / "strata.toml"), "AIRFLOW_CONN_NONE": "mysql://root@127.0.0.1:1/"}
    return {
        "three commands, one after the other": lambda: _together([_stream("--source", name) for name in names]),
        "one command, merged": lambda: _stream("--group", "all"),
    }


def _stream(*what: str) -> Run:
    return quietly(["strata", "stream", *what, "--from", "beginning", "--until", "landed"])


def _together(runs: list[Run]) -> Run:
    return Run(sum(one.seconds for one in runs), 0, sum(one.cpu_seconds for one in runs))


def _print_commands(found: dict[str, list[Run]]) -> None:
    for name, every in found.items():
        print(f"{name:36} CPU {statistics.median(one.cpu_seconds for one in every):6.2f} s with their start")


def _write(folder: Path, transactions: int) -> int:
    """Lands three servers that are written to at the same time, so that the merge turns at each transaction or two, and
    ten that have a database only. Returns a port."""
    with ExitStack() as stack:
        names = [f"busy_{at}" for at in range(3)]
        with ThreadPoolExecutor() as pool:
            started = pool.map(lambda name: start_server(folder / f"server_{name}"), names)
            servers = [stack.enter_context(server) for server in started]
            list(pool.map(partial(_live, transactions=transactions), servers))
        for name, server in zip(names, servers, strict=True):
            _land(server, folder, name)
        for at in range(10):
            # Each has transactions of its own, and the UUID of a server of its own.
            uuid, last = uuid4(), 1_000_000 + at
            server.run_sql("RESET BINARY LOGS AND GTIDS")
            server.run_sql(f"SET GLOBAL gtid_purged = '{uuid}:1-{last}'")
            server.run_sql(f"SET gtid_next = '{uuid}:{last + 1}'; CREATE DATABASE IF NOT EXISTS nothing")
            _land(server, folder, f"idle_{at}")
        return server.port


def _live(server: MysqlServer, transactions: int) -> None:
    server.run_sql(
        "CREATE DATABASE d; USE d; CREATE TABLE t (id BIGINT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(40))"
    )
    with server.connect("d") as connection, connection.cursor() as cursor:
        cursor.execute(
            "CREATE PROCEDURE p (n INT) BEGIN WHILE n > 0 DO START TRANSACTION; INSERT INTO t (a, b) VALUES"
            " (n, 'something that is said'), (n, 'and more of it'); UPDATE t SET a = -1 WHERE id = n; COMMIT;"
            " SET n = n - 1; END WHILE; END"
        )
        cursor.execute(f"CALL p({transactions})")


def _land(server: MysqlServer, folder: Path, name: str) -> None:
    (folder / name).mkdir()
    world = World(server, folder / name, name, segment_bytes=256 << 20)
    world.land()
    world.track()


def _follow(folder: Path) -> None:
    """Prints how long a row takes from its commit to its line where the two other servers are silent: the watermark
    has to come to it, by their positions."""
    with ExitStack() as stack:
        worlds = []
        for name in ("one", "two", "three"):
            server = stack.enter_context(start_server(folder / name))
            server.run_sql("CREATE DATABASE d; CREATE TABLE d.t (at DOUBLE)")
            worlds.append(World(server, folder / f"{name}_world", name))
            worlds[-1].folder.mkdir()
        stream = Shards(worlds, options={"heartbeat_seconds": _HEARTBEAT}).stream("now", follow=True)
        cursor = stack.enter_context(worlds[1].server.connect("d")).cursor()
        took: list[float] = []
        for event in stream:
            if isinstance(event, RowChange) and event.after:
                took.append(time.time() - event.after["at"])
            if isinstance(event, RowChange | GroupHeartbeat):
                # At any moment of the others' heartbeats.
                time.sleep(len(took) % 10 / 10)
                cursor.execute("INSERT INTO t VALUES (%s)", [time.time()])
            if len(took) >= _ROWS:
                stream.close()
    print(
        f"from commit to line beside two silent servers, heartbeats of {_HEARTBEAT} s: median "
        f"{statistics.median(took):.2f} s, most {max(took):.2f} s"
    )


def _follow_beside_idle(folder: Path) -> None:
    """Prints the CPU of a reader that follows one busy server, beside one that is idle and beside ten: a row waits for
    the others' heartbeats in both."""
    names = ["busy", *(f"idle_{at}" for at in range(10))]
    with ExitStack() as stack:
        worlds = []
        for name in names:
            server = stack.enter_context(start_server(folder / f"{name}_server", "--innodb-buffer-pool-size=32M"))
            server.run_sql("CREATE DATABASE d; CREATE TABLE d.t (id BIGINT PRIMARY KEY AUTO_INCREMENT)")
            worlds.append(World(server, folder / f"{name}_followed", name))
            worlds[-1].folder.mkdir()
        # The end of the server ends it: to close a connection in use waits for what it runs.
        cursor = worlds[0].server.connect("d").cursor()
        cursor.execute("CREATE PROCEDURE p () BEGIN LOOP INSERT INTO t VALUES (); DO SLEEP(0.005); END LOOP; END")
        writer = Thread(target=partial(_until_killed, cursor), daemon=True)
        writer.start()
        for count in (2, 11, 2, 11):
            stream = Shards(worlds[:count], options={"heartbeat_seconds": _HEARTBEAT}).stream("now", follow=True)
            reader = Thread(target=lambda stream=stream: deque(stream.written(), 0))
            reader.start()
            time.sleep(3)
            begin, cpu = time.perf_counter(), time.process_time()
            time.sleep(10)
            share = (time.process_time() - cpu) / (time.perf_counter() - begin)
            stream.close()
            reader.join()
            print(f"followed beside {count - 1:2} idle, heartbeats of {_HEARTBEAT} s: {share:.2%} of a core")


def _until_killed(cursor: Any) -> None:
    with suppress(Exception):
        cursor.execute("CALL p()")


if __name__ == "__main__":
    main(sys.argv[1:])
