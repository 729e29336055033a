"""Rows that were withheld: found, released as they are, discarded; a death at any write, and a run in between."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from strata_cdc.errors import AlreadyRunningError, DamagedFileError, Usage
from strata_cdc.pipeline import ingest
from strata_cdc.pipeline.plan.pending import RunRequest
from strata_cdc.pipeline.quarantine import decide
from strata_cdc.pipeline.quarantine.decide import Decider, DecisionOutcome
from strata_cdc.pipeline.quarantine.find import InQuarantine, QuarantineFilter, find
from strata_cdc.pipeline.quarantine.look import some_rows
from strata_cdc.progress.status import source_status
from strata_cdc.store.decisions import DecisionLedger, Verb
from strata_cdc.store.ledgers import PublishedLedger
from strata_cdc.store.table_intervals import IntervalState, TableIntervalLedger
from strata_cdc.store.verdicts import VerdictLedger
from strata_cdc.store.verdicts import VerdictOutcome as Judged
from strata_cdc.tables.quarantine import in_quarantine
from tests.interposed import interposed
from tests.pipeline.owed_world import MINUTE, Died, World, dying_before_write

PERIOD = 5 * MINUTE
WHO = Decider("the rule is wrong", "ada", 77)


def failed_world(folder: Path, intervals: int = 2) -> World:
    """Intervals with rows of two tables; those of `a` have failed."""
    world = World(folder)
    for _ in range(intervals):
        for table, values in (("a", [1, 2]), ("b", [3])):
            world.now += MINUTE // 2
            world.change(table, values)
        world.now = world.now // PERIOD * PERIOD + PERIOD + MINUTE
        world.failing = frozenset("a")
        world.run(RunRequest())
    return world


@pytest.fixture
def world(tmp_path: Path) -> World:
    return failed_world(tmp_path)


def found(world: World, **chosen: Any) -> list[InQuarantine]:
    return find(world.source, world.engine, QuarantineFilter(**chosen))


def act(world: World, deed: Any, **chosen: Any) -> list[DecisionOutcome]:
    return [deed(world.source, world.engine, one, WHO) for one in found(world, **chosen)]


def left_behind(world: World) -> Any:
    """All that a decision changes: rows, states, notes and decisions; without clocks and Delta's versions."""
    entries = TableIntervalLedger(world.engine).select("s", tuple(IntervalState))
    notes = PublishedLedger(world.engine).list("s")
    return (
        world.published("a"),
        [replace(entry, changed_at=0, run="", start=0, reason=None) for entry in entries],
        [(note.table, note.rows, note.details.schema_versions) for note in notes],
        [replace(one, run="", start_at=0) for one in DecisionLedger(world.engine).select("s")],
    )


def test_what_is_withheld_is_found(world: World) -> None:
    first, second = found(world)
    assert [(one.withheld.table_interval.name, one.withheld.rows, one.kept_rows) for one in (first, second)] == [
        ("d.a", 2, 2)
    ] * 2
    assert first.withheld.reasons == ("x",)
    assert [one.message for one in first.withheld.failures] == ["does not hold"]
    assert found(world, tables=("d.b",)) == []
    assert found(world, tables=("d.*",), reason="x") == [first, second]
    assert found(world, reason="y*") == []
    start = second.withheld.table_interval.start
    assert found(world, at=start) == found(world, at=second.end - 1) == [second]
    with pytest.raises(Usage, match="matches no table"):
        found(world, tables=("d.nothing",))
    assert [row["id"] for row in some_rows(world.source, world.engine, first, 5)] == [1, 2]
    status = source_status(world.source, world.engine, now=world.now)
    [of_a] = [table for table in status.tables if table.table == "d.a"]
    assert [(one.reason, one.intervals, one.rows) for one in of_a.reasons] == [("x", 2, 4)]


def test_verdicts_are_in_the_store(world: World) -> None:
    starts = [one.withheld.table_interval.start for one in found(world)]
    stored = VerdictLedger(world.engine).select("s", starts)
    of = {(one.start, one.table): one for one in stored}
    assert {one.table for one in stored} == {"", "d.a", "d.b"}
    for start in starts:
        assert [of[start, name].outcome for name in ("", "d.a", "d.b")] == [Judged.PASSED, Judged.FAILED, Judged.PASSED]
        assert (of[start, "d.a"].details.versions, of[start, "d.a"].details.rows) == ((1,), 2)
        assert of[start, "d.a"].details.staged != of[start, "d.b"].details.staged


def test_released_rows_are_published_as_they_are(world: World) -> None:
    outcomes = act(world, decide.release)
    assert [(one.rows, one.state, one.left) for one in outcomes] == [(2, IntervalState.PUBLISHED, 0)] * 2
    assert world.published("a") == world.committed["a"]
    assert found(world) == [] == world.open_entries()
    assert {(one.verb, one.because, one.decided_by, one.rows) for one in DecisionLedger(world.engine).select("s")} == {
        (Verb.RELEASE, WHO.because, WHO.by, 2)
    }
    # The same run again has the same rows and the same verdict: it is decided.
    for run in sorted(world.runs()):
        report = ingest.publish("s", run, settings=world.settings)
        assert not report.withheld
    assert (world.published("a"), found(world)) == (world.committed["a"], [])


def test_discarded_rows_are_owed_no_more_and_never_forgotten(world: World) -> None:
    start = found(world)[0].withheld.table_interval.start
    assert [one.rows for one in act(world, decide.discard, at=start)] == [2]
    assert len(found(world)) == 1
    world.failing = frozenset()
    world.run(RunRequest(failed=True))
    entry = TableIntervalLedger(world.engine).get("s", start, "d", "a")
    assert entry is not None
    assert (entry.state, entry.published_rows, entry.reason is not None) == (IntervalState.DISCARDED, 0, True)
    assert sum(world.published("a").values()) == 2, "of the other interval"
    [of_a] = [one for one in source_status(world.source, world.engine, now=world.now).tables if one.table == "d.a"]
    assert (of_a.discarded_rows, of_a.failed_rows) == (2, 0)
    assert in_quarantine(world.source.lake, "s") == [], "what is settled goes in time"
    # Who asks for the span itself gets it.
    world.run(RunRequest(start, start + PERIOD))
    assert world.published("a") == world.committed["a"]


def test_a_later_good_run_clears_it(world: World) -> None:
    world.failing = frozenset()
    world.run(RunRequest(failed=True))
    assert (found(world), world.published("a")) == ([], world.committed["a"])


def test_nothing_else_than_what_was_checked_is_released(world: World) -> None:
    first, second = found(world)
    path = Path(first.judged[0].url)
    before = path.read_bytes()
    path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    with pytest.raises(DamagedFileError, match="has other bytes"):
        decide.release(world.source, world.engine, first, WHO)
    path.unlink()
    with pytest.raises(DamagedFileError, match="is gone"):
        decide.release(world.source, world.engine, first, WHO)
    # A list of files that somebody has written, of another interval's rows.
    swapped = replace(first, judged=second.judged)
    with pytest.raises(DamagedFileError, match="not all of those that the verdict is on"):
        decide.release(world.source, world.engine, swapped, WHO)
    nothing = replace(first, judged=())
    with pytest.raises(Usage, match="none of the rows are in quarantine"):
        decide.release(world.source, world.engine, nothing, WHO)
    assert DecisionLedger(world.engine).select("s") == []
    assert sum(world.published("a").values()) == 0


@pytest.mark.parametrize("deed", [decide.discard, decide.release], ids=["discard", "release"])
def test_a_run_in_between_is_not_undone(world: World, deed: Any) -> None:
    [one, _] = found(world)
    world.failing = frozenset()

    def after_a_run(settle: Any, *given: Any) -> Any:
        world.run(RunRequest(failed=True))
        return settle(*given)

    with (
        interposed(after_a_run, (DecisionLedger, "settle")),
        pytest.raises(AlreadyRunningError, match="a run has changed the interval"),
    ):
        deed(world.source, world.engine, one, WHO)
    entry = TableIntervalLedger(world.engine).get("s", one.withheld.table_interval.start, "d", "a")
    assert entry is not None
    assert entry.state is (IntervalState.PENDING if deed is decide.release else IntervalState.PUBLISHED)
    world.run(RunRequest())
    world.assert_nothing_is_lost()
    assert world.published("a") == world.committed["a"]


@pytest.mark.slow
@pytest.mark.parametrize("deed", [decide.discard, decide.release], ids=["discard", "release"])
def test_it_may_die_before_any_write_and_be_done_again(tmp_path: Path, deed: Any) -> None:
    undisturbed = failed_world(tmp_path / "whole", intervals=1)
    act(undisturbed, deed)
    expected = left_behind(undisturbed)
    writes = 0
    for last in range(1, 100):
        world = failed_world(tmp_path / str(last), intervals=1)
        with dying_before_write(last), suppress(Died):
            act(world, deed)
            break
        writes += 1
        # What is not done is withheld, and said: nothing is published in secret, nothing is forgotten.
        waiting = found(world)
        begun = [one for one in DecisionLedger(world.engine).select("s") if one.done_at is None]
        assert (len(waiting), len(begun) <= 1) == (1, True)
        act(world, deed)
        assert left_behind(world) == expected, last
    # A discard is one transaction; a release begins, makes or changes the table, copies, commits, notes and settles.
    assert writes == 1 if deed is decide.discard else writes >= 6


@pytest.mark.parametrize("deed", [decide.release, decide.discard], ids=["released", "discarded"])
def test_a_backfill_that_fails_again_leaves_a_decision(world: World, deed: Any) -> None:
    [start, _] = [one.withheld.table_interval.start for one in found(world)]
    act(world, deed)
    before = left_behind(world)
    world.run(RunRequest(start, start + 2 * PERIOD))
    assert left_behind(world) == before
    assert (found(world), world.open_entries()) == ([], [])
    assert not [one for one in source_status(world.source, world.engine, now=world.now).tables if one.failed_rows]
    # What passes by then is published, whatever was decided.
    world.failing = frozenset()
    world.run(RunRequest(start, start + 2 * PERIOD))
    entry = TableIntervalLedger(world.engine).get("s", start, "d", "a")
    assert entry is not None
    assert (entry.state, entry.published_rows) == (IntervalState.PUBLISHED, 2)
