"""Views of that time: what their names meant when they were made, whatever the tables became; and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pymysql
import pytest
import sqlalchemy as sa

from strata_cdc.errors import PastUnknownError, QueryError, Usage
from strata_cdc.past.query import answer
from tests.mariadb_server import PREFIXES, start_mariadb
from tests.past.past_world import SESSION, PastWorld, difference, executed, rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]
CREATE = (
    "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(10), price DECIMAL(8, 2)); CREATE TABLE u (t INT, x INT);"
    "INSERT INTO t VALUES (1, 'a', 1.5), (2, 'B', 2), (3, NULL, 3); INSERT INTO u VALUES (1, 7), (1, 8), (3, 9);"
)


@pytest.fixture
def world(server: MysqlServer, tmp_path: Path) -> PastWorld:
    server.run_sql("DROP DATABASE IF EXISTS shop; DROP DATABASE IF EXISTS b2; RESET BINARY LOGS AND GTIDS")
    server.run_sql(f"CREATE DATABASE shop; CREATE DATABASE b2; USE shop; {CREATE}")
    return PastWorld(server, tmp_path, name="shop")


def mirror(world: PastWorld) -> None:
    """Brings the mirrors up to now."""
    world.publish()
    world.update()


def assert_as_now(world: PastWorld, *queries: str) -> None:
    """The server has these answers now."""
    for query in queries:
        expected, description = world.select(query)
        assert difference(expected, description, answer(world.readable, query).rows, is_ordered=False) is None, query


def selected(world: PastWorld, view: str) -> tuple[Any, Any] | None:
    """The rows of a view now; None if the server refuses it."""
    try:
        return world.select(f"SELECT * FROM {view}")
    except pymysql.err.OperationalError:
        return None


MADE = {
    "CREATE VIEW v AS SELECT * FROM t": "star",
    "CREATE VIEW v AS SELECT t.*, u.* FROM t JOIN u ON id = t": "stars of two tables",
    "CREATE VIEW v AS SELECT name, x FROM t JOIN u ON id = t": "names of one table each",
    "CREATE VIEW v AS SELECT (SELECT MAX(x) FROM u WHERE t = id) AS top, name FROM t": "a name of an outer query",
    "CREATE VIEW v AS SELECT id AS k, name AS n FROM t ORDER BY n DESC LIMIT 2": "an order by a name of the result",
    "CREATE VIEW v AS SELECT * FROM t NATURAL JOIN u": "a natural join",
    "CREATE VIEW v AS SELECT s.* FROM (SELECT * FROM t WHERE id < 3) s": "a query in FROM",
    "CREATE VIEW v (`a b`, c) AS (SELECT id, name FROM t) UNION (SELECT x, 'z' FROM u)": "a union with names",
    "CREATE VIEW v AS SELECT id + 1, CONCAT(name, 'x'), COUNT(*), 'text', price*2 FROM t GROUP BY id": "texts as names",
    "CREATE VIEW v AS SELECT t.*, CONCAT('0123456789012345678901234567890123456789', '01234567890123456789012') "
    "FROM t": "a name that is too long",
    "CREATE VIEW v AS SELECT id FROM t WHERE EXISTS (SELECT * FROM u WHERE u.t = id) WITH LOCAL CHECK OPTION": "EXISTS",
}


@pytest.mark.parametrize("statement", MADE, ids=MADE.values())
def test_names_mean_what_they_meant_when_the_view_was_made(world: PastWorld, statement: str) -> None:
    world.server.run_sql(statement, "shop")
    mirror(world)
    if "NATURAL" in statement:
        with pytest.raises(QueryError, match=r"the view shop\.v of that time: NATURAL JOIN is not translated"):
            rows(world, "SELECT * FROM shop.v")
        return
    before, then = executed(world), world.select("SELECT * FROM shop.v")
    assert_as_now(world, "SELECT * FROM shop.v")
    world.server.run_sql(
        "ALTER TABLE t ADD COLUMN x INT DEFAULT 5 FIRST, ADD COLUMN t INT DEFAULT 6;"
        "ALTER TABLE u ADD COLUMN id INT DEFAULT 1, ADD COLUMN name VARCHAR(10) DEFAULT 'u';"
        "INSERT INTO u (t) VALUES (2)",
        "shop",
    )
    mirror(world)
    assert_as_now(world, "SELECT * FROM shop.v")
    assert difference(*then, answer(world.readable, "SELECT * FROM shop.v", before).rows, is_ordered=False) is None
    as_of = f"SELECT a.* FROM shop.v FOR SYSTEM_TIME AS OF GTID '{before}' AS a"
    assert difference(*then, answer(world.readable, as_of).rows, is_ordered=False) is None


def test_a_view_has_the_text_of_the_moment(world: PastWorld) -> None:
    texts = (
        "CREATE VIEW v AS SELECT id FROM t",
        "ALTER VIEW v AS SELECT id, name FROM t WHERE id > 1",
        "CREATE OR REPLACE VIEW v AS SELECT x FROM u",
        "CREATE VIEW b2.w AS SELECT * FROM shop.v",
        "ALTER VIEW v AS SELECT x, t FROM u WHERE x > 7",
        "INSERT INTO u VALUES (2, 10)",
        "RENAME TABLE v TO w; CREATE VIEW v AS SELECT * FROM w WHERE x = 8",
        "DROP VIEW w; CREATE TABLE w (x INT, t INT, y INT); INSERT INTO w VALUES (8, 1, 2)",
        "DROP VIEW v; CREATE TABLE v (z INT); INSERT INTO v VALUES (4)",
    )
    kept = []
    for statement in texts:
        world.server.run_sql(statement, "shop")
        views = ["shop.v", "b2.w"] if "b2" in "".join(texts[: texts.index(statement) + 1]) else ["shop.v"]
        kept.append((executed(world), [(view, selected(world, view)) for view in views]))
        mirror(world)
    for at, answers in kept:
        for view, expected in answers:
            if expected is None:
                with pytest.raises(QueryError, match=r"the view b2\.w of that time: there is no column"):
                    rows(world, f"SELECT * FROM {view}", at)
                continue
            found = answer(world.readable, f"SELECT * FROM {view}", at).rows
            assert difference(*expected, found, is_ordered=False) is None, (view, at)
    assert sum(expected is None for _, answers in kept for _, expected in answers) == 1
    with pytest.raises(Usage, match="did not exist"):
        rows(world, "SELECT * FROM b2.w", kept[0][0])


def test_what_the_server_refuses_is_refused(world: PastWorld) -> None:
    world.server.run_sql(
        "CREATE VIEW v AS SELECT * FROM t; CREATE VIEW w AS SELECT x FROM u; CREATE VIEW o AS SELECT id AS y FROM t "
        "GROUP BY y; CREATE VIEW f AS SELECT id FROM t WHERE price > RAND(); CREATE VIEW n AS SELECT NOW() AS n;"
        "CREATE VIEW m AS SELECT w.x FROM w",
        "shop",
    )
    mirror(world)
    assert rows(world, "SELECT y FROM shop.o ORDER BY y") == [(1,), (2,), (3,)]
    world.server.run_sql("ALTER TABLE t DROP COLUMN price, ADD COLUMN y INT; RENAME TABLE u TO u2", "shop")
    mirror(world)
    at = executed(world)
    for query, message in {
        "SELECT id FROM shop.v": r"the view shop\.v of that time: there is no column price",
        "SELECT * FROM shop.w": r"the view shop\.w of that time: the table did not exist any more",
        "SELECT * FROM shop.m": r"the view shop\.m of that time: the view shop\.w of that time: the table did not",
        # The server reads its own text again, and groups by the column.
        "SELECT * FROM shop.o": "y was the name of an expression when the view was made",
        "SELECT * FROM shop.n": r"the view shop\.n of that time: NOW\(\) is not translated",
        "SELECT * FROM shop.v FOR SYSTEM_TIME ALL": r"shop\.v is a view, and FOR SYSTEM_TIME has only AS OF for views",
    }.items():
        with pytest.raises(QueryError, match=message):
            rows(world, query, at)
    with pytest.raises(QueryError, match=r"the view shop\.f of that time: RAND"):
        rows(world, "SELECT * FROM shop.f", at)


MODES: tuple[tuple[str, str, str | None], ...] = (
    ("ANSI", """SELECT "id", '"' AS "q", "name" FROM "t" WHERE "name" = 'a'""", None),
    ("ANSI", "SELECT id, name || '-' || price AS p, name||(id+1), COUNT(*) FROM t WHERE id <> 3 GROUP BY id", None),
    ("ANSI", "SELECT name || 'x' = 'ax' AS e FROM t WHERE 'b' || '' > '' OR id = 2", None),
    ("ANSI", "SELECT 1 + name || 'x' AS p FROM t", r"CONCAT\(name, 'x'\) is no number"),
    ("NO_BACKSLASH_ESCAPES", r"SELECT id, 'a\' AS b FROM t", "written with the sql_mode NO_BACKSLASH_ESCAPES"),
    ("HIGH_NOT_PRECEDENCE", "SELECT id FROM t WHERE NOT id BETWEEN 0 AND 1", "sql_mode HIGH_NOT_PRECEDENCE"),
)


def test_the_mode_of_the_statement_decides_what_is_read(world: PastWorld) -> None:
    with world.server.connect("shop", init_command=SESSION) as connection, connection.cursor() as cursor:
        for mode, query, refused in MODES:
            cursor.execute(f"SET sql_mode = '{mode}'")
            cursor.execute(f"CREATE OR REPLACE VIEW v AS {query}")
            mirror(world)
            if refused is None:
                assert_as_now(world, "SELECT * FROM shop.v")
                continue
            with pytest.raises(QueryError, match=refused):
                rows(world, "SELECT * FROM shop.v")


def test_texts_from_before_the_stream_come_from_a_snapshot(world: PastWorld) -> None:
    world.server.run_sql(
        "CREATE VIEW v AS SELECT * FROM t; CREATE VIEW v2 (k, `the n`) AS SELECT id, name FROM t LEFT JOIN u ON "
        "u.t = id JOIN u w ON w.t = t.id WHERE name LIKE 'a%' OR NOT price > 1 ORDER BY name; CREATE VIEW v3 AS "
        "SELECT COUNT(*) AS c, MAX(x) FROM v, u GROUP BY u.t HAVING c > 1; FLUSH BINARY LOGS;",
        "shop",
    )
    world.server.run_sql(f"PURGE BINARY LOGS TO '{world.server.binlogs()[-1].name}'")
    world.server.run_sql("CREATE TABLE later (id INT PRIMARY KEY)", "shop")
    world.publish()
    with pytest.raises((PastUnknownError, Usage)):
        rows(world, "SELECT * FROM shop.v", executed(world))
    first = executed(world)
    world.server.run_sql(
        "DROP TABLE t, u; CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(10), price DECIMAL(8, 2)) CHARSET utf8mb4;"
        "CREATE TABLE u (t INT, x INT); INSERT INTO t VALUES (1, 'a', 1.5), (2, 'B', 2); INSERT INTO u VALUES (1, 4)",
        "shop",
    )
    world.snapshot()
    world.server.run_sql("INSERT INTO u VALUES (1, 5)", "shop")
    mirror(world)
    assert_as_now(world, "SELECT * FROM shop.v", "SELECT * FROM shop.v2", "SELECT * FROM shop.v3")
    world.server.run_sql("ALTER TABLE t ADD COLUMN x INT; ALTER VIEW v2 AS SELECT * FROM t", "shop")
    mirror(world)
    assert_as_now(world, "SELECT * FROM shop.v", "SELECT * FROM shop.v2", "SELECT * FROM shop.v3")
    with pytest.raises((PastUnknownError, Usage)):
        rows(world, "SELECT * FROM shop.v", first)


def test_texts_of_former_versions_are_not_known(world: PastWorld) -> None:
    """ALTER VIEW was not tracked, so no text of their stores counts, until a snapshot has it."""
    world.server.run_sql("CREATE VIEW v AS SELECT id FROM t; CREATE VIEW w AS SELECT * FROM v", "shop")
    mirror(world)
    with world.engine.begin() as connection:
        connection.execute(sa.text("UPDATE view_version SET definition = NULL WHERE view_name = 'v'"))
    for view in ("v", "w"):
        with pytest.raises(PastUnknownError, match=r"the text of the view at transaction \d+ is not known") as refused:
            rows(world, f"SELECT * FROM shop.{view}")
        assert "strata snapshot --source shop" in str(refused.value)
    world.snapshot()
    world.server.run_sql("INSERT INTO t VALUES (9, 'z', 0)", "shop")
    mirror(world)
    assert_as_now(world, "SELECT * FROM shop.v")


def test_views_go_with_their_database(world: PastWorld) -> None:
    world.server.run_sql("CREATE VIEW b2.v AS SELECT id FROM t", "shop")
    mirror(world)
    then = executed(world)
    world.server.run_sql("DROP DATABASE b2; CREATE DATABASE b2")
    mirror(world)
    with pytest.raises(Usage, match="did not exist"):
        rows(world, "SELECT * FROM b2.v", executed(world))
    assert len(rows(world, "SELECT * FROM b2.v", then)) == 3
    world.server.run_sql("CREATE TABLE IF NOT EXISTS b2.v (a INT); INSERT INTO b2.v VALUES (5)")
    mirror(world)
    assert rows(world, "SELECT * FROM b2.v", executed(world)) == [(5,)]


def test_the_newest_moment_is_that_of_the_tables_of_views(world: PastWorld) -> None:
    world.server.run_sql("CREATE VIEW v AS SELECT id FROM t", "shop")
    mirror(world)
    world.server.run_sql("INSERT INTO t VALUES (9, 'z', 0); CREATE OR REPLACE VIEW v AS SELECT x FROM u", "shop")
    world.publish()
    # The mirrors have not followed yet: at their last moment, the view is the old one.
    assert answer(world.readable, "SELECT * FROM shop.v").rows.column_names == ["id"]
    assert rows(world, "SELECT COUNT(*) FROM shop.v") == [(3,)]
    print(world.update())
    assert rows(world, "SELECT * FROM shop.v ORDER BY x") == [(7,), (8,), (9,)]


def test_mariadb(tmp_path: Path) -> None:
    with start_mariadb(tmp_path / "server", next(iter(PREFIXES))) as server:
        (tmp_path / "world").mkdir()
        server.run_sql(f"CREATE DATABASE shop; USE shop; {CREATE} CREATE VIEW old (a, b) AS SELECT id, name FROM t")
        world = PastWorld(server, tmp_path / "world", name="shop")
        server.run_sql(
            "CREATE VIEW v AS SELECT *, id + 1 FROM t; CREATE VIEW IF NOT EXISTS v AS SELECT 1;ALTER TABLE t ADD x INT",
            "shop",
        )
        mirror(world)
        assert_as_now(world, "SELECT * FROM shop.v", "SELECT * FROM shop.old")
        server.run_sql("ALTER VIEW v AS SELECT name FROM t; RENAME TABLE v TO v2", "shop")
        mirror(world)
        assert_as_now(world, "SELECT * FROM shop.v2")
