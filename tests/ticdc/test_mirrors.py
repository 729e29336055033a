"""Mirrors of a sink's tables: as they are in TiDB, from their CREATE TABLE on; else blocked, with the reason."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc import mirrors
from strata_cdc.binlog.protocol.connection import ServerAddress
from strata_cdc.config.settings import Source, SourceSettings
from strata_cdc.errors import AlreadyRunningError, MirrorBehindError, SourceSettingsError, StrataError
from strata_cdc.mirrors.lock import MirrorLocks
from strata_cdc.position.token import Order
from strata_cdc.position.token_text import from_text
from strata_cdc.schema.model.definition import TableName
from tests.ticdc.generator import START, Feed, FeedForm, Row, SinkColumn, SinkTable
from tests.ticdc.world import ID, NAME, OLD_VALUES, SinkWorld

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


def past_names(
    world: SinkWorld, at: str | None = None, query: str = "SELECT name FROM shop.a ORDER BY id"
) -> list[str]:
    """The names that `strata sql` finds."""
    done = world.strata("sql", query, *([] if at is None else ["--at", at]), "--format", "jsonl")
    return [json.loads(line)["name"] for line in done.stdout.splitlines()]


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
    ("store", "location"),
    [
        ("sqlite:////data/strata.db", "/data/strata.db.locks/s"),
        ("mysql://u:p@h:3307/strata", ServerAddress("h", 3307, "u", "p")),
        ("postgresql://u:p@h/strata", None),
    ],
)
def test_the_locks_of_mirrors_are_where_the_store_is(store: str, location: ServerAddress | str | None) -> None:
    source = Source("s", None, "s3://bucket/lake", store, SourceSettings(kind="ticdc"))
    if isinstance(location, ServerAddress):
        found = source.lock_place
        assert isinstance(found, ServerAddress)
        assert (found.host, found.port, found.user) == (location.host, location.port, location.user)
        return
    assert source.lock_place == location
    if location is None:
        with (
            pytest.raises(SourceSettingsError, match="the store of this source cannot hold them"),
            MirrorLocks(source.lake, "s", location).alone(TableName("shop", "a"), purpose="testing this mirror"),
        ):
            pass


@pytest.mark.parametrize("what", ["data", "_delta_log"])
def test_a_damaged_mirror_is_made_again(tmp_path: Path, what: str) -> None:
    """There is no server to dump: its change table has all rows since CREATE TABLE."""
    world = SinkWorld(tmp_path, MORE)
    feed = Feed(world.sink, FORMS["csv"])
    table = created(feed, "a", START + 10)
    feed.write(table, [Row(START + 11, image(1)), Row(START + 12, image(2))])
    feed.checkpoint(START + 20)
    world.run()
    folder = tmp_path / "lake/mirrors/s/shop/a"
    files = [path for path in (folder / what).rglob("*") if path.suffix in {".parquet", ".json"}]
    for path in files[-1:] if what == "_delta_log" else files:
        path.write_bytes(b"{") if what == "_delta_log" else path.unlink()
    feed.write(table, [Row(START + 21, image(1, "y"), image(1))])
    feed.checkpoint(START + 30)
    said = ""
    try:
        world.run()
    except StrataError as error:
        said = f"{error} {error.remedy}"
    said += world.strata("mirror", "list").stdout
    assert "folder away" in " ".join(said.split())
    assert "dump --source" not in said
    folder.rename(tmp_path / "away")
    assert world.strata("mirror", "update", "--source", "s").returncode == 0
    assert rows(world, "shop.a") == [image(1, "y"), image(2)]


def test_queries_of_the_past_take_commit_timestamps(tmp_path: Path) -> None:
    world = SinkWorld(tmp_path, MORE)
    feed = Feed(world.sink, FORMS["csv"])
    table = created(feed, "a", START + 10)
    feed.write(table, [Row(START + 11, image(1)), Row(START + 13, image(1, "y"), image(1)), Row(START + 14, image(2))])
    feed.checkpoint(START + 20)
    world.run()

    assert past_names(world, str(START + 12)) == ["x"]
    assert past_names(world, str(START + 13)) == ["y"]
    assert past_names(world, str(START + 19)) == ["y", "x"]
    assert "has not landed yet" in world.strata("sql", "SELECT * FROM shop.a", "--at", str(START + 20)).stderr
    versions = f"SELECT name FROM shop.a FOR SYSTEM_TIME AS OF TIMESTAMP '{START + 12}'"
    assert past_names(world, query=versions) == ["x"]
    until = f"SELECT name FROM shop.a FOR SYSTEM_TIME FROM TIMESTAMP '{START + 10}' TO TIMESTAMP '{START + 13}'"
    assert past_names(world, query=until) == ["x"]
    later = world.strata("row", "diff", "shop.a", "--from", str(START + 12), "--to", str(START + 13))
    assert "'x' -> 'y'" in later.stdout


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
    assert "strata dump --from-dumpling" in " ".join(said.split())
    assert "strata dump --source" not in said
    assert len(world.changes("shop.a")) == 1


def test_csv_without_old_values_is_applied_by_key(tmp_path: Path) -> None:
    """TiCDC's default. An update of a key comes as a delete and an insert, so the others keep their keys."""
    world = SinkWorld(tmp_path, MORE)
    feed = Feed(world.sink)
    table = created(feed, "a", START + 5)
    feed.write(table, [Row(START + 11, image(1)), Row(START + 12, image(2)), Row(START + 12, image(3))])
    feed.write(table, [Row(START + 13, image(2, "z"), image(2))])
    feed.checkpoint(START + 14)
    world.run()
    again = [Row(START + 15, image(1, "y"), image(1)), Row(START + 16, image(1, None), image(1, "y"))]
    feed.write(table, [*again, Row(START + 17, None, image(3)), Row(START + 17, image(4))])
    feed.write(table, again)
    added = (ID, NAME, SinkColumn("n", default="7"))
    feed.ddl(table, START + 18, 5, "ALTER TABLE a ADD COLUMN n INT DEFAULT 7", added)
    feed.write(table, [Row(START + 19, image(4, "w", n=8), image(4, n=7))])
    feed.write(table, [Row(START + 20, image(2, "late"), image(2))], version=START + 5)
    feed.checkpoint(START + 30)
    world.run()
    assert rows(world, "shop.a") == [image(1, None, n=7), image(2, "late", n=7), image(4, "w", n=8)]
    assert [op for _, op, *_ in world.changes("shop.a")].count("update") == 5
    assert "follows" in world.strata("mirror", "list").stdout
    # The rows are known, but not which row each update was of.
    assert past_names(world, str(START + 15)) == ["y", "z", "x"]
    assert "output-old-value = true" in world.strata("row", "history", "shop.a", "4").stderr


@pytest.mark.parametrize(
    ("kind", "default", "shown"),
    [
        # As TiDB shows the functions that ADD COLUMN takes (pkg/ddl/add_column.go, `getFuncCallDefaultValue`).
        ("VARCHAR", "(DATE_FORMAT(NOW(), '%Y-%m'))", "date_format(now(), _utf8mb4'%Y-%m')"),
        ("DATE", "(STR_TO_DATE('1980-01-01', '%Y-%m-%d'))", "str_to_date(_utf8mb4'1980-01-01', _utf8mb4'%Y-%m-%d')"),
        ("DATE", "(CURRENT_DATE)", "CURRENT_DATE"),
    ],
)
def test_a_default_that_tidb_computes_blocks_the_mirror(tmp_path: Path, kind: str, default: str, shown: str) -> None:
    """Its rows have the values of then; the schema file has the expression."""
    world = SinkWorld(tmp_path, MORE)
    feed = Feed(world.sink, OLD_VALUES)
    table = created(feed, "a", START + 10)
    feed.write(table, [Row(START + 11, image(1))])
    precision = "20" if kind == "VARCHAR" else None
    added = (ID, NAME, SinkColumn("n", kind, default=shown, precision=precision))
    written = "VARCHAR(20)" if precision else kind
    feed.ddl(table, START + 20, 5, f"ALTER TABLE a ADD COLUMN n {written} DEFAULT {default}", added)
    feed.checkpoint(START + 30)
    world.run()
    assert "the server computes the default of the new column n" in world.strata("mirror", "list").stdout
    assert "the server computes the default" in world.strata("row", "history", "shop.a", "1").stdout


TAKEN = "has a key that no row had|does not fit the mirror's rows"
UNSPLIT = {
    "new key": [Row(START + 13, image(9), image(1))],
    "key that was freed": [Row(START + 13, None, image(2)), Row(START + 13, image(2, "y"), image(1))],
    "key that was freed earlier": [Row(START + 13, None, image(2)), Row(START + 14, image(2, "y"), image(1))],
    "chain": [Row(START + 13, image(2, "y"), image(1)), Row(START + 13, image(3, "z"), image(2))],
    "inserted and new": [Row(START + 13, image(5)), Row(START + 14, image(6), image(5))],
}


@pytest.mark.parametrize("case", UNSPLIT)
def test_an_update_of_a_key_that_is_not_split_blocks_the_mirror(tmp_path: Path, case: str) -> None:
    """`output-raw-change-event`, or an old TiCDC: the row that the update has moved is not known."""
    world = SinkWorld(tmp_path, MORE)
    feed = Feed(world.sink)
    table = created(feed, "a", START + 5)
    feed.write(table, [Row(START + 11, image(1)), Row(START + 12, image(2))])
    feed.checkpoint(START + 13)
    world.run()
    feed.write(table, UNSPLIT[case])
    feed.checkpoint(START + 20)
    with pytest.raises(StrataError, match=TAKEN) as caught:
        world.run()
    assert "output-old-value = true" in str(caught.value)
    assert rows(world, "shop.a") == [image(1), image(2)]
    assert len(world.changes("shop.a")) == 2 + len(UNSPLIT[case])
    assert "as a source of another name" in (caught.value.remedy or "")


def test_rows_that_exchange_their_keys_are_exact(tmp_path: Path) -> None:
    """Not split, but no key is given up."""
    world = SinkWorld(tmp_path, MORE)
    feed = Feed(world.sink)
    table = created(feed, "a", START + 5)
    feed.write(table, [Row(START + 11, image(1, "x")), Row(START + 12, image(2, "y"))])
    exchanged = [Row(START + 13, image(2, "x"), image(1, "x")), Row(START + 13, image(1, "y"), image(2, "y"))]
    feed.write(table, exchanged)
    feed.checkpoint(START + 20)
    world.run()
    assert rows(world, "shop.a") == [image(1, "y"), image(2, "x")]


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


def test_a_mirror_is_read_at_every_token_of_the_stream(tmp_path: Path) -> None:
    """Its position is a token that compares with those of the stream; a mirror that is not there yet is waited for."""
    world = SinkWorld(tmp_path, MORE)
    feed = Feed(world.sink, FORMS["csv"])
    table = created(feed, "a", START + 10)
    sizes = []
    for number in range(3):
        at = START + 11 + 2 * number
        feed.write(table, [Row(at, image(number)), Row(at + 1, image(number + 9))])
        feed.checkpoint(at + 2)
        world.run()
        sizes.append(2 * number + 2)
    lines = [json.loads(line) for line in world.strata("stream", "--from", "beginning").stdout.splitlines()]
    commits = [line["token"] for line in lines if "commit" in line]
    lake = str(tmp_path / "lake")
    newest = mirrors.open(lake, "s", "shop.a")
    assert newest.position.compare(from_text(commits[-1])) is Order.EQUAL
    assert len(newest.wait_until(commits[-1], timeout_seconds=0)) == sizes[-1]
    # Each run is one state of the mirror, after two more commits.
    after_runs = commits[-1], commits[-3], commits[-5]
    assert [len(mirrors.open(lake, "s", "shop.a", at=token)) for token in after_runs] == sizes[::-1]
    between = mirrors.open(lake, "s", "shop.a", at=commits[-4])
    assert len(between) == sizes[0]
    assert between.position.compare(from_text(commits[-4])) is Order.BEFORE
    feed.write(table, [Row(START + 30, image(40))])
    feed.checkpoint(START + 31)
    world.strata("land")
    last = json.loads(world.strata("stream", "--from", "beginning").stdout.splitlines()[-1])["token"]
    with pytest.raises(MirrorBehindError, match="nothing newer is published yet"):
        newest.wait_until(last, timeout_seconds=0)
    world.run()
    assert len(newest.wait_until(last)) == sizes[-1] + 1
