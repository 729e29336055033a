"""`FOR SYSTEM_TIME ALL`, `BETWEEN` and `FROM`: all versions of rows, at moments that are written here.
Not here: random ones (`test_random_versions.py`)."""

from __future__ import annotations

import shutil
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strata_cdc.errors import PastUnknownError, QueryError, StrataError, Usage
from strata_cdc.landing.landed import LandedStream
from strata_cdc.mirrors.compact import compact, vacuum
from strata_cdc.mirrors.table import Mirror
from strata_cdc.past.query import answer
from strata_cdc.schema.model.definition import TableName
from tests.mariadb_server import PREFIXES, start_mariadb
from tests.past.past_world import PastWorld, executed, rows
from tests.past.random_types import TYPES

if TYPE_CHECKING:
    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]
CREATE = "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(10), price DECIMAL(8, 2));"
REFUSED = ("da", "dt", "ts", "sj")
"""Columns with values that the lake has no column for."""


def commits(world: PastWorld) -> list[datetime]:
    """The commit times of the landed transactions."""
    records = LandedStream.open(world.lake, world.name).records()
    return [datetime.fromtimestamp(0, UTC) + timedelta(microseconds=one.committed_at) for _, one in records]


def text_of(moment: datetime) -> str:
    """A time as queries have it."""
    return moment.replace(tzinfo=None).isoformat(" ", "microseconds")


def followed(world: PastWorld, *statements: str) -> None:
    """Runs statements, each a transaction or several, and brings the mirrors up to them."""
    for statement in statements:
        world.server.run_sql(statement, "shop")
    world.publish()
    world.update()


def test_each_version_has_its_time_and_its_transaction(world: PastWorld) -> None:
    followed(
        world,
        CREATE,
        "INSERT INTO t VALUES (1, 'a', 1.5), (2, 'b', 2)",
        "UPDATE t SET price = 3 WHERE id = 1",
        "ALTER TABLE t RENAME COLUMN price TO cost, MODIFY id BIGINT",
        "DELETE FROM t WHERE id = 2",
    )
    when, uuid = commits(world), executed(world).rpartition(":")[0]
    found = answer(world.readable, "SELECT * FROM shop.t FOR SYSTEM_TIME ALL ORDER BY id, _valid_from").rows
    assert found.column_names == ["id", "name", "cost", "_valid_from", "_valid_to", "_gtid"]
    assert [str(one) for one in found.schema.types[-3:]] == ["timestamp[us, tz=UTC]", "timestamp[us, tz=UTC]", "string"]
    inserted = executed(world).rpartition("-")[2]
    first = int(inserted) - 3
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        (1, "a", Decimal("1.50"), when[-4], when[-3], f"{uuid}:{first}"),
        (1, "a", Decimal("3.00"), when[-3], None, f"{uuid}:{first + 1}"),
        (2, "b", Decimal("2.00"), when[-4], when[-1], f"{uuid}:{first}"),
    ]
    assert rows(world, "SELECT x.id FROM shop.t FOR SYSTEM_TIME ALL AS x WHERE x._valid_to IS NULL") == [(1,)]
    assert rows(world, "SELECT COUNT(*) FROM shop.t x FOR SYSTEM_TIME ALL") == [(3,)]
    assert rows(world, f"SELECT id FROM shop.t FOR SYSTEM_TIME ALL WHERE _gtid = '{uuid}:{first + 1}'") == [(1,)]
    every = "shop.t FOR SYSTEM_TIME ALL"
    both = f"SELECT o.id, o.cost, n.cost AS now FROM {every} o JOIN shop.t n ON n.id = o.id ORDER BY o.cost"
    assert rows(world, both) == [(1, Decimal("1.50"), Decimal("3.00")), (1, Decimal("3.00"), Decimal("3.00"))]
    # A key has several versions: grouping by it does not determine the other columns.
    with pytest.raises(QueryError, match="neither grouped"):
        rows(world, "SELECT id, cost FROM shop.t FOR SYSTEM_TIME ALL GROUP BY id")


def test_a_range_has_the_versions_that_were_valid_in_it(world: PastWorld) -> None:
    followed(world, CREATE, *(f"REPLACE INTO t VALUES (1, 'a', {number})" for number in range(5)))
    when, (uuid, _, last) = commits(world), executed(world).rpartition("-")
    uuid = uuid.rpartition(":")[0]

    def prices(clause: str) -> list[int]:
        query = f"SELECT price FROM shop.t FOR SYSTEM_TIME {clause} ORDER BY price"
        return [int(price) for (price,) in rows(world, query)]

    times = [f"TIMESTAMP '{text_of(one)}'" for one in when[-5:]]
    sets = [f"GTID '{uuid}:1-{int(last) - 4 + number}'" for number in range(5)]
    for moments in (times, sets):
        assert prices(f"BETWEEN {moments[1]} AND {moments[3]}") == [1, 2, 3]
        assert prices(f"FROM {moments[1]} TO {moments[3]}") == [1, 2]
        assert prices(f"BETWEEN {moments[2]} AND {moments[2]}") == [2]
    assert prices(f"BETWEEN {times[0]} AND {sets[1]}") == [0, 1]
    within = [f"'{text_of(one + timedelta(microseconds=1))}'" for one in when[-5:]]
    assert prices(f"BETWEEN {within[1]} AND {within[2]}") == [1, 2]
    assert prices(f"FROM {within[1]} TO {within[2]}") == [1, 2]
    early = text_of(when[0] - timedelta(hours=1))
    assert prices(f"BETWEEN '{early}' AND {times[1]}") == [0, 1]
    assert prices(f"BETWEEN '{early}' AND '{early}'") == []


@pytest.mark.parametrize(
    ("clause", "error", "message"),
    [
        ("BETWEEN '{b}' AND '{a}'", Usage, "ends before it begins"),
        ("FROM GTID '{set}' TO '{a}'", Usage, "ends before it begins"),
        ("BETWEEN '{a}' AND '2200-01-01'", PastUnknownError, "may have been committed"),
        ("BETWEEN '{a}' AND GTID '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-3'", Usage, "never was"),
        ("BETWEEN '{a}' AND 'tomorrow'", Usage, "neither a time, nor a GTID set"),
        ("BETWEEN '{a}' AND NOW()", QueryError, "a moment is a literal"),
        ("BETWEEN '{a}'", QueryError, "and a second moment"),
        ("FROM '{a}' AND '{b}'", QueryError, "and a second moment"),
        ("EVER", QueryError, "FOR SYSTEM_TIME has AS OF, ALL"),
    ],
)
def test_bad_ranges_are_refused(world: PastWorld, clause: str, error: type[StrataError], message: str) -> None:
    followed(world, CREATE, "INSERT INTO t VALUES (1, 'a', 1)", "UPDATE t SET price = 2", "UPDATE t SET price = 3")
    when = commits(world)
    made = clause.format(a=text_of(when[-3]), b=text_of(when[-2]), set=executed(world))
    with pytest.raises(error, match=message):
        rows(world, f"SELECT * FROM shop.t FOR SYSTEM_TIME {made}")


def test_what_there_is_not_is_refused(world: PastWorld) -> None:
    followed(world, CREATE, "CREATE TABLE own (id INT, _gtid INT)", "INSERT INTO t VALUES (1, 'a', 1)")
    first = executed(world)
    followed(world, "UPDATE t SET price = 2")
    with pytest.raises(Usage, match="there is no such table"):
        rows(world, "SELECT * FROM shop.nothing FOR SYSTEM_TIME ALL")
    with pytest.raises(QueryError, match="a column _gtid of its own"):
        rows(world, "SELECT * FROM shop.own FOR SYSTEM_TIME ALL")
    end = f"BETWEEN '{text_of(commits(world)[0])}' AND GTID '{executed(world)}'"
    with pytest.raises(Usage, match="after the moment of the query") as refused:
        rows(world, f"SELECT * FROM shop.t FOR SYSTEM_TIME {end}", first)
    assert f"--at {executed(world)}`" in str(refused.value)
    # The definition, and what is known of the ends of versions, are those of the query's moment.
    assert rows(world, "SELECT price, _valid_to FROM shop.t FOR SYSTEM_TIME ALL", first) == [(Decimal(1), None)]


def test_versions_go_through_other_names(world: PastWorld) -> None:
    followed(world, CREATE, "INSERT INTO t VALUES (1, 'a', 1)", "UPDATE t SET price = 2")
    before = executed(world)
    followed(world, "RENAME TABLE t TO u", "UPDATE u SET price = 3")
    when = commits(world)
    query = "SELECT price, _valid_from, _valid_to FROM shop.{} FOR SYSTEM_TIME {} ORDER BY _valid_from"
    every = [(Decimal(1), when[-4], when[-3]), (Decimal(2), when[-3], when[-1]), (Decimal(3), when[-1], None)]
    assert rows(world, query.format("u", "ALL")) == every
    # A range means the table that has the name at its end, with the columns of the query's moment.
    until = f"BETWEEN '{text_of(when[0])}' AND GTID '{before}'"
    assert rows(world, query.format("t", until), executed(world)) == every[:2]
    # No table has this name there: it is that of the query's moment.
    assert rows(world, query.format("u", until), executed(world)) == every[:2]
    with pytest.raises(Usage, match="did not exist any more"):
        rows(world, "SELECT * FROM shop.t FOR SYSTEM_TIME ALL", executed(world))
    followed(world, "DROP TABLE u")
    with pytest.raises(Usage, match=r"had this name at transaction \d+ did not exist any more") as refused:
        rows(world, query.format("t", until), executed(world))
    assert "`--at`" in str(refused.value)


def test_a_swap_of_names_swaps_the_versions(world: PastWorld) -> None:
    followed(world, CREATE, "CREATE TABLE s LIKE t", "INSERT INTO t VALUES (1, 'a', 1)")
    followed(world, "INSERT INTO s VALUES (1, 'b', 5)")
    followed(world, "UPDATE t SET price = 2", "RENAME TABLE t TO x, s TO t, x TO s", "UPDATE s SET price = 3")
    world.update()
    followed(world, "TRUNCATE TABLE t", "ALTER TABLE s RENAME TO r, RENAME COLUMN price TO cost", "DELETE FROM r")
    assert rows(world, "SELECT name, cost FROM shop.r FOR SYSTEM_TIME ALL ORDER BY cost") == [
        ("a", Decimal(1)),
        ("a", Decimal(2)),
        ("a", Decimal(3)),
    ]
    (row,) = rows(world, "SELECT name, price, _valid_to FROM shop.t FOR SYSTEM_TIME ALL")
    assert row == ("b", Decimal(5), commits(world)[-3])


def test_rows_from_before_the_mirror_are_not_made_up(world: PastWorld) -> None:
    followed(world, CREATE, "INSERT INTO t VALUES (1, 'a', 1)", "UPDATE t SET price = 2")
    followed(world, "RENAME TABLE t TO u", "UPDATE u SET price = 3")
    when = commits(world)
    # Without the mirror of the former name, the history begins with the new one.
    shutil.rmtree(Path(world.lake) / "mirrors/shop/shop/t")
    with pytest.raises(PastUnknownError, match="the history of the table's mirror begins there") as refused:
        rows(world, "SELECT * FROM shop.u FOR SYSTEM_TIME ALL")
    known = f"BETWEEN TIMESTAMP '{text_of(when[-2])}' AND"
    assert known in str(refused.value)
    query = f"SELECT price, _valid_from, _valid_to, _gtid IS NULL FROM shop.u FOR SYSTEM_TIME {known}"
    assert rows(world, f"{query} '{text_of(when[-2])}'") == [(Decimal(2), None, when[-1], 1)]
    with pytest.raises(PastUnknownError, match="begins there"):
        rows(world, f"SELECT price FROM shop.u FOR SYSTEM_TIME FROM '{text_of(when[-3])}' TO '{text_of(when[-2])}'")


def test_a_table_that_was_made_again_has_only_its_own_rows(world: PastWorld) -> None:
    followed(world, CREATE, "INSERT INTO t VALUES (1, 'a', 1)", "DROP TABLE t")
    followed(world, "CREATE TABLE t (x INT PRIMARY KEY)", "INSERT INTO t VALUES (7)", "TRUNCATE TABLE t")
    when = commits(world)
    query = "SELECT x, _valid_from, _valid_to FROM shop.t FOR SYSTEM_TIME ALL"
    assert rows(world, query) == [(7, when[-2], when[-1])]
    followed(world, "CREATE TABLE s (y INT PRIMARY KEY) SELECT 3 AS y")
    (row,) = rows(world, "SELECT y, _valid_from, _valid_to, _gtid IS NULL FROM shop.s FOR SYSTEM_TIME ALL")
    assert row == (3, commits(world)[-1], None, 0)


def test_every_type_has_the_values_that_the_table_has(world: PastWorld) -> None:
    count = max(len(values) for _, values in TYPES.values())
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in TYPES.items())
    every = [[values[number % len(values)] for _, values in TYPES.values()] for number in range(count)]
    inserts = [f"INSERT INTO a VALUES ({number}, {', '.join(values)})" for number, values in enumerate(every)]
    statements = [f"CREATE TABLE a (id INT PRIMARY KEY, {columns})", *inserts, "UPDATE a SET id = id + 100"]
    followed(world, "; ".join(["SET sql_mode = 'ALLOW_INVALID_DATES'", *statements]))
    versions = "FROM shop.a FOR SYSTEM_TIME ALL WHERE _valid_to"
    for name in REFUSED:
        with pytest.raises(QueryError):
            rows(world, f"SELECT id, {name} {versions} IS NULL")
    names = ", ".join(name for name in TYPES if name not in REFUSED)
    now = answer(world.readable, f"SELECT id, {names} FROM shop.a").rows.sort_by("id")
    found = answer(world.readable, f"SELECT id, {names} {versions} IS NULL").rows
    before = answer(world.readable, f"SELECT id + 100 AS id, {names} {versions} IS NOT NULL").rows
    assert found.schema == now.schema
    assert found.num_rows == count
    assert found.sort_by("id").equals(now)
    assert before.sort_by("id").select(now.column_names[1:]).equals(now.drop_columns("id"))


def test_values_that_no_column_holds_are_refused(world: PastWorld) -> None:
    followed(
        world,
        "CREATE TABLE d (id INT PRIMARY KEY, day DATE, made DATE, e ENUM('', 'x'))",
        "SET sql_mode = ''; INSERT INTO d VALUES (1, '0000-00-00', '2024-01-01', 'x')",
        "UPDATE d SET day = '2024-01-01'",
        "SET sql_mode = ''; ALTER TABLE d ADD COLUMN later DATE NOT NULL, ADD COLUMN given DATE DEFAULT '0000-00-00'",
        "UPDATE d SET later = '2024-01-01', given = '2024-01-01'",
        "SET sql_mode = ''; UPDATE d SET e = 'nothing'",
    )
    assert len(rows(world, "SELECT id, made FROM shop.d FOR SYSTEM_TIME ALL")) >= 4
    for column in ("day", "later", "given", "e"):
        with pytest.raises(QueryError, match=f"a value of {column} for which the lake has no column"):
            rows(world, f"SELECT {column} FROM shop.d FOR SYSTEM_TIME ALL")


@pytest.mark.parametrize("day", ["0000-00-00", "0000-05-05"])
def test_a_default_that_no_column_holds_is_refused_where_it_is_used(world: PastWorld, day: str) -> None:
    """Also where no row event has it: existing rows got it, or an INSERT with a MINIMAL image."""
    columns = f"day DATE DEFAULT '{day}', began DATETIME(3) DEFAULT '{day} 00:00:00', due DATE DEFAULT '{day}'"
    followed(
        world,
        f"SET sql_mode = ''; CREATE TABLE d (id INT PRIMARY KEY, {columns})",
        "SET sql_mode = ''; INSERT INTO d VALUES (1, NULL, NULL, NULL)",
        "SET sql_mode = ''; ALTER TABLE d ADD COLUMN later DATE DEFAULT '0000-05-05'",
        "SET sql_mode = '', binlog_row_image = MINIMAL; INSERT INTO d (id, due, later) VALUES (2, NULL, NULL)",
        "SET sql_mode = '', binlog_row_image = MINIMAL; UPDATE d SET id = id + 1 ORDER BY id DESC",
    )
    world.assert_equal()
    assert [row for row in rows(world, "SELECT due FROM shop.d FOR SYSTEM_TIME ALL") if row != (None,)] == []
    for column in ("day", "began", "later"):
        with pytest.raises(QueryError, match=f"a value of {column} for which the lake has no column"):
            rows(world, f"SELECT {column} FROM shop.d FOR SYSTEM_TIME ALL")


def test_a_value_that_the_type_of_now_does_not_have_is_refused(world: PastWorld) -> None:
    followed(
        world,
        CREATE,
        "INSERT INTO t VALUES (1, 'a', 1.25)",
        "ALTER TABLE t MODIFY price INT",
        "UPDATE t SET price = 5",
    )
    assert len(rows(world, "SELECT id FROM shop.t FOR SYSTEM_TIME ALL")) >= 2
    with pytest.raises(QueryError, match=r"price was decimal\(8,2\), and is int"):
        rows(world, "SELECT price FROM shop.t FOR SYSTEM_TIME ALL")
    last = f"GTID '{executed(world)}'"
    assert rows(world, f"SELECT price FROM shop.t FOR SYSTEM_TIME BETWEEN {last} AND {last}") == [(5,)]


def test_after_a_vacuum_and_at_earlier_moments(world: PastWorld) -> None:
    followed(world, CREATE, "INSERT INTO t VALUES (1, 'a', 1.5), (2, 'b', 2)")
    counts: dict[str, int] = {}
    for number in range(3, 5):
        followed(world, f"INSERT INTO t VALUES ({number}, 'c', 3)", f"DELETE FROM t WHERE id = {number - 2}")
        counts[executed(world)] = number
    mirror = Mirror.open(world.lake, world.name, TableName("shop", "t"))
    assert mirror is not None
    compact(mirror)
    vacuum(mirror.refreshed(), now_micros=time.time_ns() // 1000 + 10 * 3_600_000_000, retain_hours=0)
    followed(world, "INSERT INTO t VALUES (100, 'c', 3)")
    for at, count in {**counts, executed(world): 5}.items():
        assert rows(world, "SELECT COUNT(*) FROM shop.t FOR SYSTEM_TIME ALL", at) == [(count,)]


def test_versions_in_a_lake_at_a_url(server: MysqlServer, tmp_path: Path, lake: str) -> None:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    world = PastWorld(server, tmp_path, name="shop", lake_url=lake)
    followed(world, CREATE, "INSERT INTO t VALUES (1, 'a', 1.5)", "UPDATE t SET price = 2")
    world.server.run_sql("DELETE FROM t", "shop")
    world.publish()
    query = "SELECT price, _valid_to IS NULL FROM shop.t FOR SYSTEM_TIME ALL ORDER BY 1"
    assert rows(world, query) == [(Decimal("1.50"), 0), (Decimal("2.00"), 1)]
    assert rows(world, query, executed(world)) == [(Decimal("1.50"), 0), (Decimal("2.00"), 0)]


def test_versions_of_mariadb(tmp_path: Path) -> None:
    with start_mariadb(tmp_path / "server", next(iter(PREFIXES))) as server:
        server.run_sql("CREATE DATABASE shop")
        (tmp_path / "world").mkdir()
        world = PastWorld(server, tmp_path / "world", name="shop")
        followed(world, f"{CREATE} INSERT INTO t VALUES (1, 'a', 1.5)", "UPDATE t SET price = 2")
        at = server.run_sql(server.executed_sql).split("\n")[1]
        followed(world, "ALTER TABLE t RENAME COLUMN price TO cost", "DELETE FROM t")
        query = "SELECT cost, _valid_to IS NULL FROM shop.t FOR SYSTEM_TIME ALL ORDER BY cost"
        assert rows(world, query) == [(Decimal("1.50"), 0), (Decimal("2.00"), 0)]
        query = f"SELECT cost, _gtid FROM shop.t FOR SYSTEM_TIME BETWEEN GTID '{at}' AND GTID '{at}'"
        assert rows(world, query) == [(Decimal("2.00"), at)]
