"""Reading a server for a comparison: keys of every type as borders, beside writers, and what may happen meanwhile."""

from __future__ import annotations

import random
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pymysql
import pytest
from msgspec.structs import replace

from strata_cdc.binlog.protocol.connection import ServerAddress
from strata_cdc.errors import SourceUnavailableError
from strata_cdc.pipeline import ingest
from strata_cdc.quality.reconcile import judge
from strata_cdc.quality.reconcile.report import Against, ComparisonOutcome, Side
from strata_cdc.quality.reconcile.server_rows import Pace, ServerRows, TableChangedError
from strata_cdc.schema.model.definition import TableName
from tests.interposed import interposed
from tests.quality.live_world import HELD_BYTES, LiveWorld
from tests.seeds import seeds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from strata_cdc.quality.reconcile.compare import ComparedTable, ShownRows
    from strata_cdc.quality.reconcile.lake_rows import LakeRows
    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql


@pytest.fixture
def world(server: MysqlServer, tmp_path: Path) -> LiveWorld:
    """A source whose stream begins with an empty database, read by two rows at a time."""
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop;")
    return LiveWorld(server, tmp_path, more="reconcile_rows = 2")


KEYS = {
    "bin_nul": ("VARBINARY(9)", ["x'00'", "x'0000'", "''", "x'00ff'", "x'27'", "x'5c00'"]),
    "bin_padded": ("BINARY(3)", ["x'00'", "x'41'", "x'ff'", "'a'"]),
    "big": ("BIGINT UNSIGNED", ["0", "9223372036854775807", "9223372036854775808", "18446744073709551615"]),
    "signed": ("BIGINT", ["-9223372036854775808", "-1", "0", "9223372036854775807"]),
    "ci": ("VARCHAR(9) COLLATE utf8mb4_0900_ai_ci", ["'a'", "'B'", "'c'", "'Ä-'", "''", "'ß'", "'\\\\'", "'\\''"]),
    "pad": ("CHAR(5) CHARACTER SET latin1 COLLATE latin1_german1_ci", ["'a'", "'b '", "'Z'", "'ü'", "''"]),
    "sjis": ("VARCHAR(9) CHARACTER SET sjis", ["'表'", "'a'", "'ソ'", "'ｱ'"]),
    "dec": ("DECIMAL(40, 10)", ["-1.5", "0", "1234567890123456789012345678.0000000001", "2"]),
    "day": ("DATE", ["'1000-01-01'", "'2020-02-29'", "'9999-12-31'"]),
    "moment": ("DATETIME(6)", ["'2020-01-01 00:00:00.000001'", "'2020-01-01'", "'9999-12-31 23:59:59.999999'"]),
    "stamp": ("TIMESTAMP(3)", ["'2020-01-01 00:00:00.001'", "'1990-07-01 12:00:00'", "'2037-12-31'"]),
    "span": ("TIME(2)", ["'-838:59:59'", "'-00:00:00.01'", "'00:00:00'", "'838:59:59'"]),
    "yr": ("YEAR", ["0", "1901", "2000", "2155"]),
    "en": ("ENUM('z', 'a', 'm')", ["'z'", "'a'", "'m'"]),
    "se": ("SET('z', 'a', 'm')", ["''", "'z'", "'a,m'", "'z,a,m'", "'a'"]),
    "fl": ("FLOAT", ["1.1", "1.1000001", "-0.3", "1e30", "1e-30"]),
    "do": ("DOUBLE", ["1.1", "1.1000000000000003e0", "-1e300", "3e-320", "2"]),
    "bi": ("BIT(64)", ["0", "b'1'", "x'ffffffffffffffff'", "x'8000000000000000'"]),
    "tex": ("TEXT", ["'a'", "'b'", "'bb'", "'C'"]),
}


def test_keys_of_every_type_are_borders(world: LiveWorld) -> None:
    """Each row is read once: more would not be seen, fewer would be rows that only the lake has."""
    counts = {}
    for name, (kind, values) in KEYS.items():
        part = f"k({9})" if kind == "TEXT" else "k"
        rows = ", ".join(f"({value}, {at})" for at, value in enumerate(values))
        turned = ", ".join(f"({at % 2}, {value})" for at, value in enumerate(values))
        world.sql(
            f"CREATE TABLE {name}_1 (k {kind} NOT NULL, v INT, PRIMARY KEY ({part}));"
            f"INSERT INTO {name}_1 VALUES {rows};"
            f"CREATE TABLE {name}_2 (a INT, k {kind} NOT NULL, PRIMARY KEY (a DESC, {part} DESC));"
            f"INSERT INTO {name}_2 VALUES {turned};"
        )
        counts |= {f"{name}_1": len(values), f"{name}_2": len(values)}
    world.run()
    for keys in (None, 1000):
        found = world.reconcile(keys=keys)
        assert {name: (one.outcome, one.compared, one.reasons) for name, one in found.items()} == {
            name: (ComparisonOutcome.MATCH, count, ()) for name, count in sorted(counts.items())
        }


def test_a_sample_finds_what_both_sides_lack(world: LiveWorld) -> None:
    values = ", ".join(f"({at}, {at})" for at in range(100))
    world.sql(f"CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES {values}")
    world.sql("CREATE TABLE nothing (id INT PRIMARY KEY)")
    world.run()
    assert {name: one.outcome for name, one in world.reconcile(keys=20).items()} == {
        "nothing": ComparisonOutcome.MATCH,
        "t": ComparisonOutcome.MATCH,
    }
    world.sql("SET sql_log_bin = 0; UPDATE t SET v = -v; DELETE FROM t WHERE id % 2; INSERT INTO t VALUES (-1, 1)")
    found = world.said("t", keys=40)
    assert found.outcome is ComparisonOutcome.MISMATCH
    assert {one.side for one in found.differences} == {Side.DIFFERS, Side.ONLY_LAKE, Side.ONLY_SERVER}
    assert found.compared <= 60


@contextmanager
def beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Something that goes on meanwhile, until the block ends."""
    over = threading.Event()
    thread = threading.Thread(target=work, args=(over,))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("seed", seeds(soaked=1))
def test_beside_writers_nothing_is_wrong(server: MysqlServer, tmp_path: Path, seed: int) -> None:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop;")
    world = LiveWorld(server, tmp_path, more="reconcile_rows = 50\nreconcile_pause_ms = 20".partition("\n")[0])
    values = ", ".join(f"({at}, {at})" for at in range(1000))
    world.sql(f"CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES {values}")
    drawn = random.Random(seed)

    def write(over: threading.Event) -> None:
        with server.connect("shop") as connection, connection.cursor() as cursor:
            while not over.wait(0.01):
                key, other = drawn.randrange(1200), drawn.randrange(1200)
                cursor.execute(f"REPLACE INTO t VALUES ({key}, {drawn.randrange(9)})")
                cursor.execute(f"UPDATE IGNORE t SET id = {other} WHERE id = {key}")
                cursor.execute(f"DELETE FROM t WHERE id = {drawn.randrange(1200)}")

    with beside(write):
        world.run()
        found = [world.said("t"), world.said("t", keys=100)]
        world.run()
        found.append(world.said("t"))
        found.append(world.in_parts("t"))
    world.run()
    found.append(world.said("t"))
    assert {one.outcome for one in found} == {ComparisonOutcome.MATCH}, found
    assert found[0].changed > 0
    assert found[-1].changed == 0
    assert found[-1].compared == found[-1].server_rows
    whole, parts = found[-1], world.in_parts("t")
    assert replace(parts, seconds=0.0) == replace(whole, seconds=0.0)


PLANTED = """
SET sql_log_bin = 0; UPDATE t SET v = -5 WHERE id = 7; DELETE FROM t WHERE id = 8; INSERT INTO t VALUES (200, 1);
"""


@pytest.mark.parametrize("mirrors", ["", 'mirrors = ["shop.*"]'])
def test_a_large_table_is_compared_in_parts(server: MysqlServer, tmp_path: Path, mirrors: str) -> None:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop;")
    world = LiveWorld(server, tmp_path, more=mirrors)
    values = ", ".join(f"({at}, {at})" for at in range(100))
    world.sql(f"CREATE TABLE was (id INT PRIMARY KEY, v INT); INSERT INTO was VALUES {values}")
    world.sql(
        "RENAME TABLE was TO t; UPDATE t SET id = id + 1000 WHERE id < 50; UPDATE t SET id = id - 1000 WHERE id > 999"
    )
    world.sql(
        "SET binlog_row_image = MINIMAL; UPDATE t SET v = v + 1; ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT 3"
    )
    world.run()
    ingest.mirror("s", settings=world.settings)
    found = world.in_parts("t")
    assert (found.outcome, found.compared, found.against) == (
        ComparisonOutcome.MATCH,
        100,
        Against.MIRROR if mirrors else Against.CHANGES,
    )
    world.sql(PLANTED.replace("(200, 1)", "(200, 1, 1)"))
    found = world.in_parts("t")
    assert {(one.side, one.key["id"]) for one in found.differences} == {
        (Side.DIFFERS, 7),
        (Side.ONLY_LAKE, 8),
        (Side.ONLY_SERVER, 200),
    }


def test_a_mirror_is_compared_in_parts_whatever_its_key_was(server: MysqlServer, tmp_path: Path) -> None:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop;")
    world = LiveWorld(server, tmp_path, more='mirrors = ["shop.*"]')
    values = ", ".join(f"({at}, {at})" for at in range(100))
    world.sql(f"CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES {values}")
    world.sql("ALTER TABLE t CHANGE id number BIGINT NOT NULL; UPDATE t SET number = number + 1000 WHERE number < 9")
    world.run()
    ingest.mirror("s", settings=world.settings)
    world.sql("UPDATE t SET v = 7 WHERE number = 50")
    found = [world.in_parts("t"), world.said("t"), world.said("t", keys=10)]
    assert [(one.outcome, one.against, one.changed) for one in found[:2]] == [
        (ComparisonOutcome.MATCH, Against.MIRROR, 1)
    ] * 2
    assert (found[0].compared, found[2].outcome) == (99, ComparisonOutcome.MATCH)
    world.sql("SET sql_log_bin = 0; UPDATE t SET v = -5 WHERE number = 1007; DELETE FROM t WHERE number = 60")
    for one in (world.in_parts("t"), world.said("t")):
        assert {(row.side, row.key["number"]) for row in one.differences} == {
            (Side.DIFFERS, 1007),
            (Side.ONLY_LAKE, 60),
        }


BAG = """
CREATE TABLE t (a INT, note TEXT, j JSON, f FLOAT DEFAULT 1.5, d INT DEFAULT 9);
INSERT INTO t (a, note) SELECT n, IF(n % 3, 'x', NULL) FROM numbers; INSERT INTO t SELECT * FROM t WHERE a < 9;
SET binlog_row_image = MINIMAL; INSERT INTO t (note) VALUES ('few'); UPDATE t SET a = NULL WHERE a = 70;
UPDATE t SET a = a + 1000, d = NULL WHERE a BETWEEN 20 AND 40; DELETE FROM t WHERE a = 5 LIMIT 1;
UPDATE t SET f = 2 WHERE a = 1021; SET binlog_row_image = FULL; ALTER TABLE t ADD COLUMN more INT DEFAULT 4;
UPDATE t SET more = 5 WHERE a > 1030;
"""


@pytest.mark.parametrize("mirrors", ["", 'mirrors = ["shop.*"]'])
def test_a_large_table_without_a_key_is_compared_in_parts(server: MysqlServer, tmp_path: Path, mirrors: str) -> None:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop;")
    world, sizes = LiveWorld(server, tmp_path, more=mirrors), []
    world.sql(
        f"CREATE TABLE numbers (n INT); INSERT INTO numbers VALUES {', '.join(f'({n})' for n in range(100))}; {BAG}"
    )
    world.run()
    ingest.mirror("s", settings=world.settings)

    def measured(compare: Any, lake: LakeRows, rows: pa.Table, shown: ShownRows) -> ComparedTable:
        sizes.append(lake.state.rows.nbytes + rows.nbytes)
        return compare(lake, rows, shown)

    with interposed(measured, (judge, "compare_multisets")):
        whole, parts = world.said("t"), world.in_parts("t")
    assert (whole.outcome, whole.compared, parts.outcome, parts.compared) == (
        ComparisonOutcome.MATCH,
        109,
        ComparisonOutcome.MATCH,
        109,
    )
    assert max(sizes[1:]) <= HELD_BYTES
    assert len(sizes) > 10
    offline = world.verified_in_parts("shop.t")["t"]
    assert (offline.outcome, offline.compared) == (ComparisonOutcome.MATCH, 144), offline
    # Landed, not published: a row with NULL in each column.
    world.sql("INSERT INTO t VALUES (NULL, NULL, NULL, NULL, NULL, NULL)")
    for found in (world.said("t"), world.in_parts("t")):
        assert (found.outcome, "1 rows changed after" in found.reasons[0]) == (ComparisonOutcome.INCONCLUSIVE, True), (
            found
        )
    world.run()
    ingest.mirror("s", settings=world.settings)
    world.sql("SET sql_log_bin = 0; DELETE FROM t WHERE a = 6 LIMIT 1; UPDATE t SET note = 'lost' WHERE a = 90")
    for found in (world.said("t"), world.in_parts("t")):
        assert sorted((one.side, one.key["a"], one.key["note"]) for one in found.differences) == [
            (Side.ONLY_LAKE, 6, None),
            (Side.ONLY_LAKE, 90, None),
            (Side.ONLY_SERVER, 90, "lost"),
        ]


@pytest.mark.parametrize("statement", ["DROP TABLE t", "ALTER TABLE t DROP v", "ALTER TABLE t DROP PRIMARY KEY"])
def test_a_table_dropped_or_altered_meanwhile_is_not_read_on(world: LiveWorld, statement: str) -> None:
    world.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (4, 4)")
    server, name = ServerRows(ServerAddress.from_url(world.server.url), Pace(2)), TableName("shop", "t")
    definition = server.definition(name)
    assert definition is not None
    rows = server.whole(name, definition)
    assert next(rows).num_rows == 2
    world.sql(statement)
    with pytest.raises(TableChangedError):
        list(rows)
    server.close()


def test_a_table_altered_while_it_is_read_is_never_called_wrong(world: LiveWorld) -> None:
    values = ", ".join(f"({at}, 0)" for at in range(60))
    world.sql(f"CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES {values}")
    world.run()
    world.file.write_text(world.file.read_text().replace("reconcile_pause_ms = 0", "reconcile_pause_ms = 50"))

    def change(over: threading.Event) -> None:
        for number in range(20):
            if over.wait(0.1):
                return
            world.sql(f"ALTER TABLE t ADD COLUMN n{number} INT NOT NULL DEFAULT 7")

    with beside(change):
        found = world.said("t")
    assert found.outcome is ComparisonOutcome.INCONCLUSIVE, found
    assert found.reasons


def test_a_server_that_goes_away_is_an_error_and_the_next_call_begins_again(world: LiveWorld) -> None:
    values = ", ".join(f"({at})" for at in range(60))
    world.sql(f"CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES {values}")
    world.run()
    world.file.write_text(world.file.read_text().replace("reconcile_pause_ms = 0", "reconcile_pause_ms = 30"))

    def kill(over: threading.Event) -> None:
        with world.server.connect() as connection, connection.cursor() as cursor:
            while not over.wait(0.2):
                cursor.execute("SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID()")
                for (number,) in cursor.fetchall():
                    try:
                        cursor.execute(f"KILL {number}")
                    except pymysql.MySQLError:
                        continue

    with beside(kill), pytest.raises(SourceUnavailableError):
        world.said("t")
    assert (world.said("t").outcome, world.said("t").compared) == (ComparisonOutcome.MATCH, 60)
