"""Random DDL on a real server: behind each statement every reader finds in mirrors and change tables, by a filter on
each column, the rows that SELECT has."""

from __future__ import annotations

import os
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any
from zlib import crc32

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable, QueryBuilder

from strata_cdc.mirrors.limits import MirrorLimits
from strata_cdc.mirrors.modes import Mode
from strata_cdc.mirrors.renames import Renames
from strata_cdc.schema.model.definition import TableName
from strata_cdc.tables.layout import table_url
from tests.mirrors.test_random_lives import run
from tests.mirrors.world import MirrorWorld
from tests.views.test_views import load_delta

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.mysql_server import MysqlServer

    Filter = Callable[[str, str, Any], int]
    """Of a table, a column and a value (None: IS NULL): how many rows."""

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

LIVES = int(os.environ.get("STRATA_MIRROR_LIVES", "1"))
STEPS, LOOKED_AT_EVERY = 7, 3
TYPES = (
    "INT", "BIGINT", "TINYINT", "VARCHAR(20)", "TEXT", "DATE", "DATETIME(3)", "DECIMAL(9, 2)", "DOUBLE", "BIT(1)",
    "POINT", "VARBINARY(8)", "INT NOT NULL", "VARCHAR(9) NOT NULL",
)  # fmt: skip
KEPT = ("INT", "BIGINT", "VARCHAR(20)", "TEXT")
"""Between these every number is converted as the log tells."""


class Ddl:
    """Statements on two tables whose columns change their types."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def create(self, table: str) -> list[str]:
        a, b, c = (self._random.choice(TYPES) for _ in range(3))
        return [f"CREATE TABLE {table} (id INT PRIMARY KEY, a {a}, b {b}, c {c})"]

    def step(self, table: str, number: int) -> list[str]:
        one, other = self._random.sample("abc", 2)
        kind, kept = self._random.choice(TYPES), self._random.choice(KEPT)
        return self._random.choice(
            [
                [f"ALTER TABLE {table} MODIFY {one} {kept}"],
                [f"ALTER TABLE {table} MODIFY {one} {kept}"],
                [f"ALTER TABLE {table} DROP COLUMN {one}, ADD COLUMN {one} {kind}"],
                [f"ALTER TABLE {table} DROP COLUMN {one}", f"ALTER TABLE {table} ADD COLUMN {one} {kind} FIRST"],
                [f"ALTER TABLE {table} RENAME COLUMN {one} TO {other}, RENAME COLUMN {other} TO {one}"],
                [f"TRUNCATE TABLE {table}", f"ALTER TABLE {table} MODIFY {one} {kind}"],
                [f"DROP TABLE {table}", *self.create(table)],
                [
                    *self.create("other"),
                    *self.rows("other", number),
                    f"RENAME TABLE {table} TO gone, other TO {table}",
                    "DROP TABLE gone",
                ],
            ]
        )

    def rows(self, table: str, number: int) -> list[str]:
        # What does not fit is cut: of the values nothing is asked but that all have the same.
        found = ["SET SESSION sql_mode = ''"]
        for at in range(3):
            values = [self._random.choice(["7", "'12'", "'2026-01-02'", "'x'", "NULL"]) for _ in range(3)]
            found.append(f"INSERT IGNORE INTO {table} VALUES ({number * 10 + at}, {', '.join(values)})")
            found.append(f"INSERT INTO {table} (id) VALUES ({number * 10 + at + 5})")
        return [*found, f"DELETE FROM {table} WHERE id = {self._random.randrange(number * 10 + 5)}"]


class Readers:
    """All that `docs/reading.md` and `docs/mirrors.md` name."""

    def __init__(self) -> None:
        self._connection = duckdb.connect()
        self._connection.execute("SET TimeZone = 'UTC'")
        load_delta(self._connection)

    def by_duckdb(self, url: str, column: str, value: Any) -> int:
        which = "IS NULL" if value is None else "= ?"
        query = f"SELECT count(*) FROM (SELECT * FROM delta_scan('{url}') WHERE \"{column}\" {which})"
        (count,) = self._connection.execute(query, [] if value is None else [value]).fetchone() or (-1,)
        return int(count)

    def by_deltalake(self, url: str, column: str, value: Any) -> int:
        which = "IS NULL" if value is None else f"= {sql(value)}"
        query = f'SELECT * FROM one WHERE "{column}" {which}'
        return int(QueryBuilder().register("one", DeltaTable(url)).execute(query).read_all().num_rows)

    def by_polars(self, url: str, column: str, value: Any) -> int:
        which = pl.col(column).is_null() if value is None else pl.col(column) == value
        return pl.scan_delta(url).filter(which).collect().height

    def by_dataset(self, url: str, column: str, value: Any) -> int:
        which = ds.field(column).is_null() if value is None else ds.field(column) == value
        return int(DeltaTable(url).to_pyarrow_dataset().to_table(filter=which).num_rows)


def sql(value: Any) -> str:
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, int | float | Decimal):
        return str(value)
    text = str(value).replace("'", "''")
    return (
        f"TIMESTAMP '{text}'" if hasattr(value, "hour") else f"DATE '{text}'" if hasattr(value, "year") else f"'{text}'"
    )


def assert_found(rows: pa.Table, url: str, readers: list[Filter]) -> None:
    """By some of a column's values, and by its NULLs, all readers find as many rows as there are."""
    for field in rows.schema:
        found = rows[field.name]
        values = [] if pa.types.is_nested(field.type) else pc.unique(found.drop_null())[:1].to_pylist()
        for value in [*values, None]:
            wanted = (
                found.null_count if value is None else pc.sum(pc.equal(found, pa.scalar(value, field.type))).as_py()
            )
            for reader in readers:
                assert (reader(url, field.name, value), reader) == (wanted, reader), (field, value)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(LIVES))
def test_a_filter_on_each_column_finds_what_there_is(server: MysqlServer, tmp_path: Path, seed: int) -> None:
    server.run_sql("DROP DATABASE IF EXISTS shop; CREATE DATABASE shop;")
    server.run_sql("RESET BINARY LOGS AND GTIDS;")
    server.run_sql("DROP DATABASE shop; CREATE DATABASE shop;")
    random, renames = Random(seed), (Renames.COPY, Renames.ADD)
    world = MirrorWorld(server, tmp_path, renames=lambda table: renames[(seed + crc32(table.table.encode())) % 2])
    # A process may be killed before each checkpoint: whatever is in the log is read by everybody.
    world.limits = MirrorLimits(checkpoint_commits=1 << 30)
    ddl, readers = Ddl(random), Readers()
    # `to_pyarrow_dataset()` of deltalake refuses deletion vectors, and in change tables it must not be asked with a
    # filter.
    most: list[Filter] = [readers.by_duckdb, readers.by_deltalake, readers.by_polars]
    of_mirrors = {"t": most, "u": [*most, readers.by_dataset]}
    with server.connect("shop", init_command="SET time_zone = '+00:00'") as connection:
        for table, mode in (("t", Mode.DELETION_VECTORS), ("u", Mode.COPY_ON_WRITE)):
            run(connection, [*ddl.create(table), *ddl.rows(table, 0)])
            world.mode = mode
            world.publish()
            world.update()
        for number in range(1, STEPS):
            for table in "tu":
                run(connection, [*ddl.step(table, number), *ddl.rows(table, number)])
            world.publish()
            report = world.update()
            if lost := [one.table for one in report.mirrors if one.behind or one.error]:
                run(connection, [f"TRUNCATE TABLE {table}" for table in lost if table in {"shop.t", "shop.u"}])
                world.publish()
                world.update()
            world.assert_equal()
            for table in "tu" if number % LOOKED_AT_EVERY == 0 else "":
                mirror = world.mirror(table)
                assert mirror is not None
                assert_found(mirror.to_arrow(), mirror.url, of_mirrors[table])
    for table in "tu":
        url = table_url(world.lake, "s", TableName("shop", table))
        rows = pl.scan_delta(url).collect().to_arrow(compat_level=pl.CompatLevel.oldest())
        assert_found(rows.select([name for name in rows.schema.names if name[0] != "_"]), url, most)
