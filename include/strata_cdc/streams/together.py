"""Rows of a table's version put together into few batches: what is made of them, a column at a time, has a price for
each batch.
Not here: decoding (`decoding.py`), what is made of them (`writing.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strata_cdc.changes.decode import ChangeBatch
    from strata_cdc.streams.decoding import StreamBatch

_MOST_BYTES: Final = 64 << 20
"""Of batches that are put together: the texts of a column may have 2 GiB."""


def put_together(part: StreamBatch, most_bytes: int = _MOST_BYTES) -> StreamBatch:
    """The same piece of the stream, with rows of each version of a table in few batches of so many bytes at most."""
    if len(part.batches) < 2:
        return part
    kinds: dict[object, list[ChangeBatch]] = {}
    for batch in part.batches:
        kinds.setdefault(batch.kind, []).append(batch)
    return replace(part, batches=[batch for some in kinds.values() for batch in _joined(some, most_bytes)])


def _joined(batches: Sequence[ChangeBatch], most_bytes: int) -> Iterator[ChangeBatch]:
    """Batches of one kind as few."""
    begin = size = 0
    for at, one in enumerate(batches):
        size += one.batch.nbytes
        if size > most_bytes and begin < at:
            yield _one(batches[begin:at])
            begin, size = at, one.batch.nbytes
    yield _one(batches[begin:])


def _one(batches: Sequence[ChangeBatch]) -> ChangeBatch:
    if len(batches) == 1:
        return batches[0]
    return replace(batches[0], batch=pa.concat_batches([one.batch for one in batches]))
