"""How fast a server's stream lands, beside `mysqlbinlog --read-from-remote-server --raw` on the same stream.

Run it: `python -m bench landing [MEGABYTES] [ROUNDS]` (defaults 400 and 5). Start-up is included for both; the streams
are read in turn. Then: look-ups of positions in what has landed.
"""

from __future__ import annotations

import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from bench.decode import WORKLOADS, make
from bench.timing import as_a_user, watch_memory
from strata.events.landed import LandedStream
from strata.jobs.progress.find_position import find_position
from tests.mysql_server import MysqlServer, program, start_server

LOOKUPS = 200
LAND = """
import json, sys
from strata.jobs.land.land_binlog import land_binlog
from strata.values import to_plain
from strata.wire.connection import ServerAddress
print(json.dumps(to_plain(land_binlog(ServerAddress("127.0.0.1", int(sys.argv[1])), lake=sys.argv[2], source="s"))))
"""


@dataclass(frozen=True)
class Run:
    """One reading of the whole stream."""

    seconds: float
    cpu_seconds: float
    memory_mb: float
    """Largest resident set, shared libraries and mapped pages of files included."""
    megabytes: float
    """What was written."""


def timed(command: list[str], folder: Path) -> Run:
    """Runs a command that fills a folder."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=as_a_user())
    seen, over = [0], threading.Event()
    watcher = threading.Thread(target=watch_memory, args=(process.pid, seen, over))
    watcher.start()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    over.set()
    watcher.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    written = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return Run(seconds, usage.ru_utime + usage.ru_stime, seen[0] / 1e6, written / 1e6)


def by_strata(server: MysqlServer, folder: Path) -> Run:
    """`strata land` into an empty lake: checksums verified, transactions indexed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return timed([sys.executable, "-c", LAND, str(server.port), str(folder)], folder)


def by_mysqlbinlog(server: MysqlServer, folder: Path) -> Run:
    """MySQL's own client, which copies the files."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    options = ["--no-defaults", "--read-from-remote-server", "--raw", "--to-last-log", f"--result-file={folder}/"]
    login = [f"--host={server.host}", f"--port={server.port}", "--user=root"]
    return timed([program("mysqlbinlog"), *options, *login, server.binlogs()[0].name], folder)


def look_ups(lake: Path) -> dict[str, float]:
    """Positions found in a second, by each of their forms; the stream is opened anew for each, as a command does."""
    stream = LandedStream.open(str(lake), "s")
    chance = random.Random(1)
    points = [find_position(str(lake), "s", gtid_set=str(stream.executed_at(chance.randrange(1, stream.last_seq))))
              for _ in range(LOOKUPS)]  # fmt: skip
    times = [chance.randrange(stream.record_at(1)[1].committed_at, stream.clock) for _ in range(LOOKUPS)]
    asked = {
        "time": [{"time": micros} for micros in times],
        "GTID set": [{"gtid_set": point.gtid_executed} for point in points],
        "file and offset": [{"file": point.binlog_position} for point in points],
    }
    found = {}
    for name, questions in asked.items():
        started = time.perf_counter()
        for question in questions:
            find_position(str(lake), "s", **question)
        found[name] = LOOKUPS / (time.perf_counter() - started)
    return found


def main(arguments: list[str]) -> None:
    """Makes a stream and prints a table."""
    megabytes = int(arguments[0]) if arguments else 400
    rounds = int(arguments[1]) if len(arguments) > 1 else 5
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as name, start_server(Path(name), "--max-binlog-size=1G") as server:
        folder = Path(name)
        make(server, WORKLOADS[0], megabytes)
        by_strata(server, folder / "lake")
        pairs = [(by_mysqlbinlog(server, folder / "raw"), by_strata(server, folder / "lake")) for _ in range(rounds)]
        stream = LandedStream.open(str(folder / "lake"), "s")
        print(f"{stream.last_seq:,} transactions; medians of {rounds} runs in turn")
        print(f"{'':24}{'seconds':>9}{'MB/s':>8}{'CPU s':>8}{'memory MB':>11}")
        for label, runs in zip(("mysqlbinlog --raw", "strata land"), zip(*pairs, strict=True), strict=True):
            seconds, cpu, memory, written = (
                statistics.median(getattr(run, field) for run in runs)
                for field in ("seconds", "cpu_seconds", "memory_mb", "megabytes")
            )
            print(f"{label:24}{seconds:9.2f}{written / seconds:8.0f}{cpu:8.2f}{memory:11.0f}")
        ratio = statistics.median(peer.seconds / own.seconds for peer, own in pairs)
        print(f"strata lands at {ratio:.2f} times the speed of mysqlbinlog")
        for form, rate in look_ups(folder / "lake").items():
            print(f"positions by {form:17}{rate:8.0f} a second")


if __name__ == "__main__":
    main(sys.argv[1:])
