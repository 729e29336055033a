"""Columns that get other types, some of them several times, on a real server: the view of a table without a mirror has
the rows of SELECT wherever a mirror has them, and else it has them or an error. It looks up what SQL cannot convert."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pymysql
import pytest

from strata_cdc.dialects.engines import Dialect
from strata_cdc.dialects.relations import Through
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.stream_positions import AtSeq
from strata_cdc.schema.history.table_changes import table_changes_of
from strata_cdc.schema.model.conversions import KNOWN, ValueClass, value_class
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.model.types import parse_column_type
from strata_cdc.tables.layout import INTERVAL, table_url
from strata_cdc.tables.lost import open_changes
from strata_cdc.tables.port import DataFile
from strata_cdc.views.make_views import MadeView, ViewKind, make_views
from tests.mirrors.world import MirrorWorld, without_mirrors
from tests.seeds import seeds
from tests.spark_session import spark
from tests.tables.server_rows import LITERALS, MODES, TYPES, run, selected
from tests.views.test_views import load_delta

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.schema.model.definition import TableDefinition
    from tests.mysql_server import MysqlServer

__all__ = ["spark"]

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

TABLES = int(os.environ.get("STRATA_VIEW_TABLES", "40"))
TABLES_OF_SPARK = 6
MANY = 30_000
KINDS = [*TYPES, "enum('','a','a','x')", "enum('x','','a')", "set('x','','y')", "set('x','x','a')"]
"""With labels that are empty or have one text."""
NUMBERS = ["0", "1", "2", "3", "4"]
"""Of labels."""
ROWS, ALTERS = 6, 3
ONLY_A_MIRROR = "what the server made of this value only a mirror tells"


Read = Callable[[str], pa.Table | str]


class Draw:
    """Statements that fill tables and give their columns other types."""

    def __init__(self, random: Random, images: tuple[str, ...]) -> None:
        self.random, self.images = random, images
        self.types: dict[str, str] = {}
        self.literals: dict[tuple[str, str], list[str]] = {}
        """Some for each table and type: of all together nearly always a value is refused."""

    def begin(self, count: int) -> Iterator[str]:
        for number in range(count):
            table = f"t{number}"
            self.types[table] = self.random.choice(KINDS)
            yield f"CREATE TABLE {table} (id INT PRIMARY KEY, c {self.types[table]}, n INT)"
            yield from self.rows(table, 0)

    def rows(self, table: str, first: int) -> Iterator[str]:
        yield f"SET SESSION binlog_row_image = {self.random.choice(self.images)}"
        for number in range(first, first + ROWS):
            yield f"INSERT IGNORE INTO {table} (id, c) VALUES ({number}, {self.literal(table)})"
        yield f"INSERT IGNORE INTO {table} (id) VALUES ({first + ROWS})"
        yield f"UPDATE {table} SET id = id + 500 WHERE id = {first + 1}"
        yield f"UPDATE IGNORE {table} SET c = {self.literal(table)} WHERE id = {first + 2}"
        yield f"UPDATE {table} SET n = 1 WHERE id = {first + 3}"
        yield f"DELETE FROM {table} WHERE id = {first + 4}"

    def literal(self, table: str) -> str:
        kind = value_class(parse_column_type(self.types[table].partition(" c")[0]).kind)
        every = LITERALS[kind] + (NUMBERS if kind in {ValueClass.ENUM, ValueClass.SET} else [])
        some = self.literals.setdefault((table, kind), self.random.sample(every, 2))
        return "NULL" if self.random.random() < 0.1 else self.random.choice(some)

    def alter(self, table: str) -> Iterator[str]:
        """To a type into which values can be converted."""
        one = value_class(parse_column_type(self.types[table].partition(" c")[0]).kind)
        into = [
            other for other in KINDS if (one, value_class(parse_column_type(other.partition(" c")[0]).kind)) in KNOWN
        ]
        wanted = self.random.choice(into)
        modes = [name for name in MODES if name != "ANSI_QUOTES" and self.random.random() < 0.1]
        yield f"SET SESSION sql_mode = '{','.join(modes)}'"
        yield f"SET SESSION time_zone = '{self.random.choice(['+00:00', '+05:30'])}'"
        null = self.random.choice(["", "", " NOT NULL"])
        yield f"ALTER TABLE {table} MODIFY c {wanted}{null}"
        yield "SET SESSION sql_mode = '', time_zone = '+00:00'"

    def took(self, table: str, statement: str) -> None:
        if statement.startswith("ALTER"):
            self.types[table] = statement.split(" MODIFY c ")[1].replace(" NOT NULL", "")


@pytest.fixture
def world(server: MysqlServer, tmp_path: Path) -> MirrorWorld:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop;")
    return MirrorWorld(server, tmp_path)


def live(world: MirrorWorld, random: Random, tables: int, images: tuple[str, ...] = ("FULL", "MINIMAL")) -> Draw:
    """Tables whose columns had several types."""
    draw = Draw(random, images)
    with world.server.connect("shop") as connection:
        run(connection, "SET SESSION sql_mode = '', time_zone = '+00:00', explicit_defaults_for_timestamp = 1")
        for statement in draw.begin(tables):
            attempt(connection, statement)
        for number in range(1, random.randint(1, ALTERS) + 1):
            for table in list(draw.types):
                for statement in draw.alter(table):
                    if attempt(connection, statement):
                        draw.took(table, statement)
                for statement in draw.rows(table, 20 * number):
                    attempt(connection, statement)
    return draw


def attempt(connection: pymysql.Connection[Any], statement: str) -> bool:
    try:
        run(connection, statement)
    except pymysql.Error:
        return False
    return True


class Judge:
    """SELECT, and who is held against it."""

    def __init__(self, world: MirrorWorld) -> None:
        self.world = world
        self.tally: Counter[str] = Counter()

    def views(self, dialect: Dialect) -> list[MadeView]:
        """As if there were no mirrors."""
        world = self.world
        return make_views(without_mirrors(world), "s", world.engine, dialect, Through.FILES)

    def look(self, dialect: Dialect, execute: Callable[[str], Any], read: Read) -> None:
        """All tables.

        Args:
            dialect: The engine.
            execute: Runs a statement of a view.
            read: The rows of a table's view by `id`, or what the engine says.
        """
        world = self.world
        report = world.update()
        behind = {one.table for one in report.mirrors if one.behind or one.error}
        made = self.views(dialect)
        for statement in [statement for one in made for statement in one.statements]:
            execute(statement)
        with world.server.connect("shop", init_command="SET time_zone = '+00:00'") as connection:
            for view in [one for one in made if one.kind is ViewKind.NOW]:
                definition = definition_of(world, view.table)
                assert definition is not None
                try:
                    wanted = selected(connection, view.table.table, definition)
                except (pa.ArrowInvalid, ValueError):
                    continue
                self.compare(view, read, wanted, follows=str(view.table) not in behind)

    def compare(self, view: MadeView, read: Read, wanted: pa.Table, *, follows: bool) -> None:
        found = read(view.table.table)
        if not isinstance(found, str):
            assert repr(found.to_pylist()) == repr(wanted.to_pylist()), (view.table, follows, view.statements)
            self.tally["looked up" if "made_" in view.statements[-1] else "in SQL"] += 1
            return
        assert not follows, (view.table, found, view.statements)
        assert ONLY_A_MIRROR in found or "the log does not tell" in found, found
        self.tally["refused"] += 1


def definition_of(world: MirrorWorld, table: TableName) -> TableDefinition | None:
    history = History(SchemaStore(world.engine), "s")
    return history.at(table, AtSeq(history.tracked.seq)).definition


@pytest.mark.soak
@pytest.mark.parametrize("seed", seeds())
def test_duckdb_has_what_select_has(world: MirrorWorld, seed: int) -> None:
    live(world, Random(seed), TABLES)
    world.publish()
    judge = Judge(world)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")

        def read(table: str) -> pa.Table | str:
            try:
                return pa.table(connection.execute(f"SELECT * FROM shop.{table} ORDER BY id").arrow())
            except duckdb.InvalidInputException as error:
                return str(error)

        judge.look(Dialect.DUCKDB, connection.execute, read)
    assert judge.tally["looked up"] > TABLES // 10, judge.tally


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.parametrize("seed", seeds())
def test_spark_has_what_select_has(world: MirrorWorld, seed: int, spark: Any) -> None:
    # Spark does not follow rows to other keys, which MINIMAL images need.
    live(world, Random(seed + 1), TABLES_OF_SPARK, ("FULL",))
    world.publish()
    judge = Judge(world)

    def read(table: str) -> pa.Table | str:
        try:
            return spark.sql(f"SELECT * FROM shop__{table} ORDER BY id").toArrow()
        except Exception as error:
            if "USER_RAISED_EXCEPTION" not in str(error):
                raise
            return str(error)

    judge.look(Dialect.SPARK, spark.sql, read)
    assert judge.tally["looked up"], judge.tally


@pytest.fixture
def floats(world: MirrorWorld) -> MirrorWorld:
    world.server.run_sql(
        "CREATE TABLE t (id INT PRIMARY KEY, c DOUBLE);"
        "INSERT INTO t VALUES (1, 0.1), (2, -0e0), (3, 0e0), (4, NULL), (5, 1e300), (6, 0.1);"
        "ALTER TABLE t MODIFY c VARCHAR(30); INSERT INTO t VALUES (7, 'new')",
        "shop",
    )
    world.publish()
    return world


FLOATS = [(1, "0.1"), (2, "-0"), (3, "0"), (4, None), (5, "1e300"), (6, "0.1"), (7, "new")]


def test_a_value_that_was_published_later_is_an_error(floats: MirrorWorld) -> None:
    made = make_views(floats.lake, "s", floats.engine, Dialect.DUCKDB, Through.DELTA)
    with duckdb.connect() as connection:
        load_delta(connection)
        for statement in [statement for one in made for statement in one.statements]:
            connection.execute(statement)
        assert connection.execute("SELECT * FROM shop.t ORDER BY id").fetchall() == FLOATS
        publish_more(floats, id=8, c=0.1)
        assert connection.execute("SELECT * FROM shop.t ORDER BY id").fetchall() == [*FLOATS, (8, "0.1")]
        publish_more(floats, id=9, c=2.5)
        with pytest.raises(duckdb.InvalidInputException, match=f"{ONLY_A_MIRROR}.*`strata views` run again"):
            connection.execute("SELECT c FROM shop.t").fetchall()
        made = make_views(floats.lake, "s", floats.engine, Dialect.DUCKDB, Through.DELTA)
        for statement in [statement for one in made for statement in one.statements]:
            connection.execute(statement)
        found = connection.execute("SELECT * FROM shop.t ORDER BY id").fetchall()
        assert found == [*FLOATS, (8, "0.1"), (9, "2.5")]


def publish_more(world: MirrorWorld, **row: object) -> None:
    """An INSERT of the first version, in a file of its own."""
    table = open_changes(world.lake, "s", TableName("shop", "t"))
    assert table is not None
    (interval,) = set(table.files().values())
    shown = table.read_rows(None, None, None)
    first = shown.filter(pc.equal(shown["id"], 1))
    columns = [name for name in first.column_names if name != INTERVAL]
    more = [first.select(columns).to_pylist()[0] | row | {"_row": row["id"]}]
    # Its columns are as those of the files that are there.
    path = next(iter(table.files())).rpartition("/")[0] + f"/later-{row['id']}.parquet"
    url = Path(table_url(world.lake, "s", TableName("shop", "t")))
    pq.write_table(pa.Table.from_pylist(more, schema=first.select(columns).schema), url / path)
    stats = json.dumps({"numRecords": 1})
    table.commit("s", [DataFile(path, interval, (url / path).stat().st_size, stats)], {})


@pytest.mark.parametrize("later", ["MODIFY c VARCHAR(30)", "MODIFY c BIGINT", "RENAME COLUMN c TO d"])
def test_a_row_of_a_version_of_which_nothing_was_published_is_an_error(world: MirrorWorld, later: str) -> None:
    """The column was added and changed, and no row of the version between is published: its values will be in a column
    that the view does not know."""
    world.server.run_sql(
        "CREATE TABLE t (id INT PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 1);"
        f"ALTER TABLE t ADD c INT; ALTER TABLE t {later}; UPDATE t SET id = 2",
        "shop",
    )
    world.publish()
    for through in (Through.FILES, Through.DELTA):
        with duckdb.connect() as connection:
            load_delta(connection)
            for statement in statements_of(world, through):
                connection.execute(statement)
            assert connection.execute("SELECT * FROM shop.t").fetchall() == [(2, 1, None)]
            if through is Through.FILES:
                continue
            publish_more(world, id=3, _schema_version=versions_of(world)[1])
            # Changes have no values of types that a cast does not show, and say so.
            for view in ("t",) if "VARCHAR" in later else ("t", "t__changes"):
                message = "[cd]: the row was published later .*run `strata views` again"
                with pytest.raises(duckdb.InvalidInputException, match=message):
                    connection.execute(f"SELECT * FROM shop.{view}").arrow().read_all()


def test_a_null_is_not_taken_for_an_empty_label(world: MirrorWorld) -> None:
    world.server.run_sql(
        "CREATE TABLE t (id INT PRIMARY KEY, c SET('x', 'y', '')); INSERT INTO t VALUES (1, 4), (2, NULL), (3, 'x');"
        "SET SESSION sql_mode = ''; ALTER TABLE t MODIFY c SET('x', 'y')",
        "shop",
    )
    world.publish()
    with world.server.connect("shop") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id, c FROM t ORDER BY id")
        selected_rows = [*cursor.fetchall()]
    assert selected_rows[1] == (2, None)
    for through in (Through.FILES, Through.DELTA):
        with duckdb.connect() as duck:
            load_delta(duck)
            for statement in statements_of(world, through):
                duck.execute(statement)
            assert duck.execute("SELECT id, c FROM shop.t ORDER BY id").fetchall() == selected_rows


def statements_of(world: MirrorWorld, through: Through) -> list[str]:
    made = make_views(world.lake, "s", world.engine, Dialect.DUCKDB, through)
    return [statement for one in made for statement in one.statements]


def versions_of(world: MirrorWorld) -> list[int]:
    """Ids of the versions of the table `t`, oldest first."""
    return [one.version_id for one in table_changes_of(world.engine, "s") if one.name == TableName("shop", "t")]


def many(world: MirrorWorld) -> list[MadeView]:
    """A table with many different values, half of which became others, in a column and in the key."""
    world.server.run_sql(
        "USE shop; CREATE TABLE t (id DOUBLE PRIMARY KEY, c TIME(3)); SET SESSION cte_max_recursion_depth = 1000000;"
        f"INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {MANY - 1})"
        " SELECT i / 8, SEC_TO_TIME(i / 8) FROM n;"
        "ALTER TABLE t MODIFY id VARCHAR(30) COLLATE utf8mb4_bin, MODIFY c VARCHAR(30);"
        "UPDATE t SET c = 'new' WHERE id LIKE '1%'; DELETE FROM t WHERE id LIKE '2%'"
    )
    world.publish()
    return make_views(without_mirrors(world), "s", world.engine, Dialect.DUCKDB, Through.FILES)


def of_server(world: MirrorWorld) -> list[Any]:
    with world.server.connect("shop") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT * FROM t ORDER BY id")
        return list(cursor.fetchall())


def test_more_values_than_anybody_reads(world: MirrorWorld) -> None:
    made = many(world)
    with duckdb.connect() as connection:
        for statement in [statement for one in made for statement in one.statements]:
            connection.execute(statement)
        assert connection.execute("SELECT * FROM shop.t ORDER BY id").fetchall() == of_server(world)


@pytest.mark.spark
def test_more_values_than_anybody_reads_in_spark(world: MirrorWorld, spark: Any) -> None:
    many(world)
    for one in make_views(without_mirrors(world), "s", world.engine, Dialect.SPARK, Through.FILES):
        for statement in one.statements:
            spark.sql(statement)
    found = spark.sql("SELECT * FROM shop__t").toArrow().to_pydict()
    assert sorted(zip(found["id"], found["c"], strict=True)) == of_server(world)


def test_keys_and_names_like_those_of_the_view(world: MirrorWorld) -> None:
    """Keys are looked up in the image before a change, too."""
    world.server.run_sql(
        "CREATE TABLE t (id VARCHAR(5) COLLATE utf8mb4_bin PRIMARY KEY, MADE_1_1 TIME(3), made FLOAT, _made BLOB);"
        "INSERT INTO t VALUES ('é', '10:00:00.125', 0.1, 'a'), ('ü', '-10:00:01.5', 1e10, 'b'), ('ä', NULL, 2, 'c');"
        "UPDATE t SET id = 'ö' WHERE id = 'é'; DELETE FROM t WHERE id = 'ä';"
        "ALTER TABLE t MODIFY id VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_bin, MODIFY MADE_1_1 VARCHAR(20),"
        " MODIFY made VARCHAR(30), MODIFY _made TEXT;"
        "INSERT INTO t VALUES ('é', 'new', 'new', 'new'); UPDATE t SET made = 'changed' WHERE id = 'ü'",
        "shop",
    )
    world.publish()
    judge = Judge(world)
    with duckdb.connect() as connection:
        judge.look(
            Dialect.DUCKDB,
            connection.execute,
            lambda table: pa.table(connection.execute(f"SELECT * FROM shop.{table} ORDER BY id").arrow()),
        )
    assert judge.tally["looked up"] == 1
