"""The columns of change batches, under their names in a change table.
Not here: these names (`layout.py`), the code that writes the batches (`write.py`, `cli/rows_out.py`)."""

from __future__ import annotations

import pyarrow as pa

from strata_cdc.changes.arrow import BEFORE, ROW_FIELDS
from strata_cdc.tables.layout import column_name


def published(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with unique names: columns of MySQL's table with a name like one of Strata's columns are renamed.

    Args:
        batch: Decoded rows: the table's own columns, `_before`, `ROW_FIELDS`.
    """
    own = batch.num_columns - len(ROW_FIELDS) - 1
    names = batch.schema.names
    renamed = [column_name(name) for name in names[:own]]
    if renamed == names[:own]:
        return batch
    before = batch.column(own)
    children = [before.field(at) for at in range(before.type.num_fields)]
    image = pa.StructArray.from_arrays(children, renamed, mask=before.is_null())
    columns = [*batch.columns[:own], image, *batch.columns[own + 1 :]]
    return pa.RecordBatch.from_arrays(columns, [*renamed, BEFORE, *names[own + 1 :]])
