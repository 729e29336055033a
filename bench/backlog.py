"""Whether a long backlog costs as much for each byte as a short one: one run of one and of two gigabytes, in threads,
from landing to publication.

Run it: `python -m bench backlog [MEGABYTES...]` (default 1024 2048). A server writes a hundred megabytes; the rest
are copies with transactions of other servers.
"""

from __future__ import annotations

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
from strata_cdc.config.engines import Engine, EngineSettings
from strata_cdc.config.settings import load_settings
from strata_cdc.landing.land_files import land_files
from strata_cdc.pipeline import ingest
from strata_cdc.pipeline.decode.decode_here import decode_here
from strata_cdc.pipeline.plan.pending import Take
from strata_cdc.position.executed import parse_executed
from strata_cdc.quality.check.check_interval import check_here
from strata_cdc.store.database import open_store
from strata_cdc.tracking.track_schema import track_landed
from tests.mysql_server import start_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PREVIOUS, _GTID, _QUERY = 35, 33, 2
_HEADER = struct.Struct("<IBIIIH")
_PART_MB = 100


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
    for copy in range(1, max(1, megabytes // _PART_MB)):
        server = uuid5(own, str(copy))
        data = copied([*head, *rows], server, ",".join(executed))
        (folder / f"binlog.{number + copy:06}").write_bytes(data)
        executed.append(f"{server}:{min(numbers)}-{max(numbers)}")


def run(folder: Path) -> dict[str, list[float]]:
    """CPU and clock seconds of each step of one run of what is in the archive; `rows` and `MB` are numbers of it."""
    path = folder / "strata.toml"
    path.write_text(f'lake = "{folder}/lake"\nstore = "sqlite:///{folder}/s.db"\n[sources.s]\nconnection = "x"\n')
    settings = load_settings({"STRATA_SETTINGS": str(path), "AIRFLOW_CONN_X": "mysql://u@127.0.0.1/"})
    source, found = settings.source("s"), dict[str, list[float]]()
    engine = open_store(source.store_url)

    def timed(name: str, step: Callable[[], Any]) -> Any:
        begin, used = time.perf_counter(), time.process_time()
        report = step()
        found[name] = [time.process_time() - used, time.perf_counter() - begin]
        return report

    landed = timed("land", lambda: land_files(str(folder / "archive"), lake=source.lake, source="s"))
    timed("track", lambda: track_landed(source.lake, "s", engine))
    planned = timed("plan", lambda: ingest.plan("s", None, None, settings=settings, take=Take.OWED))
    timed("decode", lambda: decode_here(planned.run_url, EngineSettings(Engine.LOCAL)))
    timed("check", lambda: check_here(planned.run_url, None, source.settings.compare_keys))
    published = timed("publish", lambda: ingest.publish("s", planned.run, settings=settings))
    assert published.rows == planned.rows, (published.rows, planned.rows)
    found["MB"], found["rows"] = [landed.bytes / 1e6], [planned.rows]
    return found


def main(arguments: list[str]) -> None:
    """Prints the steps of each size, and seconds of CPU for a gigabyte."""
    sizes = [int(one) for one in arguments] or [1024, 2048]
    with tempfile.TemporaryDirectory(prefix="strata-backlog-") as text, start_server(Path(text) / "server") as server:
        written = make(server, WORKLOADS[0], _PART_MB)
        files = [path for path in server.binlogs() if path.name <= written.name]
        for megabytes in (_PART_MB, *sizes):
            folder = Path(text) / str(megabytes)
            folder.mkdir()
            write_archive(folder / "archive", files, megabytes)
            peak = _Peak()
            with peak:
                found = run(folder)
            (size,), (rows,) = found.pop("MB"), found.pop("rows")
            cpu, clock = (sum(one[at] for one in found.values()) for at in (0, 1))
            print(
                f"\n{size:,.0f} MB, {rows:,.0f} rows: {cpu:.1f} s CPU, {clock:.1f} s by the clock, peak "
                f"{peak.megabytes:,.0f} MB; CPU {cpu / size * 1000:.1f} s for a GB, {cpu / rows * 1e6:.2f} us a row",
                flush=True,
            )
            for step, times in found.items():
                print(f"    {step:10}{times[0]:8.2f}{times[1]:8.2f}")


class _Peak(threading.Thread):
    """The most memory that this process holds while a block is done."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._over, self.megabytes = threading.Event(), 0.0

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        """Looks on."""
        process = psutil.Process()
        while not self._over.wait(0.05):
            self.megabytes = max(self.megabytes, process.memory_info().rss / 1e6)


if __name__ == "__main__":
    main(sys.argv[1:])
