"""Tables that are older than the landed stream, altered in it: a mirror that follows has all rows, whatever became of
its table, and what cannot have them is read from the server."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from strata_cdc.cli.main import run
from strata_cdc.schema.model.engines import KEEPS_NO_ROWS
from tests.mirrors.shop import Shop

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

LIVES = int(os.environ.get("STRATA_MIRROR_LIVES", "1"))
TABLES = 12
STATEMENTS = (
    "ALTER TABLE {t} ADD INDEX i{n} (v)",
    "CREATE INDEX i{n} ON {t} (n)",
    "ALTER TABLE {t} MODIFY v VARCHAR({wide})",
    "ALTER TABLE {t} ENGINE = InnoDB",
    "ALTER TABLE {t} ALTER n SET DEFAULT {n}",
    "ALTER TABLE {t} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    "ALTER TABLE {t} DEFAULT CHARACTER SET latin1",
    "ALTER TABLE {t} COMMENT '{n}', ROW_FORMAT = DYNAMIC",
    "ALTER TABLE {t} PARTITION BY HASH (id) PARTITIONS 3",
    "ALTER TABLE {t} REMOVE PARTITIONING",
    "ALTER TABLE {t} ADD COLUMN c{n} INT DEFAULT {n}",
    "ALTER TABLE {t} RENAME TO {t}x",
    "RENAME TABLE {t} TO {t}y",
    "RENAME TABLE {t} TO swap, {o} TO {t}, swap TO {o}",
    "ALTER TABLE {t} ENGINE = BLACKHOLE",
    "CREATE TABLE IF NOT EXISTS {t} (id INT PRIMARY KEY)",
    "CREATE TABLE {t}l LIKE {t}",
    "CREATE TABLE {t}s SELECT id, n FROM {t}",
    "TRUNCATE TABLE {t}",
    "DROP TABLE {t}",
    "CREATE TABLE {t} (id INT PRIMARY KEY, v VARCHAR(9), n INT)",
    "INSERT INTO {t} (id, v) VALUES ({n}, 'new')",
    "INSERT INTO {t} (id, n) VALUES ({n} + 500, {n})",
    "UPDATE {t} SET n = {n} WHERE id < 3",
    "DELETE FROM {t} WHERE id = 2",
)


@pytest.fixture
def shop(server: MysqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    server.run_sql("DROP DATABASE IF EXISTS shop; CREATE DATABASE shop")
    for number in range(TABLES):
        server.run_sql(
            f"CREATE TABLE t{number} (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET latin1, n INT) "
            f"{'ENGINE = BLACKHOLE' if number == 0 else ''};"
            f"INSERT INTO t{number} VALUES (1, 'one', 1), (2, 'two', 2), (3, NULL, NULL)",
            "shop",
        )
    server.run_sql("RESET BINARY LOGS AND GTIDS")
    return Shop(server, tmp_path, monkeypatch)


def names_of(server: MysqlServer) -> list[str]:
    with server.connect("shop") as connection, connection.cursor() as cursor:
        cursor.execute("SHOW TABLES")
        return sorted(name for (name,) in cursor.fetchall())


def live(server: MysqlServer, draw: random.Random, statements: int) -> None:
    """Random statements, of which the server refuses those that do not fit."""
    with server.connect("shop") as connection, connection.cursor() as cursor:
        for _ in range(statements):
            names = names_of(server)
            cursor.execute(f"SET SESSION binlog_row_image = {draw.choice(['FULL', 'MINIMAL'])}")
            wide, number = draw.randint(9, 60), draw.randint(10, 400)
            one, other = (draw.choice(names) for _ in range(2))
            statement = draw.choice(STATEMENTS).format(t=one, o=other, n=number, wide=wide)
            try:
                cursor.execute(statement)
            except Exception as error:
                if "(2006" in str(error) or "(2013" in str(error):
                    raise


def run_all(capsys: pytest.CaptureFixture[str]) -> None:
    """A run, which may leave rows out whose schema nobody knows: these are older than its first snapshot."""
    capsys.readouterr()
    code = run(["run"])
    assert code == 0 or "not published" in capsys.readouterr().err


@pytest.mark.parametrize("seed", range(LIVES))
def test_a_mirror_that_follows_has_all_rows(shop: Shop, seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    draw = random.Random(seed)
    # What the stream begins with, where the first run, and its snapshot, come behind it.
    live(shop.server, draw, draw.choice([0, 30]))
    shop.set("mirror_read_again = false", mirrors=draw.choice(["none.*", "shop.*"]))
    for _ in range(2):
        run_all(capsys)
        live(shop.server, draw, 60)
    shop.set("mirror_read_again = false")
    run_all(capsys)
    behind = shop.updated(capsys)
    follow = [name for name in names_of(shop.server) if behind[name] is None]
    shop.assert_equal(*follow)
    waiting = {one["table_name"] for one in shop.waiting(capsys)}
    assert waiting == set(names_of(shop.server)) - set(follow), "who does not follow says why"
    assert waiting
    shop.set()
    run_all(capsys)
    assert shop.waiting(capsys) == []
    shop.assert_equal(*names_of(shop.server))
    live(shop.server, draw, 40)
    run_all(capsys)
    shop.assert_equal(*names_of(shop.server))
    assert {one["stopped"] for one in shop.listed(capsys).values() if not one["dropped"]} == {None}


def test_a_table_that_keeps_no_rows_is_there_before_any_transaction(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.server.run_sql("DELETE FROM t1", "shop")
    shop.set('land_from = "snapshot"')
    assert run(["run"]) == 0
    assert shop.listed(capsys)["t0"]["rows"] == 0
    shop.server.run_sql("INSERT INTO t0 VALUES (4, 'four', 4)", "shop")
    assert run(["run"]) == 0
    shop.assert_equal(*names_of(shop.server))
    capsys.readouterr()
    assert run(["views", "--history", "--table", "shop.t0"]) == 0
    assert f"shop.t0, history: no view\n--   {KEEPS_NO_ROWS}" in capsys.readouterr().out
