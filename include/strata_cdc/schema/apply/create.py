"""A table's definition from CREATE TABLE.
Not here: single columns (`columns.py`), keys (`keys.py`), whether the table is created at all
(`schema/replay/catalog.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from strata_cdc.schema.apply.charset import charset_of, collation_for
from strata_cdc.schema.apply.columns import column_from
from strata_cdc.schema.apply.keys import MariadbKeys, primary_columns, with_keys, with_period_columns
from strata_cdc.schema.apply.limits import possible_limits
from strata_cdc.schema.apply.placed import PlacedColumn
from strata_cdc.schema.apply.system_time import with_period_not_null, with_row_times, without_row_end
from strata_cdc.schema.apply.timestamps import with_implicit_timestamps
from strata_cdc.schema.model.definition import TableDefinition
from strata_cdc.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.schema.ddl.changes import CreateTable
    from strata_cdc.schema.model.definition import Column, Key


def definition_from(change: CreateTable, database_collation: str | None) -> TableDefinition:
    """The definition that a CREATE TABLE makes.

    Args:
        change: The statement.
        database_collation: The default of the table's database; None if it is not known.

    Raises:
        DdlError: A fact that the definition depends on is not known.
    """
    context = change.context
    options = change.options
    collation = collation_for(options.charset, options.collation, database_collation, context)
    columns = with_period_not_null(
        [column_from(written, collation, context) for written in change.columns], change.period
    )
    keys = with_keys(
        (),
        with_period_columns(change.keys, change.period),
        columns,
        possible_limits(options.engine, options.row_format, context),
        MariadbKeys.from_engine(options.engine, context.flavour),
    )
    placed = [PlacedColumn(column, None, written) for column, written in zip(columns, change.columns, strict=True)]
    columns = with_implicit_timestamps(placed, primary_columns(keys), context)
    versioned = options.versioned or any(written.versioned for written in change.columns)
    return TableDefinition(
        columns=with_row_times(with_primary_not_null(columns, keys), versioned=versioned),
        keys=without_row_end(keys, columns) if versioned else keys,
        character_set=charset_of(collation).name if collation else None,
        collation=collation,
        engine=options.engine,
        options=options.partitioning or "",
        row_format=options.row_format,
        versioned=versioned,
        period=change.period,
        sequence=bool(options.sequence),
    )


def with_primary_not_null(columns: Iterable[Column], keys: Iterable[Key]) -> list[Column]:
    """The columns, with those of the primary key as NOT NULL in any case."""
    primary = primary_columns(keys)
    return [
        replace(column, nullable=False) if column.nullable and fold_name(column.name) in primary else column
        for column in columns
    ]
