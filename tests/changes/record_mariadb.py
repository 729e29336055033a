"""Records `recorded/mariadb/`: small binlogs of both versions of MariaDB, one for each kind of stream at which other
readers of MariaDB's binlog have failed, with the rows that a SELECT gave at the end.

Run it: `python -m tests.changes.record_mariadb`. Not here: what needs more than one server or connections
(`tests/landing/test_landing_mariadb.py`), which bytes no released server writes yet."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from strata_cdc.schema.model.definition import TableDefinition
from tests.changes.live import Live
from tests.mariadb_server import PREFIXES, start_mariadb

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.mariadb_server import MariadbServer

FOLDER = Path(__file__).with_name("recorded") / "mariadb"

STATEMENTS: dict[str, tuple[str, ...]] = {
    "rolled_back_alter": (
        "SET binlog_alter_two_phase = ON",
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
        "INSERT INTO t VALUES (1, 5), (2, 5)",
        "ALTER TABLE t ADD b INT DEFAULT 7, ADD UNIQUE (a)",  # fails: START ALTER, then ROLLBACK ALTER
        "INSERT INTO t VALUES (3, 6)",
        "ALTER TABLE t ADD c INT DEFAULT 8",
        "INSERT INTO t VALUES (4, 7, 9)",
    ),
    "another_server_in_one_domain": (
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
        "INSERT INTO t VALUES (1, 1)",
        "SET server_id = 77",
        "UPDATE t SET a = 2",
        "SET gtid_domain_id = 9, server_id = 3",
        "INSERT INTO t VALUES (2, 2)",
        "SET gtid_domain_id = 0",
        "DELETE FROM t WHERE id = 1",
    ),
    "no_positions_in_a_group": (
        "CREATE TABLE t (id INT PRIMARY KEY, a TEXT)",
        "BEGIN",
        "INSERT INTO t VALUES (1, REPEAT('x', 300))",
        "UPDATE t SET a = 'short'",
        "INSERT INTO t VALUES (2, 'b')",
        "COMMIT",
        "DELETE FROM t WHERE id = 1",
    ),
    "compressed_columns_later": (
        "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(500))",
        "INSERT INTO t VALUES (1, REPEAT('a', 300))",
        "ALTER TABLE t ADD b TEXT COMPRESSED, MODIFY a VARCHAR(500) COMPRESSED",
        "INSERT INTO t VALUES (2, REPEAT('b', 400), REPEAT('c', 5000)), (3, '', 'short'), (4, NULL, NULL)",
        "SET column_compression_zlib_wrap = ON",
        "UPDATE t SET b = REPEAT('d', 3000) WHERE id = 1",
        "ALTER TABLE t MODIFY b TEXT",
        "INSERT INTO t VALUES (5, 'e', REPEAT('e', 200))",
    ),
    "compressed_events_now_and_then": (
        "CREATE TABLE t (id INT PRIMARY KEY, a TEXT)",
        "SET GLOBAL log_bin_compress = ON",
        "INSERT INTO t VALUES (1, REPEAT('a', 1000)), (2, 'small')",
        "INSERT INTO t VALUES (3, 'small')",
        "SET GLOBAL log_bin_compress = OFF",
        "UPDATE t SET a = REPEAT('b', 1000) WHERE id = 2",
        "SET GLOBAL log_bin_compress = ON",
        "DELETE FROM t WHERE id = 1",
        "UPDATE t SET a = REPEAT('c', 1000) WHERE id = 3",
        "SET GLOBAL log_bin_compress = OFF",
    ),
    "collations_of_sessions": (
        "SET collation_connection = utf8mb4_unicode_ci",
        "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9) CHARSET utf8mb4, b VARCHAR(9) COLLATE uca1400_ai_ci, "
        "c VARCHAR(9) CHARSET utf8mb3, d VARCHAR(9) COLLATE latin1_nopad_bin) CHARSET utf8mb4",
        "INSERT INTO t VALUES (1, 'ä😀', 'ß', 'é', 'ü')",
        "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_as_cs",
        "INSERT INTO t VALUES (2, 'ä😀', '😀', '😀', '😀')",
    ),
    "addresses_that_end_in_zeros": (
        "CREATE TABLE t (id UUID PRIMARY KEY, a INET6, b INET4)",
        "INSERT INTO t VALUES ('12345678-1234-1234-8000-000000000000', '::', '0.0.0.0'), "
        "('12345678-1234-4234-8234-000000000001', 'ab::', '1.0.0.0'), "
        "('01900000-0000-7000-8000-000000000000', '::ffff:1.2.3.0', '255.255.0.0'), "
        "('00000000-0000-0000-0000-000000000000', '1::', NULL)",
        "UPDATE t SET b = '9.0.0.0' WHERE a = '::'",
        "DELETE FROM t WHERE id = '12345678-1234-4234-8234-000000000001'",
    ),
    "hashes_of_long_keys": (
        "CREATE TABLE t (id INT PRIMARY KEY, a TEXT UNIQUE)",
        "INSERT INTO t VALUES (1, 'x')",
        "ALTER TABLE t ADD b INT DEFAULT 3",
        "INSERT INTO t VALUES (2, 'y', 4)",
        "ALTER TABLE t ADD UNIQUE u (b) USING HASH",
        "UPDATE t SET b = 5 WHERE id = 1",
        "ALTER TABLE t DROP KEY a",
        "INSERT INTO t VALUES (3, 'x', 6)",
        "ALTER TABLE t DROP KEY u",
        "INSERT INTO t VALUES (4, 'x', 6)",
    ),
    "versions_of_rows": (
        "CREATE TABLE t (id INT PRIMARY KEY, a INT) WITH SYSTEM VERSIONING",
        "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)",
        "UPDATE t SET a = 5 WHERE id = 1",
        "DELETE FROM t WHERE id = 2",
        "REPLACE INTO t VALUES (3, 9)",
        "DELETE HISTORY FROM t",
        "UPDATE t SET a = 6 WHERE id = 1",
    ),
    "refills_of_a_sequence": (
        "CREATE SEQUENCE s CACHE 2",
        "CREATE TABLE t (id INT PRIMARY KEY DEFAULT NEXTVAL(s), a INT)",
        "INSERT INTO t (a) VALUES (1), (2), (3), (4), (5)",
        "DO SETVAL(s, 100)",
        "ALTER SEQUENCE s INCREMENT BY 5",
        "INSERT INTO t (a) VALUES (6), (7)",
    ),
    "images_without_what_is_equal": (
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b TEXT, c INT AS (a + 1) VIRTUAL)",
        "SET binlog_row_image = FULL_NODUP",  # refused before 11.4
        "INSERT INTO t (id, a, b) VALUES (1, NULL, 'x'), (2, 2, NULL)",
        "UPDATE t SET b = 'y' WHERE id = 1",
        "SET binlog_row_image = MINIMAL",
        "UPDATE t SET b = NULL WHERE id = 1",
        "DELETE FROM t WHERE id = 2",
    ),
    "names_that_differ_by_case": (
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
        "CREATE TABLE T (id INT PRIMARY KEY, b TEXT INVISIBLE DEFAULT 'i', c INT AS (id + 1) PERSISTENT)",
        "INSERT INTO t VALUES (1, 1)",
        "INSERT INTO T (id) VALUES (1)",
        "ALTER TABLE T ADD COLUMN IF NOT EXISTS d INT, DROP COLUMN IF EXISTS nope",
        "INSERT INTO T (id, b, d) VALUES (2, 'x', 2)",
        "ALTER TABLE t ADD COLUMN (e INT, f INT)",
        "INSERT INTO t VALUES (2, 2, 3, 4)",
    ),
}
MAY_FAIL = frozenset({STATEMENTS["rolled_back_alter"][3], "SET binlog_row_image = FULL_NODUP"})


def _run(server: MariadbServer, statements: tuple[str, ...]) -> Live:
    live = Live(server)
    server.run_sql("RESET MASTER")
    live.run("CREATE OR REPLACE DATABASE d")
    live.run("USE d")
    live.database = "d"
    for statement in statements:
        try:
            live.run(statement)
        except Exception:
            if statement not in MAY_FAIL:
                raise
    return live


def rows_beside_an_alter(server: MariadbServer) -> Live:
    """Rows of the table as it was, between the two events of an ALTER that takes a while."""
    return _beside(
        server,
        "SET binlog_alter_two_phase = ON",
        "ALTER TABLE t ADD b INT DEFAULT 7, FORCE, ALGORITHM = INPLACE, LOCK = NONE",
    )


def rows_beside_a_copy(server: MariadbServer) -> Live:
    """Rows of the table as it was, while an ALTER copies it; before 11.2 they wait for its end."""
    lock = "NONE" if server.version != "10.11" else "SHARED"
    return _beside(server, f"ALTER TABLE t ADD b INT DEFAULT 7, ALGORITHM = COPY, LOCK = {lock}")


def _beside(server: MariadbServer, *alter: str) -> Live:
    live = _run(server, ("CREATE TABLE t (id INT PRIMARY KEY, a INT)",))
    live.run("SET sql_log_bin = 0")
    live.run("INSERT INTO t SELECT seq, seq FROM seq_100_to_300000")
    live.run("SET sql_log_bin = 1")

    def run_alter() -> None:
        with server.connect("d") as connection, connection.cursor() as cursor:
            for statement in alter:
                cursor.execute(statement)

    altering = threading.Thread(target=run_alter)
    altering.start()
    for number in range(1, 30):
        columns = "" if altering.is_alive() else ", 9"
        try:
            live.run(f"INSERT INTO t VALUES ({number}, {number}{columns})")
        except Exception:  # noqa: BLE001  # it has become another table meanwhile
            continue
        time.sleep(0.02)
    altering.join()
    live.run("INSERT INTO t VALUES (90, 90, 10)")
    live.run("SET sql_log_bin = 0")
    live.run("DELETE FROM t WHERE id >= 100")
    return live


MORE: dict[str, Callable[[MariadbServer], Live]] = {
    "rows_beside_an_alter": rows_beside_an_alter,
    "rows_beside_a_copy": rows_beside_a_copy,
}


def _truth(live: Live) -> dict[str, list[dict[str, object]]]:
    live.run("SET NAMES utf8mb4")
    names = [name for (name,) in live.run("SHOW TABLES")]
    return {name: live.truth(name, _definition(live, name)) for name in names}


def _definition(live: Live, name: str) -> TableDefinition:
    """Of columns whose table's name has the same case: information_schema compares without it."""
    definition = live.definition(name)
    shown = {column for column, *_ in live.run(f"SHOW COLUMNS FROM `{name}`")}
    columns = {column.name: column for column in definition.columns if column.name in shown}
    return TableDefinition(tuple(columns.values()))


def main() -> None:
    """Records all cases on both versions."""
    for version in PREFIXES:
        folder = FOLDER / version
        folder.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.TemporaryDirectory() as data,
            start_mariadb(Path(data), version, "--character-set-server=utf8mb4") as server,
        ):
            made = {name: lambda server, name=name: _run(server, STATEMENTS[name]) for name in STATEMENTS}
            for name, run in (made | MORE).items():
                live = run(server)
                text = json.dumps(_truth(live), ensure_ascii=False, indent=1)
                (folder / f"{name}.json").write_text(text + "\n")
                (folder / f"{name}.binlog").write_bytes(server.binlogs()[0].read_bytes())


if __name__ == "__main__":
    main()
