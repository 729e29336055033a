"""Rows of a table as they were at a moment: the first of them, or the first that meet a condition. Values of columns
that the settings call sensitive are not shown, and no condition names them.
Not here: the rows (`past/first_rows.py`), one row through time (`row_page.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from strata_cdc.serve.row_page import HIDDEN, hidden_columns

if TYPE_CHECKING:
    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.schema.model.definition import TableName


def rows_at(source: Source, engine: sa.Engine, name: TableName, where: str, at: str) -> Any:
    """The first rows of a table at a moment, as `past.first_rows.FirstRows`.

    Args:
        source: The source.
        engine: Its store.
        name: The table, as it is called at the moment.
        where: A condition of MySQL's SQL; empty: all rows.
        at: A time or a GTID set; empty: the last moment that the table's mirror has reached.

    Raises:
        StrataError: As for `first_rows`.
    """
    # Imported here: Airflow's web server loads it with the first such page.
    from strata_cdc.past.first_rows import RowRequest, first_rows  # noqa: PLC0415  see above

    hidden = hidden_columns(source, engine, name)
    found = first_rows(source, engine, RowRequest(name, where, at, not_by=tuple(hidden)))
    if not hidden:
        return found
    is_hidden = [column in hidden for column in found.columns]
    has_key = not set(hidden) & set(found.key)
    shown = tuple(
        replace(
            row,
            values=tuple(HIDDEN if hides else value for hides, value in zip(is_hidden, row.values, strict=True)),
            key=row.key if has_key else (),
        )
        for row in found.rows
    )
    return replace(found, rows=shown)
