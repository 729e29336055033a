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
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.timing import Run, quietly
from bench.workloads import WORKLOADS, make
from scripts.mysql import program
from strata_cdc.landing.landed import LandedStream
from strata_cdc.progress.find_position import find_position
from tests.mysql_server import MysqlServer, start_server

if TYPE_CHECKING:
    from collections.abc import Callable

LOOKUPS = 200
LAND = """
import json, sys
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.values import to_plain
from strata_cdc.binlog.protocol.connection import ServerAddress
print(json.dumps(to_plain(land_binlog(ServerAddress("127.0.0.1", int(sys.argv[1])), lake=sys.argv[2], source="s"))))
"""


def by_strata(server: MysqlServer, folder: Path) -> Run:
    """`strata land` into an empty lake: checksums verified, transactions indexed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return quietly([sys.executable, "-c", LAND, str(server.port), str(folder)])


def by_mysqlbinlog(server: MysqlServer, folder: Path) -> Run:
    """MySQL's own client, which copies the files."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    options = ["--no-defaults", "--read-from-remote-server", "--raw", "--to-last-log", f"--result-file={folder}/"]
    login = [f"--host={server.host}", f"--port={server.port}", "--user=root"]
    return quietly([program("mysqlbinlog"), *options, *login, server.binlogs()[0].name])


def look_ups(lake: Path) -> dict[str, float]:
    """Positions found in a second, by each of their forms; the stream is opened anew for each, as a command does."""
    stream = LandedStream.open(str(lake), "s")
    chance = random.Random(1)
    points = [find_position(str(lake), "s", gtid_set=str(stream.executed_at(chance.randrange(1, stream.last_seq))))
              for _ in range(LOOKUPS)]  # fmt: skip
    times = [chance.randrange(stream.record_at(1)[1].committed_at, stream.clock) for _ in range(LOOKUPS)]
    look_ups_by_form: dict[str, list[Callable[[], object]]] = {
        "time": [partial(find_position, str(lake), "s", time=micros) for micros in times],
        "GTID set": [partial(find_position, str(lake), "s", gtid_set=point.gtid_executed) for point in points],
        "file and offset": [partial(find_position, str(lake), "s", file=point.binlog_position) for point in points],
    }
    found = {}
    for name, questions in look_ups_by_form.items():
        started = time.perf_counter()
        for question in questions:
            question()
        found[name] = LOOKUPS / (time.perf_counter() - started)
    return found


def main(arguments: list[str]) -> None:
    """Makes a stream and prints a table."""
    megabytes = int(arguments[0]) if arguments else 400
    look_ups_by_form = int(arguments[1]) if len(arguments) > 1 else 5
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as name, start_server(Path(name), "--max-binlog-size=1G") as server:
        folder = Path(name)
        make(server, WORKLOADS[0], megabytes)
        by_strata(server, folder / "lake")
        pairs = [
            (by_mysqlbinlog(server, folder / "raw"), by_strata(server, folder / "lake"))
            for _ in range(look_ups_by_form)
        ]
        stream = LandedStream.open(str(folder / "lake"), "s")
        print(f"{stream.last_seq:,} transactions; medians of {look_ups_by_form} runs in turn")
        print(f"{'':24}{'seconds':>9}{'MB/s':>8}{'CPU s':>8}{'memory MB':>11}")
        for label, position, runs in (
            ("mysqlbinlog --raw", "raw", [peer for peer, _ in pairs]),
            ("strata land", "lake", [own for _, own in pairs]),
        ):
            seconds = statistics.median(run.seconds for run in runs)
            cpu = statistics.median(run.cpu_seconds for run in runs)
            memory = statistics.median(run.megabytes for run in runs)
            written = sum(path.stat().st_size for path in (folder / position).rglob("*") if path.is_file()) / 1e6
            print(f"{label:24}{seconds:9.2f}{written / seconds:8.0f}{cpu:8.2f}{memory:11.0f}")
        ratio = statistics.median(peer.seconds / own.seconds for peer, own in pairs)
        print(f"strata lands at {ratio:.2f} times the speed of mysqlbinlog")
        for form, rate in look_ups(folder / "lake").items():
            print(f"positions by {form:17}{rate:8.0f} a second")


if __name__ == "__main__":
    main(sys.argv[1:])
