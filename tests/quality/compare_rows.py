"""Compares replayed rows with what SELECT gives on the server: the last step of the proof.
Not here: replaying (`quality/proof/replay.py`), queries of the server (the caller's)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from msgspec import Struct

from strata_cdc.changes.arrow import arrow_type, is_calendar
from strata_cdc.schema.model.types import SPATIAL, Family, TypeKind, kinds_of, parse_column_type
from strata_cdc.tables.convert import state_schema
from strata_cdc.tables.state import row_codes
from strata_cdc.tables.verbatim import verbatim_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strata_cdc.quality.proof.replay import TableState
    from strata_cdc.schema.model.definition import Column

_SRID_BYTES = 4


class MultisetComparison(Struct, frozen=True):
    """Rows as multisets: how many there are on each side, and how many have no partner on the other."""

    replayed: int
    selected: int
    only_replayed: int
    only_selected: int
    examples: tuple[dict[str, Any], ...]
    """A few rows without a partner."""

    @property
    def equal(self) -> bool:
        """Whether both sides have the same rows, each as often."""
        return not self.only_replayed and not self.only_selected


def compare_rows(state: TableState, rows: Sequence[Sequence[Any]], examples: int = 3) -> MultisetComparison:
    """Compares the rows of a replayed table with those of `SELECT *`.

    Args:
        state: The replayed table.
        rows: As PyMySQL gives them, invisible columns included, in a session whose time zone is UTC.
        examples: How many rows without a partner to show.

    Raises:
        ArrowInvalid: A value does not fit its column's type.
    """
    columns = list(zip(*rows, strict=True)) or [()] * len(state.definition.columns)
    arrays = [_array(column, values) for column, values in zip(state.definition.columns, columns, strict=True)]
    selected = pa.Table.from_arrays(arrays, schema=state_schema(state.definition))
    for column, values in zip(state.definition.columns, columns, strict=True):
        name = verbatim_name(column.name)
        # Labels and texts come as Unicode, whatever their numbers and bytes are.
        if name in state.rows.schema.names and is_calendar(column):
            texts = pa.array([value if isinstance(value, str) else None for value in values], pa.string())
            selected = selected.append_column(name, texts)
    both = pa.concat_tables([state.rows.select(selected.schema.names), selected])
    codes = row_codes(both)
    size = codes.max(initial=-1) + 1
    surplus = np.bincount(codes[: state.rows.num_rows], minlength=size) - np.bincount(
        codes[state.rows.num_rows :], minlength=size
    )
    odd = np.flatnonzero(surplus[codes] != 0)[:examples]
    return MultisetComparison(
        replayed=state.rows.num_rows,
        selected=selected.num_rows,
        only_replayed=int(surplus[surplus > 0].sum()),
        only_selected=int(-surplus[surplus < 0].sum()),
        examples=tuple(both.take(pa.array(odd)).to_pylist()),
    )


def _array(column: Column, values: Sequence[Any]) -> pa.Array:
    target = arrow_type(column)
    return FROM_SELECT[parse_column_type(column.column_type).kind](values, target)


def _as_given(values: Sequence[Any], target: pa.DataType) -> pa.Array:
    return pa.array(values, target)


def _moments(values: Sequence[Any], target: pa.DataType) -> pa.Array:
    # PyMySQL gives zero and invalid dates as text; their column cannot express them.
    return pa.array([None if isinstance(v, str) else v for v in values], target)


def _times(values: Sequence[Any], target: pa.DataType) -> pa.Array:
    return pa.array([None if v is None else v // timedelta(microseconds=1) for v in values], target)


def _bits(values: Sequence[Any], target: pa.DataType) -> pa.Array:
    numbers = [None if v is None else int.from_bytes(v, "big") for v in values]
    return pa.array(numbers).cast(target) if pa.types.is_boolean(target) else pa.array(numbers, target)


def _texts(values: Sequence[Any], target: pa.DataType) -> pa.Array:
    # Labels of a binary ENUM come as bytes.
    texts = (v.decode() if isinstance(v, bytes) else v for v in values)
    return pa.array([None if v is None else str(v) for v in texts], target)


def _decimals(values: Sequence[Any], target: pa.DataType) -> pa.Array:
    # Those of more digits than Arrow's decimals have are text, of which Python would make an exponent.
    if pa.types.is_string(target):
        return pa.array([None if v is None else f"{v:f}" for v in values], target)
    return _as_given(values, target)


def _geometries(values: Sequence[Any], target: pa.DataType) -> pa.Array:
    split = [None if v is None else {"srid": _srid(v), "wkb": v[_SRID_BYTES:]} for v in values]
    return pa.array(split, target)


def _vectors(values: Sequence[Any], target: pa.DataType) -> pa.Array:
    return pa.array([None if v is None else np.frombuffer(v, "<f4") for v in values], target)


def _srid(value: bytes) -> int:
    return int.from_bytes(value[:_SRID_BYTES], "little")


FROM_SELECT: Final[dict[TypeKind, Callable[[Sequence[Any], pa.DataType], pa.Array]]] = {
    **dict.fromkeys(kinds_of(Family.INTEGER, Family.FLOATING, Family.YEAR, Family.BYTES, Family.BLOB), _as_given),
    TypeKind.DECIMAL: _decimals,
    TypeKind.BIT: _bits,
    **dict.fromkeys(
        kinds_of(Family.CHARACTERS, Family.TEXT, Family.LABELS, Family.DOCUMENT, Family.FIXED_BYTES), _texts
    ),
    TypeKind.DATE: _moments,
    TypeKind.DATETIME: _moments,
    TypeKind.TIMESTAMP: _moments,
    TypeKind.TIME: _times,
    TypeKind.VECTOR: _vectors,
    **dict.fromkeys(SPATIAL, _geometries),
}
"""From what PyMySQL gives of each column type to the array that a change table has of it."""
