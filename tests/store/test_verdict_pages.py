"""Verdicts a page at a time, as the page of the checks asks for them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.store.database import open_store
from strata_cdc.store.verdicts import IntervalOutcome, StoredVerdict, VerdictDetails, VerdictLedger, VerdictOutcome

SOURCES = itertools.count()
"""Each example has a source of its own in the one store."""
tables = st.dictionaries(st.sampled_from(["", "d.a", "d.b", "d.c"]), st.sampled_from(VerdictOutcome), min_size=1)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    return VerdictLedger(open_store(f"sqlite:///{tmp_path_factory.mktemp('verdicts')}/store.db"))


@given(found=st.dictionaries(st.integers(0, 9), tables), limit=st.integers(1, 4), unsound=st.booleans())
def test_pages_hold_every_interval_once_and_the_worst_table_first(ledger, found, limit, unsound):
    source = f"s{next(SOURCES)}"
    ledger.put(
        StoredVerdict(source, start, table, outcome, start + 1, VerdictDetails("run"))
        for start, outcomes in found.items()
        for table, outcome in outcomes.items()
    )
    pages: list[IntervalOutcome] = []
    while page := ledger.outcomes(source, before=pages[-1].start if pages else None, unsound=unsound, limit=limit):
        assert len(page) <= limit
        pages += page
    expected = {
        start: outcomes for start, outcomes in found.items() if not unsound or set(outcomes.values()) != {"passed"}
    }
    assert [one.start for one in pages] == sorted(expected, reverse=True)
    for one in pages:
        reported = [outcome for table, outcome in found[one.start].items() if table or outcome != VerdictOutcome.PASSED]
        assert (one.passed, one.warned, one.failed) == tuple(reported.count(outcome) for outcome in VerdictOutcome)
    ranks = {VerdictOutcome.FAILED: 0, VerdictOutcome.WARNED: 1, VerdictOutcome.PASSED: 2}
    for start, outcomes in found.items():
        steps = range(0, len(outcomes), limit)
        listed = [one for at in steps for one in ledger.of_interval(source, start, offset=at, limit=limit)]
        order = sorted(outcomes, key=lambda table: (ranks[outcomes[table]], table))
        assert [one.table for one in listed] == order
    assert ledger.outcomes("other") == []
