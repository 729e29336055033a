"""Published changes as Arrow tables, for proofs and for users in Python.
Not here: what the changes amount to (`jobs/replay.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from strata.errors import LakeUnavailableError, Usage
from strata.schema.model import TableName
from strata.tables.common_types import common_schema
from strata.tables.generation import open_generations
from strata.tables.layout import INTERVAL, changes_url, name_of_path
from strata.wire.storage import list_folders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deltalake import DeltaTable

_UTC = pa.timestamp("us", tz="UTC")


def read_changes(
    lake: str,
    source: str,
    table: TableName,
    *,
    columns: Sequence[str] | None = None,
    start: int | None = None,
    end: int | None = None,
) -> pa.Table:
    """The published changes of a table, in no order; sort by `_seq` and `_row` where it matters.

    The columns of all generations are put together. Where two have a column in types that differ, it takes the
    wider one if that loses nothing.

    Args:
        lake: Folder or URL of the lake.
        source: The source's name.
        table: The table.
        columns: Columns that are wanted; None for all.
        start: First interval that is wanted (microseconds UTC, inclusive); None from the first.
        end: Where to end (exclusive); None for no end.

    Raises:
        Usage: The table was never published, or its generations have types without a common one.
        LakeUnavailableError: The storage does not answer.
    """
    generations = open_generations(lake, source, table)
    if not generations:
        raise Usage(
            "nothing of this table is published",
            source=source,
            table=str(table),
            remedy="`strata status` lists tables.",
        )
    parts = [_read(generation, columns, start, end) for generation in generations]
    try:
        schema = common_schema([part.schema for part in parts])
    except TypeError as error:
        raise Usage(
            f"the generations of the table have types without a common one: {error}",
            source=source,
            table=str(table),
            remedy="Read them one by one, with `read_generations`.",
        ) from error
    return pa.concat_tables([_as_schema(part, schema) for part in parts])


def read_generations(lake: str, source: str, table: TableName) -> list[pa.Table]:
    """As `read_changes`, each generation with its own types; empty if nothing was published.

    Raises:
        LakeUnavailableError: The storage does not answer.
    """
    return [_read(generation, None, None, None) for generation in open_generations(lake, source, table)]


def published_tables(lake: str, source: str) -> list[TableName]:
    """The tables of a source that have a change table, by name.

    Raises:
        LakeUnavailableError: The storage does not answer.
    """
    root = changes_url(lake, source)
    return sorted(
        TableName(name_of_path(database), name_of_path(table))
        for database in list_folders(root)
        for table in list_folders(f"{root}/{database}")
    )


def _as_schema(part: pa.Table, schema: pa.Schema) -> pa.Table:
    """A generation with the columns of all; those that it lacks are NULL."""
    columns = [
        part[field.name].cast(field.type) if field.name in part.schema.names else pa.nulls(part.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _read(generation: DeltaTable, columns: Sequence[str] | None, start: int | None, end: int | None) -> pa.Table:
    filters = [
        (INTERVAL, operator, pa.scalar(bound, _UTC))
        for operator, bound in ((">=", start), ("<", end))
        if bound is not None
    ]
    known = {field.name for field in generation.schema().fields}
    wanted = None if columns is None else [name for name in columns if name in known]
    try:
        return generation.to_pyarrow_table(columns=wanted, filters=filters or None)
    except OSError as error:
        raise LakeUnavailableError(f"published files cannot be read: {error}") from error
