"""Joins the rows of a table's version into few batches: what is made of them, a column at a time, has a cost for each
batch.
Not here: decoding (`decoding.py`), what is made of them (`writing.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strata_cdc.changes.port import ChangeBatch
    from strata_cdc.streams.decoding import StreamBatch

_MOST_BYTES: Final = 64 << 20
"""Most bytes of batches that are joined: the texts of a column can have at most 2 GiB."""


def put_together(part: StreamBatch, most_bytes: int = _MOST_BYTES) -> StreamBatch:
    """Returns the same span, with the rows of each version of a table in few batches of at most `most_bytes` bytes."""
    if len(part.batches) < 2:
        return part
    kinds: dict[object, list[ChangeBatch]] = {}
    for batch in part.batches:
        kinds.setdefault(batch.kind, []).append(batch)
    return replace(part, batches=[batch for some in kinds.values() for batch in _joined(some, most_bytes)])


def _joined(batches: Sequence[ChangeBatch], most_bytes: int) -> Iterator[ChangeBatch]:
    """Joins batches of one kind into few batches."""
    begin = size = 0
    for at, batch in enumerate(batches):
        size += batch.batch.nbytes
        if size > most_bytes and begin < at:
            yield _one(batches[begin:at])
            begin, size = at, batch.batch.nbytes
    yield _one(batches[begin:])


def _one(batches: Sequence[ChangeBatch]) -> ChangeBatch:
    if len(batches) == 1:
        return batches[0]
    return replace(batches[0], batch=pa.concat_batches([batch.batch for batch in batches]))
