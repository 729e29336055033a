"""All rows and DDL of a sink in one order, by commit timestamp, in windows of which each is complete.
Not here: single files (`cursors.py`), rows of one table (`once.py`, `quadrants.py`), the port (`changes.py`).

A window ends where every open file has been read far enough, so only one block of each open file is in memory.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from strata_cdc.arrow_columns import repeated_number
from strata_cdc.changes.arrow import ROW_FIELDS, TIMESTAMP_UTC, change_schema
from strata_cdc.changes.port import ChangeBatch, Hole, QuarantinedRows, SchemaChange, Watermark, placed
from strata_cdc.errors import SchemaMismatchError
from strata_cdc.position.commit_ts import LOGICAL_BITS, CommitStep
from strata_cdc.ticdc.aside import AsideRows, aside_once
from strata_cdc.ticdc.cursors import NEVER, FileCursor, SinkFile, first_ts
from strata_cdc.ticdc.folder import FolderState, SequenceState
from strata_cdc.ticdc.limits import SinkLimits
from strata_cdc.ticdc.once import are_keyless, each_once, keyless_remedy
from strata_cdc.ticdc.paths import FileForm
from strata_cdc.ticdc.quadrants import QuadrantCounts, Translation
from strata_cdc.ticdc.rows import OPERATIONS
from strata_cdc.ticdc.unlogged import unlogged_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.changes.port import DecodedItem
    from strata_cdc.errors import StrataError
    from strata_cdc.schema.model.definition import TableDefinition, TableName
    from strata_cdc.ticdc.csv_form import CsvSettings
    from strata_cdc.ticdc.folder import DataSequence, SinkContents
    from strata_cdc.ticdc.history import SinkDdl, SinkHistory, SinkVersion

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
"""The directory of a day; files of no other span expire (TiCDC's `date-separator`)."""


class ReadCounts(Struct):
    """What a reader has seen."""

    quadrants: QuadrantCounts = field(default_factory=QuadrantCounts)
    repeats: Counter[str] = field(default_factory=Counter)
    """Rows that came again, by table."""


class OrderedRows(Struct, frozen=True):
    """Rows of one version of one table, in the order of the stream."""

    version: SinkVersion
    table: TableName
    definition: TableDefinition
    rows: pa.Table
    """With the columns of `rows.rows_schema` and `file`."""
    error: StrataError | None = None
    """Why they are set aside."""


class CommitWindow(Struct, frozen=True):
    """Everything that was committed in a span of time."""

    first_seq: int
    steps: tuple[CommitStep, ...]
    """What there is, in order; each has an ordinal."""
    ddl: tuple[SchemaChange, ...]
    rows: tuple[DecodedItem, ...]
    """The rows, table by table, and what may be missing."""
    end_ts: int
    """Everything with smaller timestamps is in this window or in earlier ones."""

    @property
    def next_seq(self) -> int:
        """The ordinal after the last step."""
        return self.first_seq + len(self.steps)

    def decoded(self) -> Iterator[DecodedItem]:
        """The rows, and that there are no more of the window."""
        yield from self.rows
        yield Watermark(self.next_seq)


class SinkWindows:
    """Reads a folder once, from a step to its checkpoint."""

    def __init__(
        self,
        contents: SinkContents,
        history: SinkHistory,
        settings: CsvSettings,
        begin: CommitStep = CommitStep(0),
        first_seq: int = 1,
        known: FolderState = FolderState(),
        limits: SinkLimits = SinkLimits(),
        *,
        sets_keyless_aside: bool = False,
    ) -> None:
        """Looks at the first row of each file.

        Args:
            contents: The folder.
            history: The versions of the tables that are wanted.
            settings: What the files do not show.
            begin: What has been read; it follows.
            first_seq: The ordinal of the first step after it.
            known: What earlier readings know: files whose rows have all been read are not opened.
            limits: How much is read at once.
            sets_keyless_aside: Whether the rows of tables without a key are set aside, each as often as TiCDC wrote it;
                else reading ends there.
        """
        self.counts = ReadCounts()
        self._contents, self._history, self._settings, self._limits = contents, history, settings, limits
        self._begin, self._seq, self._known = begin, first_seq, known
        self._sets_keyless_aside = sets_keyless_aside
        self._files = list(self._source_files())
        self._paths = [source.file.path for source in self._files]
        self._unlogged = list(unlogged_values(history))
        self._open: list[FileCursor] = []
        self._done: set[str] = set()
        """Paths of the files that are not needed any more."""

    def _source_files(self) -> Iterator[SinkFile]:
        ordinal, newest = 0, self._newest_days()
        for sequence in self._contents.sequences:
            if sequence.version.table not in self._history.tables:
                continue
            version = self._history.version(sequence.version.table, sequence.version.version)
            indexed = sequence.indexed if sequence.key in newest else 0
            for file in sequence.files:
                if file.number > self._read_before(sequence):
                    begin = first_ts(file, version, self._settings, self._limits)
                    yield SinkFile(ordinal, file, version, begin, file.number == indexed)
                    ordinal += 1

    def _newest_days(self) -> set[str]:
        """The sequences that TiCDC may still write, by key: directories of earlier days stay as they are, until they
        expire (`file-expiration-days`)."""
        days: dict[tuple[str, str], tuple[str, str]] = {}
        others = set()
        for sequence in self._contents.sequences:
            parent, _, day = sequence.directory.rpartition("/")
            if _DAY.fullmatch(day):
                location = parent, sequence.dispatcher
                days[location] = max(days.get(location, ("", "")), (day, sequence.key))
            else:
                others.add(sequence.key)
        return others | {key for _, key in days.values()}

    def _read_before(self, sequence: DataSequence) -> int:
        return self._known.sequences.get(sequence.key, SequenceState()).read

    def versions(self) -> Iterator[tuple[str, SinkVersion]]:
        """The path of each file that is read, and the version that its directory names."""
        return ((source.file.path, source.version) for source in self._files)

    def read_files(self) -> dict[str, int]:
        """By sequence, the number of the last file that is not needed any more, as `folder.next_state` takes it."""
        read = {}
        for sequence in self._contents.sequences:
            number = self._read_before(sequence)
            for file in sequence.files:
                if file.number == number + 1 and file.path in self._done:
                    number += 1
            read[sequence.key] = number
        return read

    def windows(self) -> Iterator[CommitWindow]:
        """The windows, in order; the last one ends at the checkpoint.

        Raises:
            BadData: A row cannot be read or has no key; after everything before it.
            LakeUnavailableError: The storage does not answer.
        """
        without_rows = [source for source in self._files if source.first_ts == NEVER]
        self._done.update(source.file.path for source in without_rows if not source.may_be_written)
        try:
            yield from self._windows()
        finally:
            for cursor in self._open:
                cursor.close()

    def _windows(self) -> Iterator[CommitWindow]:
        pending = sorted(self._files, key=lambda source: (source.first_ts, source.ordinal), reverse=True)
        # Rows with the timestamp itself have been read.
        bound, end = self._begin.ts, self._contents.checkpoint_ts
        while bound < end:
            limit = min([end, *(cursor.bound for cursor in self._open)])
            while pending and pending[-1].first_ts < max(limit, bound + 1):
                cursor = FileCursor(pending.pop(), self._settings, self._limits)
                self._open.append(cursor)
                limit = min(limit, cursor.bound)
            if limit > bound:
                yield self._window(bound, limit)
                bound = limit
                self._close_done()
                continue
            self._advance(bound)

    def _advance(self, bound: int) -> None:
        """Reads on in the files that keep the window from growing."""
        for cursor in self._open:
            if cursor.bound <= bound:
                if cursor.error is not None:
                    raise cursor.error
                cursor.advance()

    def _close_done(self) -> None:
        for cursor in self._open:
            if cursor.is_done:
                cursor.close()
                self._done.add(cursor.source.file.path)
        self._open = [cursor for cursor in self._open if not cursor.is_done]

    def _window(self, bound: int, limit: int) -> CommitWindow:
        """Everything with timestamps from `bound` to below `limit`, after what had been read before."""
        groups, aside = self._translated(max(bound - 1, self._begin.ts), limit)
        ordered = list(self._ordered(groups))
        ordered += self._aside(aside, ordered)
        made = [change for change in self._history.ddl if bound <= change.ts < limit]
        ddl = [change for change in made if CommitStep(change.ts, is_ddl=True) > self._begin]
        stamps = {int(ts) for group in ordered for ts in np.unique(group.rows["ts"].to_numpy())}
        steps = sorted({*map(CommitStep, stamps), *(CommitStep(change.ts, is_ddl=True) for change in ddl)})
        seqs = {step: self._seq + at for at, step in enumerate(steps)}
        numbering = _Numbering(seqs, self._paths)
        rows = tuple(
            part
            for group, numbers in zip(ordered, _numbers(ordered), strict=True)
            for part in numbering.decoded(group, numbers, self._limits.batch_rows)
        )
        ends = {step.ts: seq for step, seq in seqs.items() if step.is_ddl}
        holes = (Hole(error, ends[ts]) for ts, error in self._unlogged if ts in ends)
        window = CommitWindow(self._seq, tuple(steps), tuple(_schema_changes(ddl, seqs)), (*rows, *holes), limit)
        self._seq = window.next_seq
        return window

    def _aside(self, parts: list[AsideRows], ordered: list[OrderedRows]) -> Iterator[OrderedRows]:
        """The rows that are set aside, each once."""
        before = Counter[str]()
        for part in parts:
            before[str(part.version.table)] += part.rows.num_rows
        exact = [(group.version, group.rows) for group in ordered if group.error is None]
        for part in aside_once(parts, exact) if parts else ():
            before[str(part.version.table)] -= part.rows.num_rows
            yield OrderedRows(part.version, part.version.table, part.version.definition, part.rows, part.error)
        self.counts.repeats += before

    def _translated(self, after: int, limit: int) -> tuple[dict[tuple[str, int], list[pa.Table]], list[AsideRows]]:
        """The rows by table and valid version, and those that are set aside."""
        groups: dict[tuple[str, int], list[pa.Table]] = defaultdict(list)
        aside = []
        for cursor in self._open:
            data = cursor.source.version
            table = self._history.tables[data.folder]
            is_positional = cursor.source.file.form is FileForm.CSV
            for batch in cursor.take_below(after, limit):
                for part, valid in _by_version(batch, table.versions):
                    translation = Translation(data, valid, table, is_positional, cursor.source.file.path)
                    try:
                        rows = translation.translate(part, self.counts.quadrants)
                    except SchemaMismatchError as error:
                        whole = _with_file(part, cursor.source.ordinal)
                        aside.append(AsideRows(data, whole, error, translation.is_order_known))
                        continue
                    groups[data.folder, valid.ts if valid else 0].append(_with_file(rows, cursor.source.ordinal))
        return groups, aside

    def _ordered(self, groups: dict[tuple[str, int], list[pa.Table]]) -> Iterator[OrderedRows]:
        for (folder, ts), parts in sorted(groups.items(), key=lambda group: group[0]):
            version = self._history.version(folder, ts)
            whole = pa.concat_tables(parts)
            key = version.definition.primary_key
            if self._sets_keyless_aside and are_keyless(whole, key):
                error = SchemaMismatchError(
                    "the table has no primary key, so that a row which was written again looks like another row; "
                    f'`exclude = ["{version.table}"]` leaves it out',
                    table=str(version.table),
                    remedy=keyless_remedy(version.table),
                )
                yield from (OrderedRows(version, version.table, version.definition, part, error) for part in parts)
                continue
            rows, repeats = each_once(whole, version.table, key, self._paths)
            if repeats:
                self.counts.repeats[str(version.table)] += repeats
            yield OrderedRows(version, version.table, version.definition, rows)


def _by_version(
    batch: pa.RecordBatch, versions: tuple[SinkVersion, ...]
) -> Iterator[tuple[pa.RecordBatch, SinkVersion | None]]:
    """Rows, cut where another version becomes valid."""
    stamps = batch.column("ts").to_numpy()
    cuts = [int(np.searchsorted(stamps, version.ts, side="right")) for version in versions]
    bounds = [0, *cuts, len(stamps)]
    for at, valid in enumerate((None, *versions)):
        if bounds[at] < bounds[at + 1]:
            yield batch.slice(bounds[at], bounds[at + 1] - bounds[at]), valid


def _with_file(rows: pa.RecordBatch, ordinal: int) -> pa.Table:
    return pa.Table.from_batches([rows]).append_column("file", repeated_number(ordinal, rows.num_rows, pa.int64()))


def _numbers(ordered: list[OrderedRows]) -> list[Ints]:
    """The number of each row in its transaction, from 1, over all tables."""
    stamps = [group.rows["ts"].to_numpy() for group in ordered]
    every = np.concatenate(stamps) if stamps else np.zeros(0, np.int64)
    order = np.argsort(every, kind="stable")
    _, starts, counts = np.unique(every[order], return_index=True, return_counts=True)
    numbers = np.empty(len(every), np.int64)
    numbers[order] = np.arange(1, len(every) + 1) - np.repeat(starts, counts)
    return np.split(numbers, np.cumsum([len(group) for group in stamps])[:-1]) if stamps else []


class _Numbering(Struct, frozen=True):
    """Makes batches of changes of rows in order."""

    seqs: dict[CommitStep, int]
    paths: list[str]

    def decoded(
        self,
        group: OrderedRows,
        numbers: Ints,
        batch_rows: int,
    ) -> Iterator[ChangeBatch | QuarantinedRows]:
        """The rows of a group."""
        changes = self._changes(group, numbers)
        version = group.version.number
        if group.error is not None:
            error = placed(group.error, changes).located(commit_ts=group.rows["ts"][0].as_py())
            yield QuarantinedRows(group.table, version, group.definition, error, changes)
            return
        for begin in range(0, changes.num_rows, batch_rows):
            yield ChangeBatch(group.table, version, group.definition, changes.slice(begin, batch_rows))

    def _changes(self, group: OrderedRows, numbers: Ints) -> pa.RecordBatch:
        rows = group.rows.combine_chunks()
        known = {name: _whole(rows[name]) for name in rows.column_names}
        stamps = known["ts"].to_numpy()
        distinct, at = np.unique(stamps, return_inverse=True)
        ordinals = np.array([self.seqs[CommitStep(int(ts))] for ts in distinct], np.int64)
        count = len(stamps)
        facts = {
            "_op": _operations().take(known["op"]),
            "_gtid": pa.nulls(count, pa.string()),
            "_seq": pa.array(ordinals[at]),
            "_row": pa.array(numbers),
            "_committed_at": pa.array((stamps >> LOGICAL_BITS) * 1000).cast(TIMESTAMP_UTC),
            "_binlog_file": pa.array(self.paths, pa.string()).take(known["file"]),
            "_binlog_pos": known["number"],
            "_schema_version": repeated_number(group.version.number, count, pa.int64()),
            "_missing": known["missing"],
            "_invalid": known["invalid"],
        }
        columns = [*known["after"].flatten(), known["before"], *(facts[field.name] for field in ROW_FIELDS)]
        return pa.RecordBatch.from_arrays(columns, schema=change_schema(group.definition))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _schema_changes(ddl: list[SinkDdl], seqs: dict[CommitStep, int]) -> Iterator[SchemaChange]:
    """The DDL; a statement that changed several tables is one."""
    statements: dict[tuple[int, str], list[SinkDdl]] = defaultdict(list)
    for change in ddl:
        statements[change.ts, change.query].append(change)
    numbers: Counter[int] = Counter()
    for (ts, query), changes in statements.items():
        numbers[ts] += 1
        tables = frozenset(change.table for change in changes if change.table is not None)
        databases = frozenset(change.database for change in changes)
        seq = seqs[CommitStep(ts, is_ddl=True)]
        yield SchemaChange(seq, numbers[ts], query, databases, tables, changes[0].version)


@cache
def _operations() -> pa.Array:
    # Not at import: Arrow loads pandas for it, which runs of other sources do not need.
    return pa.array(OPERATIONS)
