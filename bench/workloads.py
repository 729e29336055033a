"""The binlogs that are measured: the demo's life, and two kinds of tables at any size.
Not here: what is measured on them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from demo.shop import chapters, play
from strata_cdc.schema.model.definition import Column, TableDefinition

if TYPE_CHECKING:
    from tests.mysql_server import MysqlServer

NARROW = """
CREATE TABLE sbtest (id INT NOT NULL AUTO_INCREMENT, k INT NOT NULL DEFAULT 0, c CHAR(120) NOT NULL DEFAULT '',
                     pad CHAR(60) NOT NULL DEFAULT '', PRIMARY KEY (id), KEY k_1 (k));
"""

WIDE = """
CREATE TABLE wide (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, tiny TINYINT, small SMALLINT UNSIGNED, medium MEDIUMINT, number INT,
  big BIGINT UNSIGNED, price DECIMAL(18,4), ratio DOUBLE, score FLOAT, flag BIT(1), mask BIT(12), born DATE,
  at DATETIME(6), stamp TIMESTAMP(3) NULL, span TIME(2), in_year YEAR, code CHAR(12), name VARCHAR(80),
  old VARCHAR(40) CHARACTER SET latin1, note TEXT, digest BINARY(16), raw VARBINARY(40),
  state ENUM('new','paid','sent','gone'), tags SET('a','b','c','d'), doc JSON);
"""

NUMBERS = """
CREATE TABLE n (n INT PRIMARY KEY)
WITH RECURSIVE r AS (SELECT 0 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 499),
               d AS (SELECT 0 AS n UNION ALL SELECT n + 1 FROM d WHERE n < 9)
SELECT 1 + 10 * r.n + d.n AS n FROM r, d;
"""

NARROW_ROWS = """
INSERT INTO sbtest (k, c, pad) SELECT FLOOR(RAND() * 1e6), CONCAT_WS('-', LPAD(FLOOR(RAND() * 1e11), 11, '0'),
  LPAD(FLOOR(RAND() * 1e11), 11, '0'), LPAD(FLOOR(RAND() * 1e11), 11, '0'), LPAD(FLOOR(RAND() * 1e11), 11, '0'),
  LPAD(FLOOR(RAND() * 1e11), 11, '0'), LPAD(FLOOR(RAND() * 1e11), 11, '0'), LPAD(FLOOR(RAND() * 1e11), 11, '0'),
  LPAD(FLOOR(RAND() * 1e11), 11, '0'), LPAD(FLOOR(RAND() * 1e11), 11, '0'), LPAD(FLOOR(RAND() * 1e11), 11, '0')),
  CONCAT_WS('-', LPAD(FLOOR(RAND() * 1e11), 11, '0'), LPAD(FLOOR(RAND() * 1e11), 11, '0'),
  LPAD(FLOOR(RAND() * 1e11), 11, '0'), LPAD(FLOOR(RAND() * 1e11), 11, '0'), LPAD(FLOOR(RAND() * 1e11), 11, '0'))
FROM n;
"""

WIDE_ROWS = """
INSERT INTO wide (tiny, small, medium, number, big, price, ratio, score, flag, mask, born, at, stamp, span, in_year,
                  code, name, old, note, digest, raw, state, tags, doc)
SELECT FLOOR(RAND() * 200) - 100, FLOOR(RAND() * 60000), FLOOR(RAND() * 1e6) - 500000, FLOOR(RAND() * 1e9),
  FLOOR(RAND() * 1e15), RAND() * 1e9, RAND(), RAND() * 100, RAND() < 0.5, FLOOR(RAND() * 4096),
  DATE_ADD('1970-01-02', INTERVAL FLOOR(RAND() * 20000) DAY),
  DATE_ADD('2000-01-01', INTERVAL FLOOR(RAND() * 1e15) MICROSECOND), FROM_UNIXTIME(1 + FLOOR(RAND() * 1e9)),
  SEC_TO_TIME(FLOOR(RAND() * 80000)), 1990 + FLOOR(RAND() * 40), LEFT(UUID(), 8), CONCAT('customer ', n, ' of town'),
  'caf\\u00e9 au lait', CONCAT('a note of some length about order ', n, ', which nobody reads'), RANDOM_BYTES(16),
  RANDOM_BYTES(20), ELT(1 + FLOOR(RAND() * 4), 'new', 'paid', 'sent', 'gone'), FLOOR(RAND() * 16),
  JSON_OBJECT('order', n, 'total', ROUND(RAND() * 100, 2), 'open', RAND() < 0.5, 'lines',
              JSON_ARRAY(JSON_OBJECT('sku', LEFT(UUID(), 8), 'n', FLOOR(RAND() * 9)), 'gift'))
FROM n;
"""


@dataclass(frozen=True)
class Workload:
    """A binlog of one kind of table."""

    name: str
    table: str
    rows: str
    small: int
    """Rows that are changed by a transaction each, a round."""


WORKLOADS = (Workload("narrow", NARROW, NARROW_ROWS, 500), Workload("wide", WIDE, WIDE_ROWS, 50))


def make(server: MysqlServer, workload: Workload, megabytes: int) -> Path:
    """A binlog of about that size: large inserts and updates, and small transactions between them."""
    database = f"bench_{workload.name}"
    table = "sbtest" if workload.name == "narrow" else "wide"
    server.run_sql("FLUSH BINARY LOGS;")
    path = server.binlogs()[-1]
    server.run_sql(f"CREATE DATABASE {database};")
    server.run_sql(workload.table + NUMBERS, database)
    column = "k" if workload.name == "narrow" else "number"
    round_ = 0
    while path.stat().st_size < megabytes << 20:
        first = round_ * 5000
        small = "".join(
            f"UPDATE {table} SET {column} = {column} + 1 WHERE id = {first + k + 1};" for k in range(workload.small)
        )
        server.run_sql(
            workload.rows
            + f"UPDATE {table} SET {column} = {column} + 1 WHERE id % 10 = {round_ % 10} AND id > {first};"
            + small
            + f"DELETE FROM {table} WHERE id % 50 = 0 AND id > {first};",
            database,
        )
        round_ += 1
    server.run_sql("FLUSH BINARY LOGS;")
    return path


def make_demo(server: MysqlServer) -> Path:
    """The binlog of the demo's whole life."""
    server.run_sql("FLUSH BINARY LOGS; CREATE DATABASE shop;")
    path = server.binlogs()[-1]
    with server.connect("shop") as connection:
        for chapter in chapters():
            for _ in play(chapter, connection):
                pass
    server.run_sql("FLUSH BINARY LOGS")
    return path


def write_definitions(server: MysqlServer, path: Path, database: str) -> None:
    """Notes the tables' definitions beside the binlog."""
    found: dict[str, str] = {}
    with server.connect("information_schema") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT table_name FROM tables WHERE table_schema = %s", (database,))
        for (table,) in cursor.fetchall():
            cursor.execute(
                "SELECT column_name, column_type, is_nullable, character_set_name FROM columns "
                "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
                (database, table),
            )
            columns = tuple(Column(n, t, null == "YES", charset) for n, t, null, charset in cursor.fetchall())
            found[f"{database}.{table}"] = TableDefinition(columns).to_json()
    Path(f"{path}.definitions").write_text(json.dumps(found))
