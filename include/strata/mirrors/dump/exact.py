"""Makes chunks, each read at a moment of its own, exact at one position: by the changes since the first of them.

The argument is in docs/decisions/0029-dumps-under-writers.md. In short: a key's last change tells what its row is, and
a key without a change has the row that was read, whichever chunk it was read with.
Not here: reading chunks (`read.py`), finding the changes (`jobs/dump/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from strata.mirrors.layout import SEQ, key_columns, mirror_schema
from strata.mirrors.reduce import reduce_changes
from strata.rows.arrow import BEFORE
from strata.tables.layout import column_name
from strata.tables.state import row_codes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from strata.schema.model.definition import TableDefinition

_BATCH_ROWS = 1 << 18


class NotRepeatableError(Exception):
    """Changes that must not be applied to rows that may have them already: the table has to be read again."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Held(Struct):
    rows: list[pa.Table]


def exact_rows(batches: Iterable[pa.RecordBatch], changes: pa.Table, definition: TableDefinition) -> Iterator[pa.Table]:
    """The rows of the table behind the last of the changes, with `_seq` where a change tells it.

    Args:
        batches: The rows of all chunks, in any order; each chunk has all transactions in front of the changes, and
            any of theirs.
        changes: All changes of the table since the first read, one schema version's, in the shape of `definition`;
            none if the table has no key.
        definition: Of rows and changes.

    Raises:
        NotRepeatableError: An image lacks what the rows may have only from before or behind it.
    """
    schema = mirror_schema(definition)
    if changes.num_rows == 0:
        for batch in batches:
            yield _with_no_seq(pa.Table.from_batches([batch]), schema)
        return
    key = key_columns(definition)
    if not key:
        raise NotRepeatableError("the table has no key, and was changed while it was read")
    refuse_unrepeatable(changes, definition, key)
    touched = _keys_of(changes, key)
    held = _Held([schema.empty_table()])
    for rows in _larger(batches):
        is_touched = _is_among(rows.select(key), touched)
        yield _with_no_seq(rows.filter(pc.invert(is_touched)), schema)
        held.rows.append(_with_no_seq(rows.filter(is_touched), schema))
    yield reduce_changes(changes, definition, key, lambda _: pa.concat_tables(held.rows)).put.cast(schema)


def refuse_unrepeatable(changes: pa.Table, definition: TableDefinition, key: Sequence[str]) -> None:
    """Refuses changes whose outcome depends on whether the rows have them already.

    Whole images after changes say all by themselves. A MINIMAL one is completed column by column, which may be repeated
    as long as the row keeps its key; of a row that got another key, or of a difference between two JSON documents, it
    may not.

    Raises:
        NotRepeatableError: There is one.
    """
    _refuse_differences(changes, definition)
    missing = changes["_missing"]
    if missing.null_count == len(missing):
        return
    partial = changes.filter(missing.is_valid())
    inserted = partial.filter(pc.equal(partial["_op"], "insert"))
    with_default = {one.name for one in definition.columns if one.default is not None or one.generated is not None}
    lacking = set(inserted["_missing"].combine_chunks().flatten().unique().to_pylist()) & with_default
    if lacking:
        raise NotRepeatableError(f"rows were inserted without {', '.join(sorted(lacking))}, which have defaults")
    updated = partial.filter(pc.equal(partial["_op"], "update"))
    images = pa.chunked_array(updated[BEFORE].chunks, updated[BEFORE].type)
    by_name = {column_name(one.name): one.name for one in definition.columns}
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
    documents = {one.name for one in definition.columns if one.column_type == "json"}
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
    taken = changes.filter(pc.not_equal(op, "insert"))[BEFORE]
    before = [pc.struct_field(taken, [name]) for name in key]
    put = changes.select(list(key)).filter(pc.not_equal(op, "delete"))
    both = pa.concat_tables([pa.Table.from_arrays(before, schema=put.schema), put])
    return both.take(pa.array(np.unique(row_codes(both), return_index=True)[1]))


def _is_among(keys: pa.Table, wanted: pa.Table) -> pa.Array:
    codes = row_codes(pa.concat_tables([keys, wanted]))
    return pa.array(np.isin(codes[: keys.num_rows], codes[keys.num_rows :]))


def _larger(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Tables of about `_BATCH_ROWS` rows: looking for keys has a price for each."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(one.num_rows for one in held) >= _BATCH_ROWS:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def _with_no_seq(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    seqs = pa.nulls(rows.num_rows, pa.int64())
    return rows.append_column(pa.field(SEQ, pa.int64()), seqs).cast(schema)
