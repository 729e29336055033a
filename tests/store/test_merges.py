"""Intervals that become one, on every database that a store can be: what is stored of them becomes what is stored of
the whole, or nothing changes."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from strata_cdc.errors import AlreadyRunningError, StoreUnavailableError
from strata_cdc.store.database import writing
from strata_cdc.store.decisions import Decision, DecisionLedger, Verb
from strata_cdc.store.ledgers import (
    ClosedInterval,
    IntervalLedger,
    PublishedDetails,
    PublishedInterval,
    PublishedLedger,
    VersionRows,
)
from strata_cdc.store.merges import FileMerge, MergeLedger
from strata_cdc.store.owned import owners, require_closed
from strata_cdc.store.table_intervals import IntervalState, TableInterval, TableIntervalLedger
from strata_cdc.store.tables import tracked_position, verdict
from strata_cdc.store.verdicts import FailedRule, StoredVerdict, VerdictDetails, VerdictLedger, VerdictOutcome

if TYPE_CHECKING:
    from collections.abc import Mapping

PUBLISHED, UNWANTED, BLOCKED = IntervalState.PUBLISHED, IntervalState.UNWANTED, IntervalState.BLOCKED


def close(engine: sa.Engine, number: int, tables: Mapping[str, tuple[int, IntervalState]]) -> ClosedInterval:
    """The interval [10 * number, 10 * number + 10) with rows of some tables, each with a note and a verdict."""
    start = 10 * number
    interval = ClosedInterval("s", start, start + 10, start, start + 10, f"u:1-{start + 10}", closed_at=number)
    entries = [
        TableInterval(
            "s", start, "d", name, rows, state, None, rows if state is PUBLISHED else 0, f"run{number}", number
        )
        for name, (rows, state) in tables.items()
    ]
    IntervalLedger(engine).close(interval, entries)
    for name, (rows, state) in tables.items():
        if state is PUBLISHED:
            details = PublishedDetails("", f"run{number}", (number,), (VersionRows(number % 2, rows, rows * 100),))
            note = PublishedInterval("s", start, f"d.{name}", number + 1, rows, 100 + number, details)
            PublishedLedger(engine).put(note)
            rule = FailedRule("rule", None, "warning", f"of {number}")
            outcome = VerdictOutcome.WARNED if number % 3 == 1 else VerdictOutcome.PASSED
            failures = (rule,) if outcome is VerdictOutcome.WARNED else ()
            judged = VerdictDetails(f"run{number}", (number,), rows, 7, failures, "digest", "")
            VerdictLedger(engine).put([StoredVerdict("s", start, f"d.{name}", outcome, number, judged)])
    return interval


def never(_database: str, _table: str) -> bool:
    return False


def test_sums_of_what_is_stored(engine: sa.Engine) -> None:
    rows = {"a": (3, PUBLISHED), "u": (5, UNWANTED)}
    parts = [
        close(engine, 0, rows),
        close(engine, 1, {"b": (2, PUBLISHED)}),
        close(engine, 2, rows),
        close(engine, 3, rows),
    ]
    ledger = MergeLedger(engine)
    assert ledger.merge(parts[:3], never)
    whole = ClosedInterval("s", 0, 30, 0, 30, "u:1-30", closed_at=2)
    assert IntervalLedger(engine).all("s") == [whole, parts[3]]
    entries = {entry.table: entry for entry in TableIntervalLedger(engine).of_interval("s", 0)}
    assert entries["a"] == TableInterval("s", 0, "d", "a", 6, PUBLISHED, None, 6, "run2", 0)
    assert entries["b"] == TableInterval("s", 0, "d", "b", 2, PUBLISHED, None, 2, "run1", 1)
    assert (entries["u"].rows, entries["u"].published_rows, entries["u"].state) == (10, 0, UNWANTED)
    assert not TableIntervalLedger(engine).uncounted("s")
    note = PublishedLedger(engine).get("s", 0, "d.a")
    assert note is not None
    assert (note.delta_version, note.rows, note.published_at) == (3, 6, 102)
    assert (note.details.schema_versions, note.details.by_version) == ((0, 2), (VersionRows(0, 6, 600),))
    (judged,) = VerdictLedger(engine).of_table("s", "d.b", [0])
    assert (judged.outcome, judged.details.failures[0].message, judged.details.staged) == ("warned", "of 1", "")
    assert ledger.pending("s") == [FileMerge("s", 0, "d", name, 30) for name in ("a", "b")]
    # A longer one takes the place of what was pending.
    assert ledger.merge([whole, parts[3]], never)
    assert ledger.pending("s") == [FileMerge("s", 0, "d", name, 40) for name in ("a", "b")]
    assert TableIntervalLedger(engine).last_seq_published("s", ("d", "b"), 1) == 40


def test_files_that_are_merged_are_noted(engine: sa.Engine) -> None:
    parts = [close(engine, number, {"a": (1, PUBLISHED)}) for number in range(2)]
    ledger = MergeLedger(engine)
    assert ledger.merge(parts, never)
    (waiting,) = ledger.pending("s")
    ledger.note_merged(waiting, "d.a", 9, now=50)
    assert not ledger.pending("s")
    assert PublishedLedger(engine).newest("s") == {"d.a": 9}
    assert not ledger.merged("s", 50)
    (done,) = ledger.merged("s", 51)
    ledger.forget(done)
    assert not ledger.merged("s", 51)


@pytest.mark.parametrize("why", ["held", "mixed", "wanted", "decided", "changed", "uncounted"])
def test_what_must_stay_as_it_is(engine: sa.Engine, why: str) -> None:
    states = {"held": BLOCKED, "mixed": UNWANTED}
    parts = [
        close(engine, 0, {"a": (1, PUBLISHED), "u": (1, UNWANTED)}),
        close(engine, 1, {"a": (1, states.get(why, PUBLISHED))}),
    ]
    if why == "decided":
        decision = Decision("s", 10, "d", "a", "run1", Verb.RELEASE, "it is right", "somebody", 1, 1, 2)
        DecisionLedger(engine).begin(decision)
    if why == "uncounted":
        with writing(engine) as connection:
            connection.execute(sa.text("DELETE FROM table_interval WHERE start_at = 10 AND state = 'counted'"))
    given = [parts[0], ClosedInterval("s", 10, 20, 10, 21, "", 1)] if why == "changed" else parts
    assert not MergeLedger(engine).merge(given, lambda _, table: why == "wanted" and table == "u")
    assert IntervalLedger(engine).all("s") == parts
    assert len(VerdictLedger(engine).select("s", [0, 10])) == 2 - (why in states)


def test_where_intervals_are_crowded(engine: sa.Engine) -> None:
    for number in (*range(12), *range(20, 23)):
        close(engine, number, {"a": (1, PUBLISHED)})
    ledger = MergeLedger(engine)
    assert ledger.crowded("s", 100, 1000, most=4) == [0]
    assert ledger.crowded("s", 100, 1000, most=2) == [0, 200]
    assert ledger.crowded("s", 100, 199, most=1) == [0], "the second span has not ended"
    assert ledger.crowded("s", 10, 1000, most=0) == [], "none is shorter"
    assert [candidate.interval.start for candidate in ledger.candidates("s", 100, 200)] == [100, 110]


def test_what_a_run_notes_of_an_interval_that_is_no_more(engine: sa.Engine) -> None:
    parts = [close(engine, number, {"a": (1, PUBLISHED)}) for number in range(2)]
    with writing(engine) as connection:
        require_closed(connection, "s", parts[0])
    assert MergeLedger(engine).merge(parts, never)
    for part in parts:
        with pytest.raises(AlreadyRunningError, match="merged with its neighbours"), writing(engine) as connection:
            require_closed(connection, "s", part)
    owner = owners(IntervalLedger(engine).all("s"))
    assert [owner(start) for start in (0, 10, 15, 20, -1)] == [0, 0, 0, 20, -1]


def test_many_at_once(engine: sa.Engine) -> None:
    """Others merge and note at the same time; sums stay."""
    with writing(engine) as connection:
        values: dict[str, Any] = {"revision": 1, "seq": 1000, "gtid_executed": "", "committed_at": 0}
        values |= {"server_version": 0, "lower_case_table_names": 0}
        connection.execute(tracked_position.insert().values(source="s", **values))
    count = 24
    for number in range(count):
        close(engine, number, {"a": (1, PUBLISHED), "b": (2, PUBLISHED)})

    def work(number: int) -> None:
        chance = random.Random(number)
        for _ in range(8):
            known = IntervalLedger(engine).all("s")
            at = chance.randrange(len(known))
            chosen = known[at : at + chance.randrange(2, 6)]
            with suppress(StoreUnavailableError):
                if len(chosen) > 1:
                    MergeLedger(engine).merge(chosen, never)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    known = IntervalLedger(engine).all("s")
    assert len(known) < count
    assert [interval.start for interval in known] == [0, *(interval.end for interval in known[:-1])]
    totals = {total.table: total for total in TableIntervalLedger(engine).totals("s")}
    assert (totals["a"].rows, totals["b"].rows, totals["a"].intervals) == (count, 2 * count, len(known))
    assert sum(note.rows for note in PublishedLedger(engine).list("s")) == 3 * count
    with engine.connect() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(verdict)).scalar_one() == 2 * len(known)
