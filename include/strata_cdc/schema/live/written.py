"""Tables of a MariaDB as SHOW CREATE TABLE writes them, read by the grammar of the statements in its binlog: what a
snapshot and a replay make of a table is the same. information_schema of MariaDB lacks hidden keys, periods and options.
Not here: which tables there are (`engine.py`), texts that the server does not show (`exact_texts.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pymysql
from msgspec.structs import replace

from strata_cdc.errors import DdlError
from strata_cdc.schema.apply.create import definition_from
from strata_cdc.schema.ddl.changes import CreateTable
from strata_cdc.schema.ddl.context import DdlContext
from strata_cdc.schema.ddl.read import read_ddl
from strata_cdc.schema.model.create_sql import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.flavour import Flavour
    from strata_cdc.schema.model.definition import TableDefinition, TableName

_GONE = frozenset({1049, 1146})
"""ER_BAD_DB_ERROR, ER_NO_SUCH_TABLE."""
_BROKEN = frozenset({1017, 1030, 1033, 1034, 1194, 1195, 1932})
"""A file is missing or wrong, or a table is marked as crashed: no other table is affected."""


def read_written(
    connection: pymysql.Connection[Any], names: Sequence[TableName], flavour: Flavour
) -> tuple[dict[TableName, TableDefinition], dict[TableName, str]]:
    """The tables that are still there, and why some of them are not understood.

    Args:
        connection: To the server; it gets an empty sql_mode, in which the statements are written.
        flavour: Of the server.

    Raises:
        pymysql.err.MySQLError: The user may not see a table, or the connection was lost.
    """
    definitions: dict[TableName, TableDefinition] = {}
    doubtful: dict[TableName, str] = {}
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = '', sql_quote_show_create = 1")
        for name in names:
            try:
                statement = _statement(cursor, name)
                if statement is None:
                    continue
                definitions[name] = _definition(statement, DdlContext(name.database, flavour=flavour))
            except DdlError as fault:
                doubtful[name] = f"its CREATE TABLE is not understood: {fault.message}"
            except pymysql.MySQLError as error:
                if error.args[0] not in _BROKEN:
                    raise
                doubtful[name] = f"the server cannot open it: {error.args[1]}"
    return definitions, doubtful


def _statement(cursor: pymysql.cursors.Cursor, name: TableName) -> str | None:
    try:
        cursor.execute(f"SHOW CREATE TABLE {quoted(name.database)}.{quoted(name.table)}")
    except pymysql.MySQLError as error:
        if (error.args[0] if error.args else 0) in _GONE:
            return None
        raise
    [(_, statement)] = cursor.fetchall()
    return str(statement)


def _definition(statement: str, context: DdlContext) -> TableDefinition:
    """The table that a statement makes; without its partitions, as no snapshot has them.

    Raises:
        DdlError: The statement is not understood.
    """
    [change] = read_ddl(statement, context)
    if not isinstance(change, CreateTable) or change.from_query:
        raise DdlError("it is no CREATE TABLE with columns", ddl=statement)
    return replace(definition_from(change, None), options="")
