"""What somebody has set a server to changes no answer of ours: all global variables at their worst, and every step that
reads from a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strata_cdc.binlog.protocol.connection import ServerAddress, connect
from strata_cdc.binlog.protocol.session import SESSION_VARIABLES
from strata_cdc.ops.doctor.check_source import check_source
from strata_cdc.pipeline import ingest
from strata_cdc.pipeline.dump_source import dump_source
from strata_cdc.quality.reconcile.report import ComparisonOutcome
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.store.database import open_store
from strata_cdc.tracking.snapshot_schemas import snapshot_schemas
from tests.mariadb_server import PREFIXES, start_mariadb
from tests.quality.live_world import LiveWorld

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql


GONE = {"show_old_temporals"}
"""Variables that the server of the tests does not have any more."""
WORST = {
    "sql_select_limit": "1",
    "max_join_size": "1",
    "sql_big_selects": "0",
    "max_execution_time": "1",
    "cte_max_recursion_depth": "0",
    "sql_mode": "'ANSI,PAD_CHAR_TO_FULL_LENGTH,NO_BACKSLASH_ESCAPES,HIGH_NOT_PRECEDENCE,NO_UNSIGNED_SUBTRACTION,"
    "TRADITIONAL,TIME_TRUNCATE_FRACTIONAL'",
    "sql_auto_is_null": "1",
    "sql_safe_updates": "1",
    "collation_connection": "latin1_german2_ci",
    "time_zone": "'-11:30'",
    "div_precision_increment": "0",
    "default_week_format": "6",
    "lc_time_names": "'ja_JP'",
    "lc_messages": "'de_DE'",
    "group_concat_max_len": "4",
    "max_sort_length": "4",
    "sort_buffer_size": "32768",
    "information_schema_stats_expiry": "31536000",
    "show_gipk_in_create_table_and_information_schema": "OFF",
    "show_create_table_verbosity": "ON",
    "sql_quote_show_create": "0",
    "transaction_isolation": "'READ-UNCOMMITTED'",
    "transaction_read_only": "ON",
    "completion_type": "'RELEASE'",
    "foreign_key_checks": "0",
    "unique_checks": "0",
    "default_storage_engine": "'MyISAM'",
    "net_read_timeout": "1",
    "net_write_timeout": "1",
    "wait_timeout": "1",
}
WORST_OF_MARIADB = {
    "max_statement_time": "0.5",
    "max_recursive_iterations": "1",
    "old_mode": "'NO_DUP_KEY_WARNINGS_WITH_IGNORE,ZERO_DATE_TIME_CAST'",
    "character_set_collations": "'utf8mb4=utf8mb4_bin'",
    "tx_isolation": "'READ-UNCOMMITTED'",
    "tx_read_only": "ON",
    "system_versioning_asof": "'2020-01-01'",
    "idle_transaction_timeout": "1",
    "idle_readonly_transaction_timeout": "1",
    "idle_write_transaction_timeout": "1",
}
ONLY_IN_MYSQL = {variable.name for variable in SESSION_VARIABLES if variable.since > (0,)} - WORST_OF_MARIADB.keys()
LATER_THAN = {"10.11": {"character_set_collations"}, "11.8": set()}
"""Variables that came to MariaDB after a version."""
TABLES = """
SET sql_generate_invisible_primary_key = ON;
CREATE TABLE hidden (a INT, b VARCHAR(20));
SET sql_generate_invisible_primary_key = OFF;
CREATE TABLE wide (id INT PRIMARY KEY, a CHAR(9), b TIMESTAMP(3) NULL, c ENUM('x', '😀'), d DECIMAL(9, 2), e DATE,
  f VARBINARY(9), g INT UNSIGNED);
CREATE TABLE texts (k VARCHAR(700) PRIMARY KEY, n INT);
INSERT INTO hidden (a, b) VALUES (1, 'one'), (2, 'two'), (3, NULL);
INSERT INTO wide VALUES (1, 'a', '2020-01-01 01:02:03.456', 'x', 1.5, '2024-02-29', x'0020', 1),
  (2, 'b ', NULL, '😀', -1.5, NULL, NULL, 4294967295), (3, '', '1999-01-01', NULL, NULL, NULL, '', 0);
INSERT INTO texts VALUES (REPEAT('k', 600), 1), (CONCAT(REPEAT('k', 600), 'a'), 2), (CONCAT(REPEAT('k', 599), 'a'), 3);
"""


@pytest.fixture
def world(server: MysqlServer, tmp_path: Path) -> LiveWorld:
    """A source with tables that are older than the server's binlogs, before anything has landed."""
    server.run_sql("DROP DATABASE IF EXISTS shop; CREATE DATABASE shop")
    world = LiveWorld(server, tmp_path, more='mirrors = ["shop.*"]')
    world.sql(TABLES)
    server.run_sql("FLUSH BINARY LOGS")
    server.run_sql(f"PURGE BINARY LOGS TO '{server.binlogs()[-1].name}'; CREATE DATABASE later; DROP DATABASE later")
    return world


@pytest.fixture
def settings_at_their_worst(server: MysqlServer) -> Iterator[None]:
    with server.connect() as connection, connection.cursor() as cursor:
        try:
            for name, value in WORST.items():
                cursor.execute(f"SET GLOBAL {name} = {value}")
            yield
        finally:
            for name in reversed(WORST):
                cursor.execute(f"SET GLOBAL {name} = DEFAULT")


def test_each_variable_that_a_session_sets_has_a_worst_value() -> None:
    assert {one.name for one in SESSION_VARIABLES} == {*WORST, *GONE, *WORST_OF_MARIADB}


@pytest.mark.usefixtures("settings_at_their_worst")
def test_no_session_has_what_the_server_was_set_to(server: MysqlServer) -> None:
    assert left_as_set(server, list(WORST)) == {}


def left_as_set(server: MysqlServer, names: list[str]) -> dict[str, object]:
    """The variables that a session has as the server was set."""
    asked = ", ".join(f"@@SESSION.{name}, @@GLOBAL.{name}" for name in names)
    with connect(ServerAddress.from_url(server.url)) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT {asked}")
        [values] = cursor.fetchall()
    pairs = dict(zip(names, zip(values[::2], values[1::2], strict=True), strict=True))
    return {name: mine for name, (mine, globally) in pairs.items() if mine == globally}


@pytest.mark.parametrize("version", PREFIXES)
def test_no_session_has_what_a_mariadb_server_was_set_to(version: str, tmp_path: Path) -> None:
    worst = {name: value for name, value in WORST.items() if name not in ONLY_IN_MYSQL} | WORST_OF_MARIADB
    for name in LATER_THAN[version]:
        del worst[name]
    worst["sql_mode"] = "'ANSI,ORACLE,PAD_CHAR_TO_FULL_LENGTH,NO_BACKSLASH_ESCAPES,TIME_ROUND_FRACTIONAL'"
    with start_mariadb(tmp_path, version) as server:
        with server.connect() as connection, connection.cursor() as cursor:
            for name, value in worst.items():
                cursor.execute(f"SET GLOBAL {name} = {value}")
        assert left_as_set(server, list(worst)) == {}


def write(server: MysqlServer) -> None:
    """Some more rows, by a session that is not read only."""
    server.run_sql(
        "SET SESSION transaction_read_only = OFF, sql_mode = '', completion_type = 'NO_CHAIN', sql_safe_updates = 0,"
        " max_execution_time = 0, time_zone = '+00:00';"
        "INSERT INTO hidden (a) VALUES (4); UPDATE wide SET g = 7 WHERE id = 3; DELETE FROM texts WHERE n = 3;",
        "shop",
    )


def doctored(world: LiveWorld) -> list[tuple[str, str]]:
    """What the doctor says, in short."""
    told = check_source(world.settings.source("s"))
    return [(one.name, str(one.severity)) for one in told]


def test_every_step_reads_the_same(world: LiveWorld, request: pytest.FixtureRequest) -> None:
    before = doctored(world)
    request.getfixturevalue("settings_at_their_worst")
    assert doctored(world) == before
    source = world.settings.source("s")
    engine = open_store(source.store_url)
    for _ in range(2):
        report = snapshot_schemas(source.address, engine, "s")
        assert report.tables == 3
        world.run()
        dump_source("s", settings=world.settings, pause_ms=0)
        ingest.mirror("s", settings=world.settings)
        said = world.reconcile()
        assert {name: (one.outcome, one.compared, one.reasons) for name, one in said.items()} == {
            name: (ComparisonOutcome.MATCH, one.compared, ()) for name, one in said.items()
        }
        assert sum(one.compared for one in said.values()) == 9
        write(world.server)
    assert SchemaStore(engine).drifts("s") == []
