"""Masking policies of columns (MySQL 9.7, WL#16525): by them, a SELECT has other values than are stored, each user's
own. The binlog has what is stored.
Not here: the DDL that gives a column a policy (`schema/ddl/`), who reads rows (`mirrors/dump/`, `quality/reconcile/`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strata_cdc.binlog.protocol.connection import fetch_rows
from strata_cdc.errors import Usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pymysql

    from strata_cdc.schema.model.definition import TableName

MASKED: Final = "MASKING POLICY"
"""In `EXTRA` of information_schema.COLUMNS."""


def masked_columns(connection: pymysql.Connection[Any], name: TableName) -> list[str]:
    """The columns of a table that have a masking policy now. Raises what PyMySQL raises."""
    query = (
        "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s "
        "AND LOCATE(%s, EXTRA) ORDER BY ORDINAL_POSITION"
    )
    return [str(column) for (column,) in fetch_rows(connection, query, (name.database, name.table, MASKED))]


def refuse_masked(connection: pymysql.Connection[Any], name: TableName) -> None:
    """Refuses a table of which a SELECT does not have what is stored. Raises what PyMySQL raises.

    Raises:
        Usage: A column has a masking policy now.
    """
    masked = masked_columns(connection, name)
    if masked:
        raise Usage(shown_masked(masked), table=str(name), remedy=REMEDY)


def shown_masked(columns: Sequence[str]) -> str:
    """Why the rows of a table with such columns cannot be read from the server."""
    return f"a SELECT does not have what is stored in column {', '.join(columns)}: there is a masking policy"


REMEDY: Final = (
    "Take the policy away while the rows are read (ALTER TABLE ... ALTER COLUMN ... DROP MASKING POLICY). Changes are "
    "decoded as they were stored, whatever policies there are."
)
