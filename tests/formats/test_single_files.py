"""Stored files that no recording of a whole run has (`test_formats.py`), as each number of their form was written."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strata_cdc.binlog.bytes.segment import SegmentName
from strata_cdc.files.storage import Folder
from strata_cdc.landing import recent
from strata_cdc.quality.check_step.data_docs import JUDGED, read_judged
from strata_cdc.quality.checks import judged
from strata_cdc.runs import run_past
from strata_cdc.runs.run_past import PAST, read_past
from strata_cdc.runs.run_plan import RunPlan
from strata_cdc.runs.specs import PlannedTable
from strata_cdc.runs.verdict import IntervalVerdict
from strata_cdc.tables import quarantine
from strata_cdc.tables.quarantine import REASON, read_reason

if TYPE_CHECKING:
    from types import ModuleType

SINGLE = Path(__file__).with_name("single")
DERIVED = {"reason": {1}}
"""Forms that a test of their room makes of a newer one."""


def stored(folder: Path, name: str, as_name: str) -> Folder:
    """A folder with one of the files, as it is called there."""
    shutil.copy(SINGLE / name, folder / as_name)
    return Folder.open(str(folder))


@pytest.mark.parametrize(
    ("name", "module"), [("past", run_past), ("judged", judged), ("reason", quarantine), ("recent", recent)], ids=str
)
def test_each_number_that_was_ever_written_is_there(name: str, module: ModuleType) -> None:
    numbers = {int(path.stem.rpartition("-")[2]) for path in SINGLE.glob(f"{name}-*.json")}
    assert numbers | DERIVED.get(name, set()) == set(range(1, module.FORMAT + 1)), (
        f"store what this version writes as {SINGLE.name}/{name}-{module.FORMAT}.json"
    )


def test_what_lies_before_a_run(tmp_path: Path) -> None:
    plan = RunPlan("s", "r", "/lake", (), tables=(PlannedTable(1, "d", "b", 3, 3),))
    found = read_past(stored(tmp_path, "past-1.json", PAST), plan)
    past = found.earlier_table("d", "b")
    assert past is not None
    ((number, price),) = [lifetime.columns for lifetime in past.lifetimes]
    assert [step.name for step in number.steps] == ["id"]
    assert [step.kind.partition("|")[0] for step in price.steps] == ["decimal(8,2)", "varchar(20)"]
    assert (past.unlogged, past.unpublished) == ((), ())


def test_what_rules_found(tmp_path: Path) -> None:
    found = read_judged(stored(tmp_path, "judged-1.json", JUDGED))
    assert {suite.table for suite in found.suites} == {"d.a", "d.b"}
    assert all(one.success for suite in found.suites for one in suite.rules)


def test_which_segments_landed_last(tmp_path: Path) -> None:
    names = recent.noted_segments(stored(tmp_path, "recent-1.json", recent.RECENT))
    assert [SegmentName.ordinal_of(name) for name in names] == [1, 2]


@pytest.mark.parametrize("name", ["reason-2.json", "reason-3.json"])
def test_why_rows_are_in_quarantine(tmp_path: Path, name: str) -> None:
    stored(tmp_path, name, REASON)
    reason = read_reason(str(tmp_path), IntervalVerdict)
    assert reason is not None
    assert [failure.message for table in reason.verdict.tables for failure in table.failures] == ["id is NULL"]
    assert all(file.digest and '"numRecords": 1' in file.statistics for file in reason.files)
