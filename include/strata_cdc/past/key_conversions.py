"""What statements made of the values of keys: a key that a DDL writes in another way is the key of the same row.
Not here: the conversions themselves (`tables/convert.py`), which rows had a key (`row_paths.py`)."""

from __future__ import annotations

from functools import cached_property, reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.dialects.view_source import TypeChange
from strata_cdc.errors import StrataError
from strata_cdc.past.change_filters import ReadFirst, refuse_absent
from strata_cdc.past.key_images import facts_of_keys, key_images
from strata_cdc.past.key_texts import KeyImage, KeyValues, texts_of_values, values_of_texts
from strata_cdc.past.timeline import ChangeSpan, TableEvent
from strata_cdc.schema.model.conversions import keeps_values
from strata_cdc.tables.current_rows import column_of_end, is_past
from strata_cdc.tables.origins import converted_since, shown_step, step_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strata_cdc.past.table_changes import TableChanges
    from strata_cdc.past.timeline import TablePart, TableTimeline
    from strata_cdc.schema.model.definition import Column

Key = tuple[str, ...]
"""The values of a key's columns as texts (`key_texts.py`)."""


class ColumnsOfKey(Protocol):
    """The columns that identify a row of a table."""

    def ids_in(self, span: ChangeSpan) -> tuple[int, ...] | None:
        """The columns in a version."""

    def columns_in(self, span: ChangeSpan) -> list[Column] | None:
        """The same as definitions."""


class UnknownKeyError(Exception):
    """Nobody knows what a statement made of a key; the text says why."""


class KeyConversion(Struct, frozen=True):
    """What a statement made of the columns of a key."""

    seq: int
    """Ordinal of its transaction."""
    steps: tuple[TypeChange | None, ...]
    """By column; None: its values stayed as they were."""

    def forward(self, key: Key) -> Key | None:
        """The key afterwards of a row that had a key before; None if no row had it.

        Raises:
            UnknownKeyError: Nobody knows.
        """
        texts = [text if step is None else _converted_text(step, text)
                 for step, text in zip(self.steps, key, strict=True)]  # fmt: skip
        return None if any(text is None for text in texts) else tuple(text or "" for text in texts)


def conversion_of(columns: ColumnsOfKey, event: TableEvent) -> KeyConversion | None:
    """What a statement made of a key; None if no value of it became another one."""
    if event.before is None or event.after is None or event.effect is None:
        return None
    before, after = columns.columns_in(event.before), columns.columns_in(event.after)
    if before is None or after is None or columns.ids_in(event.before) != columns.ids_in(event.after):
        return None
    steps = tuple(_step(old, new, event) for old, new in zip(before, after, strict=True))
    return KeyConversion(event.seq, steps) if any(steps) else None


def _step(before: Column, after: Column, event: TableEvent) -> TypeChange | None:
    # The values of a key are never NULL.
    old = replace(before, nullable=after.nullable)
    if event.effect is None or keeps_values(old, after):
        return None
    step = step_of(old, after, event.effect)
    if event.is_swap and step is not None:
        step = f"{shown_step(before, after)} (in a copy of the table)"
    return TypeChange(old, after, unknown=step) if isinstance(step, str) else step


def _converted_text(step: TypeChange, text: str) -> str | None:
    values, verbatim = values_of_texts(step.before, [text]), KeyValues.from_texts(step.before, [text]).verbatim
    if not len(values) and not len(verbatim):
        return None
    image = KeyImage(values, pa.nulls(1, pa.string()))
    if not len(values):
        image = KeyImage(pa.nulls(1, values.type), verbatim)
    if texts_of_values(step.before, image) != [text]:
        return None
    return texts_of_values(step.after, _stepped(image, [step]))[0]


def _stepped(image: KeyImage, steps: Sequence[TypeChange]) -> KeyImage:
    """Values after several conversions.

    Raises:
        UnknownKeyError: It is not known what became of some of them.
    """
    unknown = next((step.unknown for step in steps if step.unknown is not None), None)
    if unknown is not None:
        raise UnknownKeyError(unknown)
    texts = pa.nulls(len(image.values), pa.string()) if image.verbatim is None else image.verbatim
    try:
        values, verbatim = converted_since(pa.chunked_array([image.values]), pa.chunked_array([texts]), steps)
    except StrataError as error:
        raise UnknownKeyError(error.facts().message) from None
    return KeyImage(values.combine_chunks(), verbatim.combine_chunks())


def conversions_since(columns: ColumnsOfKey, parts: Iterable[TablePart], seq: int) -> list[KeyConversion]:
    """The conversions of a key after a transaction, in order."""
    events = (part for part in parts if isinstance(part, TableEvent) and part.seq > seq)
    return [made for made in (conversion_of(columns, event) for event in events) if made is not None]


def steps_by_column(conversions: Sequence[KeyConversion]) -> list[list[TypeChange]]:
    """What conversions made of each column of a key, in order."""
    by_column = zip(*(conversion.steps for conversion in conversions), strict=True)
    return [[step for step in steps if step is not None] for steps in by_column]


def is_unknown(steps: Sequence[TypeChange]) -> bool:
    """Whether nothing is known of what one of some conversions made of values."""
    return any(step.unknown is not None for step in steps)


def texts_since(image: KeyImage, steps: Sequence[TypeChange]) -> tuple[list[str | None], str | None]:
    """The texts that values have after some conversions, and why some are not known; None for these."""
    column = steps[-1].after
    try:
        return texts_of_values(column, _stepped(image, steps)), None
    except UnknownKeyError as error:
        count = len(image.values)
        if count == 1 or is_unknown(steps):
            return [None] * count, str(error)
    texts: list[str | None] = []
    unknown = None
    for begin, end in pairwise((0, count // 2, count)):
        part, why = texts_since(image.chosen(pa.array(range(begin, end))), steps)
        texts, unknown = texts + part, unknown or why
    return texts, unknown


class ConvertedValues:
    """The values of a column of a key that several conversions made the same value; as `KeyValues` for the others.

    Args:
        column: The column before the conversions.
        steps: The conversions, in order.
        text: The value after them.
    """

    def __init__(self, column: Column, steps: Sequence[TypeChange], text: str) -> None:
        self.column, self._steps, self._text = column, steps, text
        self.unknown: str | None = None
        """Why it is not known of some values what they became."""

    @cached_property
    def _wanted(self) -> KeyValues:
        return KeyValues.from_texts(self._steps[-1].after if self._steps else self.column, [self._text])

    def among(self, image: KeyImage) -> pa.Array | pa.ChunkedArray:
        """Which rows have one of them."""
        if not self._steps:
            return self._wanted.among(image)
        held = pc.unique(image.values).drop_null()
        held = held.filter(self._become(KeyImage(held, pa.nulls(len(held), pa.string()))))
        has = pc.is_in(image.values, held)
        if image.verbatim is None:
            return has
        texts = pc.unique(image.verbatim).drop_null()
        texts = texts.filter(self._become(KeyImage(pa.nulls(len(texts), image.values.type), texts)))
        return pc.or_(has, pc.is_in(image.verbatim, texts))

    def _become(self, image: KeyImage) -> pa.Array:
        """Which values become the wanted one. What no conversion is known for alone spoils no other value."""
        count = len(image.values)
        if not count:
            return pa.array([], pa.bool_())
        try:
            return self._wanted.among(_stepped(image, self._steps))
        except UnknownKeyError as error:
            if count == 1 or is_unknown(self._steps):
                self.unknown = str(error)
                return pa.repeat(pa.scalar(value=False), count)
        parts = [pa.array(range(begin, end)) for begin, end in pairwise((0, count // 2, count))]
        return pa.concat_arrays([self._become(image.chosen(part)) for part in parts])


class ConvertedKeyFilter:
    """The changes of rows whose key, before the change or after it, conversions made the same key.

    Args:
        values: By column.
    """

    def __init__(self, values: Sequence[ConvertedValues]) -> None:
        self.values = values

    @property
    def unknown(self) -> str | None:
        """Why it is not known of some changes so far; None if it is."""
        return next((values.unknown for values in self.values if values.unknown is not None), None)

    def reads(self, span: ChangeSpan) -> ReadFirst | None:
        """See `ChangeFilter`."""
        columns, end = [values.column for values in self.values], column_of_end(span.definition)
        names = dict.fromkeys(column.name for column in (*columns, *([] if end is None else [end])))
        return ReadFirst(tuple(names), ("_missing", *facts_of_keys(columns)))

    def may_want(self, rows: pa.Table, span: ChangeSpan) -> bool:  # noqa: ARG002  the protocol's
        """See `ChangeFilter`."""
        return True

    def wanted(self, rows: pa.Table, span: ChangeSpan) -> pa.Array:
        """See `ChangeFilter`."""
        images = list(key_images(rows, [values.column for values in self.values]))
        for values, (before_image, _) in zip(self.values, images, strict=True):
            refuse_absent(rows, span, values.column.name, before_image.values)
        masks = [[values.among(image) for image in pair] for values, pair in zip(self.values, images, strict=True)]
        before, after = (reduce(pc.and_, side) for side in zip(*masks, strict=True))
        has_key = pc.fill_null(pc.or_(before, after), fill_value=False)
        return pc.and_(has_key, pc.invert(is_past(rows, span.definition)))


class FormerKeys(Struct, frozen=True):
    """The keys that a key was before some conversions."""

    keys: frozenset[Key]
    """In the forms of all versions between."""
    unknown: str | None
    """Why there may be others; None if there are none."""


def former_keys(
    changes: TableChanges, timeline: TableTimeline, columns: ColumnsOfKey, key: Key, seq: int
) -> FormerKeys:
    """The keys of all changes before a conversion that became a key by it, and by those before it.

    Args:
        changes: The changes of the source's tables.
        timeline: The table, and the range.
        key: As it is after the conversion.
        seq: Ordinal of the conversion's transaction.

    Raises:
        StrataError: As for `TableChanges.read_timeline`.
    """
    since: list[KeyConversion] = []
    keys: set[Key] = set()
    unknown: set[str] = set()
    for part in reversed(timeline.parts):
        if isinstance(part, TableEvent):
            if part.seq <= seq and part.removes_all:
                break
            conversion = conversion_of(columns, part) if part.seq <= seq else None
            since = since if conversion is None else [conversion, *since]
        elif isinstance(part, ChangeSpan) and since:
            former, doubt = _former_in(changes, part, columns, key, since)
            keys |= former
            unknown |= doubt
    return FormerKeys(frozenset(keys), min(unknown, default=None))


def _former_in(
    changes: TableChanges, span: ChangeSpan, columns: ColumnsOfKey, key: Key, since: Sequence[KeyConversion]
) -> tuple[set[Key], set[str]]:
    kinds = columns.columns_in(span)
    if kinds is None:
        return set(), set()
    values = list(map(ConvertedValues, kinds, steps_by_column(since), key))
    keys: set[Key] = set()
    for chunk in changes.looked_at(span, ConvertedKeyFilter(values)):
        for image in zip(*key_images(chunk, kinds), strict=True):
            texts = zip(*map(texts_of_values, kinds, image), strict=True)
            for row in dict.fromkeys(texts):
                keys |= _forms(tuple(text or "" for text in row), since, key)
    return keys, {unknown for unknown in (value.unknown for value in values) if unknown is not None}


def _forms(key: Key, since: Iterable[KeyConversion], last: Key) -> set[Key]:
    """A key and what conversions made of it; empty if the last of them is another key than the one wanted."""
    forms = [key]
    for conversion in since:
        try:
            after = conversion.forward(forms[-1])
        except UnknownKeyError:
            return set()
        if after is None:
            return set()
        forms.append(after)
    return set(forms) if forms[-1] == last else set()
