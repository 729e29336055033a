"""Mirrors of a sink's tables: as they are in TiDB, from their CREATE TABLE on; else blocked, with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc import mirrors
from strata_cdc.binlog.protocol.connection import ServerAddress
from strata_cdc.config.settings import Source, SourceSettings
from strata_cdc.errors import AlreadyRunningError, MirrorDivergedError, SourceSettingsError
from strata_cdc.mirrors.lock import MirrorLocks
from strata_cdc.schema.model.definition import TableName
from tests.ticdc.generator import START, Feed, FeedForm, Row, SinkColumn, SinkTable
from tests.ticdc.world import ID, NAME, SinkWorld

if TYPE_CHECKING:
    from pathlib import Path

MORE = 'mirrors = ["shop.*"]'
CREATE = "CREATE TABLE {} (id INT PRIMARY KEY, name VARCHAR(20))"
FORMS = {
    "csv": FeedForm(old_value=True),
    "canal": FeedForm(protocol="canal-json"),
    "table ids": FeedForm(protocol="canal-json", table_ids=True, only_updated=True),
}


def created(feed: Feed, name: str, ts: int, number: int = 100) -> SinkTable:
    table = SinkTable("shop", name, (), ts, number)
    feed.ddl(table, ts, 3, CREATE.format(name), (ID, NAME))
    return table


def rows(world: SinkWorld, table: str) -> list[dict[str, Any]]:
    found = mirrors.open(str(world.folder / "lake"), "s", table).to_arrow().drop_columns(["_seq"])
    return sorted(found.to_pylist(), key=lambda row: row["id"])


def image(key: int, name: str = "x", **more: Any) -> dict[str, Any]:
    return {"id": key, "name": name, **more}


@pytest.mark.parametrize("form", FORMS)
def test_a_mirror_follows_from_create_table_on(tmp_path: Path, form: str) -> None:
    world = SinkWorld(tmp_path, MORE)
    feed = Feed(world.sink, FORMS[form])
    table = created(feed, "a", START + 10)
    feed.write(table, [Row(START + 11, image(1)), Row(START + 12, image(2))])
    feed.write(table, [Row(START + 13, image(1, "y"), image(1)), Row(START + 13, image(3))])
    feed.checkpoint(START + 20)
    world.run()
    assert rows(world, "shop.a") == [image(1, "y"), image(2), image(3)]
    added = (ID, NAME, SinkColumn("n", default="7"))
    feed.write(table, [Row(START + 40, None, image(3))])
    feed.ddl(table, START + 30, 5, "ALTER TABLE a ADD COLUMN n INT DEFAULT 7", added)
    feed.write(table, [Row(START + 41, image(4, n=1))])
    feed.checkpoint(START + 50)
    world.run()
    assert rows(world, "shop.a") == [image(1, "y", n=7), image(2, n=7), image(4, n=1)]
    feed.ddl(table, START + 60, 11, "TRUNCATE TABLE a", added)
    feed.write(table, [Row(START + 61, image(5, n=2))])
    feed.checkpoint(START + 70)
    world.run()
    assert rows(world, "shop.a") == [image(5, n=2)]
    table.name = "b"
    feed.ddl(table, START + 80, 14, "RENAME TABLE a TO b", added)
    feed.write(table, [Row(START + 81, image(6, n=3))])
    feed.checkpoint(START + 90)
    world.run()
    assert rows(world, "shop.b") == [image(5, n=2), image(6, n=3)]
    feed.ddl(table, START + 100, 4, "DROP TABLE b")
    feed.checkpoint(START + 110)
    world.run()
    assert mirrors.open(str(tmp_path / "lake"), "s", "shop.b").is_dropped


@pytest.mark.parametrize(
    ("store", "place"),
    [
        ("sqlite:////data/strata.db", "/data/strata.db.locks/s"),
        ("mysql://u:p@h:3307/strata", ServerAddress("h", 3307, "u", "p")),
        ("postgresql://u:p@h/strata", None),
    ],
)
def test_the_locks_of_mirrors_are_where_the_store_is(store: str, place: ServerAddress | str | None) -> None:
    source = Source("s", None, "s3://bucket/lake", store, SourceSettings(kind="ticdc"))
    if isinstance(place, ServerAddress):
        found = source.lock_place
        assert isinstance(found, ServerAddress)
        assert (found.host, found.port, found.user) == (place.host, place.port, place.user)
        return
    assert source.lock_place == place
    if place is None:
        with (
            pytest.raises(SourceSettingsError, match="the store of this source cannot hold them"),
            MirrorLocks(source.lake, "s", place).alone(TableName("shop", "a"), purpose="testing this mirror"),
        ):
            pass


def test_a_mirror_in_a_bucket_is_locked_beside_the_store(tmp_path: Path, lake: str) -> None:
    world = SinkWorld(tmp_path, MORE, lake=lake)
    feed = Feed(world.sink, FORMS["csv"])
    table = created(feed, "a", START + 10)
    feed.write(table, [Row(START + 11, image(1)), Row(START + 12, image(2))])
    feed.checkpoint(START + 20)
    world.run()
    feed.write(table, [Row(START + 21, image(1, "y"), image(1))])
    feed.checkpoint(START + 30)
    locks = MirrorLocks(lake, "s", world.source.lock_place)
    with locks.alone(TableName("shop", "a"), purpose="testing this mirror"):
        other = MirrorLocks(lake, "s", world.source.lock_place, wait_seconds=0.1)
        with (
            pytest.raises(AlreadyRunningError, match="testing this mirror"),
            other.alone(TableName("shop", "a"), purpose="x"),
        ):
            pass
    world.run()
    found = mirrors.open(lake, "s", "shop.a").to_arrow().drop_columns(["_seq"]).to_pylist()
    assert sorted(found, key=lambda row: row["id"]) == [image(1, "y"), image(2)]
    assert world.strata("mirror", "compact").returncode == 0
    assert world.strata("mirror", "vacuum", "--retain-hours", "0").returncode == 0
    assert mirrors.open(lake, "s", "shop.a").to_arrow().num_rows == 2


def test_a_table_that_was_there_before_the_feed_has_no_mirror(tmp_path: Path) -> None:
    """Its earlier rows are in no file; the command says so, and the run goes on."""
    world = SinkWorld(tmp_path, MORE)
    feed = Feed(world.sink, FORMS["csv"])
    table, other = feed.table("a", (ID, NAME)), created(feed, "b", START + 5)
    feed.write(table, [Row(START + 11, image(1))])
    feed.write(other, [Row(START + 12, image(1))])
    feed.checkpoint(START + 20)
    world.run()
    assert rows(world, "shop.b") == [image(1)]
    said = world.strata("mirror", "list").stdout + world.strata("status").stdout
    assert "its rows from before the landed stream were never dumped; no server could be read again: leave" in said
    assert "strata dump" not in said
    assert len(world.changes("shop.a")) == 1


def test_csv_without_old_values_blocks_a_mirror_at_its_first_update(tmp_path: Path) -> None:
    """No file shows whether TiCDC splits updates of keys, so that the key before the update is not known."""
    world = SinkWorld(tmp_path, MORE)
    feed = Feed(world.sink)
    table = created(feed, "a", START + 5)
    feed.write(table, [Row(START + 11, image(1))])
    feed.checkpoint(START + 12)
    world.run()
    feed.write(table, [Row(START + 13, image(1, "y"), image(1))])
    feed.checkpoint(START + 20)
    with pytest.raises(MirrorDivergedError, match=r"images before changes lack _before\.id"):
        world.run()
    assert rows(world, "shop.a") == [image(1)]
    assert len(world.changes("shop.a")) == 2


def test_values_that_a_sink_may_lack_block_a_mirror(tmp_path: Path) -> None:
    world = SinkWorld(tmp_path, MORE)
    feed = Feed(world.sink, FORMS["csv"])
    table = created(feed, "a", START + 5)
    feed.write(table, [Row(START + 11, image(1))])
    feed.checkpoint(START + 12)
    world.run()
    shorter = (ID, SinkColumn("name", "VARCHAR", precision="5"))
    feed.ddl(table, START + 20, 12, "ALTER TABLE a MODIFY COLUMN name VARCHAR(5)", shorter)
    feed.write(table, [Row(START + 21, image(2))])
    feed.checkpoint(START + 30)
    report = world.run()
    assert [run.failed_checks for run in report.runs] == [1]
    assert "values of name that were committed before modify column" in world.strata("mirror", "list").stdout
    assert [after["id"] for *_, after in world.changes("shop.a")] == [1, 2]
