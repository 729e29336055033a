"""Runs of transactions without statements are taken at once: what is tracked is the same as one by one."""

from __future__ import annotations

import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_cdc.binlog.sources.files import FileSource
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.tracker.track import Tracker
from strata_cdc.store.database import open_store
from strata_cdc.tracking.feed_tracker import feed
from tests.binlog.binlogs import SERVER, Binlog

OTHER = "11111111-71ca-11e1-9e33-c80aa9429562"
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("rows"), st.integers(1, 12), st.sampled_from([SERVER, OTHER])),
        st.tuples(st.just("again"), st.integers(1, 9), st.just(SERVER)),
        st.tuples(st.just("ddl"), st.sampled_from(["ALTER TABLE t ADD c INT", "GARBAGE TABLE t"]), st.just(SERVER)),
    ),
    max_size=12,
)


def binlog_of(steps):
    """One file: inserts that are numbered on, or anew from a number that was there, and statements between them."""
    binlog, numbers, micros = Binlog(), {SERVER: 1, OTHER: 1}, 0
    binlog.previous()
    for kind, value, server in [("ddl", "CREATE TABLE t (a INT)", SERVER), *steps]:
        if kind == "ddl":
            binlog.gtid(numbers[server], micros=micros, server=server)
            binlog.query(value)
            numbers[server] += 1
            continue
        if kind == "again":
            numbers[server] = max(numbers[server] - value, 1)
        for _ in range(value):
            micros += 10
            binlog.gtid(numbers[server], micros=micros, server=server)
            binlog.query("BEGIN")
            binlog.table_map()
            binlog.write([1])
            binlog.xid()
            numbers[server] += 1
    return bytes(binlog.data)


class OneByOne(Tracker):
    def track_quiet(self, run):
        return False


def tracked(path, parts, *, at_once):
    """Everything in the store after tracking a file that grew."""
    engine = open_store("sqlite://")
    reports = []
    for part in parts:
        path.write_bytes(part)
        tracker = (Tracker if at_once else OneByOne)(SchemaStore(engine), "s")
        reports.append(feed(tracker, FileSource([str(path)], batch_events=7)))
    metadata = sa.MetaData()
    metadata.reflect(engine)
    with engine.connect() as connection:
        stored = {
            table.name: sorted(map(repr, connection.execute(sa.select(table)))) for table in metadata.sorted_tables
        }
    return reports, stored


@given(STEPS, STEPS)
@settings(max_examples=15)
def test_the_same_is_tracked_at_once_and_one_by_one(tmp_path_factory, first, second):
    path = tmp_path_factory.mktemp("quiet") / "b.000001"
    parts = [binlog_of(first), binlog_of([*first, *second])]
    assert tracked(path, parts, at_once=True) == tracked(path, parts, at_once=False)
