"""Backups in the place of dumps: their mirrors have what the binlog's decoder makes of the same rows, to the byte."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess

import pyarrow as pa
import pytest

from strata_cdc.cli.main import run
from strata_cdc.errors import BadData, Usage
from strata_cdc.mirrors.dump.backups.mysqldump import MysqldumpFile
from strata_cdc.mirrors.dump.backups.shell_dump import ShellDump
from strata_cdc.mirrors.dump.backups.take_in import take_in
from strata_cdc.schema.model.definition import TableName
from strata_cdc.tables.state import row_codes
from tests.mirrors.test_dump import source_of
from tests.mirrors.world import MirrorWorld

SQL = """
CREATE DATABASE shop; USE shop; SET sql_mode = '';
CREATE TABLE kinds (
  id BIGINT UNSIGNED PRIMARY KEY, d DOUBLE, x DECIMAL(30,10), b BIT(12), t VARCHAR(40) CHARACTER SET latin1,
  u TEXT CHARACTER SET utf16, j VARCHAR(40) CHARACTER SET sjis, e ENUM('a','ü','c,d'), s SET('x','y','z'),
  day DATE, at DATETIME(6), stamp TIMESTAMP(3) NULL, clock TIME(2), y YEAR, fixed BINARY(6), raw BLOB,
  doc JSON, place GEOMETRY, twice INT GENERATED ALWAYS AS (LENGTH(t) * 2) STORED, hidden INT INVISIBLE,
  half VARCHAR(20) GENERATED ALWAYS AS (LEFT(t, 2)) VIRTUAL);
INSERT INTO kinds (id, d, x, b, t, u, j, e, s, day, at, stamp, clock, y, fixed, raw, doc, place, hidden) VALUES
  (1, 0.1, 1.5, b'101', 'Grüße', '日本', '日本', 'ü', 'x,z', '2024-02-29', '2024-02-29 23:59:59.999999',
   '2024-01-01 00:00:00.123', '-838:59:59', 1999, 'ab', x'00010d0a1a27225c',
   JSON_OBJECT('k', CAST(1.10 AS DECIMAL(5,2)), 'z', JSON_ARRAY(1e300, NULL, '\\n"')),
   ST_GeomFromText('POINT(1 2)', 4326), 7),
  (18446744073709551615, 1.7976931348623157e308, -99999999999999999999.9999999999, b'0', '',
   '\\r\\n\\t\\\\', NULL, 'c,d', '',
   '0000-00-00', '0000-00-00 00:00:00', '0000-00-00 00:00:00', '00:00:00.10', 0, '', '', 'null', NULL, NULL),
  (3, 5e-324, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE TABLE bare (a INT, b VARCHAR(10)); INSERT INTO bare VALUES (1, 'x'), (1, 'x'), (NULL, '');
CREATE TABLE single (id INT PRIMARY KEY, f FLOAT); INSERT INTO single VALUES (1, 1.5);
CREATE TABLE derived (id INT PRIMARY KEY, doc JSON, part VARCHAR(20) AS (doc->>'$.k'));
INSERT INTO derived (id, doc) VALUES (1, JSON_OBJECT('k', CAST(1.10 AS DECIMAL(5, 2))));
CREATE TABLE nothing (id INT PRIMARY KEY);
CREATE TRIGGER touched BEFORE INSERT ON bare FOR EACH ROW SET NEW.a = NEW.a + 100;
"""
pytestmark = [pytest.mark.mysql, pytest.mark.slow]
DUMP = ("--single-transaction", "--source-data=2", "--set-gtid-purged=ON", "--triggers")


NAMES = ("kinds", "bare", "nothing")
ENCODED = {"b", "fixed", "raw", "place"}
"""MySQL Shell writes bits, bytes and geometries encoded."""


class Backups:
    """A server, what the decoder has made of its rows, and backups of it; since then it has gone on."""

    def __init__(self, server, folder):
        self.folder = folder
        self.world = MirrorWorld(server, folder, database="shop")
        server.run_sql(SQL)
        self.write_file("all.sql", *DUMP, "--databases", "shop")
        self.write_file("hex.sql", *DUMP, "--hex-blob", "shop", *NAMES)
        self.write_folder(folder / "shell")
        self.follow()
        self.decoded = {name: self.world.mirror(name).to_arrow() for name in NAMES}
        server.run_sql("INSERT INTO shop.kinds (id) VALUES (4); DELETE FROM shop.bare WHERE b = ''")
        server.run_sql("ALTER TABLE shop.nothing ADD COLUMN n INT DEFAULT 3; INSERT INTO shop.nothing VALUES (1, 2)")
        self.follow()

    def follow(self):
        self.world.publish()
        self.world.update()

    def write_file(self, name, *options):
        server = self.world.server
        where = ["--no-defaults", "--host=127.0.0.1", f"--port={server.port}", "--user=root"]
        with (self.folder / name).open("wb") as out:
            subprocess.run([server.program("mysqldump"), *where, *options], stdout=out, check=True)
        return self.folder / name

    def write_folder(self, path):
        """By the documented format: MySQL Shell is not among the programs of the tests."""
        path.mkdir()
        with self.world.server.connect("shop") as connection, connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
            cursor.execute("SELECT @@gtid_executed")
            about = {
                "dumper": "mysqlsh Ver 9.4.0", "version": "2.0.1", "origin": "dumpSchemas", "schemas": ["shop"],
                "basenames": {"shop": "shop"}, "defaultCharacterSet": "utf8mb4", "tzUtc": True, "consistent": True,
                "gtidExecuted": cursor.fetchone()[0], "gtidExecutedInconsistent": False, "compatibilityOptions": [],
            }  # fmt: skip
            put(path / "@.json", about)
            put(path / "shop.json", {"schema": "shop", "tables": NAMES, "basenames": {t: f"shop@{t}" for t in NAMES}})
            for table in NAMES:
                self.write_table(cursor, path, table)
            put(path / "@.done.json", {"end": "2026-01-01 00:00:00"})

    def write_table(self, cursor, path, table):
        cursor.execute(f"SHOW CREATE TABLE {table}")
        ddl = cursor.fetchone()[1].replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", 1)
        (path / f"shop@{table}.sql").write_text(f"-- MySQLShell dump\n\n{ddl};\n")
        cursor.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = 'shop' AND table_name = %s "
            "AND extra NOT LIKE '%% GENERATED' ORDER BY ordinal_position",
            (table,),
        )
        columns = [name for (name,) in cursor.fetchall()]
        decode = {name: "FROM_BASE64" for name in columns if table == "kinds" and name in ENCODED}
        options = {"schema": "shop", "table": table, "columns": columns, "decodeColumns": decode,
                   "defaultCharacterSet": "utf8mb4", "fieldsTerminatedBy": "\t", "fieldsEnclosedBy": "",
                   "fieldsOptionallyEnclosed": False, "fieldsEscapedBy": "\\", "linesTerminatedBy": "\n"}  # fmt: skip
        put(path / f"shop@{table}.json", {"options": options, "includesData": True, "includesDdl": True,
                                          "extension": "tsv.zst", "chunking": table == "kinds", "compression": "zstd",
                                          "partitions": [], "basenames": {}})  # fmt: skip
        listed = ", ".join(f"TO_BASE64(`{name}`)" if name in decode else f"`{name}`" for name in columns)
        chunks = {"@0": "id < 3", "@@1": "id >= 3"} if table == "kinds" else {"": "TRUE"}
        for sign, where in chunks.items():
            plain = self.folder / "plain"
            cursor.execute(f"SELECT {listed} FROM {table} WHERE {where} INTO OUTFILE '{plain}' CHARACTER SET utf8mb4")
            with pa.output_stream(str(path / f"shop@{table}{sign}.tsv.zst"), compression="zstd") as out:
                out.write(plain.read_bytes())
            plain.unlink()

    def take(self, backup, tables=NAMES):
        program = self.world.server.program("mysqld")
        chosen = [TableName("shop", name) for name in tables]
        return take_in(source_of(self.world), backup, lambda found: [t for t in chosen if t in found], mysqld=program)

    def assert_taken(self):
        """The mirrors have the decoder's rows of that moment, and go on from there."""
        for name in NAMES:
            mirror = self.world.mirror(name)
            rows = [table.drop_columns(["_seq"]) for table in (self.decoded[name], mirror.to_arrow())]
            assert rows[0].schema == rows[1].schema
            codes = row_codes(pa.concat_tables(rows))
            assert sorted(codes[: len(rows[0])]) == sorted(codes[len(rows[0]) :]), name
        self.world.update()
        self.world.assert_equal()

    def command(self, capsys, monkeypatch, *words):
        """`strata dump` on the command line: exit code, output and what went wrong."""
        world = self.world
        settings = self.folder / "strata.toml"
        settings.write_text(
            f'lake = "{world.lake}"\nstore = "sqlite:///{world.folder}/store.db"\n[sources.s]\nconnection = "s"\n'
        )
        monkeypatch.setenv("STRATA_SETTINGS", str(settings))
        monkeypatch.setenv("AIRFLOW_CONN_S", world.server.url)
        code = run(["dump", "--source", "s", "--mysqld", world.server.program("mysqld"), *map(str, words)])
        return code, *capsys.readouterr()

    def of_another_server(self, path):
        """As another server would have made it, which has transactions of its own."""
        strange = rb"\g<1>11111111-1111-1111-1111-111111111111:"
        path.write_bytes(re.sub(rb"(GTID_PURGED=.*?')[0-9a-f-]{36}:", strange, (self.folder / "all.sql").read_bytes()))
        return path


def put(path, value):
    path.write_text(json.dumps(value))


class Sink:
    """In the place of a server: takes what is loaded."""

    def load(self, lines):
        self.text = b"".join(lines)


@pytest.fixture(scope="module")
def backups(server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("backups")
    return Backups(server, folder)


def test_a_file_of_mysqldump(backups):
    report = backups.take(MysqldumpFile(backups.folder / "all.sql"), (*NAMES, "single", "derived"))
    assert {one.table: one.rows for one in report.tables} == {"shop.kinds": 3, "shop.bare": 3, "shop.nothing": 0}
    # What a backup does not hold is not made up.
    assert ["FLOAT" in report.failed[0].message, "JSON" in report.failed[1].message] == [True, True]
    backups.assert_taken()


def test_a_packed_file_without_a_statement_of_its_database(backups):
    packed = backups.folder / "hex.sql.gz"
    packed.write_bytes(gzip.compress((backups.folder / "hex.sql").read_bytes()))
    sink, backup = Sink(), MysqldumpFile(packed)
    backup.load(sink)
    assert sink.text.startswith(b"CREATE DATABASE IF NOT EXISTS `shop`;\nUSE `shop`;\n")
    assert b"`doc` longtext CHARACTER SET utf8mb4" in sink.text
    assert b"GTID_PURGED" not in sink.text
    assert backup.tables == {TableName("shop", name) for name in NAMES}


def test_a_folder_of_mysql_shell(backups):
    assert not backups.take(ShellDump(backups.folder / "shell")).failed
    backups.assert_taken()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--set-gtid-purged=OFF", "--source-data=2"), "which GTID set"),
        (("--set-gtid-purged=ON",), "no binlog position"),
        ((*DUMP, "--skip-tz-utc"), "skip-tz-utc"),
        ((*DUMP, "--skip-comments"), "no file of mysqldump"),
    ],
)
def test_a_file_that_does_not_say_when_it_was_made(backups, options, said):
    path = backups.write_file("other.sql", "--single-transaction", *options, "--databases", "shop")
    with pytest.raises(Usage, match=said) as caught:
        MysqldumpFile(path)
    assert "mysqldump --single-transaction" in caught.value.remedy


def test_a_file_that_is_not_whole(backups):
    path = backups.write_file("where.sql", *DUMP, "--where=id > 1", "shop", "nothing")
    with pytest.raises(Usage, match="--where"):
        MysqldumpFile(path).load(Sink())
    content = (backups.folder / "all.sql").read_bytes()
    (backups.folder / "cut.sql").write_bytes(content[: len(content) * 2 // 3])
    with pytest.raises(BadData, match="rows are missing"):
        MysqldumpFile(backups.folder / "cut.sql").load(Sink())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"gtidExecuted": ""}, "which GTID set"),
        ({"gtidExecutedInconsistent": True}, "another one"),
        ({"consistent": False}, "one moment"),
        ({"options": {"where": {"shop.kinds": "id > 1"}}}, "some rows"),
    ],
)
def test_a_folder_that_is_no_backup_of_one_moment(backups, tmp_path, changed, said):
    shutil.copytree(backups.folder / "shell", tmp_path / "shell")
    about = json.loads((tmp_path / "shell" / "@.json").read_text())
    put(tmp_path / "shell" / "@.json", {**about, **changed})
    with pytest.raises(Usage, match=said):
        ShellDump(tmp_path / "shell")


@pytest.mark.parametrize(
    "gone", ["@.done.json", "shop@kinds@@1.tsv.zst", "shop@kinds@0.tsv.zst", "shop@bare.tsv.zst", "shop@bare.sql"]
)
def test_a_folder_that_is_not_whole(backups, tmp_path, gone):
    shutil.copytree(backups.folder / "shell", tmp_path / "shell")
    (tmp_path / "shell" / gone).unlink()
    sink = Sink()
    sink.folder = tmp_path
    with pytest.raises((Usage, BadData), match=r"not finished|missing|No such file"):
        ShellDump(tmp_path / "shell").load(sink)


def test_without_a_mysqld_it_is_told(backups):
    with pytest.raises(Usage, match="there is no mysqld here"):
        take_in(source_of(backups.world), MysqldumpFile(backups.folder / "all.sql"), sorted, mysqld="/nowhere/mysqld")


def test_a_backup_of_another_server(backups):
    with pytest.raises(Usage, match=r"does not have|begins after"):
        backups.take(MysqldumpFile(backups.of_another_server(backups.folder / "other.sql")))


def test_the_command_takes_in_what_is_whole(backups, capsys, monkeypatch):
    tables = [word for name in NAMES for word in ("--table", f"shop.{name}")]
    code, out, _ = backups.command(capsys, monkeypatch, "--from-mysqldump", backups.folder / "all.sql", *tables)
    assert (code, "shop.kinds  3 rows read, 0 changes since, mirror at transaction" in out) == (0, True)
    backups.assert_taken()
    code, out, said = backups.command(capsys, monkeypatch, "--from-shell", backups.folder / "shell", *tables)
    assert (code, [line.split()[:3] for line in out.splitlines()]) == (
        0,
        [["shop.bare", "3", "rows"], ["shop.kinds", "3", "rows"], ["shop.nothing", "0", "rows"]],
    ), said
    backups.assert_taken()


def test_the_command_refuses_what_is_not(backups, capsys, monkeypatch, tmp_path):
    """Each with what to do, and nothing of it is taken in."""
    whole, content = backups.folder / "all.sql", (backups.folder / "all.sql").read_bytes()
    for name, text in {"torn": content[: len(content) * 2 // 3], "empty": b"", "other": b"\x00\x01no dump"}.items():
        (tmp_path / f"{name}.sql").write_bytes(text)
    (tmp_path / "torn.sql.gz").write_bytes(gzip.compress(content)[:-200])
    shutil.copytree(backups.folder / "shell", tmp_path / "shell")
    (tmp_path / "shell" / "@.done.json").unlink()
    backups.write_file("no_gtids.sql", "--single-transaction", "--source-data=2", "--set-gtid-purged=OFF", "shop")
    cases = {
        ("--from-mysqldump", tmp_path / "torn.sql"): "rows are missing",
        ("--from-mysqldump", tmp_path / "torn.sql.gz"): "rows are missing",
        ("--from-mysqldump", tmp_path / "empty.sql"): "no file of mysqldump",
        ("--from-mysqldump", tmp_path / "other.sql"): "no file of mysqldump",
        ("--from-mysqldump", tmp_path / "nowhere.sql"): "No such file",
        ("--from-mysqldump", backups.of_another_server(tmp_path / "strange.sql")): "11111111-1111",
        ("--from-mysqldump", backups.folder / "no_gtids.sql"): "which GTID set",
        ("--from-mysqldump", whole, "--table", "shop.nobody"): "shop.nobody",
        ("--from-mysqldump", whole, "--from-shell", tmp_path / "shell"): "exclude each other",
        ("--from-mysqldump", tmp_path): "is a directory",
        ("--from-shell", tmp_path / "shell"): "not finished",
        ("--from-shell", tmp_path): "no folder of MySQL Shell",
        ("--from-shell", whole): "no folder of MySQL Shell",
    }
    before = {name: backups.world.mirror(name).snapshot.version for name in NAMES}
    wrong = []
    for words, wanted in cases.items():
        code, out, said = backups.command(capsys, monkeypatch, *words)
        # 1: it is damaged; 2: it is not what was asked for.
        if (code, out, wanted in said, "Traceback" in said) != (1 + ("torn" not in str(words[1])), "", True, False):
            wrong.append((words, code, out, said))
    assert not wrong, "\n".join(map(str, wrong))
    assert {name: backups.world.mirror(name).snapshot.version for name in NAMES} == before
