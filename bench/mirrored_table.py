"""The table whose mirrors are timed: its rows, and updates of them as a change table has them.
Not here: what is timed (`mirrors.py`, `mirror_sizes.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from strata_cdc.schema.model.definition import Column, Key, KeyKind, KeyPart, TableDefinition, TableName
from strata_cdc.tables.convert import state_schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

INTERVAL = 1_795_231_800_000_000
TABLE = TableName("shop", "items")
DEFINITION = TableDefinition(
    (
        Column("id", "int", nullable=False),
        Column("version", "int"),
        Column("amount", "double"),
        Column("payload", "text"),
    ),
    (Key("PRIMARY", KeyKind.PRIMARY, (KeyPart("id"),)),),
)


def rows(ids: NDArray[np.int64], version: int) -> pa.Table:
    """Rows of the table, all in one version."""
    texts = [f"payload {number:08d} of {version}" for number in ids.tolist()]
    columns = [
        pa.array(ids, pa.int32()),
        pa.array(np.full(len(ids), version), pa.int32()),
        pa.array(ids * 0.25),
        pa.array(texts),
    ]
    return pa.Table.from_arrays(columns, schema=state_schema(DEFINITION))


def updates(ids: NDArray[np.int64], first: int) -> pa.RecordBatch:
    """A transaction for each update."""
    count = len(ids)
    before, after = rows(ids, 0), rows(ids, 1)
    image = pa.StructArray.from_arrays([one.combine_chunks() for one in before.columns], before.schema.names)
    ours = {
        "_before": image,
        "_op": pa.array(["update"] * count),
        "_gtid": pa.nulls(count, pa.string()),
        "_seq": pa.array(np.arange(first, first + count)),
        "_row": pa.array(np.zeros(count, np.int64)),
        "_committed_at": pa.array(np.full(count, INTERVAL), pa.timestamp("us", "UTC")),
        "_binlog_file": pa.array(["binlog.000001"] * count),
        "_binlog_pos": pa.array(np.arange(count)),
        "_schema_version": pa.array(np.ones(count, np.int64)),
        "_missing": pa.nulls(count, pa.list_(pa.string())),
        "_invalid": pa.nulls(count, pa.map_(pa.string(), pa.string())),
    }
    arrays = [*(one.combine_chunks() for one in after.columns), *ours.values()]
    return pa.RecordBatch.from_arrays(arrays, [*after.schema.names, *ours])
