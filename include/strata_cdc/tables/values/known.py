"""The function for each known pair of value classes: the same pairs as `KNOWN` in `schema/model/conversions.py`.
Not here: the functions (the other modules of this package)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.schema.apply.floats import double_text, float_text
from strata_cdc.schema.model.conversions import ValueClass
from strata_cdc.schema.model.types import TypeKind
from strata_cdc.tables.values import labels, moments, numbers, texts
from strata_cdc.tables.values.pair import by_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.tables.values.pair import Pair


def converted(values: pa.Array, pair: Pair) -> pa.Array:
    """Values of a column, converted to its new type.

    Raises:
        ReadAgainError: The server changed some of them in a way that is not known.
    """
    return CONVERSIONS[pair.classes](values, pair)


def _printed(values: pa.Array, pair: Pair) -> pa.Array:
    """Numbers as texts that MySQL prints."""
    column_type = pair.old
    if pa.types.is_floating(values.type):
        text = float_text if column_type.kind is TypeKind.FLOAT else double_text
        return by_value(values, text, pa.string())
    if pa.types.is_decimal(values.type) and values.type.scale:
        return numbers.decimal_text(values)
    printed = numbers.as_integers(values).cast(pa.string())
    if column_type.kind is TypeKind.YEAR:
        return pc.utf8_lpad(printed, 4, "0")
    return pc.utf8_lpad(printed, column_type.length, "0") if column_type.zerofill and column_type.length else printed


def _as_text(show: Callable[[pa.Array, Pair], pa.Array]) -> Callable[[pa.Array, Pair], pa.Array]:
    return lambda values, pair: texts.to_text(show(values, pair), pair)


def _as_bytes(show: Callable[[pa.Array, Pair], pa.Array]) -> Callable[[pa.Array, Pair], pa.Array]:
    return lambda values, pair: texts.to_bytes(show(values, pair).cast(pa.binary()), pair)


def _as_it_is(values: pa.Array, _pair: Pair) -> pa.Array:
    return values


def _geometry_bytes(values: pa.Array, pair: Pair) -> pa.Array:
    # What a NOT NULL column of MariaDB has without a value: no byte at all.
    geometries = [
        None if value is None else value["wkb"] and value["srid"].to_bytes(4, "little") + value["wkb"]
        for value in values.to_pylist()
    ]
    return texts.to_bytes(pa.array(geometries, pa.binary()), pair)


def _vector(values: pa.Array, pair: Pair) -> pa.Array:
    if (pc.max(pc.list_value_length(values)).as_py() or 0) > (pair.new.length or 0):
        pair.refuse("values have more dimensions")
    return values


_C = ValueClass
CONVERSIONS: Final[dict[tuple[ValueClass, ValueClass], Callable[[pa.Array, Pair], pa.Array]]] = {
    **{(_C.INTEGER, other): numbers.from_integers for other in (_C.INTEGER, _C.DECIMAL, _C.FLOATING, _C.BITS, _C.YEAR)},
    **{(_C.BITS, other): numbers.from_integers for other in (_C.INTEGER, _C.DECIMAL, _C.FLOATING, _C.BITS)},
    **{(_C.YEAR, other): numbers.from_integers for other in (_C.INTEGER, _C.DECIMAL, _C.FLOATING)},
    **{(_C.DECIMAL, other): numbers.from_decimal for other in (_C.INTEGER, _C.DECIMAL, _C.FLOATING)},
    **{(_C.FLOATING, other): numbers.from_floating for other in (_C.INTEGER, _C.DECIMAL, _C.FLOATING)},
    **{(kind, _C.TEXT): _as_text(_printed) for kind in (_C.INTEGER, _C.DECIMAL, _C.FLOATING, _C.YEAR)},
    **{(kind, _C.BYTES): _as_bytes(_printed) for kind in (_C.INTEGER, _C.DECIMAL)},
    (_C.INTEGER, _C.ENUM): labels.label_of_numbers,
    **{(_C.TEXT, other): texts.text_to_number for other in (_C.INTEGER, _C.DECIMAL, _C.FLOATING, _C.YEAR)},
    (_C.TEXT, _C.TEXT): texts.to_text,
    (_C.TEXT, _C.BYTES): texts.text_to_bytes,
    (_C.BYTES, _C.TEXT): texts.bytes_to_text,
    (_C.BYTES, _C.BYTES): texts.to_bytes,
    **{(kind, other): labels.to_labels for kind in (_C.TEXT, _C.ENUM, _C.SET) for other in (_C.ENUM, _C.SET)},
    **{(kind, _C.TEXT): texts.to_text for kind in (_C.ENUM, _C.SET, _C.JSON)},
    **{(kind, _C.BYTES): texts.text_to_bytes for kind in (_C.ENUM, _C.SET, _C.JSON)},
    **{(kind, _C.INTEGER): labels.numbers_of_labels for kind in (_C.ENUM, _C.SET)},
    **{(_C.TEXT, other): moments.text_to_moment for other in (_C.DATE, _C.DATETIME, _C.TIME)},
    (_C.DATE, _C.DATE): _as_it_is,
    (_C.DATE, _C.DATETIME): moments.date_to_datetime,
    (_C.DATE, _C.TEXT): _as_text(moments.date_to_text),
    (_C.DATE, _C.INTEGER): moments.date_to_integer,
    **{(kind, kind): moments.to_fewer_digits for kind in (_C.DATETIME, _C.TIMESTAMP, _C.TIME)},
    (_C.DATETIME, _C.TIMESTAMP): moments.datetime_to_timestamp,
    (_C.TIMESTAMP, _C.DATETIME): moments.timestamp_to_datetime,
    (_C.DATETIME, _C.DATE): moments.datetime_to_date,
    (_C.DATETIME, _C.TIME): moments.datetime_to_time,
    (_C.DATETIME, _C.TEXT): _as_text(moments.datetime_to_text),
    (_C.DATETIME, _C.INTEGER): moments.datetime_to_integer,
    (_C.TIME, _C.TEXT): _as_text(moments.time_to_text),
    (_C.TIME, _C.INTEGER): moments.time_to_integer,
    (_C.YEAR, _C.YEAR): _as_it_is,
    (_C.JSON, _C.JSON): _as_it_is,
    (_C.GEOMETRY, _C.GEOMETRY): _as_it_is,
    (_C.GEOMETRY, _C.BYTES): _geometry_bytes,
    (_C.VECTOR, _C.VECTOR): _vector,
}
"""By the value classes before and after."""
