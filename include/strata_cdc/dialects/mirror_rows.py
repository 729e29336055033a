"""The view of a mirror's rows, as a tree of sqlglot.
Not here: which mirror, files and columns (`views/mirror_rows.py`), views over changes (`views.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from msgspec import Struct
from sqlglot import exp

from strata_cdc.dialects.engines import Dialect
from strata_cdc.dialects.trees import column_of, create_view, name_of, named, not_, select, typed, union_all

if TYPE_CHECKING:
    from collections.abc import Sequence

_BETWEEN: Final = ","
ROW_NUMBER: Final = {Dialect.DUCKDB: "file_row_number", Dialect.SPARK: "_metadata"}
"""The column with the number of a row in its file, or with a struct that has it. A table's own column of that name
hides it, or is an error."""


class RowsColumn(Struct, frozen=True):
    """A column of the view."""

    name: str
    kind: pa.DataType


class RowsPart(Struct, frozen=True):
    """Rows of the mirror that are read together."""

    relation: exp.Expr
    read_as: tuple[str | None, ...]
    """For each column of the view, its name in the relation; None: it is NULL in all of these rows."""
    dead: Sequence[int] = ()
    """The numbers of the rows that do not belong to the mirror; the relation is a `numbered_file` if there are any."""


def numbered_file(dialect: Dialect, url: str) -> exp.Expr:
    """Returns a Parquet file as a relation that has the numbers of its rows.

    Args:
        dialect: The engine.
        url: The file. Spark reads it as a pattern: see `relations.escaped`.
    """
    if dialect is Dialect.SPARK:
        return exp.Table(this=exp.to_identifier(url, quoted=True), db=exp.to_identifier("parquet"))
    numbers = exp.EQ(this=exp.column(ROW_NUMBER[dialect]), expression=exp.true())
    return exp.Table(this=exp.ReadParquet(expressions=[exp.Array(expressions=[exp.Literal.string(url)]), numbers]))


def rows_view(view: exp.Table, columns: Sequence[RowsColumn], parts: Sequence[RowsPart], dialect: Dialect) -> str:
    """Writes the view of a mirror's rows, with MySQL's names of the columns.

    Args:
        columns: The columns, in order.
        parts: The mirror as the engine reads it; none: the mirror has no rows.
        dialect: The engine.
    """
    nothing = _selected(columns, [None] * len(columns), dialect).where(exp.false(), copy=False)
    selects = [_part(columns, part, dialect) for part in parts] or [nothing]
    return create_view(view, union_all(selects), dialect)


def _part(columns: Sequence[RowsColumn], part: RowsPart, dialect: Dialect) -> exp.Select:
    query = _selected(columns, part.read_as, dialect).from_(part.relation, copy=False)
    return query.where(not_(_is_dead(part.dead, dialect)), copy=False) if len(part.dead) else query


def _selected(columns: Sequence[RowsColumn], read_as: Sequence[str | None], dialect: Dialect) -> exp.Select:
    return select(
        *(
            named(typed(exp.null(), column.kind, dialect) if name is None else column_of(name), name_of(column.name))
            for column, name in zip(columns, read_as, strict=True)
        )
    )


def _is_dead(dead: Sequence[int], dialect: Dialect) -> exp.Expr:
    """Whether a row's number is one of these. The numbers are one literal, which the engine splits: to parse a literal
    for each of them would take longer than to read the rows."""
    is_duckdb = dialect is Dialect.DUCKDB
    texts = [exp.Literal.string(text) for text in (_BETWEEN.join(map(str, dead)), _BETWEEN)]
    split = exp.Anonymous(this="string_split" if is_duckdb else "split", expressions=texts)
    each = exp.Anonymous(this="unnest" if is_duckdb else "explode", expressions=[split])
    rows = select(named(each, "dead")).subquery("texts", copy=False)
    numbers = select(typed(exp.column("dead"), pa.int64(), dialect)).from_(rows, copy=False)
    number: exp.Expr = exp.column(ROW_NUMBER[dialect])
    if not is_duckdb:
        number = exp.Dot(this=number, expression=exp.to_identifier("row_index"))
    return exp.In(this=number, query=numbers.subquery(copy=False))
