"""The results of conversions that SQL does not have, for the values in change tables. They are computed when a view is
made, with the same code as for mirrors. Rows of a version that a DDL has ended are final.
Not here: where values are (`column_sources.py`), the mapping in a view's text (`dialects/made_values.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.changes.arrow import BEFORE, GEOMETRY, arrow_type, may_be_invalid
from strata_cdc.dialects.conversions import in_sql, is_whole
from strata_cdc.dialects.view_source import MadeValues
from strata_cdc.errors import ReadAgainError
from strata_cdc.tables.origins import converted_since
from strata_cdc.tables.verbatim import INVALID_COLUMN, opened, verbatim_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from strata_cdc.dialects.view_source import Branch, ColumnSource, ViewSource

_VERSION, _SEQ = "_schema_version", "_seq"
_SEPARATE: Final = pa.binary()


class TableWithValues(Protocol):
    """What a view reads: change tables, and the rows with which a history begins."""

    @property
    def columns(self) -> pa.Schema:
        """The columns that it has."""

    def batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """All rows with these columns, a batch at a time."""


def with_made_values(source: ViewSource, tables: Mapping[str, TableWithValues]) -> ViewSource:
    """The source with the results of conversions that SQL does not have, for the values in change tables.

    Args:
        source: The parts of a view.
        tables: Its change tables, by the names of its relations.
    """
    wanted = list(_wanted(source))
    for relation, table in tables.items():
        _gather(table, [gathered for gathered in wanted if gathered.branch.relation == relation], source.removed_until)
    prefix = _unused(tables)
    made = {
        (gathered.branch.relation, gathered.branch.versions, gathered.at): gathered.made(f"{prefix}_{number}")
        for number, gathered in enumerate(wanted)
    }

    def source_of(branch: Branch, at: int, column_source: ColumnSource) -> ColumnSource:
        return replace(column_source, made=made.get((branch.relation, branch.versions, at)))

    branches = [
        replace(
            branch,
            column_sources=tuple(
                source_of(branch, at, column_source) for at, column_source in enumerate(branch.column_sources)
            ),
        )
        for branch in source.branches
    ]
    return replace(source, branches=tuple(branches))


def _wanted(source: ViewSource) -> Iterator[_DistinctValues]:
    for branch in source.branches:
        for at, (column, column_source) in enumerate(zip(source.columns, branch.column_sources, strict=True)):
            if column_source.physical and (column_source.by_text or not all(map(is_whole, column_source.steps))):
                yield _DistinctValues(branch, at, column_source, with_before=column.is_key or column_source.in_key)


def _unused(tables: Mapping[str, TableWithValues]) -> str:
    """A prefix that no column's name has, in any case."""
    names = [name.lower() for table in tables.values() for name in table.columns.names]
    prefix = "made"
    while any(name.startswith(prefix) for name in names):
        prefix = f"_{prefix}"
    return prefix


def _gather(table: TableWithValues, wanted: Sequence[_DistinctValues], removed_until: int) -> None:
    if not wanted:
        return
    columns = {name for gathered in wanted for name in gathered.column_source.physical}
    images = {BEFORE} if any(gathered.with_before for gathered in wanted) else set()
    texts = {INVALID_COLUMN} if any(gathered.column_source.by_text for gathered in wanted) else set()
    for batch in table.batches([*sorted(columns | images | texts), _VERSION, _SEQ]):
        left = batch.filter(pc.greater(batch[_SEQ], removed_until))
        for gathered in wanted:
            gathered.examine(left)


class _DistinctValues:
    """The different values of one column, in rows of some versions."""

    def __init__(self, branch: Branch, at: int, column_source: ColumnSource, *, with_before: bool) -> None:
        self.branch, self.at, self.column_source, self.with_before = branch, at, column_source, with_before
        self._kind = arrow_type(column_source.steps[0].before)
        self._asks_texts = (
            column_source.by_text and may_be_invalid(column_source.steps[0].before) and pa.types.is_string(self._kind)
        )
        self._keys: pa.Array = pa.array([], _SEPARATE)
        """Keys of the values that were examined and that SQL may not have."""
        self._values: list[_ReplacedValues] = []

    def examine(self, rows: pa.Table) -> None:
        """Examines more rows."""
        own = rows.filter(pc.is_in(rows[_VERSION], pa.array(self.branch.versions, rows[_VERSION].type)))
        images = [("", {name: own[name] for name in self.column_source.physical})]
        if self.with_before:
            inside = {name: pc.struct_field(own[BEFORE], [name]) for name in self.column_source.physical}
            images.append((f"{BEFORE}.", inside))
        for prefix, image in images:
            values = _coalesced([column.cast(self._kind) for column in image.values()])
            texts = pa.nulls(len(values), pa.string())
            if self._asks_texts:
                (of_values,) = opened(
                    own[INVALID_COLUMN], [verbatim_name(self.column_source.missing)], len(own), prefix
                ).values()
                texts = of_values.combine_chunks()
            self._convert(values.drop_null(), texts.filter(values.is_valid()))

    def made(self, name: str) -> MadeValues | None:
        """The mapping; None if it has no values."""
        if not any(len(value.before) for value in self._values):
            return None
        before, after, texts = (
            pa.concat_arrays([getattr(value, side) for value in self._values]) for side in ("before", "after", "texts")
        )
        return MadeValues(name, before, after, texts if texts.null_count < len(texts) else None, self._asks_texts)

    def _convert(self, values: pa.Array, texts: pa.Array) -> None:
        lookups = _lookups(values, texts) if self._asks_texts else values
        keys = _keys(lookups)
        different = _firsts(keys)
        new = different[~pc.is_in(keys.take(pa.array(different)), self._keys).to_numpy(zero_copy_only=False)]
        looked_at = []
        rows = pa.table({"values": values, "texts": texts, "lookups": lookups}).take(pa.array(new))
        for at, converted in _converted_in_parts(rows, self.column_source):
            own = new[at]
            if converted is not None:
                own = own[converted.kept]
                self._values.append(converted)
            looked_at.append(own)
        if looked_at:
            self._keys = pa.concat_arrays([self._keys, keys.take(pa.array(np.concatenate(looked_at)))])


class _ReplacedValues(Struct, frozen=True):
    """Values that SQL may not have, and what they are now."""

    before: pa.Array
    after: pa.Array
    texts: pa.Array
    """What `_invalid` would have for `after`."""
    kept: NDArray[np.int64]
    """Their indexes in the values that were passed."""


def _converted_in_parts(
    rows: pa.Table, column_source: ColumnSource, begin: int = 0
) -> Iterator[tuple[slice, _ReplacedValues | None]]:
    """Everything that can be converted, in parts as large as possible; None for a single value that is refused."""
    if not len(rows):
        return
    try:
        converted = _converted(rows, column_source)
    except ReadAgainError:
        converted = None
    if converted is not None or len(rows) == 1:
        yield slice(begin, begin + len(rows)), converted
        return
    half = len(rows) // 2
    yield from _converted_in_parts(rows[:half], column_source, begin)
    yield from _converted_in_parts(rows[half:], column_source, begin + half)


def _converted(rows: pa.Table, column_source: ColumnSource) -> _ReplacedValues:
    """Values as mirrors convert them, without those that SQL certainly has.

    Args:
        rows: The `values`, their `texts` in `_invalid`, and how the view asks for them (`lookups`).
        column_source: Where they are, with the conversions.

    Raises:
        ReadAgainError: The server changed some of them in a way that is not known.
    """
    is_sure = np.full(len(rows), not column_source.by_text)
    values, texts = rows["values"], rows["texts"]
    for step in column_source.steps:
        if not column_source.by_text:
            is_sure &= in_sql(values.combine_chunks(), step)
        values, texts = converted_since(values, texts, [step])
    after = values.combine_chunks()
    kept = np.flatnonzero(~is_sure & after.is_valid().to_numpy(zero_copy_only=False))
    at = pa.array(kept)
    return _ReplacedValues(
        rows["lookups"].combine_chunks().take(at), after.take(at), texts.combine_chunks().take(at), kept
    )


# Different values -------------------------------------------------------------------------------


def _coalesced(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    column = columns[0] if len(columns) == 1 else pc.coalesce(*columns)
    return column.combine_chunks()


def _lookups(values: pa.Array, texts: pa.Array) -> pa.Array:
    """Texts by which a view asks for values that look the same: what `_invalid` has for them, a colon, the value."""
    return pc.binary_join_element_wise(texts.fill_null(""), values, ":")


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
