"""What differs between the rows of a table at two moments: rows that came, rows that went, and changed values. Columns
are compared by their ids, whatever names and types they have.
Not here: the rows at a moment (`table_at.py`), the changes between (`row_history.py`), text (`row_texts.py`)."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from msgspec import Struct

from strata_cdc.errors import PastUnknownError
from strata_cdc.mirrors.layout import key_names
from strata_cdc.past.key_texts import texts_of_values, without_zeros
from strata_cdc.past.rows_as_json import json_columns, json_rows_of, key_image
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.schema.model.types import INTEGERS, TypeKind, parse_column_type
from strata_cdc.tables.layout import column_name
from strata_cdc.tables.state import row_codes
from strata_cdc.tables.verbatim import verbatim_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from strata_cdc.past.timeline import ChangeSpan
    from strata_cdc.schema.model.definition import Column

    Ints = NDArray[np.int64]

Row = dict[str, Any]
_AT_ONCE: Final = 4096
_FRACTIONS: Final = INTEGERS | {TypeKind.DECIMAL, TypeKind.DATETIME, TypeKind.TIMESTAMP, TypeKind.TIME}


class ColumnDifference(Struct, frozen=True):
    """A column of one of the moments that the other has not, or has in another way."""

    before: str | None
    """Its name and type at the first moment; None if the table had no such column."""
    after: str | None


class MomentDifference(Struct, frozen=True):
    """A row that is at only one of the moments, or whose values differ."""

    before: Row | None
    """The row at the first moment; None if it was not there. Of a changed row, the key and the values that differ, by
    the names of then."""
    after: Row | None
    key: Row
    """The values of its key, by the names of the second moment; of a row that is gone, by those of the first one. Of a
    table without a key, empty."""

    @property
    def kind(self) -> str:
        """`added`, `removed` or `changed`."""
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"


class MomentRows(Struct, frozen=True):
    """The rows of a table at one moment."""

    span: ChangeSpan
    """The version that they have."""
    rows: pa.Table
    """In `exact_schema` (`tables/convert.py`); further columns do not count."""
    key_texts: Mapping[int, Sequence[str | None]] = {}
    """By column of the key that a DDL converted until the second moment, what its values became (`key_texts.py`); None:
    not known."""


def column_differences(before: ChangeSpan, after: ChangeSpan) -> list[ColumnDifference]:
    """The columns that differ, those of the second moment first."""
    former = before.columns_by_id
    differences = []
    for number, column in zip(after.ids, after.definition.columns, strict=True):
        old = former.pop(number, None)
        was = None if old is None else f"{old.name} {old.column_type}"
        if was != f"{column.name} {column.column_type}":
            differences.append(ColumnDifference(was, f"{column.name} {column.column_type}"))
    return [*differences, *(ColumnDifference(f"{old.name} {old.column_type}", None) for old in former.values())]


def row_differences(before: MomentRows, after: MomentRows) -> Iterator[MomentDifference]:
    """The rows that differ, in the order of their keys as far as these can be compared: those that went or changed,
    then those that came.

    With a key at the second moment, rows are the same if they have the same values in its columns. Otherwise, rows are
    the same if all of their values are; of equal rows, their numbers are compared. Only columns of both moments count.

    Raises:
        PastUnknownError: A DDL gave several rows of the first moment the key of a row of the second one.
    """
    both = [number for number in after.span.ids if number in before.span.ids]
    names = {number: name for name, number in after.span.ids_by_name.items()}
    key = [number for name in key_names(after.span.definition) for number in after.span.ids
           if fold_name(names[number]) == name]  # fmt: skip
    has_key = bool(key) and set(key) <= set(both)
    if not both:
        yield from _alone(before, np.arange(before.rows.num_rows), is_gone=True)
        yield from _alone(after, np.arange(after.rows.num_rows), is_gone=False)
        return
    codes = _codes(before, after, key if has_key else both)
    if not has_key:
        yield from _of_whole_rows(before, after, *codes)
        return
    _refuse_equal(before, *codes)
    old, new = _pairs(*codes)
    gone, came = _others(before.rows.num_rows, old), _others(after.rows.num_rows, new)
    yield from chain(_alone(before, gone, is_gone=True), _changed(before, after, old, new, both, key))
    yield from _alone(after, came, is_gone=False)


def _codes(before: MomentRows, after: MomentRows, ids: Sequence[int]) -> tuple[Ints, Ints]:
    """For the rows of both moments, numbers that are equal exactly if the values of some columns are."""
    columns = []
    for number in ids:
        first, other = _comparable(before, after, number)
        columns.append(pa.chunked_array([*first.chunks, *other.chunks], first.type))
    codes = row_codes(pa.table(columns, names=[str(at) for at in range(len(columns))]))
    return codes[: before.rows.num_rows], codes[before.rows.num_rows :]


def _comparable(before: MomentRows, after: MomentRows, number: int) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """The values of a column at both moments, in one type."""
    (old, first), (new, other) = (_values(side, number) for side in (before, after))
    if number in before.key_texts:
        texts = texts_of_values(new, key_image(after.rows, new))
        return pa.chunked_array([before.key_texts[number]], pa.string()), pa.chunked_array([texts], pa.string())
    kinds = [parse_column_type(column.column_type).kind for column in (old, new)]
    if kinds[0] is kinds[1] and first.type == other.type and not _has_texts(before, old, after, new):
        return first, other
    # 1.5 of DECIMAL(8, 2) is 1.5 of DECIMAL(12, 4), and so are times with more digits.
    has_fractions = _FRACTIONS.issuperset(kinds)
    return _texts(before, old, has_fractions=has_fractions), _texts(after, new, has_fractions=has_fractions)


def _texts(side: MomentRows, column: Column, *, has_fractions: bool) -> pa.ChunkedArray:
    (values,) = json_columns(side.rows, side.span.definition, [column.name])
    texts = [None if value is None else str(value) for value in values]
    return pa.chunked_array([[text and without_zeros(text) for text in texts] if has_fractions else texts], pa.string())


def _has_texts(before: MomentRows, old: Column, after: MomentRows, new: Column) -> bool:
    """Whether a column has values that its type does not hold."""
    for side, column in ((before, old), (after, new)):
        name = verbatim_names(side.span.definition).get(column.name)
        if name is not None and side.rows[name].null_count < side.rows.num_rows:
            return True
    return False


def _values(side: MomentRows, number: int) -> tuple[Column, pa.ChunkedArray]:
    column = side.span.definition.columns[side.span.ids.index(number)]
    return column, side.rows[column_name(column.name)]


def _refuse_equal(side: MomentRows, before: Ints, after: Ints) -> None:
    """Refuses rows of the first moment that a DDL gave one key: only one of them was there by then."""
    kept = before[np.isin(before, after)] if side.key_texts else before[:0]
    if len(np.unique(kept)) < len(kept):
        raise PastUnknownError(
            "a DDL gave several rows of the first moment one key, and nothing tells which of them were still there",
            table=str(side.span.name),
            remedy="Compare up to a moment before the DDL, and from there on.",
        )


def _pairs(before: Ints, after: Ints) -> tuple[Ints, Ints]:
    """The numbers of the rows that are at both moments; keys are unique."""
    _, old, new = np.intersect1d(before, after, return_indices=True)
    order = np.argsort(old)
    return old[order], new[order]


def _others(count: int, rows_at: Ints) -> Ints:
    """The numbers below a count that are not among some."""
    is_other = np.ones(count, np.bool_)
    is_other[rows_at] = False
    return np.flatnonzero(is_other)


def _changed(
    before: MomentRows, after: MomentRows, old: Ints, new: Ints, both: Sequence[int], key: Sequence[int]
) -> Iterator[MomentDifference]:
    changed_before = MomentRows(before.span, before.rows.take(pa.array(old)))
    other = MomentRows(after.span, after.rows.take(pa.array(new)))
    differs = {}
    for number in both:
        if number not in key:
            codes = _codes(changed_before, other, [number])
            differs[number] = codes[0] != codes[1]
    rows_at = np.flatnonzero(np.logical_or.reduce(list(differs.values()))) if differs else np.empty(0, np.int64)
    former = {number: name for name, number in before.span.ids_by_name.items()}
    now = {number: name for name, number in after.span.ids_by_name.items()}
    for begin in range(0, len(rows_at), _AT_ONCE):
        some = rows_at[begin : begin + _AT_ONCE]
        # Most columns differ in no row of a batch.
        ids = [number for number in differs if differs[number][some].any()]
        olds = _json_of(changed_before, some, [former[number] for number in ids])
        news = _json_of(other, some, [now[number] for number in ids])
        keys = _json_of(other, some, [now[number] for number in key])
        for at, old_row, new_row, of_key in zip(some.tolist(), olds, news, keys, strict=True):
            changed = [number for number in ids if differs[number][at]]
            yield MomentDifference(
                {former[number]: old_row[former[number]] for number in changed},
                {now[number]: new_row[now[number]] for number in changed},
                of_key,
            )


def _json_of(side: MomentRows, rows_at: Ints, names: Sequence[str]) -> list[Row]:
    """Some rows as JSON values of some columns."""
    rows = side.rows.take(pa.array(rows_at))
    columns = json_columns(rows, side.span.definition, names)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _alone(side: MomentRows, rows_at: Ints, *, is_gone: bool) -> Iterator[MomentDifference]:
    """Rows of one of the moments: of the first one, if they are gone."""
    definition = side.span.definition
    keys = key_names(definition)
    names = [column.name for column in definition.columns if fold_name(column.name) in keys]
    for begin in range(0, len(rows_at), _AT_ONCE):
        for row in json_rows_of(side.rows.take(pa.array(rows_at[begin : begin + _AT_ONCE])), definition):
            of_key = {name: row[name] for name in names}
            yield MomentDifference(row, None, of_key) if is_gone else MomentDifference(None, row, of_key)


def _of_whole_rows(before: MomentRows, after: MomentRows, old: Ints, new: Ints) -> Iterator[MomentDifference]:
    """Of each kind of equal rows, as many as the other moment has fewer of."""
    size = int(max(old.max(initial=-1), new.max(initial=-1))) + 1
    more = np.bincount(old, minlength=size) - np.bincount(new, minlength=size)
    for side, codes, sign in ((before, old, 1), (after, new, -1)):
        left = np.maximum(more * sign, 0)
        order = np.argsort(codes, kind="stable")
        starts = np.searchsorted(codes[order], codes[order])
        chosen = np.sort(order[np.arange(len(order)) - starts < left[codes[order]]])
        yield from _alone(side, chosen, is_gone=sign > 0)
