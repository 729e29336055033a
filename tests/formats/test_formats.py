"""What each version of Strata has stored, recorded by its code (`record.py`): it opens, gives what was in it, and a run
goes on from there. A new number of a stored form fails here until there are files of it."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from strata_cdc.binlog.events import index
from strata_cdc.config.settings import load_settings
from strata_cdc.landing.land_state import Doing, read_state
from strata_cdc.landing.landed import LandedStream
from strata_cdc.pipeline import ingest
from strata_cdc.pipeline.decode.decode_slice import decode_slice_to_files, planned_tasks, store_decoded
from strata_cdc.runs import run_folder, run_past, run_plan
from strata_cdc.runs.verdict import IntervalVerdict, TableVerdict, staged_digest
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store import migrations
from strata_cdc.store.database import open_store
from strata_cdc.tables.read import read_changes
from tests.formats.record import AFTER, BEFORE, GOLDEN, RECORDED_IN, settings

if TYPE_CHECKING:
    from pathlib import Path

RECORDINGS = sorted(path.name for path in GOLDEN.iterdir())
A, B = TableName("d", "a"), TableName("d", "b")
TRANSACTIONS = (BEFORE + AFTER).count(";") - BEFORE.count("USE d;")
IDS = {A: [1, 2, 2], B: [1, 2]}
"""Of the changes that the first run published, in stream order."""
ALL_IDS = {A: [1, 2, 2, None], B: [1, 2, 3]}
"""With those that it left; what was deleted is in the image before."""


@pytest.fixture(params=RECORDINGS)
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of what was stored; plans and lists name its lake by its whole path."""
    shutil.copytree(GOLDEN / request.param, tmp_path, dirs_exist_ok=True)
    for path in tmp_path.glob("lake/runs/s/*/*.json"):
        path.write_text(path.read_text().replace(str(RECORDED_IN), str(tmp_path)))
    return tmp_path


@pytest.fixture
def given(state: Path) -> Any:
    """The settings, as today's code reads them."""
    (state / "strata.toml").write_text(settings(state))
    return load_settings({"STRATA_SETTINGS": str(state / "strata.toml"), "AIRFLOW_CONN_S": "mysql://u@127.0.0.1:1/"})


def lake(state: Path) -> str:
    return str(state / "lake")


def ids(state: Path, table: TableName) -> list[int]:
    found = read_changes(lake(state), "s", table, columns=["id", "_seq", "_row"])
    return list(found.sort_by([("_seq", "ascending"), ("_row", "ascending")])["id"].to_pylist())


def run_folders(state: Path) -> list[Path]:
    """The run that was published, and the one that was only planned."""
    return sorted((state / "lake" / "runs" / "s").iterdir(), key=lambda folder: folder.name)


def number(path: Path) -> int:
    return int(json.loads(path.read_text()).get("format", 1))


def stored_numbers() -> dict[str, set[int]]:
    """The numbers of all stored forms in the recordings."""
    found: dict[str, set[int]] = {"store": set(), "index": set(), "plan": set(), "run": set(), "past": set()}
    for folder in (GOLDEN / name for name in RECORDINGS):
        with closing(sqlite3.connect(f"file:{folder}/store.db?immutable=1", uri=True)) as store:
            found["store"] |= {row[0] for row in store.execute("SELECT format FROM store_format")}
        for path in folder.glob(f"lake/landing/s/*{index.SUFFIX}"):
            found["index"].add(json.loads(pq.read_metadata(path).metadata[b"strata.segment"])["format"])
        found["plan"] |= {number(path) for path in folder.glob("lake/runs/s/*/plan.json")}
        found["run"] |= {number(path) for path in folder.glob("lake/runs/s/*/decoded.json")}
        found["past"] |= {number(path) for path in folder.glob("lake/runs/s/*/past.json")}
    return found


def test_each_number_that_was_ever_written_is_recorded() -> None:
    newest = {
        "store": migrations.FORMAT,
        "index": index.FORMAT,
        "plan": run_plan.PLAN_FORMAT,
        "run": run_folder.FORMAT,
        "past": run_past.FORMAT,
    }
    assert stored_numbers() == {name: set(range(1, last + 1)) for name, last in newest.items()}, (
        "record what this version writes: `python -m tests.formats.record NAME`"
    )


def test_the_store(state: Path) -> None:
    store = SchemaStore(open_store(f"sqlite:///{state}/store.db"))
    assert store.sources() == ["s"]
    assert store.names("s", "d") == [A, B]
    expected = [line.strip(" ;") for line in (BEFORE + AFTER).splitlines() if " TABLE " in line]
    versions = range(1, store.newest_version("s") + 1)
    written = store.ddls(versions)
    assert [text for version in versions if " TABLE " in (text := written.get(version, ""))] == expected
    for table in (A, B):
        for entry in store.timeline("s", [table]):
            assert entry.fingerprint is None or store.definition(entry.fingerprint).columns
    # The first column of `a` came last.
    given = {table: [entry.column_ids for entry in store.timeline("s", [table])] for table in (A, B)}
    assert given == {A: ["1-3", "6,1-3", "6,1-3"], B: ["4-5", "4-5"]}
    effects = {table: [entry.effect.kind.value for entry in store.timeline("s", [table])] for table in (A, B)}
    assert effects == {A: ["none", "fill", "none"], B: ["none", "convert"]}


def test_the_index_beside_each_segment(state: Path) -> None:
    stream = LandedStream.open(lake(state), "s")
    records = [record for segment in stream.segments for record in segment.index.records()]
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    rows = {A: 0, B: 0}
    for record in records:
        for entry in record.tables:
            rows[TableName(entry.database, entry.table)] += entry.rows
    assert rows == {table: len(found) for table, found in ALL_IDS.items()}
    assert len(records) == TRANSACTIONS


def test_how_far_the_landing_was(state: Path) -> None:
    found = read_state(lake(state), "s")
    assert found is None or found.doing is Doing.ENDED


def test_plan_list_of_staged_files_and_verdict(state: Path) -> None:
    published, planned = (run_folder.run_folder(lake(state), "s", folder.name) for folder in run_folders(state))
    for folder, ids_of in ((published, IDS), (planned, {A: ALL_IDS[A][3:], B: ALL_IDS[B][2:]})):
        plan = run_folder.read_plan(folder)
        assert {table.name: table.rows for table in plan.tables} == {str(t): len(found) for t, found in ids_of.items()}
        past = run_past.read_past(folder, plan)
        assert {f"{one.database}.{one.table}" for one in past.tables} == (
            {table.name for table in plan.tables} if plan.format >= 3 else set()
        )
    [(interval, verdict)] = run_folder.read_verdicts(published).items()
    assert verdict.passed
    assert {table.table: table.rows for table in verdict.tables} == {str(t): len(found) for t, found in IDS.items()}
    [where] = run_folder.read_plan(published).intervals
    assert interval == where.start


def test_the_lake(state: Path) -> None:
    assert {table: ids(state, table) for table in IDS} == IDS


def test_a_run_goes_on_from_there(state: Path, given: Any) -> None:
    ingest.track("s", settings=given)
    report = ingest.plan("s", None, None, settings=given)
    url = report.run_url
    store_decoded(url, [file for task in planned_tasks(url) for file in decode_slice_to_files(task)])
    pass_checks(lake(state), report.run)
    ingest.publish("s", report.run, settings=given)
    assert {table: ids(state, table) for table in ALL_IDS} == ALL_IDS


def pass_checks(lake: str, run: str) -> None:
    """Stands for the checks, which have tests of their own and need Spark."""
    folder = run_folder.run_folder(lake, "s", run)
    plan, decoded = run_folder.read_plan(folder), run_folder.read_decoded(folder)
    verdicts = []
    for interval in plan.intervals:
        digest = staged_digest((str(file.name), file.digest) for file in decoded.publishable(interval.start))
        tables = tuple(TableVerdict(one.name, one.rows, (1,), 1, ()) for one in plan.of_interval(interval))
        verdicts.append(IntervalVerdict("s", interval.start, digest, tables))
    run_folder.write_verdicts(folder, verdicts)
