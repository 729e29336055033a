"""Tables of the lake compared with a real server: what is the same, what is not, and what nobody can say."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata_cdc.errors import SourceDivergedError
from strata_cdc.pipeline import ingest
from strata_cdc.pipeline.dump_source import dump_source
from strata_cdc.quality.reconcile.reading import ComparisonRequest
from strata_cdc.quality.reconcile.reconcile_source import reconcile_source
from strata_cdc.quality.reconcile.report import Against, ComparisonOutcome, Side
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.database import open_store
from strata_cdc.tables.layout import table_url
from tests.quality.live_world import LiveWorld

if TYPE_CHECKING:
    from strata_cdc.quality.reconcile.report import TableReport
    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql


@pytest.fixture
def world(server: MysqlServer, tmp_path: Path) -> LiveWorld:
    """A source whose stream begins with an empty database."""
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop;")
    return LiveWorld(server, tmp_path)


def test_a_table_of_many_types_matches(world: LiveWorld) -> None:
    world.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, f FLOAT, d DOUBLE, n DECIMAL(30, 10), s VARCHAR(20) CHARACTER SET latin1,"
        " j JSON, b VARBINARY(9), e ENUM('a', 'b'), w SET('x', 'y'), y YEAR, dt DATETIME(6), ts TIMESTAMP(3) NULL,"
        " ti TIME(2), z BIT(9), g POINT, da DATE);"
        "INSERT INTO t VALUES (1, 1.23456789, 1e300, 1.5, 'ü', '{\"a\": [1, 2.50]}', x'00ff', 'b', 'x,y', 1999,"
        " '2020-01-01 01:02:03.456789', '2020-01-01', '-838:59:59', b'101', POINT(1, 2), '2020-02-29'),"
        " (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);"
        "CREATE TABLE nothing (id INT PRIMARY KEY); CREATE TABLE bag (a INT, b TEXT);"
        "INSERT INTO bag VALUES (1, 'x'), (1, 'x'), (NULL, NULL); DELETE FROM bag LIMIT 1;"
    )
    world.run()
    found = world.reconcile()
    assert {name: (one.outcome, one.compared, one.reasons) for name, one in found.items()} == {
        "bag": (ComparisonOutcome.MATCH, 2, ()),
        "nothing": (ComparisonOutcome.MATCH, 0, ()),
        "t": (ComparisonOutcome.MATCH, 2, ()),
    }


def test_a_server_whose_binlog_was_reset_is_neither_compared_nor_read(world: LiveWorld) -> None:
    """It would be a mismatch of all tables, and another table in the history of the former binlog."""
    world.sql("CREATE TABLE t (id INT PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    world.run()
    world.server.run_sql("RESET BINARY LOGS AND GTIDS; ALTER TABLE shop.t MODIFY v VARCHAR(9)")
    for step in (world.reconcile, lambda: ingest.snapshot("s", settings=world.settings)):
        with pytest.raises(SourceDivergedError, match="lacks transactions that have landed"):
            step()


ROWS = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9)); INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd');"
Change = tuple[Callable[[pa.Table], pa.Table], Side, dict[str, int]]
IN_THE_LAKE: dict[str, Change] = {
    "lake_row_gone": (lambda rows: rows.slice(1), Side.ONLY_SERVER, {"id": 1}),
    "lake_value_other": (lambda rows: cell(rows, "v", 2, "other"), Side.DIFFERS, {"id": 3}),
    "lake_key_other": (lambda rows: cell(rows, "id", 3, 9), Side.ONLY_LAKE, {"id": 9}),
    "lake_row_doubled": (lambda rows: pa.concat_tables([rows, rows.slice(1, 1)]), Side.DOUBLED, {"id": 2}),
}
"""What is wrong in a published file: how it came, and what is to be said."""
UNLOGGED = {
    "server_value_other": ("UPDATE t SET v = 'x' WHERE id = 2", Side.DIFFERS, {"id": 2}),
    "server_row_more": ("INSERT INTO t VALUES (7, 'x')", Side.ONLY_SERVER, {"id": 7}),
    "server_row_gone": ("DELETE FROM t WHERE id = 4", Side.ONLY_LAKE, {"id": 4}),
}
"""What the server did with sql_log_bin = 0."""
ALTERED = {
    "column_added": ("ALTER TABLE t ADD COLUMN extra INT", "+ column extra"),
    "type_changed": ("ALTER TABLE t MODIFY v VARCHAR(12)", "~ column v"),
    "dropped": ("DROP TABLE t", "- the table"),
    "key_dropped": ("ALTER TABLE t DROP PRIMARY KEY", "- key"),
}
"""The same for DDL."""
INCONCLUSIVE = {
    "altered_later": (ROWS, "UPDATE t SET v = 'x'; ALTER TABLE t ADD COLUMN n INT", "after what is published"),
    "no_key": ("CREATE TABLE t (a INT); INSERT INTO t VALUES (1);", "INSERT INTO t VALUES (2)", "and 1 rows changed"),
    "myisam": ("CREATE TABLE t (a INT PRIMARY KEY) ENGINE = MyISAM;", "", "engine is MyISAM"),
    "part_truncated": (
        "CREATE TABLE t (a INT PRIMARY KEY) PARTITION BY HASH (a) PARTITIONS 2; INSERT INTO t VALUES (1), (2);"
        "ALTER TABLE t TRUNCATE PARTITION p0;",
        "",
        "no log says which",
    ),
    "few_columns": (
        "SET binlog_row_image = MINIMAL; CREATE TABLE t (a INT NOT NULL UNIQUE, v INT); INSERT INTO t VALUES (1, 1);"
        "UPDATE t SET v = 2; SET binlog_row_image = FULL;",
        "",
        "images before changes lack _before.v",
    ),
}
"""What nobody can say: the past, what happens after what is published, and the reason."""


@pytest.fixture(scope="module")
def reports(server: MysqlServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, TableReport]:
    """What is said of a table for each case, all at once."""
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop;")
    world = LiveWorld(server, tmp_path_factory.mktemp("cases"))
    before = dict.fromkeys((*IN_THE_LAKE, *UNLOGGED, *ALTERED, "good"), ROWS)
    before |= {name: past for name, (past, _, _) in INCONCLUSIVE.items()}
    world.sql("SET sql_mode = '';" + "".join(of_table(text, name) for name, text in before.items()))
    world.run()
    for name, (change, _, _) in IN_THE_LAKE.items():
        doctored(world, name, change)
    world.sql("".join(f"{of_table(later, name)};" for name, (_, later, _) in INCONCLUSIVE.items() if later))
    unlogged = {name: one[0] for name, one in (UNLOGGED | ALTERED).items()}
    world.sql("SET sql_log_bin = 0;" + "".join(f"{of_table(text, name)};" for name, text in unlogged.items()))
    return world.reconcile()


def of_table(text: str, name: str) -> str:
    """The statements about the table `t`, for one of another name."""
    return re.sub(r"\bt\b", name, text)


def doctored(world: LiveWorld, table: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Other rows in the only file of a change table, behind the back of everybody."""
    [file] = Path(table_url(world.lake, "s", TableName("shop", table))).glob("data/*/*.parquet")
    found = pq.ParquetFile(file).read()
    pq.write_table(change(found), file)


def cell(rows: pa.Table, column: str, at: int, value: object) -> pa.Table:
    values = rows[column].to_pylist()
    values[at] = value
    field = rows.schema.field(column)
    return rows.set_column(rows.schema.get_field_index(column), field, pa.array(values, field.type))


@pytest.mark.parametrize("name", sorted(IN_THE_LAKE | UNLOGGED))
def test_rows_that_are_not_the_same_are_named(reports: dict[str, TableReport], name: str) -> None:
    _, side, key = (IN_THE_LAKE | UNLOGGED)[name]
    found = reports[name]
    assert found.outcome is ComparisonOutcome.MISMATCH
    assert (side, key) in [(one.side, one.key) for one in found.differences]
    assert found.different == len(found.differences) <= 2


def test_of_a_row_that_differs_both_sides_are_shown(reports: dict[str, TableReport]) -> None:
    [one] = reports["server_value_other"].differences
    assert (one.lake, one.server) == ({"v": "b"}, {"v": "x"})
    assert str(one) == "differs id = 2; lake: v = 'b'; server: v = 'x'"
    assert reports["good"].outcome is ComparisonOutcome.MATCH


@pytest.mark.parametrize("name", sorted(ALTERED))
def test_a_table_altered_without_the_binlog_is_named(reports: dict[str, TableReport], name: str) -> None:
    assert reports[name].outcome is ComparisonOutcome.MISMATCH
    assert reports[name].definition[0].startswith(ALTERED[name][1])


@pytest.mark.parametrize("name", sorted(INCONCLUSIVE))
def test_what_nobody_can_say_is_inconclusive(reports: dict[str, TableReport], name: str) -> None:
    assert reports[name].outcome is ComparisonOutcome.INCONCLUSIVE
    assert INCONCLUSIVE[name][2] in reports[name].reasons[0]


def test_what_changed_behind_the_published_rows_is_left_out_and_counted(world: LiveWorld) -> None:
    world.sql(ROWS)
    world.run()
    world.sql("UPDATE t SET v = 'x' WHERE id = 2; DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (9, 'n')")
    found = world.said("t")
    assert (found.outcome, found.compared, found.changed) == (ComparisonOutcome.MATCH, 2, 3)
    assert "3 changes are landed and not published" in found.reasons[0]
    world.run()
    assert (world.said("t").compared, world.said("t").changed) == (4, 0)


def test_a_server_that_does_not_number_is_inconclusive(world: LiveWorld) -> None:
    world.sql(ROWS)
    world.run()
    world.sql("SET GLOBAL gtid_mode = ON_PERMISSIVE")
    try:
        found = world.said("t")
    finally:
        world.sql("SET GLOBAL gtid_mode = ON")
    assert found.outcome is ComparisonOutcome.INCONCLUSIVE
    assert "does not number" in found.reasons[0]


def test_rows_from_before_the_stream_are_not_covered(world: LiveWorld) -> None:
    world.sql(f"{ROWS} INSERT INTO t VALUES (5, 'e'), (6, 'f'); FLUSH BINARY LOGS;")
    world.sql("PURGE BINARY LOGS TO 'binlog.000002'")
    world.sql("UPDATE t SET v = 'x' WHERE id = 2; DELETE FROM t WHERE id = 3; INSERT INTO t VALUES (9, 'n')")
    world.sql("SET binlog_row_image = MINIMAL; UPDATE t SET v = 'y' WHERE id = 6; UPDATE t SET v = 'z' WHERE id = 9")
    world.run()
    found = world.said("t")
    assert (found.outcome, found.compared, found.not_covered) == (ComparisonOutcome.MATCH, 2, 4)
    # What was deleted and is there again is no row from before the stream.
    world.sql("SET sql_log_bin = 0; INSERT INTO t VALUES (3, 'c'); UPDATE t SET v = 'q' WHERE id = 2")
    found = world.said("t")
    assert found.outcome is ComparisonOutcome.MISMATCH
    assert {(one.side, one.key["id"]) for one in found.differences} == {(Side.ONLY_SERVER, 3), (Side.DIFFERS, 2)}


def test_a_table_that_was_dumped_and_nobody_has_written_to_since_matches(server: MysqlServer, tmp_path: Path) -> None:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop;")
    world = LiveWorld(server, tmp_path, more='mirrors = ["shop.*"]')
    world.sql(f"CREATE TABLE other (a INT); SET sql_log_bin = 0; {ROWS}")
    for step in (ingest.land, ingest.snapshot, ingest.track):
        step("s", settings=world.settings)
    dump_source("s", settings=world.settings).raise_if_wrong()
    found = world.said("t")
    assert (found.outcome, found.against, found.compared) == (ComparisonOutcome.MATCH, Against.MIRROR, 4), found
    world.sql("ALTER TABLE t ADD COLUMN n INT; UPDATE t SET n = 2")
    assert world.said("t").outcome is ComparisonOutcome.INCONCLUSIVE


def test_what_brings_a_mirror_further_does_so(server: MysqlServer, tmp_path: Path) -> None:
    """Of one that is late a run, of one that is blocked a dump."""
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop;")
    world = LiveWorld(server, tmp_path, more='mirrors = ["shop.*"]\nmirror_read_again = false')
    world.sql(f"SET sql_log_bin = 0; {ROWS} ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 2; SET sql_log_bin = 1;")
    world.sql("CREATE TABLE other (a INT)")
    for step in (ingest.land, ingest.snapshot, ingest.track):
        step("s", settings=world.settings)
    dump_source("s", settings=world.settings).raise_if_wrong()
    world.sql("ALTER TABLE t ADD COLUMN n INT")
    assert world.said("t").reasons[0].endswith(": `strata run --source s`")
    world.run()
    ingest.mirror("s", settings=world.settings)
    assert world.said("t").outcome is ComparisonOutcome.MATCH
    world.sql("ALTER TABLE t TRUNCATE PARTITION p1")
    world.run()
    ingest.mirror("s", settings=world.settings)
    [reason] = world.said("t").reasons
    assert "where it is blocked" in reason
    assert reason.endswith(": `strata dump --source s --table shop.t`")
    dump_source("s", ("shop.t",), settings=world.settings).raise_if_wrong()
    assert world.said("t").outcome is ComparisonOutcome.MATCH


def test_a_truncated_table_is_whole_from_there_on(world: LiveWorld) -> None:
    world.sql(f"{ROWS} FLUSH BINARY LOGS;")
    world.sql("PURGE BINARY LOGS TO 'binlog.000002'")
    world.sql("TRUNCATE t; INSERT INTO t VALUES (1, 'a')")
    world.run()
    assert (world.said("t").outcome, world.said("t").not_covered) == (ComparisonOutcome.MATCH, 0)
    world.sql("SET sql_log_bin = 0; INSERT INTO t VALUES (3, 'c')")
    assert world.said("t").outcome is ComparisonOutcome.MISMATCH


def test_a_table_that_grants_hide_is_no_mismatch(server: MysqlServer, world: LiveWorld) -> None:
    """A partial revoke hides a database, a grant on columns the other columns of a table."""
    world.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT); CREATE TABLE u (id INT PRIMARY KEY); INSERT INTO t VALUES (1, 2)"
    )
    world.run()
    for grants in (
        "GRANT ALL ON *.* TO part@'%'; SET GLOBAL partial_revokes = ON; REVOKE ALL ON shop.* FROM part@'%'",
        "GRANT ALL ON other.* TO part@'%'; GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO part@'%';"
        "GRANT SELECT (id) ON shop.t TO part@'%'",
    ):
        server.run_sql(f"DROP USER IF EXISTS part@'%'; CREATE USER part@'%' IDENTIFIED BY 'pw'; {grants}")
        found = world.settings.source("s")
        asking = replace(found, server=replace(found.address, user="part", password="pw"))
        report = reconcile_source(asking, open_store(found.store_url), ComparisonRequest(), catch_up=lambda _: None)
        assert {one.table: one.outcome for one in report.tables} == {
            "shop.t": ComparisonOutcome.INCONCLUSIVE, "shop.u": ComparisonOutcome.INCONCLUSIVE}  # fmt: skip
        assert all("hidden from the user" in one.reasons[0] for one in report.tables)
    server.run_sql("DROP USER part@'%'; SET GLOBAL partial_revokes = OFF")


def test_labels_are_told_apart_whatever_their_characters(world: LiveWorld) -> None:
    """information_schema shows both as `?`."""
    world.sql("CREATE TABLE t (id INT PRIMARY KEY, e ENUM('😀', 'b')); INSERT INTO t VALUES (1, '😀'), (2, 'b')")
    world.run()
    assert world.said("t").outcome is ComparisonOutcome.MATCH
    world.sql(
        "SET sql_log_bin = 0; DROP TABLE t; CREATE TABLE t (id INT PRIMARY KEY, e ENUM('😁', 'b'));"
        "INSERT INTO t VALUES (1, '😁'), (2, 'b')"
    )
    assert world.said("t").outcome is ComparisonOutcome.MISMATCH


def test_a_quiet_server_that_begins_new_files_can_be_compared(world: LiveWorld) -> None:
    world.sql(ROWS)
    world.run()
    for statement in ("FLUSH BINARY LOGS", "FLUSH LOGS", f"PURGE BINARY LOGS TO '{world.server.binlogs()[-1].name}'"):
        world.sql(statement)
        found = world.said("t")
        assert (found.outcome, found.compared, found.reasons) == (ComparisonOutcome.MATCH, 4, ()), (statement, found)


def test_rows_that_were_read_again_after_a_discard_are_compared(server: MysqlServer, tmp_path: Path) -> None:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop;")
    world = LiveWorld(server, tmp_path, more='mirrors = ["shop.*"]')
    world.sql(ROWS)
    world.run()
    ingest.mirror("s", settings=world.settings)
    world.sql("UPDATE t SET v = 'x' WHERE id = 2")
    world.discard("t")
    ingest.mirror("s", settings=world.settings)
    dump_source("s", ("shop.t",), settings=world.settings).raise_if_wrong()
    found = world.said("t")
    assert (found.outcome, found.compared, found.changed) == (ComparisonOutcome.MATCH, 4, 0), found
    assert world.said("t", keys=2).changed == 0
    world.sql("UPDATE t SET v = 'y' WHERE id = 3")
    assert (world.said("t").compared, world.said("t").changed) == (3, 1)
    world.sql("SET sql_log_bin = 0; UPDATE t SET v = 'lost' WHERE id = 2")
    assert [row.key for row in world.said("t").differences] == [{"id": 2}]
