"""What information_schema shows of tables, and what a definition says it would show: one comparable form.
Not here: running statements (`differential.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from strata_cdc.schema.model.definition import KeyKind, TableDefinition, Unknown
from strata_cdc.schema.model.types import shown_text

if TYPE_CHECKING:
    import pymysql

    from strata_cdc.schema.replay.catalog import Catalog

Shown = dict[str, dict[str, Any]]
"""By `database.table`: columns, keys, collation."""

SYSTEM_DATABASES = ("mysql", "sys", "performance_schema", "information_schema")

NOT_SHOWN = "(not shown)"
"""The server says DEFAULT_GENERATED and shows no default: after ALTER COLUMN t SET DEFAULT (expression) of a text,
after DROP DEFAULT of a CURRENT_TIMESTAMP, and where an ALTER promotes a TIMESTAMP that it does not name. No binlog
holds the last: `explicit_defaults_for_timestamp` is in the event only if the statement speaks of TIMESTAMP, so that a
replica does not know it either."""

_PROMOTED = {"default", "default_is_expression", "on_update"}

_TABLES = """
SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_COLLATION FROM information_schema.TABLES
WHERE TABLE_SCHEMA IN %s AND TABLE_TYPE = 'BASE TABLE'
"""
_COLUMNS = """
SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, CHARACTER_SET_NAME, COLLATION_NAME,
       COLUMN_DEFAULT, EXTRA, COLUMN_COMMENT, SRS_ID
FROM information_schema.COLUMNS WHERE TABLE_SCHEMA IN %s ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION
"""
_KEYS = """
SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, NON_UNIQUE, COLUMN_NAME, SUB_PART, INDEX_TYPE, IS_VISIBLE, COLLATION
FROM information_schema.STATISTICS WHERE TABLE_SCHEMA IN %s
ORDER BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX
"""


def read_shown(connection: pymysql.Connection) -> Shown:
    """Everything but the system's own databases, as the server shows it now."""
    found: Shown = {}
    with connection.cursor() as cursor:
        # Names of databases make the queries three times as fast as a condition that excludes some.
        cursor.execute("SHOW DATABASES")
        names = tuple(name for (name,) in cursor.fetchall() if name not in SYSTEM_DATABASES)
        if not names:
            return found
        cursor.execute(_TABLES, (names,))
        for database, table, collation in cursor.fetchall():
            found[f"{database}.{table}"] = {"collation": collation, "columns": [], "keys": {}}
        cursor.execute(_COLUMNS, (names,))
        for database, table, *facts in cursor.fetchall():
            if f"{database}.{table}" in found:
                found[f"{database}.{table}"]["columns"].append(_column_shown(*facts))
        cursor.execute(_KEYS, (names,))
        for database, table, name, *facts in cursor.fetchall():
            keys = found.get(f"{database}.{table}", {"keys": {}})["keys"]
            _add_key_part(keys, name, *facts)
    return found


def _column_shown(*facts: Any) -> dict[str, Any]:
    name, column_type, nullable, charset, collation, default, extra, comment, srid = facts
    extra = extra or ""
    on_update = extra.partition("on update ")[2].partition(" ")[0] or None
    generated = next((kind for kind in ("VIRTUAL", "STORED") if f"{kind} GENERATED" in extra), None)
    expression = "DEFAULT_GENERATED" in extra
    if expression and default is None:
        default = NOT_SHOWN
    elif expression and not str(default).startswith("CURRENT_TIMESTAMP"):
        default = "(expression)"
    return {
        "name": name,
        "type": column_type,
        "nullable": nullable == "YES",
        "charset": charset,
        "collation": collation,
        "default": default,
        "default_is_expression": expression,
        "auto_increment": "auto_increment" in extra,
        "on_update": on_update,
        "generated": generated.lower() if generated else None,
        "invisible": "INVISIBLE" in extra,
        "comment": comment,
        "srid": srid,
    }


def _add_key_part(keys, name, non_unique, column, sub_part, index_type, visible, collation) -> None:
    if name == "PRIMARY":
        kind = "primary"
    elif index_type in {"FULLTEXT", "SPATIAL"}:
        kind, sub_part = index_type.lower(), None
    else:
        kind = "index" if non_unique else "unique"
    key = keys.setdefault(name, {"kind": kind, "invisible": visible == "NO", "parts": []})
    key["parts"].append([column, sub_part, collation == "D"])


def shown_of(definition: TableDefinition) -> dict[str, Any]:
    """What the server would show of a table with this definition."""
    return {
        "collation": definition.collation,
        "columns": [
            {
                "name": column.name,
                "type": shown_text(column.column_type),
                "nullable": column.nullable,
                "charset": column.character_set,
                "collation": column.collation,
                "default": "(expression)"
                if column.default_is_expression and not str(column.default).startswith("CURRENT_TIMESTAMP")
                else column.default and shown_text(column.default),
                "default_is_expression": column.default_is_expression,
                "auto_increment": column.auto_increment,
                "on_update": column.on_update,
                "generated": column.generated.value if column.generated else None,
                "invisible": column.invisible,
                "comment": shown_text(column.comment),
                "srid": column.srid,
            }
            for column in definition.columns
        ],
        "keys": {
            key.name: {
                "kind": key.kind.value,
                "invisible": key.invisible,
                "parts": [
                    [part.column, None if key.kind == KeyKind.SPATIAL else part.prefix_length, part.descending]
                    for part in key.parts
                ],
            }
            for key in definition.keys
        },
    }


def differences(shown: Shown, catalog: Catalog) -> list[str]:
    """What a catalog says otherwise than the server, in words; gaps are not differences."""
    found = []
    ours = {f"{name.database}.{name.table}": definition for name, definition in catalog}
    found += [f"{name}: the server has no such table" for name in ours.keys() - shown.keys() if not _is_gap(ours[name])]
    found += [f"{name}: missing" for name in shown.keys() - ours.keys()]
    for name in sorted(shown.keys() & ours.keys()):
        definition = ours[name]
        if not isinstance(definition, Unknown):
            reported = _with_lengths_told(definition, shown[name]["keys"])
            found += [f"{name}: {text}" for text in _differences(shown[name], shown_of(reported))]
    return found


def _with_lengths_told(definition: TableDefinition, keys: dict[str, Any]) -> TableDefinition:
    """The definition, lengths in doubt being those of the server where they are among the possible ones."""
    if not definition.in_doubt:
        return definition
    reported = []
    for key in definition.keys:
        theirs = keys.get(key.name, {"parts": [None] * len(key.parts)})["parts"]
        parts = (
            ours.with_lengths([their[1]]) if their and ours.lengths_in_doubt and their[1] in ours.lengths else ours
            for ours, their in zip(key.parts, theirs, strict=False)
        )
        reported.append(replace(key, parts=tuple(parts)))
    return replace(definition, keys=tuple(reported))


def _is_gap(definition: TableDefinition | Unknown) -> bool:
    return isinstance(definition, Unknown)


def _differences(theirs: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    if theirs == ours:
        return []
    found = []
    # None is not known: of a table that the server has written in place of a LIKE.
    if ours["collation"] not in {theirs["collation"], None}:
        found.append(f"collation {theirs['collation']} != {ours['collation']}")
    names = [column["name"] for column in theirs["columns"]], [column["name"] for column in ours["columns"]]
    if names[0] != names[1]:
        found.append(f"columns {names[0]} != {names[1]}")
    else:
        for one, other in zip(theirs["columns"], ours["columns"], strict=True):
            facts = one.keys() - (_PROMOTED if one["default"] == NOT_SHOWN else set())
            found += [f"{one['name']}.{key} {one[key]!r} != {other[key]!r}" for key in facts if one[key] != other[key]]
    keys = theirs["keys"], ours["keys"]
    found += [
        f"key {name} {keys[0].get(name)} != {keys[1].get(name)}"
        for name in sorted(keys[0].keys() | keys[1].keys())
        if keys[0].get(name) != keys[1].get(name)
    ]
    return found
