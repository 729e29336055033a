"""How long mirrors take: random updates of a table in several flushes, beside deltalake's MERGE; larger tables.

Run it: `python -m bench mirrors [MILLIONS...]` (default: 1 10). A table of four columns in 16 files for each million
of rows, 100,000 random updates from a published change table; what is timed reads it, too.
"""

from __future__ import annotations

import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from deltalake import DeltaTable, write_deltalake

from bench import mirror_sizes, sysbench
from bench.mirrored_table import DEFINITION, INTERVAL, TABLE, rows, updates
from strata_cdc.mirrors.apply import Applier
from strata_cdc.mirrors.changes import PublishedChanges, VersionRange
from strata_cdc.mirrors.limits import MirrorLimits
from strata_cdc.mirrors.position import MirrorPosition
from strata_cdc.mirrors.table import Mirror
from strata_cdc.schema.model.definition import TableName
from strata_cdc.tables.commit import publish
from strata_cdc.tables.write import ChangeWriter
from tests.tables.changes import Batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

UPDATES = 100_000
FILES = 16
"""For each million of rows."""
FLUSHES = (10_000, 1_000)


def make(lake: Path, size: int) -> NDArray[np.int64]:
    """The mirror, and the change table; which keys change, in order."""
    limits = MirrorLimits(file_rows=1_000_000 // FILES)
    parts = (rows(np.arange(at, at + 62_500), 0) for at in range(0, size, 62_500))
    Mirror.create(str(lake), "s", TABLE, DEFINITION, parts, MirrorPosition(0, "", 0, 1), limits=limits)
    ids = np.random.default_rng(1).permutation(size)[:UPDATES]
    for number, flush in enumerate(FLUSHES):
        name = TableName("shop", f"items{number}")
        for at in range(0, UPDATES, flush):
            writer = ChangeWriter(str(lake / "runs"), source="s", interval=INTERVAL + at, slice_key=f"{flush}-{at}")
            changed = updates(ids[at : at + flush], at + 1)
            writer.write(Batch(name, 1, DEFINITION, changed))  # type: ignore[arg-type]  # it has the fields
            publish(str(lake), "s", name, INTERVAL + at, writer.close())
    return ids


def by_mirror(lake: Path, number: int) -> tuple[float, float]:
    """Seconds of all flushes by the clock and of CPU, the change table's reading included."""
    flush = FLUSHES[number]
    mirror = Mirror.open(str(lake), "s", TABLE)
    assert mirror is not None
    begin, cpu = time.perf_counter(), time.process_time()
    applier = Applier(mirror)
    changes = PublishedChanges(str(lake), "s", TableName("shop", f"items{number}"))
    for at in range(0, UPDATES, flush):
        span = VersionRange(at, at + flush, 1, DEFINITION)
        for batch in changes.batches(span):
            applier.apply(batch.changes, MirrorPosition(batch.until, "", 0, 1))
    return time.perf_counter() - begin, time.process_time() - cpu


def by_merge(folder: Path, ids: NDArray[np.int64], size: int, flush: int, flushes: int) -> float:
    """Seconds of all flushes by deltalake's MERGE, extrapolated from some."""
    for at in range(0, size, 62_500):
        write_deltalake(folder, rows(np.arange(at, at + 62_500), 0), mode="append")
    begin = time.perf_counter()
    for number in range(flushes):
        changed = rows(ids[number * flush : (number + 1) * flush], 1)
        merge = DeltaTable(folder).merge(changed, "t.id = s.id", source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
    return (time.perf_counter() - begin) * UPDATES / flush / flushes


def _copies(lake: Path) -> Iterator[tuple[int, Path]]:
    for number in range(len(FLUSHES)):
        with tempfile.TemporaryDirectory() as folder:
            yield number, Path(shutil.copytree(lake, Path(folder) / "lake"))


def main(arguments: list[str]) -> None:
    """Prints tables."""
    print(f"## Mirrors: {UPDATES:,} random updates\n")
    print("| rows | flushes of | mirror s | CPU s | deltalake MERGE s | times |\n|---|---|---|---|---|---|")
    for millions in [int(one) for one in arguments] or [1, 10]:
        size = millions * 1_000_000
        with tempfile.TemporaryDirectory() as folder:
            lake = Path(folder) / "lake"
            ids = make(lake, size)
            for number, copy in _copies(lake):
                (seconds, cpu), flush = by_mirror(copy, number), FLUSHES[number]
                merged = None
                if millions == 1:
                    merged = by_merge(Path(folder) / f"merge{flush}", ids, size, flush, 2)
                times = "" if merged is None else f"{merged:.1f} | {merged / seconds:.0f}"
                print(f"| {size:,} | {flush:,} | {seconds:.2f} | {cpu:.2f} | {times or ' | '} |")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"\nPeak memory of the process, both tools: {peak} MB.")
    mirror_sizes.main([])
    sysbench.main([])


if __name__ == "__main__":
    main(sys.argv[1:])
