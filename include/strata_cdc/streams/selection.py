"""Selects the tables and columns that a reader wants, from spans that exclude nothing. The result is what a stream of
the reader's own would yield.
Not here: selecting while decoding (`decoding.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from strata_cdc.changes.arrow import BEFORE, INVALID, MISSING, ROW_FIELDS, ChangeColumns
from strata_cdc.changes.port import ChangeBatch
from strata_cdc.streams.decoding import StreamBatch, row_seqs
from strata_cdc.streams.unreadable import UnreadableRows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.streams.recent import RecentPart


class StreamSelection:
    """What one kind of reader wants: readers with the same tables and columns."""

    def __init__(self, table: Callable[[TableName], bool] | None, columns: frozenset[str] | None) -> None:
        """Takes a test for tables (None for all) and the names of the columns in lower case (None for all)."""
        self._table, self._columns = table, columns

    def select(self, recent: RecentPart, first_seq: int = 0) -> StreamBatch:
        """Selects what is wanted of a span, from a transaction on."""
        span, wanted = recent.span, self._table
        batches = [batch for batch in span.batches if wanted is None or wanted(batch.table)]
        ended = span.ended
        if wanted is not None:
            touched = [seqs for table, seqs in recent.touched.items() if wanted(table)]
            ended = ended[np.isin(ended, np.concatenate(touched))] if touched else ended[:0]
        ddl = [statement for statement in span.ddl if wanted is None or any(map(wanted, statement.named))]
        unreadable = [rows for rows in span.unreadable if wanted is None or wanted(rows.table)]
        if first_seq:
            batches = [left for batch in batches if (left := _from(batch, first_seq)) is not None]
            unreadable = [rows.chosen(row_seqs(rows.batch) >= first_seq) for rows in unreadable]
            ended = ended[ended >= first_seq]
            ddl = [statement for statement in ddl if statement.transaction.record.seq >= first_seq]
        if self._columns is not None:
            readable, unreadable = _parted(unreadable, self._columns)
            batches = [with_columns(batch, self._columns) for batch in (*batches, *readable)]
        return StreamBatch(span.transactions, batches, ddl, ended, [rows for rows in unreadable if rows.batch.num_rows])


def _from(batch: ChangeBatch, first_seq: int) -> ChangeBatch | None:
    seqs = row_seqs(batch.batch)
    left = batch.batch.filter(pa.array(seqs >= first_seq)) if np.any(seqs < first_seq) else batch.batch
    return ChangeBatch(batch.table, batch.version_id, batch.definition, left) if left.num_rows else None


def _parted(
    unreadable: Sequence[UnreadableRows], columns: frozenset[str]
) -> tuple[list[ChangeBatch], list[UnreadableRows]]:
    """The rows whose wanted values can all be read, and the other rows; both with the wanted columns."""
    readable, others = list[ChangeBatch](), list[UnreadableRows]()
    for rows in unreadable:
        left = rows.of_columns(columns)
        is_readable = left.is_readable
        if is_readable.any():
            readable.append(left.chosen(is_readable).as_changes())
        if not is_readable.all():
            some = left.chosen(~is_readable)
            others.append(replace(some, batch=with_columns(some.as_changes(), columns).batch))
    return readable, others


def with_columns(batch: ChangeBatch, columns: frozenset[str]) -> ChangeBatch:
    """Returns a batch with some of its columns (names in lower case), as if the others had never been decoded."""
    rows, parts = batch.batch, ChangeColumns(batch.batch)
    kept = [at for at, name in enumerate(parts.names) if name.casefold() in columns]
    image = [rows.schema.field(at) for at in kept]
    names = {field.name for field in image}
    before, befores = parts.before, parts.before.flatten()
    images: pa.Array = pa.array([{}] * rows.num_rows, pa.struct([]))
    if kept:
        images = pa.StructArray.from_arrays([befores[at] for at in kept], fields=image, mask=before.is_null())
    facts = parts.facts
    facts["_missing"] = _named(facts["_missing"], MISSING, str, names)
    facts["_invalid"] = _named(facts["_invalid"], INVALID, lambda entry: str(entry[0]), names)
    schema = pa.schema([*image, pa.field(BEFORE, pa.struct(image)), *ROW_FIELDS])
    arrays = [*(rows.column(at) for at in kept), images, *facts.values()]
    made = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return ChangeBatch(batch.table, batch.version_id, batch.definition, made)


def _named(column: pa.Array, kind: pa.DataType, name: Callable[[Any], str], names: set[str]) -> pa.Array:
    """Removes the entries of unwanted columns from lists of columns; most lists are NULL."""
    if column.null_count == len(column):
        return column
    kept = [
        [entry for entry in entries if name(entry).removeprefix(f"{BEFORE}.") in names] if entries is not None else None
        for entries in column.to_pylist()
    ]
    return pa.array([entries or None for entries in kept], kind)
