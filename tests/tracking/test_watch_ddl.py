"""The watch over a live server's stream: each DDL once, whatever was in between, and nothing else."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from msgspec import structs

from strata_cdc.config.settings import Settings, SourceSettings
from strata_cdc.errors import SettingsError, SourceDivergedError, SourceUnavailableError
from strata_cdc.store.database import open_store
from strata_cdc.store.notified import NotifiedLedger
from strata_cdc.tracking.watch.watch_ddl import DdlWatch
from tests.mysql_server import launch

pytestmark = pytest.mark.mysql

WITHIN_SECONDS = 10


@pytest.fixture
def settings(server, tmp_path):
    """Settings that watch the server, with a store of the test's own."""
    server.run_sql("DROP DATABASE IF EXISTS shop; CREATE DATABASE shop; CREATE TABLE shop.t (a INT)")
    given = SourceSettings("c", store=f"sqlite:///{tmp_path}/store.db", watch_replication_stream=True)
    return Settings(str(tmp_path), {"shop": given}, find_connection=lambda _: server.url)


def begin(settings):
    """A watch that has connected."""
    watch = DdlWatch.open("shop", settings)
    assert watch.next() == []
    return watch


def receive(watch, count, *, seconds=WITHIN_SECONDS):
    """So many notices, and whatever comes with the last of them."""
    found = []
    deadline = time.monotonic() + seconds
    while len(found) < count:
        assert time.monotonic() < deadline, found
        found += watch.next()
    return found


def receive_until(watch, server, mark):
    """All notices before a last one, which this makes."""
    server.run_sql(f"CREATE DATABASE {mark}; DROP DATABASE {mark}")
    found = []
    while not any(mark in one.notice.statement for one in found):
        found += receive(watch, 1)
    return found[: [mark in one.notice.statement for one in found].index(True)]


def test_ddl_is_seen_at_once_with_its_gtid_and_tables_and_nothing_else_is(server, settings):
    watch = begin(settings)
    before = server.run_sql("SELECT @@gtid_executed").split()[-1]
    server.run_sql(
        "INSERT INTO t VALUES (1), (2); CREATE USER u; DROP USER u; FLUSH BINARY LOGS; ANALYZE TABLE t;"
        "CREATE TEMPORARY TABLE x (a INT); UPDATE t SET a = 3; ALTER TABLE t ADD b VARCHAR(9) COMMENT 'ü';"
        "DELETE FROM t; RENAME TABLE t TO u; TRUNCATE u; DROP TABLE u",
        "shop",
    )
    found = receive(watch, 4)
    watch.close()
    assert [(one.notice.statement.split()[0], one.notice.tables) for one in found] == [
        ("ALTER", ("shop.t",)),
        ("RENAME", ("shop.t", "shop.u")),
        ("TRUNCATE", ("shop.u",)),
        ("DROP", ("shop.u",)),
    ]
    executed = server.run_sql(f"SELECT GTID_SUBTRACT(@@gtid_executed, '{before}')").split()[-1]
    uuid, _, last = executed.rpartition("-")
    assert found[-1].notice.gtid == f"{uuid.rpartition(':')[0]}:{last}"
    assert "COMMENT 'ü'" in found[0].notice.statement
    assert found[0].notice.id == f"shop/{found[0].notice.gtid}/1"


def test_what_was_missed_comes_once_and_what_was_not_confirmed_comes_again(server, settings):
    watch = begin(settings)
    server.run_sql("ALTER TABLE t ADD b INT; ALTER TABLE t ADD c INT", "shop")
    first, second = receive(watch, 2)
    watch.confirm(first)
    watch.close()
    server.run_sql("ALTER TABLE t ADD d INT; INSERT INTO t VALUES (1, 2, 3, 4); ALTER TABLE t DROP a", "shop")
    watch = begin(settings)
    found = receive(watch, 3)
    assert [one.notice.statement for one in found] == [
        "ALTER TABLE t ADD c INT",
        "ALTER TABLE t ADD d INT",
        "ALTER TABLE t DROP a",
    ]
    assert found[0] == second
    for one in found:
        watch.confirm(one)
    watch.close()
    watch = begin(settings)
    assert receive_until(watch, server, "mark_a") == []
    watch.close()


def test_a_source_that_was_never_watched_begins_with_what_comes(server, settings):
    watch = begin(settings)
    watch.close()
    assert NotifiedLedger(open_store(settings.sources["shop"].store)).watched("shop")
    server.run_sql("ALTER TABLE t ADD b INT", "shop")
    watch = begin(settings)
    assert [one.notice.statement for one in receive(watch, 1)] == ["ALTER TABLE t ADD b INT"]
    watch.close()


def test_compressed_transactions_large_ones_and_those_with_rows_behind_their_ddl(server, settings):
    watch = begin(settings)
    server.run_sql(
        "SET binlog_transaction_compression = ON; SET cte_max_recursion_depth = 100000;"
        "CREATE TABLE big (a INT, b TEXT); INSERT INTO big WITH RECURSIVE n (i) AS"
        " (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000) SELECT i, REPEAT('x', 200) FROM n;"
        "SET binlog_transaction_compression = OFF; CREATE TABLE copied AS SELECT * FROM big;"
        "SET binlog_transaction_compression = ON; CREATE TABLE packed AS SELECT * FROM big LIMIT 2000; DROP TABLE big",
        "shop",
    )
    found = receive(watch, 4, seconds=30)
    watch.close()
    assert [one.notice.tables for one in found] == [("shop.big",), ("shop.copied",), ("shop.packed",), ("shop.big",)]


@pytest.mark.parametrize("is_ours", [True, False])
def test_our_own_tables_are_no_news_and_a_database_of_that_name_is(server, settings, is_ours):
    found = structs.replace(settings.sources["shop"], store=None) if is_ours else settings.sources["shop"]
    watch = begin(replace(settings, sources={"shop": found}))
    server.run_sql("CREATE DATABASE IF NOT EXISTS strata; CREATE TABLE strata.mine (id INT)")
    reported = {table for one in receive_until(watch, server, "mark_b") for table in one.notice.tables}
    assert reported == (set() if is_ours else {"strata.mine"})
    watch.close()
    server.run_sql("DROP DATABASE strata")


def test_a_source_whose_watch_is_switched_off_is_not_watched(settings):
    off = replace(settings, sources={"shop": structs.replace(settings.sources["shop"], watch_replication_stream=False)})
    assert (settings.watched(), off.watched()) == (["shop"], [])
    with pytest.raises(SettingsError, match="not watched"):
        DdlWatch.open("shop", off)


def test_a_server_that_goes_away_and_comes_back_is_watched_without_a_gap(tmp_path):
    server = launch(tmp_path / "server")
    given = SourceSettings("c", store=f"sqlite:///{tmp_path}/store.db", watch_replication_stream=True)
    settings = Settings(str(tmp_path), {"shop": given}, find_connection=lambda _: server.url)
    try:
        watch = begin(settings)
        server.run_sql("CREATE DATABASE shop; CREATE TABLE shop.t (a INT)")
        assert len(receive(watch, 2)) == 2
        # A server that stops waits 10 s for its replicas.
        server.run_sql(f"KILL {dump_thread(server)}")
        with pytest.raises(SourceUnavailableError):
            receive(watch, 1)
        server.stop()
        with pytest.raises(SourceUnavailableError):
            watch.next()
        server = launch(tmp_path / "server", port=server.port)
        server.run_sql("DROP TABLE shop.t")
        assert [one.notice.tables for one in receive(watch, 1)] == [("shop.t",)]
        watch.close()
        check_purged(server, settings)
    finally:
        server.kill()


def dump_thread(server):
    """The connection of the watch."""
    lines = server.run_sql("SHOW PROCESSLIST").splitlines()
    return next(line.split("\t")[0] for line in lines if "Binlog Dump GTID" in line)


def check_purged(server, settings):
    """What can no longer be looked at is told, once; a server that has less is refused."""
    server.run_sql("CREATE DATABASE a; FLUSH BINARY LOGS; FLUSH BINARY LOGS; CREATE DATABASE b;")
    server.run_sql("PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY")
    purged = server.run_sql("SELECT @@gtid_purged").split()[-1]
    watch = DdlWatch.open("shop", settings)
    found = receive(watch, 1)
    assert found[0].notice.lost
    assert found[0].notice.gtid.rpartition("-")[2] == purged.rpartition("-")[2]
    for one in found:
        watch.confirm(one)
    for one in receive(watch, 1):
        assert "DATABASE b" in one.notice.statement
        watch.confirm(one)
    watch.close()
    begin(settings).close()
    server.run_sql("RESET BINARY LOGS AND GTIDS")
    with pytest.raises(SourceDivergedError):
        begin(settings)
