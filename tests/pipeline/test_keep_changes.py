"""Upkeep of change tables by the settings: in bounded time, from where the last one ended, and what it leaves."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from strata_cdc.cli.main import run
from strata_cdc.pipeline.housekeep.merge_intervals import IntervalMergeLimits, MergeScope, merge_steps
from strata_cdc.pipeline.keep_changes import ChangesKeeper, keep_changes
from strata_cdc.pipeline.plan.pending import RunRequest, WorkChoice
from strata_cdc.store.ledgers import IntervalLedger
from strata_cdc.store.merges import MergeLedger
from strata_cdc.store.table_intervals import TableIntervalLedger
from strata_cdc.tables.layout import table_url
from tests.interposed import interposed
from tests.pipeline.owed_world import BEGIN, EAGER, MINUTE, Died, World, dying_before_write
from tests.published import published_tables

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PARTS = 8


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Its clock is months ago; a run every five minutes, from a full hour on."""
    world = World(tmp_path, now=BEGIN // (60 * MINUTE) * 60 * MINUTE)
    for number in range(PARTS):
        world.now += 5 * MINUTE
        for table in ("a", "b"):
            world.change(table, [number])
        world.now += 1
        publish(world)
    return world


def publish(world: World) -> None:
    """A run without its housekeeping: folders of runs stay."""
    steps = world.steps(RunRequest(end=world.now, choice=WorkChoice.PENDING))
    for _ in ("land", "plan", "decode", "check", "publish"):
        next(steps)


def intervals(world: World) -> int:
    return len(IntervalLedger(world.engine).all(world.name))


def test_all_of_it(world: World) -> None:
    before = {table: world.published(table) for table in ("a", "b")}
    assert intervals(world) == PARTS == len(world.runs())
    lines = [step.line for step in keep_changes(world.name, settings=world.settings)]
    assert lines[0].startswith(f"{PARTS} intervals from ")
    assert [line.rpartition(": ")[2] for line in lines[1:]] == [f"{PARTS} files made 1"] * 2
    assert intervals(world) == 1
    assert {table: world.published(table) for table in ("a", "b")} == before
    world.assert_intervals_are_whole()
    assert keep_changes(world.name, settings=world.settings) == []


def test_folders_of_runs_go(world: World) -> None:
    """An hour after their last write, once their intervals are part of a longer one; others stay."""
    world.change("b", [1])
    world.now += 61 * MINUTE
    publish(world)
    others = world.runs()
    assert len(others) == PARTS + 1
    assert keep_changes(world.name, settings=world.settings)
    assert world.runs() == others
    for path in (world.folder / "lake" / "runs").glob("*/*/*"):
        os.utime(path, (BEGIN / 1e6, BEGIN / 1e6))
    (step,) = keep_changes(world.name, settings=world.settings)
    assert step.line == f"deleted {PARTS} folders of runs whose intervals became part of longer ones"
    assert world.runs() < others
    assert len(world.runs()) == 1


def test_a_little_at_a_time(world: World) -> None:
    keeper = ChangesKeeper(world.name, world.settings, pause=3600, least=0)
    keeper.keep(0)
    assert (intervals(world), len(MergeLedger(world.engine).pending(world.name))) == (1, 2)
    # Another process goes on from there.
    assert len(keep_changes(world.name, settings=world.settings, seconds=0)) == 1
    assert len(MergeLedger(world.engine).pending(world.name)) == 1
    for _ in range(4):
        keeper.keep(0)
    assert not MergeLedger(world.engine).pending(world.name)
    world.assert_intervals_are_whole()
    # After its end it pauses.
    world.now += MINUTE
    keeper.keep(60)


def test_an_error_ends_nothing(world: World, caplog: pytest.LogCaptureFixture) -> None:
    keeper = ChangesKeeper(world.name, world.settings, pause=0)
    mark = world.folder / "lake" / "landing" / world.name / "lake.json"
    content = mark.read_bytes()
    mark.write_bytes(b"{")
    keeper.keep(60)
    assert "could not be merged" in caplog.text
    assert intervals(world) == PARTS
    mark.write_bytes(content)
    keeper.keep(60)
    assert intervals(world) == 1


def test_what_is_at_work_stays(world: World) -> None:
    """A run that is planned and not published keeps its intervals, for a day."""
    known = IntervalLedger(world.engine).all(world.name)
    report = world.plan(RunRequest(known[0].start, known[-1].end, tables=("d.a",)))
    world.decode(report)
    assert keep_changes(world.name, settings=world.settings) == []
    assert intervals(world) == PARTS
    world.check(report)
    world.publish(report)
    assert keep_changes(world.name, settings=world.settings)
    assert intervals(world) == 1
    world.assert_intervals_are_whole()


def test_a_merge_in_the_middle_of_a_plan(world: World) -> None:
    known = IntervalLedger(world.engine).all(world.name)
    world.now += 60 * MINUTE

    def between(select: Callable[..., Any], *given: Any, **named: Any) -> Any:
        world.merge()
        return select(*given, **named)

    with interposed(between, (TableIntervalLedger, "of_interval")):
        report = world.plan(RunRequest(known[2].start, known[5].end))
    assert (report.intervals, report.tables, report.rows) == (1, 2, 2 * PARTS)
    world.decode(report)
    world.check(report)
    world.publish(report)
    world.assert_nothing_is_lost()
    world.assert_intervals_are_whole()


def test_a_damaged_file_is_a_problem_of_its_table(world: World) -> None:
    path = sorted((world.folder / "lake" / "changes" / world.name / "d" / "a").glob("data/*/*.parquet"))[3]
    content = path.read_bytes()
    path.write_bytes(content[:-9])
    first, *steps = keep_changes(world.name, settings=world.settings)
    assert first.fault is None
    assert [step.fault is None for step in steps] == [False, True]
    assert str(path) in steps[0].line
    assert sum(world.published("b").values()) == PARTS
    path.write_bytes(content)
    assert [step.fault for step in keep_changes(world.name, settings=world.settings)] == [None]
    world.assert_nothing_is_lost()


def test_a_damaged_file_comes_again_with_its_interval(world: World) -> None:
    path = sorted((world.folder / "lake" / "changes" / world.name / "d" / "a").glob("data/*/*.parquet"))[3]
    path.unlink()
    keep_changes(world.name, settings=world.settings)
    world.run(RunRequest(BEGIN - 60 * MINUTE, world.now))
    assert not any(step.fault for step in keep_changes(world.name, settings=world.settings))
    world.assert_nothing_is_lost()
    world.assert_intervals_are_whole()


@pytest.mark.slow
def test_an_upkeep_that_died_before_any_of_its_writes(world: World, tmp_path: Path) -> None:
    whole = tmp_path.with_name(f"{tmp_path.name}-whole")
    tmp_path.rename(whole)
    died = 0
    for last in range(1, 100):
        shutil.copytree(whole, tmp_path)
        try:
            with dying_before_write(last):
                keep_changes(world.name, settings=world.settings)
        except Died:
            died += 1
        else:
            break
        world.assert_nothing_is_lost()
        world.assert_intervals_are_whole()
        assert not any(step.fault for step in keep_changes(world.name, settings=world.settings))
        assert (intervals(world), len(files(world))) == (1, 2)
        world.assert_nothing_is_lost()
        world.assert_intervals_are_whole()
        shutil.rmtree(tmp_path)
    assert died >= 8


def files(world: World) -> list[str]:
    """Of all change tables, those that readers see."""
    return [
        path
        for table in published_tables(world.source.lake, world.name)
        for path in DeltaTable(table_url(world.source.lake, world.name, table)).file_uris()
    ]


def test_long_ones_and_large_ones_stay(world: World) -> None:
    assert world.merge(IntervalMergeLimits(most=PARTS)) == []
    world.now += 60 * MINUTE
    small = IntervalMergeLimits(most=1, age_seconds=0, rows=5)
    assert len([step for step in world.merge(small) if "became one" in step.line]) == PARTS // 2
    assert intervals(world) == PARTS // 2
    world.merge(EAGER)
    assert intervals(world) == 1
    world.merge_minutes = 0
    assert world.merge(EAGER) == []


def test_old_intervals_become_one_for_each_day(world: World) -> None:
    world.merge_minutes = 0
    for half_days in (1, 1, 2):
        world.now += half_days * 12 * 60 * MINUTE
        world.change("a", [half_days])
        world.now += 1
        publish(world)
    before = {table: world.published(table) for table in ("a", "b")}
    assert keep_changes(world.name, settings=world.settings) == []
    day = 24 * 60 * MINUTE
    now = world.now + 31 * day

    def kept(at: int, scope: MergeScope) -> list[str]:
        return [step.line for step in merge_steps(world.source, world.engine, now=lambda: at, scope=scope)]

    # Too young; then so old that only a person asks for them.
    assert kept(world.now, MergeScope.ALL) == []
    assert not any("became one" in line for line in kept(now + 30 * day, MergeScope.RECENT))
    made = [line for line in kept(now, MergeScope.RECENT) if "became one" in line]
    left = IntervalLedger(world.engine).all(world.name)
    short = [one.start // day for one in left if one.end - one.start < day]
    assert made
    assert len(left) < PARTS
    assert len(set(short)) == len(short)
    assert {table: world.published(table) for table in ("a", "b")} == before
    world.assert_intervals_are_whole()


def snapshot_of(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_the_command(world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert world.settings
    monkeypatch.setenv("STRATA_SETTINGS", str(world.folder / "strata.toml"))
    monkeypatch.setenv("AIRFLOW_CONN_X", "mysql://u@127.0.0.1/")
    before = snapshot_of(world.folder / "lake")
    assert run(["housekeep", "--source", world.name, "--dry-run"]) == 0
    assert intervals(world) == PARTS
    assert f"{PARTS} intervals from " in (said := capsys.readouterr().out)
    assert "would become one" in said
    assert snapshot_of(world.folder / "lake") == before
    assert run(["--json", "housekeep", "--source", world.name]) == 0
    assert len(json.loads(capsys.readouterr().out)["merged"]) == 3
    assert intervals(world) == 1


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["lines", "json"])
def test_the_command_fails_after_all_else_is_done(
    options: list[str], world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STRATA_SETTINGS", str(world.folder / "strata.toml"))
    monkeypatch.setenv("AIRFLOW_CONN_X", "mysql://u@127.0.0.1/")
    path = sorted((world.folder / "lake" / "changes" / world.name / "d" / "a").glob("data/*/*.parquet"))[3]
    path.write_bytes(path.read_bytes()[:-9])
    assert run([*options, "housekeep", "--source", world.name]) == 1
    written = capsys.readouterr()
    assert "d.a in the interval" in written.out
    assert "d.b in the interval" in written.out
    assert str(path) in written.err
    assert intervals(world) == 1
