"""Gaps that rows close by themselves: TABLE_MAPs of a real server with `binlog_row_metadata=FULL`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strata_cdc.errors import SchemaGapError
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.stream_positions import AtSeq
from strata_cdc.schema.history.versions import VersionOrigin
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.tracker.reconcile import essential
from strata_cdc.store.database import open_store
from strata_cdc.tracking.track_schema import track_files

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

EVERY_TYPE = """
CREATE TABLE t (id INT UNSIGNED, k CHAR(3) CHARACTER SET latin1, a TINYINT, b SMALLINT, c MEDIUMINT UNSIGNED,
  d BIGINT UNSIGNED, e DECIMAL(20,4), f FLOAT, g DOUBLE, h BIT(17), i YEAR, j DATE, l TIME(3), m DATETIME(6),
  n TIMESTAMP NULL, o VARCHAR(300), p BINARY(5), q VARBINARY(30), r TINYTEXT, s MEDIUMBLOB, u LONGTEXT,
  v ENUM('a','é') CHARACTER SET latin1, w SET('x','y'), x JSON, y POINT SRID 4326, z VECTOR(7), aa GEOMETRY,
  bb VARCHAR(5) INVISIBLE, cc ENUM('b') CHARACTER SET binary, dd BLOB, `odd ``name` INT AS (id + 1) STORED,
  PRIMARY KEY (k(2), id)) CHARSET utf8mb4
"""


@pytest.mark.mysql
@pytest.mark.parametrize("compression", ["OFF", "ON"])
def test_rows_with_names_close_a_gap(mysql_server: MysqlServer, tmp_path: Path, compression: str):
    connection = mysql_server.connect()
    with connection.cursor() as cursor:
        cursor.execute("RESET BINARY LOGS AND GTIDS")
        cursor.execute(f"SET SESSION binlog_transaction_compression = {compression}")
        for statement in ("CREATE DATABASE m", "USE m", EVERY_TYPE, "CREATE TABLE u (a INT)", "FLUSH BINARY LOGS"):
            cursor.execute(statement)
        cursor.execute("INSERT INTO t (id, k) VALUES (1, 'abc')")
        cursor.execute("INSERT INTO u VALUES (1)")
        cursor.execute("SET GLOBAL binlog_row_metadata = FULL")
        try:
            cursor.execute("INSERT INTO t (id, k) VALUES (2, 'abc')")
            cursor.execute("ALTER TABLE t ADD ee INT, DROP dd")
        finally:
            cursor.execute("SET GLOBAL binlog_row_metadata = MINIMAL")
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("DROP DATABASE m")
    connection.close()
    first, second = mysql_server.binlogs()[:2]
    whole, torn = (open_store(f"sqlite:///{tmp_path}/{name}.db") for name in ("whole", "torn"))
    track_files([str(first), str(second)], whole, "s")
    report = track_files([str(second)], torn, "s")
    exact, reported = History(SchemaStore(whole), "s"), History(SchemaStore(torn), "s")
    name = TableName("m", "t")
    with pytest.raises(SchemaGapError):
        reported.at(name, AtSeq(report.seq - 2))
    with pytest.raises(SchemaGapError):
        reported.at(TableName("m", "u"), AtSeq(report.seq))
    closed = reported.at(name, AtSeq(report.seq - 1))
    assert closed.origin is VersionOrigin.METADATA
    end = exact.tracked.seq
    _same(essential(closed.definition), essential(exact.at(name, AtSeq(end - 1)).definition))
    _same(essential(reported.at(name, AtSeq(report.seq)).definition), essential(exact.at(name, AtSeq(end)).definition))


def _same(reported, exact) -> None:
    """But for what no TABLE_MAP says: whether a column is generated, and the SRID."""
    assert reported[0] == exact[0]
    assert [column[:5] for column in reported[1]] == [column[:5] for column in exact[1]]
    assert [column[6] for column in reported[1]] == [column[6] for column in exact[1]]
