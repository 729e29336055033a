"""Parts of sqlglot's trees that all views use: names, types, comparisons, the statement itself.
Not here: the views (`views.py`, `history.py`, `mirror_rows.py`)."""

from __future__ import annotations

from functools import cache, partial, reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from sqlglot import exp

from strata_cdc.dialects.engines import Dialect

if TYPE_CHECKING:
    from collections.abc import Sequence

_PLAIN_TYPES: Final = {
    Dialect.DUCKDB: {
        pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INTEGER", pa.int64(): "BIGINT",
        pa.float32(): "REAL", pa.float64(): "DOUBLE", pa.bool_(): "BOOLEAN", pa.string(): "VARCHAR",
        pa.binary(): "BLOB", pa.date32(): "DATE", pa.timestamp("us"): "TIMESTAMP",
        pa.timestamp("us", tz="UTC"): "TIMESTAMPTZ",
    },
    Dialect.SPARK: {
        pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INT", pa.int64(): "BIGINT",
        pa.float32(): "FLOAT", pa.float64(): "DOUBLE", pa.bool_(): "BOOLEAN", pa.string(): "STRING",
        pa.binary(): "BINARY", pa.date32(): "DATE", pa.timestamp("us"): "TIMESTAMP_NTZ",
        pa.timestamp("us", tz="UTC"): "TIMESTAMP",
    },
}  # fmt: skip

# sqlglot's builders copy what they are given, so a tree is copied at each of its levels: half the time of a query of
# the past. Nothing that is in a tree is changed here, and one node may be in several places: sqlglot copies the tree
# before it generates SQL of it.
select: Final = partial(exp.select, copy=False)
and_: Final = partial(exp.and_, copy=False)
or_: Final = partial(exp.or_, copy=False)
not_: Final = partial(exp.not_, copy=False)
paren: Final = partial(exp.paren, copy=False)


def named(value: exp.Expr, name: str | exp.Identifier) -> exp.Expr:
    """Returns a value with the name of a column."""
    return exp.alias_(value, name, quoted=True, copy=False)


def union_all(selects: Sequence[exp.Select]) -> exp.Expr:
    """Returns the rows of one or more queries."""
    first: exp.Expr = selects[0]
    return reduce(lambda left, right: exp.Union(this=left, expression=right, distinct=False), selects[1:], first)


def create_view(view: exp.Table, query: exp.Expr, dialect: Dialect) -> str:
    """Returns the statement that creates a view, or replaces it; a temporary view if it is in no database."""
    temporary = None if view.db else exp.Properties(expressions=[exp.TemporaryProperty()])
    made = exp.Create(this=view, kind="VIEW", replace=True, expression=query, properties=temporary)
    return made.sql(dialect.value, pretty=True)


def type_text(dialect: Dialect, kind: pa.DataType) -> str:
    """Returns a type of a change table as an engine writes it."""
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    spark = dialect is Dialect.SPARK
    if pa.types.is_struct(kind):
        quote, between, brackets = ("`", ": ", "<>") if spark else ('"', " ", "()")
        fields = (
            f"{quote}{field.name.replace(quote, quote * 2)}{quote}{between}{type_text(dialect, field.type)}"
            for field in kind.fields
        )
        return f"STRUCT{brackets[0]}{', '.join(fields)}{brackets[1]}"
    if pa.types.is_map(kind):
        inner = f"{type_text(dialect, kind.key_type)}, {type_text(dialect, kind.item_type)}"
        return f"MAP<{inner}>" if spark else f"MAP({inner})"
    if pa.types.is_list(kind):
        inner = type_text(dialect, kind.value_type)
        return f"ARRAY<{inner}>" if spark else f"{inner}[]"
    return _PLAIN_TYPES[dialect][kind]


def typed(value: exp.Expr, kind: pa.DataType, dialect: Dialect) -> exp.Expr:
    """Returns a value, cast to a type."""
    return exp.Cast(this=value, to=type_of(kind, dialect))


def tried(value: exp.Expr, kind: pa.DataType, dialect: Dialect) -> exp.Expr:
    """Returns a value, cast to a type; NULL if the type has no such value."""
    return exp.TryCast(this=value, to=type_of(kind, dialect), safe=True)


def type_of(kind: pa.DataType, dialect: Dialect) -> exp.DataType:
    """Returns a type of a change table as sqlglot's node."""
    # A copy: a node knows the tree that it is in, and would keep it.
    return _parsed_type(kind, dialect).copy()


@cache
def _parsed_type(kind: pa.DataType, dialect: Dialect) -> exp.DataType:
    return exp.DataType.build(type_text(dialect, kind), dialect=dialect.value)


def name_of(text: str) -> exp.Identifier:
    """Returns a quoted identifier."""
    return exp.to_identifier(text, quoted=True)


def aliased(query: exp.Expr, name: str) -> exp.CTE:
    """Returns a query with a name, for WITH."""
    return exp.CTE(this=query, alias=alias_of(name))


def alias_of(text: str) -> exp.TableAlias:
    """Returns the name of a query, as an alias."""
    return exp.TableAlias(this=exp.to_identifier(text))


def column_of(name: str, inside: str = "") -> exp.Expr:
    """Returns a column, or a field of a struct."""
    if inside:
        return exp.Dot(this=exp.Column(this=name_of(inside)), expression=name_of(name))
    return exp.Column(this=name_of(name))


def is_insert() -> exp.Expr:
    """Whether a change is an INSERT."""
    return exp.EQ(this=column_of("_op"), expression=exp.Literal.string("insert"))


def is_of_mariadb() -> exp.Expr:
    """Whether a change comes from MariaDB: its GTIDs, such as 0-1-7, have no colon, and each of its changes has one."""
    has_colon = exp.Like(this=column_of("_gtid"), expression=exp.Literal.string("%:%"))
    return not_(exp.Coalesce(this=has_colon, expressions=[exp.true()]))


def is_in(name: str, values: Sequence[int]) -> exp.Expr:
    """Whether a column has one of the given numbers."""
    return exp.In(this=column_of(name), expressions=[exp.Literal.number(value) for value in values or (-1,)])


def equal(name: str, value: int) -> exp.Expr:
    """Whether a column has a given number."""
    return exp.EQ(this=exp.Column(this=name_of(name)), expression=exp.Literal.number(value))


def last_of(value: exp.Expr) -> exp.Expr:
    """Returns a window function: the last value that is not NULL."""
    return exp.IgnoreNulls(this=exp.LastValue(this=value))


def along(function: exp.Expr, partition: Sequence[exp.Expr], *, newest_first: bool = False) -> exp.Window:
    """Returns a window function over the events of a partition, in their order."""
    order = [exp.Ordered(this=column_of(name), desc=newest_first, nulls_first=False) for name in ("seq", "row", "put")]
    return exp.Window(this=function, partition_by=list(partition), order=exp.Order(expressions=order))
