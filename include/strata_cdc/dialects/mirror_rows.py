"""The view of a mirror's rows, as a tree of sqlglot.
Not here: which mirror and columns (`views/mirror_rows.py`), views over changes (`views.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from sqlglot import exp

from strata_cdc.dialects.trees import column_of, create_view, name_of, typed

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from strata_cdc.dialects.engines import Dialect


class RowsColumn(Struct, frozen=True):
    """A column of the view."""

    name: str
    kind: pa.DataType
    read_as: str | None
    """Its name in the relation; None: no file has the column, and it is NULL in all rows."""


def rows_view(view: exp.Table, columns: Sequence[RowsColumn], relation: exp.Expr | None, dialect: Dialect) -> str:
    """Writes the view of a mirror's rows, with MySQL's names of the columns.

    Args:
        view: Name of the view.
        columns: The columns, in order.
        relation: The mirror as the engine reads it; None: the mirror has no rows.
        dialect: The engine.
    """
    values = [
        column_of(one.read_as) if one.read_as is not None and relation is not None else _null(one, dialect)
        for one in columns
    ]
    query = exp.select(*(exp.alias_(value, name_of(one.name)) for value, one in zip(values, columns, strict=True)))
    query = query.where(exp.false()) if relation is None else query.from_(relation)
    return create_view(view, query, dialect)


def _null(column: RowsColumn, dialect: Dialect) -> exp.Expr:
    return typed(exp.null(), column.kind, dialect)
