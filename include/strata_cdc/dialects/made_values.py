"""The results of conversions, as part of a view's text: a finite mapping in which an engine looks up values.
Not here: which values these are, and what each became (`tables/made_values.py`).

Both sides are texts that the engine splits: each query parses the view again, and to parse 20,000 literals takes longer
than to look up a million rows in them. Texts and bytes are in hexadecimal digits there.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from sqlglot import exp

from strata_cdc.changes.arrow import GEOMETRY
from strata_cdc.dialects.engines import Dialect
from strata_cdc.dialects.trees import aliased, name_of, named, paren, select, typed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strata_cdc.dialects.view_source import ColumnSource, MadeValues

_BETWEEN: Final = ","
"""The separator; it is in none of the texts."""


def written(values: pa.Array) -> list[str]:
    """Returns values as a view's text has them; NULL, which only the texts of `_invalid` may be, is empty."""
    return ["" if value is None else _text(value) for value in values.to_pylist()]


def query_of(column_source: ColumnSource, kind: pa.DataType, dialect: Dialect) -> exp.CTE:
    """Returns a mapping as a query.

    Args:
        column_source: Where the values are, with their mapping.
        kind: The type that they have now.
        dialect: The engine.
    """
    made = _mapping(column_source)
    sides = {"k": made.before, "v": made.after} | ({} if made.texts is None else {"t": made.texts})
    before, after, text = _names(made)
    known = select(
        named(_key(exp.column("k"), _kind(column_source), dialect), before),
        named(_decoded(exp.column("v"), kind, dialect), after),
    )
    if made.texts is not None:
        known = known.select(named(_decoded_text(exp.column("t"), dialect), text), copy=False)
    rows = _unnested({name: _split(side, dialect) for name, side in sides.items()}, dialect)
    return aliased(known.from_(rows.subquery("texts", copy=False), copy=False), made.name)


def _unnested(sides: Mapping[str, exp.Expr], dialect: Dialect) -> exp.Select:
    """Rows of arrays of one length."""
    if dialect is Dialect.DUCKDB:
        columns = [named(exp.Anonymous(this="unnest", expressions=[side]), name) for name, side in sides.items()]
        return select(*columns)
    arrays = select(*(named(side, name) for name, side in sides.items())).subquery("arrays", copy=False)
    zipped = exp.Anonymous(this="arrays_zip", expressions=[exp.column(name) for name in sides])
    each = select(named(exp.Anonymous(this="explode", expressions=[zipped]), "z")).from_(arrays, copy=False)
    return select(*(exp.column(name, "z") for name in sides)).from_(each.subquery("each", copy=False), copy=False)


def text_name(lookup: str) -> str:
    """Returns the name of the column with what `_invalid` would have for the results of a lookup."""
    return f"{lookup}_text"


class Lookup(NamedTuple):
    """A value that is looked up in a mapping."""

    name: str
    """Name of the column with the result: NULL if the value is not in the mapping."""
    value: exp.Expr
    """The value, in the type that it had."""
    column_source: ColumnSource
    """Where the values are, with their mapping."""
    kind: pa.DataType
    """The type that they have now."""


def with_lookups(relation: exp.Expr, lookups: Sequence[Lookup], dialect: Dialect) -> exp.Expr:
    """Returns the rows with the columns of some lookups in addition to their own; the view has the mappings' queries.

    Uses joins, and not subqueries in the expressions: DuckDB takes minutes to plan those.
    """
    if not lookups:
        return relation
    rows = select("*").from_(relation, copy=False).subquery("rows", copy=False)
    query = select(exp.Column(this=exp.Star(), table=exp.to_identifier("rows"))).from_(rows, copy=False)
    for lookup in lookups:
        made, (before, after, text) = _mapping(lookup.column_source), _names(_mapping(lookup.column_source))
        query = query.select(named(exp.column(name_of(after), name_of(lookup.name)), lookup.name), copy=False)
        if made.texts is not None:
            of_text = exp.column(name_of(text), name_of(lookup.name))
            query = query.select(named(of_text, text_name(lookup.name)), copy=False)
        mapping = exp.alias_(exp.to_table(made.name), lookup.name, quoted=True, table=True)
        key = exp.column(name_of(before), name_of(lookup.name))
        is_it = exp.EQ(this=key, expression=_comparable(lookup.value, _kind(lookup.column_source), dialect))
        query = query.join(mapping, on=is_it, join_type="left", copy=False)
    return query.subquery(copy=False)


def _mapping(column_source: ColumnSource) -> MadeValues:
    if column_source.made is None:
        raise ValueError("there is no mapping")
    return column_source.made


def _names(made: MadeValues) -> tuple[str, str, str]:
    return f"{made.name}_before", f"{made.name}_after", f"{made.name}_text"


def _kind(column_source: ColumnSource) -> pa.DataType:
    return column_source.kind or pa.string()


def _decoded_text(text: exp.Expr, dialect: Dialect) -> exp.Expr:
    """What `_invalid` would have; it is never empty, so an empty text is NULL."""
    return text_of_bytes(exp.Nullif(this=text, expression=exp.Literal.string("")), dialect)


def _split(values: pa.Array, dialect: Dialect) -> exp.Expr:
    texts = [exp.Literal.string(text) for text in (_BETWEEN.join(written(values)), _BETWEEN)]
    return exp.Anonymous(this="string_split" if dialect is Dialect.DUCKDB else "split", expressions=texts)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value.encode().hex().upper()
    if isinstance(value, bytes):
        return value.hex().upper()
    if isinstance(value, dict):
        return f"{value['srid']}:{_text(value['wkb'])}"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _decoded(text: exp.Expr, kind: pa.DataType, dialect: Dialect) -> exp.Expr:
    """A value, from its text."""
    if pa.types.is_binary(kind):
        return exp.Anonymous(this="unhex", expressions=[text])
    return text_of_bytes(text, dialect) if pa.types.is_string(kind) else typed(text, kind, dialect)


def text_of_bytes(digits: exp.Expr, dialect: Dialect) -> exp.Expr:
    """Returns a text whose UTF-8 is given in hexadecimal digits."""
    raw = exp.Anonymous(this="unhex", expressions=[digits])
    is_duckdb = dialect is Dialect.DUCKDB
    return exp.Anonymous(this="decode", expressions=[raw]) if is_duckdb else typed(raw, pa.string(), dialect)


def _key(text: exp.Expr, kind: pa.DataType, dialect: Dialect) -> exp.Expr:
    """What `_comparable` returns for a value that is given as text."""
    if kind == GEOMETRY:
        return text
    expression = _decoded(text, kind, dialect)
    return typed(expression, pa.string(), dialect) if pa.types.is_floating(kind) else expression


def _comparable(value: exp.Expr, kind: pa.DataType, dialect: Dialect) -> exp.Expr:
    """An expression that is equal only for identical values: 0 and -0 are different, and have different texts."""
    if pa.types.is_floating(kind):
        return typed(value, pa.string(), dialect)
    if kind != GEOMETRY:
        return value
    srid, wkb = (exp.Dot(this=paren(value.copy()), expression=name_of(part)) for part in ("srid", "wkb"))
    parts = [typed(srid, pa.string(), dialect), exp.Literal.string(":"), exp.Anonymous(this="hex", expressions=[wkb])]
    return exp.Anonymous(this="concat", expressions=parts)
