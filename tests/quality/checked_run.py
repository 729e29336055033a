"""A run of one table and interval that is planned and decoded, for tests of its check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from strata_cdc.changes.plan import PlannedVersion
from strata_cdc.runs.run_folder import DecodedRun, run_folder, write_decoded, write_plan
from strata_cdc.runs.run_past import EarlierTable, RunPast, write_past
from strata_cdc.runs.run_plan import PlannedSlice, RunPlan
from strata_cdc.runs.specs import Interval, PlannedTable, RowsRemoved
from tests.tables.changes import FIVE_MINUTES, INTERVAL, SOURCE, definition, inserts, stage

if TYPE_CHECKING:
    from pathlib import Path

    from strata_cdc.files.storage import Folder
    from strata_cdc.schema.model.definition import TableDefinition

RUN = "r1"
SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
SHAPE = definition({"id": "int NOT NULL", "status": "enum('new','sent') NOT NULL"})
FIELDS = {"id": pa.int32(), "status": pa.string()}


def write_run(lake: Path | str, rows: list[dict[str, Any]], *, gtids: int = 9, truncated: bool = False) -> Folder:
    removed = (RowsRemoved(INTERVAL, "shop.orders", f"{SERVER}:4", "TRUNCATE orders"),) if truncated else ()
    return write_run_of(lake, inserts(FIELDS, rows), len(rows), SHAPE, gtids=gtids, removed=removed)


def write_run_of(
    lake: Path | str, content: pa.Table, rows: int, shape: TableDefinition, *, gtids: int = 9, **more: Any
) -> Folder:
    """A run of one interval of one table, planned and decoded."""
    folder = run_folder(str(lake), SOURCE, RUN)
    files = stage(folder.join("staged"), content)
    plan = RunPlan(
        source=SOURCE,
        run=RUN,
        lake=str(lake),
        intervals=(Interval(INTERVAL, INTERVAL + FIVE_MINUTES, 0, 9, f"{SERVER}:1-{gtids}"),),
        slices=(PlannedSlice("s", "any", "binlog.000001", 4, 5, 4, 1, 0, 0, interval_start=0),),
        tables=(PlannedTable(INTERVAL, "shop", "orders", rows, rows),),
        versions=(PlannedVersion("shop", "orders", 1, shape.to_json()),),
        executed_before={str(INTERVAL): ""},
        **more,
    )
    write_past(folder, RunPast((EarlierTable("shop", "orders"),)))
    write_plan(folder, plan)
    write_decoded(folder, DecodedRun(files))
    return folder
