"""The values of one row between its changes, by the ids of its columns: what partial images lack comes from the changes
before, and what a DDL did to a value is computed as mirrors compute it.
Not here: reading changes (`table_changes.py`), what changed (`row_history.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec import Struct

from strata_cdc.changes.jsonl import JSON_VALUES
from strata_cdc.errors import StrataError
from strata_cdc.schema.model.expressions import computes_same, new_names, source_columns
from strata_cdc.schema.model.row_times import ROW_TIMES
from strata_cdc.schema.model.types import parse_column_type
from strata_cdc.tables.convert import convert_column
from strata_cdc.tables.layout import column_name
from strata_cdc.tables.origins import step_of
from strata_cdc.tables.values.constants import constant
from strata_cdc.tables.values.verbatim import constant_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from strata_cdc.past.timeline import ChangeSpan, TableEvent
    from strata_cdc.schema.model.definition import Column


class KnownValue(Struct, frozen=True):
    """A value of a row."""

    shown: Any
    """As JSON has it (`changes/jsonl.py`)."""
    held: tuple[pa.Table, int, str] | pa.Array | None = None
    """Where Arrow has it: a table, a row and a column of it, or an array of this value alone; None if Arrow's type does
    not have it."""

    def array(self) -> pa.ChunkedArray | None:
        """An array of this value alone."""
        if isinstance(self.held, tuple):
            rows, at, name = self.held
            return rows[name].slice(at, 1)
        return None if self.held is None else pa.chunked_array([self.held])


class AlteredValue(Struct, frozen=True):
    """What a DDL did to a value of a row."""

    id: int
    column: str
    """The name afterwards."""
    before: KnownValue | None
    after: KnownValue | None
    """None: not known."""
    is_new: bool
    """Whether the DDL added the column."""


class RowValues:
    """The values of one row; they are empty until a change shows them."""

    def __init__(self) -> None:
        self.by_id: dict[int, KnownValue] = {}

    def take_image(self, span: ChangeSpan, image: dict[str, Any], rows: pa.Table, at: int, *, is_before: bool) -> None:
        """Takes the values of an image.

        Args:
            span: The version that the image is of.
            image: Its values as JSON.
            rows: The changes.
            at: The change's number among them.
            is_before: Whether it is the image before the change; its Arrow values are not kept.
        """
        for number, column in zip(span.ids, span.definition.columns, strict=True):
            if column.name not in image:
                continue
            shown, name = image[column.name], column_name(column.name)
            known = self.by_id.get(number)
            if is_before and known is not None and known.shown == shown:
                continue
            is_held = not is_before and (shown is None) == (not rows[name][at].is_valid)
            self.by_id[number] = KnownValue(shown, (rows, at, name) if is_held else None)

    def forget_computed(self, span: ChangeSpan, image: dict[str, Any], former: Mapping[int, KnownValue]) -> list[int]:
        """Forgets generated columns that an update may have changed, and that its image lacks: from 11 on, MariaDB
        leaves generated columns out of the images of updates.

        Args:
            span: The version of the image.
            image: The image after the update, as JSON, whose values have been taken.
            former: The values before the update.

        Returns:
            The ids of these columns.
        """
        forgotten = []
        for number, column in zip(span.ids, span.definition.columns, strict=True):
            if column.name in image or column.generated is None or column.generation_expression in ROW_TIMES:
                continue
            sources = [span.ids_by_name[name] for name in source_columns(column, span.definition) if name in image]
            if any(_shown(former.get(source)) != _shown(self.by_id.get(source)) for source in sources):
                self.by_id.pop(number, None)
                forgotten.append(number)
        return forgotten

    def alter(self, event: TableEvent) -> Iterator[AlteredValue]:
        """Takes the values through a DDL; gives those that it may have changed."""
        before, after = event.before, event.after
        if before is None or after is None or event.effect is None:
            return
        filled = {fill.column: fill.value for fill in event.effect.filled}
        former = before.columns_by_id
        now = {}
        recomputes = bool(event.effect.converted)
        columns = after.columns_by_id
        names = new_names((former[number], columns[number]) for number in former.keys() & columns.keys())
        for number, column in zip(after.ids, after.definition.columns, strict=True):
            known, old = self.by_id.get(number), former.get(number)
            if old is None:
                value = _filled(column, filled[column.name]) if column.name in filled else None
                yield AlteredValue(number, column.name, None, value, is_new=True)
            elif _is_same(old, column, names, known) and not (recomputes and column.generated is not None):
                value = known
            else:
                value = _converted(known, old, column, event)
                yield AlteredValue(number, column.name, known, value, is_new=False)
            if value is not None:
                now[number] = value
        self.by_id = now


def _shown(known: KnownValue | None) -> tuple[Any, ...]:
    return () if known is None else (known.shown,)


def _is_same(before: Column, after: Column, names: Mapping[str, str], known: KnownValue | None) -> bool:
    """Whether a DDL, which gave columns these names, leaves a column's value as it is."""
    if (before.column_type, before.character_set) != (after.column_type, after.character_set):
        return False
    if not computes_same(before, after, names):
        return False
    may_be_null = known is None or known.shown is None
    return after.auto_increment <= before.auto_increment and (after.nullable or not before.nullable or not may_be_null)


def _filled(column: Column, value: str | None) -> KnownValue | None:
    try:
        array = constant(column, value, 1)
    except StrataError:
        return None
    # A zero date, or another one that no column of the lake holds.
    text = constant_text(column, value, 1)[0].as_py()
    return _of_array(column, array) if text is None else KnownValue(text)


def _converted(known: KnownValue | None, before: Column, after: Column, event: TableEvent) -> KnownValue | None:
    array = None if known is None else known.array()
    if array is None or event.effect is None or event.is_swap or after.generated is not None:
        return None
    if isinstance(step_of(before, after, event.effect), str):
        return None
    try:
        converted = convert_column(array, before, after, event.effect).combine_chunks()
    except StrataError:
        return None
    return _of_array(after, converted) if converted[0].is_valid else _filled(after, None)


def _of_array(column: Column, array: pa.Array) -> KnownValue:
    kind = parse_column_type(column.column_type)
    return KnownValue(JSON_VALUES[kind.kind](kind)(array)[0], array)
