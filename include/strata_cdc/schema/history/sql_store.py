"""The version table: appends the changes of a batch of the stream, and reads back only what is requested.
Not here: choosing a version for a position (`historian.py`), snapshots (`snapshot_ledger.py`), the SQL
(`store/tables.py`)."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from strata_cdc.errors import StoreFormatError
from strata_cdc.schema.ddl.secrets import mask_secrets
from strata_cdc.schema.history.appending import (
    advance,
    append_versions,
    file_rows,
    ignore_duplicates,
    insert_rows,
    partition_row,
    removal_rows,
    statement_row,
)
from strata_cdc.schema.history.entry_rows import (
    STREAM_ORDER,
    newest_versions,
    removals_from_row,
    stored_entries,
    stored_views,
)
from strata_cdc.schema.history.name_columns import names_from_column
from strata_cdc.schema.history.older_versions import complete_versions, lacks_decisions
from strata_cdc.schema.history.partition_changes import stored_partitions
from strata_cdc.schema.history.snapshot_ledger import newest_confirmation, pending_snapshots, settle
from strata_cdc.schema.history.versions import (
    Before,
    Confirmation,
    DatabaseEntry,
    Drift,
    NamePresence,
    Session,
    StatementChange,
    StoredEntry,
    TemporarySessions,
    TrackedFile,
    TrackedPosition,
    VersionOrigin,
    VersionPosition,
)
from strata_cdc.schema.history.view_history import present_views
from strata_cdc.schema.model.definition import TableName, definition_from_json
from strata_cdc.store.database import read_rows, reading, without_index, writing
from strata_cdc.store.json_columns import from_column, to_column
from strata_cdc.store.tables import (
    database_version,
    drift,
    partition_change,
    row_removal,
    schema_version,
    statement_change,
    table_schema,
    table_version,
    temporary_tables,
    tracked_file,
    tracked_position,
    view_version,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from strata_cdc.schema.history.snapshot import SchemaSnapshot
    from strata_cdc.schema.history.versions import RowRemoval, StoredView, VersionBatch, ViewEntry
    from strata_cdc.schema.model.definition import TableDefinition
    from strata_cdc.schema.model.partitions import Partitioning

_CHUNK: Final = 500
"""Number of values in one IN (...): SQLite accepts 32,766 parameters, older versions 999."""
_DEFINITIONS_IN_MEMORY: Final = 20_000


class SchemaStore:
    """Versions of all sources in one store. Nothing is read before it is requested."""

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine
        self._definitions: OrderedDict[str, TableDefinition] = OrderedDict()
        self._stored: set[str] = set()

    # Writing ------------------------------------------------------------------------------------

    def append(self, batch: VersionBatch) -> TrackedPosition:
        """Stores a batch of the stream, all of it or nothing, and returns the new position.

        A DDL that is already stored (the same transaction and statement number) is not changed.

        Raises:
            AlreadyRunningError: Another tracker has moved the position of this source since it was read.
            StoreUnavailableError: The database does not answer.
        """
        with writing(self.engine) as connection:
            position = advance(connection, batch.position)
            append_versions(connection, position.source, batch.versions, self._add_definitions)
            insert_rows(connection, tracked_file, file_rows(connection, position.source, batch.files))
            insert_rows(connection, statement_change, [statement_row(position.source, s) for s in batch.statements])
            insert_rows(connection, row_removal, removal_rows(position.source, batch.removals))
            insert_rows(
                connection,
                partition_change,
                [partition_row(position.source, partition) for partition in batch.partitions],
            )
            if batch.temporary_tables is not None:
                connection.execute(temporary_tables.delete().where(temporary_tables.c.source == position.source))
                sessions = to_column(batch.temporary_tables)
                insert_rows(connection, temporary_tables, [{"source": position.source, "sessions": sessions}])
            self._append_drifts(connection, position.source, batch.drifts)
            for outcome in batch.snapshots:
                settle(connection, position.source, outcome)
        return position

    def _add_definitions(self, connection: sa.Connection, definitions: Iterable[TableDefinition]) -> list[str]:
        """Stores each definition that is not stored yet, and returns the fingerprint of each."""
        named = [(definition.fingerprint, definition) for definition in definitions]
        wanted = {fingerprint: definition for fingerprint, definition in named if fingerprint not in self._stored}
        present: set[str] = set()
        for chunk in _chunks(wanted):
            query = sa.select(table_schema.c.fingerprint).where(table_schema.c.fingerprint.in_(chunk))
            present.update(connection.execute(query).scalars())
        rows = [
            {"fingerprint": fingerprint, "format": definition.stored_format, "definition": definition.to_json()}
            for fingerprint, definition in wanted.items()
            if fingerprint not in present
        ]
        insert_rows(connection, table_schema, rows, prefix=ignore_duplicates(connection))
        self._stored.update(wanted)
        return [fingerprint for fingerprint, _ in named]

    def store_definitions(self, definitions: Iterable[TableDefinition]) -> list[str]:
        """Stores a page of definitions before the snapshot that names them, and returns their fingerprints."""
        with writing(self.engine) as connection:
            return self._add_definitions(connection, definitions)

    def _append_drifts(self, connection: sa.Connection, source: str, drifts: Sequence[Drift]) -> None:
        self._add_definitions(
            connection, (d for drift in drifts for d in (drift.replayed, drift.found) if d is not None)
        )
        rows = [
            {
                "snapshot_id": drift.snapshot_id,
                "source": source,
                "database_name": drift.name.database,
                "table_name": drift.name.table,
                "seq": drift.seq,
                "gtid_executed": drift.gtid_executed,
                "replayed": drift.replayed.fingerprint if drift.replayed is not None else None,
                "found": drift.found.fingerprint if drift.found is not None else None,
            }
            for drift in drifts
        ]
        insert_rows(connection, drift, rows)

    # Reading ------------------------------------------------------------------------------------

    def sources(self) -> list[str]:
        """Names of the sources that have been tracked."""
        with reading(self.engine) as connection:
            return list(
                connection.execute(sa.select(tracked_position.c.source).order_by(tracked_position.c.source)).scalars()
            )

    def position(self, source: str) -> TrackedPosition | None:
        """The position up to which a source has been tracked; None if it was never tracked."""
        query = sa.select(tracked_position).where(tracked_position.c.source == source)
        with reading(self.engine) as connection:
            row = connection.execute(query).mappings().one_or_none()
        if row is not None and row["last_column_id"] is None:
            complete_versions(self.engine, self, source)
            return self.position(source)
        return None if row is None else TrackedPosition(**row)

    def newest_version(self, source: str, table: TableName | None = None) -> int:
        """Id of the newest version of a source, or of the newest version with an entry for one table; 0 if there is
        none."""
        if table is None:
            query = sa.select(sa.func.max(schema_version.c.id)).where(schema_version.c.source == source)
        else:
            columns = table_version.c
            names = ((table.database, table.table), (table.database, ""), ("", ""))
            speaks = sa.or_(
                *((columns.database_name == database) & (columns.table_name == two) for database, two in names)
            )
            query = sa.select(sa.func.max(columns.version_id)).where((columns.source == source) & speaks)
        with reading(self.engine) as connection:
            return int(connection.execute(query).scalar() or 0)

    def temporary_tables(self, source: str) -> TemporarySessions:
        """The temporary tables of the sessions at the position."""
        query = sa.select(temporary_tables.c.sessions).where(temporary_tables.c.source == source)
        with reading(self.engine) as connection:
            stored = connection.execute(query).scalar_one_or_none()
        # Former versions stored an empty text if there were none.
        return from_column(stored, TemporarySessions, "temporary_tables.sessions") if stored else TemporarySessions()

    def pending_snapshots(self, source: str) -> list[SchemaSnapshot]:
        """Snapshots that no tracker has reached yet, oldest first."""
        return pending_snapshots(self.engine, source)

    def confirmation(self, source: str) -> Confirmation | None:
        """What the newest applied snapshot has confirmed; None if there is none, or a former version applied it."""
        return newest_confirmation(self.engine, source)

    def drifts(self, source: str) -> list[Drift]:
        """The differences between snapshots and the replayed stream, the newest first."""
        query = (
            sa.select(drift).where(drift.c.source == source).order_by(drift.c.snapshot_id.desc(), drift.c.table_name)
        )
        rows = read_rows(self.engine, query)
        return [
            Drift(
                row.snapshot_id,
                TableName(row.database_name, row.table_name),
                row.seq,
                row.gtid_executed,
                self.definition(row.replayed) if row.replayed else None,
                self.definition(row.found) if row.found else None,
            )
            for row in rows
        ]

    def timeline(self, source: str, names: Iterable[TableName]) -> list[StoredEntry]:
        """The entries of these names, in stream order."""
        wanted = set(names)
        # Two plain IN lists use the index in every database; a list of pairs does not.
        databases, tables = sorted({n.database for n in wanted}), sorted({n.table for n in wanted})
        of_databases = table_version.c.database_name.in_(databases)
        entries = [
            entry
            for chunk in _chunks(tables)
            for entry in self._entries(source, of_databases & table_version.c.table_name.in_(chunk))
            if entry.name in wanted
        ]
        return entries if len(tables) <= _CHUNK else sorted(entries, key=lambda entry: entry.order)

    def all_entries(self, source: str) -> list[StoredEntry]:
        """Every entry of a source in stream order, within a version in order of name."""
        return self._entries(source, sa.true())

    def newest_entries(self, source: str) -> list[StoredEntry]:
        """For each name, its entry of the version with the highest id; in any order."""
        return self._entries(source, sa.true(), newest_versions(source))

    def entries_between(self, source: str, first_seq: int, last_seq: int) -> list[StoredEntry]:
        """The entries of consecutive transactions."""
        return self._entries(source, schema_version.c.seq.between(first_seq, last_seq))

    def _entries(
        self, source: str, condition: sa.ColumnElement[bool], only: sa.Subquery | None = None
    ) -> list[StoredEntry]:
        entries = stored_entries(self.engine, source, condition, only)
        if lacks_decisions(entries):
            complete_versions(self.engine, self, source)
            entries = stored_entries(self.engine, source, condition, only)
        return entries

    def statement_versions(self, source: str, first_seq: int, last_seq: int) -> list[tuple[int, int, int]]:
        """The versions of the statements of consecutive transactions: ordinal, number in the transaction, id of
        version."""
        mine = (schema_version.c.source == source) & schema_version.c.seq.between(first_seq, last_seq)
        query = sa.select(schema_version.c.seq, schema_version.c.statement_no, schema_version.c.id).where(mine)
        query = query.where(
            schema_version.c.statement_no > 0, schema_version.c.origin.in_((VersionOrigin.DDL, VersionOrigin.GAP))
        )
        return [(row.seq, row.statement_no, row.id) for row in read_rows(self.engine, query)]

    def newest_position(self, source: str, before: Before) -> VersionPosition | None:
        """The last position of a version that is before a position of the stream."""
        columns = [schema_version.c[name] for name in VersionPosition.__struct_fields__]
        query = sa.select(*columns).where(schema_version.c.source == source, _as_condition(before))
        with reading(self.engine) as connection:
            row = connection.execute(query.order_by(*(c.desc() for c in STREAM_ORDER)).limit(1)).one_or_none()
        return None if row is None else VersionPosition(*row)

    def names(self, source: str, database: str) -> list[TableName]:
        """All tables that the versions name in a database, whether they exist now or not."""
        query = (
            sa.select(table_version.c.table_name)
            .distinct()
            .where(table_version.c.source == source, table_version.c.database_name == database)
        )
        with reading(self.engine) as connection:
            return [TableName(database, table) for table in connection.execute(query).scalars() if table]

    def tables(self, source: str, *, first_letter: str | None = None, most: int | None = None) -> list[TableName]:
        """All tables that the versions of a source name, whether they exist now or not.

        Args:
            source: The source's name.
            first_letter: Only those whose names begin with it.
            most: Not more than so many; None: all.
        """
        columns = table_version.c.database_name, table_version.c.table_name
        query = sa.select(*columns).distinct().where(table_version.c.source == source, table_version.c.table_name != "")
        if first_letter is not None:
            query = query.where(sa.func.substr(table_version.c.table_name, 1, 1) == first_letter)
        return [TableName(*row) for row in read_rows(self.engine, query.limit(most))]

    def has_table(self, source: str, table: TableName) -> bool:
        """Whether some version of a source names a table."""
        columns = table_version.c
        mine = (
            (columns.source == source) & (columns.database_name == table.database) & (columns.table_name == table.table)
        )
        if not table.table:
            # It is about all tables of a database.
            return False
        return bool(read_rows(self.engine, sa.select(columns.version_id).where(mine).limit(1)))

    def renamed_tables(self, source: str) -> set[TableName]:
        """All names to which some table of a source was renamed."""
        columns = table_version.c.database_name, table_version.c.table_name
        is_renamed = (table_version.c.source == source) & table_version.c.renamed_from.is_not(None)
        return {TableName(*row) for row in read_rows(self.engine, sa.select(*columns).distinct().where(is_renamed))}

    def names_in_doubt(self, source: str) -> set[TableName]:
        """All names that some version of a source has as not known, whether they are known now or not."""
        columns = table_version.c.database_name, table_version.c.table_name
        query = (
            sa.select(*columns)
            .distinct()
            .where(without_index(table_version.c.source, source), table_version.c.gap.is_not(None))
        )
        return {TableName(*row) for row in read_rows(self.engine, query)}

    def definition(self, fingerprint: str) -> TableDefinition:
        """A stored definition.

        Raises:
            StoreFormatError: The store does not have it, or has it in a newer format.
        """
        definition = self._definitions.get(fingerprint)
        if definition is not None:
            self._definitions.move_to_end(fingerprint)
            return definition
        self.load_definitions([fingerprint])
        return self._definitions[fingerprint]

    def load_definitions(self, fingerprints: Iterable[str]) -> None:
        """Reads many definitions at once, so that `definition` finds them in memory."""
        wanted = [fingerprint for fingerprint in fingerprints if fingerprint not in self._definitions]
        with reading(self.engine) as connection:
            for chunk in _chunks(dict.fromkeys(wanted)):
                query = sa.select(table_schema).where(table_schema.c.fingerprint.in_(chunk))
                rows = connection.execute(query).all()
                if len(rows) < len(chunk):
                    missing = sorted(set(chunk) - {row.fingerprint for row in rows})
                    raise StoreFormatError(
                        f"the store lacks table definition {missing[0]}",
                        remedy="The store is damaged: restore it from a backup, or track the binlogs into a new one.",
                    )
                for row in rows:
                    self._definitions[row.fingerprint] = definition_from_json(row.definition, row.format)
        while len(self._definitions) > max(_DEFINITIONS_IN_MEMORY, len(wanted)):
            self._definitions.popitem(last=False)

    def ddl(self, version_id: int) -> str | None:
        """The statement of a version."""
        with reading(self.engine) as connection:
            query = sa.select(schema_version.c.ddl).where(schema_version.c.id == version_id)
            ddl = connection.execute(query).scalar_one_or_none()
        return None if ddl is None else mask_secrets(ddl)

    def ddls(self, version_ids: Iterable[int]) -> dict[int, str]:
        """The statements of many versions; versions without a statement are omitted."""
        wanted = sorted(set(version_ids))
        ddls: dict[int, str] = {}
        with reading(self.engine) as connection:
            for at in range(0, len(wanted), _CHUNK):
                query = sa.select(schema_version.c.id, schema_version.c.ddl).where(
                    schema_version.c.id.in_(wanted[at : at + _CHUNK]), schema_version.c.ddl.is_not(None)
                )
                ddls.update((row.id, mask_secrets(row.ddl)) for row in connection.execute(query))
        return ddls

    def sessions(self, version_ids: Iterable[int]) -> dict[int, Session]:
        """The sessions that ran the statements of many versions; only those that were stored."""
        wanted = sorted(set(version_ids))
        sessions: dict[int, Session] = {}
        columns = [schema_version.c[name] for name in Session.__struct_fields__]
        with reading(self.engine) as connection:
            for at in range(0, len(wanted), _CHUNK):
                query = sa.select(schema_version.c.id, *columns).where(
                    schema_version.c.id.in_(wanted[at : at + _CHUNK]), schema_version.c.server_id.is_not(None)
                )
                sessions.update((number, Session(*session)) for number, *session in connection.execute(query))
        return sessions

    def database(self, source: str, name: str) -> DatabaseEntry | None:
        """The newest entry of a database, or of all databases; None if the versions have none."""
        query = (
            sa.select(database_version)
            .join(schema_version, schema_version.c.id == database_version.c.version_id)
            .where(database_version.c.source == source, database_version.c.database_name.in_((name, "")))
            .order_by(*(column.desc() for column in STREAM_ORDER), database_version.c.database_name.desc())
            .limit(1)
        )
        with reading(self.engine) as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            return None
        return DatabaseEntry(name, NamePresence(row.state), row.character_set, row.collation)

    def views(self, source: str, database: str) -> list[ViewEntry]:
        """The views that exist according to the newest versions."""
        stored = stored_views(self.engine, source, view_version.c.database_name == database)
        return present_views(stored, database)

    def all_views(self, source: str) -> list[StoredView]:
        """Every entry of a view of a source, in stream order."""
        return stored_views(self.engine, source, sa.true())

    def statement_changes(self, source: str, after_seq: int, last_seq: int) -> list[StatementChange]:
        """Statements that changed rows which are not in the binlog, of transactions after_seq < seq <= last_seq."""
        columns = statement_change.c
        query = (
            sa.select(
                columns.seq, columns.gtid, columns.binlog_file, columns.binlog_pos, columns.tables, columns.statement
            )
            .where(columns.source == source, columns.seq > after_seq, columns.seq <= last_seq)
            .order_by(columns.seq, columns.binlog_pos)
        )
        rows = read_rows(self.engine, query)
        return [
            StatementChange(
                row.seq,
                row.gtid,
                row.binlog_file,
                row.binlog_pos,
                names_from_column(row.tables, "statement_change.tables"),
                row.statement,
            )
            for row in rows
        ]

    def row_removals(self, source: str, after_seq: int, last_seq: int) -> list[RowRemoval]:
        """The effects of DDL on rows without row events, table by table, of transactions after_seq < seq <=
        last_seq."""
        columns = row_removal.c
        query = (
            sa.select(columns.seq, columns.gtid, columns.binlog_pos, columns.tables, columns.statement, columns.effects)
            .where(columns.source == source, columns.seq > after_seq, columns.seq <= last_seq)
            .order_by(columns.seq, columns.binlog_pos)
        )
        rows = read_rows(self.engine, query)
        if any(row.effects is None for row in rows):
            complete_versions(self.engine, self, source)
            rows = read_rows(self.engine, query)
        return [removal for row in rows for removal in removals_from_row(row)]

    def partitions(self, source: str, table: TableName) -> Partitioning | str:
        """The partitions of a table at the position; a text says why they are not known."""
        return stored_partitions(self.engine, self, source, table)

    def files(self, source: str, binlog_file: str | None = None) -> list[TrackedFile]:
        """Parts of binlog files that have been read, in stream order."""
        condition = tracked_file.c.source == source
        if binlog_file is not None:
            condition &= tracked_file.c.binlog_file == binlog_file
        columns = [tracked_file.c[name] for name in TrackedFile.__struct_fields__]
        query = sa.select(*columns).where(condition).order_by(tracked_file.c.first_seq, tracked_file.c.ordinal)
        return [TrackedFile(*row) for row in read_rows(self.engine, query)]


def _as_condition(before: Before) -> sa.ColumnElement[bool]:
    """The SQL condition for `Before.holds_for`."""
    version = schema_version.c
    if before.seq is not None:
        return version.seq <= before.seq
    if before.committed_at is not None:
        return version.committed_at < before.committed_at
    if before.first_seq is None:
        return sa.true()
    within = version.seq.between(before.first_seq, before.last_seq)
    in_file = (version.binlog_file == before.binlog_file) & (version.binlog_pos < before.binlog_pos)
    return (version.seq < before.first_seq) | (within & in_file)


def _chunks(values: Iterable[str]) -> Iterator[list[str]]:
    everything = list(values)
    for at in range(0, len(everything), _CHUNK):
        yield everything[at : at + _CHUNK]
