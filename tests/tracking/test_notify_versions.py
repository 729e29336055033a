"""Each schema version is told of once, whatever was told before."""

from __future__ import annotations

import pytest

from strata_cdc.store.database import open_store
from strata_cdc.store.notified import NotifiedLedger
from strata_cdc.tracking.track_schema import track_files
from strata_cdc.tracking.watch.notify_versions import unsent_versions

pytestmark = pytest.mark.mysql


@pytest.fixture
def engine(mysql_server):
    """A store with the versions of five statements, and those of another source."""
    mysql_server.run_sql("DROP DATABASE IF EXISTS told; FLUSH BINARY LOGS; CREATE DATABASE told;")
    long = ", ".join(f"'{number:04}'" for number in range(300))
    mysql_server.run_sql(
        f"CREATE TABLE t (a INT, e ENUM({long})); INSERT INTO t VALUES (1, 1); ALTER TABLE t ADD b INT;"
        "RENAME TABLE t TO u; DROP TABLE u",
        "told",
    )
    engine = open_store("sqlite://")
    for source in ("shop", "other"):
        track_files([str(mysql_server.binlogs()[-1])], engine, source)
    return engine


def test_a_version_is_told_of_with_its_gtid_tables_and_the_beginning_of_its_statement(engine):
    reported = unsent_versions(engine, "shop", 0)
    assert {one.source for one in reported} == {"shop"}
    words = [one.statement.split()[0] for one in reported if one.origin == "ddl"]
    assert words == ["CREATE", "CREATE", "ALTER", "RENAME", "DROP"]
    assert reported[-2].tables == ("told.t", "told.u")
    assert all(len(one.statement) <= 1000 for one in reported)
    assert len({one.gtid for one in reported if one.origin == "ddl"}) == 5


def test_what_was_told_is_not_told_again_also_when_the_receiver_forgets(engine):
    reported = unsent_versions(engine, "shop", 0)
    assert unsent_versions(engine, "shop", 0) == reported  # whoever asked has died before it told anybody
    newest = reported[-1].version
    assert unsent_versions(engine, "shop", reported[1].version) == reported[2:]
    assert unsent_versions(engine, "shop", newest) == []
    assert unsent_versions(engine, "shop", 0) == []
    assert NotifiedLedger(engine).version("shop") == newest
    assert len(unsent_versions(engine, "other", 0)) == len(reported)


def test_many_are_told_of_in_turn(engine):
    everything = unsent_versions(engine, "shop", 0)
    found, sent = [], 0
    while reported := unsent_versions(engine, "shop", sent, most=2):
        assert len(reported) <= 2
        found += reported
        sent = reported[-1].version
    assert found == everything
