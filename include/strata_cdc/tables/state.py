"""The result of a change log: rows of a table after its changes, in Arrow and NumPy, without a loop over rows.
Not here: what DDL does to rows (`convert.py`), which changes belong together (`quality/proof/replay.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.changes.partial_json import differences_of, rebuilt
from strata_cdc.errors import Usage
from strata_cdc.schema.history.fills import NoFill, fill_of
from strata_cdc.schema.model.expressions import source_columns
from strata_cdc.schema.model.row_times import ROW_TIMES
from strata_cdc.tables.current_rows import end_column, is_current
from strata_cdc.tables.distinct import distinct
from strata_cdc.tables.layout import column_name
from strata_cdc.tables.values.constants import constant
from strata_cdc.tables.values.verbatim import constant_text
from strata_cdc.tables.verbatim import exact_names, verbatim_name, verbatim_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from strata_cdc.schema.model.definition import Column, TableDefinition

    Codes = NDArray[np.int64]
    Rows = TypeVar("Rows", pa.Table, pa.ChunkedArray)

_MOST_CODES = 1 << 62


def apply_changes(state: pa.Table, changes: pa.Table, definition: TableDefinition) -> pa.Table:
    """The rows of a table after some of its changes.

    With a primary key, a row is the last image that was put under its key. Without one, the rows are a multiset: each
    image before a change takes one row from it, and each image after a change adds one. A sequence of MariaDB has one
    row, which each change replaces.

    Args:
        state: The rows before, with the columns of `definition` by their names in the change table; text columns
            (`verbatim.py`) are possible.
        changes: Rows of the change table that one schema version has decoded, in any order; with text columns if
            `state` has them.

    Raises:
        Usage: An image lacks columns whose values are not known (MINIMAL images of rows that changed their key), or has
            the change of a JSON document that is not known.
    """
    if changes.num_rows == 0:
        return state
    key = list(exact_names(definition, [column_name(name) for name in definition.primary_key]))
    key = [name for name in key if name in state.schema.names]
    refuse_unkeyed(definition, key, changes["_missing"])
    ordered = in_order(changes)
    events = ImageChanges.from_changes(ordered, definition)
    refuse_unlogged_values(events, definition, ordered["_missing"])
    if definition.sequence:
        return sequence_row(state, events)
    if key:
        return last_of_each_key(state, events, filled(state, events, key) if events.absent else events.after, key)
    return _what_is_left(state, events)


def sequence_row(state: pa.Table, events: ImageChanges) -> pa.Table:
    """The row of a sequence after its changes: what MINIMAL images lack is as it was before. No row if that is unknown.

    Args:
        state: Its row before; none if that is not known.
        events: The changes, in order.
    """
    images = pa.concat_tables([state.select(events.after.schema.names), events.after])
    columns = []
    for name in images.schema.names:
        present = np.ones(images.num_rows, bool)
        present[state.num_rows + events.absent.get(name, np.empty(0, np.int64))] = False
        known = np.flatnonzero(present)
        if not len(known):
            return images.slice(0, 0)
        columns.append(images[name].slice(int(known[-1]), 1))
    return pa.Table.from_arrays(columns, schema=images.schema)


def in_order(changes: pa.Table) -> pa.Table:
    """Changes in the order (`_seq`, `_row`), which most already have."""
    seqs, rows = (np.diff(_as_numpy(changes[name])) for name in ("_seq", "_row"))
    if np.all((seqs > 0) | ((seqs == 0) & (rows > 0))):
        return changes
    return changes.sort_by([("_seq", "ascending"), ("_row", "ascending")])


def only(rows: Rows, which: pa.ChunkedArray) -> Rows:
    """The selected rows; the same object if all are selected."""
    return rows if pc.all(which).as_py() else rows.filter(which)


class ImageChanges:
    """Changes in order, as two lists of images: those that were removed and those that were put."""

    def __init__(
        self, before: pa.Table, after: pa.Table, before_at: Codes, after_at: Codes, absent: dict[str, Codes]
    ) -> None:
        self.before = before
        self.after = after
        self.before_at = before_at
        """For each image in `before`, the number of its change."""
        self.after_at = after_at
        """Likewise for `after`."""
        self.absent = absent
        """Column -> which images in `after` lack it, including those with only a difference of it."""
        self.differences: dict[str, dict[int, str]] = {}
        """Column -> for images that have only the difference of a JSON document: that difference."""

    @classmethod
    def from_changes(cls, changes: pa.Table, definition: TableDefinition) -> ImageChanges:
        """The images of changes that are in order; images before may lack columns that are not needed. Rows of a
        system-versioned table that are not current are not there."""
        names = {column.name: column_name(column.name) for column in definition.columns}
        texts = {of: name for of, name in verbatim_names(definition).items() if name in changes.schema.names}
        own = [*names.values(), *texts.values()]
        op = changes["_op"]
        is_put, is_removed = _is_put(changes, definition), _is_removed(changes, definition)
        after = only(changes.select(own), is_put)
        images = only(pa.chunked_array(changes["_before"].chunks, changes["_before"].type), is_removed)
        there = [name for name in own if images.type.get_field_index(name) >= 0]
        before = pa.Table.from_arrays([pc.struct_field(images, [name]) for name in there], names=there)
        missing = only(changes["_missing"], is_put)
        after_at, before_at = (np.flatnonzero(_as_numpy(which)) for which in (is_put, is_removed))
        # In `_missing`, columns have their own names.
        absent = {names[name]: where for name in names if len(where := lists_with(missing, name))}
        # The inserts of a sequence change its row.
        has_defaults = bool(absent) and not definition.sequence
        inserted = np.flatnonzero(_as_numpy(pc.equal(op, "insert"))) if has_defaults else after_at[:0]
        for column in definition.columns:
            after = _with_default(after, column, absent, inserted, after_at)
        absent = {name: where for name, where in absent.items() if len(where)}
        # An image that lacks a column also lacks its text column.
        absent |= {name: absent[names[of]] for of, name in texts.items() if names[of] in absent}
        events = cls(before, after, before_at, after_at, absent)
        documents = {
            definition_column.name: names[definition_column.name]
            for definition_column in definition.columns
            if definition_column.column_type == "json"
        }
        events.take_differences(only(changes["_invalid"], is_put), documents)
        return events

    def take_differences(self, invalid: pa.ChunkedArray, documents: dict[str, str]) -> None:
        """Adds the differences of partial JSON updates, and counts their columns as absent."""
        if not documents or invalid.null_count == len(invalid):
            return
        for at, entries in enumerate(invalid.to_pylist()):
            for name, text in entries or ():
                if name in documents:
                    self.differences.setdefault(documents[name], {})[at] = text
        for name, difference in self.differences.items():
            known = self.absent.get(name, np.empty(0, np.int64))
            self.absent[name] = distinct(np.r_[known, np.array(list(difference), np.int64)])


def _is_put(changes: pa.Table, definition: TableDefinition) -> pa.ChunkedArray:
    """Which changes put a row."""
    has_image = pc.not_equal(changes["_op"], "delete")
    end = end_column(definition)
    return has_image if end is None else pc.and_(has_image, is_current(changes[end]))


def _is_removed(changes: pa.Table, definition: TableDefinition) -> pa.ChunkedArray:
    """Which changes take a row."""
    has_image = pc.not_equal(changes["_op"], "insert")
    end = end_column(definition)
    return has_image if end is None else pc.and_(has_image, is_current(pc.struct_field(changes["_before"], [end])))


def _with_default(
    after: pa.Table, column: Column, absent: dict[str, Codes], inserted: Codes, after_at: Codes
) -> pa.Table:
    """The images with the defaults of columns that inserts did not name, which MINIMAL images lack.

    Raises:
        Usage: The default is not known.
    """
    name = column_name(column.name)
    where = absent.get(name, np.empty(0, np.int64))
    left_out = where[np.isin(after_at[where], inserted)]
    if not len(left_out):
        return after
    absent[name] = where[~np.isin(where, left_out)]
    value = fill_of(column)
    if isinstance(value, NoFill):
        raise Usage(f"inserted rows lack {column.name}, and the log does not have their values there")
    text = verbatim_name(column.name)
    if text in after.schema.names:
        after = with_values(after, text, left_out, pa.chunked_array([constant_text(column, value, len(left_out))]))
    if value is None:
        return after
    return with_values(after, name, left_out, pa.chunked_array([constant(column, value, len(left_out))]))


def lists_with(lists: pa.ChunkedArray, name: str) -> Codes:
    """Numbers of the entries that hold a text."""
    if lists.null_count == len(lists):
        return np.empty(0, np.int64)
    flat = lists.combine_chunks()
    parents, values = pc.list_parent_indices(flat), pc.list_flatten(flat)
    return distinct(_as_numpy(parents.filter(pc.equal(values, name))).astype(np.int64))


def refuse_unkeyed(definition: TableDefinition, key: Sequence[str], missing: pa.ChunkedArray) -> None:
    """Refuses images before changes without the key: the server may have logged the key of another unique index.

    Raises:
        Usage: They lack columns that identify a row.
    """
    wanted = {f"_before.{column.name}" for column in definition.columns if not key or column_name(column.name) in key}
    lacking = set(missing.combine_chunks().flatten().unique().to_pylist()) & wanted
    if lacking and lacking <= {f"_before.{column.name}" for column in definition.columns if column.generated}:
        raise Usage(
            f"images before changes lack {', '.join(sorted(lacking))}, which identify a row and are generated: the "
            "server logged updates without them",
            remedy="The change table has what is logged. For a mirror, give the table a key of columns that are not "
            "generated.",
        )
    if lacking:
        raise Usage(
            f"images before changes lack {', '.join(sorted(lacking))}, which identify a row",
            remedy="Let the server log whole rows (binlog_row_image = FULL), and dump the table again. TiCDC writes "
            "them in CSV with `output-old-value = true`.",
        )


def unlogged_sources(definition: TableDefinition) -> list[str]:
    """What the generated columns are made of that images may lack: the columns that `refuse_unlogged_values` compares
    with those of the images before."""
    return [name for column in _computed(definition) for name in source_columns(column, definition)]


def _computed(definition: TableDefinition) -> list[Column]:
    """The columns that are computed from others."""
    generated = [column for column in definition.columns if column.generated is not None]
    return [column for column in generated if column.generation_expression not in ROW_TIMES]


def refuse_unlogged_values(events: ImageChanges, definition: TableDefinition, missing: pa.ChunkedArray) -> None:
    """Refuses updates that may have changed a generated column which their images lack. MySQL 9.7 logs such a column
    whenever the statement sets what it is made of (under NOBLOB and MINIMAL, too); from 11 on, MariaDB leaves generated
    columns out of the images of updates, whatever its row image is, and 10.11 under NOBLOB those of TEXT and BLOB.

    Args:
        events: The changes, in order; their images before have the columns that `unlogged_sources` names.
        definition: The definition of the version that decoded them.
        missing: The column `_missing` of the changes.

    Raises:
        Usage: The values of a generated column are not known.
    """
    for column in _computed(definition):
        absent = events.absent.get(column_name(column.name))
        if absent is None:
            continue
        updates = absent[np.isin(events.after_at[absent], events.before_at)]
        changed = [name for name in source_columns(column, definition) if _may_differ(events, name, updates, missing)]
        if changed:
            raise Usage(
                f"updates of {', '.join(changed)} lack {column.name}, which is generated from it, and the log has its "
                "new values nowhere else",
                remedy="The change table has what is logged. For a mirror, make it a column that is not generated.",
            )


def _may_differ(events: ImageChanges, name: str, updates: Codes, missing: pa.ChunkedArray) -> bool:
    """Whether one of these images has another value of a column than the image before it, as far as is known."""
    own = column_name(name)
    logged = updates[~np.isin(updates, events.absent.get(own, ()))]
    if own not in events.before.schema.names:
        return len(logged) > 0
    numbers = events.after_at[logged]
    if np.isin(numbers, lists_with(missing, f"_before.{name}")).any():
        return True
    names = [each for each in (own, verbatim_name(name)) if each in events.before.schema.names]
    before = events.before.select(names).take(pa.array(np.searchsorted(events.before_at, numbers)))
    after = events.after.select(names).take(pa.array(logged))
    codes = row_codes(pa.concat_tables([before, after]))
    return bool(np.any(codes[: len(logged)] != codes[len(logged) :]))


def last_of_each_key(state: pa.Table, events: ImageChanges, after: pa.Table, key: Sequence[str]) -> pa.Table:
    """The images that were put last under each key and not removed since.

    Args:
        state: The rows before.
        events: The images that were put and removed.
        after: The images that were put, complete.
        key: Columns that identify a row.
    """
    rows = state.num_rows
    codes = row_codes(pa.concat_tables([part.select(key) for part in (state, events.before, after)]))
    # Within a change, the image before is earlier.
    order = np.argsort(
        np.concatenate([np.full(rows, -1, np.int64), 2 * events.before_at, 2 * events.after_at + 1]), kind="stable"
    )
    last = np.empty(codes.max(initial=-1) + 1, np.int64)
    # NumPy keeps the last of several values that are assigned to one index.
    last[codes[order]] = order
    is_removal = (last >= rows) & (last < rows + len(events.before_at))
    kept = np.sort(last[~is_removal])
    kept[kept >= rows] -= len(events.before_at)
    return pa.concat_tables([state, after]).take(pa.array(kept))


def filled(state: pa.Table, events: ImageChanges, key: Sequence[str]) -> pa.Table:
    """The images after, where partial ones get the values that they lack from the last image of the same key."""
    after = events.after
    for name in set(key) & set(events.absent):
        # Only an update can lack a column of its key, and then it has not changed it.
        absent = events.absent[name]
        key_before = events.before[name].take(pa.array(np.searchsorted(events.before_at, events.after_at[absent])))
        after = with_values(after, name, absent, key_before)
    # A complete image needs no image before it, so it may have any key.
    in_after = distinct(np.concatenate(list(events.absent.values())))
    in_after = in_after[np.isin(events.after_at[in_after], events.before_at)]
    in_before = np.searchsorted(events.before_at, events.after_at[in_after])
    both = row_codes(
        pa.concat_tables(
            [events.before.select(key).take(pa.array(in_before)), after.select(key).take(pa.array(in_after))]
        )
    )
    if not np.array_equal(both[: len(in_after)], both[len(in_after) :]):
        raise Usage("rows whose images lack columns have changed their key; their other values are not known")
    images = pa.concat_tables([state, after])
    codes = row_codes(images.select(key))
    inserted = events.after_at[~np.isin(events.after_at, events.before_at)]
    for name, absent in events.absent.items():
        present = np.ones(len(codes), bool)
        present[state.num_rows + absent] = False
        present[state.num_rows + np.searchsorted(events.after_at, inserted)] = True
        source = _last_present(codes, present)[state.num_rows :]
        after = after.set_column(after.schema.get_field_index(name), name, images[name].take(pa.array(source)))
        if name in events.differences:
            documents = _documents(after[name].to_pylist(), source, present, events.differences[name])
            after = after.set_column(after.schema.get_field_index(name), name, pa.chunked_array([documents]))
    return after


def _documents(
    texts: list[str | None], source: Codes, present: NDArray[np.bool_], differences: dict[int, str]
) -> pa.Array:
    """The documents after partial updates, each applied to the result of the previous one.

    Args:
        texts: For each image after a change, the last complete document before it.
        source: The number of the image with that document: equal numbers are documents of one row.
        present: Whether an image has a complete document.
        differences: For images that have only a difference, that difference.

    Raises:
        Usage: There is no document.
    """
    newest: dict[int, str | None] = {}
    for at, whole in enumerate(source.tolist()):
        if at in differences:
            old = newest.get(whole, texts[at])
            if old is None or not present[whole]:
                raise Usage(
                    "the log has only what changed in a JSON document, and not the document: its session had MINIMAL "
                    "images and binlog_row_value_options=PARTIAL_JSON"
                )
            try:
                newest[whole] = rebuilt(old, differences_of(differences[at]))
            except (LookupError, ValueError, TypeError):
                raise Usage("a partial update of JSON does not fit its document") from None
        if whole in newest:
            texts[at] = newest[whole]
    return pa.array(texts, pa.string())


def _last_present(codes: Codes, present: NDArray[np.bool_]) -> Codes:
    """For each row, the last row up to it that has the same code and is present (the row itself if none is)."""
    order = np.argsort(codes, kind="stable")
    place = np.arange(len(codes))
    starts = np.r_[True, np.diff(codes[order]) != 0]
    seen = np.maximum.accumulate(np.where(present[order] | starts, place, 0))
    last = np.empty(len(codes), np.int64)
    last[order] = order[seen]
    return last


def with_values(table: pa.Table, name: str, where: Codes, values: pa.ChunkedArray) -> pa.Table:
    """A table with other values in some rows of a column."""
    at = np.arange(table.num_rows)
    at[where] = table.num_rows + np.arange(len(values))
    # Not `replace_with_mask`: Arrow 26 does not have it for structs and lists, which geometries and vectors are.
    both = pa.chunked_array([*table[name].chunks, *values.chunks], values.type)
    return table.set_column(table.schema.get_field_index(name), name, both.take(pa.array(at)))


def _what_is_left(state: pa.Table, events: ImageChanges) -> pa.Table:
    after = events.after
    if events.differences:
        raise Usage(f"partial updates of JSON ({', '.join(events.differences)}) in a table without a primary key")
    for name, absent in events.absent.items():
        # Without a key, an image before a change is complete, whatever row image the server has.
        at = np.searchsorted(events.before_at, events.after_at[absent])
        is_update = (at < len(events.before_at)) & (
            events.before_at[np.minimum(at, len(events.before_at) - 1)] == events.after_at[absent]
        )
        values = events.before[name].take(pa.array(at[is_update]))
        after = with_values(after, name, absent[is_update], values)
    images = pa.concat_tables([state, after, events.before])
    codes = row_codes(images)
    weights = np.ones(len(codes), np.int64)
    weights[state.num_rows + after.num_rows :] = -1
    counts = np.zeros(codes.max(initial=-1) + 1, np.int64)
    np.add.at(counts, codes, weights)
    first = np.empty(len(counts), np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return images.take(pa.array(np.repeat(first, np.maximum(counts, 0))))


def row_codes(rows: pa.Table) -> Codes:
    """A number for each row: equal exactly if the rows are equal. NULL equals NULL."""
    codes = np.zeros(rows.num_rows, np.int64)
    most = 1
    simple = [part for column in rows.columns for part in _simple(column)]
    for part in simple:
        encoded = part.combine_chunks().dictionary_encode(null_encoding="encode")
        indices = _as_numpy(encoded.indices).astype(np.int64)
        if len(simple) == 1:
            return indices
        size = max(len(encoded.dictionary), 1)
        if most * size >= _MOST_CODES:
            codes, most = _dense(codes)
        codes, most = codes * size + indices, most * size
    return _dense(codes)[0]


def _dense(codes: Codes) -> tuple[Codes, int]:
    values, dense = np.unique(codes, return_inverse=True)
    return dense.astype(np.int64), max(len(values), 1)


def _simple(column: pa.ChunkedArray) -> list[pa.ChunkedArray]:
    """A column as columns that can be compared: structs by their fields, lists by their bytes."""
    if pa.types.is_struct(column.type):
        fields = [pc.struct_field(column, [at]) for at in range(column.type.num_fields)]
        return [column.is_null(), *(simple for field in fields for simple in _simple(field))]
    if pa.types.is_list(column.type):
        values = [None if entry is None else np.asarray(entry, np.float32).tobytes() for entry in column.to_pylist()]
        return [pa.chunked_array([pa.array(values, pa.binary())])]
    return [column]


def _as_numpy(values: pa.ChunkedArray | pa.Array) -> NDArray[np.int64]:
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    numbers: NDArray[np.int64] = np.asarray(array.to_numpy(zero_copy_only=False))
    return numbers
