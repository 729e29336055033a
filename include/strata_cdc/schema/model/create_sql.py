"""A definition as the CREATE TABLE statement that makes it, in the form of SHOW CREATE TABLE (8.0 and later;
sql/sql_show.cc, `store_create_info`).
Not here: reading statements (`ddl/`), the order of keys in a history (`schema/answers/create_statements.py`),
statements of other engines (`dialects/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.schema.model.charsets import CHARSETS
from strata_cdc.schema.model.definition import KeyKind
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.schema.model.types import (
    ESCAPED,
    LABELLED,
    Family,
    TypeKind,
    kinds_of,
    parse_column_type,
    shown_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strata_cdc.schema.model.definition import Column, Key, KeyPart, TableDefinition
    from strata_cdc.schema.model.types import ColumnType

_KEY_WORDS = {
    KeyKind.PRIMARY: "PRIMARY KEY",
    KeyKind.UNIQUE: "UNIQUE KEY",
    KeyKind.INDEX: "KEY",
    KeyKind.FULLTEXT: "FULLTEXT KEY",
    KeyKind.SPATIAL: "SPATIAL KEY",
    KeyKind.VECTOR: "VECTOR KEY",
}
_BINARY = kinds_of(Family.BYTES)
_WITHOUT_DEFAULT = kinds_of(Family.TEXT, Family.BLOB)
"""DEFAULT NULL is not written for these types, because they can have no other default."""
_ENGINES = {
    "innodb": "InnoDB",
    "myisam": "MyISAM",
    "memory": "MEMORY",
    "heap": "MEMORY",
    "csv": "CSV",
    "archive": "ARCHIVE",
    "blackhole": "BLACKHOLE",
    "federated": "FEDERATED",
    "merge": "MRG_MYISAM",
    "mrg_myisam": "MRG_MYISAM",
    "ndb": "ndbcluster",
    "ndbcluster": "ndbcluster",
}
"""The names as the server writes them."""
_NEWEST_DEFAULT = "utf8mb4_0900_ai_ci"
"""The server writes this collation even if it is the default, because older servers have another default."""


class AsWritten(Struct, frozen=True):
    """How statements wrote a table: facts that SHOW CREATE TABLE prints, but that mean nothing and are in no
    definition. Names of columns are folded."""

    key_order: tuple[str, ...] = ()
    """Names of keys in the order in which the server keeps them; other keys follow by name."""
    collated: frozenset[str] | None = None
    """Columns that had an explicit charset or collation, even if it is that of the table; None: those that differ from
    the table."""
    without_default: frozenset[str] = frozenset()
    """Columns whose default was dropped: they do not even have DEFAULT NULL."""


NOTHING_WRITTEN: Final = AsWritten()


def create_table_sql(table: str, definition: TableDefinition, written: AsWritten = NOTHING_WRITTEN) -> str:
    """The statement, as a server with an empty sql_mode reads it.

    Args:
        table: Name of the table, without its database.
        written: How statements wrote the table, as far as that is known.
    """
    lines = [column_sql(column, definition.collation, written) for column in definition.columns]
    lines += map(key_sql, shown_keys(definition, written.key_order))
    body = ",\n".join(f"  {line}" for line in lines)
    options = "".join(f" {option}" for option in _options(definition))
    partitions = f"\n/*!50100 {definition.options} */" if definition.options else ""
    return f"CREATE TABLE {quoted(table)} (\n{body}\n){options}{partitions}"


def shown_keys(definition: TableDefinition, key_order: Sequence[str] = ()) -> list[Key]:
    """The keys in the order in which the server keeps them (sql/sql_table.cc, `sort_keys`)."""
    nullable = {fold_name(column.name) for column in definition.columns if column.nullable}
    order = {fold_name(name): ordinal for ordinal, name in enumerate(key_order)}

    def rank(key: Key) -> tuple[bool, bool, bool, bool, bool, bool, int]:
        is_unique = key.kind in {KeyKind.PRIMARY, KeyKind.UNIQUE}
        may_be_null = any(part.column is None or fold_name(part.column) in nullable for part in key.parts)
        return (
            not is_unique,
            key.kind is not KeyKind.PRIMARY,
            is_unique and may_be_null,
            is_unique and any(part.prefix_length is not None for part in key.parts),
            key.kind is KeyKind.FULLTEXT,
            any(part.column is None for part in key.parts),
            order.get(fold_name(key.name), len(order)),
        )

    return sorted(definition.keys, key=rank)


def quoted(name: str) -> str:
    """A name in backquotes."""
    return "`" + name.replace("`", "``") + "`"


def text_literal(text: str) -> str:
    """A string literal for a server without NO_BACKSLASH_ESCAPES."""
    return "'" + shown_text(text).translate(ESCAPED) + "'"


def column_sql(column: Column, table_collation: str | None, written: AsWritten = NOTHING_WRITTEN) -> str:
    """One column: name, type, attributes."""
    kind = parse_column_type(column.column_type)
    words = (shown_text(column.column_type), *_attributes(column, kind, table_collation, written))
    return " ".join((quoted(column.name), *words))


def _attributes(column: Column, kind: ColumnType, table_collation: str | None, written: AsWritten) -> Iterator[str]:
    yield from _charset(column, kind, table_collation, written)
    if column.generated is not None:
        yield f"GENERATED ALWAYS AS ({column.generation_expression}) {column.generated.value.upper()}"
    if not column.nullable:
        yield "NOT NULL"
    elif kind.kind is TypeKind.TIMESTAMP:
        yield "NULL"  # while explicit_defaults_for_timestamp is off, a missing NULL means NOT NULL
    if column.srid is not None:
        yield f"/*!80003 SRID {column.srid} */"
    default = _default_sql(column, kind)
    if default is not None and not (default == "NULL" and fold_name(column.name) in written.without_default):
        yield f"DEFAULT {default}"
    yield from _marks(column)


def _marks(column: Column) -> Iterator[str]:
    if column.on_update is not None:
        yield f"ON UPDATE {column.on_update}"
    if column.auto_increment:
        yield "AUTO_INCREMENT"
    if column.invisible:
        yield "/*!80023 INVISIBLE */"
    if column.comment:
        yield f"COMMENT {text_literal(column.comment)}"


def _charset(column: Column, kind: ColumnType, table_collation: str | None, written: AsWritten) -> Iterator[str]:
    charset, collation = column.character_set, column.collation
    if kind.kind in LABELLED and collation is None:
        charset = collation = "binary"
    if charset is None or collation is None:
        return
    differs = collation != table_collation
    is_named = differs if written.collated is None else fold_name(column.name) in written.collated
    if differs or is_named:
        yield f"CHARACTER SET {charset}"
    is_newest = collation == _NEWEST_DEFAULT != table_collation
    if is_named or is_newest or collation != CHARSETS[charset].default_collation:
        yield f"COLLATE {collation}"


def _default_sql(column: Column, kind: ColumnType) -> str | None:
    if column.default is None:
        has_none = column.generated is not None or column.auto_increment or kind.kind in _WITHOUT_DEFAULT
        return "NULL" if column.nullable and not has_none else None
    text = column.default
    if column.default_is_expression:
        return text if text.startswith("CURRENT_TIMESTAMP") else f"({text})"
    if kind.kind is TypeKind.BIT:
        return text
    if kind.kind in _BINARY or (kind.kind in LABELLED and column.character_set is None):
        return _bytes_sql(column.default_bytes or text, kind)
    return text_literal(text)


def _bytes_sql(text: str, kind: ColumnType) -> str:
    raw = bytes.fromhex(text.removeprefix("0x"))
    if kind.kind is TypeKind.BINARY:
        raw = raw.ljust(kind.length or 0, b"\0")
    try:
        return text_literal(raw.decode())
    except UnicodeDecodeError:
        return f"0x{raw.hex().upper()}"


def key_sql(key: Key) -> str:
    """One key: kind, name, parts."""
    name = "" if key.kind is KeyKind.PRIMARY else f" {quoted(key.name)}"
    parts = ",".join(map(_part_sql, key.parts))
    return f"{_KEY_WORDS[key.kind]}{name} ({parts}){' /*!80000 INVISIBLE */' if key.invisible else ''}"


def _part_sql(part: KeyPart) -> str:
    text = quoted(part.column) if part.column is not None else f"({part.expression})"
    if part.prefix_length is not None:
        text += f"({part.prefix_length})"
    return f"{text} DESC" if part.descending else text


def _options(definition: TableDefinition) -> Iterator[str]:
    engine = definition.engine or "InnoDB"
    yield f"ENGINE={_ENGINES.get(engine.lower(), engine)}"
    if definition.character_set is not None and definition.collation is not None:
        yield f"DEFAULT CHARSET={definition.character_set}"
        default = CHARSETS[definition.character_set].default_collation
        if definition.collation != default or default == _NEWEST_DEFAULT:
            yield f"COLLATE={definition.collation}"
    if definition.row_format is not None:
        yield f"ROW_FORMAT={definition.row_format.upper()}"
