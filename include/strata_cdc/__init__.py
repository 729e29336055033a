"""Strata decodes MySQL binlogs with the schema that was true at each GTID.

rows = strata_cdc.sql("SELECT COUNT(*) FROM shop.orders", source="shop", at="2026-02-01 12:00:00")
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def sql(statement: str, *, source: str | None = None, at: str | None = None) -> pa.Table:
    """Answers a query of MySQL's SQL over tables as they were at a moment.

    Args:
        statement: The query. A table may name its own moment: `FOR SYSTEM_TIME AS OF TIMESTAMP '...'` or
            `AS OF GTID '...'`.
        source: A source of the settings (`STRATA_SETTINGS`); not needed if they have only one.
        at: The moment of the tables that name none: a time (UTC unless it has a zone) or a GTID set. By default the
            last position that all mirrors of the query have reached.

    Returns:
        The rows, with the column names that MySQL gives them and the types of docs/sql.md.

    Raises:
        QueryError: The statement is not answered: it is no query, or its meaning is not known here; the message has
            the position.
        PastUnknownError: A table's rows are not known at the moment.
        MissingExtraError: DuckDB or sqlglot is not installed.
        StrataError: The lake or the store does not answer.
    """
    # Imported here: every program of Strata imports this package.
    from strata_cdc.config.settings import load_settings  # noqa: PLC0415  see above
    from strata_cdc.past.query import answer  # noqa: PLC0415  see above

    return answer(load_settings(os.environ).source(source), statement, at).rows
