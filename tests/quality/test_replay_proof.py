"""The proof: what lands, is decoded with the schemas of its time, published and replayed, is what SELECT gives."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from strata_cdc.binlog.protocol.connection import ServerAddress
from strata_cdc.config.settings import Source, SourceSettings
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.landing.landed import LandedStream
from strata_cdc.pipeline.decode.decode_slice import decode_slice_to_files, planned_tasks, store_decoded
from strata_cdc.pipeline.plan.pending import RunRequest
from strata_cdc.pipeline.plan.plan_slices import plan_run
from strata_cdc.quality.proof.replay import replay_source
from strata_cdc.runs.run_folder import read_decoded, run_folder
from strata_cdc.store.database import open_store
from strata_cdc.tables.commit import publish
from strata_cdc.tracking.track_schema import track_landed
from tests.quality.compare_rows import compare_rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

LIFE = """
CREATE DATABASE shop; USE shop; SET time_zone = '+00:00';
CREATE TABLE orders (id BIGINT UNSIGNED PRIMARY KEY, note VARCHAR(20), n SMALLINT UNSIGNED NOT NULL,
  s ENUM('new', 'paid') NOT NULL, made DATETIME(6), gone INT);
CREATE TABLE log (line VARCHAR(30), at TIME(2), price DECIMAL(8, 3), flags BIT(3));
CREATE TABLE pairs (a INT, b VARCHAR(10), v JSON, d DATE, p POINT, PRIMARY KEY (b, a));
INSERT INTO orders VALUES (18446744073709551615, 'big', 65535, 'new', '2026-01-01 00:00:00.123456', 1),
  (2, NULL, 0, 'paid', NULL, 2), (3, 'x', 3, 'new', NULL, 3);
INSERT INTO log VALUES ('a', '-838:59:59', 1.005, b'101'), ('a', '-838:59:59', 1.005, b'101'), ('b', NULL, NULL, NULL);
INSERT INTO pairs VALUES (1, 'x', '{"a": [1, 2.50]}', '2020-02-29', POINT(1, 2)), (2, 'x', NULL, NULL, NULL);
UPDATE pairs SET a = 5, v = JSON_SET(v, '$.b', 'ü') WHERE a = 1;
DELETE FROM log WHERE line = 'a' LIMIT 1;
ALTER TABLE orders RENAME COLUMN note TO remark, ADD COLUMN loyalty INT NOT NULL DEFAULT 7 FIRST, DROP COLUMN gone;
UPDATE orders SET id = 4, remark = 'moved' WHERE id = 3;
ALTER TABLE orders MODIFY n DECIMAL(9, 3) NOT NULL, MODIFY s ENUM('paid', 'sent', 'new') NOT NULL;
SET SESSION binlog_row_image = MINIMAL;
UPDATE orders SET s = 'sent' WHERE id = 2;
UPDATE pairs SET d = '2021-01-01' WHERE a = 2;
UPDATE log SET price = 2 WHERE line = 'b';
SET SESSION binlog_row_image = FULL;
ALTER TABLE log ADD COLUMN id INT;
INSERT INTO log VALUES ('c', '00:00:01.59', 3, 0, 9);
SET SESSION sql_mode = 'TIME_TRUNCATE_FRACTIONAL';
ALTER TABLE log MODIFY at TIME(1), ADD raw VARBINARY(4) DEFAULT x'0041', ADD late TIME(1) DEFAULT '10:00:00.19';
SET SESSION sql_mode = DEFAULT;
CREATE TABLE _orders_gho LIKE orders;
ALTER TABLE _orders_gho ADD COLUMN channel VARCHAR(5) NOT NULL DEFAULT 'web';
INSERT INTO _orders_gho (loyalty, id, remark, n, s, made) SELECT * FROM orders;
RENAME TABLE orders TO _orders_del, _orders_gho TO orders;
DROP TABLE _orders_del;
DELETE FROM orders WHERE id = 4;
DROP TABLE pairs;
CREATE TABLE pairs (a INT PRIMARY KEY);
INSERT INTO pairs VALUES (1), (2);
CREATE TABLE cut (id INT PRIMARY KEY, n INT);
INSERT INTO cut VALUES (1, 1), (2, 2);
TRUNCATE TABLE cut;
INSERT INTO cut VALUES (2, 3);
ALTER TABLE cut ADD COLUMN m INT FIRST;
UPDATE cut SET n = 4;
CREATE TABLE parent (id INT PRIMARY KEY);
CREATE TABLE child (id INT PRIMARY KEY, p INT,
  FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE ON UPDATE SET NULL);
INSERT INTO parent VALUES (1), (2), (3);
INSERT INTO child VALUES (1, 1), (2, 2), (3, 3);
DELETE FROM parent WHERE id = 1;
UPDATE parent SET id = 9 WHERE id = 2;
CREATE TABLE picked (PRIMARY KEY (id)) SELECT id, n FROM orders;
"""


@pytest.fixture(scope="module")
def server(server: MysqlServer) -> MysqlServer:
    server.run_sql(LIFE)
    return server


def test_replay_equals_select(server: MysqlServer, tmp_path: Path) -> None:
    address = ServerAddress.from_url(server.url)
    engine = open_store(f"sqlite:///{tmp_path}/store.db")
    source = Source("s", address, str(tmp_path / "lake"), "", SourceSettings("unused"))
    land_binlog(address, lake=source.lake, source="s")
    track_landed(source.lake, "s", engine)
    stream = LandedStream.open(source.lake, "s")
    planned = plan_run(source, engine, stream, RunRequest(), now=time.time_ns() // 1000)
    assert planned.refused == 0
    store_decoded(
        planned.run_url, [file for task in planned_tasks(planned.run_url) for file in decode_slice_to_files(task)]
    )
    staged = read_decoded(run_folder(source.lake, "s", planned.run)).files
    for table in {file.name for file in staged}:
        for interval in {file.interval for file in staged}:
            files = [file for file in staged if (file.name, file.interval) == (table, interval)]
            publish(source.lake, "s", table, interval, files)
    states = replay_source(source.lake, "s", engine, lambda name: name.database == "shop")
    assert [name.table for name in states] == ["child", "cut", "log", "orders", "pairs", "parent", "picked"]
    with server.connect(init_command="SET time_zone = '+00:00'") as connection, connection.cursor() as cursor:
        for name, state in states.items():
            cursor.execute(f"SELECT * FROM `{name.database}`.`{name.table}`")
            found = compare_rows(state, cursor.fetchall())
            assert (str(name), found.examples) == (str(name), ())
            assert found.equal
            assert found.selected > 0
