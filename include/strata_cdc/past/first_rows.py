"""The first rows of a table at a moment, or the first that meet a condition, as text.
Not here: the table at a moment (`table_at.py`), SQL (`query.py`)."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow.compute as pc
from msgspec import Struct

from strata_cdc.errors import QueryError
from strata_cdc.mirrors.layout import key_names
from strata_cdc.past.key_texts import texts_of_values
from strata_cdc.past.moment import PastMoment, find_moment, point_of
from strata_cdc.past.row_texts import value_text
from strata_cdc.past.rows_as_json import json_rows_of, key_image
from strata_cdc.past.table_at import PastTables
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.tables.layout import column_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.mirrors.table import Mirror
    from strata_cdc.schema.model.definition import Column, TableDefinition, TableName

_AT_MOST: Final = 100
_BATCH_ROWS: Final = 8192


class RowTexts(Struct, frozen=True):
    """A row of a table."""

    values: tuple[str, ...]
    """As text, in the order of the columns."""
    key: tuple[str, ...]
    """The values of its key (`key_texts.py`); empty for a table without one."""


class FirstRows(Struct, frozen=True):
    """Some rows of a table at a moment."""

    moment: PastMoment
    columns: tuple[str, ...]
    key: tuple[str, ...]
    """The columns of the key."""
    rows: tuple[RowTexts, ...]
    has_more: bool


class RowRequest(Struct, frozen=True):
    """Which rows are wanted."""

    table: TableName
    """As it is called at the moment."""
    where: str = ""
    """A condition of MySQL's SQL; empty: all rows."""
    at: str = ""
    """A time or a GTID set; empty: the last moment that the table's mirror has reached."""
    not_by: tuple[str, ...] = ()
    """Columns that the condition must not name."""


def first_rows(source: Source, engine: sa.Engine, wanted: RowRequest) -> FirstRows:
    """The first rows of a table at a moment, in no order.

    Args:
        wanted: Which rows.

    Raises:
        Usage: There was no such table, or the condition does not fit it.
        PastUnknownError: The table's rows are not known at the moment.
        StrataError: The lake or the store does not answer.
    """
    name = wanted.table
    with PastTables(source.lake, source.name, engine) as tables:
        if wanted.at:
            moment = find_moment(source.lake, source.name, engine, point_of(wanted.at))
        else:
            moment = tables.newest([name])
        definition = tables.definition(name, moment)
        chosen = _MatchingRows(wanted, definition) if wanted.where else None
        key = [_column(definition, column) for column in key_names(definition)]
        rows = _rows(tables.rows(name, moment), definition, key, chosen)
        first = tuple(islice(rows, _AT_MOST + 1))
    columns = tuple(column.name for column in definition.columns)
    names = tuple(column.name for column in key)
    return FirstRows(moment, columns, names, first[:_AT_MOST], len(first) > _AT_MOST)


def _column(definition: TableDefinition, name: str) -> Column:
    return next(column for column in definition.columns if fold_name(column.name) == fold_name(name))


class _MatchingRows:
    """The rows that meet a condition."""

    def __init__(self, wanted: RowRequest, definition: TableDefinition) -> None:
        # Imported here: only conditions need sqlglot.
        from strata_cdc.dialects.conditions.condition import check_condition, parse  # noqa: PLC0415  see above

        check_condition(wanted.where)
        self._condition = parse(wanted.where, definition, str(wanted.table))
        refused = {fold_name(name) for name in wanted.not_by} & {fold_name(name) for name in self._condition.columns}
        if refused:
            raise QueryError(f"the condition names {', '.join(sorted(refused))}, which the settings call sensitive")
        self._definition = definition

    def filter(self, rows: pa.Table) -> pa.Table:
        """Those of some rows."""
        columns = {
            name: rows[column_name(_column(self._definition, name).name)].combine_chunks()
            for name in self._condition.columns
        }
        return rows.filter(pc.fill_null(self._condition.evaluate(columns), fill_value=False))


def _rows(
    mirror: Mirror, definition: TableDefinition, key: Sequence[Column], chosen: _MatchingRows | None
) -> Iterator[RowTexts]:
    for batch in mirror.exact_batches():
        for begin in range(0, batch.num_rows, _BATCH_ROWS):
            part = batch.slice(begin, _BATCH_ROWS)
            part = part if chosen is None else chosen.filter(part)
            part = part.slice(0, _AT_MOST + 1)
            for row, texts in zip(json_rows_of(part, definition), _key_texts(part, key), strict=True):
                yield RowTexts(_value_texts(row, definition), texts)


def _value_texts(row: dict[str, Any], definition: TableDefinition) -> tuple[str, ...]:
    return tuple(value_text(value, definition.column(name)) for name, value in row.items())


def _key_texts(rows: pa.Table, key: Sequence[Column]) -> list[tuple[str, ...]]:
    if not key:
        return [()] * rows.num_rows
    columns = [texts_of_values(column, key_image(rows, column)) for column in key]
    return [tuple(text or "" for text in row) for row in zip(*columns, strict=True)]
