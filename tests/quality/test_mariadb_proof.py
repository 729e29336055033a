"""The proof for MariaDB: what lands, is decoded with the schemas of its time, checked, published and replayed, is what
SELECT gives."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import duckdb
import pytest

from strata_cdc.binlog.protocol.connection import ServerAddress
from strata_cdc.config.settings import Source, SourceSettings
from strata_cdc.dialects.engines import Dialect
from strata_cdc.dialects.relations import Through
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.landing.landed import LandedStream
from strata_cdc.pipeline.decode.decode_slice import decode_slice_to_files, planned_tasks, store_decoded
from strata_cdc.pipeline.plan.pending import RunRequest
from strata_cdc.pipeline.plan.plan_slices import plan_run
from strata_cdc.quality.check_step.check_interval import check_interval
from strata_cdc.quality.proof.replay import replay_source
from strata_cdc.runs.run_folder import read_decoded, read_verdicts, run_folder
from strata_cdc.runs.verdict import Severity
from strata_cdc.store.database import open_store
from strata_cdc.tables.commit import publish
from strata_cdc.tracking.track_schema import track_landed
from strata_cdc.views.make_views import make_views
from tests.changes.live import Live
from tests.changes.test_mariadb_rows import ALL, EXPRESSIONS, OLD
from tests.mariadb_server import VERSIONS_OF_LONG_TESTS, start_mariadb
from tests.quality.compare_rows import compare_rows

if TYPE_CHECKING:
    from pathlib import Path

    import sqlalchemy as sa

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

LIFE = """
CREATE TABLE versioned (id INT PRIMARY KEY, a INT, b TEXT) WITH SYSTEM VERSIONING;
INSERT INTO versioned VALUES (1, 1, 'x'), (2, 2, NULL), (3, 3, 'y');
UPDATE versioned SET a = 5 WHERE id = 1;
DELETE FROM versioned WHERE id = 2;
SET system_versioning_alter_history = KEEP;
ALTER TABLE versioned ADD COLUMN c INT DEFAULT 7;
UPDATE versioned SET b = 'z' WHERE id = 3;
CREATE TABLE explicit (id INT PRIMARY KEY, a INT, b INT WITHOUT SYSTEM VERSIONING,
  since TIMESTAMP(6) GENERATED ALWAYS AS ROW START, `until` TIMESTAMP(6) GENERATED ALWAYS AS ROW END,
  PERIOD FOR SYSTEM_TIME (since, `until`)) WITH SYSTEM VERSIONING;
INSERT INTO explicit (id, a, b) VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3);
UPDATE explicit SET a = 5 WHERE id = 1;
UPDATE explicit SET b = 6 WHERE id = 1;
DELETE FROM explicit WHERE id = 2;
DELETE HISTORY FROM explicit;
CREATE TABLE hashed (id INT PRIMARY KEY, a TEXT UNIQUE, b VARCHAR(3000), UNIQUE (b));
INSERT INTO hashed VALUES (1, 'x', 'y'), (2, NULL, NULL);
ALTER TABLE hashed ADD COLUMN c INT;
UPDATE hashed SET c = 3, a = 'w' WHERE id = 1;
ALTER TABLE hashed DROP KEY a;
INSERT INTO hashed VALUES (3, 'w', NULL, 4);
CREATE SEQUENCE seq CACHE 3;
SELECT NEXTVAL(seq), NEXTVAL(seq), NEXTVAL(seq), NEXTVAL(seq);
SELECT SETVAL(seq, 50);
CREATE TABLE made (id INT PRIMARY KEY, a INT, b INT, s INT AS (a + 1) STORED);
INSERT INTO made (id, a, b) VALUES (1, 1, 1), (2, 2, 2);
UPDATE made SET b = 3 WHERE id = 1;
SET gtid_seq_no = 100000;
CREATE TABLE replaced (id INT PRIMARY KEY, a INT);
INSERT INTO replaced VALUES (1, 1), (2, 2);
CREATE OR REPLACE TABLE replaced (id INT PRIMARY KEY, a INT);
INSERT INTO replaced VALUES (2, 3);
CREATE OR REPLACE TABLE selected (id INT PRIMARY KEY) SELECT 1 AS id, 5 AS a;
CREATE OR REPLACE TABLE selected (id INT PRIMARY KEY) SELECT 2 AS id, 6 AS a
"""

TABLES = ("versioned", "explicit", "hashed", "seq", "made", "replaced", "selected")


@pytest.mark.parametrize("version", VERSIONS_OF_LONG_TESTS)
def test_replay_equals_select(version: str, tmp_path: Path) -> None:
    with start_mariadb(tmp_path / "server", version) as server:
        live = Live(server)
        for name, (column_type, values) in ALL[version].items():
            live.run(f"CREATE TABLE `{name}` (id INT PRIMARY KEY AUTO_INCREMENT, v {column_type}) CHARSET utf8mb4")
            live.insert(name, "v", [(None,), *((value,) for value in values)])
            for expression in EXPRESSIONS.get(name, ()):
                live.run(f"INSERT INTO `{name}` (v) VALUES ({expression})")
            live.run(f"DELETE FROM `{name}` WHERE id = 1")
        for statement in LIFE.strip().split(";"):
            live.run(statement)
        make_old_times(live, version)
        engine = open_store(f"sqlite:///{tmp_path}/store.db")
        address = ServerAddress.from_url(server.url)
        source = Source("s", address, str(tmp_path / "lake"), "", SourceSettings("unused"))
        land_binlog(address, lake=source.lake, source="s")
        track_landed(source.lake, "s", engine)
        stream = LandedStream.open(source.lake, "s")
        planned = plan_run(source, engine, stream, RunRequest(), now=time.time_ns() // 1000)
        assert planned.refused == 0
        tasks = planned_tasks(planned.run_url)
        store_decoded(planned.run_url, [file for task in tasks for file in decode_slice_to_files(task)])
        report = check_interval(source.lake, "s", planned.run, pytest.fail)
        verdicts = read_verdicts(run_folder(source.lake, "s", planned.run)).values()
        errors = [one for verdict in verdicts for one in verdict.failures if one.severity is Severity.ERROR]
        assert (errors, report.errors) == ([], 0)
        staged = read_decoded(run_folder(source.lake, "s", planned.run)).files
        for table, interval in sorted({(file.name, file.interval) for file in staged}):
            files = [file for file in staged if (file.name, file.interval) == (table, interval)]
            publish(source.lake, "s", table, interval, files)
        states = replay_source(source.lake, "s", engine, lambda name: name.database == live.database)
        assert {name.table for name in states} == {*ALL[version], *TABLES, *(f"old_{name}" for name in OLD)}
        for name, state in states.items():
            # Text has only six digits of a FLOAT.
            columns = ", ".join(
                f"CAST(`{column.name}` AS DOUBLE)" if column.column_type == "float" else f"`{column.name}`"
                for column in state.definition.columns
            )
            found = compare_rows(state, live.run(f"SELECT {columns} FROM `{name.table}`"))
            assert (name.table, found.examples) == (name.table, ())
            assert found.equal
            assert found.selected > 0
        check_views(source.lake, engine, live, version)


def make_old_times(live: Live, version: str) -> None:
    """Tables with times in the format of MariaDB 5.3, of which the index has no rows: the plan counts them."""
    live.run("SET GLOBAL mysql56_temporal_format = OFF")
    for name in sorted(OLD):
        column_type, values = ALL[version][name]
        live.run(f"CREATE TABLE `old_{name}` (id INT PRIMARY KEY AUTO_INCREMENT, v {column_type})")
        live.insert(f"old_{name}", "v", [(None,), *((value,) for value in values)])
        live.run(f"UPDATE `old_{name}` SET v = NULL WHERE id % 3 = 0")
    live.run("SET GLOBAL mysql56_temporal_format = ON")


def check_views(lake: str, engine: sa.Engine, live: Live, version: str) -> None:
    """Views over changes know what the log has, and say what it does not have."""
    database = live.database
    made = make_views(lake, "s", engine, Dialect.DUCKDB, Through.FILES, lambda name: name.database == database)
    with duckdb.connect() as connection:
        for view in made:
            if view.table.table in {"versioned", "seq", "made"}:
                for statement in view.statements:
                    connection.execute(statement)
        for name, columns in (("versioned", "id"), ("seq", "next_not_cached_value, cycle_count")):
            shown = connection.execute(f"SELECT {columns} FROM {database}.{name} ORDER BY 1").fetchall()
            assert shown == list(map(tuple, live.run(f"SELECT {columns} FROM {name} ORDER BY 1")))
        rows = f"FROM {database}.made ORDER BY id"
        assert connection.execute(f"SELECT id, a, b {rows}").fetchall() == [(1, 1, 3), (2, 2, 2)]
        if version == "10.11":
            assert connection.execute(f"SELECT s {rows}").fetchall() == [(2,), (3,)]
            return
        with pytest.raises(duckdb.Error, match="MariaDB logs no generated columns of updates"):
            connection.execute(f"SELECT s {rows}").fetchall()
