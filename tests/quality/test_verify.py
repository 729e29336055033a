"""Change tables verified by themselves, and mirrors by their server: what is broken is named."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from msgspec.structs import replace

from strata_cdc.cli.main import run
from strata_cdc.mirrors.layout import mirror_url
from strata_cdc.pipeline import comparisons, ingest
from strata_cdc.quality.reconcile.report import Against, ComparisonOutcome, Side
from strata_cdc.schema.model.definition import TableName
from strata_cdc.tables.layout import table_url
from tests.quality.live_world import LiveWorld

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.quality.reconcile.report import TableReport
    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql


LIFE = """
CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9), d DATE);
INSERT INTO t VALUES (1, 'a', NULL), (2, 'b', '2020-01-01'), (3, 'c', NULL), (4, 'd', NULL);
UPDATE t SET v = 'x' WHERE id = 2; UPDATE t SET id = 9 WHERE id = 1; DELETE FROM t WHERE id = 4;
INSERT INTO t VALUES (4, 'again', NULL);
SET binlog_row_image = MINIMAL; UPDATE t SET v = 'min' WHERE id = 3; UPDATE t SET d = NULL WHERE id = 2;
SET binlog_row_image = FULL;
ALTER TABLE t RENAME COLUMN v TO w, ADD COLUMN n INT NOT NULL DEFAULT 7;
UPDATE t SET w = 'y' WHERE id = 2; UPDATE t SET n = 8 WHERE id = 3; DELETE FROM t WHERE id = 9;
CREATE TABLE bag (a INT); INSERT INTO bag VALUES (1), (1), (2); DELETE FROM bag LIMIT 1; UPDATE bag SET a = 3;
"""


@pytest.fixture
def world(server: MysqlServer, tmp_path: Path) -> LiveWorld:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop;")
    found = LiveWorld(server, tmp_path, more='mirrors = ["shop.*"]')
    found.sql(LIFE)
    found.run()
    return found


def verified(world: LiveWorld, *tables: str) -> dict[str, TableReport]:
    report = comparisons.verify_changes("s", settings=world.settings, tables=tables)
    return {one.table.partition(".")[2]: one for one in report.tables}


def doctored(folder: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Other rows in all files, behind the back of everybody."""
    for file in Path(folder).glob("data/**/*.parquet"):
        pq.write_table(change(pq.ParquetFile(file).read()), file)


def doctored_changes(world: LiveWorld, table: str, change: Callable[[list[dict]], None]) -> None:
    def changed(rows: pa.Table) -> pa.Table:
        listed = rows.to_pylist()
        change(listed)
        return pa.Table.from_pylist(listed, rows.schema)

    doctored(table_url(world.lake, "s", TableName("shop", table)), changed)


def places(rows: list[dict], **wanted: object) -> list[int]:
    """A file has rows of one version only, so that most have none of them."""
    return [at for at, row in enumerate(rows) if all(row.get(name) == value for name, value in wanted.items())]


def before_other(rows: list[dict]) -> None:
    for at in places(rows, id=2, w="y"):
        rows[at]["_before"]["w"] = "forged"


def after_other(rows: list[dict]) -> None:
    for at in places(rows, id=2, v="x"):
        rows[at]["v"] = "forged"


def insert_gone(rows: list[dict]) -> None:
    for at in places(rows, _op="insert", v="again"):
        del rows[at]


def delete_gone(rows: list[dict]) -> None:
    for at in places(rows, _op="delete")[:1]:
        del rows[at]


def row_doubled(rows: list[dict]) -> None:
    rows += [rows[at] for at in places(rows, id=2, w="y")]


def bag_gone(rows: list[dict]) -> None:
    for at in places(rows, _op="insert", a=2):
        del rows[at]


BROKEN = {
    before_other: ("t", Side.BROKEN),
    after_other: ("t", Side.BROKEN),
    delete_gone: ("t", Side.BROKEN),
    row_doubled: ("t", Side.DOUBLED),
    insert_gone: ("t", None),
    bag_gone: ("bag", Side.BROKEN),
}


@pytest.mark.parametrize("change", sorted(BROKEN, key=lambda one: one.__name__))
def test_a_change_that_does_not_follow_is_named(world: LiveWorld, change: Callable[[list[dict]], None]) -> None:
    table, side = BROKEN[change]
    whole = verified(world)
    assert {
        **whole,
        **{name: replace(one, seconds=whole[name].seconds) for name, one in world.verified_in_parts().items()},
    } == whole
    assert {name: (one.outcome, one.reasons) for name, one in whole.items()} == {
        "bag": (ComparisonOutcome.MATCH, ()),
        "t": (ComparisonOutcome.MATCH, ()),
    }
    doctored_changes(world, table, change)
    found, parts = (one(f"shop.{table}")[table] for one in (partial(verified, world), world.verified_in_parts))
    assert found.outcome is ComparisonOutcome.MISMATCH
    assert replace(parts, seconds=0, differences=()) == replace(found, seconds=0, differences=())
    assert sorted(map(str, parts.differences)) == sorted(map(str, found.differences))
    assert side is None or side in [one.side for one in found.differences]
    assert change.__name__.endswith(("other", "doubled")) or "were published" in found.reasons[0]
    if change is before_other:
        [one] = found.differences
        assert (one.key, one.left, one.found) == ({"id": 2}, {"w": "x"}, {"w": "forged"})
        assert one.gtid


def mirror_changed(world: LiveWorld, change: Callable[[pa.Table], pa.Table]) -> None:
    for file in Path(mirror_url(world.lake, "s", TableName("shop", "t"))).glob("**/*.parquet"):
        if "_delta_log" not in file.parts:
            pq.write_table(change(pq.ParquetFile(file).read()), file)


@pytest.mark.parametrize("image", ["FULL", "MINIMAL"])
def test_a_name_that_another_table_has_since_is_the_past_of_that_table(world: LiveWorld, image: str) -> None:
    """As an online schema change leaves it: the old rows are in `_orders_del`, and `orders` lives on."""
    world.sql(
        "CREATE TABLE orders (id INT PRIMARY KEY, v INT); INSERT INTO orders VALUES (1, 1), (2, 2);"
        "CREATE TABLE _orders_gho LIKE orders; INSERT INTO _orders_gho SELECT * FROM orders;"
        "INSERT INTO _orders_gho VALUES (3, 3);"
        "RENAME TABLE orders TO _orders_del, _orders_gho TO orders;"
        f"SET binlog_row_image = {image}; UPDATE orders SET v = 4 WHERE id = 3; DELETE FROM orders WHERE id = 1;"
        "ALTER TABLE orders ADD COLUMN n INT; RENAME TABLE orders TO archive;"
    )
    world.run()
    found = verified(world)
    assert {name: list(one.lines()) for name, one in found.items() if one.outcome is not ComparisonOutcome.MATCH} == {}
    assert (found["_orders_del"].compared, found["archive"].compared) == (2, 7)


def test_partial_images_are_followed_by_a_unique_key_and_over_changes_of_keys(world: LiveWorld) -> None:
    world.sql(
        """
        CREATE TABLE u (v VARCHAR(9), a INT NOT NULL, n INT, UNIQUE KEY (a));
        CREATE TABLE p (a INT PRIMARY KEY, v VARCHAR(9), n INT);
        SET binlog_row_image = MINIMAL;
        INSERT INTO u VALUES ('x', 1, 1), ('y', 2, 2), ('z', 3, 3); INSERT INTO p SELECT a, v, n FROM u;
        UPDATE u SET v = 'more' WHERE a = 2; UPDATE u SET a = a + 10; DELETE FROM u WHERE a = 13;
        UPDATE p SET v = 'more' WHERE a = 2; UPDATE p SET a = a + 10; DELETE FROM p WHERE a = 13;
        UPDATE u SET a = 1, n = 5 WHERE a = 11; UPDATE p SET a = 1, n = 5 WHERE a = 11;
        """
    )
    world.run()
    found = verified(world, "shop.u", "shop.p")
    assert {name: (one.outcome, one.reasons) for name, one in found.items()} == dict.fromkeys(
        ("u", "p"), (ComparisonOutcome.MATCH, ())
    )

    def break_(rows: list[dict]) -> None:
        for at in places(rows, _op="delete"):
            rows[at]["_before"] = rows[at]["_before"] | {"a": 14}

    for name in ("u", "p"):
        doctored_changes(world, name, break_)
    broken = verified(world, "shop.u", "shop.p")
    assert {name: (one.outcome, one.different) for name, one in broken.items()} == dict.fromkeys(
        ("u", "p"), (ComparisonOutcome.MISMATCH, 1)
    )


def test_a_mirror_is_compared_and_what_changed_later_is_left_out(
    world: LiveWorld, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in world.environment.items():
        monkeypatch.setenv(name, value)
    assert run(["mirror", "verify"]) == 2
    ingest.mirror("s", settings=world.settings)
    found = world.reconcile()
    assert {name: (one.outcome, one.against) for name, one in found.items()} == dict.fromkeys(
        ("bag", "t"), (ComparisonOutcome.MATCH, Against.MIRROR)
    )
    world.sql("UPDATE t SET n = 100 WHERE id = 2")
    world.run()
    assert (world.said("t").outcome, world.said("t").changed) == (ComparisonOutcome.MATCH, 1)
    ingest.mirror("s", settings=world.settings)
    assert (world.said("t").outcome, world.said("t").changed) == (ComparisonOutcome.MATCH, 0)
    capsys.readouterr()
    assert run(["mirror", "verify", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["table"], line["against"]) for line in lines] == [
        ("shop.bag", "itself"),
        ("shop.t", "itself"),
        ("shop.bag", "mirror"),
        ("shop.t", "mirror"),
    ]
    mirror_changed(world, lambda rows: rows.set_column(0, rows.schema.field(0), pa.array([3] * len(rows), pa.int32())))
    assert run(["mirror", "verify"]) == 1
    said = capsys.readouterr().out
    assert "doubled in the lake id = 3" in said
    assert "only on the server id = 4" in said
    mirror_changed(world, lambda rows: rows.slice(1))
    assert run(["mirror", "verify"]) == 1
    said = capsys.readouterr().out
    assert "a data file has" in said
    assert "mismatch      shop.t (mirror and server)" in said
    assert run(["mirror", "verify", "--offline", "--table", "shop.t"]) == 0


def test_who_asks_for_what_is_not_there_or_was_changed_is_told(
    world: LiveWorld, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in world.environment.items():
        monkeypatch.setenv(name, value)
    ingest.mirror("s", settings=world.settings)
    for command in ("update", "list", "compact", "vacuum", "verify"):
        assert run(["mirror", command, "--table", "shop.nosuch"]) == 2, command
        assert "there is no" in capsys.readouterr().err
    DeltaTable(mirror_url(world.lake, "s", TableName("shop", "t"))).delete("id > 2")
    world.sql("UPDATE t SET n = 9")
    world.run()
    for command, said in (
        (["mirror", "update"], " shop.t  blocked: another program has changed the mirror"),
        (["mirror", "list"], "another program has changed the mirror: version"),
        (["mirror", "verify", "--table", "shop.t"], "where it is blocked: another program has changed the mirror"),
    ):
        run(command)
        assert said in capsys.readouterr().out, command
    world.sql("DROP TABLE bag")
    world.run()
    assert run(["dump", "--table", "shop.bag"]) == 2
    assert "matches no table that is there now: it was dropped" in capsys.readouterr().err


def test_the_command_says_what_differs(
    world: LiveWorld, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in world.environment.items():
        monkeypatch.setenv(name, value)
    assert run(["reconcile"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "2 match, 0 mismatch, 0 inconclusive"
    world.sql("SET sql_log_bin = 0; UPDATE t SET w = 'wrong' WHERE id = 3")
    assert run(["reconcile", "--table", "shop.t"]) == 1
    said = capsys.readouterr().out
    assert "differs id = 3; lake: w = 'min'; server: w = 'wrong'" in said
    assert run(["reconcile", "--table", "shop.t", "--json"]) == 1
    [line] = [json.loads(one) for one in capsys.readouterr().out.splitlines()]
    assert (line["table"], line["outcome"], line["different"]) == ("shop.t", "mismatch", 1)
    assert line["differences"] == [
        {"side": "differs", "key": {"id": 3}, "lake": {"w": "min"}, "server": {"w": "wrong"}}
    ]
    assert run(["reconcile", "--table", "shop.nothing"]) == 2
    with pytest.raises(Exception, match="differ in 1 row"):
        comparisons.reconcile("s", settings=world.settings).raise_if_different()
