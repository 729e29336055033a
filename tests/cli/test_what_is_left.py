"""`strata plan`, `publish`, `intervals` and `status` on a source of files: what is left is shown, with the reason."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from strata_cdc.cli.main import run
from strata_cdc.pipeline.plan.pending import RunRequest
from strata_cdc.runs.run_folder import read_verdicts, run_folder
from tests.pipeline.owed_world import World
from tests.pipeline.test_what_is_owed import live

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Table a is published, b has failed, c is owed."""
    world = World(tmp_path)
    live(world, "a", "b")
    world.failing = frozenset({"b"})
    world.run(RunRequest())
    live(world, "c")
    world.land()
    world.plan(RunRequest())
    _ = world.settings
    monkeypatch.setenv("STRATA_SETTINGS", str(tmp_path / "strata.toml"))
    monkeypatch.setenv("AIRFLOW_CONN_X", "mysql://u@127.0.0.1/")
    return world


@pytest.fixture
def lines(world: World, capsys: pytest.CaptureFixture[str]):
    def lines(*words: str, code: int = 0) -> list[str]:
        capsys.readouterr()
        assert run([*words, "--source", "s"]) == code
        return capsys.readouterr().out.splitlines()

    return lines


def test_states_are_listed_and_can_be_chosen(lines) -> None:
    def found(*words: str) -> list[tuple[str, str, int]]:
        rows = map(json.loads, lines("intervals", "--json", *words))
        return [(row["table"], row["state"], row["published_rows"]) for row in rows]

    assert found() == [("a", "published", 1), ("b", "failed", 0), ("c", "owed", 0)]
    assert found("--owed") == [("c", "owed", 0)]
    assert found("--failed", "--owed") == [("b", "failed", 0), ("c", "owed", 0)]
    assert found("--held") == []
    assert found("--table", "d.a") == [("a", "published", 1)]
    (row,) = map(json.loads, lines("intervals", "--json", "--failed"))
    assert row["reason"]["error"] == "ChecksFailedError"
    assert "does not hold" in row["reason"]["message"]
    assert found("--start", row["end"]) == [("c", "owed", 0)]


def test_as_text_the_reason_and_the_remedy_are_there(lines) -> None:
    said = "\n".join(lines("intervals", "--failed"))
    assert "does not hold" in said
    assert "strata plan --source s --failed" in said
    assert lines("intervals", "--held") == ["nothing: no wanted table has such rows"]


def test_the_status_hides_nothing(lines) -> None:
    said = "\n".join(lines("status"))
    assert "pending: 1 row since" in said
    assert "failed: d.b" in said
    (found,) = map(json.loads, lines("status", "--json"))
    assert [(table["table"], table["rows"], table["owed_rows"], table["failed_rows"]) for table in found["tables"]] == [
        ("d.a", 1, 0, 0), ("d.b", 0, 0, 1), ("d.c", 0, 1, 0),
    ]  # fmt: skip


def test_a_plan_says_what_it_leaves_and_publishing_a_part_is_no_success(world: World, lines) -> None:
    (report,) = map(json.loads, lines("plan", "--json"))
    assert (report["rows"], report["left"]["failed"]) == (1, 1)
    report = world.plan(RunRequest(failed=True))
    world.decode(report)
    world.check(report)
    said = lines("publish", report.run, code=1)
    assert "1 row published" in "\n".join(said)
    assert sum(world.published("c").values()) == 1


def test_housekeeping_lists_what_it_deletes_and_what_stays(world: World, lines) -> None:
    for path in (world.folder / "lake" / "runs" / "s").glob("*/*"):
        os.utime(path, (0, 1))
    (kept,) = {one["run"] for one in map(json.loads, lines("intervals", "--json", "--failed"))}
    listed = lines("housekeep", "--dry-run")
    assert any(kept in line and "d.b" in line for line in listed)
    assert world.runs() > {kept}, "the run that is owed stays, too"
    before = world.runs()
    assert lines("housekeep") == listed
    assert world.runs() == before


def test_a_run_that_is_cleared_says_so_and_is_not_judged_again(world: World, lines, capsys) -> None:
    world.run(RunRequest())
    live(world, "c")
    world.land()
    report = world.plan(RunRequest())
    world.decode(report)
    world.check(report)
    assert "1 row published" in lines("publish", report.run)[-1]
    assert lines("publish", report.run)[-1].startswith("the run was published before, and its staged files are cleared")
    (reported,) = map(json.loads, lines("publish", report.run, "--json"))
    assert (reported["cleared"], reported["rows"]) == (True, 1)
    assert run(["check", report.run, "--source", "s"]) == 2
    assert "its staged files were cleared" in capsys.readouterr().err
    assert read_verdicts(run_folder(world.source.lake, "s", report.run))
    for path in (world.folder / "lake" / "runs" / "s" / report.run).iterdir():
        os.utime(path, (0, 1))
    assert lines("housekeep", "--dry-run")[0] == f"would delete {world.folder}/lake/runs/s/{report.run}"
    (reported,) = map(json.loads, lines("housekeep", "--json"))
    assert (reported["runs"], reported["deleted"]) == ([f"{world.folder}/lake/runs/s/{report.run}"], True)
    assert report.run not in world.runs()


def test_rows_that_cannot_be_decoded_have_a_reason_and_an_exit_code(world: World, lines, capsys) -> None:
    world._begin_file()
    world.gno += 1
    world.binlog.gtid(world.gno, micros=world.now)
    world.binlog.query("ALTER TABLE a ADD COLUMN %% x", database="d")
    live(world, "a", "c")
    world.land()
    said = "\n".join(lines("plan", code=1))
    assert "refused" in said
    lines("plan", code=1)
    assert run(["plan", "--source", "s", "--json"]) == 1
    reported = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert (reported["error"], reported["table"]) == ("SchemaGapError", "d.a")
    assert reported["message"].startswith("1 row of d.a cannot be decoded: the schema is not known")
    assert "%%" in reported["message"]
    assert "strata snapshot" in reported["remedy"]


@pytest.mark.parametrize("command", ["plan", "intervals"])
def test_a_selection_of_no_table_is_refused(lines, command: str, capsys) -> None:
    assert run([command, "--source", "s", "--table", "D.a"]) == 2
    assert '"D.a" matches no table: do you mean d.a?' in capsys.readouterr().err
