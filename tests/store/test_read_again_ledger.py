"""Tables that wait to be read again; the step of the store's format that brings them."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from strata_cdc.schema.history.partition_changes import partition_changes
from strata_cdc.store.database import open_store, reading, writing
from strata_cdc.store.migrations import FORMAT
from strata_cdc.store.read_again import ReadAgainLedger, TableToRead
from strata_cdc.store.tables import store_format, tracked_position

LATER = {"time_zone", "server_id", "thread_id", "invoker"}
"""Columns of `schema_version` that formats 7 and 8 brought."""


@pytest.fixture(params=["sqlite", *(pytest.param(family, marks=pytest.mark.mysql) for family in ("mysql", "mariadb"))])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    server = request.getfixturevalue(f"{request.param}_server")
    server.run_sql("DROP DATABASE IF EXISTS waiting")
    return f"{server.url}waiting"


def one(table="t", seq=5, reason="uuid()", noticed_at=1):
    return TableToRead("s", "d", table, seq, reason, noticed_at)


def test_what_waits_is_told_once_and_keeps_what_was_tried(url):
    ledger = ReadAgainLedger(open_store(url))
    judged = [("d", "t"), ("d", "u")]
    assert ledger.notice("s", [one()], judged) == (one(),)
    ledger.begin("s", "d", "t", 7)
    ledger.failed("s", "d", "t", "the server went away")
    assert ledger.notice("s", [one(noticed_at=9)], judged) == ()
    [found] = ledger.all("s")
    assert (found.noticed_at, found.tries, found.tried_at, found.error) == (1, 1, 7, "the server went away")
    ledger.begin("s", "d", "t", 8)
    assert [(found.tries, found.error) for found in ledger.all("s")] == [(2, None)]
    # It stands somewhere else by now: that is news.
    assert ledger.notice("s", [one(seq=6), one("u", None)], judged) == (one(seq=6), one("u", None))
    assert ledger.notice("s", [one(seq=6)], [("d", "t")]) == (), "what was not looked at stays"
    assert [found.name for found in ledger.all("s")] == ["d.t", "d.u"]
    ledger.done("s", "d", "t")
    assert ledger.notice("s", [], judged) == ()
    assert ledger.all("s") == []


def test_a_store_of_the_format_before_gets_them(url):
    engine = open_store(url)
    with writing(engine) as connection:
        for table in ("read_again", "partition_change"):
            connection.execute(sa.text(f"DROP TABLE {table}"))
        for column in sorted(LATER):
            connection.execute(sa.text(f"ALTER TABLE schema_version DROP COLUMN {column}"))
        known = {
            "source": "s",
            "revision": 1,
            "seq": 9,
            "gtid_executed": "",
            "committed_at": 0,
            "server_version": 90704,
        }
        connection.execute(tracked_position.insert().values(lower_case_table_names=0, **known))
        connection.execute(store_format.update().values(format=6))
    engine.dispose()
    again = open_store(url)
    assert ReadAgainLedger(again).all("s") == []
    with reading(again) as connection:
        assert connection.execute(sa.select(store_format.c.format)).scalar_one() == FORMAT
        assert {found["name"] for found in sa.inspect(connection).get_columns("schema_version")} >= LATER
    # What was done to partitions before is not known.
    assert [(change.seq, change.name.table) for change in partition_changes(again, "s")] == [(9, "")]
    again.dispose()
