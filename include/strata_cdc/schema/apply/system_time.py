"""System versioning and periods of MariaDB: which columns they add, and what they make of others.
Not here: reading them (`schema/ddl/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from strata_cdc.schema.model.definition import Column, GeneratedKind, KeyKind
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.schema.model.row_times import ROW_END, ROW_START

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strata_cdc.schema.model.definition import ApplicationPeriod, Key


def with_row_times(columns: Sequence[Column], *, versioned: bool) -> tuple[Column, ...]:
    """The columns of a table as its rows have them: a versioned table without columns for the time of its rows has two
    hidden ones at the end."""
    visible = tuple(column for column in columns if not column.hidden)
    if not versioned or any(column.generation_expression == ROW_START for column in visible):
        return visible
    return *visible, _hidden("row_start", ROW_START), _hidden("row_end", ROW_END)


def _hidden(name: str, expression: str) -> Column:
    return Column(
        name,
        "timestamp(6)",
        nullable=False,
        generated=GeneratedKind.STORED,
        generation_expression=expression,
        hidden=True,
    )


def without_row_end(keys: Iterable[Key], columns: Iterable[Column]) -> tuple[Key, ...]:
    """The keys without the column that ends the time of a row. The server adds it to each unique key of a versioned
    table; without it the key is unique among the rows that are there now."""
    ends = {fold_name(column.name) for column in columns if column.generation_expression == ROW_END}
    return tuple(_without_last(key, ends) if ends else key for key in keys)


def _without_last(key: Key, ends: set[str]) -> Key:
    is_unique = key.kind in {KeyKind.PRIMARY, KeyKind.UNIQUE}
    if not is_unique or len(key.parts) < 2 or fold_name(key.parts[-1].column or "") not in ends:
        return key
    return replace(key, parts=key.parts[:-1])


def with_period_not_null(columns: Iterable[Column], period: ApplicationPeriod | None) -> list[Column]:
    """The columns, with those of the period as NOT NULL."""
    bounds = set() if period is None else {fold_name(period.start), fold_name(period.end)}
    return [
        replace(column, nullable=False) if column.nullable and fold_name(column.name) in bounds else column
        for column in columns
    ]
