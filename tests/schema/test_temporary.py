"""Temporary tables in binlogs of a real server, which are tracked in pieces, and what only looks like them."""

from __future__ import annotations

import random
from pathlib import Path
from shutil import copy
from typing import TYPE_CHECKING

import pytest

from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.sources.files import start_of
from strata_cdc.landing.land_files import land_files
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.stream_positions import AtSeq
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.replay.baseline import read_baseline
from strata_cdc.schema.replay.catalog import Catalog
from strata_cdc.store.database import open_store
from strata_cdc.tracking.track_schema import track_files, track_landed
from tests.schema.differential import compare, run_and_record
from tests.seeds import seeds

if TYPE_CHECKING:
    from tests.mysql_server import MysqlServer

STEPS = 60
FIRST = """
CREATE DATABASE d;
USE d;
CREATE TABLE t (a INT);
CREATE TABLE u (a INT);
CREATE TEMPORARY TABLE t (z INT)
"""
SECOND = """
ALTER TABLE t ADD y INT;
CREATE INDEX i ON t (y);
CREATE TABLE copied LIKE t;
CREATE TABLE plain LIKE u;
TRUNCATE TABLE t;
DROP TABLE t;
ALTER TABLE t ADD b INT
"""


@pytest.mark.mysql
def test_a_later_run_leaves_the_base_table_alone(mysql_server: MysqlServer, tmp_path: Path):
    connection = mysql_server.connect()
    with connection.cursor() as cursor:
        cursor.execute("RESET BINARY LOGS AND GTIDS")
        cursor.execute("SET SESSION binlog_format = 'STATEMENT', SESSION binlog_transaction_compression = ON")
        _run(cursor, FIRST)
        cursor.execute("FLUSH BINARY LOGS")
        _run(cursor, SECOND)
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("DROP DATABASE d")
    connection.close()
    engine = open_store(f"sqlite:///{tmp_path}/store.db")
    for path in mysql_server.binlogs()[:2]:
        report = track_files([str(path)], engine, "s")
    history = History(SchemaStore(engine), "s")

    def columns(table: str) -> list[str]:
        return [c.name for c in history.at(TableName("d", table), AtSeq(report.seq)).definition.columns]

    assert columns("t") == ["a", "b"]
    assert columns("u") == columns("plain") == ["a"]
    assert columns("copied") == ["z", "y"]
    assert report.gaps == 0


@pytest.mark.mysql
@pytest.mark.parametrize("seed", seeds())
def test_runs_of_any_size_know_what_one_run_knows(mysql_server: MysqlServer, tmp_path: Path, seed: int):
    """Sessions that log statements make temporary tables and tables like these; each file is tracked by a run of its
    own. The server says what the copies look like."""
    dice = random.Random(seed)
    connections = [mysql_server.connect(), mysql_server.connect()]
    cursors = [connection.cursor() for connection in connections]
    cursors[0].execute("RESET BINARY LOGS AND GTIDS")
    for cursor in cursors:
        _run(cursor, "CREATE DATABASE IF NOT EXISTS d; USE d; SET SESSION binlog_format = 'STATEMENT'")
    copies, made = 0, [set[int](), set[int]()]
    for _ in range(STEPS):
        mine = dice.randrange(2)
        number, cursor = dice.randrange(3), cursors[mine]
        if number not in made[mine]:
            kind = dice.choice(("VARCHAR(9) CHARACTER SET latin1", "INT UNSIGNED", "ENUM('x', 'y')", "JSON"))
            cursor.execute(f"CREATE TEMPORARY TABLE m{number} (a {kind})")
            made[mine].add(number)
        elif dice.random() < 0.3:
            cursor.execute(f"ALTER TABLE m{number} ADD c{copies}_{dice.randrange(10**6)} CHAR(3) FIRST")
        elif dice.random() < 0.2:
            cursor.execute(f"DROP TABLE m{number}")
            made[mine].remove(number)
        else:
            copies += 1
            cursor.execute(f"CREATE TABLE copy{copies} LIKE m{number}")
        if dice.random() < 0.4:
            cursor.execute("FLUSH BINARY LOGS")
    cursors[0].execute("FLUSH BINARY LOGS")
    files = mysql_server.binlogs()[:-1]
    engine, whole = open_store(f"sqlite:///{tmp_path}/store.db"), open_store("sqlite://")
    for path in files:
        report = track_files([str(path)], engine, "s")
    track_files([str(path) for path in files], whole, "s")
    histories = [History(SchemaStore(one), "s") for one in (engine, whole)]
    assert copies > STEPS // 5
    for number in range(1, copies + 1):
        cursors[0].execute(f"SHOW COLUMNS FROM copy{number}")
        truth = [(name, kind) for name, kind, *_ in cursors[0].fetchall()]
        found = [one.at(TableName("d", f"copy{number}"), AtSeq(report.seq)).definition for one in histories]
        assert found[0] == found[1]
        assert [(column.name, column.column_type) for column in found[0].columns] == truth
    for connection in connections:
        connection.close()
    mysql_server.run_sql("DROP DATABASE d")


PROCEDURE = """
CREATE PROCEDURE d.rebuild() BEGIN
  DROP TABLE IF EXISTS copied; CREATE TABLE copied LIKE t; ALTER TABLE copied ADD b INT; TRUNCATE TABLE t;
END
"""


@pytest.mark.mysql
def test_a_procedure_that_drops_a_table_means_base_tables_in_all_that_follows(
    mysql_server: MysqlServer, tmp_path: Path
):
    _rebuild(mysql_server, "FLUSH BINARY LOGS", "CALL d.rebuild()")
    first, second = map(str, mysql_server.binlogs()[:2])
    engine = open_store(f"sqlite:///{tmp_path}/store.db")
    track_files([first], engine, "s")
    report = track_files([second], engine, "s")
    copied = History(SchemaStore(engine), "s").at(TableName("d", "copied"), AtSeq(report.seq))
    assert [column.name for column in copied.definition.columns] == ["a", "b"]
    assert report.removals == 1
    # Who begins in the middle cannot know what the session had.
    late = track_files([second], open_store("sqlite://"), "s", baseline=read_baseline("CREATE TABLE d.t (a INT)", "b"))
    assert any("may be a temporary table" in text for text in late.examples)


def _rebuild(server: MysqlServer, *statements: str) -> None:
    """Writes a table and the procedure, then the statements, then the file's end."""
    connection = server.connect()
    with connection.cursor() as cursor:
        cursor.execute("RESET BINARY LOGS AND GTIDS")
        _run(cursor, "CREATE DATABASE d; USE d; CREATE TABLE t (a INT)")
        cursor.execute(PROCEDURE)
        for statement in (*statements, "FLUSH BINARY LOGS", "DROP DATABASE d"):
            cursor.execute(statement)
    connection.close()


def _run(cursor, text: str) -> None:
    for statement in text.split(";"):
        cursor.execute(statement)


@pytest.mark.mysql
def test_a_landed_stream_of_all_transactions_has_all_temporary_tables(mysql_server: MysqlServer, tmp_path: Path):
    _rebuild(mysql_server, "CALL d.rebuild()")
    archive, lake, engine = tmp_path / "archive", str(tmp_path / "lake"), open_store("sqlite://")
    archive.mkdir()
    copy(mysql_server.binlogs()[0], archive)
    land_files(str(archive), lake=lake, source="s")
    report = track_landed(lake, "s", engine)
    assert report.gaps == 0
    copied = History(SchemaStore(engine), "s").at(TableName("d", "copied"), AtSeq(report.seq))
    assert [column.name for column in copied.definition.columns] == ["a", "b"]
    # A segment alone does not say so: the first transactions of its file may have been skipped.
    for path, is_known in ((archive / "binlog.000001", True), (next(Path(lake).glob("landing/s/*.binlog")), False)):
        with open_binlog(str(path)) as binlog:
            assert start_of(binlog, 0, None).restarted is is_known


@pytest.mark.mysql
def test_a_copy_of_what_no_binlog_has_is_never_wrong(mysql_server: MysqlServer):
    """Of tables of `information_schema` and of a temporary one, with and without quotes: as the server has it, or a
    gap."""
    connection, observer = mysql_server.connect(), mysql_server.connect()
    with observer.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS copies")
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'information_schema'")
        # Those that are views in this version are refused.
        names = [name for (name,) in cursor.fetchall()]
    statements = [
        "CREATE DATABASE copies",
        *(f"CREATE TABLE copies.{name} LIKE information_schema.{name}" for name in names),
        "CREATE TEMPORARY TABLE copies.model (a VARCHAR(9)) CHARSET latin1",
        "CREATE TABLE copies.m LIKE copies.model",
        "SET sql_quote_show_create = 0",
        *(f"CREATE TABLE copies.{name}_2 LIKE information_schema.{name}" for name in names),
        "CREATE TABLE copies.m_2 LIKE copies.model",
        "DROP TABLE copies.INNODB_CMP",
    ]
    recorded = list(run_and_record(connection, observer, statements))
    report = compare(Catalog(), mysql_server.binlog_dir / recorded[-1].file, recorded)
    connection.close()
    observer.close()
    assert [text for _, text in report.differences if text.startswith("copies.")] == []
    # Without text there is nothing to be in doubt about.
    assert 40 < len(report.gaps) < report.versions
