"""Foreign keys that a snapshot found: tables whose rows they change without row events are told of, as those of a DDL
in the stream are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from strata_cdc.cli.status import _print
from strata_cdc.cli.terminal import Terminal
from strata_cdc.dialects.engines import Dialect
from strata_cdc.dialects.relations import Through
from strata_cdc.ops.metrics import metrics_of
from strata_cdc.progress.status import source_status
from strata_cdc.schema.history.cascades import UNLOGGED, unlogged_cascades
from strata_cdc.schema.history.snapshot_ledger import pending_snapshots, reported_cascades
from strata_cdc.schema.model.definition import TableName
from strata_cdc.serve.overview import overview
from strata_cdc.store.tables import snapshot
from strata_cdc.views.make_views import make_views
from tests.mirrors.world import MirrorWorld
from tests.mysql_server import start_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql

TABLES = """
CREATE TABLE parent (id INT PRIMARY KEY);
CREATE TABLE deleted (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE);
CREATE TABLE emptied (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE SET NULL);
CREATE TABLE updated (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON UPDATE CASCADE);
CREATE TABLE kept (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE RESTRICT);
INSERT INTO parent VALUES (1), (2), (3); INSERT INTO deleted VALUES (1, 1);
"""
OLDER = ["deleted", "emptied", "updated"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    """One that lets InnoDB carry cascades out, as all did before 9.6."""
    options = ("--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--innodb-native-foreign-keys=ON")
    with start_server(tmp_path_factory.mktemp("server"), *options) as running:
        yield running


@pytest.fixture
def world(server: MysqlServer, tmp_path: Path) -> MirrorWorld:
    """A source whose tables are older than the stream."""
    server.run_sql("DROP DATABASE IF EXISTS shop; CREATE DATABASE shop")
    server.run_sql(TABLES, "shop")
    server.run_sql("FLUSH BINARY LOGS")
    server.run_sql(f"PURGE BINARY LOGS TO '{server.binlogs()[-1].name}'")
    return MirrorWorld(server, tmp_path)


class OneSource:
    """What the page asks of the settings."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def names(self) -> list[str]:
        return ["s"]

    def has_server(self, _: str) -> bool:
        return True

    def store(self, _: str) -> sa.Engine:
        return self._engine


def take(world: MirrorWorld, sql: str) -> list[str]:
    """A snapshot, then statements, and all of it tracked; the tables that are told of."""
    world.snapshot()
    world.server.run_sql(sql, "shop")
    world.publish()
    return [one.name.table for one in unlogged_cascades(world.engine, "s")]


def test_they_follow_their_tables(world: MirrorWorld) -> None:
    assert take(world, "INSERT INTO kept VALUES (1, 1)") == OLDER
    assert take(world, "RENAME TABLE deleted TO moved; DROP TABLE emptied") == ["moved", "updated"]
    assert take(world, "CREATE TABLE emptied (id INT PRIMARY KEY)") == ["moved", "updated"]
    assert take(world, "ALTER TABLE moved ADD n INT; RENAME TABLE moved TO deleted") == ["deleted", "updated"]
    # What was told stays told: rows may have been changed as long as the key was there.
    assert take(world, "ALTER TABLE updated DROP FOREIGN KEY updated_ibfk_1") == ["deleted", "updated"]
    assert take(world, "CREATE TABLE last (id INT)") == ["deleted", "updated"]


def test_what_is_told_twice_is_kept_once(world: MirrorWorld) -> None:
    for number in range(4):
        take(world, f"INSERT INTO kept VALUES ({number}, 1)")
    assert [len(one.names) for one in reported_cascades(world.engine, "s")] == [3]


def test_a_key_that_came_while_a_snapshot_was_pending(world: MirrorWorld) -> None:
    """Its moment is in front of the statement that renames the table: the name is another table's by then."""
    world.snapshot()
    world.server.run_sql("RENAME TABLE deleted TO moved, kept TO deleted", "shop")
    world.publish()
    assert [one.name.table for one in unlogged_cascades(world.engine, "s")] == ["emptied", "moved", "updated"]


def test_mirrors_say_it(world: MirrorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.snapshot()
    world.server.run_sql("INSERT INTO deleted VALUES (2, 2); DELETE FROM parent WHERE id = 1", "shop")
    world.publish()
    world.server.run_sql("TRUNCATE TABLE deleted; INSERT INTO deleted VALUES (3, 3)", "shop")
    world.publish()
    report = world.update()
    told = {name.table: mirror for name, mirror in report.outcomes.items()}
    for name in OLDER:
        assert (told[name].behind or "").startswith(UNLOGGED), name
        assert not told[name].needs_dump, name
    assert UNLOGGED not in (told["kept"].behind or "")
    made = make_views(world.lake, "s", world.engine, Dialect.DUCKDB, Through.FILES)
    refused = {one.table.table for one in made if not one.statements and one.notes[0] == UNLOGGED}
    assert refused == {"deleted"}  # Of the others nothing is published.
    found = source_status(world.source, world.engine, now=1)
    assert found.unlogged == tuple(f"shop.{name}" for name in OLDER)
    _print(Terminal(), found, metrics_of(world.source, found, now=1))
    shown = " ".join(capsys.readouterr().out.split())
    assert "foreign keys change rows of shop.deleted, shop.emptied, shop.updated without row events" in shown
    [view] = overview(OneSource(world.engine), None)
    assert any("shop.updated without row events" in one.text for one in view.attention)


def test_a_store_of_an_older_version_opens(world: MirrorWorld) -> None:
    """Its pending snapshot says nothing of foreign keys; the next one does."""
    world.snapshot()
    with world.engine.begin() as connection:
        [content] = connection.execute(sa.select(snapshot.c.content)).scalars()
        older = {key: value for key, value in json.loads(content).items() if key not in {"cascades", "doubtful", "seq"}}
        connection.execute(snapshot.update().values(content=json.dumps(older)))
    [pending] = pending_snapshots(world.engine, "s")
    assert TableName("shop", "deleted") in pending.tables
    world.server.run_sql("INSERT INTO kept VALUES (1, 1)", "shop")
    world.publish()
    assert unlogged_cascades(world.engine, "s") == []
    assert take(world, "INSERT INTO kept VALUES (2, 2)") == OLDER
