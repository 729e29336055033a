"""CREATE ... IF NOT EXISTS in the first binlog file of a server that had tables before: whether it made anything is in
the statement's event. The server says what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strata_cdc.errors import SchemaGapError
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.stream_positions import AtSeq
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.database import open_store
from strata_cdc.tracking.track_schema import track_files

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql

BEFORE = """
CREATE DATABASE old CHARACTER SET latin1; USE old;
CREATE TABLE kept (a INT, b TEXT); CREATE TABLE mine (a INT) ENGINE = MyISAM; CREATE VIEW shown AS SELECT 1 AS a;
CREATE VIEW kept_view AS SELECT 1 AS a;
RESET BINARY LOGS AND GTIDS;
"""
AFTER = """
CREATE DATABASE IF NOT EXISTS old; CREATE DATABASE IF NOT EXISTS made CHARACTER SET ascii; USE old;
CREATE TABLE IF NOT EXISTS kept (y INT, z TEXT);
CREATE TABLE IF NOT EXISTS mine (y INT, z TEXT);
CREATE TABLE IF NOT EXISTS shown (y INT);
CREATE TABLE IF NOT EXISTS fresh (y INT);
CREATE TABLE IF NOT EXISTS fresh (y INT, z INT);
CREATE TABLE IF NOT EXISTS like_fresh LIKE fresh;
CREATE TABLE IF NOT EXISTS charset_of_old (y TEXT);
CREATE TABLE IF NOT EXISTS made.charset_of_made (y TEXT);
CREATE TABLE IF NOT EXISTS selected AS SELECT 1 AS a, 2 AS b;
CREATE VIEW IF NOT EXISTS kept_view AS SELECT 2 AS z; CREATE VIEW IF NOT EXISTS made_view AS SELECT 2 AS z;
CREATE TEMPORARY TABLE hidden (a INT);
CREATE TABLE IF NOT EXISTS like_hidden LIKE hidden;
FLUSH BINARY LOGS;
"""


def test_what_was_there_before_is_a_gap_and_what_was_made_is_known(mysql_server: MysqlServer, tmp_path: Path):
    mysql_server.run_sql("DROP DATABASE IF EXISTS old; DROP DATABASE IF EXISTS made;" + BEFORE + AFTER)
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    report = track_files([str(mysql_server.binlogs()[0])], store, "s")
    history = History(SchemaStore(store), "s")

    def columns(name: str) -> list[str]:
        definition = history.at(TableName(*name.split(".")), AtSeq(report.seq)).definition
        return [column.name for column in definition.columns]

    for table in ("kept", "mine", "shown", "charset_of_old"):
        with pytest.raises(SchemaGapError):
            columns(f"old.{table}")
    assert columns("old.fresh") == columns("old.like_fresh") == columns("made.charset_of_made") == ["y"]
    assert columns("old.selected") == ["a", "b"]
    assert columns("old.like_hidden") == ["a"]
    assert report.gaps == 4
    views = {view.name.table: view.definition is not None for view in SchemaStore(store).views("s", "old")}
    assert views == {"kept_view": False, "made_view": True}
    mysql_server.run_sql("DROP DATABASE old; DROP DATABASE made")
