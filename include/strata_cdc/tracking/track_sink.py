"""The step that turns the schema changes of a landed sink into versions of the store, whose ids stay the same.
Not here: which version a sink's rows have (`ticdc/history.py`), landing them (`ticdc/landed_schema.py`), DDL of a
binlog (`track_schema.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from strata_cdc.landing.landed import LandedStream
from strata_cdc.position.executed import NOTHING
from strata_cdc.schema.ddl.changes import AlterTable, RemoveRows, Unreadable
from strata_cdc.schema.ddl.context import DdlContext
from strata_cdc.schema.ddl.read import read_ddl_or_gap
from strata_cdc.schema.history.effects import effect_of_removal
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.versions import (
    SYSTEM_DATABASES,
    RowRemoval,
    StatementChange,
    TableChange,
    TrackedPosition,
    Version,
    VersionBatch,
    VersionOrigin,
    VersionPosition,
)
from strata_cdc.schema.model.definition import TableName, definition_from_json
from strata_cdc.schema.model.quadrants import DdlKind
from strata_cdc.schema.model.row_effects import ALL_ROWS_GO, read_again
from strata_cdc.schema.tracker.reporter import Reporter
from strata_cdc.schema.tracker.source_schema import SourceSchema
from strata_cdc.schema.tracker.transactions import TrackedChange
from strata_cdc.ticdc.landed_rows import SegmentRows

if TYPE_CHECKING:
    from collections.abc import Iterator

    import sqlalchemy as sa

    from strata_cdc.landing.landed import LandedSegment
    from strata_cdc.schema.ddl.changes import Change
    from strata_cdc.schema.history.version_store import VersionStore
    from strata_cdc.schema.model.row_effects import RowEffect
    from strata_cdc.schema.tracker.stream import TrackReport
    from strata_cdc.ticdc.landed_rows import LandedSchemaChange, LandedTable, SegmentContents

_REMOVING: Final = frozenset({DdlKind.TRUNCATE, DdlKind.DROP_PARTITION, DdlKind.PARTITIONS, DdlKind.EXCHANGE_PARTITION})
"""Kinds of DDL that change which rows there are, without rows in the sink."""


def track_sink(lake: str, source: str, engine: sa.Engine) -> TrackReport:
    """Tracks what has landed of a sink since the last time.

    Args:
        lake: Folder or URL of the lake.
        source: Name of the source.
        engine: The store.

    Raises:
        DamagedFileError: A segment is not as it was written; versions before it have been stored.
        AlreadyRunningError: Another tracker works on the source.
        StreamHoleError: A segment is missing.
    """
    stream, tracker = LandedStream.open(lake, source), SinkTracker(SchemaStore(engine), source)
    tracker.track_all(stream)
    return tracker.reporter.end(tracker.position, NOTHING)


class _Batch(Struct):
    """What one segment adds to the store."""

    versions: list[Version] = field(default_factory=list)
    statements: list[StatementChange] = field(default_factory=list)
    removals: list[RowRemoval] = field(default_factory=list)


class SinkTracker:
    """The schema of a sink at the position up to which it is stored."""

    def __init__(self, store: VersionStore, source: str) -> None:
        """Continues where a store ends."""
        known = store.position(source)
        self.reporter = Reporter(source)
        self.position = known or TrackedPosition(source)
        self._store, self._is_new = store, known is None
        self._schema = SourceSchema.at_the_end(store, self.position, SYSTEM_DATABASES, None, is_new=self._is_new)

    def track_all(self, stream: LandedStream) -> None:
        """Stores the versions of all segments that have not been tracked. Raises as `track_sink`."""
        for segment in stream.segments_after(self.position.seq):
            if segment.summary.last_seq > self.position.seq:
                self._track(segment)

    def _track(self, segment: LandedSegment) -> None:
        """Stores the versions of a segment, and that it was tracked."""
        contents, batch, after = SegmentRows(segment).contents, _Batch(), self.position.seq
        if self._is_new:
            begins = segment.index.record(segment.summary.first_seq).committed_at
            position = VersionPosition(0, 0, "", begins, segment.summary.binlog_file, 0)
            # A table is there from its first DDL or row on: no snapshot could tell more.
            first = self._schema.replay.start_empty(Version(position, VersionOrigin.BASELINE))
            self._keep(batch, TrackedChange(self._schema.completed(first)))
        for change in contents.schema:
            if change.seq > after:
                self._keep(batch, self._change(segment, change))
        for what in self._unlogged(segment, contents, after):
            self._keep(batch, TrackedChange(row_change=what))
        self.reporter.report.transactions += segment.summary.last_seq - after
        self._append(segment, batch)

    def _append(self, segment: LandedSegment, batch: _Batch) -> None:
        summary = segment.summary
        position = replace(
            self.position,
            seq=summary.last_seq,
            binlog_file=summary.binlog_file,
            binlog_pos=summary.server_end,
            committed_at=max(self.position.committed_at, summary.clock_after),
            last_column_id=self._schema.identified.last_id,
        )
        self.position = self._store.append(
            VersionBatch(
                position,
                versions=tuple(version for version in batch.versions if version.has_changes),
                statements=tuple(batch.statements),
                removals=tuple(batch.removals),
            )
        )
        self._is_new = False

    def _keep(self, batch: _Batch, change: TrackedChange) -> None:
        self.reporter.note(change)
        if change.version is not None:
            batch.versions.append(change.version)
        if change.row_change is not None:
            batch.statements.append(change.row_change)
        batch.removals += change.removals

    def _unlogged(self, segment: LandedSegment, contents: SegmentContents, after: int) -> Iterator[StatementChange]:
        """Values that the sink may lack are rows that were changed and that no log has."""
        for what in contents.unlogged:
            if what.seq > after:
                name = TableName(what.database, what.table)
                file = segment.summary.binlog_file
                yield StatementChange(what.seq, None, file, what.offset, (name,), what.error.message)

    def _change(self, segment: LandedSegment, change: LandedSchemaChange) -> TrackedChange:
        requested = _requested(change)
        is_removing = change.kind in _REMOVING
        removals = tuple(self._removals(change, requested)) if is_removing else ()
        committed_at = segment.index.record(change.seq).committed_at
        position = VersionPosition(
            change.seq, change.number, "", committed_at, segment.summary.binlog_file, change.offset
        )
        entries = tuple(
            entry for entry in map(_entry, change.tables) if not (is_removing and self._is_as_before(entry))
        )
        for entry in entries:
            self._schema.replay.put_table(entry)
        version = Version(
            position,
            VersionOrigin.DDL if change.number else VersionOrigin.BASELINE,
            ddl=change.query or None,
            default_database=change.database or None,
            tables=entries,
        )
        return TrackedChange(self._schema.completed(version, requested), None, removals)

    def _is_as_before(self, entry: TableChange) -> bool:
        before = self._schema.identified.get(entry.name)
        return before is not None and before.is_known and before.definition == entry.definition

    def _removals(self, change: LandedSchemaChange, requested: tuple[Change, ...]) -> Iterator[RowRemoval]:
        removals = {
            name: ddl_change
            for ddl_change in requested
            if isinstance(ddl_change, RemoveRows)
            for name in ddl_change.names
        }
        for name in sorted({*removals, *(TableName(table.database, table.table) for table in change.tables)}):
            effect = _effect(change, removals.get(name), name)
            yield RowRemoval(change.seq, None, change.offset, name, change.query, effect)


def _effect(change: LandedSchemaChange, removal: RemoveRows | None, name: TableName) -> RowEffect:
    if change.kind == DdlKind.TRUNCATE:
        return ALL_ROWS_GO
    if removal is None:
        # Of REORGANIZE too: it drops no row, since one that fits no list is an error in TiDB (`fetchRowColVals` of
        # `reorgPartitionWorker`, pkg/ddl/partition.go), but a sink may lack rows of new partitions (`unlogged.py`).
        return read_again("which rows there are after a change of partitions is not in the sink")
    return effect_of_removal(removal, name)


def _requested(change: LandedSchemaChange) -> tuple[Change, ...]:
    """What the statement requests; nothing if it is in a form that only TiDB has."""
    requested = read_ddl_or_gap(change.query, DdlContext(change.database)) if change.query else ()
    if any(isinstance(ddl_change, Unreadable) for ddl_change in requested):
        return ()
    # The sink's own tables say what became of them.
    names = {TableName(table.database, table.table) for table in change.tables}
    return tuple(
        ddl_change
        for ddl_change in requested
        if not isinstance(ddl_change, AlterTable) or ddl_change.name in names or ddl_change.new_name
    )


def _entry(table: LandedTable) -> TableChange:
    name = TableName(table.database, table.table)
    if table.definition is None:
        return TableChange(name)
    former = None if table.renamed_from is None else TableName(*table.renamed_from)
    return TableChange(name, definition_from_json(table.definition), renamed_from=former)
