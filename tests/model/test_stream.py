"""The stream of the model: which schema fits which data, and for which DDL it is enough to know when it was done."""

from __future__ import annotations

from functools import reduce

import pytest

from tests.model.jobs import Kind
from tests.model.replay import replayed, stored_table, stream_state
from tests.model.shortest import all_rules, reachable
from tests.model.sink import applied, sink_changes, users_rows
from tests.model.stream import Quadrant, SchemaChange, quadrants

OLD_OLD, NEW_OLD = Quadrant(is_new_data=False, is_new_schema=False), Quadrant(is_new_data=True, is_new_schema=False)
OLD_NEW, NEW_NEW = Quadrant(is_new_data=False, is_new_schema=True), Quadrant(is_new_data=True, is_new_schema=True)
USERS_SEE_NEW_BEFORE_DONE = {Kind.MODIFY_COLUMN, Kind.MULTI_SCHEMA, Kind.TRUNCATE_PARTITION}
"""DDL that goes on after users see what it made: its tail has versions of its own."""


@pytest.fixture(scope="module")
def states():
    """Of each kind of DDL: all states that a small cluster reaches, with their streams."""
    return {kind: list(reachable(all_rules(kind, (("cancel", ()),)), stream_state)) for kind in Kind}


def test_the_stream_is_in_the_order_of_its_timestamps(states):
    for clusters in states.values():
        changes = clusters[-1].stream.changes
        times = [change.finished_ts if isinstance(change, SchemaChange) else change.commit_ts for change in changes]
        assert times == sorted(set(times))


def test_old_data_come_under_a_new_schema_only_if_there_is_no_state_between(states):
    by_kind = {
        kind: set().union(*(quadrants(cluster.stream) for cluster in clusters)) for kind, clusters in states.items()
    }
    assert set().union(*by_kind.values()) == {OLD_OLD, NEW_OLD, OLD_NEW, NEW_NEW}
    assert {kind for kind, those in by_kind.items() if OLD_NEW in those} == {Kind.ADD_PARTITION, Kind.TRUNCATE_TABLE}
    for kind in (Kind.ADD_COLUMN, Kind.DROP_COLUMN, Kind.MODIFY_COLUMN):
        assert by_kind[kind] == {OLD_OLD, NEW_OLD, NEW_NEW}


@pytest.mark.parametrize("kind", Kind)
def test_a_reader_of_done_ddl_has_the_right_rows_unless_users_saw_the_new_before(states, kind):
    """DDL that was taken back included."""
    ended = [cluster for cluster in states[kind] if cluster.newest.number and not cluster.job]
    wrong = [cluster for cluster in ended if replayed(cluster.stream) != stored_table(cluster)]
    assert any(cluster.stream.ddl() for cluster in ended)
    assert bool(wrong) == (kind in USERS_SEE_NEW_BEFORE_DONE)


def test_the_changes_of_a_sink_are_the_table(states):
    """Put together by names of columns, from nothing but what a sink is given."""
    for kind in set(Kind) - USERS_SEE_NEW_BEFORE_DONE:
        for cluster in (cluster for cluster in states[kind] if not cluster.job):
            assert reduce(applied, sink_changes(cluster.stream), {}) == users_rows(cluster)
