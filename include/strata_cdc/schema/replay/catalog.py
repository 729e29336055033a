"""All tables of a server at one position of its stream, and how statements change them.
Not here: one table's definition (`apply/`), versions over time (`schema/history/historian.py`), storing them
(`schema/history/sql_store.py`)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, assert_never

from msgspec import Struct, field
from msgspec.structs import replace

from strata_cdc.errors import DdlError
from strata_cdc.schema.apply.alter import altered
from strata_cdc.schema.apply.charset import collation_for
from strata_cdc.schema.apply.create import definition_from
from strata_cdc.schema.apply.keys import copied
from strata_cdc.schema.ddl.changes import (
    AlterDatabase,
    AlterTable,
    Change,
    ConvertPartition,
    CreateDatabase,
    CreateTable,
    CreateTableLike,
    CreateView,
    DropDatabase,
    DropTables,
    DropViews,
    Existing,
    RemoveRows,
    RenameTables,
    Unreadable,
)
from strata_cdc.schema.ddl.fitting import fitting
from strata_cdc.schema.history.versions import SYSTEM_DATABASES, NamePresence, TableChange, ViewEntry
from strata_cdc.schema.model.definition import TableDefinition, TableName, Unknown
from strata_cdc.schema.replay.temporary import TemporaryTables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strata_cdc.schema.ddl.context import DdlContext
    from strata_cdc.schema.model.view import ViewDefinition


class Coverage(StrEnum):
    """How much of the server is in a catalog."""

    COMPLETE = "complete"
    """A table that is not in it does not exist."""
    PARTIAL = "partial"
    """There may be other tables: the stream did not begin with an empty server."""


class Database(Struct):
    """A database: its default collation and its tables."""

    collation: str | None
    coverage: Coverage = Coverage.COMPLETE
    tables: dict[str, TableDefinition | Unknown] = field(default_factory=dict)
    views: dict[str, ViewDefinition | None] = field(default_factory=dict)
    """None: its text is not known."""
    was_shown: bool = True
    """Whether a statement or a baseline has shown the database itself; False: only a table or view of it."""


class Catalog:
    """Mutable, but its definitions are not. Each stream has one catalog."""

    def __init__(self, *, coverage: Coverage = Coverage.COMPLETE, lower_case_table_names: int = 0) -> None:
        self.coverage = coverage
        self.databases: dict[str, Database] = {}
        self._case_matters = lower_case_table_names == 0
        self.temporary = TemporaryTables()

    # Looking ------------------------------------------------------------------------------------

    def get(self, name: TableName) -> TableDefinition | Unknown | None:
        """The table's definition; an `Unknown` if the definition is not known; None if the table does not exist."""
        name = self._compared(name)
        database = self.databases.get(name.database)
        return database.tables.get(name.table) if database else None

    def view(self, name: TableName) -> ViewEntry | None:
        """What is known of a view; None if there is no such view."""
        name = self._compared(name)
        if not self._is_view(name):
            return None
        return ViewEntry(name, NamePresence.PRESENT, self.databases[name.database].views[name.table])

    def __iter__(self) -> Iterator[tuple[TableName, TableDefinition | Unknown]]:
        for database_name, database in self.databases.items():
            for table, definition in database.tables.items():
                yield TableName(database_name, table), definition

    def __len__(self) -> int:
        return sum(len(database.tables) for database in self.databases.values())

    # Setting ------------------------------------------------------------------------------------

    def put_database(self, name: str, collation: str | None, coverage: Coverage = Coverage.COMPLETE) -> None:
        """Adds a database of a baseline; an existing database keeps its tables."""
        name = self._compared(TableName(name, "")).database
        known = self.databases.setdefault(name, Database(collation, coverage))
        known.collation, known.coverage, known.was_shown = collation, coverage, True

    def put(self, name: TableName, definition: TableDefinition | Unknown | None) -> None:
        """Sets a table of a baseline or a stored version; None removes it."""
        name = self._compared(name)
        database = self.databases.get(name.database)
        if definition is None:
            if database is not None:
                database.tables.pop(name.table, None)
            return
        if database is None:
            database = self.databases[name.database] = Database(None, self.coverage, was_shown=False)
        database.tables[name.table] = definition

    def put_view(self, name: TableName, definition: ViewDefinition | None) -> None:
        """Sets a view: it uses a name that a table could have."""
        name = self._compared(name)
        database = self.databases.get(name.database)
        if database is None:
            database = self.databases[name.database] = Database(None, self.coverage, was_shown=False)
        database.views[name.table] = definition

    def _compared(self, name: TableName) -> TableName:
        return name if self._case_matters else name.lower()

    # Applying -----------------------------------------------------------------------------------

    def apply(self, changes: Iterable[Change]) -> list[TableChange]:
        """Applies the changes of one statement; returns the differences, table by table.

        A statement that does not fit raises nothing: its tables get a gap, and all other tables continue.
        """
        changed: list[TableChange] = []
        for change in changes:
            changed.extend(self._apply(change))
        return changed

    def _apply(self, change: Change) -> list[TableChange]:
        match change:
            case CreateTable() | CreateTableLike() | ConvertPartition():
                return self._create(change)
            case AlterTable():
                return self._alter(change)
            case RenameTables():
                return self._rename(change)
            case DropTables():
                return self._drop(change)
            case CreateDatabase() | DropDatabase():
                return self._replace_database(change)
            case Unreadable():
                return self._mark_unreadable(change)
            case _:
                self._apply_beside_tables(change)
                return []

    def _apply_beside_tables(self, change: AlterDatabase | CreateView | DropViews | RemoveRows) -> None:
        match change:
            case RemoveRows():
                pass  # no table's definition changes
            case AlterDatabase():
                self._alter_database(change)
            case CreateView():
                self._create_view(change)
            case DropViews():
                self._drop_views(change.names)
            case _:
                assert_never(change)

    def _create_view(self, change: CreateView) -> None:
        name, definition = change.name, change.definition
        if change.existing is Existing.KEEP:
            if self._is_view(name) or self.get(name) is not None:
                return
            definition = definition if self._doubt_about_making(change) is None else None
        self.put_view(name, definition)

    def _drop_views(self, names: Iterable[TableName]) -> None:
        for name in names:
            database = self.databases.get(name.database)
            if database is not None:
                database.views.pop(name.table, None)

    # Databases ----------------------------------------------------------------------------------

    def _replace_database(self, change: CreateDatabase | DropDatabase) -> list[TableChange]:
        """Drops a database, and creates it, according to the statement."""
        dropped = []
        if isinstance(change, DropDatabase) or change.existing is Existing.REPLACE:
            dropped = self._drop_database(change.database)
        if isinstance(change, CreateDatabase):
            self._create_database(change)
        return dropped

    def _create_database(self, change: CreateDatabase) -> None:
        made = change.context.committed_by_engine
        if change.existing is Existing.KEEP and (
            change.database in self.databases or made is False or (made is None and self.coverage is Coverage.PARTIAL)
        ):
            return  # it existed before, or may have, with another charset and with tables
        collation = _collation_or_none(change, change.context.collation_of_server())
        self.databases[change.database] = Database(collation)

    def _alter_database(self, change: AlterDatabase) -> None:
        database = self.databases.get(change.database)
        if database is None:
            database = self.databases[change.database] = Database(None, self.coverage)
        inherited = change.context.collation_of_server() if change.charset == "" else database.collation
        database.collation = _collation_or_none(change, inherited)

    def _drop_database(self, name: str) -> list[TableChange]:
        database = self.databases.pop(name, None)
        if database is None:
            return []
        return [TableChange(TableName(name, table)) for table in database.tables]

    def _collation_of(self, database: str) -> str | None:
        known = self.databases.get(database)
        return known.collation if known else None

    # Tables -------------------------------------------------------------------------------------

    def _create(self, change: CreateTable | CreateTableLike | ConvertPartition) -> list[TableChange]:
        if isinstance(change, ConvertPartition):
            return self._convert_partition(change)
        name = change.name
        if change.temporary:
            if change.existing is not Existing.KEEP or self.temporary.get(change.context, name) is None:
                self.temporary.put(change.context, name, self._made(change))
            return []
        if change.existing is Existing.KEEP and not change.context.flavour.is_mariadb():
            # MariaDB does not log it if there is a table.
            if self.get(name) is not None or self._is_view(name):
                return []
            if (doubt := self._doubt_about_making(change)) is not None:
                return self._set(name, Unknown(f"CREATE TABLE IF NOT EXISTS, and {doubt}"))
        # The same definition again is a new table, too: its rows are gone.
        return self._set(name, self._made(change), may_change_rows=change.existing is Existing.REPLACE)

    def _doubt_about_making(self, change: CreateTable | CreateTableLike | CreateView) -> str | None:
        """Why a statement may have made no table or view although none is known; None if it made it."""
        if change.context.committed_by_engine:
            return None
        database = self.databases.get(change.name.database)
        if database is None or not database.was_shown:
            # So it is if the binlog of a server with tables was reset: its first file is like that of a new server.
            return "its database was there before, with tables or without"
        is_known = self._knows_all_of(change.name.database)
        return None if is_known else "whether a table was there before is not known"

    def _made(self, change: CreateTable | CreateTableLike) -> TableDefinition | Unknown:
        try:
            if isinstance(change, CreateTableLike):
                return self._copy(change)
            if change.from_query:
                return Unknown("CREATE TABLE ... SELECT was logged as a statement, which does not hold its columns")
            if change.written_by_server:
                return definition_from(change, None)
            return definition_from(change, self._collation_of(change.name.database))
        except DdlError as fault:
            if isinstance(change, CreateTable) and change.written_by_server:
                return Unknown(f"CREATE TABLE ... LIKE was logged without the charset of its table: {fault.message}")
            return Unknown(fault.message)

    def _copy(self, change: CreateTableLike) -> TableDefinition | Unknown:
        original = self.temporary.get(change.context, change.like)
        if original is None and not change.temporary and self.temporary.may_hide(change.context, change.like):
            return Unknown(
                f"CREATE TABLE ... LIKE {change.like}, which may be a temporary table made before what has been read"
            )
        original = original or self.get(change.like)
        if original is None:
            return Unknown(f"CREATE TABLE ... LIKE {change.like}, which is not known")
        if isinstance(original, Unknown):
            return Unknown(f"CREATE TABLE ... LIKE {change.like}, which is not known: {original.reason}")
        return replace(original, keys=copied(original, change.context.flavour))

    def _alter(self, change: AlterTable) -> list[TableChange]:
        name = change.name
        if change.new_name is None and change.keeps_definition:
            return []  # REPAIR PARTITION and similar steps are logged even if the table does not exist
        if change.context.committed_by_engine:
            self.temporary.rule_out(change.context, [name])
        elif self.temporary.get(change.context, name) is not None or self.temporary.may_hide(change.context, name):
            return self._alter_hidden(change)
        before = self.get(name)
        if before is None and change.if_exists and self._knows_all_of(name.database):
            return []
        if isinstance(before, TableDefinition):
            change = fitting(change, before)
        after = self._altered(change, before)
        if change.new_name is None or change.new_name == name:
            return self._set(name, after, may_change_rows=change.may_change_rows)
        return [
            *self._set(name, None, missing=change.new_name),
            *self._set(change.new_name, after, renamed_from=name),
        ]

    def _altered(self, change: AlterTable, before: TableDefinition | Unknown | None) -> TableDefinition | Unknown:
        if before is None:
            return Unknown("the table was altered, and its definition before is not known")
        if isinstance(before, Unknown):
            return before
        try:
            return altered(before, change, self._collation_of(change.name.database))
        except DdlError as fault:
            return Unknown(fault.message)

    def _alter_hidden(self, change: AlterTable) -> list[TableChange]:
        """Alters the session's temporary table. If it is not certain that there is one, it is not known which table was
        meant."""
        context, name = change.context, change.name
        temporary = self.temporary.get(context, name)
        is_certain = temporary is not None and (context.uses_temporary or context.thread_id is not None)
        if not is_certain and self.get(name) is not None:
            return self._set(name, Unknown("a statement altered it, or a temporary table of the same name"))
        self.temporary.drop(context, name)
        self.temporary.put(context, change.new_name or name, self._altered(change, temporary))
        return []

    def _rename(self, change: RenameTables) -> list[TableChange]:
        """Pairs are applied one after the other, but only the total is returned: a swap is two changes, not three."""
        touched: dict[TableName, TableDefinition | Unknown | None] = {}
        origin: dict[TableName, TableName] = {}
        hidden = _pairs_of_temporary(change)
        for at, (old, new) in enumerate(change.pairs):
            if self.temporary.rename(change.context, old, new) or at in hidden:
                continue
            for name in (old, new):
                touched.setdefault(name, self.get(name))
            if self._rename_view(old, new) or self._is_taken(new, change.context):
                continue
            moved = self.get(old)
            # MariaDB logs it for a temporary table, too, of which the log has nothing else.
            is_passed = change.if_exists or change.context.flavour.is_mariadb()
            if moved is None and is_passed and self._knows_all_of(old.database):
                continue
            if moved is None:
                moved = Unknown(f"renamed from {old}, which is not known")
            self.put(old, None)
            self.put(new, moved)
            origin[new] = origin.pop(old, old)
        return [
            _entry(name, after, source if after is not None else None)
            for name, before in touched.items()
            for after, source in [(self.get(name), origin.get(name))]
            if after is not before or source not in {None, name}
        ]

    def _is_taken(self, new: TableName, context: DdlContext) -> bool:
        """Whether a table has the name to which MariaDB has renamed another one: that is a temporary table then, of
        which the log has nothing else (`binlog_format = ROW`). No other table could get this name."""
        return context.flavour.is_mariadb() and isinstance(self.get(new), TableDefinition)

    def _rename_view(self, old: TableName, new: TableName) -> bool:
        if self.get(old) is not None or not self._is_view(old):
            return False
        self.put_view(new, self.databases[old.database].views.pop(old.table))
        return True

    def _drop(self, change: DropTables) -> list[TableChange]:
        # The server logs a DROP of temporary tables as DROP TEMPORARY, separately from that of other tables.
        is_of_base_tables = change.context.uses_temporary is not None and not change.temporary
        if is_of_base_tables:
            self.temporary.rule_out(change.context, change.names)
        changes = []
        for name in change.names:
            if not is_of_base_tables and (self.temporary.drop(change.context, name) or change.temporary):
                continue
            definition = self.get(name)
            if change.sequences and isinstance(definition, TableDefinition) and not definition.sequence:
                continue
            if definition is not None or not change.if_exists:
                changes.extend(self._set(name, None, missing=name))
        return changes

    def _convert_partition(self, change: ConvertPartition) -> list[TableChange]:
        """A table like the partitioned one, without its partitions."""
        partitioned = self.get(change.partitioned)
        if partitioned is None:
            partitioned = Unknown(f"a partition of {change.partitioned} became this table, and that is not known")
        if isinstance(partitioned, TableDefinition):
            partitioned = replace(partitioned, options="")
        return self._set(change.name, partitioned)

    def _mark_unreadable(self, change: Unreadable) -> list[TableChange]:
        names = list(change.tables)
        if not names and change.database is not None and change.database in self.databases:
            names = [TableName(change.database, table) for table in self.databases[change.database].tables]
        changes = []
        for name in names:
            changes.extend(self._set(name, Unknown(change.reason)))
        return changes

    # Parts --------------------------------------------------------------------------------------

    def _set(
        self,
        name: TableName,
        after: TableDefinition | Unknown | None,
        *,
        renamed_from: TableName | None = None,
        missing: TableName | None = None,
        may_change_rows: bool = False,
    ) -> list[TableChange]:
        """Sets a table and returns what changed. Without a difference it returns nothing, except for a name that is
        `missing` in the catalog, and for a statement that may have changed the rows of a known table."""
        before = self.get(name)
        is_reported = (before is None and missing is not None) or (
            isinstance(after, TableDefinition) and may_change_rows
        )
        if before == after and renamed_from is None and not is_reported:
            return []
        self.put(name, after)
        return [_entry(name, after, renamed_from)]

    def _is_view(self, name: TableName) -> bool:
        database = self.databases.get(name.database)
        return database is not None and name.table in database.views

    def _knows_all_of(self, database: str) -> bool:
        if database.lower() in SYSTEM_DATABASES:
            return False
        known = self.databases.get(database)
        return (known.coverage if known else self.coverage) is Coverage.COMPLETE


def _pairs_of_temporary(change: RenameTables) -> set[int]:
    """Indexes of the pairs that name a temporary table for certain: MariaDB has renamed a table of the same name after
    it, which it had hidden. The log may have nothing else of it (`binlog_format = ROW`)."""
    if change.if_exists or not change.context.flavour.is_mariadb():
        return set()
    numbers: set[int] = set()
    names: set[TableName] = set()
    for at, (old, new) in enumerate(change.pairs):
        again = next((pair for pair in change.pairs[at + 1 :] if old in pair), None)
        if old in names or (again is not None and again[0] == old):
            numbers.add(at)
            names = {*names - {old}, new}
    return numbers


def _entry(name: TableName, after: TableDefinition | Unknown | None, renamed_from: TableName | None) -> TableChange:
    if isinstance(after, Unknown):
        return TableChange(name, gap=after.reason, renamed_from=renamed_from)
    return TableChange(name, after, renamed_from=renamed_from)


def _collation_or_none(change: CreateDatabase | AlterDatabase, inherited: str | None) -> str | None:
    """The database's collation; None if it is not known: then its tables get the error."""
    try:
        return collation_for(change.charset, change.collation, inherited, change.context)
    except DdlError:
        return None
