"""A run with many tables commits them side by side: each with its own outcome, in order, as one after the other."""

from __future__ import annotations

from threading import Barrier
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from strata_cdc.errors import DamagedFileError
from strata_cdc.pipeline.publish import publication as publishing
from strata_cdc.pipeline.publish.stored_verdicts import stored_verdicts
from strata_cdc.runs.run_folder import DecodedRun, run_folder, write_decoded, write_plan, write_verdicts
from strata_cdc.runs.run_plan import PlannedSlice, RunPlan
from strata_cdc.runs.specs import Interval, PlannedTable
from strata_cdc.runs.verdict import Failure, IntervalVerdict, Severity, TableVerdict, staged_digest
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.table_intervals import IntervalState
from strata_cdc.tables.read import read_changes
from tests.interposed import interposed
from tests.publishing import publication_of
from tests.tables.changes import FIVE_MINUTES, INTERVAL, SOURCE, inserts, stage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from strata_cdc.pipeline.publish.publication import RunPublication

TABLES = [TableName("shop", f"t{number:02}") for number in range(20)]
BROKEN, FAILED, WARNED = TABLES[3], TABLES[7], TABLES[11]
RUN = "r1"


def prepared(lake: Path) -> RunPublication:
    """A run of which every table has a row, its number; one table's check failed, one's has a warning."""
    folder = run_folder(str(lake), SOURCE, RUN)
    batches = [inserts({"id": pa.int32()}, [{"id": at}], table=table) for at, table in enumerate(TABLES)]
    files = stage(folder.join("staged"), *batches)
    planned = tuple(PlannedTable(INTERVAL, table.database, table.table, 1, 1) for table in TABLES)
    interval = Interval(INTERVAL, INTERVAL + FIVE_MINUTES, 0, 9, "u:1-9")
    slices = (PlannedSlice("s", "any", "binlog.000001", 4, 5, 4, 1, 0, 0, interval_start=INTERVAL),)
    plan = RunPlan(source=SOURCE, run=RUN, lake=str(lake), intervals=(interval,), slices=slices, tables=planned)
    write_plan(folder, plan)
    write_decoded(folder, DecodedRun(files))
    failures = {
        FAILED: (Failure(str(FAILED), "expect_x", "id", Severity.ERROR, "id is odd", 1),),
        WARNED: (Failure(str(WARNED), "expect_x", "id", Severity.WARNING, "id is odd", 1),),
    }
    verdicts = tuple(TableVerdict(str(table), 1, (1,), 5, failures.get(table, ())) for table in TABLES)
    digest = staged_digest((str(file.name), file.digest) for file in files)
    write_verdicts(folder, [IntervalVerdict(SOURCE, INTERVAL, digest, verdicts)])
    return publication_of(str(lake), SOURCE, RUN)


def test_each_table_has_its_own_outcome_and_two_are_committed_at_once(tmp_path: Path) -> None:
    publication, together = prepared(tmp_path), Barrier(2, timeout=60)

    def commit(
        original: Callable[..., Any], lake: str, source: str, table: TableName, *given: Any, **named: Any
    ) -> Any:
        if table in TABLES[:2]:
            # Only if the other one is on its way, too.
            together.wait()
        if table == BROKEN:
            raise DamagedFileError("its bytes are not those that were decoded", file="x")
        return original(lake, source, table, *given, **named)

    with interposed(commit, (publishing, "publish")):
        outcomes = list(publication.commit_tables())
    assert [outcome.planned.name for outcome in outcomes] == [str(table) for table in TABLES]
    states = {outcome.planned.name: outcome.state for outcome in outcomes}
    withheld = {str(BROKEN): IntervalState.FAILED, str(FAILED): IntervalState.FAILED}
    assert states == {str(table): IntervalState.PUBLISHED for table in TABLES} | withheld
    for at, table in enumerate(TABLES):
        if str(table) not in withheld:
            assert read_changes(str(tmp_path), SOURCE, table)["id"].to_pylist() == [at]
    assert {one.table: str(one.verdict) for outcome in outcomes for one in outcome.published}[str(WARNED)] == "warned"
    judged = {one.table: (str(one.outcome), one.details.checks) for one in stored_verdicts(publication, judged_at=1)}
    passed = {str(table): ("passed", 5) for table in TABLES}
    assert judged == {"": ("passed", 0)} | passed | {str(FAILED): ("failed", 5), str(WARNED): ("warned", 5)}
