"""What a transaction does to the schema: versions, and changes of rows that are not in the binlog. Such rows
were changed by a statement in statement format, or removed by DDL.
Not here: its effect on tables (`schema/replay/`), their columns' ids (`source_schema.py`), storing it (`track.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.schema.ddl.changes import AlterTable, RemoveRows
from strata_cdc.schema.ddl.context import context_of, lossy_text
from strata_cdc.schema.ddl.dml import tables_changed_by, without_values
from strata_cdc.schema.ddl.ill_formed import as_one_looks_at
from strata_cdc.schema.ddl.read import read_ddl_or_gap
from strata_cdc.schema.history.effects import effect_of_removal, removes_current_rows
from strata_cdc.schema.history.partition_lifetimes import effect_of_copying
from strata_cdc.schema.history.versions import (
    PartitionChange,
    RowRemoval,
    Session,
    StatementChange,
    Version,
    VersionOrigin,
)
from strata_cdc.schema.tracker.written_views import written_tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from strata_cdc.schema.ddl.changes import Change
    from strata_cdc.schema.ddl.context import DdlContext
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.schema.model.partitions import Partitioning
    from strata_cdc.schema.tracker.source_schema import SourceSchema
    from strata_cdc.schema.tracker.stream import TrackedStatement, TrackedTransaction
    from strata_cdc.schema.tracker.stream_state import StreamState

_PARTITION: Final = "PARTITION"


class _ReadStatement(NamedTuple):
    """A statement, its position, and the settings under which it ran."""

    seq: int
    gtid: str | None
    number: int
    """In its transaction, from 1."""
    binlog_file: str
    statement: TrackedStatement
    context: DdlContext
    text: str
    """With marks for bytes that are not text."""
    shown: str
    """The text for people and for the store."""


class TrackedChange(Struct, frozen=True):
    """What one statement does, or a transaction without statements."""

    version: Version | None = None
    """The version that it makes. That of a DDL may have no changes of users' tables."""
    row_change: StatementChange | None = None
    removals: tuple[RowRemoval, ...] = ()
    partitions: tuple[PartitionChange, ...] = ()


def changes_of(
    transaction: TrackedTransaction, state: StreamState, schema: SourceSchema, *, keeps_values: bool = True
) -> Iterable[TrackedChange]:
    """What a transaction does, statement by statement. The schema is then as it is after the statement.

    Args:
        state: The position after it.
        schema: The schema before it.
        keeps_values: Whether the values in a statement that changed rows may be stored.
    """
    if transaction.lost is None and not transaction.statements:
        return _made_known(transaction, state, schema)
    return _changes_in_order(transaction, state, schema, keeps_values=keeps_values)


def _changes_in_order(
    transaction: TrackedTransaction, state: StreamState, schema: SourceSchema, *, keeps_values: bool
) -> Iterator[TrackedChange]:
    if transaction.lost is not None:
        version = Version(state.version_position(1, transaction.binlog_pos), VersionOrigin.GAP, _gtid(transaction))
        yield TrackedChange(schema.forget_everything(version, transaction.lost))
    number = 0
    for number, statement in enumerate(transaction.statements, start=1):
        read = _read(state, transaction, number, statement)
        yield _change_of(read, state, schema, keeps_values=keeps_values)
    if not number:
        yield from _made_known(transaction, state, schema)


def _made_known(transaction: TrackedTransaction, state: StreamState, schema: SourceSchema) -> tuple[TrackedChange, ...]:
    """The version that the row events of a transaction without statements make, if their tables were not known."""
    entries = schema.made_known_by(transaction, state.position.seq)
    if not entries:
        return ()
    version = Version(state.version_position(0, transaction.binlog_pos), VersionOrigin.METADATA, _gtid(transaction))
    return (TrackedChange(schema.completed(replace(version, tables=entries))),)


def _gtid(transaction: TrackedTransaction) -> str | None:
    return str(transaction.gtid) if transaction.gtid else None


def _read(
    state: StreamState, transaction: TrackedTransaction, number: int, statement: TrackedStatement
) -> _ReadStatement:
    context = context_of(
        statement.query,
        statement.format,
        lower_case_table_names=state.position.lower_case_table_names,
        ran_first_on=transaction.ran_first_on,
    )
    text = lossy_text(statement.query, context.flavour)
    file, shown = state.open_file.start.binlog_file, as_one_looks_at(text)
    return _ReadStatement(state.position.seq, _gtid(transaction), number, file, statement, context, text, shown)


def _change_of(read: _ReadStatement, state: StreamState, schema: SourceSchema, *, keeps_values: bool) -> TrackedChange:
    changed = tables_changed_by(read.text, read.context)
    if changed is not None:
        tables = written_tables(changed, schema.replay, read.context)
        return TrackedChange(row_change=_row_change(read, tables, schema, keeps_values=keeps_values))
    changes = read_ddl_or_gap(read.text, read.context)
    if not changes:
        return TrackedChange()
    partitions = _partition_changes(read, changes, schema)
    before = {change.name: schema.partitioned.change(change) for change in partitions}
    removals = (*_removals(read, changes, schema, before), *_misfits(read, partitions, before))
    version = schema.replay.apply(_version(read, state), changes)
    return TrackedChange(schema.completed(version, changes), None, removals, partitions)


def _version(read: _ReadStatement, state: StreamState) -> Version:
    """The version, without its changes."""
    query, context = read.statement.query, read.context
    return Version(
        position=state.version_position(read.number, read.statement.binlog_pos),
        origin=VersionOrigin.DDL,
        gtid=read.gtid,
        ddl=read.shown,
        default_database=context.default_database,
        sql_mode=context.sql_mode,
        server_version=context.flavour.stored_number,
        time_zone=context.time_zone,
        session=Session(query.server_id, query.thread_id, query.context.invoker),
    )


def _row_change(
    read: _ReadStatement, changed: Sequence[TableName], schema: SourceSchema, *, keeps_values: bool
) -> StatementChange | None:
    """The change of users' rows by a statement: the rows cannot be decoded."""
    users = tuple(name for name in changed if schema.is_of_users(name.database))
    if changed and not users:
        return None
    text = read.shown if keeps_values else as_one_looks_at(without_values(read.text))
    return StatementChange(read.seq, read.gtid, read.binlog_file, read.statement.binlog_pos, users, text)


def _removals(
    read: _ReadStatement,
    changes: Sequence[Change],
    schema: SourceSchema,
    partitions: Mapping[TableName, Partitioning | str],
) -> tuple[RowRemoval, ...]:
    """Rows that DDL removed without row events; temporary tables are ignored, and rows of the past."""
    temporary = schema.replay.catalog.temporary
    return tuple(
        RowRemoval(
            read.seq,
            read.gtid,
            read.statement.binlog_pos,
            name,
            read.shown,
            effect_of_removal(change, name, partitions.get(change.names[0], "")),
        )
        for change in changes
        if isinstance(change, RemoveRows) and _removes_current(change, schema)
        for name in change.names
        if schema.is_of_users(name.database) and temporary.get(change.context, name) is None
    )


def _misfits(
    read: _ReadStatement, changes: Iterable[PartitionChange], partitions: Mapping[TableName, Partitioning | str]
) -> tuple[RowRemoval, ...]:
    """Rows that a REORGANIZE or REBUILD PARTITION dropped because no partition takes them."""
    effects = ((change.name, effect_of_copying(change, partitions[change.name])) for change in changes)
    return tuple(
        RowRemoval(read.seq, read.gtid, read.statement.binlog_pos, name, read.shown, effect)
        for name, effect in effects
        if effect is not None
    )


def _removes_current(change: RemoveRows, schema: SourceSchema) -> bool:
    table = schema.replay.state(change.names[0]).definition
    return table is None or removes_current_rows(change, table)


def _partition_changes(
    read: _ReadStatement, changes: Iterable[Change], schema: SourceSchema
) -> tuple[PartitionChange, ...]:
    """An ALTER TABLE that names partitions: it decides which rows the next DROP PARTITION removes."""
    if _PARTITION not in read.text.upper():
        return ()
    return tuple(
        PartitionChange(
            read.seq,
            read.statement.binlog_pos,
            change.name,
            read.shown,
            change.context.sql_mode,
            change.context.flavour.stored_number,
            change.context.time_zone,
        )
        for change in changes
        if isinstance(change, AlterTable) and schema.is_of_users(change.name.database)
    )
