"""Views of mirrors whose files hold dead rows, read from files alone, have the rows of SELECT."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from strata_cdc.dialects.engines import Dialect
from strata_cdc.dialects.relations import Through
from strata_cdc.mirrors.renames import Renames
from strata_cdc.views.make_views import MadeView, ViewKind, make_views
from tests.mirrors.world import MirrorWorld
from tests.spark_session import spark
from tests.views.test_views import of_kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pymysql

    from tests.mysql_server import MysqlServer

__all__ = ["spark"]

pytestmark = pytest.mark.mysql

SEED = 20
TABLES = {"plain": "", "numbered": ", FILE_ROW_NUMBER INT", "described": ", _Metadata INT"}
"""With a column that hides the numbers of rows from an engine."""


@pytest.fixture(scope="module")
def world(server: MysqlServer, tmp_path_factory: pytest.TempPathFactory) -> MirrorWorld:
    """Tables of which each update leaves dead rows, in files with different columns."""
    folder = tmp_path_factory.mktemp("dead") / "la'ke {1}"
    folder.mkdir()
    world = MirrorWorld(server, folder, renames=lambda _: Renames.KEEP)
    server.run_sql("CREATE DATABASE shop")
    with server.connect("shop") as connection:
        for name, hidden in TABLES.items():
            run(connection, f"CREATE TABLE {name} (id INT PRIMARY KEY, note VARCHAR(20){hidden})")
            for statements in steps(name, Random(SEED)):
                for statement in statements:
                    run(connection, statement)
                world.publish()
                world.update()
    for name in TABLES:
        mirror = world.mirror(name)
        assert mirror is not None
        assert sum(file.vector is not None for file in mirror.snapshot.files.values()) > 1
    return world


def steps(name: str, random: Random) -> Iterator[list[str]]:
    """What happens to a table between the updates of its mirror."""
    note = "note"
    for step in range(4):
        rows = ", ".join(f"({row}, 'of step {step}')" for row in range(step * 300, step * 300 + 300))
        statements = [f"INSERT INTO {name} (id, {note}) VALUES {rows}"]
        if step == 2:
            note = '`n"o``tes`'
            statements.append(f"ALTER TABLE {name} ADD added INT, RENAME COLUMN note TO {note}")
        for _ in range(3):
            key = random.randrange(step * 300 + 300)
            statements.append(f"UPDATE {name} SET id = -id WHERE id BETWEEN {key} AND {key + 5}")
            statements.append(f"DELETE FROM {name} WHERE id % 50 = {key % 50} LIMIT 3")
        yield statements


def run(connection: pymysql.Connection, statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def made_for(world: MirrorWorld, dialect: Dialect) -> dict[str, MadeView]:
    return of_kind(make_views(world.lake, "s", world.engine, dialect, Through.FILES), ViewKind.NOW)


def selected(world: MirrorWorld, name: str) -> list[tuple[Any, ...]]:
    with world.server.connect("shop") as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {name} ORDER BY id")
        return list(cursor.fetchall())


@pytest.mark.soak
@pytest.mark.parametrize("name", ["plain", "described"])
def test_duckdb(world: MirrorWorld, name: str) -> None:
    with duckdb.connect() as connection:
        for statement in made_for(world, Dialect.DUCKDB)[name].statements:
            connection.execute(statement)
        assert connection.execute(f"SELECT * FROM shop.{name} ORDER BY id").fetchall() == selected(world, name)
        found = connection.execute(f"SELECT count(*) FROM shop.{name} WHERE id < 0").fetchone()
        assert found == (sum(row[0] < 0 for row in selected(world, name)),)


@pytest.mark.spark
@pytest.mark.parametrize("name", ["plain", "numbered"])
def test_spark(world: MirrorWorld, name: str, spark: Any) -> None:
    for statement in made_for(world, Dialect.SPARK)[name].statements:
        spark.sql(statement)
    rows = pa.table(spark.sql(f"SELECT * FROM shop__{name} ORDER BY id").toArrow()).to_pylist()
    assert [tuple(row.values()) for row in rows] == selected(world, name)


@pytest.mark.parametrize(
    ("dialect", "name", "hidden"),
    [(Dialect.DUCKDB, "numbered", "file_row_number"), (Dialect.SPARK, "described", "_metadata")],
)
def test_a_column_that_hides_the_numbers_of_rows_is_named(
    world: MirrorWorld, dialect: Dialect, name: str, hidden: str
) -> None:
    made = made_for(world, dialect)[name]
    assert made.statements == ()
    assert f"a column called {hidden}" in made.notes[0]
    assert "`--through delta`" in made.notes[0]
