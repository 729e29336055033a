"""XA transactions in the past: no row of them is there between XA PREPARE and XA COMMIT, on both families."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.errors import StrataError
from strata_cdc.past.query import answer
from strata_cdc.past.undo.choice import Choice, ChosenGtids
from strata_cdc.schema.model.definition import TableName
from tests.mariadb_server import FAMILIES, start_mariadb
from tests.past.test_rows import asked, ops, with_settings
from tests.past.undo.undo_world import UndoWorld, fresh

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.mysql_server import MysqlServer

TABLE = TableName("shop", "t")
pytestmark = [pytest.mark.mysql, pytest.mark.slow]

CREATE = "CREATE TABLE t (id INT PRIMARY KEY, n INT, s VARCHAR(9)); INSERT INTO t VALUES (1,1,'a'),(2,2,'b'),(3,3,'c')"
STEPS = (
    CREATE,
    "XA START 'a'; UPDATE t SET n = 20 WHERE id = 2; INSERT INTO t VALUES (4, 4, 'd'); XA END 'a'; XA PREPARE 'a'",
    "UPDATE t SET n = 11 WHERE id = 1",
    "publish",
    "XA START 'e','q',7; UPDATE t SET id = 30, n = 33 WHERE id = 3; XA END 'e','q',7; XA PREPARE 'e','q',7",
    "INSERT INTO t VALUES (5, 5, 'e')",
    "XA COMMIT 'a'",
    "publish",
    "UPDATE t SET n = 21 WHERE id = 2; DELETE FROM t WHERE id = 4",
    "XA COMMIT 'e','q',7",
    "XA START 'b'; DELETE FROM t WHERE id = 1; UPDATE t SET id = 50 WHERE id = 5; XA END 'b'; XA PREPARE 'b'",
    "UPDATE t SET s = 'z' WHERE id = 2",
    "XA ROLLBACK 'b'",
    "UPDATE t SET n = 12 WHERE id = 1",
    "XA START 'o'; UPDATE t SET n = 13 WHERE id = 1; XA END 'o'; XA COMMIT 'o' ONE PHASE",
    "XA START 'c'; INSERT INTO t VALUES (6, 6, 'f'); XA END 'c'; XA PREPARE 'c'",
    "XA START 'd'; UPDATE t SET n = 14 WHERE id = 1; XA END 'd'; XA PREPARE 'd'",
    "XA COMMIT 'd'",
    "XA COMMIT 'c'",
    "XA START 'last'; DELETE FROM t WHERE id = 30; XA END 'last'; XA PREPARE 'last'",
    "publish",
)

HISTORIES = {
    "1": ["insert", "update", "update", "update", "update"], "2": ["insert", "update", "update", "update"],
    "3": ["insert", "update"], "4": ["insert", "delete"], "30": ["insert", "update"], "5": ["insert"], "6": ["insert"],
    "50": [],
}  # fmt: skip


@pytest.fixture(params=FAMILIES)
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[UndoWorld]:
    family = request.param
    made = (
        nullcontext(request.getfixturevalue("server"))
        if family == "mysql"
        else start_mariadb(tmp_path / "server", family.partition("-")[2])
    )
    with made as server:
        fresh(server)
        yield with_settings(UndoWorld(server, tmp_path, name="shop"), monkeypatch)
        # On MySQL what is prepared locks the tables of the next test.
        for number in server.run_sql("XA RECOVER").splitlines()[1:]:
            name = number.split("\t")[3]
            server.run_sql(f"XA ROLLBACK '{name}'")


def selected(world: UndoWorld, at: str) -> list[tuple[Any, ...]]:
    """The rows as `strata sql` has them."""
    rows = answer(world.readable, "SELECT id, n, s FROM shop.t ORDER BY id", at).rows
    return [tuple(row.values()) for row in rows.to_pylist()]


def rows_now(server: MysqlServer) -> list[tuple[Any, ...]]:
    """The server's rows that are committed."""
    with server.connect("shop") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id, n, s FROM t ORDER BY id")
        return list(cursor.fetchall())


def test_rows_between_prepare_and_decision(world: UndoWorld, capsys: pytest.CaptureFixture[str]) -> None:
    moments = {}
    for step in STEPS:
        if step == "publish":
            publish(world)
            continue
        world.server.run_sql(step, "shop")
        moments[world.marked()] = step, rows_now(world.server)
    assert len(moments) == len(STEPS) - STEPS.count("publish")
    for at, (step, expected) in moments.items():
        assert selected(world, at) == expected, step
    for key, history in HISTORIES.items():
        assert ops(asked(capsys, "history", "shop.t", key)) == history
    world.server.run_sql("XA ROLLBACK 'last'")
    for row in rows_now(world.server):
        blamed = {line["column"]: line["value"] for line in asked(capsys, "blame", "shop.t", str(row[0]))}
        assert tuple(blamed.values()) == row
    at = list(moments)
    for first, second in combinations(at[::3], 2):
        before, after = ({row[0]: row for row in moments[border][1]} for border in (first, second))
        kinds = Counter(line["kind"] for line in asked(capsys, "diff", "shop.t", "--from", first, "--to", second)[1:])
        assert kinds["added"] == len(after.keys() - before.keys())
        assert kinds["removed"] == len(before.keys() - after.keys())
        assert kinds["changed"] == sum(before[key] != after[key] for key in before.keys() & after.keys())


def test_undo_takes_back_what_was_decided(world: UndoWorld) -> None:
    world.server.run_sql(CREATE, "shop")
    before = rows_now(world.server)
    prepared = world.changed(STEPS[1])
    publish(world)
    assert "no change is chosen" in refused(world, prepared)
    committed = world.changed("XA COMMIT 'a'")
    publish(world)
    assert "no change is chosen" in refused(world, prepared)
    script, report = world.script(Choice((TABLE,), committed))
    assert report.changes == 2
    world.execute(script)
    assert rows_now(world.server) == before
    world.server.run_sql("XA START 'r'; DELETE FROM t WHERE id = 1; XA END 'r'; XA PREPARE 'r'", "shop")
    rolled_back = world.changed("XA ROLLBACK 'r'")
    publish(world)
    assert "no change is chosen" in refused(world, rolled_back)


def publish(world: UndoWorld) -> None:
    world.publish()
    world.update()


def refused(world: UndoWorld, transactions: ChosenGtids) -> str:
    """Why there is no script for some transactions."""
    with pytest.raises(StrataError) as caught:
        world.script(Choice((TABLE,), transactions))
    return caught.value.message


# MySQL locks the definition of what is prepared.
@pytest.mark.parametrize("world", FAMILIES[1:], indirect=True)
def test_a_ddl_between_prepare_and_commit(world: UndoWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.run_sql(CREATE, "shop")
    world.server.run_sql(STEPS[1], "shop")
    before = rows_now(world.server)
    world.server.run_sql("ALTER TABLE t ALTER n SET DEFAULT 5; INSERT INTO t (id) VALUES (9)", "shop")
    at, then = world.marked(), rows_now(world.server)
    committed = world.changed("XA COMMIT 'a'")
    publish(world)
    assert selected(world, at) == then
    assert selected(world, world.marked()) == rows_now(world.server)
    assert ops(asked(capsys, "history", "shop.t", "2")) == ["insert", "ALTER", "update"]
    assert ops(asked(capsys, "history", "shop.t", "4")) == ["insert"]
    script, _ = world.script(Choice((TABLE,), committed))
    world.execute(script)
    assert rows_now(world.server) == [*before, (9, 5, None)]
