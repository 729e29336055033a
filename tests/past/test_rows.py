"""`strata row`: the history of rows, whose value each column has, and what differs between two moments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import strata_cdc
from strata_cdc.cli.main import run
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.landing.landed import LandedStream
from strata_cdc.store.table_intervals import IntervalState, TableInterval, TableIntervalLedger
from strata_cdc.tracking.track_schema import track_landed
from tests.past.past_world import PastWorld

if TYPE_CHECKING:
    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]


@pytest.fixture
def world(server: MysqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PastWorld:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    world = PastWorld(server, tmp_path, name="shop")
    (tmp_path / "strata.toml").write_text(
        f'lake = "{world.lake}"\nstore = "sqlite:///{tmp_path}/store.db"\n[sources.shop]\nconnection = "x"\n'
    )
    monkeypatch.setenv("STRATA_SETTINGS", str(tmp_path / "strata.toml"))
    monkeypatch.setenv("AIRFLOW_CONN_X", server.url)
    return world


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    """The lines of `strata row` as JSON."""
    assert run(["row", words[0], "--format", "jsonl", *words[1:]]) == 0, capsys.readouterr().err
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The message with which `strata row` refuses wrong usage."""
    assert run(["row", *words]) == 2
    return capsys.readouterr().err


def ops(lines: list[dict[str, Any]]) -> list[str]:
    """What each line is."""
    return [line["op"] if line["kind"] == "change" else str(line.get("statement")).split()[0] for line in lines]


def executed(world: PastWorld) -> str:
    """What the server has executed now."""
    return world.server.run_sql(world.server.executed_sql).partition("\n")[2].replace("\\n", "").strip()


LIFE = """SET binlog_rows_query_log_events = ON;
CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(10), price DECIMAL(8, 2));
INSERT INTO t VALUES (1, 'a', 1.5), (2, 'b', 2); UPDATE t SET price = 3 WHERE id = 1;
ALTER TABLE t RENAME COLUMN price TO cost, ADD COLUMN n INT DEFAULT 7; UPDATE t SET id = 5, name = NULL WHERE id = 1;
ALTER TABLE t MODIFY cost DECIMAL(10, 4); RENAME TABLE t TO u; UPDATE u SET name = 'it''s';
INSERT INTO u VALUES (1, 'new', 9, 9); DELETE FROM u WHERE id = 2; SET binlog_rows_query_log_events = OFF;
INSERT INTO u VALUES (2, 'z', 0, 0); UPDATE u SET n = 8 WHERE id = 5"""


def test_a_row_under_all_of_its_keys_and_names(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(LIFE, "shop")
    world.publish()
    lines = asked(capsys, "history", "shop.u", "5")
    assert ops(lines) == ["insert", "update", "ALTER", "update", "ALTER", "RENAME", "update", "update"]
    assert [line["table"] for line in lines if line["kind"] == "change"] == ["t", "t", "t", "u", "u"]
    assert lines[1]["changed"] == {"price": {"before": "1.50", "after": "3.00"}}
    assert lines[2]["altered"] == {"n": {"after": 7}}
    assert lines[3]["changed"] == {"id": {"before": 1, "after": 5}, "name": {"before": "a", "after": None}}
    assert lines[4]["altered"] == {"cost": {"before": "3.00", "after": "3.0000"}}
    assert lines[3]["statement"] == "UPDATE t SET id = 5, name = NULL WHERE id = 1"
    assert (lines[-1]["statement"], lines[-1]["statement_unknown"]) == (None, "not logged")
    # Another row has the first key now; both had it.
    assert ops(asked(capsys, "history", "shop.u", "1"))[-2:] == ["insert", "update"]
    both = asked(capsys, "history", "shop.u", "2")
    assert [line["row_number"] for line in both if line["kind"] == "change"] == [1, 1, 1, 2]
    since = asked(capsys, "history", "shop.u", "5", "--from", executed(world).rpartition("-")[0] + "-6")
    assert ops(since) == ["update", "update"]
    assert since[0]["is_older"]
    assert run(["row", "history", "shop.u", "5"]) == 0
    shown = capsys.readouterr()
    assert "  name  NULL -> 'it''s'\n" in shown.out
    assert "  price  1.50 -> 3.00\n" in shown.out
    assert "statement: not logged" in shown.out
    assert shown.err == "5 changes\n"


def test_blame_names_the_change_or_the_ddl(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(LIFE, "shop")
    world.publish()
    lines = {line["column"]: line for line in asked(capsys, "blame", "shop.u", "5")}
    assert {name: line["value"] for name, line in lines.items()} == {"id": 5, "name": "it's", "cost": "3.0000", "n": 8}
    assert {name: line["cause"]["seq"] for name, line in lines.items()} == {"id": 6, "name": 9, "cost": 7, "n": 13}
    assert lines["cost"]["given_by"] == "schema"
    assert lines["cost"]["cause"]["statement"] == "ALTER TABLE t MODIFY cost DECIMAL(10, 4)"
    then = asked(capsys, "blame", "shop.t", "5", "--at", executed(world).rpartition("-")[0] + "-6")
    assert [(line["column"], line["value"], line["cause"]["seq"]) for line in then] == [
        ("id", 5, 6), ("name", None, 6), ("cost", "3.00", 4), ("n", 7, 5),
    ]  # fmt: skip
    assert "no row has this key" in refused(capsys, "blame", "shop.u", "77")
    assert run(["row", "blame", "shop.u", "5"]) == 0
    shown = capsys.readouterr()
    assert "DDL" in shown.out
    assert shown.err == "shop.u as of transaction 13\n"


def test_diff_by_the_columns_whatever_their_names(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(LIFE, "shop")
    world.publish()
    first = executed(world).rpartition("-")[0] + "-3"
    world.update()
    assert asked(capsys, "diff", "shop.u", "--from", first) == [
        {"kind": "tables", "before": "shop.t", "after": "shop.u", "first": 3, "second": 13, "columns": [
            {"before": "price decimal(8,2)", "after": "cost decimal(10,4)"}, {"before": None, "after": "n int"}]},
        {"kind": "changed", "key": {"id": 1}, "before": {"name": "a", "price": "1.50"},
         "after": {"name": "new", "cost": "9.0000"}},
        {"kind": "changed", "key": {"id": 2}, "before": {"name": "b", "price": "2.00"},
         "after": {"name": "z", "cost": "0.0000"}},
        {"kind": "added", "key": {"id": 5}, "after": {"id": 5, "name": "it's", "cost": "3.0000", "n": 8}},
    ]  # fmt: skip
    assert [line["kind"] for line in asked(capsys, "diff", "shop.u", "5", "--from", first)] == ["tables", "added"]
    assert run(["row", "diff", "shop.u", "--from", first]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[:5] == [
        "the table was shop.t", "column ~ price decimal(8,2) -> cost decimal(10,4)", "column + n int", "~ id 1",
        "    name  'a' -> 'new'",
    ]  # fmt: skip
    assert shown.err == "1 added, 0 removed, 2 changed between transactions 3 and 13\n"
    assert "exchange" in refused(capsys, "diff", "shop.u", "--from", executed(world), "--to", first).lower()
    assert "from which moment" in refused(capsys, "diff", "shop.u")


def test_truncate_drop_and_create_between(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(
        "CREATE TABLE t (id INT PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 1); TRUNCATE TABLE t;"
        "INSERT INTO t VALUES (1, 2); DROP TABLE t; CREATE TABLE t (id BIGINT PRIMARY KEY, n INT);"
        "INSERT INTO t VALUES (1, 3); ALTER TABLE t ADD COLUMN x INT; DROP TABLE t",
        "shop",
    )
    world.publish()
    lines = asked(capsys, "history", "shop.t", "1")
    assert ops(lines) == ["insert", "TRUNCATE", "insert", "DROP", "CREATE", "insert", "ALTER", "DROP"]
    assert [line["row_number"] for line in lines if line["kind"] == "change"] == [1, 2, 3]
    assert [line["removes_rows"] for line in lines if line["kind"] == "schema"] == [True, True, True, False, True]
    assert "does not exist" in refused(capsys, "blame", "shop.t", "1")


def test_two_changes_in_one_second_and_in_one_transaction(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(
        "CREATE TABLE t (id INT PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 1), (2, 2); UPDATE t SET n = 3; BEGIN;"
        "UPDATE t SET id = -1 WHERE id = 1; UPDATE t SET id = 1 WHERE id = 2; UPDATE t SET id = 2 WHERE id = -1;"
        "COMMIT; UPDATE t SET n = 4 WHERE id = 1; UPDATE t SET n = 5 WHERE id = 2",
        "shop",
    )
    world.publish()
    lines = {line["column"]: line for line in asked(capsys, "blame", "shop.t", "2")}
    assert (lines["n"]["value"], lines["id"]["cause"]["row"]) == (5, 2)
    # Both rows had each of the keys, and each line says which row it is of.
    history = asked(capsys, "history", "shop.t", "2")
    assert [(line["row_number"], line["key"]["id"]) for line in history] == [
        (1, 1), (2, 2), (1, 1), (2, 2), (1, -1), (2, 1), (1, 2), (2, 1), (1, 2),
    ]  # fmt: skip


def test_conditions_and_tables_without_a_key(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(
        "CREATE TABLE t (name VARCHAR(9) COLLATE utf8mb4_0900_bin, n INT); INSERT INTO t VALUES ('a', 1), ('b', 2);"
        "ALTER TABLE t RENAME COLUMN n TO m; UPDATE t SET m = 5 WHERE name = 'a'; DELETE FROM t WHERE name = 'b'",
        "shop",
    )
    before = executed(world).rpartition("-")[0] + "-3"
    world.publish()
    world.update()
    assert ops(asked(capsys, "history", "shop.t", "--where", "m = 1")) == ["insert", "ALTER", "update"]
    assert ops(asked(capsys, "history", "shop.t", "--where", "name = 'b'")) == ["insert", "ALTER", "delete"]
    differences = asked(capsys, "diff", "shop.t", "--from", before)[1:]
    assert [(line["kind"], line.get("before"), line.get("after")) for line in differences] == [
        ("removed", {"name": "a", "n": 1}, None),
        ("removed", {"name": "b", "n": 2}, None),
        ("added", None, {"name": "a", "m": 5}),
    ]
    assert "no primary key" in refused(capsys, "history", "shop.t", "1")
    assert "no primary key" in refused(capsys, "blame", "shop.t", "1")
    assert "n" in refused(capsys, "history", "shop.t", "--where", "n = 1")


def test_what_is_asked_wrongly(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(
        "CREATE TABLE t (id INT, part VARCHAR(5), PRIMARY KEY (id, part)); INSERT INTO t VALUES (1, 'a;'), (-2, '`\"');"
        'CREATE TABLE `we``ird.\'"` (`k``"` INT PRIMARY KEY, `_op` INT); INSERT INTO `we``ird.\'"` VALUES (-1, 2);'
        "UPDATE `we``ird.'\"` SET `_op` = 3",
        "shop",
    )
    world.publish()
    assert "there was no such table" in refused(capsys, "history", "shop.nothing", "1")
    assert "is not a table" in refused(capsys, "history", "nothing", "1")
    assert "has 2 columns (id, part), and 1 values" in refused(capsys, "history", "shop.t", "1")
    assert "'x' is no value of id, which is int" in refused(capsys, "history", "shop.t", "x", "a")
    assert "'1.5' is no value of id" in refused(capsys, "blame", "shop.t", "1.5", "a")
    assert "'99999999999' is no value of id" in refused(capsys, "blame", "shop.t", "99999999999", "a")
    assert "which rows" in refused(capsys, "history", "shop.t")
    assert "which rows" in refused(capsys, "history", "shop.t", "1", "a", "--where", "id = 1")
    assert "which row" in refused(capsys, "blame", "shop.t")
    assert "neither a time nor a GTID set" in refused(capsys, "blame", "shop.t", "1", "a", "--at", "yesterday")
    assert "not MySQL's SQL" in refused(capsys, "history", "shop.t", "--where", "id = = 1")
    assert ops(asked(capsys, "history", "shop.t", "1", "a;")) == ["insert"]
    assert ops(asked(capsys, "history", "shop.t", "--", "-2", '`"')) == ["insert"]
    assert asked(capsys, "history", "shop.t", "1", "' OR 1=1") == []
    weird = "shop.we`ird.'\""
    assert ops(asked(capsys, "history", weird, "--", "-1")) == ["insert", "update"]
    assert asked(capsys, "blame", weird, "--", "-1")[1]["value"] == 3
    assert ops(asked(capsys, "history", weird, "--where", "_op = 3")) == ["update"]


def test_rows_from_before_the_stream(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT); INSERT INTO t VALUES (1, 1, 1), (2, 2, 2);"
        "FLUSH BINARY LOGS",
        "shop",
    )
    world.server.run_sql(f"PURGE BINARY LOGS TO '{world.server.binlogs()[-1].name}'")
    world.snapshot()
    world.server.run_sql("ALTER TABLE t ADD COLUMN c INT DEFAULT 3; UPDATE t SET a = 5 WHERE id = 1", "shop")
    world.publish()
    (line,) = asked(capsys, "history", "shop.t", "1")
    assert line["is_older"]
    given = [(line["column"], line["given_by"], line["value"]) for line in asked(capsys, "blame", "shop.t", "1")]
    assert given == [("id", "before", 1), ("a", "change", 5), ("b", "before", 1), ("c", "schema", 3)]
    # Nothing in the log shows the other row.
    assert run(["row", "blame", "shop.t", "2"]) == 1
    assert "not known" in capsys.readouterr().err


def test_changes_that_are_not_known(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql("CREATE TABLE t (id INT PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 1)", "shop")
    world.publish()
    world.server.run_sql("UPDATE t SET n = 2", "shop")
    world.publish()
    world.server.run_sql("UPDATE t SET n = 3", "shop")
    world.publish()
    ledger = TableIntervalLedger(world.engine)
    middle = sorted(one.start for one in ledger.select(world.name, [IntervalState.PUBLISHED]))[1]
    ledger.put([TableInterval(world.name, middle, "shop", "t", 1, IntervalState.DISCARDED, None, 0)])
    lines = asked(capsys, "history", "shop.t", "1")
    assert [line["kind"] for line in lines] == ["change", "unknown", "change"]
    given = {line["column"]: line for line in asked(capsys, "blame", "shop.t", "1")}
    assert "discarded" in given["id"]["doubt"]
    assert "doubt" not in given["n"]
    world.server.run_sql("UPDATE t SET n = 4", "shop")
    land_binlog(world.source.address, lake=world.lake, source=world.name)
    track_landed(world.lake, world.name, world.engine)
    assert asked(capsys, "history", "shop.t", "1")[-1]["kind"] == "unknown"
    given = {line["column"]: line["value"] for line in asked(capsys, "blame", "shop.t", "1")}
    assert given == {"id": 1, "n": 3}


def test_statements_of_compressed_transactions_and_deleted_segments(
    world: PastWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    world.server.run_sql(
        "SET binlog_rows_query_log_events = ON; SET binlog_transaction_compression = ON;"
        "CREATE TABLE t (id INT PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 1); BEGIN; UPDATE t SET n = 2;"
        "UPDATE t SET n = 3; COMMIT; FLUSH BINARY LOGS; UPDATE t SET n = 4",
        "shop",
    )
    world.publish()
    statements = [
        (line["statement"], line.get("statement_unknown")) for line in asked(capsys, "history", "shop.t", "1")
    ]
    one_of = "one of those of a compressed transaction: UPDATE t SET n = 2; UPDATE t SET n = 3"
    assert statements == [
        ("INSERT INTO t VALUES (1, 1)", None), (None, one_of), (None, one_of), ("UPDATE t SET n = 4", None),
    ]  # fmt: skip
    segment = LandedStream.open(world.lake, world.name).segments[0]
    for path in Path(f"{world.lake}/landing/shop").glob(f"{segment.name}*"):
        path.unlink()
    lines = asked(capsys, "history", "shop.t", "1")
    assert [line.get("statement_unknown") for line in lines] == ["its segment was deleted by age"] * 3 + [None]


def test_foreign_keys_that_cascade_without_row_events(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(
        "CREATE TABLE p (id INT PRIMARY KEY); CREATE TABLE t (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p "
        "(id) ON DELETE SET NULL); INSERT INTO p VALUES (1); INSERT INTO t VALUES (1, 1); DELETE FROM p",
        "shop",
    )
    world.publish()
    version = tuple(int(part) for part in world.server.run_sql("SELECT VERSION()").split()[-1].split(".")[:2])
    kinds = [line["kind"] for line in asked(capsys, "history", "shop.t", "1")]
    assert ("unknown" in kinds) == (version < (9, 6))


def test_python(world: PastWorld) -> None:
    world.server.run_sql(LIFE, "shop")
    world.publish()
    found = strata_cdc.row_history("shop.u", [5])
    assert [line["op"] for line in found if line["kind"] == "change"] == ["insert", *["update"] * 4]
    assert [line["value"] for line in strata_cdc.row_blame("shop.u", [5])] == [5, "it's", "3.0000", 8]
