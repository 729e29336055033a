"""Published changes as Arrow tables, for proofs and for users of Python.
Not here: the result of the changes (`quality/proof/replay.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from strata_cdc.errors import Usage
from strata_cdc.schema.model.definition import TableName
from strata_cdc.tables.common_types import common_schema
from strata_cdc.tables.lost import open_changes
from strata_cdc.tables.outputs import OUTPUT
from strata_cdc.tables.united import columns_of, united

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strata_cdc.tables.port import Output, OutputTable


def read_changes(
    lake: str,
    source: str,
    table: TableName | str,
    *,
    columns: Sequence[str] | None = None,
    start: int | None = None,
    end: int | None = None,
    output: Output = OUTPUT,
) -> pa.Table:
    """The published changes of a table, in no order; sort by `_seq` and `_row` if the order matters.

    A column that has had several types is several columns of the change table. Here it is one column, in the type that
    can hold the values of all of them without loss.

    Args:
        table: The table: a name, or the text `database.table`.
        columns: The requested columns; None for all.
        start: First requested interval (microseconds UTC, inclusive); None: from the first one.
        end: End of the range (exclusive); None for no end.
        output: The kind of table.

    Raises:
        Usage: The table was never published, the text is not the name of a table, or a column has had types without a
            common type.
        LostTableError: Its log is not complete.
        LakeUnavailableError: The storage does not answer.
    """
    table = TableName.parse(table)
    tables = _tables(lake, source, table, output)
    if not tables:
        raise Usage(
            "nothing of this table is published",
            source=source,
            table=str(table),
            remedy="`strata status` lists tables.",
        )
    try:
        parts = [united(_read(table_part, columns, start, end)) for table_part in tables]
        schema = common_schema([part.schema for part in parts])
    except TypeError as error:
        raise Usage(
            f"a column has had types without a common one: {error}",
            source=source,
            table=str(table),
            remedy="Ask for other columns, or read it as it is, a column for each type, with `read_columns`.",
        ) from error
    return pa.concat_tables([_as_schema(part, schema) for part in parts])


def read_columns(lake: str, source: str, table: TableName | str, output: Output = OUTPUT) -> list[pa.Table]:
    """The published changes as they are in the change table, with a column for each type that a column has had.

    Returns:
        One table. Several, if an older version of Strata published the rest in separate tables and nothing was
        published since. None, if nothing was ever published.

    Raises:
        Usage: The text is not the name of one table.
        LostTableError: Its log is not complete.
        LakeUnavailableError: The storage does not answer.
    """
    return [changes.read_rows(None, None, None) for changes in _tables(lake, source, TableName.parse(table), output)]


def read_batches(lake: str, source: str, table: TableName | str, output: Output = OUTPUT) -> Iterator[pa.Table]:
    """The same rows, a batch at a time.

    Raises:
        Usage: The text is not the name of one table.
        LostTableError: Its log is not complete.
        LakeUnavailableError: The storage does not answer.
    """
    for changes in _tables(lake, source, TableName.parse(table), output):
        yield from changes.batches()


def _tables(lake: str, source: str, table: TableName, output: Output) -> list[OutputTable]:
    changes = open_changes(lake, source, table, output=output)
    return [] if changes is None else [changes, *changes.left_beside()]


def _as_schema(part: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table with all columns of the schema; those that it lacks are NULL."""
    columns = [
        part[field.name].cast(field.type) if field.name in part.schema.names else pa.nulls(part.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _read(table: OutputTable, columns: Sequence[str] | None, start: int | None, end: int | None) -> pa.Table:
    return table.read_rows(None if columns is None else columns_of(table.columns, columns), start, end)
