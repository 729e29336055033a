"""Keys as people write them: values that no Arrow type has, labels, numbers of several types."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.mariadb_server import start_mariadb
from tests.past.past_world import PastWorld, executed
from tests.past.test_rows import asked, ops, refused, with_settings

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]


@pytest.fixture
def world(server: MysqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PastWorld:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    return with_settings(PastWorld(server, tmp_path, name="shop"), monkeypatch)


DATES = """SET sql_mode = ''; CREATE TABLE t (day DATE PRIMARY KEY, n INT);
INSERT INTO t VALUES ('2026-01-01', 1), ('2026-00-10', 5);
UPDATE t SET day = '0000-00-00', n = 2 WHERE n = 1; INSERT INTO t VALUES ('2026-01-01', 3);
UPDATE t SET day = '2026-07-07' WHERE day = '0000-00-00'; INSERT INTO t VALUES ('0000-00-00', 9);
UPDATE t SET n = n + 10; DELETE FROM t WHERE day = '2026-01-01';
CREATE TABLE u (at DATETIME(3), id INT, n INT, PRIMARY KEY (at, id));
INSERT INTO u VALUES ('0000-00-00', 1, 1), ('0000-00-00', 2, 1); UPDATE u SET n = 2 WHERE id = 1;
CREATE TABLE v (day DATE PRIMARY KEY, n INT); INSERT INTO v VALUES ('0000-00-00', 1), ('2026-01-01', 1);
ALTER TABLE v MODIFY day DATETIME(3); UPDATE v SET n = 2"""


def test_a_zero_date_is_a_key(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(DATES, "shop")
    world.publish()
    world.update()
    moved = asked(capsys, "history", "shop.t", "2026-07-07")
    assert ops(moved) == ["insert", "update", "update", "update"]
    days = [line["changed"].get("day") for line in moved]
    assert days[1:3] == [
        {"before": "2026-01-01", "after": "0000-00-00"},
        {"before": "0000-00-00", "after": "2026-07-07"},
    ]
    # Two rows had the key: one that came from another day and moved on, and one that is there.
    zero = asked(capsys, "history", "shop.t", "0000-00-00")
    assert [(line["row_number"], line["op"]) for line in zero] == [
        (1, "insert"), (1, "update"), (1, "update"), (2, "insert"), (2, "update"), (1, "update"),
    ]  # fmt: skip
    assert [line["row_number"] for line in asked(capsys, "history", "shop.t", "2026-01-01")] == [1, 1, 2, 1, 2, 1, 2]
    assert len(asked(capsys, "history", "shop.t", "2026-00-10")) == 2
    assert {line["column"]: line["value"] for line in asked(capsys, "blame", "shop.t", "0000-00-00")}["n"] == 19
    for key in ("0000-00-00", "0000-00-00 00:00:00", "0000-00-00 00:00:00.000"):
        assert ops(asked(capsys, "history", "shop.u", key, "1")) == ["insert", "update"]
    for key in ("0000-00-00", "2026-01-01", "2026-01-01 00:00:00"):
        assert ops(asked(capsys, "history", "shop.v", key)) == ["insert", "ALTER", "update"]
    then = executed(world).rpartition("-")[0] + "-4"
    difference = asked(capsys, "diff", "shop.t", "0000-00-00", "--from", then)
    assert [(line["before"], line["after"]) for line in difference if line["kind"] == "changed"] == [
        ({"n": 2}, {"n": 19})
    ]
    assert "is no value of day" in refused(capsys, "history", "shop.t", "2026-13-01")


def test_a_zero_date_that_a_statement_gave_is_shown(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(
        "CREATE TABLE t (id INT PRIMARY KEY, was DATE, none DATE); INSERT INTO t VALUES (1, NULL, NULL); "
        "SET sql_mode = ''; ALTER TABLE t ADD COLUMN day DATE NOT NULL, ADD COLUMN began DATETIME(1) NOT NULL, "
        "ADD COLUMN old DATE DEFAULT '0000-05-05'; ALTER TABLE t MODIFY was DATE NOT NULL, MODIFY none DATETIME",
        "shop",
    )
    world.publish()
    blamed = {line["column"]: line["value"] for line in asked(capsys, "blame", "shop.t", "1")}
    with world.server.connect("shop") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT * FROM t")
        (selected,) = cursor.fetchall()
    assert list(blamed.values()) == list(selected)


LABELS = """CREATE TABLE s (tags SET('red', 'Green', 'blue') PRIMARY KEY, n INT);
INSERT INTO s VALUES ('blue,red', 1), ('', 2); UPDATE s SET n = 3;
CREATE TABLE e (state ENUM('new', 'Old') PRIMARY KEY, n INT); INSERT INTO e VALUES ('old', 1)"""


def test_labels_have_no_order_and_no_case(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(LABELS, "shop")
    world.publish()
    for word in ("red,blue", "blue,red", "BLUE,red", "blue,red,blue"):
        lines = asked(capsys, "history", "shop.s", word)
        assert [line["key"] for line in lines] == [{"tags": "red,blue"}] * 2
    assert ops(asked(capsys, "history", "shop.s", "")) == ["insert", "update"]
    assert asked(capsys, "history", "shop.e", "OLD")[0]["key"] == {"state": "Old"}
    assert "'red,pink' is no value of tags, which is set(" in refused(capsys, "history", "shop.s", "red,pink")
    assert "'2' is no value of state" in refused(capsys, "blame", "shop.e", "2")


ADDRESSES = """CREATE TABLE u (x UUID PRIMARY KEY, n INT); CREATE TABLE i (x INET6 PRIMARY KEY, n INT);
INSERT INTO u VALUES ('123e4567-e89b-12d3-a456-426655440000', 1);
INSERT INTO i VALUES ('::1', 1), ('192.0.2.1', 2), ('2001:db8::ff00:42:8329', 3)"""


def test_addresses_have_many_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with start_mariadb(tmp_path / "server", "11.8") as server:
        world = with_settings(PastWorld(server, tmp_path, name="shop"), monkeypatch)
        server.run_sql(f"CREATE DATABASE shop; USE shop; {ADDRESSES}")
        world.publish()
        for word in ("123E4567-E89B-12D3-A456-426655440000", "123e4567e89b12d3a456426655440000"):
            assert ops(asked(capsys, "history", "shop.u", word)) == ["insert"]
        for word, n in {"0:0::1": 1, "192.0.2.1": 2, "::ffff:c000:201": 2, "2001:DB8:0:0:0:FF00:42:8329": 3}.items():
            assert [line["after"]["n"] for line in asked(capsys, "history", "shop.i", word)] == [n]
        assert "'10.0.0' is no value of x" in refused(capsys, "history", "shop.i", "10.0.0")


NUMBERS = """CREATE TABLE d (x DOUBLE PRIMARY KEY, n INT); INSERT INTO d VALUES (-0e0, 1), (1e300, 2);
UPDATE d SET x = 0 WHERE x = 0; UPDATE d SET n = n + 1;
CREATE TABLE i (x DECIMAL(30) PRIMARY KEY, n INT); INSERT INTO i VALUES (5, 1), (100000000000000000000, 2);
ALTER TABLE i MODIFY x DOUBLE; UPDATE i SET n = n + 1;
CREATE TABLE w (x DECIMAL(50, 4) PRIMARY KEY, n INT); INSERT INTO w VALUES (1.5, 1), (-0.25, 2), (0, 3);
ALTER TABLE w MODIFY x DECIMAL(60, 6); UPDATE w SET n = n + 1"""


def test_equal_numbers_are_one_key(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(NUMBERS, "shop")
    world.publish()
    for word in ("0", "-0", "0.0"):
        lines = asked(capsys, "history", "shop.d", "--", word)
        assert [(line["op"], line["row_number"]) for line in lines] == [("insert", 1), ("update", 1), ("update", 1)]
    assert ops(asked(capsys, "history", "shop.d", "1e300")) == ["insert", "update"]
    for word in ("5", "5.0", "1e20", "100000000000000000000"):
        assert ops(asked(capsys, "history", "shop.i", word)) == ["insert", "ALTER", "update"]
    for word in ("1.5", "1.5000000", "-0.25", "-.25", "0", "-0.0"):
        assert ops(asked(capsys, "history", "shop.w", "--", word)) == ["insert", "ALTER", "update"]
    assert "is no value of x" in refused(capsys, "history", "shop.w", "1.0000001")


KEYS = """CREATE TABLE t (code BINARY(3), ID INT, price DECIMAL(6, 2), n INT, PRIMARY KEY (id, code, price));
INSERT INTO t VALUES (x'00ff41', 7, 1.5, 1), (x'00ff42', 7, 2.25, 2); UPDATE t SET n = n + 10"""


def test_a_key_may_be_json(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(KEYS, "shop")
    world.publish()
    world.update()
    history = asked(capsys, "history", "shop.t", "7", "0x00ff42", "2.25")
    assert ops(history) == ["insert", "update"]
    key = json.dumps(history[0]["key"])
    chosen = ["--source", "shop", "--table", "shop.t", "--key", key]
    assert asked(capsys, "history", *chosen) == history
    assert asked(capsys, "blame", *chosen) == asked(capsys, "blame", "shop.t", "7", "0x00ff42", "2.25")
    assert asked(capsys, "history", "--table", "shop.t", "--", "7", "0x00ff42", "2.25") == history
    assert asked(capsys, "history", "shop.t", "--key", '{"Id": 7, "price": 2.250, "CODE": "AP9C"}') == history
    assert asked(capsys, "history", "shop.t", "--key", '[7, "AP9C", "2.25"]') == history
    assert len(asked(capsys, "history", "--table", "shop.t", "--where", "n > 10")) == 2
    changed = asked(capsys, "diff", *chosen, "--from", history[0]["gtid"].replace(":", ":1-"))
    assert [line["kind"] for line in changed] == ["tables", "changed"]


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("7", 'the key \'7\' has not the columns ID, code, price. Write it as {"ID": "...", "code": '),
        ('{"id": 7}', "has not the columns ID, code, price"),
        ("{", "the key '{' is no JSON"),
        ('{"id": null, "code": "AP9C", "price": 2}', "null is no value of ID, a column of the key"),
        ('{"id": 7, "code": "0x00f", "price": 2}', "In JSON, bytes are in base64"),
        ('{"id": "x", "code": "AP9C", "price": 2}', "'x' is no value of ID, which is int"),
    ],
)
def test_json_that_is_no_key(world: PastWorld, capsys: pytest.CaptureFixture[str], key: str, said: str) -> None:
    world.server.run_sql(KEYS, "shop")
    world.publish()
    assert said in refused(capsys, "history", "--table", "shop.t", "--key", key)


def test_a_row_needs_a_table_and_one_key(world: PastWorld, capsys: pytest.CaptureFixture[str]) -> None:
    assert "which table" in refused(capsys, "history", "--key", '{"id": 7}')
    assert "the key is there twice" in refused(capsys, "blame", "shop.t", "7", "--key", '{"id": 7}')
