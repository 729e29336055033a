"""Mirrors that must stand, and say why; mirrors of tables that go and come; what the page tells its readers to type."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import write_deltalake

import strata_cdc.mirrors
from strata_cdc.cli.main import run
from strata_cdc.errors import MirrorBehindError, Usage
from strata_cdc.mirrors.limits import MirrorLimits
from strata_cdc.mirrors.log import read_snapshot
from strata_cdc.mirrors.table import Mirror
from strata_cdc.position.token import Order, Token
from strata_cdc.position.token_text import to_text
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.table_intervals import IntervalState, TableIntervalLedger
from strata_cdc.tables.limits import FileLimits
from tests.docs.pages import read_blocks
from tests.mirrors.server_zones import load_zones
from tests.mirrors.world import MirrorWorld, assert_rows, mirror_of, outcomes
from tests.spark_session import spark

if TYPE_CHECKING:
    from tests.mysql_server import MysqlServer

__all__ = ["spark"]

pytestmark = [pytest.mark.mysql, pytest.mark.slow]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "mirrors.md"


@pytest.fixture
def world(server: MysqlServer, tmp_path: Path) -> MirrorWorld:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    return MirrorWorld(server, tmp_path, name="shop")


UNKNOWN = {
    "ALTER TABLE t ADD COLUMN made DATETIME DEFAULT CURRENT_TIMESTAMP": "made",
    "ALTER TABLE t ADD COLUMN twice INT GENERATED ALWAYS AS (n * 2) STORED": "twice",
    "ALTER TABLE t MODIFY v VARCHAR(1)": "v",
}


@pytest.mark.parametrize("statement", UNKNOWN)
def test_a_mirror_stands_in_front_of_what_no_log_tells(world: MirrorWorld, statement: str) -> None:
    world.server.run_sql(
        "SET sql_mode = ''; CREATE TABLE t (id INT PRIMARY KEY, n INT, v VARCHAR(9)) PARTITION BY RANGE (id) "
        "(PARTITION p0 VALUES LESS THAN (2), PARTITION p1 VALUES LESS THAN (100)); CREATE TABLE u (id INT PRIMARY KEY);"
        f"INSERT INTO t VALUES (1, 1, 'long'), (2, 2, 'b'); {statement};"
        "INSERT INTO t (id, n) VALUES (3, 3); INSERT INTO u VALUES (1)",
        "shop",
    )
    world.publish()
    for _ in range(2):
        found = outcomes(world)
        assert UNKNOWN[statement] in (found["t"].behind or "")
        assert "strata dump --source shop --table shop.t" in (found["t"].behind or "")
        assert found["u"].behind is None, "one table's trouble holds no other"
    mirror = world.mirror("t")
    assert mirror is not None
    assert mirror.stopped
    assert mirror.to_arrow(["id"])["id"].to_pylist() == [1, 2], "as it was in front of the statement"
    opened = strata_cdc.mirrors.open(world.lake, "shop", "shop.t")
    token = strata_cdc.mirrors.open(world.lake, "shop", "shop.u").position
    with pytest.raises(MirrorBehindError, match=UNKNOWN[statement]):
        opened.wait_until(token, timeout_seconds=5)
    # From here on the rows are known again.
    world.server.run_sql("TRUNCATE TABLE t; INSERT INTO t (id, n) VALUES (4, 4)", "shop")
    world.publish()
    assert outcomes(world)["t"].behind is None
    world.assert_equal()


def test_what_was_never_dumped_has_no_mirror(server: MysqlServer, tmp_path: Path) -> None:
    server.run_sql(
        "DROP DATABASE IF EXISTS shop; CREATE DATABASE shop; CREATE TABLE shop.old (id INT PRIMARY KEY);"
        "INSERT INTO shop.old VALUES (1); RESET BINARY LOGS AND GTIDS;"
    )
    world = MirrorWorld(server, tmp_path, name="shop")
    server.run_sql(
        "CREATE TABLE young (id INT PRIMARY KEY); INSERT INTO young VALUES (1); INSERT INTO old VALUES (2);"
        "ALTER TABLE old ADD COLUMN n INT; INSERT INTO old VALUES (3, 3)",
        "shop",
    )
    world.snapshot()
    world.publish()
    found = outcomes(world)
    assert "strata dump --source shop --table shop.old" in (found["old"].behind or "")
    assert found["young"].rows == 1
    assert world.mirror("old") is None
    with pytest.raises(Usage, match="has no mirror"):
        strata_cdc.mirrors.open(world.lake, "shop", "shop.old")


def test_unpublished_changes_hold_their_table_alone(world: MirrorWorld) -> None:
    world.server.run_sql(
        "CREATE TABLE a (id INT PRIMARY KEY); CREATE TABLE b (id INT PRIMARY KEY); INSERT INTO a VALUES (1);", "shop"
    )
    world.publish()
    assert {one.behind for one in outcomes(world).values()} == {None}
    world.server.run_sql("INSERT INTO a VALUES (2); INSERT INTO b VALUES (2)", "shop")
    world.publish()
    ledger = TableIntervalLedger(world.engine)
    (newest,) = ledger.select("shop", [IntervalState.PUBLISHED], table=("shop", "a"))[-1:]
    ledger.put([newest.__class__("shop", newest.start, "shop", "a", newest.rows, IntervalState.FAILED)])
    found = outcomes(world)
    assert "failed" in (found["a"].behind or "")
    assert found["a"].rows == 1
    assert found["b"].behind is None
    assert found["b"].rows == 1
    ledger.put([newest])
    assert outcomes(world)["a"].rows == 2
    world.assert_equal()


def test_a_table_that_goes_and_comes(world: MirrorWorld) -> None:
    run = world.server.run_sql
    run("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)", "shop")
    world.publish()
    world.update()
    first = strata_cdc.mirrors.open(world.lake, "shop", "shop.t")
    run("DROP TABLE t", "shop")
    world.publish()
    assert outcomes(world)["t"].dropped
    gone = strata_cdc.mirrors.open(world.lake, "shop", "shop.t")
    assert gone.is_dropped
    assert len(gone) == 2
    run("CREATE TABLE t (id INT PRIMARY KEY, name TEXT); INSERT INTO t VALUES (7, 'x')", "shop")
    world.publish()
    world.update()
    world.assert_equal()
    again = strata_cdc.mirrors.open(world.lake, "shop", "shop.t")
    assert again.mirror.identity != first.mirror.identity
    for point in (first.position, to_text(first.position), str(first.position.positions[0].position)):
        then = strata_cdc.mirrors.open(world.lake, "shop", "shop.t", at=point)
        assert sorted(then.to_arrow()["id"].to_pylist()) == [1, 2]
        assert then.position.compare(first.position).value in ("before", "equal")


def test_tables_that_swap_carry_their_rows(world: MirrorWorld) -> None:
    run = world.server.run_sql
    run(
        "CREATE TABLE a (id INT PRIMARY KEY, x INT); CREATE TABLE b (id INT PRIMARY KEY, y TEXT);"
        "INSERT INTO a VALUES (1, 1); INSERT INTO b VALUES (2, 'b'); INSERT INTO b VALUES (3, 'c')",
        "shop",
    )
    world.publish()
    world.update()
    run(
        "RENAME TABLE a TO c, b TO a, c TO b; INSERT INTO a VALUES (9, 'z'); UPDATE b SET x = 5;"
        "ALTER TABLE a RENAME TO d, ADD COLUMN n INT NOT NULL DEFAULT 3; INSERT INTO d VALUES (10, 'q', 1);"
        "RENAME TABLE b TO a; DELETE FROM d WHERE id = 2",
        "shop",
    )
    world.publish()
    assert {one.behind for one in outcomes(world).values()} == {None}
    world.assert_equal()
    mirror = world.mirror("b")
    assert mirror is not None
    assert mirror.is_dropped


def test_keys_move_in_partial_images(world: MirrorWorld) -> None:
    run = world.server.run_sql
    run(
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9), j JSON, n INT);"
        "INSERT INTO t VALUES (1, 'one', '{\"a\": 1}', 1), (2, 'two', '{\"a\": 2}', 2), (3, 'three', NULL, 3)",
        "shop",
    )
    world.publish()
    world.update()
    run(
        "SET binlog_row_image = MINIMAL; SET binlog_row_value_options = PARTIAL_JSON; BEGIN;"
        "UPDATE t SET id = 9 WHERE id = 1; UPDATE t SET id = 1, n = 7 WHERE id = 2; UPDATE t SET id = 2 WHERE id = 9;"
        "COMMIT; UPDATE t SET j = JSON_SET(j, '$.a', 5) WHERE id = 2; DELETE FROM t WHERE id = 3;"
        "INSERT INTO t VALUES (3, 'new', '{}', 0); UPDATE t SET id = 4 WHERE id = 3; UPDATE t SET v = 'x' WHERE id = 4",
        "shop",
    )
    world.publish()
    assert [one.error for one in outcomes(world).values()] == [None]
    world.assert_equal()


def test_a_quiet_table_is_known_to_be_up_to_date(world: MirrorWorld) -> None:
    run = world.server.run_sql
    run("CREATE TABLE quiet (id INT PRIMARY KEY); CREATE TABLE busy (id INT PRIMARY KEY)", "shop")
    world.publish()
    world.update()
    quiet = strata_cdc.mirrors.open(world.lake, "shop", "shop.quiet")
    run("INSERT INTO busy VALUES (1)", "shop")
    world.publish()
    world.update()
    busy = strata_cdc.mirrors.open(world.lake, "shop", "shop.busy")
    later = quiet.wait_until(busy.position, timeout_seconds=5)
    assert later.mirror.snapshot.version == quiet.mirror.snapshot.version
    with pytest.raises(Usage, match="is not of shop alone"):
        quiet.wait_until(type(busy.position).of("other", busy.position.positions[0].position))


def test_tokens_of_a_source_with_a_lineage_and_copies(world: MirrorWorld) -> None:
    world.server.run_sql("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)", "shop")
    world.publish()
    world.update()
    named = {"lineage": "second", "copied_from": {"old": "first"}}
    mirror = strata_cdc.mirrors.open(world.lake, "shop", "shop.t", **named)
    [place] = mirror.position.positions
    executed, mine = place.position, Token.of("shop", place.position, lineage="second")
    assert place.lineage == "second"
    assert strata_cdc.mirrors.history(world.lake, "shop", "shop.t", world.engine, **named).position == mirror.position
    written = Token.of("old", executed, lineage="first")
    assert written.compare(mirror.position) is Order.BEFORE
    for token in (mine, written, mirror.position):
        assert mirror.wait_until(token, timeout_seconds=0).at == mirror.at
    then = strata_cdc.mirrors.open(world.lake, "shop", "shop.t", at=mine, **named)
    assert then.at.seq == mirror.at.seq
    # Of another history nothing is waited for.
    for other in (Token.of("shop", executed), Token.of("old", executed)):
        with pytest.raises(Usage, match="is not of shop alone"):
            mirror.wait_until(other, timeout_seconds=0)


def test_many_batches_of_whole_transactions(world: MirrorWorld) -> None:
    world.limits = MirrorLimits(batch_rows=50, file_rows=100)
    numbers = ", ".join(f"({n}, 0)" for n in range(200))
    world.server.run_sql(f"CREATE TABLE t (id INT PRIMARY KEY, n INT); INSERT INTO t VALUES {numbers}", "shop")
    for n in range(10):
        world.server.run_sql(f"UPDATE t SET n = n + {n} WHERE id % 7 = {n % 7}", "shop")
        world.publish()
    assert outcomes(world)["t"].commits > 5
    world.assert_equal()
    mirror = world.mirror("t")
    assert mirror is not None
    # Each commit has whole transactions, and says which.
    for version in range(1, mirror.snapshot.version + 1):
        at = Mirror.open(world.lake, "shop", TableName("shop", "t"), lambda one, v=version: one.seq <= v + 2)
        assert at is not None
        assert at.position.gtid_executed.endswith(f":1-{at.position.seq}")


def test_one_transaction_that_is_too_large_to_be_held(world: MirrorWorld) -> None:
    """It is applied in pieces, and its readers see one commit."""
    world.limits, world.file_limits = MirrorLimits(batch_rows=8000), FileLimits(row_group_rows=8000)
    numbers = "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 20000) SELECT n, n % 7 FROM r"
    world.server.run_sql(
        "SET SESSION cte_max_recursion_depth = 100000; CREATE TABLE t (id INT PRIMARY KEY, n INT);"
        "CREATE TABLE bag (a INT, n INT); INSERT INTO t VALUES (0, 0);"
        f"BEGIN; INSERT INTO t {numbers}; INSERT INTO bag {numbers}; SET SESSION binlog_row_image = MINIMAL;"
        "UPDATE t SET n = n + 1; DELETE FROM t WHERE id % 3 = 0; UPDATE t SET id = id + 1 ORDER BY id DESC;"
        "UPDATE bag SET a = a % 10; DELETE FROM bag WHERE a = 3; COMMIT;"
        "INSERT INTO t VALUES (100000, 1); INSERT INTO bag VALUES (1, 1)",
        "shop",
    )
    world.publish()
    assert [(one.behind, one.error) for one in world.update().mirrors] == [(None, None)] * 2
    world.assert_equal()
    mirror = world.mirror("t")
    assert mirror is not None
    states = [read_snapshot(mirror.url, version) for version in range(mirror.snapshot.version + 1)]
    assert {one.live_rows for one in states if one} <= {0, 1, 13334, 13335}
    assert len(mirror.snapshot.files) > 3


def test_what_an_insert_left_out_has_its_default(world: MirrorWorld) -> None:
    """MINIMAL images do not have such columns."""
    world.server.run_sql(
        "SET SESSION binlog_row_image = MINIMAL;"
        "CREATE TABLE k (id INT PRIMARY KEY, a INT DEFAULT 5, b VARCHAR(9) NOT NULL DEFAULT 'x', "
        "c TIMESTAMP(3) DEFAULT CURRENT_TIMESTAMP(3), d INT DEFAULT (1 + 1), e ENUM('p','q') NOT NULL, "
        "f DECIMAL(5,2) DEFAULT '1.50', g DATETIME DEFAULT '2020-02-03 04:05:06', h INT AS (a + 1), n INT);"
        "INSERT INTO k (id, e) VALUES (1, 'q'); INSERT INTO k (id, a, e) VALUES (2, NULL, 'p');"
        "UPDATE k SET n = 3 WHERE id = 1;"
        "CREATE TABLE n (a INT DEFAULT 7, b INT); INSERT INTO n (b) VALUES (1), (2); DELETE FROM n WHERE b = 2",
        "shop",
    )
    world.publish()
    world.update()
    world.assert_equal()


@pytest.mark.parametrize("clause", ["MODIFY n BIGINT", "ENGINE = MyISAM", "CONVERT TO CHARACTER SET utf16"])
@pytest.mark.parametrize(
    ("mode", "date", "is_zeroed"),
    [
        ("", "2024-02-31", True),
        ("", "2024-00-10", False),
        ("NO_ZERO_DATE", "0000-00-00", False),
        ("ALLOW_INVALID_DATES,NO_ZERO_IN_DATE", "2024-10-00", True),
        ("ALLOW_INVALID_DATES,NO_ZERO_IN_DATE", "2024-02-31", False),
    ],
)
def test_a_mirror_stands_in_front_of_dates_that_a_copied_table_lacks(
    world: MirrorWorld, clause: str, mode: str, date: str, is_zeroed: bool
) -> None:
    world.server.run_sql(
        "SET sql_mode = 'ALLOW_INVALID_DATES'; CREATE TABLE t (id INT PRIMARY KEY, d DATE, n INT, v VARCHAR(5));"
        f"INSERT INTO t VALUES (1, '{date}', 1, 'a'), (2, '2024-02-29', 2, 'b');"
        f"SET sql_mode = '{mode}'; ALTER TABLE t {clause}",
        "shop",
    )
    world.publish()
    (mirror,) = world.update().mirrors
    shown = world.server.run_sql("SELECT CAST(d AS CHAR) AS d FROM t WHERE id = 1", "shop").split()[-1]
    assert (shown != date) == is_zeroed
    assert ("d has dates" in (mirror.behind or "")) == is_zeroed
    if not is_zeroed:
        assert mirror.behind is None
        rows = mirror_of(world, "t").to_arrow(["id", "_invalid"]).sort_by("id")
        assert rows["_invalid"].to_pylist() == [[("d", date)], None]


@pytest.mark.parametrize("kind", ["VIRTUAL", "STORED"])
def test_noblob_images_lack_generated_texts_only_if_nothing_changed_them(world: MirrorWorld, kind: str) -> None:
    """Under NOBLOB, MySQL logs a generated TEXT exactly if the statement sets what it is made of."""
    world.server.run_sql(
        f"CREATE TABLE k (id INT PRIMARY KEY, f VARCHAR(9), d DATE, n INT, b TEXT AS (CONCAT(f, n)) {kind}, "
        f"e TEXT AS (CONCAT(d)) {kind}, i INT AS (LENGTH(f)) {kind});"
        "INSERT INTO k (id, f, d, n) VALUES (1, 'a', '2026-01-01', 1), (2, 'b', NULL, 2), (3, NULL, NULL, 3);"
        "SET SESSION binlog_row_image = NOBLOB, sql_mode = 'ALLOW_INVALID_DATES'; UPDATE k SET n = n + 5;"
        "UPDATE k SET f = 'ccc' WHERE id = 1; UPDATE k SET id = 4 WHERE id = 2; UPDATE k SET d = 0 WHERE id = 1;"
        "UPDATE k SET d = '2026-02-31' WHERE id = 1; UPDATE k SET id = 5, f = 'dddd' WHERE id = 4",
        "shop",
    )
    world.publish()
    assert [(mirror.behind, mirror.error) for mirror in world.update().mirrors] == [(None, None)]
    world.server.run_sql("SET SESSION binlog_row_image = NOBLOB; UPDATE k SET id = id + 10", "shop")
    world.publish()
    assert [(mirror.behind, mirror.error) for mirror in world.update().mirrors] == [(None, None)]
    world.assert_equal()


def test_minimal_images_of_columns_named_within_words_of_an_expression(world: MirrorWorld) -> None:
    """MySQL logs each generated column that may have changed; `d` and `b` have no part in these expressions."""
    world.server.run_sql(
        "CREATE TABLE k (id INT PRIMARY KEY, d INT, b INT, n INT, v INT AS (id * 2), w INT AS (ABS(n)) STORED);"
        "INSERT INTO k (id, d, b, n) VALUES (1, 1, 1, -1), (2, 2, 2, -2);"
        "SET SESSION binlog_row_image = MINIMAL; UPDATE k SET d = 5, b = 6 WHERE id = 1;"
        "UPDATE k SET id = 3 WHERE id = 2; UPDATE k SET n = -9 WHERE id = 1",
        "shop",
    )
    world.publish()
    assert [(mirror.behind, mirror.error) for mirror in world.update().mirrors] == [(None, None)]
    world.assert_equal()


def test_columns_called_like_ours_are_mirrored_as_they_are(world: MirrorWorld) -> None:
    world.server.run_sql(
        "CREATE TABLE k (_op INT PRIMARY KEY, _seq INT, _before JSON, _missing VARCHAR(9), _row INT DEFAULT 4);"
        "INSERT INTO k VALUES (1, 2, '{}', 'x', 1), (2, 3, NULL, 'y', 2); UPDATE k SET _seq = 9 WHERE _op = 1;"
        "SET SESSION binlog_row_image = MINIMAL; INSERT INTO k (_op) VALUES (3); UPDATE k SET _row = 8 WHERE _op = 2;"
        "UPDATE k SET _op = 7 WHERE _op = 1; DELETE FROM k WHERE _op = 3;"
        "CREATE TABLE n (_op INT, _gtid VARCHAR(9)); INSERT INTO n VALUES (1, 'a'), (1, 'a'), (2, 'b');"
        "DELETE FROM n WHERE _op = 1 LIMIT 1",
        "shop",
    )
    world.publish()
    world.update()
    world.assert_equal()


@pytest.fixture
def page(world: MirrorWorld, monkeypatch: pytest.MonkeyPatch) -> MirrorWorld:
    world.server.run_sql(
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, total DECIMAL(10, 2), state ENUM('new', 'paid'));"
        "INSERT INTO orders VALUES (1, 2.50, 'new'), (2, 3, 'paid'); UPDATE orders SET state = 'paid' WHERE id = 1",
        "shop",
    )
    world.publish()
    world.update()
    monkeypatch.chdir(world.folder)
    return world


def snippets(*, spark: bool) -> list[str]:
    found = [block.text for block in read_blocks(PAGE) if block.language == "python"]
    return [text for text in found if spark or "spark." not in text]


def test_the_page_is_right(page: MirrorWorld) -> None:
    names: dict[str, Any] = {}
    for text in snippets(spark=False):
        exec(compile(text, str(PAGE), "exec"), names)
    assert len(names["frame"]) == 2
    assert len(names["new"]) == 0
    assert_rows(names["same"].mirror, [(1, Decimal("2.50"), "paid"), (2, Decimal(3), "paid")])
    assert names["versions"]["state"].to_list() == ["new", "paid"]
    assert names["versions"]["_valid_to"].is_null().to_list() == [False, True]
    assert names["rows"].aggregate("count(*)").fetchone() == (2,)


@pytest.mark.spark
def test_the_page_is_right_for_spark(page: MirrorWorld, spark: Any) -> None:
    names: dict[str, Any] = {"spark": spark}
    for text in snippets(spark=True):
        exec(compile(text, str(PAGE), "exec"), names)


def test_the_command(world: MirrorWorld, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    settings = world.folder / "strata.toml"
    settings.write_text(
        f'lake = "{world.lake}"\nstore = "sqlite:///{world.folder}/store.db"\n'
        '[sources.shop]\nconnection = "s"\nmirrors = ["shop.a*"]\ncompact_files = 2\n'
    )
    monkeypatch.setenv("STRATA_SETTINGS", str(settings))
    monkeypatch.setenv("AIRFLOW_CONN_S", world.server.url)
    world.server.run_sql(
        "CREATE TABLE a (id INT PRIMARY KEY); CREATE TABLE b (id INT); INSERT INTO a VALUES (1), (2)", "shop"
    )
    world.publish()

    def lines(*words: str) -> list[dict[str, Any]]:
        assert run(["mirror", *words, "--json"]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    (updated,) = lines("update")
    assert (updated["table"], updated["rows"], updated["commits"], updated["behind"]) == ("shop.a", 2, 2, None)
    (listed,) = lines("list", "--source", "shop", "--table", "shop.*")
    assert (listed["rows"], listed["stopped"], listed["changed_by_others"]) == (2, None, [])
    assert listed["position"]["gtid_executed"] == updated["position"]["gtid_executed"]
    assert [one["compacted"]["rows_rewritten"] for one in lines("compact")] == [0]
    assert [one["vacuumed"]["files"] for one in lines("vacuum", "--retain-hours", "1")] == [0]
    assert run(["mirror", "list"]) == 0
    assert "shop.a" in capsys.readouterr().out
    assert lines("keep") == []
    world.server.run_sql("INSERT INTO a VALUES (3)", "shop")
    world.publish()
    lines("update")
    [kept] = lines("keep")
    assert kept["compacted"] == {"files_before": 2, "files_after": 1, "rows_rewritten": 3}
    mirror = world.mirror("a")
    assert mirror is not None
    write_deltalake(mirror.url, mirror.to_arrow(), mode="append")
    assert run(["mirror", "compact"]) == 1
    assert "left as it is: another program has changed the mirror" in capsys.readouterr().out


# Those that are known have one offset; of the others the server may have been told anything.
ZONES = {
    "+05:30": True,
    "-11:00": True,
    "+14:00": True,
    "Asia/Kolkata": True,
    "Europe/Berlin": False,
    "America/New_York": False,
    "SYSTEM": False,
}
# The borders of daylight saving time of Berlin and New York, and of what a TIMESTAMP holds, among them.
MOMENTS = [
    *("2024-03-31 01:59:59.4994", "2024-03-31 03:00:00", "2024-10-27 02:30:00.5", "2024-03-10 01:59:59.49"),
    *("2024-11-03 01:30:00", "1970-01-02 00:00:00.0005", "2038-01-18 03:14:06.4995", "1999-12-31 23:59:59.999999"),
]


def test_moments_go_between_types_as_the_session_s_zone_has_them(world: MirrorWorld) -> None:
    load_zones(world.server, [one for one in ZONES if "/" in one])
    values = ", ".join(f"({n}, '{moment}', '{moment}', NULL)" for n, moment in enumerate(MOMENTS))
    for n, zone in enumerate(ZONES):
        world.server.run_sql(
            f"SET time_zone = '{zone}'; CREATE TABLE t{n} (id INT PRIMARY KEY, a DATETIME(6), b TIMESTAMP(6) NULL, "
            f"c DATETIME); INSERT INTO t{n} VALUES {values};"
            f"ALTER TABLE t{n} MODIFY a TIMESTAMP(3) NULL, MODIFY b DATETIME(1), MODIFY c TIMESTAMP NULL;"
            f"INSERT INTO t{n} SELECT id + 100, a, b, c FROM t{n}",
            "shop",
        )
    world.publish()
    found = outcomes(world)
    behind = {zone: found[f"t{n}"].behind or "" for n, zone in enumerate(ZONES)}
    assert {zone: not why for zone, why in behind.items()} == ZONES
    assert all(zone in why for zone, why in behind.items() if why)
    assert all(found[f"t{n}"].needs_dump for n, zone in enumerate(ZONES) if not ZONES[zone])
    for n, zone in enumerate(ZONES):
        if not ZONES[zone]:
            world.server.run_sql(f"DROP TABLE t{n}", "shop")
    world.assert_equal()
