"""Writes windows of a sink as a landed segment that holds its own index; it becomes visible as a whole.
Not here: where windows come from (`land_sink.py`), the form of the file (`landed_rows.py`)."""

from __future__ import annotations

import zlib
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct, field

from strata_cdc.binlog.bytes.segment import SegmentFile, SegmentForm, SegmentName, publish_file, storage_errors
from strata_cdc.binlog.events.batch import TransactionBatch
from strata_cdc.binlog.events.index import SUFFIX, IndexWriter, Resume, SegmentSummary
from strata_cdc.changes.arrow import ChangeColumns
from strata_cdc.changes.port import ChangeBatch, Hole, QuarantinedRows
from strata_cdc.files.storage import TEMPORARY_SUFFIX
from strata_cdc.landing.recent import note_segment
from strata_cdc.position.clock import CommitClock
from strata_cdc.position.commit_ts import LOGICAL_BITS
from strata_cdc.schema.model.definition import TableName
from strata_cdc.ticdc.landed_rows import (
    COMMITS,
    MAGIC,
    LandedPart,
    LandedSchemaChange,
    LandedSteps,
    SegmentContents,
    UnloggedValues,
    encode_contents,
    encode_part,
    encode_steps,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.errors import ErrorFacts
    from strata_cdc.files.storage import Folder
    from strata_cdc.landing.recorder import StreamEnd
    from strata_cdc.position.commit_ts import CommitStep
    from strata_cdc.ticdc.landed_rows import CrossedRows, LandingState
    from strata_cdc.ticdc.windows import CommitWindow

_HELD_BYTES: Final = 16 << 20
"""Rows that are held to write those of one table and version together."""


class _Commits(Struct):
    """The commits of a segment, as columns of its index."""

    sizes: list[Ints] = field(default_factory=list)
    times: list[Ints] = field(default_factory=list)
    entries_end: list[Ints] = field(default_factory=list)
    entry_tables: list[Ints] = field(default_factory=list)
    entry_rows: list[Ints] = field(default_factory=list)
    ddl_seqs: list[int] = field(default_factory=list)
    tables: dict[tuple[str, str], int] = field(default_factory=dict)
    entries: int = 0
    end: int = 0
    """The offset after the last commit."""

    def batch(self, first_seq: int, binlog_file: str, clock: CommitClock) -> TransactionBatch:
        """All of them, for the index."""
        sizes, times = np.concatenate(self.sizes), np.concatenate(self.times)
        count, none = len(sizes), np.zeros(0, np.int64)
        ends = np.cumsum(sizes)
        ddl = np.array(self.ddl_seqs, np.int64) - first_seq
        return TransactionBatch(
            binlog_file=binlog_file,
            first_seq=first_seq,
            begins=ends - sizes,
            ends=ends,
            positions=ends - sizes,
            sids=(),
            sid_numbers=np.full(count, -1, np.int64),
            numbers=np.zeros(count, np.int64),
            committed_at=_advanced(clock, times),
            commit_timestamps=times,
            incidents=(),
            marks=(),
            tables=tuple(self.tables),
            entries_end=np.concatenate(self.entries_end),
            entry_tables=np.concatenate(self.entry_tables),
            entry_events=np.ones(self.entries, np.int64),
            entry_rows=np.concatenate(self.entry_rows),
            statements_end=np.searchsorted(ddl, np.arange(count), side="right").astype(np.int64),
            statements=(ends - sizes)[ddl],
            splits_end=np.zeros(count, np.int64),
            split_offsets=none,
            split_rows=none,
            split_maps_end=none,
            split_maps=none,
        )

    def add(self, stamps: Ints, sizes: Ints, rows: Ints, tables: Ints) -> None:
        """Adds the commits of a window.

        Args:
            stamps: The timestamps of the commits.
            sizes: Their bytes.
            rows: The commit of each row, from 0.
            tables: The table of each row.
        """
        # One entry for each commit and table, in order.
        pairs, counts = np.unique(rows << 32 | tables, return_counts=True)
        ends = np.searchsorted(pairs >> 32, np.arange(len(stamps)), side="right")
        self.sizes.append(sizes)
        self.times.append((stamps >> LOGICAL_BITS) * 1000)
        self.entries_end.append(ends + self.entries)
        self.entry_tables.append(pairs & 0xFFFFFFFF)
        self.entry_rows.append(counts)
        self.entries += len(pairs)
        self.end += int(sizes.sum())


class SegmentWriter:
    """One segment of a sink; if the process dies before it is published, nothing is left."""

    def __init__(self, folder: Folder, after: StreamEnd, before: CommitStep) -> None:
        """Starts a segment after the end of what has landed, whose last commit is `before`.

        Raises:
            LakeUnavailableError: The storage refuses or is full.
        """
        self.name = SegmentName(after.ordinal + 1, f"{COMMITS}.{after.ordinal + 1:06d}", 0, SegmentForm.ROWS)
        self._folder, self._after, self._before = folder, after, before
        self._stamps: list[Ints] = [np.zeros(0, np.int64)]
        self._file = SegmentFile(folder, MAGIC)
        self._commits = _Commits()
        self._held: dict[tuple[tuple[str, str], str, str], list[pa.RecordBatch]] = defaultdict(list)
        self._errors: dict[tuple[TableName, str], ErrorFacts] = {}
        self._held_bytes = 0
        self._definitions: dict[str, int] = {}
        self._parts: list[LandedPart] = []
        self._schema: list[LandedSchemaChange] = []
        self._unlogged: list[UnloggedValues] = []
        self._crossed: list[CrossedRows] = []

    @property
    def size(self) -> int:
        """Bytes so far, about."""
        return self._file.size + self._held_bytes

    @property
    def transactions(self) -> int:
        """How many commits there are."""
        return sum(map(len, self._commits.sizes))

    @property
    def next_seq(self) -> int:
        """The ordinal after the last commit."""
        return self._after.seq + 1 + self.transactions

    def add(
        self, window: CommitWindow, schema: Iterable[LandedSchemaChange], crossed: Iterable[CrossedRows] = ()
    ) -> None:
        """Adds a window.

        Args:
            window: The commits and their rows; the first follows the last of the window before.
            schema: The changes of the schema in it, whose offsets are not known yet.
            crossed: The rows in it whose data are of another schema.
        """
        first, count, begin = window.first_seq, len(window.steps), self._commits.end
        weights = np.ones(count, np.float64)
        rows: list[Ints] = [np.zeros(0, np.int64)]
        tables: list[Ints] = [np.zeros(0, np.int64)]
        for decoded in window.rows:
            if not isinstance(decoded, ChangeBatch | QuarantinedRows):
                continue
            batch = self._hold(decoded)
            seqs = ChangeColumns(batch).fact("_seq").to_numpy() - first
            weights += np.bincount(seqs, minlength=count) * (batch.nbytes / max(1, batch.num_rows))
            rows.append(seqs)
            number = self._commits.tables.setdefault(
                (decoded.table.database, decoded.table.table), len(self._commits.tables)
            )
            tables.append(np.full(len(seqs), number, np.int64))
        sizes = np.ceil(weights).astype(np.int64)
        begins = begin + np.cumsum(sizes) - sizes
        self._stamps.append(np.fromiter((step.ts for step in window.steps), np.int64, count))
        self._commits.add(self._stamps[-1], sizes, np.concatenate(rows), np.concatenate(tables))
        if window.ddl:
            self._commits.ddl_seqs += [first + at for at, step in enumerate(window.steps) if step.is_ddl]
        self._schema += [_at(change, int(begins[change.seq - first])) for change in schema]
        self._unlogged += [
            _unlogged(hole, int(begins[hole.seq - first])) for hole in window.rows if isinstance(hole, Hole)
        ]
        self._crossed += crossed
        if self._held_bytes >= _HELD_BYTES:
            self._write_held()

    def _hold(self, decoded: ChangeBatch | QuarantinedRows) -> pa.RecordBatch:
        if isinstance(decoded, ChangeBatch):
            batch, reason = decoded.batch, ""
        else:
            batch, reason = decoded.rows, decoded.error.message
            self._errors.setdefault((decoded.table, reason), decoded.error.facts())
        key = ((decoded.table.database, decoded.table.table), decoded.definition.to_json(), reason)
        self._held[key].append(batch)
        self._held_bytes += batch.nbytes
        return batch

    def _write_held(self) -> None:
        for ((database, table), definition, reason), batches in self._held.items():
            content = encode_part(batches)
            self._parts.append(
                LandedPart(
                    self._file.size,
                    len(content),
                    zlib.crc32(content),
                    database,
                    table,
                    self._definitions.setdefault(definition, len(self._definitions)),
                    min(ChangeColumns(batch).fact("_seq")[0].as_py() for batch in batches),
                    max(ChangeColumns(batch).fact("_seq")[-1].as_py() for batch in batches),
                    sum(batch.num_rows for batch in batches),
                    self._errors.get((TableName(database, table), reason)),
                )
            )
            self._file.append(content)
        self._held.clear()
        self._held_bytes = 0

    def publish(self, state: LandingState) -> SegmentSummary:
        """Ends the segment and publishes it, then the index that it holds. If the process dies in between, the next
        landing takes the index out of the segment (`land_sink.py`).

        Args:
            state: From where the next landing continues.

        Raises:
            AlreadyRunningError: Another process has published a segment in this place; nothing was published.
            LakeUnavailableError: The storage refuses or is full.
        """
        self._write_held()
        stamps, is_ddl = np.concatenate(self._stamps), np.zeros(self.transactions, np.bool_)
        is_ddl[np.array(self._commits.ddl_seqs, np.int64) - self._after.seq - 1] = True
        steps = encode_steps(stamps, is_ddl)
        location = LandedSteps(self._file.size, len(steps), zlib.crc32(steps))
        self._file.append(steps)
        contents = SegmentContents(
            self._after.seq + 1,
            self.transactions,
            state,
            tuple(self._parts),
            tuple(self._definitions),
            tuple(self._schema),
            tuple(self._unlogged),
            tuple(self._crossed),
            self._before,
            location,
        )
        end = encode_contents(contents)
        with storage_errors(self._folder):
            summary, index = self._index(len(end))
        self._file.append(index)
        self._file.append(end)
        note_segment(self._folder, self.name)
        self._file.publish(str(self.name), once=True)
        publish_file(self._folder, self._index_path, f"{self.name}{SUFFIX}")
        return summary

    @property
    def _index_path(self) -> str:
        return f"{self._file.path.removesuffix(TEMPORARY_SUFFIX)}{SUFFIX}{TEMPORARY_SUFFIX}"

    def _index(self, end_bytes: int) -> tuple[SegmentSummary, bytes]:
        """The index, which lies in the segment before its last `end_bytes` bytes, and says how long the segment is."""
        clock, batch = CommitClock(self._after.clock), None
        if self.transactions:
            batch = self._commits.batch(self._after.seq + 1, self.name.binlog_file, clock)
        content = b""
        # Its own length depends on the digits of the number, which does not fall.
        while True:
            summary = self._summary(clock, self._file.size + len(content) + end_bytes)
            writer = IndexWriter(self._index_path)
            if batch is not None:
                writer.write(batch)
            writer.close(summary)
            content = Path(self._index_path).read_bytes()
            if summary.bytes == self._file.size + len(content) + end_bytes:
                return summary, content

    def _summary(self, clock: CommitClock, size: int) -> SegmentSummary:
        return SegmentSummary(
            segment=str(self.name),
            binlog_file=self.name.binlog_file,
            server_uuid="",
            bytes=size,
            first_seq=self._after.seq + 1,
            transactions=self.transactions,
            clock_before=self._after.clock,
            clock_after=clock.now,
            server_end=self._commits.end,
            executed_before="",
            executed="",
            resume=Resume.FILE,
            prepared=(),
        )

    def discard(self) -> None:
        """Removes what was written."""
        self._file.discard()
        Path(self._index_path).unlink(missing_ok=True)


def _advanced(clock: CommitClock, times: Ints) -> Ints:
    """The time of each commit on the clock, which is then at the last one."""
    on_clock = np.maximum.accumulate(np.maximum(times, clock.now))
    clock.advance(int(on_clock[-1]))
    return on_clock


def _at(change: LandedSchemaChange, offset: int) -> LandedSchemaChange:
    return LandedSchemaChange(
        change.seq, change.number, offset, change.ts, change.tables, change.query, change.database, change.kind
    )


def _unlogged(hole: Hole, offset: int) -> UnloggedValues:
    database, _, table = (hole.error.table or "").partition(".")
    return UnloggedValues(hole.seq, offset, database, table, hole.error.facts())
