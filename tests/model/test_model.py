"""With all rules nothing is an orphan and nothing missing, whatever happens in whatever order."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.anomalies import anomalies
from tests.model.cluster import Cluster
from tests.model.jobs import NEW_DEFAULT, Kind
from tests.model.machine import (
    COLUMNS_AND_INDEXES,
    EXCHANGE,
    PARTITIONED,
    PARTITIONS,
    PLAIN,
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
    # A history often ends before it has this length.
    count = (STEPS or 3000) // LENGTH
    drawn = settings(derandomize=not STEPS, database=None, max_examples=count, stateful_step_count=LENGTH)
    run_state_machine_as_test(machine, settings=drawn)
    assert machine.steps > (STEPS or 3000) / 2
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


@pytest.mark.parametrize("kind", [Kind.ADD_INDEX, Kind.DROP_COLUMN, Kind.MODIFY_COLUMN])
@pytest.mark.parametrize("elements", [TWO_COLUMNS, (*PARTITIONED, TWO_COLUMNS[-1])], ids=["table", "partitions"])
def test_work_leaves_the_rows_of_a_dropped_range_alone(elements, kind):
    """They are there until their range is deleted, and no version that does not know the range is judged by them."""
    cluster = Cluster(list(elements))
    cluster.submit(Kind.TRUNCATE_TABLE)
    cluster.load(0)
    assert cluster.write(0, 1, 0)
    assert cluster.write(1, 1, 0)
    assert not list(anomalies(cluster))
    cluster.load(1)
    assert cluster.submit(kind)
    finish(cluster)
    assert {row.part for row in cluster.store.rows} & cluster.store.dropped == {3}


def test_a_column_with_a_default_is_converted():
    """A row from before ADD COLUMN has the default, and a row from after it a value; MODIFY COLUMN converts both."""
    cluster = Cluster(list(PLAIN))
    cluster.write(0, 1, 0)
    for kind, choice in ((Kind.ADD_COLUMN, 0), (Kind.MODIFY_COLUMN, 1)):
        assert cluster.submit(kind, choice)
        finish(cluster)
        cluster.load(0)
        cluster.load(1)
        assert cluster.write(0, 2, 1)
    added = cluster.newest.public_columns[-1]
    assert [row[added.id] for row in cluster.store.rows.values()] == [str(NEW_DEFAULT), "1"]


def finish(cluster):
    """The job, with all nodes at its versions; no state on the way is wrong."""
    while cluster.job:
        cluster.load(0)
        cluster.load(1)
        cluster.reorganise()
        cluster.advance()
        assert not list(anomalies(cluster))


@pytest.mark.skipif(not STEPS, reason="takes minutes")
@pytest.mark.parametrize("more", [(*BACKFILL, *TIME), (*TRANSACTIONS, *BACKFILL, *TROUBLE)], ids=["time", "trouble"])
@pytest.mark.parametrize("locks_metadata", [False, True])
@pytest.mark.parametrize("kind", Kind)
def test_no_state_is_wrong_with_time_open_transactions_and_crashes(kind, locks_metadata, more):
    for cluster in reachable(all_rules(kind, (*more, *AFTERWARDS), locks_metadata)):
        assert cluster.versions_apart() <= 1
        assert not list(anomalies(cluster)), cluster.history.table("this state is wrong")
