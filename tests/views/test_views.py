"""Views over change tables in DuckDB and Spark give what the server's SELECT gives."""

from __future__ import annotations

import importlib.util
import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from strata_cdc.binlog.protocol.connection import ServerAddress
from strata_cdc.cli.main import run
from strata_cdc.config.settings import Source, SourceSettings
from strata_cdc.dialects.engines import Dialect
from strata_cdc.dialects.relations import Through
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.landing.landed import LandedStream
from strata_cdc.pipeline.decode.decode_slice import decode_slice_to_files, planned_tasks, store_decoded
from strata_cdc.pipeline.plan.pending import RunRequest
from strata_cdc.pipeline.plan.plan_slices import plan_run
from strata_cdc.quality.proof.replay import TableState
from strata_cdc.runs.run_folder import read_decoded, run_folder
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.stream_positions import AtSeq
from strata_cdc.store.database import open_store
from strata_cdc.tables.commit import publish
from strata_cdc.tables.convert import state_schema
from strata_cdc.tracking.track_schema import track_landed
from strata_cdc.views.make_views import MadeView, ViewKind, make_views
from tests.quality.compare_rows import compare_rows
from tests.spark_session import spark
from tests.views.added_columns import ADDED

if TYPE_CHECKING:
    import pyarrow as pa
    import sqlalchemy as sa

    from tests.mysql_server import MysqlServer

__all__ = ["spark"]

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

LIFE = """
CREATE DATABASE shop; USE shop; SET time_zone = '+00:00';
CREATE TABLE orders (id BIGINT UNSIGNED PRIMARY KEY, note VARCHAR(20), n SMALLINT, s ENUM('new', 'paid') NOT NULL,
  made DATETIME(6), gone INT, doc JSON, place POINT, raw VARBINARY(5), at TIMESTAMP(3) NULL, took TIME(2), f FLOAT);
INSERT INTO orders (id, note, n, s, made, gone, doc, at, took) VALUES
  (18446744073709551615, 'big', -5, 'new', '2026-01-01 00:00:00.123456', 1, '{"a": 1}', '2026-01-01', '-01:00:00'),
  (2, NULL, 0, 'paid', NULL, 2, NULL, NULL, NULL), (3, 'x', 3, 'new', NULL, 3, NULL, NULL, NULL),
  (9, 'never touched again', 9, 'new', NULL, 3, NULL, NULL, NULL);
ALTER TABLE orders RENAME COLUMN note TO remark, ADD COLUMN loyalty INT NOT NULL DEFAULT 7 FIRST, DROP COLUMN gone;
UPDATE orders SET id = 4, remark = 'moved' WHERE id = 3;
ALTER TABLE orders MODIFY n BIGINT, MODIFY s ENUM('paid', 'sent', 'new') NOT NULL, ADD gone VARCHAR(3) DEFAULT 'a''b';
INSERT INTO orders (id, s, n) VALUES (20, 'sent', 1 << 40), (21, 'sent', 1);
SET SESSION binlog_row_image = MINIMAL;
UPDATE orders SET s = 'sent' WHERE id = 2;
UPDATE orders SET remark = 'minimal' WHERE id IN (2, 9);
INSERT INTO orders (id, s) VALUES (30, 'paid');
DELETE FROM orders WHERE id = 21;
SET SESSION binlog_row_image = FULL;
UPDATE orders SET remark = 'swap' WHERE id = 4;
BEGIN; DELETE FROM orders WHERE id = 20; INSERT INTO orders (id, s) VALUES (20, 'new'); COMMIT;
RENAME TABLE orders TO purchases;
INSERT INTO purchases (id, s, f) VALUES (40, 'new', 0.5);
CREATE TABLE orders (id INT PRIMARY KEY);
INSERT INTO orders VALUES (1);
CREATE TABLE pairs (a INT, b VARCHAR(10), `v'"``` INT, PRIMARY KEY (b, a));
INSERT INTO pairs VALUES (1, 'x', 1), (2, 'x', 2), (3, 'y', 3);
UPDATE pairs SET a = a - 1 ORDER BY a; UPDATE pairs SET b = 'z' WHERE a = 2; DELETE FROM pairs WHERE a = 1;
ALTER TABLE pairs RENAME COLUMN a TO c, RENAME COLUMN b TO a; ALTER TABLE pairs RENAME COLUMN c TO b;
INSERT INTO pairs VALUES (9, 'new', 9);
CREATE TABLE cut (id INT PRIMARY KEY, n INT);
INSERT INTO cut VALUES (1, 1), (2, 2); TRUNCATE TABLE cut; INSERT INTO cut VALUES (2, 3);
CREATE TABLE again (id INT PRIMARY KEY, n INT); INSERT INTO again VALUES (1, 1);
DROP TABLE again; CREATE TABLE again (id INT PRIMARY KEY, m VARCHAR(3)); INSERT INTO again VALUES (2, 'x');
CREATE TABLE log (line VARCHAR(30)); INSERT INTO log VALUES ('a'), ('a');
CREATE TABLE gone (id INT PRIMARY KEY); INSERT INTO gone VALUES (1); DROP TABLE gone;
CREATE TABLE `we'ird "na``me` (`id"` INT PRIMARY KEY, `_op` INT); INSERT INTO `we'ird "na``me` VALUES (1, 2);
CREATE TABLE parts (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2; INSERT INTO parts VALUES (1), (2);
ALTER TABLE parts TRUNCATE PARTITION p0;
CREATE TABLE rekeyed (id INT PRIMARY KEY, n INT NOT NULL); INSERT INTO rekeyed VALUES (1, 1);
ALTER TABLE rekeyed DROP PRIMARY KEY, ADD PRIMARY KEY (n);
CREATE TABLE _t_gho (id INT PRIMARY KEY, n DECIMAL(5,2)); INSERT INTO _t_gho VALUES (1, 1.50);
RENAME TABLE _t_gho TO t; UPDATE t SET n = 2; INSERT INTO t VALUES (2, NULL);
ALTER TABLE t MODIFY n DECIMAL(9,4), ADD stamp INT GENERATED ALWAYS AS (id + 1); UPDATE t SET n = 3.1234;
SET SESSION sql_mode = '';
CREATE TABLE left_out (a INT DEFAULT 5, b VARCHAR(5) DEFAULT 'b', n INT NOT NULL, e ENUM('first', 'x') NOT NULL,
  d DATE NOT NULL, t TIME(3) NOT NULL DEFAULT '-01:00:00.5', m DECIMAL(45,10) NOT NULL, bits BIT(9) NOT NULL,
  raw VARBINARY(3) NOT NULL, f FLOAT NOT NULL DEFAULT 0.1, y YEAR NOT NULL, doc JSON, PRIMARY KEY (a, b));
SET SESSION binlog_row_image = MINIMAL;
INSERT INTO left_out () VALUES (); INSERT INTO left_out (a) VALUES (6), (7), (8); INSERT INTO left_out (b) VALUES ('c');
UPDATE left_out SET n = 9 WHERE a = 6; UPDATE left_out SET f = 2 WHERE b = 'c'; DELETE FROM left_out WHERE a = 7;
UPDATE left_out SET doc = '{"a": 1}' WHERE a = 5;
SET SESSION binlog_row_image = FULL;
CREATE TABLE Twin (id INT); INSERT INTO Twin VALUES (1); CREATE TABLE twin (id INT); INSERT INTO twin VALUES (2);
CREATE TABLE kin (id INT); INSERT INTO kin VALUES (3); CREATE TABLE kin__changes (id INT);
INSERT INTO kin__changes VALUES (4);
"""
LIFE += ";\n".join([*ADDED, ""])
TABLES = [
    "added", "again", "cut", "kin", "left_out", "log", "orders", "pairs", "purchases", "rekeyed", "t", "we'ird \"na`me",
]  # fmt: skip
REFUSED = {
    "parts": "no log says which",
    "Twin": "duckdb takes its name for that of shop.twin, now: `--table shop.Twin` gives it alone",
    "twin": "duckdb takes its name for that of shop.Twin, now",
    "kin__changes": "duckdb takes its name for that of shop.kin, changes",
}


@pytest.fixture(scope="module")
def server(server: MysqlServer) -> MysqlServer:
    server.run_sql(LIFE)
    return server


@pytest.fixture(scope="module")
def published(server: MysqlServer, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, sa.Engine]:
    folder: Path = tmp_path_factory.mktemp("published")
    engine = open_store(f"sqlite:///{folder}/store.db")
    lake = str(folder / "la'ke")
    publish_all(server, lake, engine)
    return lake, engine


def publish_all(server: MysqlServer, lake: str, engine: sa.Engine) -> None:
    address = ServerAddress.from_url(server.url)
    source = Source("s", address, lake, "", SourceSettings("unused"))
    land_binlog(address, lake=lake, source="s")
    track_landed(lake, "s", engine)
    planned = plan_run(source, engine, LandedStream.open(lake, "s"), RunRequest(), now=time.time_ns() // 1000)
    tasks = planned_tasks(planned.run_url)
    store_decoded(planned.run_url, [file for task in tasks for file in decode_slice_to_files(task)])
    staged = read_decoded(run_folder(lake, "s", planned.run)).files
    for table, interval in sorted({(file.name, file.interval) for file in staged}):
        files = [file for file in staged if (file.name, file.interval) == (table, interval)]
        publish(lake, "s", table, interval, files)


def equal_to_the_server(server: MysqlServer, engine: sa.Engine, table: str, rows: pa.Table) -> None:
    """Compares the rows of a view with those of the table."""
    store = SchemaStore(engine)
    history = History(store, "s")
    definitions = {name.table: version for name, version in history.tables(AtSeq(history.tracked.seq))}
    definition = definitions[table].definition
    schema = state_schema(definition)
    assert rows.schema.names == [column.name for column in definition.columns]
    state = TableState(definition, rows.rename_columns(schema.names).cast(schema))
    with server.connect("shop", init_command="SET time_zone = '+00:00'") as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM `{table.replace('`', '``')}`")
        found = compare_rows(state, cursor.fetchall())
    assert (found.examples, found.equal) == ((), True)
    assert found.selected > 0


def load_delta(connection: duckdb.DuckDBPyConnection) -> None:
    """Loads the extension from its package: none is downloaded."""
    package = importlib.util.find_spec("duckdb_ext")
    assert package is not None
    assert package.submodule_search_locations is not None
    (extension,) = Path(package.submodule_search_locations[0]).rglob("delta.duckdb_extension")
    connection.execute(f"LOAD '{extension}'")


def of_kind(made: list[MadeView], kind: ViewKind) -> dict[str, MadeView]:
    return {one.table.table: one for one in made if one.kind is kind and one.table.database == "shop"}


@pytest.mark.parametrize("through", list(Through))
def test_duckdb(server: MysqlServer, published: tuple[str, sa.Engine], through: Through) -> None:
    lake, engine = published
    made = make_views(lake, "s", engine, Dialect.DUCKDB, through)
    now, changes = of_kind(made, ViewKind.NOW), of_kind(made, ViewKind.CHANGES)
    assert sorted(now) == sorted(changes) == sorted([*TABLES, *REFUSED])
    assert {name: one.notes[0] for name, one in now.items() if not one.statements}.keys() == REFUSED.keys()
    assert all(reason in now[name].notes[0] for name, reason in REFUSED.items())
    with duckdb.connect() as connection:
        if through is Through.DELTA:
            load_delta(connection)
        connection.execute("SET TimeZone = 'UTC'")
        for statement in [statement for one in made for statement in one.statements]:
            connection.execute(statement)
        for table in TABLES:
            quoted = table.replace('"', '""')
            rows = connection.execute(f'SELECT * FROM shop."{quoted}"').fetch_arrow_table()
            equal_to_the_server(server, engine, table, rows)
        found = connection.execute(
            "SELECT id, remark, _before.remark, _op FROM shop.purchases__changes ORDER BY _seq, _row"
        )
        assert found.fetchall()[4:6] == [(4, "moved", "x", "update"), (20, None, None, "insert")]
        deleted = connection.execute("SELECT id FROM shop.purchases__changes WHERE _op = 'delete' ORDER BY id")
        assert deleted.fetchall() == [(20,), (21,)]


def test_the_command_prints_a_script(
    published: tuple[str, sa.Engine],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lake, engine = published
    settings = tmp_path / "strata.toml"
    settings.write_text(f'lake = "{lake}"\n[sources.s]\nconnection = "none"\nstore = "{engine.url}"\n')
    monkeypatch.setenv("STRATA_SETTINGS", str(settings))
    monkeypatch.setenv("AIRFLOW_CONN_NONE", "mysql://nobody@127.0.0.1/")
    assert run(["views", "--through", "files", "--table", "shop.*"]) == 0
    said = capsys.readouterr().out
    assert "-- shop.parts, now: no view\n--   `ALTER TABLE parts TRUNCATE PARTITION p0` removed rows" in said
    with duckdb.connect() as connection:
        connection.execute(said)
        assert connection.execute("SELECT * FROM shop.cut").fetchall() == [(2, 3)]
    assert run(["views", "--dialect", "spark", "--table", "shop.cut", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["database"], line["table"], line["view"]) for line in lines] == [
        ("shop", "cut", "changes"),
        ("shop", "cut", "now"),
    ]
    assert f"delta.`{lake}/changes/s/shop/cut`" in lines[0]["statements"][-1]


@pytest.mark.soak
@pytest.mark.spark
def test_spark(server: MysqlServer, published: tuple[str, sa.Engine], spark) -> None:
    lake, engine = published
    made = make_views(lake, "s", engine, Dialect.SPARK, Through.FILES)
    for statement in [statement for one in made if one.table.database == "shop" for statement in one.statements]:
        spark.sql(statement)
    for table in TABLES:
        name = f"shop__{table}".replace("`", "``")
        equal_to_the_server(server, engine, table, spark.sql(f"SELECT * FROM `{name}`").toArrow())
    count = spark.sql(
        "SELECT count(*) FROM `shop__purchases__changes` WHERE _op = 'delete' AND id IS NOT NULL"
    ).collect()
    assert count[0][0] == 2


def test_a_value_that_no_log_tells_is_an_error(server: MysqlServer, tmp_path: Path) -> None:
    engine = open_store(f"sqlite:///{tmp_path}/store.db")
    lake = str(tmp_path / "lake")
    server.run_sql(
        "CREATE DATABASE told; USE told; CREATE TABLE t (id INT PRIMARY KEY, n INT, m INT);"
        "INSERT INTO t VALUES (1, 1, 1), (2, 2, 3); SET sql_mode = '';"
        "ALTER TABLE t ADD made DATETIME DEFAULT CURRENT_TIMESTAMP, MODIFY n ENUM('a', 'b'), MODIFY m ENUM('a', 'b')"
    )
    publish_all(server, lake, engine)
    made = make_views(lake, "s", engine, Dialect.DUCKDB, Through.FILES, lambda name: name.database == "told")
    with duckdb.connect() as connection:
        for statement in [statement for one in made for statement in one.statements]:
            connection.execute(statement)
        assert connection.execute("SELECT id FROM told.t ORDER BY id").fetchall() == [(1,), (2,)]
        with pytest.raises(duckdb.InvalidInputException, match="which values existing rows got in the new column made"):
            connection.execute("SELECT made FROM told.t").fetchall()
        assert connection.execute("SELECT n FROM told.t ORDER BY id").fetchall() == [("a",), ("b",)]
        with pytest.raises(duckdb.InvalidInputException, match=r"m was int, and is enum.*: what the server made"):
            connection.execute("SELECT m FROM told.t").fetchall()
        server.run_sql("USE told; REPLACE INTO t VALUES (1, 'b', 'a', NULL); DELETE FROM t WHERE id = 2")
        publish_all(server, lake, engine)
        made = make_views(lake, "s", engine, Dialect.DUCKDB, Through.FILES, lambda name: name.database == "told")
        for statement in [statement for one in made for statement in one.statements]:
            connection.execute(statement)
        assert connection.execute("SELECT * FROM told.t").fetchall() == [(1, "b", "a", None)]
        server.run_sql("USE told; ALTER TABLE t ADD late INT; INSERT INTO t VALUES (3, 'a', 'a', NULL, 3)")
        publish_all(server, lake, engine)
        for statement in [statement for one in made for statement in one.statements]:
            connection.execute(_FILES.sub(lambda _: _files_of(made[0], lake, engine), statement))
        with pytest.raises(duckdb.InvalidInputException, match="run `strata views` again"):
            connection.execute("SELECT id FROM told.t").fetchall()


_FILES = re.compile(r"\[[^\]]*[.]parquet[^\]]*\]", re.DOTALL)


def _files_of(one: MadeView, lake: str, engine: sa.Engine) -> str:
    """The list of the table's files that there are now."""
    made = make_views(lake, "s", engine, Dialect.DUCKDB, Through.FILES, lambda name: name == one.table)
    return str(_FILES.findall(made[0].statements[-1])[0])
