"""What information_schema of a MariaDB shows of tables, in the form of `shown.py`.
Not here: running statements (`mariadb_differential.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from strata_cdc.schema.model.definition import KeyKind, TableDefinition, Unknown
from strata_cdc.schema.model.types import SPATIAL, Family, TypeKind, parse_column_type
from tests.schema import shown

if TYPE_CHECKING:
    import pymysql

    from strata_cdc.schema.replay.catalog import Catalog
    from tests.schema.shown import Shown

_TABLES = """
SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_COLLATION, TABLE_TYPE, ENGINE FROM information_schema.TABLES
WHERE TABLE_SCHEMA NOT IN %s AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED', 'SEQUENCE')
"""
_COLUMNS = """
SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, CHARACTER_SET_NAME, COLLATION_NAME,
       COLUMN_DEFAULT, EXTRA, COLUMN_COMMENT
FROM information_schema.COLUMNS WHERE TABLE_SCHEMA NOT IN %s ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION
"""
_KEYS = """
SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, NON_UNIQUE, COLUMN_NAME, SUB_PART, INDEX_TYPE, IGNORED, COLLATION
FROM information_schema.STATISTICS WHERE TABLE_SCHEMA NOT IN %s
ORDER BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX
"""
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?\Z")
_EXPRESSION = "(expression)"
_OF_BYTES = frozenset({Family.BYTES, Family.BLOB, Family.VECTOR})
_UNESCAPED = {"0": "\0", "n": "\n", "r": "\r", "t": "\t", "b": "\b", "Z": "\x1a"}


def read_shown(connection: pymysql.Connection) -> Shown:
    """Everything but the system's own databases, as the server shows it now."""
    found: Shown = {}
    with connection.cursor() as cursor:
        cursor.execute(_TABLES, (shown.SYSTEM_DATABASES,))
        for database, table, collation, kind, engine in cursor.fetchall():
            found[f"{database}.{table}"] = {
                "collation": collation,
                "columns": [],
                "keys": {},
                "versioned": kind == "SYSTEM VERSIONED",
                "sequence": kind == "SEQUENCE",
                "engine": engine,
            }
        cursor.execute(_COLUMNS, (shown.SYSTEM_DATABASES,))
        for database, table, *facts in cursor.fetchall():
            if f"{database}.{table}" in found:
                found[f"{database}.{table}"]["columns"].append(_column(*facts))
        cursor.execute(_KEYS, (shown.SYSTEM_DATABASES,))
        for database, table, name, *facts in cursor.fetchall():
            if f"{database}.{table}" in found:
                _add_key_part(found[f"{database}.{table}"], name, *facts)
    return found


def _column(name, column_type, nullable, charset, collation, default, extra, comment) -> dict[str, Any]:
    text, is_expression = _default(default)
    on_update = extra.partition("on update ")[2].partition(",")[0].partition(" ")[0].strip() or None
    return {
        "name": name,
        "type": column_type.removesuffix(" /* mariadb-5.3 */"),
        "nullable": nullable == "YES",
        # Labels of bytes have no charset in a definition.
        "charset": None if charset == "binary" else charset,
        "collation": None if collation == "binary" else collation,
        "default": text,
        "default_is_expression": is_expression,
        "auto_increment": "auto_increment" in extra,
        "on_update": _now(on_update) if on_update else None,
        "generated": next((kind.lower() for kind in ("VIRTUAL", "STORED") if f"{kind} GENERATED" in extra), None),
        "invisible": "INVISIBLE" in extra,
        "comment": comment,
        "srid": None,
    }


def _now(text: str) -> str:
    return text.upper().removesuffix("()")


def _default(text: str | None) -> tuple[str | None, bool]:
    if text is None or text == "NULL":
        return None, False
    if text.startswith("current_timestamp"):
        return _now(text), True
    text = re.sub(r"\A_[a-z0-9]+'", "'", text)
    if text[0] == "'" and text[-1] == "'":
        inside = text[1:-1].replace("''", "'")
        return re.sub(r"\\(.)", lambda one: _UNESCAPED.get(one[1], one[1]), inside, flags=re.DOTALL), False
    if re.match(r"[bx]'[0-9a-f]*'\Z|0x[0-9A-Fa-f]+\Z", text) or _NUMBER.match(text):
        return text, False
    return _EXPRESSION, True


def _add_key_part(table, name, *facts) -> None:
    non_unique, column, sub_part, index_type, ignored, collation = facts
    if name == "PRIMARY":
        kind = "primary"
    elif index_type in {"FULLTEXT", "SPATIAL", "VECTOR"}:
        kind, sub_part = index_type.lower(), None
    else:
        kind = "index" if non_unique else "unique"
    hashed = kind == "unique" and index_type == "HASH" and table["engine"] != "MEMORY"
    key = table["keys"].setdefault(name, {"kind": kind, "invisible": ignored == "YES", "hashed": hashed, "parts": []})
    key["parts"].append([column, sub_part, collation == "D"])


def differences(theirs: Shown, catalog: Catalog) -> list[str]:
    """What a catalog says otherwise than the server, in words; gaps are not differences."""
    found = []
    ours = {
        f"{name.database}.{name.table}": definition
        for name, definition in catalog
        if name.database.lower() not in shown.SYSTEM_DATABASES
    }
    for name, definition in ours.items():
        if name not in theirs and isinstance(definition, TableDefinition):
            found.append(f"{name}: the server has no such table")
    for name, one in sorted(theirs.items()):
        definition = ours.get(name)
        if definition is None:
            found.append(f"{name}: missing")
        elif not isinstance(definition, Unknown) and one["collation"] is not None:  # None: it cannot be opened
            found += [f"{name}: {text}" for text in _of_table(one, definition)]
    return found


def _of_table(theirs: dict[str, Any], definition: TableDefinition) -> list[str]:
    definition = replace(definition, columns=tuple(column for column in definition.columns if not column.hidden))
    for name, key in theirs["keys"].items():
        _without_row_end(name, key, definition)
        _without_lengths_of_geometries(key, definition)
    definition = shown._with_lengths_told(definition, theirs["keys"])
    ours = shown.shown_of(definition)
    for key in definition.keys:
        hashed = theirs["keys"].get(key.name, {}).get("hashed") if key.hashed is None else key.hashed
        ours["keys"][key.name]["hashed"] = hashed
        if key.kind is KeyKind.VECTOR:
            for part in ours["keys"][key.name]["parts"]:
                part[1] = None
    for column, mine, their in zip(definition.columns, ours["columns"], theirs["columns"], strict=False):
        _make_comparable(column, mine, their)
    found = shown._differences({**theirs}, ours) if theirs != ours else []
    found += [
        f"{fact} {theirs[fact]} != {getattr(definition, fact)}"
        for fact in ("versioned", "sequence")
        if theirs[fact] != getattr(definition, fact)
    ]
    return found


def _without_row_end(name: str, key: dict[str, Any], definition: TableDefinition) -> None:
    """A unique key of a versioned table also has the end of the row's time, if the table declares that column."""
    if definition.versioned and key["kind"] in {"unique", "primary"}:
        ends = {column.name for column in definition.columns if column.generation_expression == "ROW END"}
        ends -= {part.column for ours in definition.keys if ours.name == name for part in ours.parts}
        key["parts"] = [part for part in key["parts"] if part[0] not in ends] or key["parts"]


def _without_lengths_of_geometries(key: dict[str, Any], definition: TableDefinition) -> None:
    """The server shows 8 for those other than POINT."""
    for part in key["parts"]:
        column = definition.column(part[0] or "")
        if column is not None and parse_column_type(column.column_type).kind in SPATIAL - {TypeKind.POINT}:
            part[1] = None


def _leave_doubt(mine: dict[str, Any], their: dict[str, Any]) -> None:
    """Takes from the server what a version leaves open: ON UPDATE CURRENT_TIMESTAMP, and such a default."""
    now = their["on_update"]
    if now is not None and now.startswith("CURRENT_TIMESTAMP"):
        mine["on_update"] = now
        if mine["default"] is None and their["default"] == now:
            mine["default"], mine["default_is_expression"] = now, True


def _make_comparable(column, mine: dict[str, Any], their: dict[str, Any]) -> None:
    kind = parse_column_type(column.column_type)
    if kind.compressed and not column.nullable and column.default is None and their["default"] == "":
        their["default"] = None  # the server shows it of each such column without a default
    if column.on_update_in_doubt:
        _leave_doubt(mine, their)
    if kind.kind.facts.family in _OF_BYTES and mine["default"] and not mine["default_is_expression"]:
        # MariaDB shows all bytes, as x'..' or as text.
        raw = column.default_bytes or column.default.removeprefix("0x").lower()
        if kind.kind.facts.family is Family.BYTES and kind.kind.value == "binary":
            raw = raw.ljust(2 * (kind.length or 0), "0")
        mine["default"] = raw.lower()
        text = their["default"] or ""
        if text.startswith(("x'", "0x")):
            their["default"] = text[2:].rstrip("'").lower()
        else:
            their["default"] = text.encode("utf8", "surrogateescape").hex()
