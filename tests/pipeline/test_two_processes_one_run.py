"""Two processes that do the same run: whatever one does between two steps of the other, each row is published once,
and the ledger, the verdict and the report say so."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from strata_cdc.config.engines import Engine, EngineSettings
from strata_cdc.errors import RunClearedError, Transient
from strata_cdc.files import storage
from strata_cdc.pipeline import ingest
from strata_cdc.pipeline.decode.decode_here import decode_here
from strata_cdc.pipeline.housekeep import clean_runs
from strata_cdc.pipeline.plan.pending import RunRequest
from strata_cdc.quality.check_step.check_interval import check_here
from strata_cdc.runs.run_folder import read_verdicts, run_folder
from strata_cdc.store.table_intervals import IntervalState, TableIntervalLedger
from strata_cdc.store.verdicts import VerdictLedger, VerdictOutcome
from strata_cdc.tables import pinned
from tests.interposed import interposed
from tests.pipeline.owed_world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from strata_cdc.pipeline.publish.report import PublishReport
    from strata_cdc.runs.specs import PlanReport

LOCAL = EngineSettings(Engine.LOCAL)


def decode(world: World, planned: PlanReport) -> None:
    del world
    decode_here(planned.run_url, LOCAL)


def check(world: World, planned: PlanReport) -> None:
    del world
    try:
        report = check_here(planned.run_url, None, 0)
    except RunClearedError:
        return
    assert report is not None


def publish(world: World, planned: PlanReport) -> PublishReport:
    return ingest.publish(world.name, planned.run, settings=world.settings)


STEPS = (decode, check, publish)


def do(steps: Sequence[Callable[[World, PlanReport], PublishReport | None]], world: World, planned: PlanReport) -> None:
    for step in steps:
        step(world, planned)


def whole_run(world: World, planned: PlanReport) -> PublishReport:
    decode(world, planned)
    check(world, planned)
    return publish(world, planned)


def planned_world(folder: Path) -> tuple[World, PlanReport]:
    world = World(folder)
    for table in ("a", "b"):
        world.change(table, [1, 2])
    world.now += 1_000_000
    world.land()
    return world, world.plan(RunRequest())


def before_access(number: int, act: Callable[[], None]) -> AbstractContextManager[None]:
    """Within the block, `act` is done before the access to files with this number (from 1), writes and reads."""
    left = number

    def counted(function: Callable[..., object], *given: object, **named: object) -> object:
        nonlocal left
        left -= 1
        if not left:
            act()
        return function(*given, **named)

    return interposed(
        counted,
        (Path, "replace"),
        (clean_runs, "delete_folder"),
        (storage.Folder, "read_file"),
        (storage.Folder, "write"),
        (pinned, "read_pinned"),
        (pq, "ParquetFile"),
    )


def assert_published_once(world: World, planned: PlanReport, report: PublishReport) -> None:
    assert report.withheld == ()
    pieces = TableIntervalLedger(world.engine).select(world.name, tuple(IntervalState))
    assert {piece.state for piece in pieces} == {IntervalState.PUBLISHED}
    verdicts = VerdictLedger(world.engine).select(world.name, {planned.tables and pieces[0].start})
    assert {verdict.outcome for verdict in verdicts} == {VerdictOutcome.PASSED}
    stored = read_verdicts(run_folder(world.source.lake, world.name, planned.run))
    assert [verdict.failures for verdict in stored.values()] == [()]
    for table in ("a", "b"):
        assert world.published(table) == world.committed[table], table


@pytest.mark.parametrize("done", range(len(STEPS) + 1))
def test_between_two_steps(tmp_path: Path, done: int) -> None:
    world, planned = planned_world(tmp_path)
    do(STEPS[:done], world, planned)
    report = whole_run(world, planned)
    for step in STEPS[done:]:
        report = step(world, planned) or report
    assert_published_once(world, planned, report)


@pytest.mark.parametrize(
    "ahead", [1, *(pytest.param(more, marks=pytest.mark.soak) for more in range(2, len(STEPS) + 1))]
)
def test_before_any_access_of_a_step(tmp_path: Path, ahead: int) -> None:
    """The other one does its first steps before the access, and the rest afterwards."""
    for number in count(1):
        world, planned = planned_world(tmp_path / str(number))
        acted = False

        def other() -> None:
            nonlocal acted
            acted = True
            do(STEPS[:ahead], world, planned)  # noqa: B023  it is called within the round

        try:
            with before_access(number, other):
                report = whole_run(world, planned)
        except Transient:
            # The same again is what its remedy says.
            report = whole_run(world, planned)
        for step in STEPS[ahead:]:
            report = step(world, planned) or report
        assert_published_once(world, planned, report)
        if not acted:
            break
    assert number > 20
