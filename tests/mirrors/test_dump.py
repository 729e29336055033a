"""Dumps of tables while others write to them: the mirror equals the server."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import random
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec import structs

from strata_cdc.binlog.protocol.connection import open_connection
from strata_cdc.changes.select.rows import SelectedRows, ServerSelect
from strata_cdc.changes.select.statement import prepare_session
from strata_cdc.errors import AlreadyRunningError, LakeUnavailableError, SchemaGapError, SourceUnavailableError, Usage
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.mirrors.dump import folder as dump_folder
from strata_cdc.mirrors.dump.dump_table import DumpSettings, TableDump
from strata_cdc.mirrors.dump.finish import DumpSource
from strata_cdc.mirrors.dump.folder import DumpFolder
from strata_cdc.mirrors.dump.limits import DumpLimits
from strata_cdc.mirrors.dump.snapshot import refuse_inconsistent
from strata_cdc.mirrors.layout import mirror_schema
from strata_cdc.mirrors.table import Mirror
from strata_cdc.pipeline.housekeep.retain_landed import retain_landed
from strata_cdc.pipeline.plan.pending import WorkChoice
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.live.engine import LiveSchema
from strata_cdc.schema.model.definition import TableName
from strata_cdc.tables.convert import state_schema
from strata_cdc.tables.state import row_codes
from strata_cdc.tracking.track_schema import track_landed
from tests.interposed import interposed
from tests.mirrors.world import MirrorWorld
from tests.mysql_server import start_server

pytestmark = pytest.mark.mysql

TABLES = {
    "plain": "id INT PRIMARY KEY, a INT, b VARCHAR(700), c DECIMAL(9,2)",
    "texts": "k VARCHAR(20) COLLATE utf8mb4_0900_ai_ci, n BIGINT UNSIGNED, a INT, "
    "b VARCHAR(40), PRIMARY KEY (k, n DESC)",
    "uniq": "u VARBINARY(9) NOT NULL UNIQUE, x INT UNIQUE, a INT, b JSON",
    "hidden": "a INT, b DATETIME(3)",
    "nothing": "id INT PRIMARY KEY",
}
ROWS = 6000


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dump")
    with start_server(folder / "server", "--sql-generate-invisible-primary-key=ON") as server:
        yield MirrorWorld(server, folder)


def fill(server, database):
    connection = server.connect()
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {database}")
        cursor.execute(f"USE {database}")
        cursor.execute("SET SESSION cte_max_recursion_depth = 1000000")
        for name, columns in TABLES.items():
            cursor.execute(f"CREATE TABLE {name} ({columns})")
        numbers = f"WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < {ROWS}) SELECT "
        cursor.execute(f"INSERT INTO plain {numbers} n * 10, n, RPAD(n, 600, 'b'), n / 100 FROM r")
        cursor.execute(f"INSERT INTO texts {numbers} CONCAT(CHAR(97 + n % 26), n % 50), n, n, NULL FROM r")
        cursor.execute(f"INSERT INTO uniq {numbers} UNHEX(LPAD(HEX(n * 977 % 65536), 8, '0')), n, n, "
                       "JSON_OBJECT('a', n) FROM r")  # fmt: skip
        cursor.execute(f"INSERT INTO hidden (a, b) {numbers} n, NOW(3) FROM r")
        cursor.execute("SET SESSION sql_generate_invisible_primary_key = OFF")
        cursor.execute("CREATE TABLE bare (a INT, b TEXT)")
        cursor.execute(f"INSERT INTO bare (a, b) {numbers} n % 100, REPEAT('x', n % 7) FROM r")
        cursor.execute("ANALYZE TABLE plain")
    return connection


class Writer(threading.Thread):
    """Writes as fast as it goes; keys move, rows go and come again."""

    def __init__(self, server, database, seed):
        super().__init__(daemon=True)
        self.connection = server.connect(database)
        self.random = random.Random(seed)
        self.done = threading.Event()
        self.error = None
        self.count = 0

    def run(self):
        try:
            with self.connection.cursor() as cursor:
                while not self.done.is_set():
                    self.write(cursor)
        except Exception as error:  # noqa: BLE001 - told to the test
            self.error = error

    def write(self, cursor):
        draw, number = self.random.random(), self.random.randint(1, ROWS)
        self.count += 1
        if draw < 0.2:
            cursor.execute("BEGIN")
        texts = {
            0: f"REPLACE INTO plain (id, a, b) VALUES ({number * 10}, {self.count}, 'new')",
            1: f"DELETE FROM plain WHERE id = {number * 10}",
            2: f"UPDATE IGNORE plain SET id = {self.random.randint(1, ROWS * 10)} WHERE id = {number * 10}",
            3: f"UPDATE plain SET a = a + 1 WHERE id BETWEEN {number * 10} AND {number * 10 + 200}",
            4: f"UPDATE IGNORE texts SET k = UPPER(k) WHERE k = '{chr(97 + number % 26)}{number % 50}'",
            5: f"UPDATE IGNORE texts SET k = '{chr(97 + self.count % 26)}', n = {self.count} WHERE a = {number}",
            6: f"DELETE FROM texts WHERE n = {number} LIMIT 1",
            7: f"UPDATE IGNORE uniq SET u = UNHEX('{self.random.randint(0, 65535):08x}') WHERE x = {number}",
            8: f"DELETE FROM uniq WHERE x = {number}",
            9: f"UPDATE uniq SET b = JSON_SET(b, '$.c', {self.count}) WHERE x = {number}",
            10: f"INSERT INTO hidden (a) VALUES ({number})",
            11: f"DELETE FROM hidden WHERE a = {number} LIMIT 1",
        }
        for _ in range(1 if draw > 0.2 else 4):
            cursor.execute(texts[self.random.randint(0, 11)])
        if draw < 0.2:
            cursor.execute("ROLLBACK" if draw < 0.03 else "COMMIT")

    def end(self):
        self.done.set()
        self.join()
        assert self.error is None, self.error
        return self.count


class Ddl:
    """Runs a statement after the second chunk of each reading."""

    def __init__(self, connection, statements):
        self.connection, self.statements, self.rows = connection, list(statements), 0

    def __call__(self, progress):
        is_second = 0 < self.rows < progress.rows
        self.rows = progress.rows if not is_second else 0
        if is_second and self.statements:
            with self.connection.cursor() as cursor:
                cursor.execute(self.statements.pop(0))


def source_of(world, limits=DumpLimits()):
    def catch_up():
        land_binlog(world.source.address, lake=world.lake, source=world.name)
        track_landed(world.lake, world.name, world.engine)

    store = SchemaStore(world.engine)
    return DumpSource(world.name, world.source.address, world.lake, store, catch_up, world.mode, limits=limits)


def dump(world, table, tell=lambda _: None):
    settings = DumpSettings(chunk_bytes=1, pause_seconds=0.01)
    return TableDump(source_of(world), TableName(world.database, table), settings, tell).run()


def selected(world, table):
    name = TableName(world.database, table)
    connection = open_connection(world.source.address, autocommit=True)
    definition = dict(LiveSchema(connection).tables())[name]
    connection = open_connection(world.source.address, autocommit=True)
    prepare_session(connection)
    wanted = ServerSelect(name, definition, field_names=tuple(state_schema(definition).names))
    batches = list(SelectedRows(connection, wanted))
    return pa.Table.from_batches(batches, schema=state_schema(definition))


def assert_equal(world, table, found):
    truth = selected(world, table)
    rows = found.select(truth.schema.names)
    assert rows.schema == truth.schema
    codes = row_codes(pa.concat_tables([truth, rows]))
    assert sorted(codes[: truth.num_rows]) == sorted(codes[truth.num_rows :])


def test_tables_that_nobody_writes_to(world):
    world.database = "still"
    fill(world.server, "still")
    for table in [*TABLES, "bare"]:
        report = dump(world, table)
        mirror = Mirror.open(world.lake, world.name, TableName("still", table))
        assert_equal(world, table, mirror.to_arrow())
        assert report.rows == mirror.to_arrow().num_rows
        assert (report.changes, report.readings) == (0, 1)
        assert mirror.position.seq == report.seq


def test_tables_under_writers_and_alters(world):
    world.database = "busy"
    fill(world.server, "busy")
    statements = {
        "plain": ["ALTER TABLE plain ADD COLUMN d INT DEFAULT 7", "ALTER TABLE plain MODIFY a BIGINT"],
        "texts": ["ALTER TABLE texts ADD INDEX (a)"],
        "uniq": [],
        "hidden": ["TRUNCATE hidden"],
    }
    reports, writers = {}, 0
    for table, ddl in statements.items():
        writer = Writer(world.server, "busy", len(table))
        writer.start()
        try:
            reports[table] = dump(world, table, tell=Ddl(world.server.connect("busy"), ddl))
        finally:
            writers += writer.end()
    assert sum(report.changes for report in reports.values()) > 50, (reports, writers)
    assert {table: report.readings for table, report in reports.items()} == {
        "plain": 3, "texts": 1, "uniq": 1, "hidden": 2,
    }, (reports, writers)  # fmt: skip
    world.publish()
    world.update()
    for table in statements:
        mirror = Mirror.open(world.lake, world.name, TableName("busy", table))
        assert mirror.schema == mirror_schema(mirror.definition)
        assert_equal(world, table, mirror.to_arrow())
    assert Path(world.lake).exists()


class Command:
    """`strata dump` in a process of its own."""

    def __init__(self, world, folder, **settings):
        self.world = world
        text = f'lake = "{world.lake}"\nstore = "sqlite:///{world.folder}/store.db"\n[sources.{world.name}]\n'
        text += 'connection = "c"\n' + "".join(f"{name} = {value}\n" for name, value in settings.items())
        (folder / "strata.toml").write_text(text)
        self.environment = {
            **os.environ, "STRATA_SETTINGS": str(folder / "strata.toml"), "AIRFLOW_CONN_C": world.server.url,
        }  # fmt: skip

    def start(self, *words):
        command = [str(Path(sys.executable).with_name("strata")), "--json", "dump", *words]
        return subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, *words):
        process = self.start(*words)
        out, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors.decode()
        return [json.loads(line) for line in out.splitlines()]


def manifest_of(world, table):
    return DumpFolder(world.lake, world.name, TableName(world.database, table)).manifest()


def wait_for(condition):
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_killed_dump_goes_on_where_it_was(world, tmp_path):
    world.database = "killed"
    fill(world.server, "killed")
    writer = Writer(world.server, "killed", 5)
    writer.start()
    command = Command(world, tmp_path, dump_chunk_mb=1, mirrors='["killed.*"]')
    try:
        # It pauses behind its first chunk for longer than this takes, whoever else is busy.
        first = command.start("--table", "killed.plain", "--pause", "60000")
        wait_for(lambda: (found := manifest_of(world, "plain")) is not None and found.chunks)
        with pytest.raises(AlreadyRunningError, match="another process is dumping this table"):
            dump(world, "plain")
        first.kill()
        first.communicate()
        kept = manifest_of(world, "plain").chunks
        assert 1 <= len(kept) <= 6
        folder = Path(world.lake) / "dumps" / world.name / "killed" / "plain"
        (folder / ".half.part").write_bytes(b"?")
        stamps = {chunk.file: (folder / chunk.file).stat().st_mtime_ns for chunk in kept}
        seen = []
        report = dump(world, "plain", tell=lambda progress: seen.append((progress, dict(_stamps(folder)))))
    finally:
        writer.end()
    assert report.readings == 1
    assert all(seen[0][1][name] == stamp for name, stamp in stamps.items())
    assert seen[0][0].rows > sum(chunk.rows for chunk in kept)
    assert not list(folder.glob("*.arrow")) + list(folder.glob("*.json")) + list(folder.glob("*.part"))
    world.publish()
    world.update()
    assert_equal(world, "plain", Mirror.open(world.lake, world.name, TableName("killed", "plain")).to_arrow())


def _stamps(folder):
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*.arrow")}


def test_the_command_dumps_what_has_no_mirror(world, tmp_path):
    world.database = "cli"
    fill(world.server, "cli")
    command = Command(world, tmp_path, mirrors='["cli.*"]')
    # All of its tables are in the stream from their CREATE TABLE on.
    assert command.run() == []
    [reported] = command.run("--table", "cli.uniq")
    assert (reported["table"], reported["rows"], reported["changes"], reported["readings"]) == ("cli.uniq", ROWS, 0, 1)
    assert_equal(world, "uniq", Mirror.open(world.lake, world.name, TableName("cli", "uniq")).to_arrow())
    failed = command.start("--table", "cli.nothing_such")
    assert b"matches no table" in failed.communicate(timeout=60)[1]
    assert failed.returncode == 2


def test_values_that_no_column_holds_are_counted(world, tmp_path):
    """Dates are NULL then, other values are not; the mirror keeps all of them."""
    world.database = "held"
    world.server.run_sql(
        "CREATE DATABASE held; CREATE TABLE held.odd (id INT PRIMARY KEY, d DATE, e ENUM('a', ''));"
        "SET sql_mode = ''; INSERT INTO held.odd VALUES (1, '0000-00-00', 'b'), (2, '2020-02-31', 'a'), (3, NULL, NULL)"
    )
    command = Command(world, tmp_path)
    done = subprocess.run(
        [Path(sys.executable).with_name("strata"), "dump", "--table", "held.odd"],
        env=command.environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.rstrip().endswith("; 2 values of d in _invalid; 1 value of e in _invalid")
    rows = Mirror.open(world.lake, world.name, TableName("held", "odd")).to_arrow(["id", "d", "e", "_invalid"])
    by_id = {row["id"]: (row["d"], row["e"], dict(row["_invalid"] or ())) for row in rows.to_pylist()}
    assert by_id == {
        1: (None, "", {"d": "0000-00-00", "e": "0"}), 2: (None, "a", {"d": "0000-00-00"}), 3: (None, None, {}),
    }  # fmt: skip


def test_a_table_that_goes_away_is_told(world):
    world.database = "gone"
    fill(world.server, "gone")
    connection = world.server.connect("gone")

    def drop(_):
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS plain")

    with pytest.raises(SchemaGapError, match="there is no such table"):
        dump(world, "plain", tell=drop)
    assert manifest_of(world, "plain") is None


def test_a_table_that_is_renamed_or_swapped_away(world):
    world.database = "swapped"
    fill(world.server, "swapped")
    connection = world.server.connect("swapped")
    swap = "RENAME TABLE plain TO plain_old, ghost TO plain"
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE ghost LIKE plain")
        cursor.execute("INSERT INTO ghost SELECT id + 1, a, b, c FROM plain LIMIT 3000")
    report = dump(world, "plain", tell=Ddl(connection, [swap]))
    assert (report.rows, report.readings) == (3000, 2)
    assert_equal(world, "plain", Mirror.open(world.lake, world.name, TableName("swapped", "plain")).to_arrow())
    with pytest.raises(SchemaGapError, match="there is no such table"):
        dump(world, "plain", tell=Ddl(connection, ["RENAME TABLE plain TO elsewhere"]))
    assert manifest_of(world, "plain") is None


def test_a_table_without_consistent_reads_is_refused(world):
    world.database = "engines"
    world.server.run_sql("CREATE DATABASE engines; CREATE TABLE engines.t (id INT PRIMARY KEY) ENGINE = MyISAM")
    with pytest.raises(Usage, match="engine is MyISAM"):
        dump(world, "t")
    assert manifest_of(world, "t") is None


def test_the_engine_of_a_table_of_any_name_is_changed_as_the_error_says(mysql_server):
    table = TableName("odd engines", "it`s; a table")
    mysql_server.run_sql("CREATE DATABASE `odd engines`")
    mysql_server.run_sql("CREATE TABLE `it``s; a table` (id INT) ENGINE = MyISAM", table.database)
    with closing(mysql_server.connect()) as connection, connection.cursor() as cursor:
        with pytest.raises(Usage) as refused:
            refuse_inconsistent(connection, table)
        cursor.execute(refused.value.remedy.partition(" on the server")[0])
        refuse_inconsistent(connection, table)
        cursor.execute("DROP DATABASE `odd engines`")


def test_a_server_that_goes_away_leaves_what_was_read(world):
    world.database = "away"
    fill(world.server, "away")
    connection = world.server.connect("away")

    def kill(progress):
        if progress.rows < 3000:
            with connection.cursor() as cursor:
                cursor.execute("SELECT id FROM information_schema.processlist WHERE command = 'Sleep' "
                               "AND id <> CONNECTION_ID() ORDER BY id DESC LIMIT 1")  # fmt: skip
                cursor.execute(f"KILL {cursor.fetchone()[0]}")

    with pytest.raises(SourceUnavailableError):
        dump(world, "plain", tell=kill)
    assert len(manifest_of(world, "plain").chunks) == 1
    assert dump(world, "plain").chunks == 7
    assert_equal(world, "plain", Mirror.open(world.lake, world.name, TableName("away", "plain")).to_arrow())


def test_a_full_disk_leaves_what_was_read(world):
    world.database = "full"
    fill(world.server, "full")
    folder = DumpFolder(world.lake, world.name, TableName("full", "plain"))

    def write(whole, *given):
        if folder.manifest() and folder.manifest().chunks:
            raise OSError(errno.ENOSPC, "No space left on device")
        whole(*given)

    with interposed(write, (dump_folder, "_write")), pytest.raises(LakeUnavailableError, match="space"):
        dump(world, "plain")
    assert len(folder.manifest().chunks) == 1
    assert dump(world, "plain").chunks == 7


def test_a_new_binlog_file_that_has_nothing_yet(world):
    world.database = "rotated"
    fill(world.server, "rotated")
    for table in ("bare", "plain"):
        world.server.run_sql("FLUSH BINARY LOGS")
        assert dump(world, table).rows == ROWS


def test_a_table_without_a_key_is_read_when_nobody_changes_it(world):
    world.database = "keyless"
    fill(world.server, "keyless")
    done = threading.Event()

    def write():
        with world.server.connect("keyless") as connection, connection.cursor() as cursor:
            while not done.wait(0.002):
                cursor.execute("INSERT INTO bare VALUES (1, 'a')")
                cursor.execute("DELETE FROM bare WHERE a = 7 LIMIT 1")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        report = dump(world, "bare")
    finally:
        done.set()
        writer.join()
    assert report.changes == 0
    world.publish()
    world.update()
    assert_equal(world, "bare", Mirror.open(world.lake, world.name, TableName("keyless", "bare")).to_arrow())


def retained(world, *, days=0):
    """What a retention that keeps as little as it may deletes, so many days from now."""
    settings = structs.replace(world.source.settings, keep_gb=0)
    source = dataclasses.replace(world.source, settings=settings)
    return retain_landed(source, world.engine, now=time.time_ns() // 1000 + days * 86_400_000_000)


def test_retention_keeps_what_a_dump_needs_until_it_is_given_up(world):
    world.database = "kept"
    fill(world.server, "kept")
    said = []

    def go_on(progress=None):
        if progress is not None and len(said) == 3:
            return
        world.server.run_sql("UPDATE plain SET a = a + 1 WHERE id < 90; FLUSH BINARY LOGS", "kept")
        world.publish(choice=WorkChoice.PENDING)
        said.append(retained(world).held_by)

    assert dump(world, "plain", tell=go_on).changes
    # The first time there is nothing between the dump's beginning and the newest segment, which stays in any case.
    assert all(reason and "the dump of kept.plain" in reason for reason in said[1:]), said
    assert_equal(world, "plain", Mirror.open(world.lake, world.name, TableName("kept", "plain")).to_arrow())

    def die(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dump(world, "plain", tell=die)
    go_on()
    go_on()
    assert said[-1]
    report = retained(world, days=8)
    assert (report.segments != (), report.held_by) == (True, None)
    # Its chunks lack changes that nobody has any more: it begins anew.
    assert dump(world, "plain").chunks == 7
    assert_equal(world, "plain", Mirror.open(world.lake, world.name, TableName("kept", "plain")).to_arrow())
