"""What no log tells is read from the server again, by the run itself: the mirror equals SELECT at the end."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from strata_cdc.cli.main import run
from strata_cdc.mirrors.dump.folder import DumpFolder
from strata_cdc.mirrors.dump.read import TableReader
from strata_cdc.mirrors.table import Mirror
from strata_cdc.pipeline import ingest
from strata_cdc.pipeline.read_again import read_again, tables_to_read_again
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.database import open_store, writing
from strata_cdc.store.ledgers import PublishedLedger
from strata_cdc.store.tables import published_interval
from strata_cdc.store.verdicts import VerdictLedger
from strata_cdc.tables.commit import publish
from tests.interposed import interposed
from tests.mirrors.shop import Shop

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

# A session that logs rows is refused such an ALTER (9.7, error 1674).
UUIDS = (
    "SET binlog_format = STATEMENT;"
    "ALTER TABLE t ADD COLUMN u VARCHAR(36) CHARACTER SET ascii DEFAULT (UUID()); SET binlog_format = ROW"
)


@pytest.fixture
def shop(server: MysqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    return Shop(server, tmp_path, monkeypatch)


def test_a_run_alone_ends_in_what_the_server_has(
    shop: Shop, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Also of tables whose rows are older than the stream."""
    shop.server.run_sql(
        "CREATE TABLE old (id INT PRIMARY KEY); INSERT INTO old VALUES (1), (2); RESET BINARY LOGS AND GTIDS;"
        "CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1), (2); CREATE TABLE u (id INT PRIMARY KEY)",
        "shop",
    )
    assert run(["run"]) == 0
    said = capsys.readouterr().out
    assert "read again 2 rows of shop.old" in said
    shop.assert_equal("old", "t", "u")
    shop.server.run_sql(f"INSERT INTO u VALUES (5); {UUIDS}; INSERT INTO t (id) VALUES (3); DELETE FROM old", "shop")
    assert run(["run"]) == 0
    assert "the mirror of shop.t goes no further" in caplog.text
    shop.assert_equal("old", "t", "u")
    assert shop.waiting(capsys) == []
    shop.server.run_sql("UPDATE t SET u = 'x' WHERE id = 1", "shop")
    capsys.readouterr()
    assert run(["run"]) == 0
    assert "read again" not in capsys.readouterr().out
    shop.assert_equal("t")


def test_the_settings_turn_it_off(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.set("mirror_read_again = false")
    shop.server.run_sql(f"CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1); {UUIDS}", "shop")
    for _ in range(2):
        assert run(["run"]) == 0
    assert shop.mirror("t").stopped
    [waiting] = shop.waiting(capsys)
    assert (waiting["table_name"], waiting["tries"], waiting["error"]) == ("t", 0, None)
    assert run(["status"]) == 0
    assert "to be read again: shop.t" in capsys.readouterr().out
    assert run(["dump"]) == 0
    assert shop.waiting(capsys) == [], "a dump by hand ends it, too"
    assert run(["mirror"]) == 0
    shop.assert_equal("t")


def standing(shop: Shop, rows: int = 3) -> None:
    """A mirror that waits for a dump."""
    shop.set("mirror_read_again = false")
    values = ", ".join(f"({n})" for n in range(rows))
    shop.server.run_sql(f"CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES {values}; {UUIDS}", "shop")
    assert run(["run"]) == 0
    shop.set("dump_chunk_mb = 1")
    assert [one.table_name for one in tables_to_read_again("shop", settings=shop.settings)] == ["t"]


def test_what_fails_or_is_killed_is_tried_again(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    standing(shop)

    def dying(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with interposed(dying, (Mirror, "create")), pytest.raises(KeyboardInterrupt):
        read_again("shop", settings=shop.settings)
    folder = DumpFolder(str(shop.folder / "lake"), "shop", TableName("shop", "t"))
    before = folder.manifest()
    assert before is not None
    assert before.is_read
    [waiting] = shop.waiting(capsys)
    assert (waiting["tries"], waiting["error"]) == (1, None)
    # What was read is not read again.
    with interposed(dying, (TableReader, "read_chunk")):
        report = read_again("shop", settings=shop.settings)
    assert [one.chunks for one in report.tables] == [len(before.chunks)]
    ingest.mirror("shop", settings=shop.settings)
    shop.assert_equal("t")
    assert shop.waiting(capsys) == []


def test_the_store_may_be_on_the_source(shop: Shop) -> None:
    """What it writes there is in the stream, behind all that is tracked."""
    shop.set(store="")
    shop.server.run_sql(f"CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1); {UUIDS}", "shop")
    try:
        assert run(["run"]) == 0
        shop.assert_equal("t")
        assert run(["dump", "--table", "shop.t"]) == 0
        assert run(["mirror", "update"]) == 0
        shop.assert_equal("t")
    finally:
        shop.server.run_sql("DROP DATABASE strata")


def test_two_runs_dump_a_table_once(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    standing(shop, rows=500)
    reports = []
    threads = [
        threading.Thread(target=lambda: reports.append(read_again("shop", settings=shop.settings))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(len(report.tables) for report in reports) == 1
    assert [report.failed for report in reports] == [()] * 4
    assert shop.waiting(capsys) == []
    ingest.mirror("shop", settings=shop.settings)
    shop.assert_equal("t")


def test_a_table_that_cannot_be_read_is_told_and_holds_no_other(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    standing(shop)
    shop.server.run_sql("DROP TABLE t; CREATE TABLE x (id INT PRIMARY KEY); INSERT INTO x VALUES (1)", "shop")
    # Not landed yet, so that the dump finds no such table.
    report = read_again("shop", settings=shop.settings)
    assert [one.table for one in report.failed] == ["shop.t"]
    [waiting] = shop.waiting(capsys)
    assert waiting["tries"] <= 1
    assert waiting["error"]
    assert run(["run"]) == 0
    assert shop.waiting(capsys) == [], "the table is gone, and nobody waits for it"
    shop.assert_equal("x")


def test_an_interval_that_is_published_again_with_other_rows_is_not_passed_over(
    shop: Shop, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """As after a release of quarantined rows, or when it was decoded again by another history."""
    lake = str(shop.folder / "lake")
    shop.server.run_sql("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)", "shop")
    assert run(["run"]) == 0
    shop.server.run_sql("INSERT INTO t VALUES (3); ALTER TABLE t ADD COLUMN n INT", "shop")
    assert run(["run"]) == 0
    shop.server.run_sql("UPDATE t SET n = 1 WHERE id = 3", "shop")
    assert run(["run"]) == 0
    before = shop.mirror("t").snapshot.version
    engine = open_store(shop.settings.source("shop").store_url)
    first = min(one.interval_start for one in PublishedLedger(engine).list("shop", "shop.t"))
    assert run(["mirror", "update"]) == 0
    assert shop.mirror("t").snapshot.version == before
    # The ledger learns of it later, if at all: the publisher may die in between.
    commit = publish(lake, "shop", TableName("shop", "t"), first, [])
    assert commit is not None
    [noted] = [one for one in PublishedLedger(engine).list("shop", "shop.t") if one.interval_start == first]
    PublishedLedger(engine).put(replace(noted, delta_version=commit.version, rows=0))
    shop.set("mirror_read_again = false")
    caplog.clear()
    for _ in range(2):
        capsys.readouterr()
        assert run(["mirror", "update"]) == 0
        said = capsys.readouterr()
        assert [one.count("published again, with other rows") for one in (said.out, said.err, caplog.text)] == [1, 0, 0]
    assert "published again, with other rows" in (shop.mirror("t").stopped or "")
    [waiting] = shop.waiting(capsys)
    assert "published again, with other rows" in waiting["reason"]
    shop.set()
    assert run(["run"]) == 0
    shop.assert_equal("t")
    shop.server.run_sql("DELETE FROM t WHERE id = 1", "shop")
    assert run(["run"]) == 0
    assert shop.waiting(capsys) == []
    shop.assert_equal("t")
    assert shop.mirror("t").stopped is None


def test_the_copy_of_an_online_schema_change_whose_rows_nobody_publishes(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where they are published they go along; here the settings name the table alone."""
    shop.set("mirror_read_again = false", tables="shop.t")
    shop.server.run_sql("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)", "shop")
    assert run(["run"]) == 0
    shop.server.run_sql(
        "CREATE TABLE _t_gho LIKE t; ALTER TABLE _t_gho ADD COLUMN n INT DEFAULT 5;"
        "INSERT INTO _t_gho (id) SELECT id FROM t; RENAME TABLE t TO _t_del, _t_gho TO t; INSERT INTO t VALUES (3, 3)",
        "shop",
    )
    assert run(["run"]) == 0
    [waiting] = shop.waiting(capsys)
    assert "_t_gho" in waiting["reason"]
    shop.set(tables="shop.t")
    assert run(["run"]) == 0
    shop.assert_equal("t")
    assert shop.waiting(capsys) == []


def test_names_with_dots_do_not_meet(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """`a.b`.`c` and `a`.`b.c` are two tables, of which each has its own verdict and its own published intervals."""
    shop.set(tables="a*.*")
    shop.server.run_sql(
        "CREATE DATABASE `a.b`; CREATE DATABASE a; CREATE TABLE `a.b`.c (id INT PRIMARY KEY);"
        "CREATE TABLE a.`b.c` (id INT PRIMARY KEY); INSERT INTO `a.b`.c VALUES (1), (2), (3);"
        "INSERT INTO a.`b.c` VALUES (1)"
    )
    try:
        assert run(["run"]) == 0
        engine = open_store(f"sqlite:///{shop.folder}/s.db")
        published = PublishedLedger(engine)
        names = (TableName("a", "b.c"), TableName("a.b", "c"))
        assert [one.rows for name in names for one in published.of_table("shop", name.database, name.table)] == [1, 3]
        (interval,) = {one.interval_start for one in published.list("shop")}
        judged = VerdictLedger(engine).select("shop", [interval])
        assert [(one.table, one.details.rows) for one in judged if one.table] == [("`a.b`.c", 3), ("a.b.c", 1)]
        mirrors = [Mirror.open(str(shop.folder / "lake"), "shop", name) for name in names]
        assert [mirror and len(mirror.to_arrow()) for mirror in mirrors] == [1, 3]
        capsys.readouterr()
        assert run(["mirror", "verify", "--offline"]) == 0
        # What an older version of Strata noted, which knew the tables by one name.
        old = {"table_name": "a.b.c"}
        with writing(engine) as connection:
            connection.execute(published_interval.delete().where(published_interval.c.table_name == "a.b.c"))
            connection.execute(published_interval.update().values(old))
        assert [one.rows for name in names for one in published.of_table("shop", name.database, name.table)] == [3]
    finally:
        shop.server.run_sql("DROP DATABASE `a.b`; DROP DATABASE a")
