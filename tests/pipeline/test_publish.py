"""Publication happens behind a passing verdict on the very files that were decoded, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from strata_cdc.errors import ChecksFailedError, Usage
from strata_cdc.runs.run_folder import DECODED, DecodedRun, run_folder, write_decoded, write_plan, write_verdicts
from strata_cdc.runs.run_plan import PlannedSlice, RunPlan
from strata_cdc.runs.specs import Interval, PlannedTable
from strata_cdc.runs.verdict import Failure, IntervalVerdict, Severity, TableVerdict, staged_digest
from strata_cdc.store.table_intervals import IntervalState
from strata_cdc.tables.read import read_changes
from tests.published import published_tables
from tests.publishing import publish_staged
from tests.tables.changes import FIVE_MINUTES, INTERVAL, ORDERS, SOURCE, inserts, stage

if TYPE_CHECKING:
    from strata_cdc.pipeline.publish.report import PublishReport
    from strata_cdc.tables.write import StagedFile

FIELDS = {"id": pa.int32()}
RUN = "r1"
WARNING = Failure("shop.orders", "expect_x", "id", Severity.WARNING, "is odd", 1)
ERROR = Failure("shop.orders", "expect_x", "id", Severity.ERROR, "id is odd", 1)


class Run:
    """A run whose rows are decoded."""

    def __init__(self, lake: Path, *ids: int, run: str = RUN) -> None:
        self.lake = str(lake)
        self.run = run
        self.folder = run_folder(self.lake, SOURCE, run)
        rows = [{"id": number} for number in ids]
        self.files = stage(self.folder.join("staged"), inserts(FIELDS, rows))
        plan = RunPlan(
            source=SOURCE,
            run=run,
            lake=self.lake,
            intervals=(Interval(INTERVAL, INTERVAL + FIVE_MINUTES, 0, 9, "u:1-9"),),
            slices=(PlannedSlice("s", "any", "binlog.000001", 4, 5, 4, 1, 0, 0, interval_start=0),) if ids else (),
            tables=(PlannedTable(INTERVAL, "shop", "orders", len(ids), len(ids)),),
        )
        write_plan(self.folder, plan)
        if ids:
            self.decode(self.files)

    def decode(self, files: tuple[StagedFile, ...]) -> None:
        write_decoded(self.folder, DecodedRun(tuple(files)))

    def judge(self, *failures: Failure, files: tuple[StagedFile, ...] | None = None) -> None:
        judged = self.files if files is None else files
        digest = staged_digest((str(file.name), file.digest) for file in judged)
        table = TableVerdict("shop.orders", len(judged), (1,), 5, failures)
        write_verdicts(self.folder, [IntervalVerdict(SOURCE, INTERVAL, digest, (table,))])

    def publish(self) -> PublishReport:
        return publish_staged(self.lake, SOURCE, self.run)

    def published(self) -> Any:
        if ORDERS not in published_tables(self.lake, SOURCE):
            return None
        return sorted(read_changes(self.lake, SOURCE, ORDERS)["id"].to_pylist())


def test_a_passing_verdict_publishes(tmp_path: Path) -> None:
    run = Run(tmp_path, 1, 2)
    run.judge(WARNING)
    report = run.publish()
    assert run.published() == [1, 2]
    (table,) = report.tables
    assert (table.table, table.rows, table.schema_versions, table.gtid_executed) == ("shop.orders", 2, (1,), "u:1-9")
    assert (report.rows, report.warnings, table.changed, table.verdict) == (2, 1, 1, "warned")


def test_publishing_again_changes_nothing(tmp_path: Path) -> None:
    run = Run(tmp_path, 1)
    run.judge()
    first = run.publish()
    again = run.publish()
    assert again.tables[0].changed == 0
    assert again.tables[0].delta_version == first.tables[0].delta_version
    assert run.published() == [1]


def test_without_a_verdict_nothing_is_published(tmp_path: Path) -> None:
    run = Run(tmp_path, 1)
    with pytest.raises(ChecksFailedError, match="no verdict") as caught:
        run.publish()
    assert "`strata check r1 --source shop`" in str(caught.value)
    assert run.published() is None


def test_a_failing_verdict_blocks(tmp_path: Path) -> None:
    run = Run(tmp_path, 1)
    run.judge(WARNING, ERROR)
    report = run.publish()
    assert (report.tables, [one.state for one in report.withheld]) == ((), [IntervalState.FAILED])
    with pytest.raises(ChecksFailedError, match="id is odd"):
        report.raise_if_withheld()
    assert run.published() is None


def test_a_verdict_on_other_files_blocks(tmp_path: Path) -> None:
    run = Run(tmp_path, 1)
    run.judge(files=Run(tmp_path / "other", 2).files)
    with pytest.raises(ChecksFailedError, match="other files"):
        run.publish()
    assert run.published() is None


def test_rows_that_vanished_after_their_verdict_block(tmp_path: Path) -> None:
    run = Run(tmp_path, 1)
    run.judge()
    run.decode(())
    with pytest.raises(ChecksFailedError, match="other files"):
        run.publish()


def test_a_run_that_was_not_decoded_is_told(tmp_path: Path) -> None:
    run = Run(tmp_path, 1)
    (tmp_path / "runs" / SOURCE / RUN / DECODED).unlink()
    with pytest.raises(Usage, match="decoded"):
        run.publish()


def test_an_interval_without_rows_needs_no_verdict_and_empties_its_table(tmp_path: Path) -> None:
    before = Run(tmp_path, 1)
    before.judge()
    before.publish()
    assert Run(tmp_path, run="r2").publish().rows == 0
    assert before.published() == []


def test_rows_in_quarantine_are_not_published(tmp_path: Path) -> None:
    run = Run(tmp_path, 1)
    other = stage(run.folder.join("staged"), inserts(FIELDS, [{"id": 7}]), slice_key="other")
    run.judge()
    run.decode((*run.files, *(replace(file, reason='{"error": "E", "message": "no text"}') for file in other)))
    run.publish()
    assert run.published() == [1]


def test_a_file_that_was_exchanged_after_its_verdict_blocks_its_table(tmp_path: Path) -> None:
    run, other = Run(tmp_path, 1), Run(tmp_path / "other", 2)
    run.judge()
    Path(run.files[0].url).write_bytes(Path(other.files[0].url).read_bytes())
    report = run.publish()
    (withheld,) = report.withheld
    assert (withheld.table, withheld.state, withheld.rows) == ("shop.orders", IntervalState.FAILED, 1)
    assert withheld.reason.file == run.files[0].url
    assert "other bytes than those that were written" in withheld.reason.message
    assert "Decode the run again" in withheld.reason.remedy
    assert run.published() is None
    # Decoding makes the same file: the verdict is on it already.
    Run(tmp_path, 1)
    assert run.publish().withheld == ()
    assert run.published() == [1]
