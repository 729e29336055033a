"""Rows as a server prints them, and as a mirror has them with the texts of what no column of the lake holds.
Not here: the statements (the tests beside this file)."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from strata_cdc.changes.charset import characters_of, plain_table
from strata_cdc.schema.model.charsets import MANY_TO_ONE
from strata_cdc.schema.model.types import LABELLED, parse_column_type

if TYPE_CHECKING:
    import pymysql

    from strata_cdc.mirrors.table import Mirror
    from strata_cdc.schema.model.definition import Column, TableDefinition

Rows = Counter[tuple[str, ...]]


def selected(connection: pymysql.Connection, table: str, definition: TableDefinition) -> Rows:
    """The rows of a server, each value as a text that it alone has: a label with its number."""
    shown = ", ".join(_expression(column) for column in definition.columns)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {shown} FROM {table}")
        return Counter(tuple(map(str, row)) for row in cursor.fetchall())


def _expression(column: Column) -> str:
    name = f"`{column.name}`"
    kind = parse_column_type(column.column_type).kind
    if kind in LABELLED:
        return f"CAST({name} + 0 AS CHAR)"
    if column.character_set in MANY_TO_ONE:
        return f"CONCAT('0x', HEX({name}))"
    return f"CAST({name} AS CHAR)" if kind.value in {"date", "datetime", "timestamp"} else name


def mirrored(mirror: Mirror) -> Rows:
    """The rows of a mirror in the same texts."""
    names = [*mirror.schema.names]
    found: Rows = Counter()
    for row in mirror.to_arrow(names).to_pylist():
        verbatim = dict(row.get("_invalid") or ())
        found[tuple(_text(column, row[column.name], verbatim) for column in mirror.definition.columns)] += 1
    return found


def _text(column: Column, value: Any, verbatim: dict[str, str]) -> str:
    kind = parse_column_type(column.column_type)
    if column.name in verbatim:
        return verbatim[column.name]
    if value is not None and kind.kind in LABELLED:
        return str(_number(kind, value))
    if value is not None and column.character_set in MANY_TO_ONE:
        return "0x" + b"".join(map(usual_forms(column.character_set).__getitem__, value)).hex().upper()
    if isinstance(value, datetime):
        digits = kind.length or 0
        return f"{value:%Y-%m-%d %H:%M:%S}" + (f".{value.microsecond:06}"[: digits + 1] if digits else "")
    return value.isoformat() if isinstance(value, date) else str(value)


@cache
def usual_forms(charset: str) -> dict[str, bytes]:
    """The bytes of each character of a charset, where a mirror has no others beside it."""
    table, found = plain_table(charset), {}
    for place, data in sorted(characters_of(charset), key=lambda one: one[1][0] in {0xED, 0xEE}):
        if table[place] >= 0:
            found.setdefault(chr(table[place]), data)
    return found


def _number(kind: Any, value: str) -> int:
    if kind.kind.value == "enum":
        return kind.labels.index(value) + 1 if value in kind.labels else 0
    if value in kind.labels and value == "":
        return 1 << kind.labels.index("")
    return sum(1 << kind.labels.index(one) for one in value.split(",")) if value else 0
