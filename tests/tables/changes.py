"""Builds change batches from plain values, as the decoder would give them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from strata_cdc.changes.arrow import INVALID, ROW_FIELDS, TIMESTAMP_UTC
from strata_cdc.schema.model.definition import Column, Key, KeyKind, KeyPart, TableDefinition, TableName
from strata_cdc.tables.limits import FileLimits
from strata_cdc.tables.write import ChangeWriter, StagedFile

SOURCE = "shop"
INTERVAL = 1_795_231_800_000_000
"""2026-11-21 03:30 UTC."""
FIVE_MINUTES = 300_000_000
ORDERS = TableName("shop", "orders")


@dataclass(frozen=True)
class Batch:
    """Has the fields of `rows.decode.ChangeBatch`."""

    table: TableName
    version_id: int
    definition: TableDefinition
    batch: pa.RecordBatch


def definition(columns: dict[str, str], key: tuple[str, ...] = ("id",)) -> TableDefinition:
    """A table from `{"id": "int NOT NULL", "name": "varchar(20)"}`."""
    made = tuple(
        Column(name, text.removesuffix(" NOT NULL"), nullable=not text.endswith(" NOT NULL"))
        for name, text in columns.items()
    )
    keys = (Key("PRIMARY", KeyKind.PRIMARY, tuple(KeyPart(name) for name in key)),) if key else ()
    return TableDefinition(made, keys)


def changes(
    fields: dict[str, pa.DataType], rows: list[dict[str, Any]], *, version_id: int = 1, table: TableName = ORDERS
) -> Batch:
    """A batch; a row is `{"op": ..., "seq": ..., "row": ..., "before": {...}, "after": {...}}`, all optional but op."""
    image = pa.struct([pa.field(name, kind) for name, kind in fields.items()])
    after = pa.array([row.get("after") or {} for row in rows], image)
    before = pa.array([row.get("before") for row in rows], image)
    given = {
        "_op": [row["op"] for row in rows],
        "_gtid": [f"3e11fa47-71ca-11e1-9e33-c80aa9429562:{row.get('seq', at + 1)}" for at, row in enumerate(rows)],
        "_seq": [row.get("seq", at + 1) for at, row in enumerate(rows)],
        "_row": [row.get("row", 0) for row in rows],
        "_committed_at": [INTERVAL + row.get("seq", at + 1) for at, row in enumerate(rows)],
        "_binlog_file": ["binlog.000001"] * len(rows),
        "_binlog_pos": [4 + 100 * row.get("seq", at + 1) for at, row in enumerate(rows)],
        "_schema_version": [row.get("version", version_id) for row in rows],
        "_missing": [row.get("missing") for row in rows],
        "_invalid": [row.get("invalid") for row in rows],
    }
    own = [pa.array(given[field.name], field.type) for field in ROW_FIELDS]
    schema = pa.schema([*image, pa.field("_before", image), *ROW_FIELDS])
    columns = [after.field(at) for at in range(len(fields))]
    return Batch(table, version_id, definition({}), pa.RecordBatch.from_arrays([*columns, before, *own], schema=schema))


def inserts(fields: dict[str, pa.DataType], rows: list[dict[str, Any]], **given: Any) -> Batch:
    """A batch of inserts, one a transaction from `first_seq` on."""
    first = given.pop("first_seq", 1)
    return changes(fields, [{"op": "insert", "seq": first + at, "after": row} for at, row in enumerate(rows)], **given)


def stage(
    staging: Any,
    *batches: Batch,
    interval: int = INTERVAL,
    slice_key: str = "binlog.000001:4",
    limits: FileLimits = FileLimits(),
    changes: str | None = None,
) -> tuple[StagedFile, ...]:
    """Writes batches as one slice; where they stay, if `changes` is given."""
    with ChangeWriter(
        str(staging), source=SOURCE, interval=interval, slice_key=slice_key, limits=limits, changes=changes
    ) as writer:
        for batch in batches:
            writer.write(batch)  # type: ignore[arg-type]  # has the same fields
        return writer.close()


__all__ = [
    "FIVE_MINUTES",
    "INTERVAL",
    "INVALID",
    "ORDERS",
    "SOURCE",
    "TIMESTAMP_UTC",
    "Batch",
    "changes",
    "definition",
    "inserts",
    "stage",
]
