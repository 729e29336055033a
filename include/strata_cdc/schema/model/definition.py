"""The definition of a table at one time: frozen values, and their stored form.
Not here: parsing the text of a type (`types.py`), changes (`schema/ddl/changes.py`), storing versions
(`schema/history/sql_store.py`)."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from msgspec import DecodeError, Struct, json
from msgspec.structs import replace

from strata_cdc.errors import StoreFormatError, Usage
from strata_cdc.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Iterable

FORMAT = 5
"""Newest number of the stored form of a definition. Every older form stays readable; 2 has lengths in doubt, 3 has
bytes of defaults, 4 has what only MariaDB has: hidden columns, hashed keys, versioning, periods, sequences; 5 has
ON UPDATE in doubt."""


class TableName(Struct, frozen=True, order=True):
    """The full name of a table as the server compares it and as row events have it: in lower case if
    `lower_case_table_names` is not 0, even if files keep the case (2; sql/sql_parse.cc, `add_table_to_list`)."""

    database: str
    table: str

    @classmethod
    def parse(cls, name: TableName | str) -> TableName:
        """A name, or the text `database.table`.

        Raises:
            Usage: The text has no dot, or several dots, so that it is ambiguous.
        """
        if isinstance(name, TableName):
            return name
        database, dot, table = name.partition(".")
        if not dot or "." in table:
            raise Usage(
                f"{name!r} is not the name of one table",
                remedy="Write database.table; where a name has a dot in it, TableName(database, table).",
            )
        return cls(database, table)

    def lower(self) -> TableName:
        """The name in lower case, as the server folds it."""
        return TableName(fold_name(self.database), fold_name(self.table))

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


class GeneratedKind(StrEnum):
    """How a generated column gets its value."""

    VIRTUAL = "virtual"
    STORED = "stored"


class Column(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One column, as `information_schema.COLUMNS` describes it."""

    name: str
    column_type: str
    """The text of `COLUMN_TYPE`: `int unsigned`, `enum('a','b')`, `decimal(18,4)`."""
    nullable: bool = True
    character_set: str | None = None
    """None for columns that are not text."""
    collation: str | None = None
    default: str | None = None
    """The text of the default: a literal without its quotes, or an expression if `default_is_expression`."""
    default_is_expression: bool = False
    auto_increment: bool = False
    on_update: str | None = None
    """`CURRENT_TIMESTAMP(6)` and the like."""
    on_update_in_doubt: bool = False
    """The binlog does not show whether a TIMESTAMP of MariaDB has both DEFAULT and ON UPDATE CURRENT_TIMESTAMP, or
    neither; both are None then. No row depends on it: an INSERT always logs the time that it gives to a column."""
    generated: GeneratedKind | None = None
    generation_expression: str | None = None
    invisible: bool = False
    comment: str = ""
    srid: int | None = None
    label_bytes: tuple[str, ...] | None = None
    """Members of ENUM and SET in hexadecimal, if their text is not what the server keeps: CONVERT TO does not change
    the bytes of labels, and reads them in the new charset."""
    default_bytes: str | None = None
    """All bytes of a BINARY's or VARBINARY's constant default in hexadecimal, if `default` may lack those after a zero;
    None if it lacks none, or if they are not known."""
    hidden: bool = False
    """`row_start` and `row_end` of MariaDB that WITH SYSTEM VERSIONING adds: the last columns of each row, in results
    only by name, in no information_schema."""


class KeyKind(StrEnum):
    """The purpose of an index."""

    PRIMARY = "primary"
    UNIQUE = "unique"
    INDEX = "index"
    FULLTEXT = "fulltext"
    SPATIAL = "spatial"
    VECTOR = "vector"
    """Of MariaDB."""


class KeyPart(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One part of a key: a column or, for a functional key, an expression."""

    column: str | None = None
    expression: str | None = None
    prefix_length: int | None = None
    """Number of characters (bytes for binary columns) that are indexed; None for the whole column."""
    descending: bool = False
    lengths_in_doubt: tuple[int, ...] = ()
    """The possible prefix lengths, ascending, if the binlog does not show which one is used; 0 is the whole column.
    `prefix_length` is None then."""

    @property
    def lengths(self) -> tuple[int | None, ...]:
        """The prefix lengths that it can have: one, unless the length is in doubt."""
        return tuple(length or None for length in self.lengths_in_doubt) or (self.prefix_length,)

    def with_lengths(self, lengths: Iterable[int | None]) -> KeyPart:
        """The part with one of these prefix lengths; the length is known if they are all equal."""
        possible = tuple(sorted({length or 0 for length in lengths}))
        if len(possible) == 1:
            return replace(self, prefix_length=possible[0] or None, lengths_in_doubt=())
        return replace(self, prefix_length=None, lengths_in_doubt=possible)


class Key(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An index, its parts in the order of `information_schema.STATISTICS`."""

    name: str
    kind: KeyKind
    parts: tuple[KeyPart, ...]
    invisible: bool = False
    generated: bool = False
    """Made for a foreign key; the server drops it as soon as another key can be used instead."""
    hashed: bool | None = False
    """A unique key that MariaDB keeps by a hash, in a hidden column DB_ROW_HASH_n at the end of each row. None if that
    depends on the engine, and no engine is named: the session's `default_storage_engine` is in no binlog."""
    without_overlaps: bool = False
    """Its last two columns are the end and the start of the table's period."""


class ApplicationPeriod(Struct, frozen=True):
    """PERIOD FOR of MariaDB: the columns that begin and end it."""

    name: str
    start: str
    end: str


ROWS_ELSEWHERE: Final = (
    "its engine is MERGE: its rows are those of the tables of its UNION, and of these only what is written through it "
    "is logged under its name"
)
_MERGE: Final = frozenset({"merge", "mrg_myisam"})


class Unknown(Struct, frozen=True):
    """A table whose definition is not known since some statement."""

    reason: str


class TableDefinition(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The columns and keys of a table between two DDLs. Equal definitions have equal fingerprints."""

    columns: tuple[Column, ...] = ()
    keys: tuple[Key, ...] = ()
    character_set: str | None = None
    collation: str | None = None
    engine: str | None = None
    options: str = ""
    """Options after the columns that are not kept elsewhere, as they were written: the partitioning."""
    row_format: str | None = None
    """In lower case, if it is written; it limits the length of keys."""
    versioned: bool = False
    """WITH SYSTEM VERSIONING of MariaDB: rows stay after they are changed or deleted, with the end of their time."""
    period: ApplicationPeriod | None = None
    """The application-time period."""
    sequence: bool = False
    """A SEQUENCE of MariaDB: a table of one row, and each row event replaces it."""

    @property
    def has_own_rows(self) -> bool:
        """Whether its rows are its own, and each change of them is logged under its name: see `ROWS_ELSEWHERE`."""
        return (self.engine or "").lower() not in _MERGE

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Names of the columns of the declared primary key, in key order; empty if there is none."""
        for key in self.keys:
            if key.kind is KeyKind.PRIMARY:
                return tuple(part.column for part in key.parts if part.column is not None)
        return ()

    @property
    def row_key(self) -> tuple[str, ...]:
        """Names of the columns whose values identify a row, as the columns spell them: those of the primary key, else
        those of the first unique key whose columns are never NULL; empty if only a whole row identifies itself."""
        if self.primary_key:
            return tuple(column.name for name in self.primary_key if (column := self.column(name)))
        for key in self.keys:
            columns = [self.column(part.column) for part in key.parts if part.column is not None]
            never_null = [column.name for column in columns if column is not None and not column.nullable]
            if key.kind is KeyKind.UNIQUE and len(never_null) == len(key.parts):
                return tuple(never_null)
        return ()

    def column(self, name: str) -> Column | None:
        """The column of that name; MySQL ignores the case of column names."""
        folded = fold_name(name)
        return next((column for column in self.columns if fold_name(column.name) == folded), None)

    def with_defaults_of(self, definition: TableDefinition) -> TableDefinition:
        """This definition; unknown facts of the table as a whole are taken from `found`. They affect only columns that
        are added later, and no existing row."""
        return replace(
            self,
            character_set=self.character_set or definition.character_set,
            collation=self.collation or definition.collation,
            engine=self.engine or definition.engine,
            row_format=self.row_format or definition.row_format,
        )

    def to_json(self) -> str:
        """The stored form: canonical JSON without the fields that have their default value."""
        return _encoder.encode(self).decode()

    @property
    def hash_columns(self) -> range:
        """The possible numbers of columns DB_ROW_HASH_n, BIGINT UNSIGNED, that come after `columns` in TABLE_MAPs
        and row images. They are in no result, and nothing names them."""
        certain = sum(key.hashed is True for key in self.keys)
        return range(certain, certain + sum(key.hashed is None for key in self.keys) + 1)

    @property
    def in_doubt(self) -> bool:
        """Whether the binlog does not have some length of a key's part, or some ON UPDATE of a column."""
        has_lengths = any(part.lengths_in_doubt for key in self.keys for part in key.parts)
        return has_lengths or any(column.on_update_in_doubt for column in self.columns)

    @property
    def stored_format(self) -> int:
        """The oldest format that can express all of it, so that an older version of Strata can open as much as
        possible."""
        if any(column.on_update_in_doubt for column in self.columns):
            return 5
        if self.has_facts_of_mariadb:
            return 4
        if any(column.default_bytes is not None for column in self.columns):
            return 3
        return 2 if self.in_doubt else 1

    @property
    def has_facts_of_mariadb(self) -> bool:
        """Whether it has what no table of MySQL has."""
        return (
            self.versioned
            or self.sequence
            or self.period is not None
            or any(column.hidden for column in self.columns)
            or any(key.hashed is not False or key.without_overlaps or key.kind is KeyKind.VECTOR for key in self.keys)
        )

    @property
    def fingerprint(self) -> str:
        """64 hexadecimal digits that are the same for the same definition, on every machine."""
        return hashlib.sha256(f"{self.stored_format}:{self.to_json()}".encode()).hexdigest()


def definition_from_json(text: str, stored_format: int = FORMAT) -> TableDefinition:
    """Reads the output of `TableDefinition.to_json`, in any format so far.

    Raises:
        StoreFormatError: The format is newer than this version knows, or the text is not a definition.
    """
    if stored_format > FORMAT:
        raise StoreFormatError(
            f"a table definition has format {stored_format}, this version reads up to {FORMAT}",
            remedy="Install the version of Strata that wrote the store, or a newer one.",
        )
    try:
        return _decoder.decode(text)
    except DecodeError as error:
        raise StoreFormatError(
            f"a table definition cannot be read: {error}",
            remedy="The store was changed by hand, or is damaged: restore it, or track the source into a new one.",
        ) from error


_encoder = json.Encoder(order="sorted")
_decoder = json.Decoder(TableDefinition)
