"""The names of a server's tables.
Not here: their definitions (`engine.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from strata_cdc.binlog.protocol.connection import fetch_rows
from strata_cdc.schema.history.versions import SYSTEM_DATABASES
from strata_cdc.schema.model.definition import TableName

if TYPE_CHECKING:
    import pymysql


TABLE_TYPES = frozenset({"BASE TABLE", "SYSTEM VERSIONED", "SEQUENCE"})
"""Of tables with rows, in `information_schema.TABLES`; the last two are MariaDB's."""


class ServerTables(Struct, frozen=True):
    """The tables of a server's users."""

    names: frozenset[TableName] = frozenset()
    folded: bool = False
    """Whether the server ignores the case of names."""

    @classmethod
    def from_server(cls, connection: pymysql.Connection[Any]) -> Self:
        """All tables that this user sees."""
        folded = fetch_rows(connection, "SELECT @@lower_case_table_names") != [(0,)]
        query = "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE IN %s"
        names = (TableName(*row) for row in fetch_rows(connection, query, (sorted(TABLE_TYPES),)))
        return cls(frozenset(name for name in names if name.database not in SYSTEM_DATABASES), folded)
