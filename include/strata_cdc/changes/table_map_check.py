"""Checks that a TABLE_MAP agrees with the schema version that decodes its rows.
Not here: what is done with the rows otherwise (`decode_plans.py`), finding versions (`schema/history/historian.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.binlog.bytes.codes import FieldType
from strata_cdc.binlog.events.field_types import bit_length
from strata_cdc.flavour import Vendor
from strata_cdc.schema.model.charsets import CHARSETS, COLLATION_NAMES, charset_of_collation
from strata_cdc.schema.model.logged_types import logged_as
from strata_cdc.schema.model.types import STRINGS, ColumnType, Family, kinds_of, parse_column_type

if TYPE_CHECKING:
    from strata_cdc.binlog.events.model import TableMap
    from strata_cdc.schema.model.definition import Column, Key, TableDefinition

_SIGNED = kinds_of(Family.INTEGER, Family.DECIMAL, Family.FLOATING)


class Disagreement(Struct, frozen=True):
    """A difference between a TABLE_MAP and a version."""

    column: str
    """Name of the column in the version; '' if the difference is about the table."""
    says: str
    """What the version has."""
    logged: str
    """What the TABLE_MAP has."""

    def __str__(self) -> str:
        what = f"column {self.column}" if self.column else "the table"
        return f"{what} is {self.says} in the schema and {self.logged} in the TABLE_MAP"


def disagreements(definition: TableDefinition, table_map: TableMap) -> list[Disagreement]:
    """All differences between a version and a TABLE_MAP that make its rows unsafe to decode; none if they agree.

    It compares the number of columns, types with their metadata, nullability, signedness, charsets and, if the server
    writes them (binlog_row_metadata=FULL), names.
    """
    columns = definition.columns
    if len(table_map.types) - len(columns) not in _hash_columns(definition, table_map):
        return [Disagreement("", f"of {len(columns)} columns", f"of {len(table_map.types)}")]
    differences = _hashes(definition, table_map)
    for at, column in enumerate(columns):
        differences += _physical_differences(column, table_map, at)
        differences += _nullability(column, table_map, at)
        differences += _name(column, table_map, at)
    return differences


def _hash_columns(definition: TableDefinition, table_map: TableMap) -> range:
    """How many columns of hashes may come after those of the version."""
    return definition.hash_columns if table_map.vendor is Vendor.MARIADB else range(1)


def _may_be_null(key: Key, definition: TableDefinition) -> bool:
    columns = (definition.column(part.column or "") for part in key.parts)
    return any(column is not None and column.nullable for column in columns)


def _hashes(definition: TableDefinition, table_map: TableMap) -> list[Disagreement]:
    """The columns after those of the version that are no BIGINT UNSIGNED with the name of a hash. A hash may be NULL if
    a column of its key may be."""
    differences = []
    nullable = {_may_be_null(key, definition) for key in definition.keys if key.hashed is not False}
    for number, at in enumerate(range(len(definition.columns), len(table_map.types)), 1):
        name = f"DB_ROW_HASH_{number}"
        is_hash = (
            table_map.types[at] == FieldType.LONGLONG
            and table_map.nullable[at] in nullable
            and (table_map.unsigned is None or table_map.unsigned[at])
            and (table_map.names is None or table_map.names[at] == name)
        )
        if not is_hash:
            logged = _describe(table_map.types[at], table_map.metadata[at])
            differences.append(
                Disagreement(name, "the hash of a unique key", table_map.names[at] if table_map.names else logged)
            )
    return differences


def differing_values(definition: TableDefinition, table_map: TableMap) -> list[Disagreement]:
    """The differences that would give other values, among the columns that both have, from the first on."""
    both = min(len(definition.columns), len(table_map.types))
    columns = enumerate(definition.columns[:both])
    return [
        each
        for at, column in columns
        for each in (*_physical_differences(column, table_map, at), *_name(column, table_map, at))
    ]


def _physical_differences(column: Column, table_map: TableMap, at: int) -> list[Disagreement]:
    kind = parse_column_type(column.column_type)
    return [
        *_type(column, kind, table_map, at),
        *_signedness(column, kind, table_map, at),
        *_charset(column, kind, table_map, at),
    ]


def _type(column: Column, kind: ColumnType, table_map: TableMap, at: int) -> list[Disagreement]:
    logged = (table_map.types[at], table_map.metadata[at])
    allowed = logged_as(kind, _widest(column.character_set), table_map.vendor)
    if logged[0] == FieldType.BIT:
        logged, allowed = _with_bits(logged), set(map(_with_bits, allowed))
    if logged in allowed:
        return []
    return [Disagreement(column.name, column.column_type, _describe(*logged))]


def _with_bits(logged: tuple[int, int]) -> tuple[int, int]:
    """A BIT with its length in bits, which metadata can express in several ways."""
    return logged[0], bit_length(logged[1])


def _widest(charset: str | None) -> int:
    if charset is None:
        return 1
    known = CHARSETS.get("utf8mb3" if charset == "utf8" else charset)
    return known.max_bytes if known else 1


def _describe(code: int, metadata: int) -> str:
    try:
        name = FieldType(code).name
    except ValueError:
        name = f"type {code}"
    if code == FieldType.NEWDECIMAL:
        return f"DECIMAL({metadata >> 8},{metadata & 0xFF})"
    if code == FieldType.VARCHAR:
        # Not characters, of which `varchar(20)` in a version has so many.
        return f"VARCHAR of {metadata} bytes"
    return f"{name}({metadata})" if metadata else name


def _nullability(column: Column, table_map: TableMap, at: int) -> list[Disagreement]:
    if column.nullable == table_map.nullable[at]:
        return []
    words = {True: "nullable", False: "NOT NULL"}
    return [Disagreement(column.name, words[column.nullable], words[table_map.nullable[at]])]


def _signedness(column: Column, kind: ColumnType, table_map: TableMap, at: int) -> list[Disagreement]:
    if table_map.unsigned is None or kind.kind not in _SIGNED or kind.unsigned == table_map.unsigned[at]:
        return []
    words = {True: "unsigned", False: "signed"}
    return [Disagreement(column.name, words[kind.unsigned], words[table_map.unsigned[at]])]


def _charset(column: Column, kind: ColumnType, table_map: TableMap, at: int) -> list[Disagreement]:
    collation = table_map.collations[at] if table_map.collations else 0
    if collation == 0 or kind.kind.facts.has_idle_charset:
        return []
    logged = charset_of_collation(COLLATION_NAMES.get(collation, f"collation {collation}"))
    has_text = kind.kind in STRINGS or column.character_set is not None
    says = (column.character_set or "binary") if has_text else "binary"
    if {"utf8": "utf8mb3"}.get(says, says) == {"utf8": "utf8mb3"}.get(logged, logged):
        return []
    return [Disagreement(column.name, f"in charset {says}", f"in {logged}")]


def _name(column: Column, table_map: TableMap, at: int) -> list[Disagreement]:
    if table_map.names is None or table_map.names[at].casefold() == column.name.casefold():
        return []
    return [Disagreement(column.name, f"called {column.name}", f"called {table_map.names[at]}")]
