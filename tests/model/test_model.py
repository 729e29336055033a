"""With all rules nothing is an orphan and nothing missing, whatever happens in whatever order."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.anomalies import anomalies
from tests.model.jobs import Kind
from tests.model.machine import (
    COLUMNS_AND_INDEXES,
    EXCHANGE,
    PARTITIONED,
    PARTITIONS,
    TWO_COLUMNS,
    Machine,
)
from tests.model.shortest import AFTERWARDS, BACKFILL, TIME, TRANSACTIONS, TROUBLE, all_rules, reachable

STEPS = int(os.environ.get("STRATA_MODEL_STEPS", "0"))
"""So many steps are drawn anew; 0 for a few thousand that are the same each time."""
LENGTH = 50
WORLDS = {
    "columns": (TWO_COLUMNS, COLUMNS_AND_INDEXES),
    "partitions": (PARTITIONED, (*PARTITIONS, Kind.ADD_INDEX, Kind.DROP_INDEX, Kind.TRUNCATE_TABLE)),
    "exchange": (EXCHANGE, (Kind.EXCHANGE_PARTITION,)),
}


@pytest.mark.parametrize("world", WORLDS)
def test_drawn_steps_lead_to_nothing_wrong(world):
    elements, kinds = WORLDS[world]
    machine = type("Drawn", (Machine,), {"elements": elements, "kinds": kinds, "finished": [], "steps": 0})
    drawn = settings(
        derandomize=not STEPS, database=None, max_examples=STEPS // LENGTH // 3 or 25, stateful_step_count=LENGTH
    )
    run_state_machine_as_test(machine, settings=drawn)
    assert machine.steps > (STEPS or 3000) // 3 // 2
    # The steps are not refused all the time: DDL comes to its end, and rows are written meanwhile.
    done = {ddl.kind for cluster in machine.finished for ddl in cluster.stream.ddl()}
    assert len(done) >= min(len(kinds), 3)
    assert sum(len(cluster.stream.rows()) for cluster in machine.finished) > machine.steps / 20


@pytest.mark.parametrize("kind", Kind)
def test_no_state_that_a_small_cluster_reaches_is_wrong(kind):
    """All orders of the steps of two nodes and the owner, while one DDL is done or taken back."""
    states = 0
    for cluster in reachable(all_rules(kind, (*BACKFILL, *AFTERWARDS, ("cancel", ())))):
        assert cluster.versions_apart() <= 1
        assert not list(anomalies(cluster)), cluster.history.table("this state is wrong")
        states += 1
    assert states > 30


@pytest.mark.skipif(not STEPS, reason="takes minutes")
@pytest.mark.parametrize("more", [(*BACKFILL, *TIME), (*TRANSACTIONS, *BACKFILL, *TROUBLE)], ids=["time", "trouble"])
@pytest.mark.parametrize("locks_metadata", [False, True])
@pytest.mark.parametrize("kind", Kind)
def test_no_state_is_wrong_with_time_open_transactions_and_crashes(kind, locks_metadata, more):
    for cluster in reachable(all_rules(kind, (*more, *AFTERWARDS), locks_metadata)):
        assert cluster.versions_apart() <= 1
        assert not list(anomalies(cluster)), cluster.history.table("this state is wrong")
