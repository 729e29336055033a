"""The versions of tables by their schema files: which version is valid at a commit timestamp.
Not here: what becomes of rows that were written under another version (`quadrants.py`)."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Self

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.errors import DdlError
from strata_cdc.schema.ddl.changes import AlterTable, RenameTables
from strata_cdc.schema.ddl.context import DdlContext
from strata_cdc.schema.ddl.read import read_ddl
from strata_cdc.schema.model.definition import TableDefinition, TableName
from strata_cdc.ticdc.column_types import definition_of
from strata_cdc.ticdc.ddl_kinds import DdlKind, kind_of

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


class SinkHistory(Struct, frozen=True):
    """The versions of all tables of a sink."""

    tables: dict[str, TableVersions]
    """By the folder of the table."""
    databases: tuple[SchemaFile, ...]
    """The DDL of databases, by time."""

    @classmethod
    def of(cls, files: Iterable[SchemaFile], wanted: Callable[[TableName], bool] = lambda _: True) -> Self:
        """The history of the wanted tables by schema files.

        Raises:
            BadData: A column has a type that is not supported, or a RENAME cannot be read.
        """
        ordered = sorted(files, key=lambda file: (file.table_version, file.path))
        numbered = enumerate((file for file in ordered if file.table), start=1)
        versions = [_version(number, file) for number, file in numbered if wanted(TableName(file.schema, file.table))]
        tables: dict[str, list[SinkVersion]] = {}
        for version in versions:
            tables.setdefault(version.folder, []).append(version)
            for folder in _former_folders(version, tables):
                # The table of that name ends here.
                tables[folder].append(replace(version, folder=folder, table=tables[folder][-1].table))
        found = {folder: TableVersions(tuple(versions)) for folder, versions in tables.items()}
        return cls(found, tuple(file for file in ordered if not file.table))

    @property
    def ddl(self) -> list[SinkVersion]:
        """The versions that a DDL made, by time; each of its tables once."""
        versions = [version for table in self.tables.values() for version in table.versions]
        made = {version.number: version for version in versions if version.kind is not DdlKind.STATE}
        return [made[number] for number in sorted(made)]

    def version(self, folder: str, ts: int) -> SinkVersion:
        """The version that a directory of data files names.

        Raises:
            KeyError: There is none.
        """
        return next(version for version in self.tables[folder].versions if version.ts == ts)


def _version(number: int, file: SchemaFile) -> SinkVersion:
    columns = file.table_columns or ()
    ids = tuple(int(column.column_id) for column in columns if column.column_id is not None)
    return SinkVersion(
        file.path.rpartition("/meta/")[0],
        file.table_version,
        number,
        TableName(file.schema, file.table),
        definition_of(file),
        ids if columns and len(ids) == len(columns) else None,
        kind_of(file),
        file.query,
        int(file.path.removesuffix(".json").rpartition("_")[2]),
        file.path,
    )


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
