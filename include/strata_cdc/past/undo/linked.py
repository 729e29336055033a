"""Keys of rows: those that are keys of one row, one after the other, belong together; and the changes of such rows.
Not here: rows (`conflicts.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.changes.arrow import BEFORE
from strata_cdc.past.change_filters import ReadFirst
from strata_cdc.past.undo.literals import InexactError, Verbatim
from strata_cdc.past.undo.row_changes import hashable
from strata_cdc.tables.layout import column_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from strata_cdc.past.timeline import ChangeSpan
    from strata_cdc.past.undo.columns import ColumnPath
    from strata_cdc.past.undo.row_changes import RowKey, VersionReader


class LinkedKeys:
    """Keys in groups; a group is marked as a whole.

    Args:
        keys: The first keys.
    """

    def __init__(self, keys: Iterable[RowKey] = ()) -> None:
        self._keys = set(keys)
        self._parents: dict[RowKey, RowKey] = {}
        self._marked: set[RowKey] = set()

    def add(self, keys: list[RowKey]) -> None:
        """Adds the keys of one change: one, or an old and a new key."""
        self._keys.update(keys)
        for key in keys[1:]:
            first, other = self._root(keys[0]), self._root(key)
            if first != other:
                self._parents[other] = first

    def meets(self, keys: list[RowKey]) -> bool:
        """Whether a change is of a row with one of the keys; the row's new key is one of them from then on."""
        if self._keys.isdisjoint(keys):
            return False
        self._keys.update(keys)
        return True

    def __len__(self) -> int:
        return len(self._keys)

    def values_of(self, ordinal: int) -> list[Any]:
        """The values of one column in all keys."""
        return list({key[ordinal] for key in self._keys})

    def add_marked(self, keys: list[RowKey]) -> None:
        """Adds the keys of one change, and marks their group."""
        self.add(keys)
        self._marked.update(keys[:1])

    @property
    def has_marked(self) -> bool:
        """Whether there is a marked group."""
        return bool(self._marked)

    def marked(self) -> set[RowKey]:
        """All keys of marked groups."""
        roots = {self._root(key) for key in self._marked}
        return {key for key in self._keys if self._root(key) in roots}

    def _root(self, key: RowKey) -> RowKey:
        while key in self._parents:
            key = self._parents[key]
        return key


class OfKeys:
    """A filter (`ChangeFilter`): the changes of rows with one of some keys, which grow with each key that such a row
    gets.

    Args:
        reader: Gives the reader of a range.
        key: The columns of the key, by their names of now.
    """

    def __init__(self, reader: Callable[[ChangeSpan], VersionReader], key: tuple[str, ...], linked: LinkedKeys) -> None:
        self._reader, self._key, self._linked = reader, key, linked

    def reads(self, span: ChangeSpan) -> ReadFirst | None:
        """See `ChangeFilter`."""
        paths = self._paths(span)
        return None if paths is None else ReadFirst(tuple(path.then.name for path in paths), ("_missing", "_invalid"))

    def may_want(self, rows: pa.Table, span: ChangeSpan) -> bool:  # noqa: ARG002  the protocol's
        """See `ChangeFilter`."""
        return True

    def wanted(self, rows: pa.Table, span: ChangeSpan) -> pa.Array:
        """See `ChangeFilter`."""
        paths, known = self._paths(span) or [], len(self._linked)
        candidates = self._candidates(rows, paths)
        meeting = self._meeting(rows, paths, candidates)
        if len(self._linked) > known and len(candidates) < len(rows):
            # A row has got another key, which rows of this batch may have that were not looked at.
            meeting = self._meeting(rows, paths, pa.array(range(len(rows)), pa.int64()))
        holds = pa.repeat(pa.scalar(value=False), len(rows)).to_numpy(zero_copy_only=False).copy()
        holds[meeting] = True
        return pa.array(holds)

    def _candidates(self, rows: pa.Table, paths: Sequence[ColumnPath]) -> pa.Array:
        """Numbers of the changes that may be of such rows; of all changes if values cannot be compared as they are."""
        everything = pa.array(range(len(rows)), pa.int64())
        if rows["_invalid"].null_count < len(rows) or any(path.altered for path in paths):
            return everything
        befores = rows[BEFORE].combine_chunks()
        masks = [pa.repeat(pa.scalar(value=True), len(rows))] * 2
        for ordinal, path in enumerate(paths):
            name = column_name(path.then.name)
            before, after = befores.field(befores.type.get_field_index(name)), rows[name].combine_chunks()
            try:
                values = pa.array(self._linked.values_of(ordinal), after.type)
            except (pa.ArrowException, TypeError, ValueError):
                return everything
            images = (before, pc.coalesce(after, before))
            masks = [pc.and_(mask, pc.is_in(image, values)) for mask, image in zip(masks, images, strict=True)]
        return pc.indices_nonzero(pc.or_(*masks))

    def _meeting(self, rows: pa.Table, paths: Sequence[ColumnPath], candidates: pa.Array) -> list[int]:
        """Of some places, those of changes of such rows."""
        chosen = rows.take(candidates)
        images = chosen[BEFORE].combine_chunks()
        names = [column_name(path.then.name) for path in paths]
        befores = [images.field(images.type.get_field_index(name)).to_pylist() for name in names]
        afters = [chosen[name].to_pylist() for name in names]
        facts = (chosen[name].to_pylist() for name in ("_op", "_missing", "_invalid"))
        meeting = []
        for at, (ordinal, op, missing, invalid) in enumerate(zip(candidates.to_pylist(), *facts, strict=True)):
            texts, lacks = dict(invalid or ()), set(missing or ())
            old, new = [], []
            for column, path in enumerate(paths):
                name = path.then.name
                before = _value(befores[column][at], texts.get(f"{BEFORE}.{name}"))
                after = before if name in lacks else _value(afters[column][at], texts.get(name))
                old.append(_left(path, before))
                new.append(_left(path, after))
            keys = [tuple(old)] if op != "insert" else []
            keys += [tuple(new)] if op != "delete" else []
            if self._linked.meets(keys):
                meeting.append(ordinal)
        return meeting

    def _paths(self, span: ChangeSpan) -> list[ColumnPath] | None:
        """The columns of the key in a version; None if it lacks one."""
        paths = {path.now.name: path for _, path in self._reader(span).paths if path is not None}
        return [paths[name] for name in self._key] if all(name in paths for name in self._key) else None


def _value(value: Any, text: str | None) -> Any:
    return value if text is None else Verbatim(text)


def _left(path: ColumnPath, value: Any) -> Any:
    try:
        return hashable(path.as_now(value))
    except InexactError:
        return None
