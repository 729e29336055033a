"""What one file of tests leaves on the server that all share is gone before the next one begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pymysql
import pytest

from tests.as_new import global_variables, make_as_new

if TYPE_CHECKING:
    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql
LEFT = """
CREATE DATABASE `a``b`; CREATE TABLE `a``b`.t (a INT); CREATE USER 'x y'@'%';
SET GLOBAL binlog_row_metadata = FULL; SET GLOBAL sql_mode = ''; SET GLOBAL innodb_lock_wait_timeout = 1;
SET GLOBAL time_zone = '+03:00'; FLUSH BINARY LOGS;
XA START 'one', 'two', 3; INSERT INTO `a``b`.t VALUES (1); XA END 'one', 'two', 3; XA PREPARE 'one', 'two', 3;
"""
SHOWN = "SHOW DATABASES; SHOW BINARY LOGS; SELECT @@gtid_executed, @@gtid_purged; SELECT * FROM mysql.user; XA RECOVER"


def test_what_was_left_is_gone(server: MysqlServer) -> None:
    before = server.run_sql(SHOWN)
    server.run_sql(LEFT)
    with server.connect("a`b") as left, left.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO t VALUES (2)")
        assert server.run_sql(SHOWN) != before
        make_as_new(server)
    assert server.run_sql(SHOWN) == before
    assert global_variables(server) == server.variables


def test_what_cannot_be_set_back_is_told(server: MysqlServer) -> None:
    server.variables["server_uuid"], before = "another", server.variables["server_uuid"]
    try:
        with pytest.raises(pymysql.err.OperationalError, match="server_uuid"):
            make_as_new(server)
    finally:
        server.variables["server_uuid"] = before
