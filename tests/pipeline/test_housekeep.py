"""Housekeeping takes what is settled and old, and nothing that explains a failure or is still owed."""

from __future__ import annotations

import shutil
from copy import deepcopy
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from strata_cdc.errors import Usage
from strata_cdc.files.storage import delete_file, list_files, write_file
from strata_cdc.pipeline import ingest
from strata_cdc.pipeline.housekeep import clean_runs
from strata_cdc.pipeline.housekeep.clean_runs import delete_due, find_due
from strata_cdc.pipeline.plan.pending import RunRequest
from strata_cdc.quality.check_step.check_interval import check_interval
from strata_cdc.runs.run_folder import DECODED, PLAN, VERDICT, read_decoded, run_folder, runs_url
from strata_cdc.runs.run_past import PAST
from strata_cdc.store.tables import table_interval
from strata_cdc.tables.quarantine import in_quarantine
from tests.interposed import interposed
from tests.pipeline.owed_world import MINUTE, Died, World, dying_before_write
from tests.pipeline.test_what_is_owed import live

if TYPE_CHECKING:
    from pathlib import Path

    from strata_cdc.pipeline.publish.report import PublishReport

DAY = 86_400_000_000


@pytest.fixture
def world(tmp_path: Path, lake: str) -> World:
    return World(tmp_path, lake=lake)


def begin(world: World, *failing: str, request: RunRequest | None = None) -> str:
    """A run up to its publication, and its name; housekeeping is the test's."""
    world.failing = frozenset(failing)
    world.land()
    report = world.plan(request or RunRequest())
    world.decode(report)
    world.check(report)
    return report.run


def finish(world: World, run: str) -> PublishReport:
    return ingest.publish("s", run, settings=world.settings)


def left(world: World, run: str) -> set[str]:
    """Names right in a run folder, of files and of folders with files."""
    url = f"{runs_url(world.source.lake, 's')}/{run}"
    return {found.removeprefix(f"{url}/").split("/")[0] for found in list_files(url)}


def test_staged_files_go_with_the_publication_and_the_run_stays_readable(world: World) -> None:
    live(world, "a", "b")
    run = begin(world)
    folder = run_folder(world.source.lake, "s", run)
    files = {file.url for file in read_decoded(folder).files}
    first = finish(world, run)
    assert files == {url for url in list_files(f"{world.source.lake}/changes") if "/data/" in url}, "nothing is copied"
    assert left(world, run) == {PLAN, PAST, DECODED, VERDICT}
    again = finish(world, run)
    assert (first.cleared, again.cleared) == (False, True)
    reported = [[replace(table, changed=0) for table in report.tables] for report in (first, again)]
    assert (reported[0], first.rows) == (reported[1], again.rows), "a task that is tried again tells the same"
    with pytest.raises(Usage, match="staged files were cleared"):
        check_interval(world.source.lake, "s", run, lambda: None)  # type: ignore[arg-type,return-value]
    # The same plan again: decoded anew, it is a run like any other.
    assert begin(world, request=RunRequest(world.now - MINUTE, world.now)) == run
    assert (folder.exists(VERDICT), finish(world, run).cleared) == (True, False)
    assert left(world, run) == {PLAN, PAST, DECODED, VERDICT}
    world.assert_nothing_is_lost()


def test_a_part_is_not_cleared(world: World) -> None:
    live(world, "a", "b")
    run = begin(world, "b")
    finish(world, run)
    assert not read_decoded(run_folder(world.source.lake, "s", run)).cleared


def test_what_is_no_longer_published_is_not_said_to_be(world: World) -> None:
    live(world, "a")
    run = begin(world)
    finish(world, run)
    with world.engine.begin() as connection:
        connection.execute(table_interval.update().where(table_interval.c.table_name == "a").values(state="failed"))
    with pytest.raises(Usage, match=r"d\.a is failed since"):
        finish(world, run)


def test_what_explains_a_failure_stays_until_it_is_published(world: World) -> None:
    live(world, "a", "b")
    failed = begin(world, "b")
    finish(world, failed)
    live(world, "c")
    fine = begin(world)
    finish(world, fine)
    now = ingest.now_micros()
    due = find_due(world.source, world.engine, now=now + 6 * DAY)
    assert (due.runs, due.quarantine, due.kept) == ((), (), ()), "nothing is old"
    due = world.housekeep()
    assert [url.rpartition("/")[2] for url in due.runs] == [fine]
    assert [(one.run, "d.b" in one.reason, "failed" in one.reason) for one in due.kept] == [(failed, True, True)]
    assert (world.runs(), len(in_quarantine(world.source.lake, "s"))) == ({failed}, 1)
    finish(world, begin(world, request=RunRequest(failed=True)))
    due = world.housekeep()
    assert (len(due.runs), len(due.quarantine), due.kept) == (2, 1, ())
    assert (world.runs(), in_quarantine(world.source.lake, "s")) == (set(), [])
    world.assert_nothing_is_lost()


def test_a_run_that_is_owed_or_not_in_the_ledger_stays(world: World) -> None:
    live(world, "a")
    run = begin(world)
    assert [one.run for one in world.housekeep().kept] == [run]
    finish(world, run)
    with world.engine.begin() as connection:
        connection.execute(table_interval.delete())
    assert "the ledger does not have d.a" in world.housekeep().kept[0].reason
    assert world.runs() == {run}


def test_a_plan_that_cannot_be_read_stays(world: World) -> None:
    live(world, "a")
    finish(world, run := begin(world))
    run_folder(world.source.lake, "s", run).write(PLAN, b"{")
    assert "changed since it was written" in world.housekeep().kept[0].reason


def test_killed_before_any_of_its_deletions_it_goes_on(tmp_path: Path) -> None:
    begun, folder, died = World(tmp_path / "w"), tmp_path / "w", 0
    live(begun, "a", "b")
    run = begin(begun, "b")
    finish(begun, run)
    begun.publish(begun.plan(RunRequest(tables=("d.c",))))
    again = begin(begun, request=RunRequest(failed=True))
    for name in ("docs/index.html", "docs/more/a.html"):
        write_file(f"{begun.source.lake}/runs/s/{run}/{name}", b"")
    shutil.copytree(folder, tmp_path / "begun")
    for last in range(1, 100):
        # All of it again under the same path, which a run's files name.
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "begun", folder)
        world = deepcopy(begun)
        try:
            with dying_before_write(last):
                finish(world, again)
                world.housekeep()
        except Died:
            died += 1
        world.run(RunRequest(failed=True))
        world.housekeep()
        world.assert_nothing_is_lost()
        assert (world.runs(), in_quarantine(world.source.lake, "s")) == (set(), []), last
        if last > died:
            break
    assert died > 15


def test_its_failure_fails_no_publication(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = World(tmp_path)
    live(world, "a")
    run = begin(world)
    write_file(f"{world.source.lake}/quarantine/s", b"no folder")
    assert finish(world, run).rows == 1
    assert "could not be deleted" in caplog.text
    delete_file(f"{world.source.lake}/quarantine/s")
    delete_due(world.source, find_due(world.source, world.engine, now=ingest.now_micros()))


def test_names_save_looking_into_folders(world: World) -> None:
    live(world, "a")
    finish(world, begin(world))

    def refuse(*_: object) -> None:
        raise AssertionError("the span of the run ended later than that")

    with interposed(refuse, (clean_runs, "_is_older")):
        assert find_due(world.source, world.engine, now=world.now + 6 * DAY).runs == ()
