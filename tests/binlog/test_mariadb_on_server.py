"""What MariaDB servers write is read as they show it: `SHOW BINLOG EVENTS`, and the rows of `SELECT`."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.events.transactions import ddl_events, read_transactions
from strata_cdc.changes.port import ChangeBatch
from strata_cdc.pipeline.decode.decode_files import decode_files_physically
from tests.mariadb_server import PREFIXES, start_mariadb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pymysql

    from tests.mariadb_server import MariadbServer

pytestmark = pytest.mark.mysql

_ENDS = ("Xid", "XA_prepare", "Query", "Query_compressed")


@pytest.fixture(scope="module", params=PREFIXES)
def mariadb(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariadbServer]:
    with start_mariadb(tmp_path_factory.mktemp("mariadb"), request.param) as server:
        yield server


@pytest.fixture
def file(mariadb: MariadbServer) -> Path:
    """The file that a test's statements are written to."""
    mariadb.run_sql("RESET MASTER; CREATE OR REPLACE DATABASE shop;")
    return mariadb.folder / "data" / "binlog.000001"


def shown(server: MariadbServer) -> list[tuple[str, int, str]]:
    """Type, offset and text of each event, as the server shows them."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW BINLOG EVENTS IN 'binlog.000001'")
        return [(row[2], row[1], row[5]) for row in cursor.fetchall()]


def rows_of(file: Path, table: str) -> dict[object, dict[str, object]]:
    """The rows that a table has by its changes, by their first column."""
    rows: dict[object, dict[str, object]] = {}
    for step in decode_files_physically([str(file)], wanted=lambda _: True):
        if not isinstance(step, ChangeBatch) or step.table.table != table:
            continue
        names = [name for name in step.batch.schema.names if name.startswith("@")]
        for row in step.batch.to_pylist():
            if row["_op"] != "insert":
                rows.pop(row["_before"]["@1"])
            if row["_op"] != "delete":
                rows[row["@1"]] = {name: row[name] for name in names}
    return rows


def write_at_random(server: MariadbServer, seed: int) -> None:
    """Transactions of every kind, each event compressed or not, in several domains and by several servers."""
    chance = random.Random(seed)
    with server.connect("shop") as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT, name VARCHAR(3000))")
        cursor.execute("CREATE TABLE m (id INT PRIMARY KEY) ENGINE=MyISAM")
        cursor.execute("CREATE SEQUENCE q CACHE 2")
        alive: list[int] = []
        savepoints: dict[str, list[int]] = {}
        for number in range(150):
            cursor.execute(f"SET GLOBAL log_bin_compress = {chance.choice(['ON', 'OFF'])}")
            cursor.execute(
                f"SET gtid_domain_id = {chance.choice([0, 3, 4294967295])}, server_id = {chance.choice([1, 9])}"
            )
            xid = f"'x{number}','{'y' * chance.choice([0, 60])}'"
            is_xa = chance.random() < 0.3
            cursor.execute(f"XA START {xid}" if is_xa else "BEGIN")
            for key in range(number, number + 1000 * chance.randint(1, 6), 1000):
                undo_some(cursor, chance, alive, savepoints)
                if chance.random() < 0.2:
                    cursor.execute("SELECT NEXTVAL(q)" if is_xa else f"INSERT INTO m VALUES ({key})")
                cursor.execute(write_one(chance, key, alive))
            savepoints.clear()
            if is_xa:
                cursor.execute(f"XA END {xid}")
                cursor.execute(f"XA PREPARE {xid}")
                cursor.execute(f"XA COMMIT {xid}")
            else:
                cursor.execute("COMMIT")
            if chance.random() < 0.1:
                cursor.execute(f"ALTER TABLE t COMMENT '{'c' * chance.choice([5, 900])}'")


def undo_some(
    cursor: pymysql.cursors.Cursor, chance: random.Random, alive: list[int], savepoints: dict[str, list[int]]
) -> None:
    """Sets a savepoint, or goes back to one; often does nothing."""
    name = chance.choice(["a", "B c", "dé" * 20])
    text = f"`{name.upper() if chance.random() < 0.5 else name}`"
    what = chance.random()
    if what < 0.3:
        cursor.execute(f"SAVEPOINT {text}")
        savepoints.pop(name, None)
        savepoints[name] = alive.copy()
    elif name in savepoints and what < 0.8:
        cursor.execute(f"{'ROLLBACK TO' if what < 0.7 else 'RELEASE'} SAVEPOINT {text}")
        before = [known for known in savepoints if list(savepoints).index(known) < list(savepoints).index(name)]
        if what < 0.7:
            alive[:] = savepoints[name]
            before.append(name)
        for known in [known for known in savepoints if known not in before]:
            del savepoints[known]


def write_one(chance: random.Random, number: int, alive: list[int]) -> str:
    name = "'" + chance.choice("abc") * chance.choice([3, 30, 2500]) + "'"
    what = chance.choice(["insert", "insert", "update", "delete"]) if alive else "insert"
    if what == "insert":
        alive.append(number)
        return f"INSERT INTO t VALUES ({number}, {chance.randint(-9, 9)}, {name})"
    if what == "update":
        return f"UPDATE t SET name = {name}, n = n + 1 WHERE id = {chance.choice(alive)}"
    return f"DELETE FROM t WHERE id = {alive.pop(chance.randrange(len(alive)))}"


@pytest.mark.parametrize("seed", range(3))
def test_transactions_lie_where_the_server_shows_them(mariadb: MariadbServer, file: Path, seed: int) -> None:
    write_at_random(mariadb, seed)
    events = shown(mariadb)
    begins = [(offset, text.rpartition("GTID ")[2].split()[0]) for kind, offset, text in events if kind == "Gtid"]
    with open_binlog(file) as binlog:
        records = list(read_transactions(binlog))
        assert [(record.begin, str(record.gtid)) for record in records] == begins
        assert [record.begin for record in records[1:]] == [record.end for record in records[:-1]]
        texts = [statement.query.statement.decode() for record in records for statement in ddl_events(binlog, record)]
    ddl = [text.split("; ", 1)[-1] for kind, _, text in events if kind in _ENDS and " TABLE " in text]
    assert [text for text in texts if " TABLE " in text] == ddl
    compressed = {kind for kind, _, _ in events if "ompressed" in kind}
    assert compressed == {
        "Query_compressed",
        "Write_rows_compressed_v1",
        "Update_rows_compressed_v1",
        "Delete_rows_compressed_v1",
    }


@pytest.mark.parametrize("seed", range(3))
def test_rows_are_those_of_select(mariadb: MariadbServer, file: Path, seed: int) -> None:
    write_at_random(mariadb, seed)
    with mariadb.connect("shop") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id, n, CAST(name AS BINARY) FROM t")
        expected = {row[0]: {"@1": row[0], "@2": row[1], "@3": row[2]} for row in cursor.fetchall()}
        cursor.execute("SELECT COUNT(*) FROM m")
        [(of_m,)] = cursor.fetchall()
    rows = rows_of(file, "t")
    assert rows == expected
    assert b"ROLLBACK TO" in file.read_bytes()
    assert len(rows_of(file, "m")) == of_m
