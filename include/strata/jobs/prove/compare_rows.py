"""Compares replayed rows with what SELECT gives on the server: the last step of the proof.
Not here: replaying (`replay.py`), asking the server (who has the connection)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa  # noqa: TID253  only those who compare import this module
from msgspec import Struct

from strata.rows.arrow import GEOMETRY, VECTOR, arrow_type
from strata.schema.model.types import SPATIAL, TypeKind, parse_column_type
from strata.tables.convert import state_schema
from strata.tables.state import row_codes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata.jobs.prove.replay import TableState
    from strata.schema.model.definition import Column

_SRID_BYTES = 4


class Comparison(Struct, frozen=True):
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


def compare_rows(state: TableState, rows: Sequence[Sequence[Any]], examples: int = 3) -> Comparison:
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
    both = pa.concat_tables([state.rows, selected])
    codes = row_codes(both)
    size = codes.max(initial=-1) + 1
    surplus = np.bincount(codes[: state.rows.num_rows], minlength=size) - np.bincount(
        codes[state.rows.num_rows :], minlength=size
    )
    odd = np.flatnonzero(surplus[codes] != 0)[:examples]
    return Comparison(
        replayed=state.rows.num_rows,
        selected=selected.num_rows,
        only_replayed=int(surplus[surplus > 0].sum()),
        only_selected=int(-surplus[surplus < 0].sum()),
        examples=tuple(both.take(pa.array(odd)).to_pylist()),
    )


def _array(column: Column, values: Sequence[Any]) -> pa.Array:
    target = arrow_type(column)
    kind = parse_column_type(column.column_type).kind
    if kind is TypeKind.TIME:
        return pa.array([None if v is None else v // timedelta(microseconds=1) for v in values], target)
    if kind is TypeKind.BIT:
        numbers = [None if v is None else int.from_bytes(v, "big") for v in values]
        return pa.array(numbers).cast(target) if pa.types.is_boolean(target) else pa.array(numbers, target)
    if kind in SPATIAL:
        split = [None if v is None else {"srid": _srid(v), "wkb": v[_SRID_BYTES:]} for v in values]
        return pa.array(split, GEOMETRY)
    if kind is TypeKind.VECTOR:
        return pa.array([None if v is None else np.frombuffer(v, "<f4") for v in values], VECTOR)
    if pa.types.is_temporal(target):
        # PyMySQL gives zero and invalid dates as text; their column cannot express them.
        return pa.array([None if isinstance(v, str) else v for v in values], target)
    if pa.types.is_string(target):
        return pa.array([None if v is None else str(v) for v in values], target)
    return pa.array(values, target)


def _srid(value: bytes) -> int:
    return int.from_bytes(value[:_SRID_BYTES], "little")
