"""Strata decodes MySQL binlogs with the schema that was true at each GTID.

rows = strata_cdc.sql("SELECT COUNT(*) FROM shop.orders", source="shop", at="2026-02-01 12:00:00")
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import pyarrow as pa


def sql(statement: str, *, source: str | None = None, at: str | None = None, engine: str = "duckdb") -> pa.Table:
    """Answers a query of MySQL's SQL over tables as they were at a moment.

    Args:
        statement: The query. A table may name its own moment: `FOR SYSTEM_TIME AS OF TIMESTAMP '...'` or
            `AS OF GTID '...'`.
        source: A source of the settings (`STRATA_SETTINGS`); not needed if they have only one.
        at: The moment of the tables that name none: a time (UTC unless it has a zone) or a GTID set. By default the
            last position that all mirrors of the query have reached.
        engine: `duckdb`, or `spark` for tables that do not fit into memory: the process's Spark session, or else one
            on this machine that stays open until the process ends.

    Returns:
        The rows, with the column names that MySQL gives them and the types of docs/sql.md.

    Raises:
        QueryError: The statement is not answered: it is no query, or its meaning is not known here; the message has
            the position.
        PastUnknownError: A table's rows are not known at the moment.
        MissingExtraError: DuckDB or sqlglot is not installed.
        Permanent: Spark cannot be started here.
        StrataError: The lake or the store does not answer.
    """
    # Imported here: every program of Strata imports this package.
    from strata_cdc.config.settings import load_settings  # noqa: PLC0415  see above
    from strata_cdc.past.query import answer  # noqa: PLC0415  see above
    from strata_cdc.spark_jobs.query_engines import query_engine  # noqa: PLC0415  see above

    return answer(load_settings(os.environ).source(source), statement, at, query_engine(engine)).rows


def row_history(
    table: str,
    key: Sequence[object] = (),
    *,
    source: str | None = None,
    where: str | None = None,
    since: str | None = None,
    until: str | None = None,
) -> list[dict[str, Any]]:
    """The changes of the rows that ever had a key, or of those that meet a condition, in order.

    Args:
        table: `database.table`, as it is called at the end of the time.
        key: A value for each column of its key.
        source: A source of the settings (`STRATA_SETTINGS`); not needed if they have only one.
        where: Instead of a key, a condition in MySQL's SQL.
        since: Only changes after this moment: a time (UTC unless it has a zone) or a GTID set.
        until: Only changes up to this moment.

    Returns:
        The objects that `strata row history --format jsonl` prints (docs/row.md).

    Raises:
        Usage: There was no such table, or the key or the condition does not fit it.
        PastUnknownError: Of a change, nobody knows whether it meets the condition.
        StrataError: The lake or the store does not answer, or is damaged.
    """
    # Imported here: every program of Strata imports this package.
    from strata_cdc.config.settings import load_settings  # noqa: PLC0415  see above
    from strata_cdc.past.row_texts import history_object  # noqa: PLC0415  see above
    from strata_cdc.past.rows import PastRows  # noqa: PLC0415  see above
    from strata_cdc.schema.model.definition import TableName  # noqa: PLC0415  see above

    with PastRows(load_settings(os.environ).source(source)) as rows:
        words = [str(value) for value in key]
        lines = rows.history(TableName.parse(table), words, where=where, since=since, until=until)
        return [history_object(line) for line in lines]


def row_blame(
    table: str, key: Sequence[object], *, source: str | None = None, at: str | None = None
) -> list[dict[str, Any]]:
    """For each column of a row, the change or the DDL that gave it its value.

    Args:
        table: `database.table`, as it is called at the moment.
        key: A value for each column of its key.
        source: As for `row_history`.
        at: The moment: a time (UTC unless it has a zone) or a GTID set; None: the newest one.

    Returns:
        The objects that `strata row blame --format jsonl` prints (docs/row.md).

    Raises:
        Usage: There is no such row, or the key does not fit the table.
        PastUnknownError: The row's values at the moment are not known.
        StrataError: The lake or the store does not answer, or is damaged.
    """
    from strata_cdc.config.settings import load_settings  # noqa: PLC0415  as above
    from strata_cdc.past.row_texts import blame_objects  # noqa: PLC0415  as above
    from strata_cdc.past.rows import PastRows  # noqa: PLC0415  as above
    from strata_cdc.schema.model.definition import TableName  # noqa: PLC0415  as above

    with PastRows(load_settings(os.environ).source(source)) as rows:
        return list(blame_objects(rows.blame(TableName.parse(table), [str(value) for value in key], at=at)))


def row_diff(
    table: str, key: Sequence[object] = (), *, since: str, until: str | None = None, source: str | None = None
) -> list[dict[str, Any]]:
    """What differs between the rows of a table at two moments.

    Args:
        table: `database.table`, as it is called at the second moment.
        key: A value for each column of its key, for one row alone.
        since: The first moment: a time (UTC unless it has a zone) or a GTID set.
        until: The second moment; None: the last one that the table's mirror has reached.
        source: As for `row_history`.

    Returns:
        The objects that `strata row diff --format jsonl` prints (docs/row.md).

    Raises:
        Usage: The key does not fit the table, or the table did not exist.
        PastUnknownError: The table's rows at one of the moments are not known.
        StrataError: The lake or the store does not answer, or is damaged.
    """
    from strata_cdc.config.settings import load_settings  # noqa: PLC0415  as above
    from strata_cdc.past.row_texts import diff_objects  # noqa: PLC0415  as above
    from strata_cdc.past.rows import PastRows  # noqa: PLC0415  as above
    from strata_cdc.schema.model.definition import TableName  # noqa: PLC0415  as above

    with PastRows(load_settings(os.environ).source(source)) as rows:
        words = [str(value) for value in key]
        return list(diff_objects(rows.diff(TableName.parse(table), words, since=since, until=until)))
