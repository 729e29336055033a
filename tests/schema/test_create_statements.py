"""`schema show --dialect mysql` beside SHOW CREATE TABLE of a real server."""

from __future__ import annotations

import re
from random import Random
from typing import TYPE_CHECKING

import pytest

from strata_cdc.binlog.protocol.connection import ServerAddress
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.schema.answers.create_statements import create_statement
from strata_cdc.schema.answers.tables import tables_at
from strata_cdc.schema.history.historian import Gap, History
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.stream_positions import AtBinlog, AtSeq
from strata_cdc.store.database import open_store
from strata_cdc.tracking.snapshot_schemas import snapshot_schemas
from strata_cdc.tracking.track_schema import track_files
from tests.mysql_server import start_server
from tests.schema.differential import run_and_record
from tests.schema.sequences import Sequence
from tests.schema.test_differential import QUICK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.mysql_server import MysqlServer

SEQUENCES = 8
STATEMENTS = 12

NOT_STORED = re.compile(
    r" COMMENT='(?:[^']|'')*'| AUTO_INCREMENT=\d+| (?:STATS_PERSISTENT|CHECKSUM)=\d| KEY_BLOCK_SIZE=\d+"
    r"| /\*!50606 [A-Z_ ]+\*/|(?<=\)) USING BTREE|(?<=\)) COMMENT 'x'|,\n  CONSTRAINT [^\n]*"
)
"""What no version holds; a note says so where a statement has it."""
NOT_EXACT = ("expressions", "partitioning", "key's prefix")
"""Notes of what is there, but not as the server writes it."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    with start_server(tmp_path_factory.mktemp("show"), *QUICK) as found:
        yield found


def shown_tables(server: MysqlServer, database: str) -> dict[str, str]:
    """What the server prints of its tables now."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s", (database,))
        names = [name for (name,) in cursor.fetchall()]
        found = {}
        for name in names:
            cursor.execute(f"SHOW CREATE TABLE {database}.`{name.replace('`', '``')}`")
            found[name] = cursor.fetchone()[1]
    return {name: text for name, text in found.items() if text.startswith("CREATE TABLE")}


def compare(server: MysqlServer, url: str, random: Random) -> tuple[int, list[tuple[str, str]]]:
    """Runs a sequence; how many tables after how many statements were the same, and the others: ours and theirs."""
    with server.connect() as fresh, fresh.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS d")
        cursor.execute("RESET BINARY LOGS AND GTIDS")
        cursor.execute("CREATE DATABASE d")
    sequence = Sequence(random, "d")
    with server.connect("d") as connection, server.connect() as observer:
        run = run_and_record(connection, observer, sequence.statements(STATEMENTS), sequence.refuse)
        shown = [(record, shown_tables(server, "d")) for record in run]
    engine = open_store(url)
    track_files([str(server.binlog_dir / shown[-1][0].file)], engine, "s")
    store = SchemaStore(engine)
    history = History(store, "s")
    # No version holds that a column without a default has lost its DEFAULT NULL.
    dropped = any("drop default" in record.statement for record, _ in shown)
    same, others = 0, []
    for record, theirs in shown:
        for name, version in tables_at(history, AtBinlog(BinlogPosition.parse(f"{record.file}:{record.end}"))).tables:
            if isinstance(version, Gap) or name.table not in theirs:
                continue
            made = create_statement(store, "s", name, version)
            ours, reported = made.sql, NOT_STORED.sub("", theirs[name.table])
            if dropped:
                ours, reported = (text.replace(" DEFAULT NULL", "") for text in (ours, reported))
            if ours == reported or any(word in note for note in made.notes for word in NOT_EXACT):
                same += ours == reported
            else:
                others.append((ours, reported))
    return same, others


@pytest.mark.mysql
@pytest.mark.slow
def test_it_is_what_the_server_showed(server: MysqlServer, tmp_path: Path):
    total = 0
    for seed in range(SEQUENCES):
        same, others = compare(server, f"sqlite:///{tmp_path}/{seed}.db", Random(seed))
        assert others == []
        total += same
    assert total > SEQUENCES * 8


PLAIN = """CREATE TABLE `orders` (
  `id` bigint unsigned NOT NULL AUTO_INCREMENT,
  `customer` int NOT NULL COMMENT 'who''s \\\\ it',
  `code` varchar(10) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT 'a\\nb',
  `same` varchar(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci NOT NULL,
  `other` text,
  `state` enum('new','it''s') DEFAULT 'new',
  `price` decimal(10,2) DEFAULT '1.50',
  `flags` bit(3) DEFAULT b'101',
  `raw` binary(4) DEFAULT 'ab\\0\\0',
  `at` timestamp(3) NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
  `place` point NOT NULL /*!80003 SRID 4326 */,
  `hidden` int DEFAULT '5' /*!80023 INVISIBLE */,
  `doc` json DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `z` (`customer`,`id`),
  UNIQUE KEY `nullable` (`code`),
  KEY `y` (`price` DESC,`other`(7)),
  KEY `a` (`hidden`) /*!80000 INVISIBLE */,
  SPATIAL KEY `place` (`place`),
  FULLTEXT KEY `words` (`other`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci ROW_FORMAT=DYNAMIC"""


@pytest.mark.mysql
def test_what_it_says_is_the_same_table(server: MysqlServer, tmp_path: Path):
    """Byte for byte; and a table that is made from it shows the same."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS d")
        cursor.execute("RESET BINARY LOGS AND GTIDS")
        cursor.execute("CREATE DATABASE d")
        cursor.execute("USE d")
        cursor.execute(PLAIN)
        cursor.execute("ALTER TABLE orders DROP KEY a, ADD KEY b (hidden), ADD KEY a (hidden)")
        cursor.execute("CREATE TABLE copied LIKE orders")
        cursor.execute("SHOW BINARY LOG STATUS")
        file = str(cursor.fetchone()[0])
    engine = open_store(f"sqlite:///{tmp_path}/store.db")
    track_files([str(server.binlog_dir / file)], engine, "s")
    store = SchemaStore(engine)
    history = History(store, "s")
    tables = dict(tables_at(history, AtSeq(history.tracked.seq)).tables)
    theirs = shown_tables(server, "d")
    for name, version in tables.items():
        made = create_statement(store, "s", name, version)
        assert (made.sql, made.notes) == (theirs[name.table], ())
    before = tables_at(history, AtSeq(2)).tables[0]
    assert create_statement(store, "s", *before).sql == PLAIN
    server.run_sql("CREATE DATABASE e; USE e;" + ";".join(theirs.values()))
    assert shown_tables(server, "e") == theirs
    server.run_sql("DROP DATABASE e")


@pytest.mark.mysql
def test_a_charset_that_no_binlog_holds_is_a_note(server: MysqlServer, tmp_path: Path):
    """The server writes what LIKE makes of a temporary table without the table's charset. A snapshot tells it."""
    random = Random(5)
    charsets = ("latin1", "utf8mb4", "utf16", "koi8r", "utf8mb3")
    server.run_sql("DROP DATABASE IF EXISTS d; CREATE DATABASE d CHARACTER SET latin1; RESET BINARY LOGS AND GTIDS")
    for number in range(8):
        columns = ", ".join(f"c{at} VARCHAR(9) CHARACTER SET {random.choice(charsets)}" for at in range(3))
        named = f" CHARACTER SET {random.choice(charsets)}" if number else ""
        made = f"CREATE TEMPORARY TABLE t (id INT PRIMARY KEY, {columns}){named}; CREATE TABLE made{number} LIKE t"
        server.run_sql(made, "d")
    theirs = shown_tables(server, "d")
    engine = open_store(f"sqlite:///{tmp_path}/store.db")
    report = track_files([str(server.binlogs()[0])], engine, "s")
    store = SchemaStore(engine)

    def notes(told: History, seq: int) -> dict[str, bool]:
        """Whether each statement has a note on it; it is the server's, but for the charset then."""
        found = {}
        for name, version in tables_at(told, AtSeq(seq)).tables:
            assert not isinstance(version, Gap), name
            made = create_statement(store, "s", name, version)
            found[name.table] = any("default charset" in note for note in made.notes)
            *lines, end = theirs[name.table].split("\n")
            if found[name.table]:
                end = re.sub(r" DEFAULT CHARSET=\S+( COLLATE=\S+)?$", "", end)
                assert made.sql.split("\n") == [*lines, end]
            assert made.sql.split("\n")[-1] == end
        return found

    assert set(notes(History(store, "s"), report.seq).values()) == {True}
    snapshot_schemas(ServerAddress.from_url(server.url), engine, "s")
    server.run_sql("ALTER TABLE made1 ADD later TEXT", "d")
    report = track_files([str(server.binlogs()[0])], engine, "s")
    theirs = shown_tables(server, "d")
    assert report.gaps == 0
    assert set(notes(History(store, "s"), report.seq).values()) == {False}
