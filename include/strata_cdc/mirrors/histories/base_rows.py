"""The rows with which a history begins, in the form of changes: all of one version, without images before a change.
Not here: which rows these are (`beginning.py`), what their values became (`tables/made_values.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct

from strata_cdc.changes.arrow import BEFORE, INVALID
from strata_cdc.tables.verbatim import INVALID_COLUMN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.dataset as ds

_AFTER_ALL = 1 << 62
"""No statement has removed these rows."""


class BaseRows(Struct, frozen=True):
    """The rows with which a history begins."""

    files: ds.Dataset
    version: int
    """The schema version of all of them."""

    @property
    def columns(self) -> pa.Schema:
        """The columns in the files."""
        return self.files.schema

    def batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """All rows, in no order, a batch at a time.

        Args:
            columns: Names of the requested columns, among them those that only changes have.
        """
        inside = [name for name in columns if name in self.files.schema.names]
        for batch in self.files.to_batches(columns=inside):
            count = batch.num_rows
            beside = {
                "_schema_version": pa.repeat(pa.scalar(self.version, pa.int64()), count),
                "_seq": pa.repeat(pa.scalar(_AFTER_ALL, pa.int64()), count),
                BEFORE: pa.nulls(count, pa.struct(list(self.files.schema))),
                INVALID_COLUMN: pa.nulls(count, INVALID),
            }
            yield pa.table({name: batch[name] if name in inside else beside[name] for name in columns})
