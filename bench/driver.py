"""Memory of the process that drives a run of many slices and tables: planning, handing tasks out, collecting what they
wrote, reading it to publish. Nothing is decoded. `python -m bench driver [SLICES TABLES TABLES_OF_A_SLICE]`."""

from __future__ import annotations

import json
import os
import pickle
import resource
import sys
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from strata_cdc.changes.plan import PlannedVersion
from strata_cdc.pipeline.decode.decode_slice import SliceOutcome, planned_tasks, store_outcomes
from strata_cdc.runs.run_folder import DECODED, PLAN, read_decoded, read_plan, run_folder, write_plan
from strata_cdc.runs.run_plan import PlannedSlice, RunPlan
from strata_cdc.runs.specs import Interval, PlannedTable
from strata_cdc.tables.statistics import pack_statistics
from strata_cdc.tables.write import StagedFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.files.storage import Folder

COLUMNS = 30
PRINTED = "{:<34}{:>8.0f} MB at most"


def _tables(count: int) -> list[PlannedVersion]:
    columns = [{"name": f"column_{at}", "type": "varchar(255)", "charset": "utf8mb4"} for at in range(COLUMNS)]
    return [
        PlannedVersion("d", f"table_{number:05}", number + 1, json.dumps({"columns": columns, "comment": number}))
        for number in range(count)
    ]


def _plan(lake: str, slices: int, tables: list[PlannedVersion], each: int) -> RunPlan:
    segment = f"{lake}/landing/s/0000000001-binlog.000001-000000000157.binlog"

    def planned_slice(number: int) -> PlannedSlice:
        chosen = tuple(tables[(number * 7 + at * 211) % len(tables)] for at in range(each))
        return PlannedSlice(
            "s", segment, "binlog.000001", 4, 9, 4, number, 0, 0, tables=chosen, interval_start=1
        )  # fmt: skip

    return RunPlan(
        source="s",
        run="r",
        lake=lake,
        intervals=(Interval(1, 2, 0, 9, "u:1-9"),),
        tables=tuple(PlannedTable(1, "d", table.table, 100, 100) for table in tables),
        slices=tuple(map(planned_slice, range(slices))),
        versions=tuple(tables),
    )


def _outcome(lake: str, number: int, tables: tuple[PlannedVersion, ...]) -> SliceOutcome:
    bounds = {f"column_{at}": f"value {number}" for at in range(COLUMNS)}
    return SliceOutcome(
        tuple(
            StagedFile(
                database="d",
                table=table.table,
                interval=1,
                version_id=table.version_id,
                url=f"{lake}/changes/s/d/{table.table}/data/20260921T141000.000000Z/{number:020x}-0000-{at:020x}.parquet",
                size_bytes=10_000,
                digest=f"{number:064x}",
                rows=100,
                min_seq=number,
                max_seq=number + 1,
                partial_rows=0,
                invalid_rows=0,
                stats=pack_statistics({"numRecords": 100, "minValues": bounds, "maxValues": bounds, "nullCount": {}}),
                etag=f"{number:032x}",
            )
            for at, table in enumerate(tables)
        )
    )


def _apart(what: str, work: Callable[[], object]) -> None:
    """Does something in a process of its own, and prints how much memory it had at most."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001  a child must not go on as its parent
            traceback.print_exc()
            os._exit(1)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        sys.stdout.write(PRINTED.format(what, peak) + "\n")
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def main(arguments: list[str]) -> None:
    """Runs it, and prints it."""
    slices, tables, each = map(int, arguments or ("10000", "5000", "20"))
    with tempfile.TemporaryDirectory() as lake:
        folder: Folder = run_folder(lake, "s", "r")

        def planned() -> None:
            write_plan(folder, _plan(lake, slices, _tables(tables), each))

        def handed_out() -> None:
            sent = sum(len(pickle.dumps(task)) for task in planned_tasks(folder.url))
            sys.stdout.write(f"{sent / 1e6:.1f} MB go to the tasks\n")

        def collected() -> None:
            planned_slices = read_plan(folder).slices
            store_outcomes(
                folder.url,
                [_outcome(lake, at, planned_slice.tables) for at, planned_slice in enumerate(planned_slices)],
            )

        def published() -> None:
            plan = read_plan(folder)
            assert len(read_decoded(folder).publishable(plan.intervals[0].start)) == slices * each

        _apart("to plan", planned)
        _apart("to hand tasks out", handed_out)
        _apart("to collect what they wrote", collected)
        _apart("to read what is published", published)
        for name in (PLAN, DECODED):
            sys.stdout.write(f"{name}: {Path(folder.url, name).stat().st_size / 1e6:.0f} MB\n")


if __name__ == "__main__":
    main(sys.argv[1:])
