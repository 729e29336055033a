"""Whether a long backlog costs as much for each byte as a short one: one run of one and of two gigabytes, from landing
to publication, in threads or on Spark.

Run it: `python -m bench backlog [ENGINE] [MEGABYTES...]` (default local 1024 2048; `spark` is local[2], a driver of
1 GB). A server writes a hundred megabytes; the rest are copies with transactions of other servers.
"""

from __future__ import annotations

import os
import shutil
import struct
import sys
import tempfile
import threading
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

import psutil

from bench.workloads import WORKLOADS, make
from strata_cdc.binlog.events.gtid import encode_gtid_set
from strata_cdc.cli.engine_steps import EngineSteps
from strata_cdc.config.engines import Engine
from strata_cdc.config.settings import load_settings
from strata_cdc.landing.land_files import land_files
from strata_cdc.pipeline import ingest
from strata_cdc.pipeline.plan.pending import WorkChoice
from strata_cdc.position.executed import parse_executed
from strata_cdc.store.database import open_store
from strata_cdc.tracking.track_schema import track_landed
from tests.mysql_server import start_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PREVIOUS, _GTID, _QUERY = 35, 33, 2
_HEADER = struct.Struct("<IBIIIH")
PART_MB = 100
"""What the server writes itself."""


def events(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and bytes, with the checksum, of each event of a file."""
    at = 4
    while at < len(content):
        _, kind, _, length, _, _ = _HEADER.unpack_from(content, at)
        yield kind, content[at : at + length]
        at += length


def transactions(content: bytes) -> tuple[list[bytes], list[bytes], list[int]]:
    """The events before the first transaction, those of all transactions after the last DDL, and their numbers."""
    every = list(events(content))
    begins = [at for at, (kind, _) in enumerate(every) if kind == _GTID]
    ddl = max(at for at, (kind, event) in enumerate(every) if kind == _QUERY and not event[:-4].endswith(b"BEGIN"))
    first = next(at for at in begins if at > ddl)
    numbers = [struct.unpack_from("<q", every[at][1], _HEADER.size + 17)[0] for at in begins if at >= first]
    return [event for _, event in every[: begins[0]]], [event for _, event in every[first:]], numbers


def copied(wanted: list[bytes], server: UUID, executed: str) -> bytes:
    """A binlog of these events, with transactions of another server after others."""
    out = bytearray(b"\xfebin")
    for event in wanted:
        kind = event[4]
        head, body = _HEADER.unpack_from(event), bytearray(event[_HEADER.size : -4])
        if kind == _PREVIOUS:
            body = bytearray(encode_gtid_set(parse_executed(executed)))
        if kind == _GTID:
            body[1:17] = server.bytes
        length = _HEADER.size + len(body) + 4
        made = _HEADER.pack(*head[:3], length, len(out) + length, head[5]) + body
        out += made + zlib.crc32(made).to_bytes(4, "little")
    return bytes(out)


def write_archive(folder: Path, first: list[Path], megabytes: int) -> None:
    """The server's own files, and as many copies of the last as it takes."""
    folder.mkdir()
    content = first[-1].read_bytes()
    for path in first:
        (folder / path.name).write_bytes(path.read_bytes())
    number = int(first[-1].suffix[1:])
    head, rows, numbers = transactions(content)
    own = UUID(bytes=rows[0][_HEADER.size + 1 : _HEADER.size + 17])
    executed = [f"{own}:1-{max(numbers)}"]
    for copy in range(1, max(1, megabytes // PART_MB)):
        server = uuid5(own, str(copy))
        data = copied([*head, *rows], server, ",".join(executed))
        (folder / f"binlog.{number + copy:06}").write_bytes(data)
        executed.append(f"{server}:{min(numbers)}-{max(numbers)}")


def run(folder: Path, engine: Engine) -> dict[str, list[float]]:
    """CPU and clock seconds of each step of one run of what is in the archive; `rows` and `MB` are numbers of it."""
    path = folder / "strata.toml"
    path.write_text(f'lake = "{folder}/lake"\nstore = "sqlite:///{folder}/s.db"\n[sources.s]\nconnection = "x"\n')
    settings = load_settings({"STRATA_SETTINGS": str(path), "AIRFLOW_CONN_X": "mysql://u@127.0.0.1/"})
    source, found = settings.source("s"), dict[str, list[float]]()
    store = open_store(source.store_url)
    engine_steps = EngineSteps(source, engine)

    def timed(name: str, step: Callable[[], Any]) -> Any:
        begin, used = time.perf_counter(), _cpu_seconds()
        report = step()
        found[name] = [_cpu_seconds() - used, time.perf_counter() - begin]
        return report

    landed = timed("land", lambda: land_files(str(folder / "archive"), lake=source.lake, source="s"))
    timed("track", lambda: track_landed(source.lake, "s", store))
    planned = timed("plan", lambda: ingest.plan("s", None, None, settings=settings, choice=WorkChoice.PENDING))
    timed("decode", lambda: engine_steps.decode(planned.run))
    timed("check", lambda: engine_steps.check(planned.run))
    published = timed("publish", lambda: ingest.publish("s", planned.run, settings=settings))
    assert published.rows == planned.rows, (published.rows, planned.rows)
    found["MB"], found["rows"] = [landed.bytes / 1e6], [planned.rows]
    return found


def _cpu_seconds() -> float:
    """Of this process and of those that it has started and that ended."""
    return sum(os.times()[:4])


def main(arguments: list[str]) -> None:
    """Prints the steps of each size, and seconds of CPU for a gigabyte."""
    engine = Engine(arguments.pop(0)) if arguments and not arguments[0].isdecimal() else Engine.LOCAL
    sizes = [int(size) for size in arguments] or [1024, 2048]
    with tempfile.TemporaryDirectory(prefix="strata-backlog-") as text, start_server(Path(text) / "server") as server:
        written = make(server, WORKLOADS[0], PART_MB)
        files = [path for path in server.binlogs() if path.name <= written.name]
        for megabytes in (PART_MB, *sizes):
            folder = Path(text) / str(megabytes)
            folder.mkdir()
            write_archive(folder / "archive", files, megabytes)
            with _Peak() as peak:
                found = run(folder, engine)
            _show(found, peak)
            shutil.rmtree(folder)


def _show(found: dict[str, list[float]], peak: _Peak) -> None:
    (size,), (rows,) = found.pop("MB"), found.pop("rows")
    cpu, clock = (sum(seconds[at] for seconds in found.values()) for at in (0, 1))
    print(
        f"\n{size:,.0f} MB, {rows:,.0f} rows: {cpu:.1f} s CPU, {clock:.1f} s by the clock, peak "
        f"{peak.megabytes:,.0f} MB, with the processes that it starts {peak.tree_megabytes:,.0f} MB; CPU "
        f"{cpu / size * 1000:.1f} s for a GB, {cpu / rows * 1e6:.2f} us a row; {size / clock:.0f} MB/s",
        flush=True,
    )
    for step, times in found.items():
        print(f"    {step:10}{times[0]:8.2f}{times[1]:8.2f}", flush=True)


class _Peak(threading.Thread):
    """The most memory that this process, and it and its children (Spark's), hold while a block is done; the server is
    none of them."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._over, self.megabytes, self.tree_megabytes = threading.Event(), 0.0, 0.0
        self._process = psutil.Process()
        self._others = {child.pid for child in self._process.children(recursive=True)}

    def __enter__(self) -> _Peak:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        """Looks on."""
        while not self._over.wait(0.2):
            own = _megabytes(self._process)
            started = [child for child in self._process.children(recursive=True) if child.pid not in self._others]
            self.megabytes = max(self.megabytes, own)
            self.tree_megabytes = max(self.tree_megabytes, own + sum(map(_megabytes, started)))


def _megabytes(process: psutil.Process) -> float:
    """Resident memory, without what is shared; 0 for a process that has ended."""
    try:
        memory = process.memory_info()
    except psutil.NoSuchProcess:
        return 0.0
    return float(memory.rss - memory.shared) / 1e6


if __name__ == "__main__":
    main(sys.argv[1:])
