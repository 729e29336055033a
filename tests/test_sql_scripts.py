"""A script that is sent whole prints what the client prints, and leaves the same binlog."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.mariadb_server import FAMILIES, start_family
from tests.sql_scripts import is_of_the_client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql
ANEW = re.compile(r"xid=\d+|table_id: \d+|(-- |#).*|/\*[^!]*?\*/")
SCRIPT = r"""
-- a comment; with a semicolon
CREATE DATABASE d CHARACTER SET utf8mb4; USE d;
SELECT @@character_set_client, @@character_set_results, @@collation_connection, @@sql_mode, @@autocommit, USER();
CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(20) DEFAULT 'x;y', c BLOB, d DATETIME) /* its
comment; too */;
INSERT INTO t VALUES (1, 'a\tb\nc\\d', x'00ff', '2026-01-01'), (2, NULL, '', NULL), (3, 'ß"日;''本', 'x', NULL);
SELECT * FROM t ORDER BY a; SELECT a FROM t WHERE a > 5;
SELECT a AS `x;y`, -1.50, 1e10, TRUE, b'101', JSON_ARRAY(1, 'x') FROM t LIMIT 1
;
UPDATE t SET b = 'y' # the last
; BEGIN; DELETE FROM t WHERE a = 1; DELETE FROM t WHERE a = 2; COMMIT
-- nothing follows
"""


@pytest.fixture(params=FAMILIES)
def server(request: pytest.FixtureRequest, tmp_path) -> Iterator[MysqlServer]:
    with start_family(tmp_path / "server", request.param) as server:
        yield server


def logged(server: MysqlServer) -> list[tuple[str, str]]:
    """Kind and text of each event of transactions in the last file, without numbers that each run has anew, and without
    comments: the client does not send those before and behind a statement."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SHOW BINLOG EVENTS IN '{server.binlogs()[-1].name}'")
        rows = [row for row in cursor.fetchall() if row[2] == "Query" or "_rows" in row[2] or row[2] == "Table_map"]
    return [(row[2], ANEW.sub("", row[5]).strip()) for row in rows]


def test_what_is_printed_and_logged(server: MysqlServer) -> None:
    server.run_sql(server.reset_sql)
    printed, events = server.run_sql(SCRIPT), logged(server)
    server.run_sql("DROP DATABASE d")
    server.run_sql(server.reset_sql)
    assert server.run_in_client(SCRIPT) == printed
    assert logged(server) == events
    assert len(events) > 10
    assert "日;'本" in printed


def test_what_comes_after_an_error_is_not_done(server: MysqlServer) -> None:
    with pytest.raises(AssertionError, match="1146"):
        server.run_sql("CREATE DATABASE e; SELECT * FROM e.t; CREATE DATABASE f")
    assert "e" in server.run_sql("SHOW DATABASES").split()
    assert "f" not in server.run_sql("SHOW DATABASES").split()


@pytest.mark.parametrize(
    "text",
    [
        "DELIMITER //\nSELECT 1//",
        "  source x.sql",
        "LOAD DATA LOCAL INFILE 'x' INTO TABLE t",
        "SELECT 1\\G",
        "SELECT 1; -- x",
        "",
    ],
)
def test_what_is_for_the_client(text: str) -> None:
    assert is_of_the_client(text)


def test_a_script_of_the_client(server: MysqlServer) -> None:
    assert server.run_sql("DELIMITER //\nSELECT 1 AS a, ';' AS b//") == "a\tb\n1\t;\n"
