"""The versions of tables by their schema files: which version is valid at a commit timestamp.
Not here: what becomes of rows that were written under another version (`quadrants.py`)."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Self

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.errors import DdlError, Location
from strata_cdc.schema.ddl.changes import AlterTable, RenameTables
from strata_cdc.schema.ddl.context import DdlContext
from strata_cdc.schema.ddl.read import read_ddl
from strata_cdc.schema.model.definition import TableDefinition, TableName
from strata_cdc.schema.model.quadrants import DdlKind
from strata_cdc.ticdc.column_types import definition_of
from strata_cdc.ticdc.ddl_kinds import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from strata_cdc.schema.ddl.changes import Change
    from strata_cdc.ticdc.schema_files import SchemaFile


class SinkVersion(Struct, frozen=True):
    """One version of a table."""

    folder: str
    """The folder of the table: DATABASE/TABLE, or its id."""
    ts: int
    """When its DDL finished: rows with a larger commit timestamp have this version."""
    number: int
    """Its number among all versions of the sink, by time, from 1."""
    table: TableName
    definition: TableDefinition
    column_ids: tuple[int, ...] | None
    """TiDB's ids of the columns, in their order; None if the sink has none (`output-column-id`)."""
    kind: DdlKind
    query: str
    """The DDL; empty for a state of the table without one."""
    checksum: int
    path: str

    @property
    def location(self) -> Location:
        """Where it is: its timestamp and its schema file."""
        return Location(commit_ts=self.ts, file=self.path)


class TableVersions(Struct, frozen=True):
    """All versions of the table in one folder, by time."""

    versions: tuple[SinkVersion, ...]

    def valid_at(self, commit_ts: int) -> SinkVersion | None:
        """The version for rows that were committed at a timestamp; None if they are older than every version.

        A row with exactly the timestamp of a DDL was written before it took effect (async commit), so it has the older
        version.
        """
        at = bisect_left(self.versions, commit_ts, key=lambda version: version.ts)
        return self.versions[at - 1] if at else None

    def between(self, first: SinkVersion, last: SinkVersion) -> tuple[SinkVersion, ...]:
        """The versions after one of them up to another."""
        return tuple(version for version in self.versions if first.ts < version.ts <= last.ts)


class SinkDdl(Struct, frozen=True):
    """A DDL of one table or database."""

    ts: int
    query: str
    database: str
    table: TableName | None
    """None for a DDL of the database."""
    version: int | None
    """The number of the version that it made."""


class SinkHistory(Struct, frozen=True):
    """The versions of all tables of a sink."""

    tables: dict[str, TableVersions]
    """By the folder of the table."""
    ddl: tuple[SinkDdl, ...]
    """By time. A statement that changed several tables is there for each."""

    @classmethod
    def from_files(cls, files: Iterable[SchemaFile], wanted: Callable[[TableName], bool] = lambda _: True) -> Self:
        """The history of the wanted tables by schema files.

        Raises:
            BadData: A column has a type that is not supported, or a RENAME cannot be read.
        """
        ordered = sorted(files, key=lambda file: (file.table_version, file.path))
        exchanges = {file.table_version for file in ordered if kind_of(file) is DdlKind.EXCHANGE_PARTITION}
        tables: dict[str, list[SinkVersion]] = {}
        ddl = []
        for number, file in enumerate(ordered, start=1):
            if not file.table:
                ddl.append(SinkDdl(file.table_version, file.query, file.schema, None, None))
                _end_database(file, number, tables)
            elif wanted(TableName(file.schema, file.table)):
                version = _version(number, file, exchanges)
                _add(version, tables)
                if file.query:
                    ddl.append(SinkDdl(version.ts, file.query, file.schema, version.table, number))
        return cls({folder: TableVersions(tuple(versions)) for folder, versions in tables.items()}, tuple(ddl))

    def version(self, folder: str, ts: int) -> SinkVersion:
        """The version that a directory of data files names.

        Raises:
            KeyError: There is none.
        """
        return next(version for version in self.tables[folder].versions if version.ts == ts)


def _version(number: int, file: SchemaFile, exchanges: set[int]) -> SinkVersion:
    columns = file.table_columns or ()
    ids = tuple(int(column.column_id) for column in columns if column.column_id is not None)
    # Of EXCHANGE PARTITION the other table's file has no DDL (TiCDC, 2026).
    is_exchanged = not file.query and file.table_version in exchanges
    return SinkVersion(
        file.path.rpartition("/meta/")[0],
        file.table_version,
        number,
        TableName(file.schema, file.table),
        definition_of(file),
        ids if columns and len(ids) == len(columns) else None,
        DdlKind.EXCHANGE_PARTITION if is_exchanged else kind_of(file),
        file.query,
        int(file.path.removesuffix(".json").rpartition("_")[2]),
        file.path,
    )


def _add(version: SinkVersion, tables: dict[str, list[SinkVersion]]) -> None:
    """Adds a version; a RENAME also ends the table that had the former name."""
    tables.setdefault(version.folder, []).append(version)
    for folder in _former_folders(version, tables):
        last = tables[folder][-1]
        tables[folder].append(replace(version, folder=folder, table=last.table))


def _end_database(file: SchemaFile, number: int, tables: dict[str, list[SinkVersion]]) -> None:
    """DROP DATABASE ends all tables of the database; they have no files of it."""
    if kind_of(file) is not DdlKind.DROP_DATABASE:
        return
    for versions in tables.values():
        last = versions[-1]
        if last.table.database == file.schema:
            end = {"ts": file.table_version, "number": number, "query": file.query, "path": file.path}
            versions.append(replace(last, **end, kind=DdlKind.DROP_TABLE))


def _former_folders(version: SinkVersion, tables: Mapping[str, list[SinkVersion]]) -> Iterator[str]:
    """The folders of the tables that a RENAME renamed to this version's name, if rows of them are in the sink."""
    if version.kind is not DdlKind.RENAME_TABLE:
        return
    try:
        changes = read_ddl(version.query, DdlContext(version.table.database))
    except DdlError as error:
        raise error.located(table=str(version.table), file=version.path) from error
    for old, new in _renames(changes):
        folder = f"{old.database}/{old.table}"
        if new == version.table and folder in tables and folder != version.folder:
            yield folder


def _renames(changes: Iterable[Change]) -> Iterator[tuple[TableName, TableName]]:
    for change in changes:
        if isinstance(change, RenameTables):
            yield from change.pairs
        elif isinstance(change, AlterTable) and change.new_name is not None:
            yield change.name, change.new_name
