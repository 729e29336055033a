"""Which rows had a key, and under which keys they were from their beginning to their end: an UPDATE of the key moves a
row, a DELETE or TRUNCATE ends it, and the next INSERT of the key is another row.
Not here: what changed in them (`row_history.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from strata_cdc.counted import counted
from strata_cdc.errors import Usage
from strata_cdc.mirrors.layout import key_names
from strata_cdc.past.change_filters import KeyFilter
from strata_cdc.past.key_conversions import UnknownKeyError, conversion_of, former_keys
from strata_cdc.past.key_images import key_images
from strata_cdc.past.key_texts import KeyValues, as_compared, has_spellings, texts_of_values
from strata_cdc.past.timeline import ChangeSpan, TableEvent, UnknownChanges
from strata_cdc.position.ordinals import AFTER_ALL
from strata_cdc.schema.history.shell_words import table_word
from strata_cdc.schema.model.definition import KeyKind
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.schema.model.row_effects import EffectKind
from strata_cdc.tables.current_rows import ends_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from strata_cdc.past.key_conversions import FormerKeys, Key, KeyConversion
    from strata_cdc.past.key_texts import KeyImage
    from strata_cdc.past.table_changes import TableChanges
    from strata_cdc.past.timeline import TableTimeline
    from strata_cdc.schema.model.definition import Column, TableName

RowOrder = tuple[int, int]
"""`_seq` and `_row` of a change; a row of -1 is before the changes of the transaction."""

_AFTER_CHANGES: Final = (AFTER_ALL, 0)
MOST_KEYS: Final = 200
"""Keys under which the rows of one key are followed."""


class KeyColumns(Struct, frozen=True):
    """The columns that identify a row of a table."""

    names: tuple[str, ...]
    ids: tuple[int, ...]
    all_ids: frozenset[int]
    """The ids of all columns of the table at the end."""

    def ids_in(self, span: ChangeSpan) -> tuple[int, ...] | None:
        """The columns in another version; None if it lacks some of them. Of a table that was dropped and made again
        under its name, no column is the same: then the key of that version counts."""
        if set(self.ids) <= set(span.ids):
            return self.ids
        if self.all_ids.isdisjoint(span.ids) and len(key_names(span.definition)) == len(self.ids):
            return key_columns_of(span).ids
        return None

    def columns_in(self, span: ChangeSpan) -> list[Column] | None:
        """The same as definitions."""
        ids = self.ids_in(span)
        of = span.columns_by_id
        return None if ids is None else [of[number] for number in ids]

    def texts(self, span: ChangeSpan, images: Sequence[KeyImage]) -> list[Key]:
        """The keys of rows, from the columns in the types of a version.

        Args:
            span: The version.
            images: The values, in the order of the key.
        """
        kinds = self.columns_in(span) or []
        texts = [texts_of_values(kind, image) for kind, image in zip(kinds, images, strict=True)]
        return [tuple(text or "" for text in row) for row in zip(*texts, strict=True)]

    def compared(self, span: ChangeSpan, keys: Sequence[Key]) -> list[Key]:
        """Keys in the spelling in which a version compares them: `abc` and `ABC` may be the same key of a row."""
        kinds = self.columns_in(span) or []
        texts = [as_compared(kind, pa.array(column, pa.string())).to_pylist()
                 for kind, column in zip(kinds, zip(*keys, strict=True), strict=True)]  # fmt: skip
        return list(zip(*texts, strict=True))


def key_columns_of(span: ChangeSpan) -> KeyColumns:
    """The columns that identify a row of a version.

    Raises:
        Usage: The table has no key.
    """
    names = key_names(span.definition)
    if not names:
        raise Usage(
            "the table has no primary key, and no unique key without NULL: nothing identifies a row",
            table=str(span.name),
            remedy="Choose changes by a condition: "
            f"`strata row history {table_word(span.name)} --where \"name = 'a'\"`.",
        )
    by_name = {fold_name(column.name): (column.name, at) for column, at in
               zip(span.definition.columns, span.ids, strict=True)}  # fmt: skip
    columns = [by_name[name] for name in names]
    return KeyColumns(tuple(name for name, _ in columns), tuple(number for _, number in columns), frozenset(span.ids))


def key_of_words(span: ChangeSpan, words: Sequence[str]) -> Key:
    """A key from the words of a command, one for each column.

    Raises:
        Usage: There are more or fewer words than columns, or one of them is no value of its column.
    """
    columns = key_columns_of(span)
    shown = ", ".join(columns.names)
    if len(words) != len(columns.names):
        raise Usage(
            f"the key has {counted(len(columns.names), 'column')} ({shown}), and {counted(len(words), 'value')} came",
            table=str(span.name),
            remedy="Give one value for each, in this order.",
        )
    texts = []
    for name, word in zip(columns.names, words, strict=True):
        column = span.definition.column(name)
        known = [] if column is None else KeyValues.from_texts(column, [word]).texts()
        if not known:
            kind = "" if column is None else column.column_type
            raise Usage(f"{word!r} is no value of {name}, which is {kind}", table=str(span.name))
        texts += known
    return tuple(texts)


class RowPaths(Struct, frozen=True):
    """The rows that ever had a key."""

    columns: KeyColumns
    keys: tuple[Key, ...]
    """All keys under which they were."""
    segments: dict[Key, list[tuple[RowOrder, RowOrder, int]]]
    """By key: from which place to which one it was the key of which row, ends included."""
    spellings: frozenset[Key]
    """The key, and all texts of it that a version takes for the same."""
    wanted: frozenset[int]
    """The numbers of the rows."""
    filter: KeyFilter
    """The changes of these keys."""
    doubts: dict[int, str]
    """Statements of which nobody knows what they made of a key of the rows: ordinal, and why."""

    def row_of(self, key: Key, order: RowOrder) -> int | None:
        """The row that had a key at a place; None if it is none of the rows."""
        for first, last, row in reversed(self.segments.get(key, ())):
            if first <= order <= last:
                return row if row in self.wanted else None
        return None

    def row_at_end(self) -> int | None:
        """The row that has the key at the end of the timeline; None if there is none, as far as the log shows."""
        segments = (segment for key in self.spellings for segment in self.segments.get(key, ()))
        return next((row for _, last, row in segments if last == _AFTER_CHANGES), None)


def row_paths(changes: TableChanges, timeline: TableTimeline, columns: KeyColumns, key: Key) -> RowPaths:
    """The rows of a table that ever had a key within a timeline, each with all of its keys.

    Args:
        changes: The changes of the source's tables.
        timeline: The table, and the range.

    Raises:
        Usage: The rows had more than `MOST_KEYS` keys, or two rows had one.
        StrataError: As for `TableChanges.read_timeline`.
    """
    keys = {key}
    former: dict[tuple[int, Key], FormerKeys] = {}
    while True:
        chosen = KeyFilter(columns.columns_in, sorted(keys))
        walk = _walked(changes, timeline, columns, (key, keys), chosen)
        wanted, more = walk.end()
        for seq, converted in walk.converted(wanted) - former.keys():
            former[seq, converted] = former_keys(changes, timeline, columns, converted, seq)
            more |= former[seq, converted].keys - keys
        if not more:
            doubts = walk.doubts(wanted) | {seq: of.unknown for (seq, _), of in former.items() if of.unknown}
            spellings = frozenset(walk.spellings)
            return RowPaths(columns, tuple(sorted(keys)), walk.segments, spellings, wanted, chosen, doubts)
        keys |= more
        if len(keys) > MOST_KEYS:
            raise Usage(
                f"the rows that had this key have had more than {MOST_KEYS} keys",
                table=str(timeline.table),
                remedy="Name a shorter time (`--from`, `--to`).",
            )


def _walked(
    changes: TableChanges, timeline: TableTimeline, columns: KeyColumns, keys: tuple[Key, set[Key]], chosen: KeyFilter
) -> _RowWalk:
    key, followed = keys
    walk = _RowWalk(timeline.table, key, followed, (timeline.after, -1))
    for part in timeline.parts:
        if isinstance(part, ChangeSpan):
            same = _SameKeys(columns, part, key)
            walk.is_unique = _is_unique(columns, part)
            for chunk in changes.looked_at(part, chosen):
                for order, before, after in _moves(chunk, part, columns):
                    walk.add_spellings(order, same.among({before, after}), same)
                    if before != after:
                        walk.add_change(order, before, after)
        elif isinstance(part, UnknownChanges):
            walk.doubt((part.until, AFTER_ALL))
        else:
            walk.take_event(part, conversion_of(columns, part))
    return walk


def _is_unique(columns: KeyColumns, span: ChangeSpan) -> bool:
    """Whether no two rows of a version can have the same key."""
    names = {column.name for column in columns.columns_in(span) or () if not column.nullable}
    for key in span.definition.keys:
        parts = [None if part.column is None else span.definition.column(part.column) for part in key.parts]
        if key.kind in {KeyKind.PRIMARY, KeyKind.UNIQUE} and all(part and part.name in names for part in parts):
            return True
    return False


def _may_bring_rows(event: TableEvent) -> bool:
    effect = event.effect
    return effect is not None and (effect.brings_rows or effect.kind in {EffectKind.EXCHANGE, EffectKind.READ_AGAIN})


def _moves(chunk: pa.Table, span: ChangeSpan, columns: KeyColumns) -> Iterator[tuple[RowOrder, Key | None, Key | None]]:
    """The changes that begin, end or move a row: place, key before and key after; of a key that may have several
    spellings, all changes."""
    kinds = columns.columns_in(span) or ()
    images = list(key_images(chunk, kinds))
    op = chunk["_op"].combine_chunks()
    # An UPDATE with which a row of a versioned table ends.
    op = pc.if_else(ends_rows(chunk, span.definition), "delete", op)
    chosen = pc.or_(pc.not_equal(op, "update"), pa.scalar(any(map(has_spellings, kinds))))
    for before, after in images:
        chosen = pc.or_(chosen, after.differs(before))
    at = pc.indices_nonzero(chosen)
    keys = [columns.texts(span, [image.chosen(at) for image in side]) for side in zip(*images, strict=True)]
    orders = zip(chunk["_seq"].take(at).to_pylist(), chunk["_row"].take(at).to_pylist(), strict=True)
    for order, kind, before, after in zip(orders, op.take(at).to_pylist(), *keys, strict=True):
        yield order, None if kind == "insert" else before, None if kind == "delete" else after


class _SameKeys:
    """Which keys a version takes for the same as one."""

    def __init__(self, columns: KeyColumns, span: ChangeSpan, key: Key) -> None:
        self._columns, self._span, self._key = columns, span, key
        self._known: dict[Key, bool] = {}

    def among(self, keys: Iterable[Key | None]) -> set[Key]:
        """Those of some keys."""
        some = [key for key in keys if key is not None]
        unknown = [key for key in some if key not in self._known]
        if unknown:
            wanted, *compared = self._columns.compared(self._span, [self._key, *unknown])
            self._known |= {key: text == wanted for key, text in zip(unknown, compared, strict=True)}
        return {key for key in some if self._known[key]}


class _RowWalk:
    """Follows the rows of some keys through a timeline."""

    def __init__(self, table: TableName, key: Key, keys: set[Key], begin: RowOrder) -> None:
        self._table, self._keys = table, keys
        self.is_unique = True
        """Whether no two rows have one key, in the version whose changes come next."""
        self._sure: set[Key] = set()
        """Keys of which a change has shown that a row has them."""
        self.spellings = {key}
        """The key, and all that was the same by what a version compares."""
        self._open: dict[Key, tuple[RowOrder, int]] = {}
        self._count = 0
        self._came: dict[int, Key] = {}
        self._went: dict[int, Key] = {}
        self._unsure: dict[int, tuple[int, Key]] = {}
        """Rows that may have come from another key by a conversion: its ordinal, and the key afterwards."""
        self._unknown: dict[tuple[int, int], str] = {}
        """Conversions of which nobody knows what they made of a row's key: ordinal and row, and why."""
        self.segments: dict[Key, list[tuple[RowOrder, RowOrder, int]]] = {}
        self.doubt(begin)

    def doubt(self, order: RowOrder) -> None:
        """There may be rows from here on whose INSERT is not among the changes."""
        for key in self._keys - self._open.keys():
            self._begin(key, order, self._new())

    def remove_all(self, order: RowOrder) -> None:
        """All rows end."""
        for key in list(self._open):
            self._end(key, order)

    def take_event(self, event: TableEvent, conversion: KeyConversion | None) -> None:
        """A statement on the table, and what it made of keys."""
        if conversion is not None:
            self._convert(conversion)
        if event.removes_all:
            self.remove_all((event.seq, -1))
        elif _may_bring_rows(event):
            self.doubt((event.seq, -1))

    def _convert(self, conversion: KeyConversion) -> None:
        """A statement that writes keys in another way."""
        order = conversion.seq, -1
        rows: dict[Key, tuple[int, bool]] = {}
        for key in sorted(self._open, key=self._sure.__contains__):
            is_sure = key in self._sure
            row = self._end(key, order)
            if row is not None:
                after = self._forward(conversion, key, row)
                if after is not None:
                    rows[after] = row, is_sure
        for key, (row, is_sure) in rows.items():
            if key not in self._keys:
                self._went[row] = key
                continue
            self._begin(key, order, row)
            if is_sure:
                self._sure.add(key)
        known = set(self._open)
        self.doubt(order)
        self._unsure |= {self._open[key][1]: (conversion.seq, key) for key in self._open.keys() - known}

    def _forward(self, conversion: KeyConversion, key: Key, row: int) -> Key | None:
        try:
            return conversion.forward(key)
        except UnknownKeyError as error:
            self._unknown[conversion.seq, row] = str(error)
            return key

    def converted(self, rows: frozenset[int]) -> set[tuple[int, Key]]:
        """Those of some rows that may have come from another key by a conversion: its ordinal, and their key
        afterwards."""
        return {self._unsure[row] for row in rows if row in self._unsure}

    def doubts(self, rows: frozenset[int]) -> dict[int, str]:
        """Conversions of which nobody knows what they made of the keys of some rows."""
        return {seq: why for (seq, row), why in self._unknown.items() if row in rows}

    def add_spellings(self, order: RowOrder, changed: set[Key], same: _SameKeys) -> None:
        """Keys of a change that are the same as the key. A row had one of them, so none had another spelling."""
        self.spellings |= changed
        if changed:
            for key in same.among(self.spellings & self._open.keys()) - changed:
                self._refuse_second(key, order)
                self._end(key, order)

    def add_change(self, order: RowOrder, before: Key | None, after: Key | None) -> None:
        """A change that begins, ends or moves a row."""
        row = None
        if before in self._keys and before is not None:
            row = self._end(before, order)
        if after is None:
            return
        if row is None:
            row = self._new()
            if before is not None:
                self._came[row] = before
        if after not in self._keys:
            self._went[row] = after
            return
        self._refuse_second(after, order)
        # The key was free: what may have come to it did not.
        self._unsure.pop(self._end(after, order) or 0, None)
        self._begin(after, order, row)
        self._sure.add(after)

    def end(self) -> tuple[frozenset[int], set[Key]]:
        """The rows that had the key, and the keys of them which were not followed."""
        for path in list(self._open):
            self._end(path, _AFTER_CHANGES)
        rows = frozenset(row for key in self.spellings for _, _, row in self.segments.get(key, ()))
        moved = self.spellings | {moves[row] for moves in (self._came, self._went) for row in rows if row in moves}
        return rows, moved - self._keys

    def _new(self) -> int:
        self._count += 1
        return self._count

    def _begin(self, key: Key, order: RowOrder, row: int) -> None:
        self._open[key] = order, row

    def _refuse_second(self, key: Key, order: RowOrder) -> None:
        """Refuses a second row with a key, as long as the columns are no key of the table."""
        if key in self._sure and not self.is_unique:
            raise Usage(
                f"at transaction {order[0]}, two rows had this key: its columns were no key of the table then, and "
                "nothing tells which row was which",
                table=str(self._table),
                remedy="Choose changes by a condition: "
                f"`strata row history {table_word(self._table)} --where \"name = 'a'\"`.",
            )

    def _end(self, key: Key, order: RowOrder) -> int | None:
        self._sure.discard(key)
        begun = self._open.pop(key, None)
        if begun is None:
            return None
        self.segments.setdefault(key, []).append((begun[0], order, begun[1]))
        return begun[1]
