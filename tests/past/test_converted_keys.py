"""A row whose key a DDL writes in another way is still that row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strata_cdc.cli.main import run
from tests.mariadb_server import start_mariadb
from tests.past.past_world import PastWorld, executed
from tests.past.test_rows import asked, ops, with_settings

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]


@pytest.fixture
def world(server: MysqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PastWorld:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    return with_settings(PastWorld(server, tmp_path, name="shop"), monkeypatch)


CONVERSIONS = {
    "bytes": ("CHAR(5)", "BINARY(5)", "'abcde'", "'abcdf'", "0x6162636465"),
    "members": ("SET('a','b','c')", "SET('c','b','a')", "'a,c'", "'b'", "c,a"),
    "labels": ("ENUM('a','b','c')", "ENUM('c','b','a')", "'a'", "'b'", "a"),
    "longer": ("DECIMAL(5,2)", "DECIMAL(7,4)", "1.5", "2", "1.5"),
    "shorter": ("DECIMAL(7,4)", "DECIMAL(5,2)", "1.2345", "2", "1.23"),
    "day": ("DATE", "DATETIME", "'2026-01-02'", "'2026-01-03'", "2026-01-02"),
    "moment": ("DATETIME", "DATE", "'2026-01-02 10:00:00'", "'2026-01-03'", "2026-01-02"),
    "text": ("INT", "VARCHAR(9)", "7", "8", "7"),
    "zeros": ("INT(5) ZEROFILL", "VARCHAR(9)", "7", "8", "00007"),
    "fraction": ("DECIMAL(5,2)", "VARCHAR(9)", "7", "8", "7.00"),
    "midnight": ("DATETIME", "VARCHAR(20)", "'2026-01-02'", "'2026-01-03'", "2026-01-02 00:00:00"),
    "digits": ("VARCHAR(9)", "INT", "'007'", "'8'", "7"),
    "year": ("YEAR", "INT", "2026", "2027", "2026"),
}
"""By a table: the type of its key before and after a DDL, the keys of two rows, and how the first is written at the
end."""


def _life(name: str, case: tuple[str, ...]) -> str:
    old, new, key, other, _ = case
    return f"""SET sql_mode = ''; CREATE TABLE {name} (k {old}, m INT, n INT, PRIMARY KEY (k, m));
        INSERT INTO {name} VALUES ({key}, 1, 1), ({other}, 1, 1), ({key}, 2, 1); UPDATE {name} SET n = 2 WHERE m = 1;
        ALTER TABLE {name} MODIFY k {new}; UPDATE {name} SET n = n + 10 WHERE n = 2"""


def _lives(capsys: pytest.CaptureFixture[str], name: str, key: str) -> None:
    lines = asked(capsys, "history", f"shop.{name}", key, "1")
    assert ops(lines) == ["insert", "update", "ALTER", "update"], [line.get("reason") for line in lines]
    assert {line["row_number"] for line in lines if line["kind"] == "change"} == {1}
    values = {line["column"]: line["value"] for line in asked(capsys, "blame", f"shop.{name}", key, "1")}
    assert (str(values["m"]), values["n"]) == ("1", 12), name


@pytest.mark.parametrize("name", CONVERSIONS)
def test_a_row_keeps_its_history_where_a_ddl_converts_its_key(
    world: PastWorld, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    case = CONVERSIONS[name]
    life = _life(name, case).rpartition("ALTER")
    world.server.run_sql(life[0], "shop")
    then = executed(world)
    world.server.run_sql(f"SET sql_mode = ''; {life[1]}{life[2]}", "shop")
    world.publish()
    world.update()
    _lives(capsys, name, case[-1])
    difference = asked(capsys, "diff", f"shop.{name}", "--from", then)
    assert [line["kind"] for line in difference[1:]] == ["changed", "changed"], difference
    difference = asked(capsys, "diff", f"shop.{name}", case[-1], "1", "--from", then)
    assert [(line["before"], line["after"]) for line in difference[1:]] == [({"n": 2}, {"n": 12})]


UNKNOWN = """CREATE TABLE t (k CHAR(5) PRIMARY KEY, n INT); INSERT INTO t VALUES ('abc', 1), ('abcde', 1);
UPDATE t SET n = 2; ALTER TABLE t MODIFY k BINARY(5); UPDATE t SET n = 3; INSERT INTO t VALUES ('new', 4)"""


def test_a_conversion_that_is_not_known_is_said(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(UNKNOWN, "shop")
    world.publish()
    world.update()
    ddl = next(line["seq"] for line in asked(capsys, "history", "shop.t", "abcde") if line["kind"] == "schema")
    then = f"{executed(world).rpartition(':')[0]}:1-{ddl - 1}"
    (shown,) = (
        line for line in world.select("SELECT HEX(k) FROM shop.t WHERE k LIKE 'abc%' AND k NOT LIKE 'abcd%'")[0]
    )
    doubt, change = asked(capsys, "history", "shop.t", f"0x{shown[0]}")
    assert (doubt["kind"], doubt["after"], doubt["until"], change["is_older"]) == ("unknown", ddl, ddl, True)
    assert doubt["reason"].startswith("the row may have another key from here on than before: k: what char(5) became")
    assert asked(capsys, "blame", "shop.t", f"0x{shown[0]}")[0]["doubt"] == "a later statement may have converted it"
    assert ops(asked(capsys, "history", "shop.t", "abc", "--to", then)) == ["insert", "update"]
    assert ops(asked(capsys, "history", "shop.t", "0x6e65770000")) == ["insert"]


GONE = """CREATE TABLE t (k CHAR(5) PRIMARY KEY, n INT); INSERT INTO t VALUES ('abc', 1), ('abcde', 1);
DELETE FROM t WHERE k = 'abc'; ALTER TABLE t MODIFY k BINARY(5); UPDATE t SET n = 3"""


def test_a_difference_reports_keys_that_are_not_known(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(GONE, "shop")
    world.publish()
    world.update()
    then = f"{executed(world).rpartition(':')[0]}:1-3"
    tables, *lines = asked(capsys, "diff", "shop.t", "--from", then)
    assert "char(5) became" in tables["doubt"]
    assert [line["kind"] for line in lines] == ["removed", "changed"]
    assert run(["row", "diff", "shop.t", "--from", then]) == 0
    assert "rows may be shown as one that went and one that came: k: what char(5) became" in capsys.readouterr().out


ADDRESSES = """CREATE TABLE {0} (k {1} PRIMARY KEY, n INT); INSERT INTO {0} VALUES ('{3}', 1); UPDATE {0} SET n = 2;
ALTER TABLE {0} MODIFY k {2}; UPDATE {0} SET n = 3;"""


def test_mariadb_s_own_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with start_mariadb(tmp_path / "server", "11.8") as server:
        world = with_settings(PastWorld(server, tmp_path, name="shop"), monkeypatch)
        server.run_sql("CREATE DATABASE shop")
        server.run_sql(ADDRESSES.format("up", "INET4", "INET6", "192.0.2.1"), "shop")
        uuid = "123E4567-E89B-12D3-A456-426655440000"
        server.run_sql(ADDRESSES.format("u", "CHAR(36)", "UUID", uuid), "shop")
        world.publish()
        for name, key, history in (
            ("up", "::ffff:192.0.2.1", ["None", "update"]),
            ("u", uuid.lower(), ["insert", "update", "ALTER", "None", "update"]),
        ):
            lines = asked(capsys, "history", f"shop.{name}", key)
            assert ops(lines) == history
            assert "another key from here on" in lines[-2]["reason"]


SEVERAL = """CREATE TABLE t (k DECIMAL(7, 4) PRIMARY KEY, n INT); INSERT INTO t VALUES (1.2345, 1), (1.2301, 2), (3, 3);
UPDATE t SET n = n + 10; DELETE FROM t WHERE k = 1.2301; INSERT INTO t VALUES (1.6, 8);
UPDATE t SET k = 1.7 WHERE k = 1.6;
ALTER TABLE t MODIFY k DECIMAL(5, 2); UPDATE t SET n = n + 10; DELETE FROM t WHERE k = 1.23;
ALTER TABLE t MODIFY k VARCHAR(9); INSERT INTO t VALUES ('1.23', 5), ('1.2345', 6), ('3', 7);
UPDATE t SET k = '4' WHERE k = '3.00'"""


def test_several_conversions_of_several_rows(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(SEVERAL, "shop")
    world.publish()
    world.update()

    def life(key: str) -> list[tuple[int, str]]:
        lines = asked(capsys, "history", "shop.t", key)
        return [(line.get("row_number", 0), op) for line, op in zip(lines, ops(lines), strict=True)]

    first = [(1, "insert"), (1, "update"), (0, "ALTER"), (1, "update"), (1, "delete")]
    assert life("1.23") == [*first, (0, "ALTER"), (2, "insert")]
    moved = [(1, "insert"), (1, "update"), (0, "ALTER"), (1, "update"), (0, "ALTER"), (1, "update")]
    assert life("4") == moved
    assert life("3.00") == moved
    assert life("1.70")[:2] == [(1, "insert"), (1, "update")]
    then = f"{executed(world).rpartition(':')[0]}:1-3"
    assert run(["row", "diff", "shop.t", "--from", then, "--to", f"{then[:-1]}9"]) == 1
    assert "a DDL gave several rows of the first moment one key" in capsys.readouterr().err
