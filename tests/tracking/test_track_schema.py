"""Tracking real binlogs: at every GTID what information_schema said then, on every store, killed and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from scripts.mysql import program
from strata_cdc.binlog.sources.files import in_stream_order
from strata_cdc.cli.main import run
from strata_cdc.errors import SchemaGapError, TruncatedEventError
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.sets import GtidSet
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.stream_positions import AtBinlog, AtGtidSet, AtSeq, AtTime
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.replay.baseline import read_baseline
from strata_cdc.store.database import open_store
from strata_cdc.tracking.track_schema import track_files
from tests.mysql_server import start_server

STEPS = [
    "CREATE DATABASE shop CHARACTER SET latin1",
    "CREATE TABLE shop.orders (id INT UNSIGNED PRIMARY KEY AUTO_INCREMENT, name VARCHAR(20), state ENUM('a','b'))",
    "INSERT INTO shop.orders VALUES (1, 'x', 'a')",
    "ALTER TABLE shop.orders ADD first_one DATETIME(3) FIRST, RENAME COLUMN name TO title",
    "ALTER TABLE shop.orders MODIFY state ENUM('b','c','a') CHARACTER SET utf8mb4 NOT NULL",
    "CREATE TABLE shop._orders_gho LIKE shop.orders",
    "ALTER TABLE shop._orders_gho DROP COLUMN first_one, ADD total DECIMAL(18,4) INVISIBLE",
    "RENAME TABLE shop.orders TO shop._orders_del, shop._orders_gho TO shop.orders",
    "DROP TABLE shop._orders_del",
    "CREATE TABLE shop.copied AS SELECT id, title FROM shop.orders",
    "CREATE TABLE shop.made (a INT, b INT GENERATED ALWAYS AS (a + 1) STORED, PRIMARY KEY (a))",
    "ALTER DATABASE shop CHARACTER SET utf8mb4",
    "CREATE TABLE shop.wide (t TEXT(300), c CHAR(3) BINARY, g POINT SRID 4326, j JSON, v VECTOR(3))",
    "DROP TABLE shop.copied, shop.made",
    "TRUNCATE shop.orders",
    "DROP DATABASE shop",
]

COLUMNS = """SELECT TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, CHARACTER_SET_NAME, COLLATION_NAME, EXTRA,
COLUMN_KEY FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'shop' ORDER BY TABLE_NAME, ORDINAL_POSITION"""


def shown(connection):
    with connection.cursor() as cursor:
        cursor.execute(COLUMNS)
        tables = {}
        for table, *column in cursor.fetchall():
            tables.setdefault(table, []).append(column)
        return tables


def known(definition):
    return [
        (c.name, c.column_type, c.nullable, c.character_set, c.collation, c.generated, c.invisible)
        for c in definition.columns
    ]


def as_known(columns):
    return [
        (
            name,
            column_type,
            nullable == "YES",
            charset,
            collation,
            next((kind for kind in ("virtual", "stored") if kind.upper() in extra.split()), None),
            "INVISIBLE" in extra.split(),
        )
        for name, column_type, nullable, charset, collation, extra, _ in columns
    ]


@pytest.fixture(scope="module")
def life(tmp_path_factory):
    """A server's life: after each statement its GTID set, position, clock and what information_schema shows."""
    with start_server(tmp_path_factory.mktemp("life"), "--max-binlog-size=4096") as server:
        connection = server.connect()
        moments = []
        for number, step in enumerate(STEPS):
            with connection.cursor() as cursor:
                if number == 6:
                    cursor.execute("SET binlog_transaction_compression = ON")
                if number in {3, 9}:
                    cursor.execute("FLUSH BINARY LOGS")
                cursor.execute(step)
                cursor.execute("SELECT @@GLOBAL.gtid_executed")
                [[executed]] = cursor.fetchall()
                cursor.execute("SHOW BINARY LOG STATUS")
                [[file, position, *_]] = cursor.fetchall()
                time.sleep(0.002)
                cursor.execute("SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS UNSIGNED)")
                [[now]] = cursor.fetchall()
                time.sleep(0.002)
            moments.append(
                (executed.replace("\n", ""), BinlogPosition.from_offset(file, position), int(now), shown(connection))
            )
        yield server, moments


@pytest.fixture
def files(life):
    return [str(path) for path in life[0].binlogs()]


def assert_exact(history, moments):
    for number, (executed, position, now, tables) in enumerate(moments):
        points = [AtGtidSet(GtidSet.parse(executed)), AtBinlog(position)]
        if now <= history.tracked.committed_at:
            points.append(AtTime(now))
        for point in points:
            found = {name.table: known(version.definition) for name, version in history.tables(point)}
            assert found == {table: as_known(columns) for table, columns in tables.items()}, (number, point)
        for table, columns in tables.items():
            keys = [name for name, *_, key in columns if key == "PRI"]
            version = history.at(TableName("shop", table), points[0])
            assert sorted(version.definition.primary_key) == sorted(keys)


@pytest.mark.mysql
class TestFiles:
    def test_every_moment_is_exact(self, life, files, tmp_path):
        engine = open_store(f"sqlite:///{tmp_path}/store.db")
        report = track_files(files, engine, "s")
        assert report.gaps == 0
        assert report.gtid_executed == life[1][-1][0]
        assert_exact(History(SchemaStore(engine), "s"), life[1])

    def test_again_changes_nothing(self, life, files, tmp_path):
        engine = open_store(f"sqlite:///{tmp_path}/store.db")
        first = track_files(files, engine, "s")
        store = SchemaStore(engine)
        entries, parts, position = store.all_entries("s"), store.files("s"), store.position("s")
        again = track_files(files, engine, "s")
        assert (again.transactions, again.versions, again.skipped) == (0, 0, first.transactions)
        assert (store.all_entries("s"), store.files("s"), store.position("s")) == (entries, parts, position)

    def test_file_by_file_gives_the_same(self, life, files):
        whole, pieces = open_store("sqlite://"), open_store("sqlite://")
        track_files(files, whole, "s")
        for file in files:
            track_files([file], pieces, "s")
        for at in range(len(files)):
            track_files(files[: at + 1], pieces, "s")
        assert SchemaStore(whole).all_entries("s") == SchemaStore(pieces).all_entries("s")
        assert_exact(History(SchemaStore(pieces), "s"), life[1])

    def test_a_file_that_grows(self, life, files, tmp_path):
        """Cut at every transaction, the rest comes later: what was there is not read twice."""
        engine = open_store("sqlite://")
        track_files(files[:1], whole := open_store("sqlite://"), "s")
        content = (life[0].binlog_dir / "binlog.000001").read_bytes()
        copy = tmp_path / "binlog.000001"
        ends = [entry.binlog_pos for entry in SchemaStore(whole).all_entries("s") if entry.binlog_pos]
        for end in [*ends, len(content)]:
            copy.write_bytes(content[:end])
            try:
                track_files([str(copy)], engine, "s")
            except TruncatedEventError:
                assert end < len(content)
        assert SchemaStore(engine).all_entries("s") == SchemaStore(whole).all_entries("s")
        [*_, last] = SchemaStore(engine).files("s")
        assert last.end_pos == len(content)

    def test_damage_stops_it_after_what_came_before(self, life, files, tmp_path):
        content = bytearray((life[0].binlog_dir / "binlog.000001").read_bytes())
        content = content[: len(content) - 30]
        copy = tmp_path / "binlog.000001"
        copy.write_bytes(content)
        engine = open_store("sqlite://")
        with pytest.raises(TruncatedEventError) as caught:
            track_files([str(copy)], engine, "s")
        assert caught.value.file == str(copy)
        position = SchemaStore(engine).position("s")
        assert position is not None
        assert position.seq > 0
        track_files(files, engine, "s")
        assert_exact(History(SchemaStore(engine), "s"), life[1])

    def test_a_missing_file_is_a_hole(self, life, files):
        engine = open_store("sqlite://")
        report = track_files([files[0], *files[2:]], engine, "s")
        assert report.gaps > 0
        history = History(SchemaStore(engine), "s")
        for executed, _, _, tables in life[1]:
            for table, columns in tables.items():
                try:
                    version = history.at(TableName("shop", table), AtGtidSet(GtidSet.parse(executed)))
                except SchemaGapError:
                    continue
                assert known(version.definition) == as_known(columns)

    def test_killed_anywhere_and_run_again(self, life, files, tmp_path):
        url = f"sqlite:///{tmp_path}/store.db"
        code = (
            "import sys; from strata_cdc.schema.tracker import track; track.FLUSH_VERSIONS = 1\n"
            "from strata_cdc.tracking.track_schema import track_files\n"
            "from strata_cdc.store.database import open_store\n"
            "print('ready', flush=True); track_files(sys.argv[2:], open_store(sys.argv[1]), 's')"
        )
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        for delay in (0.02, 0.05, 0.1):
            process = subprocess.Popen(
                [sys.executable, "-c", code, url, *files], stdout=subprocess.PIPE, env=environ, text=True
            )
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()
        engine = open_store(url)
        track_files(files, engine, "s")
        whole = open_store("sqlite://")
        track_files(files, whole, "s")
        assert SchemaStore(engine).all_entries("s") == SchemaStore(whole).all_entries("s")
        assert_exact(History(SchemaStore(engine), "s"), life[1])

    def test_a_dump_is_a_baseline(self, life, files, tmp_path):
        """Of a moment in the middle: what follows it is exact, with the server's own mysqldump."""
        moments = life[1]
        with start_server(tmp_path / "second") as second:
            for step in STEPS[:5]:
                second.run_sql(step)
            second.run_sql("CREATE VIEW shop.seen AS SELECT id FROM shop.orders; FLUSH BINARY LOGS")
            dump = subprocess.run(
                [
                    *[
                        program("mysqldump"),
                        "--no-defaults",
                        "--host=127.0.0.1",
                        f"--port={second.port}",
                        "--user=root",
                    ],
                    *["--no-data", "--databases", "shop"],
                ],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            for step in STEPS[5:14]:
                second.run_sql(step)
            baseline = read_baseline(dump, "dump.sql")
            assert [str(view) for view in baseline.views] == ["shop.seen"]
            engine = open_store("sqlite://")
            report = track_files([str(second.binlogs()[-1])], engine, "s", baseline=baseline)
            assert report.gaps == 0
            history = History(SchemaStore(engine), "s")
            for offset, (_, _, _, tables) in enumerate(moments[4:13]):
                found = {
                    name.table: known(version.definition)
                    for name, version in history.tables(AtSeq(offset))
                    if name.table
                }
                assert found == {table: as_known(columns) for table, columns in tables.items()}, offset


@pytest.mark.mysql
class TestStoreOnTheSource:
    def test_its_own_tables_are_no_users_tables(self, mysql_server):
        mysql_server.run_sql("DROP DATABASE IF EXISTS own_store; DROP DATABASE IF EXISTS own_user; FLUSH BINARY LOGS")
        file = [str(mysql_server.binlogs()[-1])]
        engine = open_store(f"{mysql_server.url}own_store")
        mysql_server.run_sql("CREATE DATABASE own_user; CREATE TABLE own_user.t (a INT)")
        track_files(file, engine, "s")
        mysql_server.run_sql("ALTER TABLE own_user.t ADD b INT")
        report = track_files(file, engine, "s")
        assert report.versions == 1
        store = SchemaStore(engine)
        assert {entry.name.database for entry in store.all_entries("s")} == {"", "own_user"}
        definition = History(store, "s").at(TableName("own_user", "t"), AtSeq(report.seq)).definition
        assert [column.name for column in definition.columns] == ["a", "b"]
        engine.dispose()

    def test_names_that_differ_in_case_only(self, mysql_server):
        mysql_server.run_sql("DROP DATABASE IF EXISTS case_store; DROP DATABASE IF EXISTS cased; FLUSH BINARY LOGS")
        mysql_server.run_sql("CREATE DATABASE cased; CREATE TABLE cased.t (a INT); CREATE TABLE cased.T (b INT)")
        mysql_server.run_sql("CREATE TABLE cased.tä (c INT); CREATE TABLE cased.ta (d INT)")
        engine = open_store(f"{mysql_server.url}case_store")
        report = track_files([str(mysql_server.binlogs()[-1])], engine, "s")
        history = History(SchemaStore(engine), "s")
        for table, column in (("t", "a"), ("T", "b"), ("tä", "c"), ("ta", "d")):
            definition = history.at(TableName("cased", table), AtSeq(report.seq)).definition
            assert [found.name for found in definition.columns] == [column]
        engine.dispose()


@pytest.mark.mysql
class TestStatementFormat:
    def test_rows_that_are_not_there_are_reported(self, mysql_server):
        mysql_server.run_sql("DROP DATABASE IF EXISTS stated; FLUSH BINARY LOGS; CREATE DATABASE stated")
        mysql_server.run_sql(
            "CREATE TABLE t (a INT); SET binlog_format = STATEMENT; INSERT INTO t VALUES (1); UPDATE t SET a = 2;"
            "\nDELIMITER //\nCREATE FUNCTION f(x INT) RETURNS INT DETERMINISTIC MODIFIES SQL DATA "
            "BEGIN INSERT INTO t VALUES (x); RETURN x; END//\nDELIMITER ;\n"
            "SELECT f(3); CREATE TABLE u SELECT a FROM t",
            "stated",
        )
        engine = open_store("sqlite://")
        report = track_files([str(mysql_server.binlogs()[-1])], engine, "s")
        assert report.statement_changes == 3
        changes = SchemaStore(engine).statement_changes("s", 0, report.seq)
        assert [(str(*change.tables[:1]), change.statement) for change in changes] == [
            ("stated.t", "INSERT INTO t VALUES (1)"),
            ("stated.t", "UPDATE t SET a = 2"),
            ("", "SELECT `stated`.`f`(3)"),
        ]
        *_, gap, first, unnamed = report.examples
        assert gap.startswith("gap: stated.u: ")
        assert first == (
            f"rows of stated.t were changed by a statement: {changes[0].gtid}: INSERT INTO t VALUES (1) (2 times)"
        )
        assert unnamed.startswith("rows of a table that the statement does not name were changed by a statement: ")
        history = History(SchemaStore(engine), "s")
        assert history.at(TableName("stated", "t"), AtSeq(report.seq))


@pytest.mark.mysql
def test_rows_that_ddl_removed_are_reported_once(mysql_server):
    mysql_server.run_sql("DROP DATABASE IF EXISTS emptied; FLUSH BINARY LOGS; CREATE DATABASE emptied")
    mysql_server.run_sql("CREATE TABLE t (a INT); TRUNCATE t; ALTER TABLE t ADD b INT; TRUNCATE TABLE t", "emptied")
    engine = open_store("sqlite://")
    file = [str(mysql_server.binlogs()[-1])]
    report = track_files(file, engine, "s")
    assert (report.removals, report.gaps) == (2, 0)
    removals = SchemaStore(engine).row_removals("s", 0, report.seq)
    assert [(removal.statement, str(removal.name)) for removal in removals] == [
        ("TRUNCATE t", "emptied.t"),
        ("TRUNCATE TABLE t", "emptied.t"),
    ]
    first = f"rows of emptied.t are gone without delete rows: {removals[0].gtid}: TRUNCATE t (2 times)"
    assert first in report.examples
    assert SchemaStore(engine).row_removals("s", removals[0].seq, report.seq) == removals[1:]
    assert track_files(file, engine, "s").removals == 0


def test_files_are_read_in_the_order_of_their_numbers():
    assert in_stream_order(["x/binlog.1000000", "x/binlog.999999"]) == ["x/binlog.999999", "x/binlog.1000000"]
    assert in_stream_order(["b/binlog.000002", "a/other.000001"]) == ["b/binlog.000002", "a/other.000001"]
    assert in_stream_order(["b/binlog.000002", "a/binlog.000002"]) == ["b/binlog.000002", "a/binlog.000002"]
    assert in_stream_order(["copy", "binlog.000001"]) == ["copy", "binlog.000001"]


@pytest.mark.mysql
def test_the_command_line(life, files, tmp_path, capsys):
    where = ["--source", "s", "--store", f"sqlite:///{tmp_path}/store.db"]
    assert run(["schema", "show", *where]) == 3
    assert run(["track", *files, *where]) == 0
    capsys.readouterr()
    for number, (executed, position, _, tables) in enumerate(life[1]):
        for option in (["--gtid-set", executed], ["--position", str(position)], ["--position", executed]):
            assert run(["schema", "show", *where, *option, "--format", "jsonl"]) == 0
            lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
            assert {line["table"]: [column["name"] for column in line["columns"]] for line in lines} == {
                table: [column[0] for column in columns] for table, columns in tables.items()
            }
            if option[1] == executed or STEPS[number].startswith(("CREATE", "ALTER", "RENAME", "DROP")):
                assert all(line["gtid_executed"] == executed for line in lines)
    assert run(["schema", "history", *where, "--format", "jsonl"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0]["ddl"] == STEPS[1]
    assert (lines[0]["database"], lines[0]["table"], lines[0]["origin"]) == ("shop", "orders", "ddl")
    assert lines[-1]["dropped"] is True
    assert run(["schema", "show", *where, "--table", "shop.orders"]) == 1
    assert "no such table" in capsys.readouterr().err
    for command in (["show"], ["history"], ["diff"], ["diff", "--from", life[1][1][0], "--to", life[1][5][0]]):
        assert run(["schema", *command, *where]) == 0
    assert "first_one datetime(3)" in capsys.readouterr().out
