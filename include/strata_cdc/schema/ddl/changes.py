"""The changes that DDL statements request, as typed values: read from text, not yet applied to any table.
Not here: reading them (`ddl/`), their effect on a table (`apply/`, `schema/replay/catalog.py`)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from strata_cdc.schema.ddl.context import DdlContext
    from strata_cdc.schema.ddl.literals import Literal
    from strata_cdc.schema.model.definition import ApplicationPeriod, GeneratedKind, KeyKind, TableName
    from strata_cdc.schema.model.types import TypeKind
    from strata_cdc.schema.model.view import ViewDefinition

# Columns and keys as they are written ------------------------------------------------------------


class WrittenType(Struct, frozen=True):
    """A column's type as written, aliases resolved: `INT4 UNSIGNED`, `NCHAR(3)`, `TEXT(100)`."""

    kind: TypeKind
    length: int | None = None
    decimals: int | None = None
    unsigned: bool = False
    zerofill: bool = False
    labels: tuple[Literal, ...] = ()
    charset: str | None = None
    """As written, or implied (`NATIONAL`, `ASCII`, `UNICODE`, `BYTE`)."""
    binary: bool = False
    """The attribute BINARY: the `_bin` collation of the charset."""
    compressed: bool = False
    """The attribute COMPRESSED of MariaDB."""


class CurrentTimestamp(Struct, frozen=True):
    """`CURRENT_TIMESTAMP(n)`, under any of its names."""

    decimals: int = 0

    def __str__(self) -> str:
        return f"CURRENT_TIMESTAMP({self.decimals})" if self.decimals else "CURRENT_TIMESTAMP"


class NullDefault(Struct, frozen=True):
    """`DEFAULT NULL`."""


class ExpressionDefault(Struct, frozen=True):
    """`DEFAULT (expression)`: the text between the parentheses."""

    text: str


class WrittenColumn(Struct, frozen=True):
    """A column as written. None means that the statement does not have this attribute."""

    name: str
    type: WrittenType
    nullable: bool | None = None
    default: Literal | CurrentTimestamp | NullDefault | ExpressionDefault | None = None
    auto_increment: bool = False
    on_update: CurrentTimestamp | None = None
    generated: GeneratedKind | None = None
    generation_expression: str | None = None
    invisible: bool = False
    comment: str = ""
    srid: int | None = None
    collation: str | None = None
    primary: bool = False
    unique: bool = False
    references: WrittenKey | None = None
    """The foreign key of an inline REFERENCES, which has an effect only since 9.0."""
    versioned: bool = False
    """WITH SYSTEM VERSIONING at the column, which makes the table a versioned one."""


class WrittenKeyPart(Struct, frozen=True):
    """A part of a key as written: a column or an expression."""

    column: str | None
    expression: str | None = None
    length: int | None = None
    descending: bool = False
    is_period: bool = False
    """`p WITHOUT OVERLAPS`: the name is that of the period, which means its two columns."""


class WrittenKey(Struct, frozen=True):
    """A key as written; a foreign key needs an index of its own if no other key can be used for it."""

    kind: KeyKind
    parts: tuple[WrittenKeyPart, ...]
    name: str | None = None
    invisible: bool = False
    foreign: bool = False
    cascades: bool = False
    """A foreign key by which changes of the other table's rows change rows of this table."""
    options: bool = False
    """It has further options: a comment, a parser, a block size, an algorithm."""
    using_hash: bool | None = None
    """None if no algorithm is written."""
    conditional: bool = False
    """IF NOT EXISTS."""


class TableOptions(Struct, frozen=True):
    """The options after the columns, as far as they have an effect here."""

    charset: str | None = None
    """As written; '' for DEFAULT."""
    collation: str | None = None
    engine: str | None = None
    row_format: str | None = None
    """In lower case."""
    partitioning: str | None = None
    """The PARTITION BY clause as written."""
    versioned: bool = False
    """WITH SYSTEM VERSIONING."""
    sequence: bool | None = None
    """SEQUENCE=1, SEQUENCE=0; None if neither is written."""


# Steps of an ALTER TABLE -------------------------------------------------------------------------


class AddColumn(Struct, frozen=True):
    """ADD [COLUMN]; `after` is a column's name, '' for FIRST, None for the end."""

    column: WrittenColumn
    after: str | None = None


class ChangeColumn(Struct, frozen=True):
    """MODIFY or CHANGE: the column `old` gets a new definition."""

    old: str
    column: WrittenColumn
    after: str | None = None


class RenameColumn(Struct, frozen=True):
    """RENAME COLUMN."""

    old: str
    new: str


class DropColumn(Struct, frozen=True):
    """DROP [COLUMN]."""

    name: str


class SetDefault(Struct, frozen=True):
    """ALTER COLUMN ... SET DEFAULT; DROP DEFAULT if `default` is None."""

    name: str
    default: Literal | CurrentTimestamp | NullDefault | ExpressionDefault | None


class SetVisibility(Struct, frozen=True):
    """ALTER COLUMN ... SET VISIBLE or INVISIBLE."""

    name: str
    invisible: bool


class AddKey(Struct, frozen=True):
    """ADD INDEX and similar steps, and CREATE INDEX."""

    key: WrittenKey


class DropKey(Struct, frozen=True):
    """DROP INDEX, DROP PRIMARY KEY."""

    name: str


class DropConstraint(Struct, frozen=True):
    """DROP CONSTRAINT: a key, or a check or foreign key, which are not kept here."""

    name: str


class RenameKey(Struct, frozen=True):
    """RENAME INDEX."""

    old: str
    new: str


class SetKeyVisibility(Struct, frozen=True):
    """ALTER INDEX ... VISIBLE or INVISIBLE."""

    name: str
    invisible: bool


class ConvertCharset(Struct, frozen=True):
    """CONVERT TO CHARACTER SET; the charset '' is DEFAULT, that of the database."""

    charset: str
    collation: str | None


class SetOptions(Struct, frozen=True):
    """Table options within an ALTER."""

    options: TableOptions


class RemovePartitioning(Struct, frozen=True):
    """REMOVE PARTITIONING."""


class SwitchKeys(Struct, frozen=True):
    """ENABLE KEYS, DISABLE KEYS."""


class SetVersioning(Struct, frozen=True):
    """ADD, DROP SYSTEM VERSIONING."""

    versioned: bool


class SetPeriod(Struct, frozen=True):
    """ADD PERIOD FOR an application's time; DROP PERIOD if it is None."""

    period: ApplicationPeriod | None


class Conditional(Struct, frozen=True):
    """A step with IF EXISTS or IF NOT EXISTS: the server leaves it out where it does not fit the table."""

    step: ConditionalStep


ConditionalStep = (
    AddColumn | ChangeColumn | RenameColumn | DropColumn | SetDefault | AddKey | DropKey | RenameKey | SetKeyVisibility
)
AlterStep = (
    AddColumn
    | ChangeColumn
    | RenameColumn
    | DropColumn
    | SetDefault
    | SetVisibility
    | AddKey
    | DropKey
    | DropConstraint
    | RenameKey
    | SetKeyVisibility
    | ConvertCharset
    | SetOptions
    | RemovePartitioning
    | SwitchKeys
    | SetVersioning
    | SetPeriod
    | Conditional
)


# Statements --------------------------------------------------------------------------------------


class Existing(StrEnum):
    """What a CREATE does if the name exists already."""

    REFUSE = "refuse"
    KEEP = "keep"
    """IF NOT EXISTS."""
    REPLACE = "replace"
    """OR REPLACE."""


class CreateDatabase(Struct, frozen=True):
    """CREATE DATABASE."""

    context: DdlContext
    database: str
    charset: str | None
    collation: str | None
    existing: Existing = Existing.REFUSE


class AlterDatabase(Struct, frozen=True):
    """ALTER DATABASE, as far as it sets the charset."""

    context: DdlContext
    database: str
    charset: str | None
    collation: str | None


class DropDatabase(Struct, frozen=True):
    """DROP DATABASE."""

    context: DdlContext
    database: str


class CreateTable(Struct, frozen=True):
    """CREATE TABLE with columns."""

    context: DdlContext
    name: TableName
    columns: tuple[WrittenColumn, ...]
    keys: tuple[WrittenKey, ...]
    """In the order of the statement, including those of column attributes."""
    options: TableOptions
    existing: Existing = Existing.REFUSE
    temporary: bool = False
    from_query: bool = False
    """CREATE TABLE ... SELECT, logged as a statement: its columns are not in the binlog."""
    written_by_server: bool = False
    """The server wrote it instead of a LIKE of a table that is in no binlog; the server then omits the table's
    charset."""
    period: ApplicationPeriod | None = None
    """The PERIOD FOR an application's time."""


class CreateTableLike(Struct, frozen=True):
    """CREATE TABLE ... LIKE."""

    context: DdlContext
    name: TableName
    like: TableName
    existing: Existing = Existing.REFUSE
    temporary: bool = False


class AlterTable(Struct, frozen=True):
    """ALTER TABLE, CREATE INDEX, DROP INDEX."""

    context: DdlContext
    name: TableName
    steps: tuple[AlterStep, ...]
    new_name: TableName | None = None
    ignore: bool = False
    """ALTER IGNORE, of MySQL before 5.7 and of MariaDB: rows that violate a key are deleted, and values that do not
    fit are changed."""
    if_exists: bool = False

    @property
    def keeps_definition(self) -> bool:
        """Whether nothing is defined anew: RENAME, ENABLE and DISABLE KEYS, LOCK (`simple_rename_or_index_change` in
        sql/sql_table.cc), and steps on partitions and tablespaces."""
        return all(isinstance(step, SwitchKeys) for step in self.steps)

    @property
    def may_change_rows(self) -> bool:
        """Whether rows may differ, now or later, although the definition is the same as before: a column is dropped and
        added again, columns exchange their names, or a foreign key is added by which the server changes rows."""
        return any(
            isinstance(step, (AddColumn, RenameColumn))
            or (isinstance(step, ChangeColumn) and step.old != step.column.name)
            or (isinstance(step, AddKey) and step.key.cascades)
            for step in self.steps
        )


class RenameTables(Struct, frozen=True):
    """RENAME TABLE: pairs, applied one after the other."""

    context: DdlContext
    pairs: tuple[tuple[TableName, TableName], ...]
    if_exists: bool = False
    """Tables that do not exist are passed over."""


class DropTables(Struct, frozen=True):
    """DROP TABLE."""

    context: DdlContext
    names: tuple[TableName, ...]
    temporary: bool = False
    if_exists: bool = False
    sequences: bool = False
    """DROP SEQUENCE of MariaDB, which drops no other tables, although it may name some."""


class RowsGone(StrEnum):
    """Rows that are removed without row events."""

    ALL = "all"
    """TRUNCATE, TRUNCATE PARTITION ALL, DISCARD TABLESPACE, ALTER SEQUENCE."""
    DROPPED = "dropped"
    """DROP PARTITION."""
    PARTITIONS = "partitions"
    """TRUNCATE and DISCARD PARTITION, CONVERT PARTITION ... TO TABLE."""
    EXCHANGED = "exchanged"
    """EXCHANGE PARTITION: the rows of the partition and those of the other table are exchanged."""
    IMPORTED = "imported"
    """IMPORT TABLESPACE, IMPORT PARTITION: other rows are added."""
    CONVERTED = "converted"
    """CONVERT TABLE ... TO PARTITION: the rows of another table are added."""


class RemoveRows(Struct, frozen=True):
    """TRUNCATE, and ALTER TABLE that drops, truncates, exchanges, discards or imports partitions or the tablespace: no
    column changes, and no row event has the removed and added rows."""

    context: DdlContext
    names: tuple[TableName, ...]
    gone: RowsGone = RowsGone.ALL
    partitions: tuple[str, ...] = ()


class ConvertPartition(Struct, frozen=True):
    """ALTER TABLE ... CONVERT PARTITION ... TO TABLE: a new table like the partitioned one, with rows of it."""

    context: DdlContext
    name: TableName
    partitioned: TableName


class CreateView(Struct, frozen=True):
    """CREATE VIEW and ALTER VIEW: it uses a name that a table could have."""

    context: DdlContext
    name: TableName
    definition: ViewDefinition | None = None
    """None if its text is not known."""
    existing: Existing = Existing.REPLACE
    """What becomes of a view of this name; the server logs no statement that it refused."""


class DropViews(Struct, frozen=True):
    """DROP VIEW."""

    context: DdlContext
    names: tuple[TableName, ...]


class Unreadable(Struct, frozen=True):
    """A statement that was not understood: tables that it may have changed are not known from here on."""

    reason: str
    tables: tuple[TableName, ...] = ()
    database: str | None = None
    """If no table could be named: all tables of this database may have changed."""


Change = (
    CreateDatabase
    | AlterDatabase
    | DropDatabase
    | CreateTable
    | CreateTableLike
    | AlterTable
    | RenameTables
    | DropTables
    | RemoveRows
    | ConvertPartition
    | CreateView
    | DropViews
    | Unreadable
)
