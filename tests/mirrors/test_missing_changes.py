"""Changes that nobody will ever publish: no mirror passes them in silence; of a table that is gone nobody waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from strata_cdc.mirrors.follow.note_waiting import note_waiting
from strata_cdc.mirrors.follow.schema_events import UNLOGGED
from strata_cdc.mirrors.histories.history import history_of
from strata_cdc.schema.history.table_changes import removals_of, table_changes_of
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.read_again import ReadAgainLedger
from strata_cdc.store.table_intervals import IntervalState, TableIntervalLedger
from strata_cdc.tables.commit import publish
from tests.mirrors.world import MirrorWorld, mirror_of, outcomes

if TYPE_CHECKING:
    from pathlib import Path

    from strata_cdc.mirrors.table import Mirror
    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]


@pytest.fixture
def world(server: MysqlServer, tmp_path: Path) -> MirrorWorld:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    return MirrorWorld(server, tmp_path, name="shop")


def ids(mirror: Mirror) -> list[int]:
    return sorted(mirror.to_arrow(["id"])["id"].to_pylist())


def mark(world: MirrorWorld, state: IntervalState, table: str = "t", *, keeping: bool = False) -> None:
    """The newest interval of a table gets a state; its rows are not published unless they are kept."""
    ledger = TableIntervalLedger(world.engine)
    newest = ledger.select("shop", tuple(IntervalState), table=("shop", table))[-1]
    if not keeping:
        publish(world.lake, "shop", TableName("shop", table), newest.start, [])
    ledger.put([replace(newest, state=state)])


CREATE = "CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)"
DISCARDED: tuple[tuple[str, list[int] | None], ...] = (
    ("INSERT INTO {t} VALUES (2)", [1]),
    ("INSERT INTO {t} VALUES (2); ALTER TABLE {t} ADD COLUMN n INT DEFAULT 5", [1]),
    ("INSERT INTO {t} VALUES (2); TRUNCATE TABLE {t}; INSERT INTO {t} VALUES (3)", []),
    # A CREATE TABLE may have brought rows: the table of before stays, and is marked.
    ("INSERT INTO {t} VALUES (2); DROP TABLE {t}; {create}; ALTER TABLE {t} ADD COLUMN n INT", [1]),
    ("INSERT INTO {t} VALUES (2); RENAME TABLE {t} TO a{t}; {create}", [1]),
    ("INSERT INTO {t} VALUES (2); DROP TABLE {t}", None),
)
"""What happens in an interval whose rows are discarded, and the rows at the last point where they are known."""


def test_discarded_changes_are_never_passed(world: MirrorWorld) -> None:
    names = {f"t{number}": known for number, (_, known) in enumerate(DISCARDED)}
    creates = {name: CREATE.replace(" t ", f" {name} ") for name in names}
    world.server.run_sql(";".join(creates.values()), "shop")
    world.publish()
    world.update()
    lives = [
        statements.replace("{create}", creates[name]).replace("{t}", name)
        for name, (statements, _) in zip(names, DISCARDED, strict=True)
    ]
    world.server.run_sql(";".join(lives), "shop")
    world.publish()
    for name in names:
        mark(world, IntervalState.DISCARDED, name)
    for _ in range(2):
        found = outcomes(world)
        for name, known in names.items():
            one, mirror = found[name], mirror_of(world, name)
            if known is None:
                assert (one.behind, one.dropped, one.needs_dump) == (None, True, False)
                assert "were discarded" in (mirror.stopped or "")
                continue
            assert one.needs_dump
            assert "were discarded" in (one.behind or "")
            assert f"strata dump --source shop --table shop.{name}" in (one.behind or "")
            assert ids(mirror) == known
        assert "were discarded" in (found["at4"].behind or "")
        assert found["at4"].needs_dump
    # From here on the rows are known again.
    world.server.run_sql(
        f"DROP TABLE at4; DROP TABLE IF EXISTS {', '.join(names)}; CREATE TABLE t0 (id INT PRIMARY KEY);"
        "INSERT INTO t0 VALUES (9)",
        "shop",
    )
    world.publish()
    assert {one.behind for one in outcomes(world).values()} == {None}
    world.assert_equal()


def test_rows_that_were_discarded_and_come_after_all_go_on(world: MirrorWorld) -> None:
    world.server.run_sql(CREATE, "shop")
    world.publish()
    world.update()
    world.server.run_sql("INSERT INTO t VALUES (2)", "shop")
    world.publish()
    mark(world, IntervalState.DISCARDED, keeping=True)
    assert "were discarded" in (outcomes(world)["t"].behind or "")
    mark(world, IntervalState.PUBLISHED, keeping=True)
    assert outcomes(world)["t"].behind is None
    assert mirror_of(world, "t").stopped is None
    world.assert_equal()
    # As an older version has passed them: what it applied does not hold.
    mark(world, IntervalState.DISCARDED, keeping=True)
    assert "were discarded" in (outcomes(world)["t"].behind or "")


def test_a_table_that_is_older_than_the_stream_is_told_to_be_dumped(world: MirrorWorld) -> None:
    """Its first version stands in front of all transactions, where no GTID set is known."""
    world.server.run_sql(f"{CREATE}; RESET BINARY LOGS AND GTIDS", "shop")
    world.snapshot()
    world.server.run_sql("INSERT INTO t VALUES (2); CREATE TABLE u (id INT PRIMARY KEY)", "shop")
    world.publish()
    found = outcomes(world)
    assert (found["t"].error, found["t"].needs_dump) == (None, True)
    assert "never dumped; `strata dump --source shop --table shop.t` reads" in (found["t"].behind or "")
    assert found["u"].behind is None


def test_rows_go_nowhere_from_a_mirror_that_stands(world: MirrorWorld) -> None:
    """The table that had them comes first by name, and is gone when the one that takes them is looked at."""
    world.server.run_sql(
        f"{CREATE.replace(' t ', ' a ')}; SET binlog_format = STATEMENT;"
        "ALTER TABLE a ADD COLUMN u VARCHAR(36) CHARACTER SET ascii DEFAULT (UUID()); RENAME TABLE a TO b",
        "shop",
    )
    world.publish()
    for _ in range(2):
        found = outcomes(world)
        assert (found["a"].behind, found["a"].dropped) == (None, True)
        assert "rows of shop.a came to shop.b" in (found["b"].behind or "")
        assert found["b"].needs_dump


def test_nobody_waits_for_a_table_that_is_gone(world: MirrorWorld) -> None:
    """Whatever is not known of its last rows."""
    make = "; ".join(CREATE.replace(" t ", f" {name} ") for name in ("left_out", "unlogged", "gone", "there"))
    world.server.run_sql(make, "shop")
    world.publish()
    world.update()
    mirror_of(world, "unlogged").stopped_for(UNLOGGED)
    assert "foreign key" in (outcomes(world)["unlogged"].behind or "")
    world.server.run_sql(
        "; ".join(f"INSERT INTO {name} VALUES (2)" for name in ("left_out", "unlogged", "gone")), "shop"
    )
    world.publish()
    mark(world, IntervalState.UNWANTED, "left_out")
    found = outcomes(world)
    assert "settings do not name" in (found["left_out"].behind or "")
    assert not found["left_out"].needs_dump
    world.server.run_sql(
        "DROP TABLE left_out, unlogged, gone; SET binlog_format = STATEMENT; INSERT INTO there VALUES (3)", "shop"
    )
    world.publish()
    mark(world, IntervalState.UNWANTED, "left_out")
    found = outcomes(world)
    gone = {name: found[name] for name in ("left_out", "unlogged", "gone")}
    assert {name: (one.behind, one.dropped) for name, one in gone.items()} == dict.fromkeys(gone, (None, True))
    assert "logged as a statement" in (found["there"].behind or "")
    assert ids(mirror_of(world, "gone")) == [1, 2]
    assert "settings do not name" in (mirror_of(world, "left_out").stopped or "")


def test_names_with_dots_are_the_names_of_their_tables(world: MirrorWorld) -> None:
    world.server.run_sql(
        "CREATE DATABASE IF NOT EXISTS `shop.a`; CREATE TABLE `shop.a`.t (id INT PRIMARY KEY);"
        "CREATE TABLE shop.`a.t` (id INT PRIMARY KEY); INSERT INTO shop.`a.t` VALUES (1);"
        "ALTER TABLE shop.`a.t` ADD COLUMN made DATETIME DEFAULT CURRENT_TIMESTAMP; DROP DATABASE `shop.a`"
    )
    world.publish()
    report = world.update()
    note_waiting(world.engine, report, now=1)
    [waiting] = ReadAgainLedger(world.engine).all("shop")
    assert (waiting.database_name, waiting.table_name) == ("shop", "a.t")


def test_a_history_begins_behind_partitions_that_were_dropped(world: MirrorWorld) -> None:
    """No event says which rows they had; those of the others go on."""
    world.server.run_sql(
        "CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), "
        "PARTITION p1 VALUES LESS THAN (100)); INSERT INTO t VALUES (1), (20); ALTER TABLE t DROP PARTITION p0;"
        "INSERT INTO t VALUES (30)",
        "shop",
    )
    world.publish()
    assert outcomes(world)["t"].behind is None
    table_changes, removals = table_changes_of(world.engine, "shop"), removals_of(world.engine, "shop")
    history = history_of(world.lake, mirror_of(world, "t"), table_changes, removals)
    rows = history.to_polars().collect().to_dicts()
    assert sorted((row["id"], row["_valid_to"]) for row in rows) == [(20, None), (30, None)]
