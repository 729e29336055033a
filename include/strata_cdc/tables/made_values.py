"""The results of conversions that SQL does not have, for the values in change tables. They are computed when a view is
made, with the same code as for mirrors. Rows of a version that a DDL has ended are final.
Not here: where values are (`column_sources.py`), the mapping in a view's text (`dialects/made_values.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.changes.arrow import BEFORE, GEOMETRY, arrow_type, is_labelled, may_be_invalid
from strata_cdc.dialects.conversions import in_sql, is_whole
from strata_cdc.dialects.made_values import written
from strata_cdc.dialects.view_source import MadeValues
from strata_cdc.errors import ReadAgainError
from strata_cdc.tables.limits import ViewLimits
from strata_cdc.tables.origins import stepped
from strata_cdc.tables.values.verbatim import converted_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from strata_cdc.dialects.view_source import Branch, ColumnSource, TypeChange, ViewSource
    from strata_cdc.tables.port import OutputTable

_VERSION, _SEQ = "_schema_version", "_seq"
_SEPARATE: Final = pa.binary()


def with_made_values(
    source: ViewSource, tables: Mapping[str, OutputTable], limits: ViewLimits = ViewLimits()
) -> ViewSource:
    """The source with the results of conversions that SQL does not have, for the values in change tables.

    Args:
        source: The parts of a view.
        tables: Its change tables, by the names of its relations.
        limits: Size of a column's mapping; if there are more values, the column has no mapping.

    Raises:
        LakeUnavailableError: The storage does not answer.
    """
    wanted = list(_wanted(source, limits))
    for relation, table in tables.items():
        _gather(table, [one for one in wanted if one.branch.relation == relation], source.removed_until)
    found = {(one.branch.relation, one.branch.versions, one.at): one for one in wanted}
    prefix = _unused(tables)

    def place_of(branch: Branch, at: int, place: ColumnSource) -> ColumnSource:
        one = found.get((branch.relation, branch.versions, at))
        name = f"{prefix}_{branch.versions[0]}_{at}"
        return place if one is None else replace(place, made=one.made(name))

    branches = [
        replace(branch, places=tuple(place_of(branch, at, place) for at, place in enumerate(branch.places)))
        for branch in source.branches
    ]
    return replace(source, branches=tuple(branches))


def _wanted(source: ViewSource, limits: ViewLimits) -> Iterator[_Gathered]:
    for branch in source.branches:
        for at, (column, place) in enumerate(zip(source.columns, branch.places, strict=True)):
            if place.physical and _is_told(place.steps) and not all(map(is_whole, place.steps)):
                yield _Gathered(branch, at, place, limits, with_before=column.is_key)


def _is_told(steps: Sequence[TypeChange]) -> bool:
    """Whether the values alone determine the result: those of labels that share a text do not."""
    sides = [side for step in steps for side in (step.before, step.after)]
    return not any(is_labelled(side) and may_be_invalid(side) for side in sides)


def _unused(tables: Mapping[str, OutputTable]) -> str:
    """A prefix that no column's name has, in any case."""
    names = [name.lower() for table in tables.values() for name in table.columns.names]
    prefix = "made"
    while any(name.startswith(prefix) for name in names):
        prefix = f"_{prefix}"
    return prefix


def _gather(table: OutputTable, wanted: Sequence[_Gathered], removed_until: int) -> None:
    columns = {name for one in wanted for name in one.place.physical}
    images = {BEFORE} if any(one.with_before for one in wanted) else set()
    if not wanted:
        return
    for batch in table.batches([*sorted(columns | images), _VERSION, _SEQ]):
        left = batch.filter(pc.greater(batch[_SEQ], removed_until))
        for one in wanted:
            one.examine(left)
        if all(one.is_over for one in wanted):
            return


class _Gathered:
    """The different values of one column, in rows of some versions."""

    def __init__(self, branch: Branch, at: int, place: ColumnSource, limits: ViewLimits, *, with_before: bool) -> None:
        self.branch, self.at, self.place, self.with_before = branch, at, place, with_before
        self._limits = limits
        self._kind = arrow_type(place.steps[0].before)
        self._keys: pa.Array = pa.array([], _SEPARATE)
        """Keys of the values that were examined and that SQL may not have."""
        self._values: list[_Converted] = []
        self._count = self._characters = 0

    @property
    def is_over(self) -> bool:
        """Whether there are more values than a view's text may have."""
        return self._count > self._limits.values or self._characters > self._limits.characters

    def examine(self, rows: pa.Table) -> None:
        """Examines more rows."""
        if self.is_over:
            return
        own = rows.filter(pc.is_in(rows[_VERSION], pa.array(self.branch.versions, rows[_VERSION].type)))
        images = [{name: own[name] for name in self.place.physical}]
        if self.with_before:
            images.append({name: pc.struct_field(own[BEFORE], [name]) for name in self.place.physical})
        for image in images:
            self._convert(_coalesced([column.cast(self._kind) for column in image.values()]))

    def made(self, name: str) -> MadeValues | None:
        """The mapping; None if it has no values."""
        before, after = ([getattr(value, side) for value in self._values] for side in ("before", "after"))
        if self.is_over or not any(map(len, before)):
            return None
        return MadeValues(name, pa.concat_arrays(before), pa.concat_arrays(after))

    def _convert(self, values: pa.Array) -> None:
        keys = _keys(values)
        different = _firsts(keys)
        new = different[~pc.is_in(keys.take(pa.array(different)), self._keys).to_numpy(zero_copy_only=False)]
        looked_at = []
        for at, converted in _converted_in_parts(values.take(pa.array(new)), self.place.steps):
            own = new[at]
            if converted is not None:
                own = own[converted.kept]
                self._values.append(converted)
                self._characters += sum(map(len, (*written(converted.before), *written(converted.after))))
            self._count += len(own)
            looked_at.append(own)
            if self.is_over:
                break
        if looked_at:
            self._keys = pa.concat_arrays([self._keys, keys.take(pa.array(np.concatenate(looked_at)))])


class _Converted(Struct, frozen=True):
    """Values that SQL may not have, and what they are now."""

    before: pa.Array
    after: pa.Array
    kept: NDArray[np.int64]
    """Their indexes in the values that were passed."""


def _converted_in_parts(
    values: pa.Array, steps: Sequence[TypeChange], begin: int = 0
) -> Iterator[tuple[slice, _Converted | None]]:
    """Everything that can be converted, in parts as large as possible; None for a single value that is refused."""
    if not len(values):
        return
    try:
        converted = _converted(values, steps)
    except ReadAgainError:
        converted = None
    if converted is not None or len(values) == 1:
        yield slice(begin, begin + len(values)), converted
        return
    half = len(values) // 2
    yield from _converted_in_parts(values[:half], steps, begin)
    yield from _converted_in_parts(values[half:], steps, begin + half)


def _converted(values: pa.Array, steps: Sequence[TypeChange]) -> _Converted:
    """The values as mirrors convert them, without those that SQL certainly has.

    Raises:
        ReadAgainError: The server changed some of them in a way that is not known.
    """
    is_sure = np.ones(len(values), np.bool_)
    found = pa.chunked_array([values])
    for step in steps:
        is_sure &= in_sql(found.combine_chunks(), step)
        after = stepped(found, step)
        if may_be_invalid(step.before) or may_be_invalid(step.after):
            nothing = pa.chunked_array([pa.nulls(len(values), pa.string())])
            converted_texts(nothing, found, after, step.before, step.after)
        found = after
    after = found.combine_chunks()
    kept = np.flatnonzero(~is_sure & after.is_valid().to_numpy(zero_copy_only=False))
    return _Converted(values.take(pa.array(kept)), after.take(pa.array(kept)), kept)


# Different values -------------------------------------------------------------------------------


def _coalesced(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    column = columns[0] if len(columns) == 1 else pc.coalesce(*columns)
    return column.combine_chunks().drop_null()


def _keys(values: pa.Array) -> pa.Array:
    """Bytes that are equal only for equal values."""
    if values.type == GEOMETRY:
        srids = pc.struct_field(values, [0]).cast(pa.string()).cast(_SEPARATE)
        return pc.binary_join_element_wise(srids, pc.struct_field(values, [1]), b":")
    if pa.types.is_floating(values.type):
        # Not by value: 0 and -0 are different.
        whole = pa.int32() if pa.types.is_float32(values.type) else pa.int64()
        return values.view(whole).cast(pa.string()).cast(_SEPARATE)
    return values if pa.types.is_binary(values.type) else values.cast(pa.string()).cast(_SEPARATE)


def _firsts(keys: pa.Array) -> NDArray[np.int64]:
    """The index at which each different key comes first."""
    codes = keys.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    return np.sort(np.unique(codes, return_index=True)[1])
