"""Records `recorded/*.binlog`: small binlogs of a real server, with what each holds by the TABLE_MAPs alone beside it.

Run it: `python -m tests.changes.record`.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tests.changes.live import Live
from tests.mariadb_server import start_mariadb
from tests.mysql_server import start_server
from tests.naive.decoder import decode

FOLDER = Path(__file__).with_name("recorded")

EVERY_TYPE = (
    """CREATE TABLE every (
        id INT PRIMARY KEY AUTO_INCREMENT, a TINYINT, b SMALLINT UNSIGNED, c MEDIUMINT, d INT UNSIGNED, e BIGINT,
        f BIGINT UNSIGNED, g DECIMAL(20,6), h DECIMAL(65,30), i FLOAT, j DOUBLE, k BIT(1), l BIT(20), m YEAR, n DATE,
        o DATETIME, p DATETIME(5), q TIMESTAMP(3) NULL, r TIME, s TIME(6), t CHAR(9), u VARCHAR(9) CHARACTER SET latin1,
        v VARCHAR(300), w TEXT, x BINARY(5), y VARBINARY(9), z BLOB, aa ENUM('x','y'), ab SET('p','q','r'), ac JSON,
        ad GEOMETRY, ae VECTOR(2))""",
    """INSERT INTO every VALUES (NULL, -1, 65535, -8388608, 4294967295, -9223372036854775808, 18446744073709551615,
        '-12345.678901', '1.5', 1.1, -2.5e-7, 1, 1000000, 1999, '2024-02-29', '9999-12-31 23:59:59',
        '2001-02-03 04:05:06.78901', '2037-12-31 23:59:59.999', '-838:59:59', '12:34:56.000001', 'chär', 'lätin€',
        'varchar', REPEAT('t', 300), 'bin', x'00ff', 'blob', 'y', 'p,r',
        '{"k": [1, -2.5, 1e100, "s", null, true, {"deep": []}], "long": 18446744073709551615}',
        ST_GeomFromText('POINT(1 2)', 4326), TO_VECTOR('[1.5,-0.1]'))""",
    "INSERT INTO every (id) VALUES (NULL)",
    """INSERT INTO every (n, o, q, ac) VALUES ('0000-00-00', '2024-02-31 00:00:00', '0000-00-00',
        JSON_ARRAY(1.50, TIMESTAMP('2024-01-02 03:04:05'), x'00'))""",
    "UPDATE every SET a = 5, w = NULL, ac = JSON_SET(ac, '$.new', 1) WHERE id = 1",
    "UPDATE every SET id = id + 10, v = 'same'",
    "DELETE FROM every WHERE id > 11",
)
MANY_ROWS = (
    "CREATE TABLE many (id INT PRIMARY KEY, name VARCHAR(20))",
    "CREATE TABLE other (id INT PRIMARY KEY AUTO_INCREMENT, t TEXT)",
    "INSERT INTO many WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 200) "
    "SELECT n, CONCAT('name ', n) FROM r",
    "BEGIN",
    "UPDATE many SET name = 'new' WHERE id % 3 = 0",
    "INSERT INTO other (t) VALUES ('a'), (NULL), ('c')",
    "DELETE FROM many WHERE id % 4 = 0",
    "COMMIT",
)
CASES = {
    "every_type": ((), EVERY_TYPE),
    "no_checksum": (("--binlog-checksum=NONE",), EVERY_TYPE),
    "minimal": (("--binlog-row-image=MINIMAL", "--binlog-row-metadata=FULL"), EVERY_TYPE),
    "many_rows": ((), MANY_ROWS),
}
COMPRESSED = "compressed"
MARIADB = (
    "INSERT INTO t VALUES (1, 10, 'a'), (2, 18446744073709551615, NULL), (3, 30, 'é')",
    "SET GLOBAL log_bin_compress = ON",
    "BEGIN",
    "INSERT INTO t VALUES (4, 40, REPEAT('x', 400)), (5, 50, REPEAT('xy', 300))",
    "UPDATE t SET name = 'short' WHERE id = 1",
    "UPDATE t SET n = n - 1 WHERE id = 5",
    "COMMIT",
    "SET gtid_domain_id = 7, server_id = 9",
    "DELETE FROM t WHERE id >= 4",
    "SET gtid_domain_id = 0, server_id = 1",
    "XA START 'a'",
    "INSERT INTO t VALUES (6, 60, 'prepared')",
    "XA END 'a'",
    "XA PREPARE 'a'",
    "SET GLOBAL log_bin_compress = OFF",
    "XA COMMIT 'a'",
    "INSERT INTO t VALUES (7, 70, 'after')",
    "UPDATE t SET n = n - 1",
    "FLUSH BINARY LOGS",
)
"""Plain and compressed events, two domains, XA."""


def record(folder: Path, name: str, options: tuple[str, ...], statements: tuple[str, ...]) -> bytes:
    """The binlog that a new server writes for some statements; its tables' definitions are written beside it."""
    with start_server(folder / name, *options) as server:
        live = Live(server)
        with live.recorded() as files:
            for statement in statements:
                live.run(statement)
        tables = [table for (table,) in live.run("SHOW TABLES")]
        definitions = {f"{live.database}.{table}": json.loads(live.definition(table).to_json()) for table in tables}
        text = json.dumps(definitions, ensure_ascii=False, indent=1)
        (FOLDER / f"{name}.definitions.json").write_text(text + "\n")
        return files[0].read_bytes()


def record_mariadb(folder: Path) -> bytes:
    """The binlog of MariaDB for some statements; its table's definition has been written by hand."""
    with start_mariadb(folder / "mariadb", "11.8", "--binlog-row-metadata=FULL") as server:
        server.run_sql(
            "CREATE DATABASE m; USE m; CREATE TABLE t (id INT PRIMARY KEY, n BIGINT UNSIGNED, name VARCHAR(2000))"
        )
        server.run_sql("RESET MASTER")
        with server.connect("m") as connection, connection.cursor() as cursor:
            for statement in MARIADB:
                cursor.execute(statement)
        return server.binlogs()[0].read_bytes()


def main() -> None:
    """Records all cases."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, (options, statements) in CASES.items():
            data = record(Path(folder), name, options, statements)
            (FOLDER / f"{name}.binlog").write_bytes(data)
            lines = (json.dumps(change, ensure_ascii=False) for change in decode(data))
            (FOLDER / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
        data = record(Path(folder), COMPRESSED, ("--binlog-transaction-compression=ON",), EVERY_TYPE + MANY_ROWS)
        (FOLDER / f"{COMPRESSED}.binlog").write_bytes(data)
        (FOLDER / "mariadb.binlog").write_bytes(record_mariadb(Path(folder)))


if __name__ == "__main__":
    main()
