"""The tables of shapes as the live server has them now: whether they are there and are tables, and which of them
foreign keys change without row events.
Not here: what they looked like at a position of the stream (`serving.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from strata_cdc.binlog.protocol.connection import connect, server_errors
from strata_cdc.binlog.protocol.visible_state import IDENTITY
from strata_cdc.errors import Usage
from strata_cdc.fields import near_names
from strata_cdc.flavour import Flavour
from strata_cdc.schema.history.versions import SYSTEM_DATABASES
from strata_cdc.schema.model.engines import CASCADES_LOGGED_SINCE
from strata_cdc.store.database import OnMissing, open_store
from strata_cdc.store.own import own_database

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pymysql

    from strata_cdc.binlog.protocol.connection import ServerAddress
    from strata_cdc.cache.shapes import Shapes
    from strata_cdc.config.settings import Source

_ACTIONS: Final = ("CASCADE", "SET NULL", "SET DEFAULT")
_REFERENCES: Final = re.compile(r"\breferences\b", re.IGNORECASE)
_ACTION: Final = re.compile(r"\b(cascade|set(\s|/\*.*?\*/|--.*?\n|#.*?\n)+(null|default))\b", re.IGNORECASE | re.DOTALL)
_MOST_NAMES: Final = 12
_CACHED: Final = frozenset({"BASE TABLE", "SYSTEM VERSIONED"})
"""Types of tables whose rows change by row events only; the last one is MariaDB's."""
_OTHERS: Final = {
    "SEQUENCE": "whose row ALTER SEQUENCE changes without a row event: leave it out",
    "VIEW": "which has no rows of its own: name the tables that it is made of",
}
"""Why shapes cannot use tables of other types."""
_ROWS_ELSEWHERE: Final = {
    "MRG_MYISAM": "MERGE, whose rows are those of the tables of its UNION, and change with them",
    "FEDERATED": "FEDERATED, whose rows are those of another server",
    "CONNECT": "CONNECT, whose rows lie outside of the server",
    "SPIDER": "SPIDER, whose rows are those of other servers",
}
"""Engines whose tables show rows that others change, without a row event of the table."""
_UNION: Final = re.compile(r"\bUNION=\(((?:`(?:[^`]|``)*`|[^`)])*)\)")
_NAME: Final = re.compile(r"(?:`((?:[^`]|``)+)`\.)?`((?:[^`]|``)+)`")


def may_cascade(statement: str) -> bool:
    """Whether a statement may make a foreign key by which another table's rows change rows of this one."""
    return bool(_REFERENCES.search(statement) and _ACTION.search(statement))


class LiveTables(Struct, frozen=True):
    """The tables of some databases as a server has them."""

    uuid: str
    folds_names: bool
    """Whether it takes names of any case for the same."""
    logs_cascades: bool
    """Whether its binlog has what foreign keys do to rows."""
    tables: dict[str, str]
    """By `database.table`: their type in `information_schema`, or their engine if it is one of `_ROWS_ELSEWHERE`."""
    cascades: set[str]
    """Tables, in lower case, whose rows change where those of another one do."""
    unions: dict[str, str]
    """By table, in lower case, a MERGE table that has it in its UNION: what is written through that one has row events
    of the MERGE table alone."""

    @classmethod
    def ask(cls, address: ServerAddress, databases: Sequence[str]) -> LiveTables:
        """Asks a server.

        Raises:
            SourceUnavailableError: It does not answer.
            AccessDeniedError: It does not let us in.
        """
        with connect(address) as connection, server_errors(address):
            return cls._query(connection, databases)

    @classmethod
    def _query(cls, connection: pymysql.Connection, databases: Sequence[str]) -> LiveTables:
        def rows(query: str, *arguments: object) -> list[Any]:
            with connection.cursor() as cursor:
                cursor.execute(query, arguments or None)
                return [tuple(map(_text, row)) for row in cursor.fetchall()]

        [(uuid, version, folding)] = rows(f"SELECT {IDENTITY}, VERSION(), @@lower_case_table_names")
        native: dict[str, str] = dict(rows("SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'"))
        logs = Flavour.parse(version).is_mysql(*CASCADES_LOGGED_SINCE) and "ON" not in native.values()
        query = (
            "SELECT CONCAT(table_schema, '.', table_name), IF(engine IN %s, UPPER(engine), table_type)"
            " FROM information_schema.tables WHERE table_schema IN %s"
        )
        tables: dict[str, str] = dict(rows(query, tuple(_ROWS_ELSEWHERE), databases))
        query = (
            "SELECT CONCAT(constraint_schema, '.', table_name) FROM information_schema.referential_constraints"
            " WHERE update_rule IN %s OR delete_rule IN %s"
        )
        cascades = {table.lower() for (table,) in rows(query, _ACTIONS, _ACTIONS)}
        query = "SELECT table_schema, table_name FROM information_schema.tables WHERE engine = %s"
        unions: dict[str, str] = {}
        for database, name in rows(query, "MRG_MYISAM"):
            quoted = ".".join("`" + part.replace("`", "``") + "`" for part in (database, name))
            [[_, created]] = rows(f"SHOW CREATE TABLE {quoted}")
            unions |= dict.fromkeys(_members(created, database), f"{database}.{name}")
        return cls(uuid, folding != "0", logs, tables, cascades, unions)

    def fault(self, table: str) -> str:
        """Why no shape can use a table; '' if it can."""
        kind = self._kind(table)
        if kind in _CACHED or kind in _ROWS_ELSEWHERE:
            return self.unlogged(table)
        if kind is not None:
            return f"{table} is a {kind.lower()}, {_OTHERS.get(kind, _OTHERS['VIEW'])}"
        names = self._near(table)
        return f"the server has no {table}, or hides it; " + (
            f"there are: {', '.join(names)}" if names else f"there is no table in {table.split('.', maxsplit=1)[0]}"
        )

    def unlogged(self, table: str) -> str:
        """Why rows of a table change without row events of it, by its engine or through another table; '' if they do
        not. What foreign keys do is in `cascades`."""
        kind, union = self._kind(table), self.unions.get(table.lower())
        if kind in _ROWS_ELSEWHERE:
            return f"{table} is a table of the engine {_ROWS_ELSEWHERE[kind]}"
        return f"{table} is in the UNION of {union}, and what is written there has no row event of it" if union else ""

    def _kind(self, table: str) -> str | None:
        known_kind = self.tables.get(table)
        if known_kind is None and self.folds_names:
            known_kind = next((kind for name, kind in self.tables.items() if name.lower() == table.lower()), None)
        return known_kind

    def _near(self, table: str) -> list[str]:
        database = table.split(".", maxsplit=1)[0].lower() + "."
        mine = sorted(
            name for name, kind in self.tables.items() if kind in _CACHED and name.lower().startswith(database)
        )
        near = near_names(table, mine, _MOST_NAMES)
        names = [*near, *(name for name in mine if name not in near)]
        return names if len(names) <= _MOST_NAMES else [*names[:_MOST_NAMES], f"and {len(names) - _MOST_NAMES} more"]


def _members(created: str, database: str) -> list[str]:
    """The tables of the UNION of a MERGE table, in lower case; `created` is its CREATE TABLE, `database` its own."""
    listed = _UNION.search(created)
    names = _NAME.findall(listed[1]) if listed else []
    return [".".join(part.replace("``", "`") for part in (of or database, name)).lower() for of, name in names]


def require_tables(source: Source, shapes: Shapes) -> None:
    """Refuses shapes that use a table without row events.

    Raises:
        Usage: A table is not there, is a view, or is excluded from streams; all mistakes are reported.
        SourceUnavailableError: The server does not answer.
    """
    live = LiveTables.ask(source.address, shapes.databases)
    engine = open_store(source.store_url, OnMissing.EMPTY)
    try:
        left_out = SYSTEM_DATABASES | own_database(engine, {live.uuid})
    finally:
        engine.dispose()
    faults = []
    for shape in shapes.shapes:
        for table in shape.tables:
            hidden = table.split(".")[0] in left_out
            fault = f"{table} is in a database that streams leave out" if hidden else live.fault(table)
            if fault:
                faults.append(f"shape {shape.name}: {fault}")
    if faults:
        raise Usage(
            "; ".join(faults),
            source=source.name,
            remedy="Write `database.table` as the server does; the account needs SELECT there.",
        )


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
