"""How long a look-up of a position takes in a stream of a million transactions, by time, GTID set, file and offset.

Run it: `python -m bench positions [TRANSACTIONS]` (default 1,000,000). The indexes are made by hand, in two shapes:
some hundred segments, and one segment that holds everything, as 256 MB of tiny transactions do. Two servers' numbers
take turns at random, as where a replica also writes, so that nothing is a single run of numbers. Each look-up opens
the stream anew, as a command does.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.binlog.bytes.segment import SegmentName
from strata_cdc.binlog.events.batch import TransactionBatch
from strata_cdc.binlog.events.index import SUFFIX, IndexWriter, SegmentSummary
from strata_cdc.landing.landed import LandedStream, landing_folder
from strata_cdc.position.executed import ExecutedBuilder
from strata_cdc.position.sets import Sid
from strata_cdc.progress.find_position import find_position

if TYPE_CHECKING:
    from collections.abc import Callable

SHAPES = (400, 1)
LOOKUPS = 60
SIDS = (Sid("11111111-1111-1111-1111-111111111111"), Sid("22222222-2222-2222-2222-222222222222"))
BATCH = 16_384
"""About as many as the scanner finds in the bytes that landing looks at in one go."""
TRANSACTION_BYTES = 300
BEGIN_MICROS = 1_700_000_000_000_000


def batch_of(first_seq: int, count: int, numbered: list[int], at: int, clock: int) -> TransactionBatch:
    """Transactions with one row of one table each, and commit times that run back now and then."""
    chance = np.random.default_rng(first_seq)
    sid_numbers = (chance.random(count) < 0.1).astype(np.int64)
    numbers = np.zeros(count, np.int64)
    for sid_number in range(len(SIDS)):
        mine = sid_numbers == sid_number
        numbers[mine] = numbered[sid_number] + 1 + np.arange(int(mine.sum()))
        numbered[sid_number] += int(mine.sum())
    stamps = clock + np.cumsum(chance.integers(-500, 2_000, count))
    begins = at + TRANSACTION_BYTES * np.arange(count, dtype=np.int64)
    ones, none = np.ones(count, np.int64), np.zeros(0, np.int64)
    return TransactionBatch(
        binlog_file="",
        first_seq=first_seq,
        begins=begins,
        ends=begins + TRANSACTION_BYTES,
        positions=begins,
        sids=SIDS,
        sid_numbers=sid_numbers,
        numbers=numbers,
        committed_at=np.maximum.accumulate(np.maximum(stamps, clock)),
        commit_timestamps=stamps,
        incidents=(),
        marks=(),
        tables=(("shop", "orders"),),
        entries_end=np.cumsum(ones),
        entry_tables=0 * ones,
        entry_events=ones,
        entry_rows=ones,
        statements_end=0 * ones,
        statements=none,
        splits_end=0 * ones,
        split_offsets=none,
        split_rows=none,
        split_maps_end=none,
        split_maps=none,
    )


def make_stream(lake: Path, segments: int, transactions: int) -> None:
    """Segments without bytes, each with a whole index."""
    folder = Path(landing_folder(str(lake), "s").path)
    folder.mkdir(parents=True)
    seq, clock, numbered, executed = 0, BEGIN_MICROS, [0, 0], ExecutedBuilder()
    for ordinal in range(1, segments + 1):
        name = SegmentName(ordinal, f"binlog.{ordinal:06d}", 157)
        before, clock_before, first_seq, at = executed.build(), clock, seq + 1, 157
        writer = IndexWriter(str(folder / f"{name}{SUFFIX}"))
        last = transactions * ordinal // segments
        while seq < last:
            count = min(BATCH, last - seq)
            batch = batch_of(seq + 1, count, numbered, at, clock)
            writer.write(batch)
            batch.add_to(executed)
            seq, clock, at = batch.last_seq, int(batch.committed_at[-1]), int(batch.ends[-1])
        summary = SegmentSummary(
            segment=str(name),
            binlog_file=name.binlog_file,
            server_uuid=SIDS[0].uuid,
            bytes=at,
            first_seq=first_seq,
            transactions=seq - first_seq + 1,
            clock_before=clock_before,
            clock_after=clock,
            server_end=at,
            executed_before=str(before),
            executed=str(executed.build()),
            prepared=(),
        )
        writer.close(summary)
        (folder / str(name)).touch()


def questions(lake: str) -> dict[str, list[Callable[[], object]]]:
    """Points at random: the three forms of each."""
    stream = LandedStream.open(lake, "s")
    chance = random.Random(1)
    calls: dict[str, list[Callable[[], object]]] = {"time": [], "gtid-set": [], "file": []}
    ask = partial(find_position, lake, "s")
    for _ in range(LOOKUPS):
        seq = chance.randrange(1, stream.last_seq)
        record = stream.record_at(seq)[1]
        calls["time"].append(partial(ask, time=record.committed_at + 1))
        calls["gtid-set"].append(partial(ask, gtid_set=str(stream.executed_at(seq))))
        calls["file"].append(partial(ask, file=f"{record.binlog_file}:{record.binlog_pos + 1}"))
    return calls


def main(arguments: list[str]) -> None:
    """Makes the streams and prints a table."""
    transactions = int(arguments[0]) if arguments else 1_000_000
    print(f"{transactions:,} transactions; milliseconds of a look-up: median, slowest of {LOOKUPS}")
    for segments in SHAPES:
        with tempfile.TemporaryDirectory() as name:
            lake = Path(name)
            make_stream(lake, segments, transactions)
            for form, calls in questions(name).items():
                times = []
                for question in calls:
                    began = time.perf_counter()
                    question()
                    times.append((time.perf_counter() - began) * 1e3)
                print(f"{segments:5} segments, by {form:10}{statistics.median(times):9.1f}{max(times):9.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])
