"""The law: whoever began, failed, died or asked for what, after one more run without faults every change of every
wanted table is published exactly once, or is listed with the reason."""

from __future__ import annotations

import re
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strata_cdc.errors import SettingsError, StrataError, StreamHoleError, Usage
from strata_cdc.pipeline.plan.pending import RunRequest, WorkChoice
from strata_cdc.pipeline.quarantine import decide
from strata_cdc.pipeline.quarantine.decide import Decider
from strata_cdc.pipeline.quarantine.find import QuarantineFilter, find
from strata_cdc.runs.run_folder import read_plan, run_folder
from strata_cdc.store.table_intervals import IntervalState
from strata_cdc.store.tables import table_interval
from tests.binlog.binlogs import SERVER
from tests.pipeline.owed_world import BEGIN, EAGER, MINUTE, TABLES, Died, World, dying_before_write

if TYPE_CHECKING:
    from collections.abc import Iterator

PERIOD = 5 * MINUTE


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def scheduled(world: World) -> RunRequest:
    """The run of the data interval that ended last."""
    end = world.now // PERIOD * PERIOD
    return RunRequest(end - PERIOD, end, choice=WorkChoice.PENDING)


def live(world: World, *tables: str) -> None:
    """A period in which each of some tables gets a row, and half a period more."""
    for table in tables:
        world.now += MINUTE // 2
        world.change(table, [world.gno])
    world.now = world.now // PERIOD * PERIOD + PERIOD + MINUTE


def states(world: World) -> dict[str, set[IntervalState]]:
    found: dict[str, set[IntervalState]] = {}
    for entry in world.open_entries():
        found.setdefault(entry.table, set()).add(entry.state)
    return found


# What drills had found ---------------------------------------------------------------------------


def test_a_plan_before_tracking_takes_nothing_away(world: World) -> None:
    live(world, "a", "b")
    world.plan(RunRequest())
    with pytest.raises(Usage, match="nothing has landed"):
        world.plan(RunRequest(BEGIN, world.now))
    world.land_only()
    with pytest.raises(Usage, match="Run `strata track"):
        world.plan(RunRequest())
    world.run(RunRequest())
    world.assert_nothing_is_lost()
    assert sum(world.published("a").values()) == 1


def test_a_span_whose_binlog_is_gone_says_from_when_there_is_something(tmp_path: Path) -> None:
    """Of a server without a past an early span is empty; one that had executed something may have had rows in it."""
    before = RunRequest(BEGIN - 10 * MINUTE, BEGIN - 5 * MINUTE)
    young, old = World(tmp_path / "young"), World(tmp_path / "old", gno=5)
    for world in (young, old):
        live(world, "a")
        world.land()
    assert young.plan(before).tables == 0
    with pytest.raises(StreamHoleError, match="the landed stream begins at 2026-09-21 14:10:00") as caught:
        old.plan(before)
    assert caught.value.gtid == f"{SERVER}:1-5"
    assert old.plan(RunRequest(BEGIN - 5 * MINUTE, old.now)).tables == 1


def test_a_run_of_one_table_leaves_the_others_to_the_schedule(world: World) -> None:
    live(world, "a", "b")
    # Across the boundary of the schedule.
    world.run(RunRequest(BEGIN - MINUTE, world.now, tables=("d.a",)))
    assert states(world) == {"b": {IntervalState.PENDING}}
    world.now += PERIOD
    world.run(scheduled(world))
    world.assert_nothing_is_lost()
    assert states(world) == {}


def test_a_pause_is_made_up_for(world: World) -> None:
    for _ in range(3):
        live(world, "a")
    world.run(scheduled(world))
    world.assert_nothing_is_lost()
    assert sum(world.published("a").values()) == 3


def test_what_failed_is_listed_and_withholds_no_other_table(world: World) -> None:
    live(world, "a", "b")
    world.failing = frozenset({"a"})
    world.run(scheduled(world))
    assert (sum(world.published("a").values()), sum(world.published("b").values())) == (0, 1)
    assert states(world) == {"a": {IntervalState.FAILED}}
    world.failing = frozenset()
    live(world, "a")
    world.run(scheduled(world))
    world.assert_nothing_is_lost()
    assert states(world) == {"a": {IntervalState.FAILED}}, "it waits for somebody to look"
    world.run(RunRequest(failed=True))
    world.assert_nothing_is_lost()
    assert states(world) == {}


def test_a_span_inside_an_interval_does_the_interval_again(world: World) -> None:
    live(world, "a", "b")
    world.run(RunRequest())
    world.land()
    report = world.plan(RunRequest(BEGIN + MINUTE // 2, BEGIN + MINUTE))
    assert (report.intervals, report.rows) == (1, 2)
    world.run(RunRequest(BEGIN + MINUTE // 2, BEGIN + MINUTE))
    world.assert_nothing_is_lost()


def test_a_table_that_is_wanted_later_is_owed_its_past(world: World) -> None:
    world.wanted = ("d.a",)
    live(world, "a", "b")
    world.run(scheduled(world))
    assert states(world) == {}
    world.wanted = ("d.a", "d.b")
    live(world)
    world.run(scheduled(world))
    world.assert_nothing_is_lost()
    assert sum(world.published("b").values()) == 1


@pytest.mark.slow
def test_what_is_owed_is_taken_in_bounds_and_oldest_first(world: World) -> None:
    world.run_mb = 1
    for table in ("a", "b", "a"):
        world.change(table, list(range(250_000)))
        live(world, "c")
        world.land()
    left = []
    for _ in range(3):
        report = world.plan(RunRequest())
        left.append((report.intervals, report.rows, report.left.transactions))
        world.run(RunRequest())
    assert left == [(1, 250_001, 4), (1, 250_001, 2), (1, 250_001, 0)]
    world.assert_nothing_is_lost()


def test_intervals_of_a_store_without_the_ledger_are_counted(world: World) -> None:
    live(world, "a", "b")
    world.run(RunRequest(tables=("d.a",)))
    live(world, "a")
    world.run(scheduled(world))
    live(world, "c")
    world.run(RunRequest(tables=("d.a",)))
    with world.engine.begin() as connection:
        connection.execute(table_interval.delete())
    report = world.plan(RunRequest(world.now - 1, world.now, choice=WorkChoice.PENDING))
    assert report.rows == 1, "what is published is known from its own ledger"
    world.run(scheduled(world))
    world.assert_nothing_is_lost()


def test_different_selections_never_share_a_folder(world: World) -> None:
    live(world, "a", "b", "c")
    world.land()
    patterns = [("d.a",), ("d.b",), ("d.a", "d.b"), *((f"d.[{'c' * 90}{n}]", "d.c") for n in "12")]
    runs = [world.plan(RunRequest(tables=tables)) for tables in patterns]
    planned = [{one.table for one in read_plan(run_folder(world.source.lake, "s", run.run)).tables} for run in runs]
    # What has the same in it is the same run.
    assert planned == [{"a"}, {"b"}, {"a", "b"}, {"c"}, {"c"}]
    assert len({run.run for run in runs}) == 4


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("d", "matches no table, because it has no dot: do you mean d.*?"),
        ("D.*", "matches no table: do you mean d.*?"),
        ("d.bb", "matches no table: do you mean d.b?"),
        ("other.*", "matches no table"),
    ],
)
def test_a_selection_that_matches_no_table_is_refused(world: World, pattern: str, said: str) -> None:
    live(world, "a", "b")
    world.land()
    with pytest.raises(Usage, match=re.escape(f'"{pattern}" {said}')):
        world.plan(RunRequest(tables=("d.a", pattern)))


def test_settings_that_want_no_table_are_refused_and_told_of_the_rest(world: World) -> None:
    world.wanted = ("ext.*", "d.a")
    live(world, "a", "b")
    world.land()
    report = world.plan(RunRequest(tables=("d.b", "d.a")))
    assert report.unmatched == ('"d.b" matches only tables that the settings exclude', '"ext.*" matches no table')
    world.wanted = ("D.*",)
    with pytest.raises(SettingsError, match=re.escape('sources.s.tables: "D.*" matches no table: do you mean d.*?')):
        world.plan(RunRequest())


def test_who_plans_the_same_at_once_publishes_it_once(world: World) -> None:
    live(world, "a", "b")
    first, second = world.steps(scheduled(world)), world.steps(RunRequest())
    for step in (first, second) * 6:
        next(step, None)
    world.run(scheduled(world))
    world.assert_nothing_is_lost()


def assert_whole_before_and_after_a_merge(world: World) -> None:
    for is_merged in (False, True):
        if is_merged:
            world.now += 120 * MINUTE
            assert not [step for step in world.merge() if step.fault]
        world.assert_nothing_is_lost()
        world.assert_intervals_are_whole()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_run_that_died_before_any_of_its_writes_is_made_up_for(tmp_path: Path) -> None:
    died = 0
    begun = World(tmp_path / "begun")
    live(begun, "a")
    begun.run(scheduled(begun))
    live(begun, "a", "b")
    for last in range(1, 1000):
        world = begun.copied(tmp_path / str(last))
        try:
            with dying_before_write(last):
                world.run(scheduled(world))
        except Died:
            died += 1
        else:
            break
        world.now += PERIOD
        world.run(scheduled(world))
        assert_whole_before_and_after_a_merge(world)
        assert (states(world), sum(world.published("a").values())) == ({}, 2), last
    assert died > 20


# All of it together ------------------------------------------------------------------------------

TIMES = st.integers(0, 30).map(lambda minutes: BEGIN + minutes * MINUTE)
SOME = st.sets(st.sampled_from(TABLES), min_size=1).map(lambda names: tuple(f"d.{name}" for name in sorted(names)))
SPANS = st.tuples(TIMES, TIMES).filter(lambda span: span[0] < span[1])
REQUESTS = st.one_of(
    st.just(None),
    st.builds(RunRequest, tables=st.one_of(st.just(()), SOME), failed=st.booleans()),
    st.builds(lambda span, tables: RunRequest(*span, tables=tables), SPANS, st.one_of(st.just(()), SOME)),
)
"""None: the schedule's."""
HOURS = st.sampled_from([24, -1_000_000])
"""How long a run that was not published is taken for one that is at work; never."""
STEPS = st.one_of(
    st.tuples(st.just("change"), st.sampled_from(TABLES), st.integers(1, 3)),
    st.tuples(st.just("wait"), st.integers(1, 7)),
    st.tuples(st.just("land")),
    st.tuples(st.just("want"), SOME),
    st.tuples(st.just("fail"), st.sets(st.sampled_from(TABLES), max_size=1)),
    st.tuples(st.just("run"), REQUESTS),
    st.tuples(st.just("die"), REQUESTS, st.integers(1, 60)),
    st.tuples(st.just("decide"), st.sampled_from([decide.release, decide.discard]), st.integers(1, 20)),
    st.tuples(st.just("both"), REQUESTS, REQUESTS, st.permutations([0, 1] * 6)),
    st.tuples(st.just("merge"), HOURS),
    st.tuples(st.just("die merging"), HOURS, st.integers(1, 30)),
    st.tuples(st.just("beside a merge"), REQUESTS, HOURS, st.permutations([0] * 6 + [1] * 4)),
)


def resolve(world: World, request: RunRequest | None) -> RunRequest:
    return scheduled(world) if request is None else request


def decide_on_all(world: World, deed: Any) -> None:
    for found in find(world.source, world.engine, QuarantineFilter()):
        with suppress(StrataError):
            deed(world.source, world.engine, found, Decider("so it is", "somebody", world.now))


def step(world: World, action: tuple[Any, ...]) -> None:
    match action:
        case "change", table, rows:
            world.change(table, list(range(rows)))
        case "wait", minutes:
            world.now += minutes * MINUTE
        case ("land",):
            world.land()
        case "want", tables:
            world.wanted = tables
        case "fail", tables:
            world.failing = frozenset(tables)
        case "run", request:
            world.run(resolve(world, request))
        case "die", request, last:
            with suppress(Died), dying_before_write(last):
                world.run(resolve(world, request))
        case "decide", deed, last:
            with suppress(Died), dying_before_write(last):
                decide_on_all(world, deed)
        case "both", one, other, order:
            runs: list[Iterator[None]] = [world.steps(resolve(world, one)), world.steps(resolve(world, other))]
            for number in order:
                with suppress(StrataError):
                    next(runs[number], None)
        case _:
            merge_step(world, action)


def merge_step(world: World, action: tuple[Any, ...]) -> None:
    match action:
        case "merge", hours:
            world.merge(replace(EAGER, run_hours=hours))
        case "die merging", hours, last:
            with suppress(Died), dying_before_write(last):
                world.merge(replace(EAGER, run_hours=hours))
        case "beside a merge", request, hours, order:
            works: list[Iterator[Any]] = [
                world.steps(resolve(world, request)),
                world.merging(replace(EAGER, run_hours=hours)),
            ]
            for number in order:
                with suppress(StrataError):
                    next(works[number], None)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@given(st.lists(STEPS, min_size=3, max_size=12))
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_nothing_is_lost_and_nothing_comes_twice(actions: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        world.now += MINUTE
        for action in actions:
            step(world, action)
        world.failing = frozenset()
        world.wanted = ("d.*",)
        world.now += 2 * PERIOD
        world.run(scheduled(world))
        assert_whole_before_and_after_a_merge(world)
