"""What steps leave for each other: read back whole, in every format, or refused with what makes it anew."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec.structs import replace

from strata_cdc.changes.plan import PlannedVersion, Range
from strata_cdc.errors import DamagedFileError, ErrorFacts, StoreFormatError, Usage
from strata_cdc.files.stored import decode_stored
from strata_cdc.pipeline.decode.decode_slice import _tasks_of, planned_tasks
from strata_cdc.runs import run_folder as folder_of
from strata_cdc.runs.run_folder import DecodedRun, FailedSlice, read_decoded, read_plan, read_verdicts, run_folder
from strata_cdc.runs.run_past import EarlierTable, RunPast, read_past, write_past
from strata_cdc.runs.run_plan import PLAN_FORMAT, PlannedSlice, RunPlan
from strata_cdc.runs.specs import (
    Interval,
    PlannedTable,
    RefusedRows,
    RowsRemoved,
    StatementLogged,
)
from strata_cdc.runs.verdict import Failure, IntervalVerdict, Severity, TableVerdict
from strata_cdc.tables.statistics import pack_statistics
from strata_cdc.tables.write import StagedFile

if TYPE_CHECKING:
    from pathlib import Path

    from strata_cdc.files.storage import Folder


PIECE = PlannedSlice(
    "s", "/lake/x", "binlog.000001", 4, 90, 4, 1, 0, 5,
    tables=(PlannedVersion("d", "t", 7, "{}"),), more=(Range(100, 120, 100, 2, 6, prepared_seq=1),), interval_start=1,
)  # fmt: skip
PLAN = RunPlan(
    source="s",
    run="r",
    lake="/lake",
    intervals=(Interval(1, 2, 0, 9, "u:1-9"),),
    tables=(PlannedTable(1, "d", "t", 5, 3), PlannedTable(1, "d", "x.y", 1, 0, ErrorFacts("E", "m"))),
    slices=(PIECE,),
    versions=(PlannedVersion("d", "t", 7, "{}"), PlannedVersion("d", "x.y", 7, "[]")),
    refused=(RefusedRows(1, "d.t", 2, ErrorFacts("SchemaGapError", "gap", offset=4)),),
    removed=(RowsRemoved(1, "d.t", None, "TRUNCATE t"),),
    statements=(StatementLogged(1, "", "*", "u:3", "binlog.000001", 4, "DELETE FROM t"),),
    executed_before={"1": ""},
    breaks={"1": "binlog.000001:4"},
    history=7,
)
FILE = StagedFile("d", "t", 1, 7, "/lake/x", 10, "ab12", 3, 1, 9, 0, 0, pack_statistics({}))
DECODED = DecodedRun((FILE,), (FailedSlice(1, (("d", "x.y"),), ErrorFacts("E", "m")),))
VERDICT = IntervalVerdict("s", 1, "digest", (TableVerdict("d.t", 3, (7,), 1, ()),), (
    Failure("", "x", None, Severity.WARNING, "is odd", 1, ("{}",)),
))  # fmt: skip
OF_FORMAT_1 = {
    "source": "s",
    "run": "r",
    "lake": "/lake",
    "intervals": [{"start": 1, "end": 2, "first_seq": 0, "last_seq": 9, "gtid_executed": "u:1-9"}],
    "slices": [msgspec.to_builtins(PIECE)],
    "expected_rows": {"1": {"d.t": 3}},
    "refused": [{"table": "d.t", "rows": 2, "error": {"error": "SchemaGapError", "message": "gap"}}],
    "definitions": {"7": {"database": "d", "table": "t", "definition": "{}"}},
    "removed": [{"interval": 1, "table": "d.t", "gtid": None, "statement": "TRUNCATE t"}],
    "executed_before": "",
    "breaks": {},
}
READERS = {"plan.json": read_plan, "decoded.json": read_decoded, "verdict.json": read_verdicts}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    found = run_folder(str(tmp_path), "s", "r")
    folder_of.write_plan(found, PLAN)
    folder_of.write_decoded(found, DECODED)
    folder_of.write_verdicts(found, [VERDICT])
    return found


def test_what_is_written_is_read(folder: Folder) -> None:
    assert read_plan(folder) == PLAN
    assert read_decoded(folder) == DECODED
    assert read_verdicts(folder) == {1: VERDICT}


def test_a_plan_of_the_first_format_opens(folder: Folder) -> None:
    folder.write("plan.json", json.dumps(OF_FORMAT_1).encode())
    plan = read_plan(folder)
    assert (plan.tables, plan.versions) == ((PlannedTable(1, "d", "t", 3, 3),), (PlannedVersion("d", "t", 7, "{}"),))
    assert (plan.refused[0].interval, plan.removed, plan.slices) == (1, PLAN.removed, PLAN.slices)


def test_what_was_decoded_by_the_second_format_opens(folder: Folder) -> None:
    stored = msgspec.to_builtins(replace(DECODED, files=()))
    stored["files"] = [msgspec.to_builtins(FILE) | {"stats": FILE.statistics}]
    del stored["cleared"]
    folder.write("decoded.json", json.dumps({**stored, "format": 2}).encode())
    assert replace(read_decoded(folder), format=folder_of.FORMAT) == DECODED


def test_statistics_are_stored_compressed(folder: Folder) -> None:
    many = replace(
        DECODED, files=(replace(FILE, stats=pack_statistics({f"column {at}": "x" * 20 for at in range(99)})),) * 100
    )
    folder_of.write_decoded(folder, many)
    assert read_decoded(folder) == many
    assert len(folder.read_file("decoded.json")) < 100 * 1200
    broken = folder.read_file("decoded.json").replace(b'"stats":"eA', b'"stats":"eB')
    folder.write("decoded.json", broken)
    with pytest.raises(DamagedFileError, match="statistics"):
        _ = read_decoded(folder).files[0].statistics


@pytest.mark.parametrize("name", READERS)
def test_what_is_cut_off_anywhere_is_refused(folder: Folder, name: str) -> None:
    whole = folder.read_file(name)
    for length in range(0, len(whole.rstrip()), 7):
        folder.write(name, whole[:length])
        with pytest.raises(DamagedFileError) as caught:
            READERS[name](folder)
        assert (caught.value.file, "again" in str(caught.value.remedy)) == (folder.join(name), True)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("content", [b"[]", b"null", b'{"intervals": 5, "files": 5}', b"\xff\xfe", b"{" * 2000])
def test_what_is_something_else_is_refused(folder: Folder, name: str, content: bytes) -> None:
    folder.write(name, content)
    with pytest.raises(DamagedFileError):
        READERS[name](folder)


@pytest.mark.parametrize("name", READERS)
def test_a_newer_format_is_refused(folder: Folder, name: str) -> None:
    found: dict[str, Any] = json.loads(folder.read_file(name))
    assert found["format"] == (PLAN_FORMAT if name == "plan.json" else folder_of.FORMAT)
    folder.write(name, json.dumps({**found, "format": 99}).encode())
    with pytest.raises(StoreFormatError, match="format 99") as caught:
        READERS[name](folder)
    assert caught.value.file == folder.join(name)


def test_files_without_digests_have_to_be_decoded_again(folder: Folder) -> None:
    stored = {"files": [{name: value for name, value in msgspec.to_builtins(FILE).items() if name != "digest"}]}
    folder.write("decoded.json", json.dumps(stored).encode())
    with pytest.raises(DamagedFileError, match="digest") as caught:
        read_decoded(folder)
    assert "Decode the run again" in str(caught.value)


def test_a_run_that_is_not_there_is_told_in_the_first_line(tmp_path: Path) -> None:
    nothing = run_folder(str(tmp_path), "s", "wrongrun")
    with pytest.raises(Usage, match="there is no run wrongrun"):
        read_plan(nothing)
    with pytest.raises(Usage, match="has not been decoded"):
        read_decoded(nothing)
    assert read_verdicts(nothing) == {}


def test_the_value_at_fault_is_named_by_its_path(folder: Folder) -> None:
    stored = json.loads(folder.read_file("plan.json"))
    stored["slices"][0]["tables"][0] = "seven"
    folder.write("plan.json", json.dumps(stored).encode())
    with pytest.raises(DamagedFileError, match=r"`\$\.slices\[0\]\.tables\[0\]`") as caught:
        read_plan(folder)
    assert "strata plan" in str(caught.value)


def test_a_slice_is_stored_with_numbers_of_its_tables(folder: Folder) -> None:
    (stored,) = json.loads(folder.read_file("plan.json"))["slices"]
    assert [*stored] == [
        "source", "segment", "binlog_file", "begin", "end", "binlog_pos", "first_seq", "first_row", "clock", "inside",
        "table_maps", "more", "times", "tables", "interval_start",
    ]  # fmt: skip
    assert stored["more"] == [
        {"begin": 100, "end": 120, "binlog_pos": 100, "first_seq": 2, "clock": 6, "prepared_seq": 1}
    ]


def test_what_lies_before_a_run_is_kept(folder: Folder) -> None:
    stored = (
        b'{"tables":[{"database":"d","table":"t","lives":[{"versions":[3,5],"columns":[{"steps":[{"version_id":3,'
        b'"name":"a","kind":"int||||key 0"}],"ended":5}]}],"untold":[7],"unpublished":[1700000000000000]},'
        b'{"database":"d","table":"x.y"}],"format":1}'
    )
    folder.write("past.json", stored)
    found = read_past(folder, PLAN)
    assert found.earlier_table("d", "t").unlogged == (7,)
    assert found.earlier_table("d", "t").lifetimes[0].columns[0].ended == 5
    assert found.earlier_table("d", "u") is None
    write_past(folder, found)
    assert read_past(folder, PLAN) == found
    folder.write("past.json", stored.replace(b'"format":1', b'"format":2'))
    with pytest.raises(StoreFormatError, match="format 2"):
        read_past(folder, PLAN)


def test_a_run_of_an_older_version_may_have_no_past(folder: Folder) -> None:
    folder.write("plan.json", json.dumps(OF_FORMAT_1).encode())
    assert read_past(folder, read_plan(folder)) == RunPast()
    folder.write("plan.json", json.dumps({**msgspec.to_builtins(PLAN), "format": 2}).encode())
    assert read_past(folder, read_plan(folder)) == RunPast()


@pytest.mark.parametrize("content", [None, b"", b"{}", b"[]", b'{"tables":[{"database":"d","table":"t"}],"format":1}'])
def test_a_past_that_is_gone_or_not_whole_is_refused(folder: Folder, content: bytes | None) -> None:
    if content is not None:
        folder.write("past.json", content)
    with pytest.raises(DamagedFileError) as caught:
        read_past(folder, PLAN)
    assert caught.value.file == folder.join("past.json")
    assert "`strata plan --source s`" in str(caught.value)


def test_a_past_has_each_table_that_has_a_name(folder: Folder) -> None:
    unnamed = PlannedTable(1, "", "*", 0, 0)
    write_past(folder, RunPast((EarlierTable("d", "t"),)))
    assert read_past(folder, msgspec.structs.replace(PLAN, tables=(PLAN.tables[0], unnamed))).earlier_table("d", "t")
    assert read_past(folder, msgspec.structs.replace(PLAN, tables=())).earlier_table("d", "t")


def test_a_version_that_shows_what_is_sensitive_refuses_the_plan() -> None:
    """The reader of those versions knew formats up to 2."""
    plan = msgspec.structs.replace(PLAN, sensitive={"d.t": ("mail",)})
    with pytest.raises(StoreFormatError, match="format 4, this version reads up to 2"):
        decode_stored(msgspec.json.encode(plan), RunPlan, newest=2, file="plan.json", remedy="")


def test_a_plan_has_each_definition_once(tmp_path: Path) -> None:
    tables = [PlannedVersion("d", f"t{number}", 7, f'{{"name": "{"x" * 10_000}{number}"}}') for number in range(5)]
    slices = tuple(replace(PIECE, begin=number, tables=(tables[number % 5], tables[0])) for number in range(1000))
    versions = tuple(tables)
    found = run_folder(str(tmp_path), "s", "r")
    folder_of.write_plan(found, plan := replace(PLAN, slices=slices, versions=versions))
    assert read_plan(found) == plan
    assert len(found.read_file("plan.json")) < 5 * 11_000 + 1000 * 400
    assert len({id(table) for piece in read_plan(found).slices for table in piece.tables}) == 5


def test_a_task_is_handed_on_as_its_number(tmp_path: Path) -> None:
    found = run_folder(str(tmp_path), "s", "r")
    folder_of.write_plan(found, replace(PLAN, slices=(PIECE, replace(PIECE, begin=5))))
    tasks = planned_tasks(found.url)
    handed = pickle.dumps(tasks)
    assert len(handed) < 600
    assert pickle.loads(handed) == tasks
    assert pickle.loads(pickle.dumps(replace(tasks[1], plan=None))) == replace(tasks[1], plan=None)
    folder_of.write_plan(found, replace(PLAN, slices=(PIECE,)))
    _tasks_of.cache_clear()
    with pytest.raises(DamagedFileError, match="replaced while its slices were decoded"):
        pickle.loads(handed)
