"""The columns of change batches, under their names in a change table.
Not here: these names (`layout.py`), the code that writes the batches (`write.py`, `cli/rows_out.py`)."""

from __future__ import annotations

import pyarrow as pa

from strata_cdc.changes.arrow import BEFORE, ChangeColumns
from strata_cdc.tables.layout import column_name


def published(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with unique names: columns of MySQL's table with a name like one of Strata's columns are renamed.

    Args:
        batch: Decoded rows: the table's own columns, `_before`, `ROW_FIELDS`.
    """
    parts = ChangeColumns(batch)
    renamed = [column_name(name) for name in parts.names]
    if renamed == parts.names:
        return batch
    before, facts = parts.before, parts.facts
    children = [before.field(at) for at in range(before.type.num_fields)]
    image = pa.StructArray.from_arrays(children, renamed, mask=before.is_null())
    return pa.RecordBatch.from_arrays([*parts.own, image, *facts.values()], [*renamed, BEFORE, *facts])
