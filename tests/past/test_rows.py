"""`strata row`: the history of rows, whose value each column has, and what differs between two moments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

import strata_cdc
from strata_cdc.cli.main import run
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.landing.landed import LandedStream
from strata_cdc.past.undo.choice import Choice
from strata_cdc.store.table_intervals import IntervalState, TableInterval, TableIntervalLedger
from strata_cdc.tracking.track_schema import track_landed
from tests.mariadb_server import PREFIXES, start_mariadb
from tests.past.past_world import PastWorld, executed
from tests.past.undo.undo_world import UndoWorld

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]


@pytest.fixture
def world(server: MysqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PastWorld:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    return with_settings(PastWorld(server, tmp_path, name="shop"), monkeypatch)


def with_settings(world: PastWorld, monkeypatch: pytest.MonkeyPatch) -> PastWorld:
    """The source in a file of settings."""
    file = world.folder / "strata.toml"
    store = f"sqlite:///{world.folder}/store.db"
    file.write_text(f'lake = "{world.lake}"\nstore = "{store}"\n[sources.shop]\nconnection = "x"\n')
    monkeypatch.setenv("STRATA_SETTINGS", str(file))
    monkeypatch.setenv("AIRFLOW_CONN_X", world.server.url)
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


LIFE = """SET binlog_rows_query_log_events = ON;
CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(10), price DECIMAL(8, 2));
INSERT INTO t VALUES (1, 'a', 1.5), (2, 'b', 2); UPDATE t SET price = 3 WHERE id = 1;
ALTER TABLE t RENAME COLUMN price TO cost, ADD COLUMN n INT DEFAULT 7; UPDATE t SET id = 5, name = NULL WHERE id = 1;
ALTER TABLE t MODIFY cost DECIMAL(10, 4), MODIFY n BIGINT; RENAME TABLE t TO u; UPDATE u SET name = 'it''s';
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


def test_a_name_of_two_lines_is_shown_in_one(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql("CREATE TABLE odd (id INT PRIMARY KEY, `a\nb` INT); INSERT INTO odd VALUES (1, 2)", "shop")
    world.publish()
    assert asked(capsys, "history", "shop.odd", "1")[0]["after"] == {"id": 1, "a\nb": 2}
    assert run(["row", "history", "shop.odd", "1"]) == run(["schema", "history", "--table", "shop.odd"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert {r"  a\nb  2", r"  + column a\nb int"} <= set(shown)


def test_blame_names_the_change_or_the_ddl(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(LIFE, "shop")
    world.publish()
    lines = {line["column"]: line for line in asked(capsys, "blame", "shop.u", "5")}
    assert {name: line["value"] for name, line in lines.items()} == {"id": 5, "name": "it's", "cost": "3.0000", "n": 8}
    assert {name: line["cause"]["seq"] for name, line in lines.items()} == {"id": 6, "name": 9, "cost": 7, "n": 13}
    assert lines["cost"]["given_by"] == "schema"
    with sa.create_engine(f"sqlite:///{world.folder}/store.db").connect() as store:
        versions = dict(map(tuple, store.execute(sa.text("SELECT id, ddl FROM schema_version"))))
    assert versions[lines["cost"]["schema_version"]] == lines["cost"]["cause"]["statement"]
    for line in lines.values():
        cause = line["cause"]
        assert (line["gtid"], line["committed_at"]) == (cause["gtid"], cause["committed_at"])
        assert (line["binlog_file"], line["binlog_pos"]) == (cause["file"], cause["offset"])
    assert lines["n"]["schema_version"] == lines["n"]["cause"]["schema_version"]
    assert lines["cost"]["cause"]["statement"] == "ALTER TABLE t MODIFY cost DECIMAL(10, 4), MODIFY n BIGINT"
    then = asked(capsys, "blame", "shop.t", "5", "--at", executed(world).rpartition("-")[0] + "-6")
    assert [(line["column"], line["value"], line["cause"]["seq"]) for line in then] == [
        ("id", 5, 6), ("name", None, 6), ("cost", "3.00", 4), ("n", 7, 5),
    ]  # fmt: skip
    assert "comes after `--`: `strata row blame ... -- -5`" in refused(capsys, "blame", "shop.u", "-5")
    assert "no row has this key" in refused(capsys, "blame", "shop.u", "77")
    assert "is called shop.u since transaction 8" in refused(capsys, "blame", "shop.t", "5")
    assert run(["row", "blame", "shop.u", "5"]) == 0
    shown = capsys.readouterr()
    assert "  ALTER TABLE t MODIFY cost DECIMAL(10, 4), MODIFY n BIGINT\n    cost  3.0000\n" in shown.out
    assert shown.err == "shop.u as of transaction 13\n"


def test_diff_by_the_columns_whatever_their_names(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(LIFE, "shop")
    world.publish()
    first = executed(world).rpartition("-")[0] + "-3"
    world.update()
    assert asked(capsys, "diff", "shop.u", "--from", first) == [
        {"kind": "tables", "before": "shop.t", "after": "shop.u", "first": 3, "second": 13, "columns": [
            {"before": "price decimal(8,2)", "after": "cost decimal(10,4)"}, {"before": None, "after": "n bigint"}]},
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
        "the table was shop.t", "column ~ price decimal(8,2) -> cost decimal(10,4)", "column + n bigint", "~ id 1",
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
    assert run(["row", "history", "shop.t", "--where", "m > 0"]) == 0
    shown = capsys.readouterr().out
    assert "\n  name  'a'\n  m  1 -> 5\n" in shown
    assert "\n  name  'b'\n  m  2\n  statement: not logged" in shown
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
    assert "has 2 columns (id, part), and 1 value came" in refused(capsys, "history", "shop.t", "1")
    assert "'x' is no value of id, which is int" in refused(capsys, "history", "shop.t", "x", "a")
    assert "'1.5' is no value of id" in refused(capsys, "blame", "shop.t", "1.5", "a")
    assert "'99999999999' is no value of id" in refused(capsys, "blame", "shop.t", "99999999999", "a")
    assert "which rows" in refused(capsys, "history", "shop.t")
    assert "which rows" in refused(capsys, "history", "shop.t", "1", "a", "--where", "id = 1")
    assert "which row" in refused(capsys, "blame", "shop.t")
    assert "neither a time, nor a GTID set" in refused(capsys, "blame", "shop.t", "1", "a", "--at", "yesterday")
    assert "not MySQL's SQL" in refused(capsys, "history", "shop.t", "--where", "id = = 1")
    assert ops(asked(capsys, "history", "shop.t", "1", "a;")) == ["insert"]
    assert ops(asked(capsys, "history", "shop.t", "--", "-2", '`"')) == ["insert"]
    assert asked(capsys, "history", "shop.t", "1", "' OR 1=1") == []
    weird = "shop.we`ird.'\""
    assert ops(asked(capsys, "history", weird, "--", "-1")) == ["insert", "update"]
    assert asked(capsys, "blame", weird, "--", "-1")[1]["value"] == 3
    assert ops(asked(capsys, "history", weird, "--where", "_op = 3")) == ["update"]


def test_columns_with_the_names_of_ours(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(
        "CREATE TABLE t (`a.b` INT PRIMARY KEY, `_seq` INT, `_before` VARCHAR(5), `_before.x` INT);"
        "INSERT INTO t VALUES (1, 2, 'x', 3), (2, 2, 'x', 3);"
        "UPDATE t SET `_before` = 'y', `_before.x` = 4 WHERE `_seq` = 2;"
        "UPDATE t SET `a.b` = 5 WHERE `a.b` = 1",
        "shop",
    )
    before = executed(world).rpartition("-")[0] + "-3"
    world.publish()
    world.update()
    lines = asked(capsys, "history", "shop.t", "5")
    assert [line["changed"] for line in lines[1:]] == [
        {"_before": {"before": "x", "after": "y"}, "_before.x": {"before": 3, "after": 4}},
        {"a.b": {"before": 1, "after": 5}},
    ]
    assert [line["cause"]["seq"] for line in asked(capsys, "blame", "shop.t", "5")] == [5, 3, 4, 4]
    assert len(asked(capsys, "history", "shop.t", "--where", "`_before.x` = 4")) == 3
    assert [line["kind"] for line in asked(capsys, "diff", "shop.t", "--from", before)[1:]] == [
        "removed", "changed", "added",
    ]  # fmt: skip


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


def test_statements_within_one_transaction(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(
        "SET binlog_rows_query_log_events = ON; CREATE TABLE t (id INT PRIMARY KEY, n INT);"
        "CREATE TABLE log (id INT PRIMARY KEY AUTO_INCREMENT, n INT);"
        "CREATE TRIGGER after_t AFTER UPDATE ON t FOR EACH ROW INSERT INTO log (n) VALUES (NEW.n);"
        "BEGIN; INSERT INTO t VALUES (1, 1), (2, 2); UPDATE t SET n = n + 1; SET binlog_rows_query_log_events = OFF;"
        "UPDATE t SET n = n + 2; SET binlog_rows_query_log_events = ON; UPDATE t SET n = 9 WHERE id = 2; COMMIT",
        "shop",
    )
    world.publish()

    def statements(*words: str) -> list[str]:
        return [line["statement"] or line["statement_unknown"] for line in asked(capsys, "history", *words)]

    first = ["INSERT INTO t VALUES (1, 1), (2, 2)", "UPDATE t SET n = n + 1", "not logged"]
    assert statements("shop.t", "1") == first
    assert statements("shop.t", "2") == [*first, "UPDATE t SET n = 9 WHERE id = 2"]
    # What a trigger did belongs to the statement that set it off.
    assert statements("shop.log", "5") == ["UPDATE t SET n = 9 WHERE id = 2"]
    assert statements("shop.log", "3") == ["not logged"]


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
    world.update()
    first = executed(world).rpartition("-")[0] + "-3"
    assert [line["kind"] for line in strata_cdc.row_diff("shop.u", [5], since=first)] == ["tables", "added"]
    found = strata_cdc.row_history("shop.u", [5])
    assert [line["op"] for line in found if line["kind"] == "change"] == ["insert", *["update"] * 4]
    assert [line["value"] for line in strata_cdc.row_blame("shop.u", [5])] == [5, "it's", "3.0000", 8]


def test_a_changed_copy_that_is_swapped_in(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(
        "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(9), price DECIMAL(8, 2)); INSERT INTO t VALUES (1, 'a', 1.5);"
        "CREATE TABLE _t_gho LIKE t; ALTER TABLE _t_gho MODIFY price DECIMAL(10, 3), ADD COLUMN n INT DEFAULT 4;"
        "INSERT INTO _t_gho (id, name, price) SELECT * FROM t; UPDATE t SET name = 'b';"
        "UPDATE _t_gho SET name = 'b'; RENAME TABLE t TO _t_del, _t_gho TO t",
        "shop",
    )
    world.publish()
    world.update()
    assert ops(asked(capsys, "history", "shop.t", "1")) == ["insert", "update", "RENAME"]
    lines = {line["column"]: line for line in asked(capsys, "blame", "shop.t", "1")}
    assert {name: line["value"] for name, line in lines.items()} == {"id": 1, "name": "b", "price": "1.500", "n": 4}
    given = {name: (line["given_by"], line["cause"]["seq"]) for name, line in lines.items()}
    assert given == {"id": ("change", 3), "name": ("change", 7), "price": ("schema", 9), "n": ("schema", 9)}


def test_prepared_transactions(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(
        "SET binlog_rows_query_log_events = ON; CREATE TABLE t (id INT PRIMARY KEY, n INT);"
        "INSERT INTO t VALUES (1, 1); XA START 'x'; UPDATE t SET n = 2; XA END 'x'; XA PREPARE 'x'",
        "shop",
    )
    world.server.run_sql("CREATE TABLE other (id INT); XA COMMIT 'x'", "shop")
    world.publish()
    lines = asked(capsys, "history", "shop.t", "1")
    assert [line["statement"] for line in lines if line["kind"] == "change"][1] == "UPDATE t SET n = 2"


def test_values_that_no_log_has(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(
        "CREATE TABLE t (id INT PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 1), (2, 2);"
        "ALTER TABLE t ADD COLUMN made DATETIME DEFAULT CURRENT_TIMESTAMP; UPDATE t SET n = 3 WHERE id = 1",
        "shop",
    )
    world.publish()
    world.update()
    # The image of a later change shows what the statement gave.
    lines = asked(capsys, "blame", "shop.t", "1")
    assert [line["given_by"] for line in lines] == ["change", "change", "schema"]
    assert lines[2]["value"].startswith("20")
    assert run(["row", "blame", "shop.t", "2"]) == 1
    assert "not known" in capsys.readouterr().err


def test_rows_that_went_with_their_partition(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(
        "CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (10), PARTITION b "
        "VALUES LESS THAN (20)); INSERT INTO t VALUES (1), (11); ALTER TABLE t DROP PARTITION a",
        "shop",
    )
    world.publish()
    world.update()
    assert ops(asked(capsys, "history", "shop.t", "1"))[:2] == ["insert", "ALTER"]
    assert "no row has this key" in refused(capsys, "blame", "shop.t", "1")
    assert [line["given_by"] for line in asked(capsys, "blame", "shop.t", "11")] == ["change"]


def test_rows_that_a_reorganized_list_dropped(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(
        "CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY LIST (id) (PARTITION a VALUES IN (1, 2, 11));"
        "INSERT INTO t VALUES (1), (11); ALTER TABLE t REORGANIZE PARTITION a INTO (PARTITION a VALUES IN (2, 11))",
        "shop",
    )
    world.publish()
    world.update()
    assert ops(asked(capsys, "history", "shop.t", "1"))[:2] == ["insert", "ALTER"]
    assert "no row has this key" in refused(capsys, "blame", "shop.t", "1")
    assert [line["given_by"] for line in asked(capsys, "blame", "shop.t", "11")] == ["change"]
    assert run(["sql", "SELECT id FROM shop.t", "--format", "jsonl"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [{"id": 11}]
    assert run(["sql", "SELECT id FROM shop.t FOR SYSTEM_TIME ALL"]) == 1
    assert "the history of the table's mirror begins there" in capsys.readouterr().err


def test_zero_dates_and_bytes_as_keys(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(
        "SET sql_mode = ''; CREATE TABLE t (b VARBINARY(4), d DATE, t TIME(2), PRIMARY KEY (b, t));"
        "INSERT INTO t VALUES (0x00FF, '0000-00-00', '-01:00:00.5'), ('ab', '2024-02-29', '00:00:01');"
        "UPDATE t SET d = '2024-03-01'",
        "shop",
    )
    before = executed(world).rpartition("-")[0] + "-3"
    world.publish()
    world.update()
    lines = asked(capsys, "history", "shop.t", "--", "0x00ff", "-01:00:00.5")
    assert lines[1]["changed"] == {"d": {"before": "0000-00-00", "after": "2024-03-01"}}
    assert ops(asked(capsys, "history", "shop.t", "ab", "00:00:01.00")) == ["insert", "update"]
    changed = asked(capsys, "diff", "shop.t", "--from", before)[1:]
    assert sorted((line["before"]["d"], line["after"]["d"]) for line in changed) == [
        ("0000-00-00", "2024-03-01"),
        ("2024-02-29", "2024-03-01"),
    ]


def test_a_key_in_all_spellings_that_the_server_takes_for_the_same(
    world: PastWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    world.server.run_sql(
        "CREATE TABLE t (k VARCHAR(9), b VARCHAR(9) COLLATE utf8mb4_bin, n INT, PRIMARY KEY (k, b));"
        "INSERT INTO t VALUES ('abc', 'x', 1), ('abc', 'X', 1), ('Stra\u00dfe', 'x', 1); UPDATE t SET n = 2;"
        "UPDATE t SET k = 'ABC' WHERE k = 'abc'; DELETE FROM t WHERE b = 'x' AND k = 'abc';"
        "INSERT INTO t VALUES ('Abc', 'x ', 3)",
        "shop",
    )
    begin = executed(world).rpartition("-")[0] + "-3"
    world.publish()
    world.update()
    whole = asked(capsys, "history", "shop.t", "abc", "x")
    assert ops(whole) == ["insert", "update", "update", "delete", "insert"]
    assert [line["row_number"] for line in whole] == [1, 1, 1, 1, 2]
    assert [line["key"]["k"] for line in whole] == ["abc", "abc", "ABC", "ABC", "Abc"]
    for spelled in (("ABC", "x"), ("aBc", "x")):
        assert asked(capsys, "history", "shop.t", *spelled) == whole
        assert world.server.run_sql(f"SELECT n FROM t WHERE k = '{spelled[0]}' AND b = 'x'", "shop") == "n\n3\n"
        values = {line["column"]: line["value"] for line in asked(capsys, "blame", "shop.t", *spelled)}
        assert values == {"k": "Abc", "b": "x ", "n": 3}
        [_, *lines] = asked(capsys, "diff", "shop.t", *spelled, "--from", begin)
        assert [(line["kind"], line["key"]["k"]) for line in lines] == [
            ("removed", "abc"),
            ("added", "Abc"),
        ]
    assert ops(asked(capsys, "history", "shop.t", "abc", "X")) == ["insert", "update", "update"]
    # Whoever asks in other than ASCII letters writes them as the row has them.
    assert ops(asked(capsys, "history", "shop.t", "Stra\u00dfe", "x")) == ["insert", "update"]


def test_updates_alone_of_a_key_in_another_spelling(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql("CREATE TABLE t (k VARCHAR(9) PRIMARY KEY, n INT); INSERT INTO t VALUES ('abc', 1)", "shop")
    begin = executed(world)
    world.server.run_sql("UPDATE t SET n = 2; UPDATE t SET n = 3", "shop")
    world.publish()
    assert ops(asked(capsys, "history", "shop.t", "ABC", "--from", begin)) == ["update", "update"]


def test_a_row_that_has_had_very_many_keys(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)", "shop")
    world.server.run_sql(";".join(["UPDATE t SET id = id + 1"] * 30), "shop")
    world.publish()
    assert len(asked(capsys, "history", "shop.t", "31")) == 31
    world.server.run_sql(";".join(["UPDATE t SET id = id + 1"] * 200), "shop")
    world.publish()
    assert "more than 200 keys" in refused(capsys, "history", "shop.t", "231")
    since = executed(world).rpartition("-")[0] + "-222"
    assert len(asked(capsys, "history", "shop.t", "231", "--from", since)) == 11


@pytest.mark.parametrize("compressed", ["OFF", "ON"])
def test_mariadb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], compressed: str
) -> None:
    with start_mariadb(tmp_path / "server", next(iter(PREFIXES))) as server:
        server.run_sql(f"CREATE DATABASE shop; SET GLOBAL log_bin_compress = {compressed}")
        (tmp_path / "world").mkdir()
        world = with_settings(PastWorld(server, tmp_path / "world", name="shop"), monkeypatch)
        server.run_sql(
            "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(200)); INSERT INTO t VALUES (1, 'a');"
            f"ALTER TABLE t RENAME COLUMN name TO label; UPDATE t SET label = '{'x' * 150}';"
            "SET binlog_annotate_row_events = OFF; UPDATE t SET id = 2",
            "shop",
        )
        world.publish()
        lines = asked(capsys, "history", "shop.t", "2")
        assert ops(lines) == ["insert", "ALTER", "update", "update"]
        statements = [line["statement"] for line in lines]
        assert statements[0] == "INSERT INTO t VALUES (1, 'a')"
        assert statements[2] == f"UPDATE t SET label = '{'x' * 150}'"
        assert (statements[3], lines[3]["statement_unknown"]) == (None, "not logged")
        assert [line["cause"]["seq"] for line in asked(capsys, "blame", "shop.t", "2")] == [
            lines[3]["seq"],
            lines[2]["seq"],
        ]


def test_a_transaction_that_was_prepared_before_an_alter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On MariaDB, a restart keeps the locks of its rows, but not the metadata locks of its tables."""
    with start_mariadb(tmp_path / "server", next(iter(PREFIXES))) as server:
        server.run_sql("CREATE DATABASE shop")
        (tmp_path / "world").mkdir()
        world = with_settings(UndoWorld(server, tmp_path / "world", name="shop"), monkeypatch)
        server.run_sql(
            "CREATE TABLE t (id INT PRIMARY KEY, a INT, e ENUM('x', 'y')); INSERT INTO t VALUES (1, 1, 'x');"
            "XA START 'held'; INSERT INTO t VALUES (2, 2, 'y'); UPDATE t SET e = 'y' WHERE id = 1; XA END 'held';"
            "XA PREPARE 'held'",
            "shop",
        )
        server.stop()
        server.start_again()
        server.run_sql("ALTER TABLE t MODIFY e ENUM('x', 'y', 'z'); INSERT INTO t VALUES (3, 3, 'z')", "shop")
        begin = world.marked()
        server.run_sql("XA COMMIT 'held'", "shop")
        end = world.marked()
        server.run_sql("UPDATE t SET a = 9 WHERE id = 1", "shop")
        world.publish()
        assert ops(asked(capsys, "history", "shop.t", "1")) == ["insert", "ALTER", "update", "update"]
        assert ops(asked(capsys, "history", "shop.t", "2")) == ["insert"]
        assert ops(asked(capsys, "history", "shop.t", "--where", "id = 2")) == ["insert"]
        world.execute(world.script(Choice(gtids=world.between(begin, end)))[0])
        assert world.rows("t") == [(1, 9, "x"), (3, 3, "z")]


def test_conversions_of_which_nothing_is_known(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(
        "CREATE TABLE t (id INT PRIMARY KEY, labels BIGINT, blanks CHAR(5), n INT);"
        "INSERT INTO t VALUES (1, 3, 'a', 4), (2, 1, 'b', 5); SET sql_mode = 'PAD_CHAR_TO_FULL_LENGTH';"
        "ALTER TABLE t MODIFY labels SET('x', 'y'), MODIFY blanks VARCHAR(9), MODIFY n DECIMAL(5, 2);"
        "SET sql_mode = DEFAULT; UPDATE t SET n = 6 WHERE id = 1",
        "shop",
    )
    world.publish()
    assert [(line["column"], line["value"], line["given_by"]) for line in asked(capsys, "blame", "shop.t", "1")] == [
        ("id", 1, "change"),
        ("labels", "x,y", "schema"),
        ("blanks", "a    ", "schema"),
        ("n", "6.00", "change"),
    ]
    (altered,) = [line["altered"] for line in asked(capsys, "history", "shop.t", "2") if line["kind"] == "schema"]
    assert {name: value.get("after") for name, value in altered.items()} == {
        "labels": None,
        "blanks": None,
        "n": "5.00",
    }
    assert run(["row", "blame", "shop.t", "2"]) == 1
    assert "not known" in capsys.readouterr().err


@pytest.fixture
def mariadb_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PastWorld]:
    with start_mariadb(tmp_path / "server", next(iter(PREFIXES))) as server:
        server.run_sql("CREATE DATABASE shop")
        (tmp_path / "world").mkdir()
        yield with_settings(PastWorld(server, tmp_path / "world", name="shop"), monkeypatch)


def test_generated_columns_that_mariadb_does_not_log(
    mariadb_world: PastWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    mariadb_world.server.run_sql(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT AS (a + 1) VIRTUAL, tenth INT AS (b DIV 10) STORED, c INT,"
        " d INT AS (c) VIRTUAL); INSERT INTO t (id, a, c) VALUES (1, 1, 1); UPDATE t SET c = 2; UPDATE t SET a = 2",
        "shop",
    )
    mariadb_world.publish()
    assert run(["row", "blame", "shop.t", "1"]) == 1
    assert "not known" in capsys.readouterr().err
    mariadb_world.server.run_sql("ALTER TABLE t ADD e INT; DELETE FROM t; INSERT INTO t (id) VALUES (1)", "shop")
    mariadb_world.publish()
    assert [line["value"] for line in asked(capsys, "blame", "shop.t", "1")] == [1, *[None] * 6]


def test_rows_of_the_past_have_the_keys_of_others(mariadb_world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    mariadb_world.server.run_sql(
        "CREATE TABLE t (id INT PRIMARY KEY, n INT) WITH SYSTEM VERSIONING; INSERT INTO t VALUES (1, 1), (2, 2);"
        "UPDATE t SET n = 3; DELETE FROM t WHERE id = 2; DELETE HISTORY FROM t; UPDATE t SET n = 4;"
        "UPDATE t SET id = 5; INSERT INTO t VALUES (2, 6); ALTER TABLE t DROP SYSTEM VERSIONING; UPDATE t SET n = 7",
        "shop",
    )
    mariadb_world.publish()
    lines = asked(capsys, "history", "shop.t", "5")
    assert ops(lines) == ["insert", "update", "update", "update", "ALTER", "update"]
    assert {line["row_number"] for line in lines if line["kind"] == "change"} == {1}
    assert {line["column"]: line["value"] for line in asked(capsys, "blame", "shop.t", "5")} == {"id": 5, "n": 7}
    lines = asked(capsys, "history", "shop.t", "2")
    assert [line["row_number"] for line in lines if line["kind"] == "change"] == [1, 1, 1, 2, 2]
    assert "row_end" in lines[2]["changed"]


def test_a_key_of_two_rows_before_it_was_a_key(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(
        "CREATE TABLE t (id INT NOT NULL, n INT); INSERT INTO t VALUES (1, 1), (2, 2), (2, 2), (3, 3);"
        "DELETE FROM t WHERE id = 2 LIMIT 1; DELETE FROM t WHERE id = 3; INSERT INTO t VALUES (3, 4);"
        "ALTER TABLE t ADD PRIMARY KEY (id); UPDATE t SET n = n + 10",
        "shop",
    )
    world.publish()
    for key, n in (("1", 11), ("3", 14)):
        assert [line["value"] for line in asked(capsys, "blame", "shop.t", key)] == [int(key), n]
    for question in ("blame", "history"):
        said = refused(capsys, question, "shop.t", "2")
        assert "two rows had this key" in said
        assert "strata row history shop.t --where" in said
