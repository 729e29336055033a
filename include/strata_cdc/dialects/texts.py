"""What `_invalid` has of a column, as an engine's expression that is equal for equal values, in whatever version they
were written.
Not here: which columns need it (`changes/arrow.py`, `may_be_invalid`), views (`views.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from sqlglot import exp

from strata_cdc.dialects.engines import Dialect

if TYPE_CHECKING:
    from collections.abc import Callable

_ENTRY: Final[dict[Dialect, Callable[[exp.Expr, exp.Expr], exp.Expr]]] = {
    Dialect.DUCKDB: lambda entries, key: exp.Anonymous(
        this="list_extract",
        expressions=[exp.Anonymous(this="map_extract", expressions=[entries, key]), exp.Literal.number(1)],
    ),
    Dialect.SPARK: lambda entries, key: exp.Anonymous(this="try_element_at", expressions=[entries, key]),
}
DAY: Final = "0000-00-00"
SECOND: Final = f"{DAY} 00:00:00"
LONGEST: Final = f"{SECOND}.000000"
"""Dates are padded to this length: another version of a table may have had a DATE instead of a DATETIME, or fewer
digits."""


def text_of(entries: exp.Expr, key: str, kind: pa.DataType, dialect: Dialect) -> exp.Expr:
    """Returns the text of an entry of a map; NULL if there is no such entry.

    Args:
        entries: The map.
        key: Key of the entry.
        kind: Type of the entry's column.
        dialect: The engine.
    """
    expression = _ENTRY[dialect](entries, exp.Literal.string(key))
    if not pa.types.is_temporal(kind):
        return expression
    longer = [
        exp.If(
            this=exp.EQ(this=exp.Length(this=expression.copy()), expression=exp.Literal.number(len(text))),
            true=exp.Concat(expressions=[expression.copy(), exp.Literal.string(LONGEST[len(text) :])], safe=True),
        )
        for text in (DAY, SECOND)
    ]
    padded = [exp.Literal.number(len(LONGEST)), exp.Literal.string("0")]
    return exp.Anonymous(this="rpad", expressions=[exp.Case(ifs=longer, default=expression), *padded])
