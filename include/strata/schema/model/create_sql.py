"""A definition as the CREATE TABLE statement that makes it.
Not here: reading statements (`ddl/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata.schema.model.definition import Column, Key, KeyKind, KeyPart, TableDefinition, TableName
from strata.schema.model.types import LABELLED, TypeKind, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Iterator

_KEY_WORDS = {
    KeyKind.PRIMARY: "PRIMARY KEY",
    KeyKind.UNIQUE: "UNIQUE KEY",
    KeyKind.INDEX: "KEY",
    KeyKind.FULLTEXT: "FULLTEXT KEY",
    KeyKind.SPATIAL: "SPATIAL KEY",
}


def create_table_sql(name: TableName, definition: TableDefinition) -> str:
    """The statement, as a server with an empty sql_mode reads it."""
    lines = [*map(column_sql, definition.columns), *map(_key_sql, definition.keys)]
    body = ",\n".join(f"  {line}" for line in lines)
    options = "".join(f" {option}" for option in _options(definition))
    return f"CREATE TABLE {quoted(name.database)}.{quoted(name.table)} (\n{body}\n){options}"


def quoted(name: str) -> str:
    """A name in backquotes."""
    return "`" + name.replace("`", "``") + "`"


def text_literal(text: str) -> str:
    """A string literal, as a server without NO_BACKSLASH_ESCAPES reads it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''").replace("\0", "\\0") + "'"


def column_sql(column: Column) -> str:
    """One column: name, type, attributes."""
    return f"{quoted(column.name)} {column.column_type}{''.join(f' {word}' for word in _attributes(column))}"


def _attributes(column: Column) -> Iterator[str]:
    kind = parse_column_type(column.column_type).kind
    yield from _charset(column, kind)
    if column.generated is not None:
        yield f"GENERATED ALWAYS AS ({column.generation_expression}) {column.generated.value.upper()}"
    if not column.nullable:
        yield "NOT NULL"
    elif kind is TypeKind.TIMESTAMP:
        yield "NULL"  # while explicit_defaults_for_timestamp is off, NOT NULL is what silence means
    if column.srid is not None:
        yield f"SRID {column.srid}"
    if column.default is not None:
        yield f"DEFAULT {_default_sql(column, kind)}"
    if column.on_update is not None:
        yield f"ON UPDATE {column.on_update}"
    yield from _marks(column)


def _charset(column: Column, kind: TypeKind) -> Iterator[str]:
    if column.character_set is not None:
        yield f"CHARACTER SET {column.character_set} COLLATE {column.collation}"
    elif kind in LABELLED:
        yield "CHARACTER SET binary"


def _marks(column: Column) -> Iterator[str]:
    if column.auto_increment:
        # It implies NOT NULL, but for a NULL that stands behind it.
        yield "AUTO_INCREMENT NULL" if column.nullable else "AUTO_INCREMENT"
    if column.invisible:
        yield "INVISIBLE"
    if column.comment:
        yield f"COMMENT {text_literal(column.comment)}"


def _default_sql(column: Column, kind: TypeKind) -> str:
    text = column.default or ""
    if column.default_is_expression:
        return text if text.startswith("CURRENT_TIMESTAMP") else f"({text})"
    binary = kind in {TypeKind.BINARY, TypeKind.VARBINARY} or (kind in LABELLED and column.character_set is None)
    if kind is TypeKind.BIT or (binary and len(text) > len("0x")):
        return text
    return "''" if binary else text_literal(text)


def _key_sql(key: Key) -> str:
    name = "" if key.kind is KeyKind.PRIMARY else f" {quoted(key.name)}"
    parts = ",".join(map(_part_sql, key.parts))
    return f"{_KEY_WORDS[key.kind]}{name} ({parts}){' INVISIBLE' if key.invisible else ''}"


def _part_sql(part: KeyPart) -> str:
    text = quoted(part.column) if part.column is not None else f"({part.expression})"
    if part.prefix_length is not None:
        text += f"({part.prefix_length})"
    return f"{text} DESC" if part.descending else text


def _options(definition: TableDefinition) -> Iterator[str]:
    if definition.engine is not None:
        yield f"ENGINE={definition.engine}"
    if definition.row_format is not None:
        yield f"ROW_FORMAT={definition.row_format.upper()}"
    if definition.character_set is not None:
        yield f"DEFAULT CHARSET={definition.character_set} COLLATE={definition.collation}"
    if definition.options:
        yield definition.options
