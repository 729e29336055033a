"""Reads the commits of a sink's landed segments as a stream gives them: windows with the wanted rows.
Not here: the form of a segment (`ticdc/landed_rows.py`), from where to where (`sink_opening.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec import Struct

from strata_cdc.changes.arrow import ChangeColumns
from strata_cdc.changes.port import VALUE_FAULTS, ChangeBatch, Hole, QuarantinedRows, SchemaChange
from strata_cdc.errors import SchemaMismatchError, StreamHoleError
from strata_cdc.schema.model.definition import TableDefinition, TableName, definition_from_json
from strata_cdc.streams.selection import with_columns
from strata_cdc.ticdc.windows import CommitWindow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.changes.port import DecodedItem
    from strata_cdc.streams.filter import StreamFilter
    from strata_cdc.streams.sink_versions import SinkVersions
    from strata_cdc.ticdc.landed_rows import LandedPart, SegmentContents, SegmentRows


class _CommitGroup(Struct):
    """Parts with rows of the same commits, and the last of these."""

    last_seq: int
    parts: list[LandedPart]


class SinkCommits:
    """The commits of one stream."""

    def __init__(self, wanted: StreamFilter, versions: SinkVersions) -> None:
        """Takes what the reader wants, and the versions, which have tracked what is read."""
        self._wanted, self._versions = wanted, versions
        self._definitions: dict[str, TableDefinition] = {}
        """One object for each: rows are put together by it."""

    def windows(self, segment: SegmentRows, first_seq: int, last_seq: int) -> Iterator[CommitWindow]:
        """Yields some commits of a segment in order, as many at once as were written together.

        Args:
            segment: The segment.
            first_seq: Ordinal of the first commit.
            last_seq: Ordinal of the last one.

        Raises:
            DamagedFileError: The segment is not as it was written.
            SchemaGapError: The version of a wanted table is not known.
            LakeUnavailableError: The storage does not answer.
        """
        contents, steps = segment.contents, segment.steps()
        first = first_seq
        for group in _groups(contents):
            last = min(group.last_seq, last_seq)
            if first > last:
                continue
            rows = tuple(batch for part in group.parts for batch in self._rows(segment, part, first, last))
            ddl = tuple(self._schema_changes(contents, first, last))
            window = steps[first - contents.first_seq : last - contents.first_seq + 1]
            yield CommitWindow(first, window, ddl, (*rows, *self._holes(contents, first, last)), 0)
            first = last + 1

    def _rows(self, segment: SegmentRows, part: LandedPart, first: int, last: int) -> Iterator[DecodedItem]:
        table = TableName(part.database, part.table)
        if part.first_seq > last or part.last_seq < first or not self._wanted.table(table):
            return
        definition = self._definition(segment.contents.definitions[part.definition])
        for batch in segment.batches(part):
            begin, end = np.searchsorted(ChangeColumns(batch).fact("_seq").to_numpy(), [first, last + 1]).tolist()
            if begin < end:
                yield self._decoded(part, table, definition, batch.slice(begin, end - begin))

    def _decoded(
        self, part: LandedPart, table: TableName, definition: TableDefinition, rows: pa.RecordBatch
    ) -> DecodedItem:
        columns, error = self._wanted.columns, part.error
        # A part may have several versions with one definition, but none of its batches has: they are landed so.
        first_seq = ChangeColumns(rows).fact("_seq")[0].as_py()
        version = None if error else self._versions.lookup(table, first_seq).version_id
        changes = ChangeBatch(table, version, definition, rows)
        changes = changes if columns is None else with_columns(changes, columns)
        if error is None:
            return changes
        # No value is at fault: the rows are whole, and of another schema.
        faults = pa.array([[]] * rows.num_rows, VALUE_FAULTS)
        reason = SchemaMismatchError(error.message, remedy=error.remedy, table=str(table)).across(error.crossing)
        return QuarantinedRows(table, None, definition, reason, changes.batch, faults)

    def _definition(self, text: str) -> TableDefinition:
        if text not in self._definitions:
            self._definitions[text] = definition_from_json(text)
        return self._definitions[text]

    def _schema_changes(self, contents: SegmentContents, first: int, last: int) -> Iterator[SchemaChange]:
        chosen = [change for change in contents.schema if first <= change.seq <= last and change.number]
        made = self._versions.made_between(first, last) if chosen else {}
        for change in chosen:
            tables = frozenset(TableName(table.database, table.table) for table in change.tables)
            databases = frozenset({change.database, *(table.database for table in tables)} - {""})
            version = made.get((change.seq, change.number))
            yield SchemaChange(change.seq, change.number, change.query, databases, tables, version)

    def _holes(self, contents: SegmentContents, first: int, last: int) -> Iterator[Hole]:
        for what in contents.unlogged:
            if first <= what.seq <= last and self._wanted.table(TableName(what.database, what.table)):
                facts = what.error
                error = StreamHoleError(facts.message, remedy=facts.remedy, table=facts.table, file=facts.file)
                yield Hole(error, what.seq)


def _groups(contents: SegmentContents) -> list[_CommitGroup]:
    """The parts of a segment in groups with consecutive commits; the last one has all commits after it, too."""
    groups: list[_CommitGroup] = []
    for part in sorted(contents.parts, key=lambda part: part.first_seq):
        if groups and part.first_seq <= groups[-1].last_seq:
            groups[-1].parts.append(part)
            groups[-1].last_seq = max(groups[-1].last_seq, part.last_seq)
        else:
            groups.append(_CommitGroup(part.last_seq, [part]))
    last = contents.first_seq + contents.transactions - 1
    if groups:
        groups[-1].last_seq = last
    return groups or [_CommitGroup(last, [])]
