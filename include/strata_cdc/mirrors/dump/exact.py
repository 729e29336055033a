"""Makes chunks that were read at different times exact at one position, by the changes since the first read.

The argument is in docs/decisions/0029-dumps-under-writers.md. In short: the last change of a key has its row, and a key
without a change has the row that was read, whichever chunk it was read with.
Not here: reading chunks (`read.py`), finding the changes (`mirrors/dump/`)."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.changes.arrow import BEFORE
from strata_cdc.mirrors.dump.aside import Aside, HashMarks, hashes_of, parts_of
from strata_cdc.mirrors.dump.limits import DumpLimits
from strata_cdc.mirrors.layout import SEQ, exact_key, exact_mirror_schema, key_columns
from strata_cdc.mirrors.reduce import reduce_changes
from strata_cdc.tables.layout import column_name
from strata_cdc.tables.state import row_codes
from strata_cdc.tables.verbatim import coalesced, exact_changes, verbatim_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from strata_cdc.mirrors.dump.folder import DumpFolder
    from strata_cdc.schema.model.definition import TableDefinition


class NotRepeatableError(Exception):
    """Changes that must not be applied to rows that may already have them: the table has to be read again."""


def exact_rows(
    batches: Iterable[pa.RecordBatch],
    changes: Iterable[pa.RecordBatch],
    definition: TableDefinition,
    folder: DumpFolder,
    limits: DumpLimits = DumpLimits(),
) -> Iterator[pa.Table]:
    """The rows of the table after the last of the changes, with `_seq` if a change has it, in bounded memory.

    Args:
        batches: The rows of all chunks, in any order; each chunk has all transactions before the changes, and may have
            any of the changes' transactions.
        changes: All changes of the table since the first read, in order, of one schema version, with the columns of
            `definition`; none if the table has no key.
        definition: The definition of rows and changes.
        folder: For rows and changes that do not fit into memory; nothing stays in it.
        limits: Limits of the memory.

    Raises:
        NotRepeatableError: An image lacks a value, and the rows may have it only from before or after the change.
        LakeUnavailableError: The storage refuses, or is full.
    """
    exact = (rows for batch in changes for rows in _exact(batch, definition))
    chunks = _larger(exact, limits.held_bytes)
    first, second = next(chunks, None), next(chunks, None)
    if first is None:
        schema = exact_mirror_schema(definition)
        for batch in batches:
            yield _with_no_seq(pa.Table.from_batches([batch]), schema)
        return
    if not key_columns(definition):
        raise NotRepeatableError("the table has no key, and was changed while it was read")
    if second is None:
        yield from _together(batches, first, definition, limits)
        return
    folder.clear_aside()
    begun = [first, second]
    # What is stored on disk must not stay in memory as well.
    del first, second
    try:
        yield from _by_parts(batches, chain(_emptying(begun), chunks), definition, folder, limits)
    finally:
        folder.clear_aside()


def _emptying(held: list[pa.Table]) -> Iterator[pa.Table]:
    while held:
        yield held.pop(0)


def _by_parts(
    batches: Iterable[pa.RecordBatch],
    changes: Iterable[pa.Table],
    definition: TableDefinition,
    folder: DumpFolder,
    limits: DumpLimits,
) -> Iterator[pa.Table]:
    """Applies changes to the rows that they may affect, one part of all keys at a time."""
    key, schema = exact_key(definition), exact_mirror_schema(definition)
    logged, rows_of = Aside(folder, "changes", limits), Aside(folder, "rows", limits)
    marks = HashMarks(limits.marks)
    for chunk in changes:
        refuse_unrepeatable(chunk, definition, key)
        before, after = _key_hashes(chunk, key)
        marks.add(before)
        marks.add(after)
        logged.put(*_by_keys(chunk, before, after, limits.parts))
    logged.close()
    for rows in _larger(batches, limits.batch_bytes, limits.batch_rows):
        hashes = hashes_of([rows[name] for name in key], rows.num_rows)
        is_marked = marks.has(hashes)
        yield _with_no_seq(rows.filter(pa.array(~is_marked)), schema)
        if is_marked.any():
            rows_of.put(rows.filter(pa.array(is_marked)), hashes[is_marked])
    rows_of.close()
    for part in range(limits.parts):
        own = list(logged.part(part))
        if own:
            yield from _together(rows_of.part(part), pa.Table.from_batches(own), definition, limits)
        else:
            yield from (_with_no_seq(pa.Table.from_batches([batch]), schema) for batch in rows_of.part(part))


def _key_hashes(changes: pa.Table, key: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The hashes of the keys before and after each change; for an insert or a delete, both are of its only key."""
    images = pa.chunked_array(changes[BEFORE].chunks, changes[BEFORE].type)
    before, after = {name: pc.struct_field(images, [name]) for name in key}, {name: changes[name] for name in key}
    # A partial image may lack its key: then the key is the same as before.
    olds, news = coalesced(before, after, key), coalesced(after, before, key)
    return hashes_of(list(olds.values()), changes.num_rows), hashes_of(list(news.values()), changes.num_rows)


def _by_keys(
    changes: pa.Table, before: NDArray[np.int64], after: NDArray[np.int64], parts: int
) -> tuple[pa.Table, NDArray[np.int64]]:
    """Changes, with the hash by which each is stored. A change that moves its row to a key of another part becomes a
    delete in one part and an insert in the other. Only complete images do that (`refuse_unrepeatable`)."""
    moves = parts_of(before, parts) != parts_of(after, parts)
    if not moves.any():
        return changes, before
    moved = changes.filter(pa.array(moves))
    deleted, inserted = (
        _with(moved, "_op", pa.array([op] * moved.num_rows, changes["_op"].type)) for op in ("delete", "insert")
    )
    inserted = _with(inserted, BEFORE, pa.nulls(moved.num_rows, changes[BEFORE].type))
    events = pa.concat_tables([changes.filter(pa.array(~moves)), deleted, inserted])
    return events, np.concatenate([before[~moves], before[moves], after[moves]])


def _with(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    at = rows.schema.get_field_index(name)
    return rows.set_column(at, rows.schema.field(at), values)


def _together(
    batches: Iterable[pa.RecordBatch], changes: pa.Table, definition: TableDefinition, limits: DumpLimits
) -> Iterator[pa.Table]:
    """Applies held changes to rows."""
    key, schema = exact_key(definition), exact_mirror_schema(definition)
    refuse_unrepeatable(changes, definition, key)
    touched = _keys_of(changes, key)
    held = [schema.empty_table()]
    for rows in _larger(batches, limits.batch_bytes, limits.batch_rows):
        is_touched = _is_among(rows.select(key), touched)
        yield _with_no_seq(rows.filter(pc.invert(is_touched)), schema)
        held.append(_with_no_seq(rows.filter(is_touched), schema))
    yield reduce_changes(changes, definition, key, lambda _: pa.concat_tables(held)).put.cast(schema)


def refuse_unrepeatable(changes: pa.Table, definition: TableDefinition, key: Sequence[str]) -> None:
    """Refuses changes whose result depends on whether the rows already have them.

    A complete image after a change has the whole row. A MINIMAL image is completed column by column; this may be
    repeated as long as the row keeps its key. It may not be repeated if the row got another key, or if the image has
    the difference between two JSON documents.

    Raises:
        NotRepeatableError: There is such a change.
    """
    _refuse_differences(changes, definition)
    missing = changes["_missing"]
    if missing.null_count == len(missing):
        return
    partial = changes.filter(missing.is_valid())
    inserted = partial.filter(pc.equal(partial["_op"], "insert"))
    with_default = {
        column.name for column in definition.columns if column.default is not None or column.generated is not None
    }
    lacking = set(inserted["_missing"].combine_chunks().flatten().unique().to_pylist()) & with_default
    if lacking:
        raise NotRepeatableError(f"rows were inserted without {', '.join(sorted(lacking))}, which have defaults")
    updated = partial.filter(pc.equal(partial["_op"], "update"))
    images = pa.chunked_array(updated[BEFORE].chunks, updated[BEFORE].type)
    by_name = {column_name(column.name): column.name for column in definition.columns}
    by_name |= {name: of for of, name in verbatim_names(definition).items()}
    lists = updated["_missing"].to_pylist()
    for name in key:
        before = pc.struct_field(images, [name])
        there = pa.array([by_name[name] not in entry for entry in lists], pa.bool_())
        pair = pa.concat_tables(
            [
                pa.Table.from_arrays([before.filter(there)], names=["k"]),
                pa.Table.from_arrays([updated[name].filter(there)], names=["k"]),
            ]
        )
        codes = row_codes(pair)
        half = len(codes) // 2
        if not np.array_equal(codes[:half], codes[half:]):
            raise NotRepeatableError("rows whose images lack columns have got another key")


def _refuse_differences(changes: pa.Table, definition: TableDefinition) -> None:
    invalid = changes["_invalid"]
    documents = {column.name for column in definition.columns if column.column_type == "json"}
    if not documents or invalid.null_count == len(invalid):
        return
    named = {name for entries in invalid.to_pylist() for name, _ in entries or ()}
    if named & documents:
        raise NotRepeatableError(
            f"column {', '.join(sorted(named & documents))} was changed by partial updates of JSON without the document"
        )


def _keys_of(changes: pa.Table, key: Sequence[str]) -> pa.Table:
    """The keys of all images, each once."""
    op = changes["_op"]
    removed = changes.filter(pc.not_equal(op, "insert"))[BEFORE]
    before = [pc.struct_field(removed, [name]) for name in key]
    put = changes.select(list(key)).filter(pc.not_equal(op, "delete"))
    both = pa.concat_tables([pa.Table.from_arrays(before, schema=put.schema), put])
    return both.take(pa.array(np.unique(row_codes(both), return_index=True)[1]))


def _is_among(keys: pa.Table, wanted: pa.Table) -> pa.Array:
    codes = row_codes(pa.concat_tables([keys, wanted]))
    return pa.array(np.isin(codes[: keys.num_rows], codes[keys.num_rows :]))


def _larger(
    batches: Iterable[pa.RecordBatch], bytes_at_once: int, rows_at_once: int | None = None
) -> Iterator[pa.Table]:
    """Tables of about this many rows or bytes, none of them empty: each lookup of keys has a cost."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
        if size >= bytes_at_once or (rows_at_once is not None and rows >= rows_at_once):
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def _exact(batch: pa.RecordBatch, definition: TableDefinition) -> list[pa.RecordBatch]:
    batches: list[pa.RecordBatch] = exact_changes(pa.Table.from_batches([batch]), definition).to_batches()
    return batches


def _with_no_seq(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    seqs = pa.nulls(rows.num_rows, pa.int64())
    return rows.append_column(pa.field(SEQ, pa.int64()), seqs).cast(schema)
