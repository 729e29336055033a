"""What 10,000 updates cost on tables of several sizes, in a process that has just begun and once it knows the keys; and
what one transaction costs that updates every row.

Run it: `python -m bench mirrors` (its last part), or `python -m bench.mirror_sizes MILLIONS...`. One table of four
columns in files as a dump leaves them; the rows come from Arrow, without a server.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.mirrored_table import DEFINITION, INTERVAL, TABLE, updates
from strata_cdc.mirrors.apply import Applier
from strata_cdc.mirrors.changes import PublishedChanges, VersionRange
from strata_cdc.mirrors.position import MirrorPosition
from strata_cdc.mirrors.table import Mirror
from strata_cdc.schema.model.definition import TableName
from strata_cdc.tables.commit import publish
from strata_cdc.tables.convert import state_schema
from strata_cdc.tables.write import ChangeWriter
from tests.tables.changes import Batch

if TYPE_CHECKING:
    from collections.abc import Iterator

UPDATES, FLUSHES, ROWS = 10_000, 5, 1 << 17
LARGE = (1_000_000, 4_000_000)


def parts(size: int) -> Iterator[pa.Table]:
    """The rows, ascending by their key; every third number is none."""
    for at in range(0, size, ROWS):
        numbers = np.arange(at, min(at + ROWS, size))
        ids = numbers + numbers // 2
        texts = pc.binary_join_element_wise("payload ", pc.cast(pa.array(ids), pa.string()), " of 0", "")
        yield pa.Table.from_arrays(
            [pa.array(ids, pa.int32()), pa.array(np.zeros(len(ids), np.int32)), pa.array(ids * 0.25), texts],
            schema=state_schema(DEFINITION),
        )


def make(lake: str, size: int) -> None:
    """The mirror, and its change table: each flush is an interval."""
    Mirror.create(lake, "s", TABLE, DEFINITION, parts(size), MirrorPosition(0, "", 0, 1))
    numbers = np.random.default_rng(1).choice(size, UPDATES * FLUSHES, replace=False)
    ids = numbers + numbers // 2
    for flush in range(FLUSHES):
        first = flush * UPDATES
        writer = ChangeWriter(f"{lake}/runs", source="s", interval=INTERVAL + flush, slice_key=str(flush))
        writer.write(Batch(TABLE, 1, DEFINITION, updates(ids[first : first + UPDATES], first + 1)))  # type: ignore[arg-type]
        publish(lake, "s", TABLE, INTERVAL + flush, writer.close())


def make_large(lake: str, size: int) -> None:
    """The mirror, and one transaction that updates all of its rows."""
    Mirror.create(lake, "s", TABLE, DEFINITION, parts(size), MirrorPosition(0, "", 0, 1))
    writer = ChangeWriter(f"{lake}/runs", source="s", interval=INTERVAL, slice_key="0")
    for at in range(0, size, ROWS // 2):
        numbers = np.arange(at, min(at + ROWS // 2, size))
        batch = updates(numbers + numbers // 2, 1)
        for name, column in (("_seq", np.ones(len(numbers), np.int64)), ("_row", numbers)):
            batch = batch.set_column(batch.schema.names.index(name), name, pa.array(column))
        writer.write(Batch(TABLE, 1, DEFINITION, batch))  # type: ignore[arg-type]  # it has the fields
    publish(lake, "s", TABLE, INTERVAL, writer.close())


def apply_large(lake: str) -> tuple[float, float]:
    """Seconds by the clock and of CPU of that transaction."""
    mirror = Mirror.open(lake, "s", TABLE)
    assert mirror is not None
    begin, cpu, applier = time.perf_counter(), time.process_time(), Applier(mirror)
    for batch in PublishedChanges(lake, "s", TABLE).batches(VersionRange(0, 1, 1, DEFINITION)):
        applier.apply(batch.changes, MirrorPosition(batch.until, "", 0, 1), batch.rest)
    assert applier.mirror.snapshot.version == mirror.snapshot.version + 1
    return time.perf_counter() - begin, time.process_time() - cpu


def flushes(lake: str) -> Iterator[tuple[float, float]]:
    """Seconds by the clock and of CPU of each flush; the first one is of a process that knows nothing."""
    mirror = Mirror.open(lake, "s", TABLE)
    assert mirror is not None
    applier = Applier(mirror)
    for flush in range(FLUSHES):
        begin, cpu = time.perf_counter(), time.process_time()
        first = flush * UPDATES
        span = VersionRange(first, first + UPDATES, 1, DEFINITION)
        changes = PublishedChanges(lake, "s", TableName("shop", "items"))
        for batch in changes.batches(span):
            applier.apply(batch.changes, MirrorPosition(batch.until, "", 0, 1))
        yield time.perf_counter() - begin, time.process_time() - cpu


def main(arguments: list[str]) -> None:
    """Prints a table: each size in a process of its own."""
    print(f"\n## {UPDATES:,} updates by the size of the table\n")
    print("| rows | files | first flush: s, CPU s | later ones | peak MB |\n|---|---|---|---|---|")
    for size in [int(one) * 1_000_000 for one in arguments] or [1_000_000, 10_000_000, 30_000_000]:
        with tempfile.TemporaryDirectory() as folder:
            make(folder, size)
            measured = _apart("--flush", folder)
            first, *later = measured["found"]
            middle = [sorted(one[at] for one in later)[len(later) // 2] for at in (0, 1)]
            files = len(list(Path(folder, "mirrors").rglob("data/*.parquet"))) - FLUSHES
            print(
                f"| {size:,} | {files} | {first[0]:.2f}, {first[1]:.2f} | {middle[0]:.2f}, {middle[1]:.2f} "
                f"| {measured['peak_mb']} |"
            )

    print("\n| rows updated by one transaction | s | CPU s | rows a second | peak MB |\n|---|---|---|---|---|")
    for size in LARGE:
        with tempfile.TemporaryDirectory() as folder:
            make_large(folder, size)
            measured = _apart("--large", folder)
            seconds, cpu = measured["found"]
            print(f"| {size:,} | {seconds:.1f} | {cpu:.1f} | {size / seconds:,.0f} | {measured['peak_mb']} |")


def _apart(what: str, lake: str) -> dict[str, Any]:
    """Does it in a process of its own."""
    run = [sys.executable, "-m", "bench.mirror_sizes", what, lake]
    return dict(json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout))


def _here(what: str, lake: str) -> None:
    found = list(flushes(lake)) if what == "--flush" else apply_large(lake)
    print(json.dumps({"found": found, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}))


if __name__ == "__main__":
    _here(sys.argv[1], sys.argv[2]) if sys.argv[1:2] in (["--flush"], ["--large"]) else main(sys.argv[1:])
