"""Random rows of every type whose values a column of the lake may not hold, as keys and beside them: whatever SELECT
tells apart stays apart in mirrors, through changes, DDL, dumps and compactions."""

from __future__ import annotations

import os
from collections import Counter
from itertools import product
from random import Random
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pymysql
import pytest

from strata_cdc.dialects.engines import Dialect
from strata_cdc.dialects.history import VALIDITY
from strata_cdc.dialects.relations import Through
from strata_cdc.mirrors.compact import compact
from strata_cdc.mirrors.modes import Mode
from strata_cdc.mirrors.renames import Renames
from strata_cdc.schema.model.definition import TableName
from strata_cdc.views.make_views import ViewKind, make_views
from tests.mirrors import history_check
from tests.mirrors.exact_rows import mirrored, selected
from tests.mirrors.test_exact_keys import dump
from tests.mirrors.world import MirrorWorld

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

LIVES = int(os.environ.get("STRATA_MIRROR_LIVES", "1"))
ROUNDS, STEPS = 5, 40
DAYS = ("0000-00-00", "2024-00-15", "2024-02-31", "2024-01-00", "0000-01-01", "2024-01-15", "9999-12-31", "2023-02-29")
TIMES = ("", " 10:00:00", " 23:59:59.9999", " 00:00:00.5")
MODES = ("", "ALLOW_INVALID_DATES", "ALLOW_INVALID_DATES,NO_ZERO_DATE", "STRICT_TRANS_TABLES", "NO_ZERO_IN_DATE")
KINDS = {
    "day": "DATE",
    "moment": "DATETIME",
    "finer": "DATETIME(4)",
    "stamp": "TIMESTAMP(2) NULL",
    "label": "ENUM('a', '', 'b')",
    "labels": "SET('a', '', 'b')",
    "same": "ENUM('x', 'y', '')",
    "yr": "YEAR",
}
FORMS = {
    "armscii8": ("27", "FF", "2E", "A9", "41"),
    "big5": ("A15A", "A1C3", "A2CE", "41"),
    "cp932": ("ED40", "FA5C", "8754", "FA4A", "81CA", "EEF9", "FA54", "B1"),
    "eucjpms": ("A1C1", "8FA2B7", "A2C0", "ADFC", "41"),
    "sjis": ("5C", "815F", "82A0"),
    "tis620": ("A0", "DB", "FF", "A1"),
    "ujis": ("5C", "A1C0", "7E", "8FA2B7", "A4A2"),
}
"""Characters of charsets in which several byte sequences are one character of Unicode."""
TEXTS = {
    name: f"{'CHAR' if name > 'f' else 'VARCHAR'}(4) CHARACTER SET {name} COLLATE {default_or_binary}"
    for name, default_or_binary in zip(
        FORMS,
        ("armscii8_bin", "big5_chinese_ci", "cp932_bin", "eucjpms_japanese_ci", "sjis_bin", "tis620_bin", "ujis_bin"),
        strict=True,
    )
}
TEXT_ALTERS = (
    "ADD COLUMN x VARCHAR(2) CHARACTER SET cp932 NOT NULL",
    "ADD COLUMN x VARCHAR(2) CHARACTER SET sjis DEFAULT '\\\\'",
    "ADD COLUMN x VARCHAR(2) CHARACTER SET tis620 DEFAULT 'a'",
    "DROP COLUMN x",
    "RENAME COLUMN v TO w",
    "RENAME COLUMN w TO v",
    "MODIFY v VARCHAR(30) CHARACTER SET cp932",
    "MODIFY v TEXT CHARACTER SET sjis",
    "MODIFY v VARCHAR(1) CHARACTER SET cp932",
    "MODIFY v VARBINARY(30)",
    "CONVERT TO CHARACTER SET utf8mb4",
    "CONVERT TO CHARACTER SET cp932",
    "ADD INDEX (n)",
    "RENAME COLUMN k TO kk",
    "RENAME COLUMN kk TO k",
    "DROP PRIMARY KEY",
)
KEYS = {"alone": "PRIMARY KEY (k)", "pair": "PRIMARY KEY (n, k)", "only": "UNIQUE KEY u (k)", "none": "KEY (n)"}
ALTERS = (
    "ADD COLUMN x DATE NOT NULL",
    "ADD COLUMN x DATETIME(2) DEFAULT '2024-01-01'",
    "DROP COLUMN x",
    "RENAME COLUMN v TO w",
    "RENAME COLUMN w TO v",
    "MODIFY v DATETIME(6)",
    "MODIFY v ENUM('a', '', 'b', 'c')",
    "ADD INDEX (n)",
    "RENAME COLUMN k TO kk",
    "RENAME COLUMN kk TO k",
    "DROP PRIMARY KEY",
    "ADD COLUMN x INT FIRST",
)


class Life:
    """Random statements; those that the server refuses are none."""

    types, alters = KINDS, ALTERS

    def __init__(self, random: Random, connection: pymysql.Connection) -> None:
        self.random, self.connection = random, connection
        self.kinds: dict[str, str] = {}
        self.unkeyed: set[str] = set()
        """Tables that had a key, by which MINIMAL images name rows."""
        for key, clause in KEYS.items():
            for kind in random.sample(list(self.types), 4):
                table = f"{key}_{kind}"
                null = "" if self.types[kind].endswith("NULL") and key == "none" else " NOT NULL"
                column = self.types[kind].removesuffix(" NULL") + ("" if key == "none" else null)
                other = random.choice(list(self.types.values()))
                self.run(f"CREATE TABLE {table} (k {column}, n INT DEFAULT 1, v {other}, {clause})")
                self.kinds[table] = kind

    def run(self, statement: str) -> bool:
        with self.connection.cursor() as cursor:
            try:
                cursor.execute(statement)
            except pymysql.err.MySQLError:
                return False
        return True

    def value(self, table: str, column: str) -> str:
        random = self.random
        return random.choice(
            [f"'{random.choice(DAYS)}{random.choice(TIMES)}'", f"'{random.choice(DAYS)}'", str(random.randrange(5)),
             random.choice(["'a'", "''", "'b'", "'a,b'", "NULL"])]
        )  # fmt: skip

    def step(self) -> None:
        random, table = self.random, self.random.choice(list(self.kinds))
        if random.random() < 0.2:
            self.run(
                f"SET sql_mode = '{random.choice(MODES)}', binlog_row_image = {random.choice(['FULL', 'MINIMAL'])}"
            )
        k = "k" if self.run(f"SELECT k FROM {table} LIMIT 0") else "kk"
        v = "v" if self.run(f"SELECT v FROM {table} LIMIT 0") else "w"
        where = random.choice([f"n = {random.randrange(3)}", f"{k} = {self.value(table, k)}", f"{k} + 0 < 2024"])
        rows = ", ".join(f"({self.value(table, k)}, {random.randrange(3)}, {self.value(table, v)})" for _ in range(4))
        self.run(
            random.choice(
                [
                    f"INSERT IGNORE INTO {table} ({k}, n, {v}) VALUES {rows}",
                    f"REPLACE INTO {table} ({k}, n, {v}) VALUES {rows}",
                    f"INSERT INTO {table} ({k}, n) VALUES ({self.value(table, k)}, 2)",
                    f"UPDATE IGNORE {table} SET {v} = {self.value(table, v)} WHERE {where}",
                    f"UPDATE IGNORE {table} SET {k} = {self.value(table, k)} WHERE {where} LIMIT 1",
                    f"DELETE FROM {table} WHERE {where} LIMIT 2",
                ]
            )
        )
        if random.random() < 0.04:
            alter = random.choice(self.alters)
            if self.run(f"ALTER TABLE {table} {alter}") and "KEY" in alter:
                self.unkeyed.add(table)


class TextLife(Life):
    """The same with texts that are one text of Unicode."""

    types, alters = TEXTS, TEXT_ALTERS

    def value(self, table: str, column: str) -> str:
        """In the charset that the column has by now."""
        with self.connection.cursor() as cursor:
            cursor.execute(
                "SELECT character_set_name FROM information_schema.columns "
                "WHERE table_schema = 'shop' AND table_name = %s AND column_name = %s",
                (table, column),
            )
            [charset] = cursor.fetchone() or (None,)
        forms = FORMS.get(charset, ("41", "5C", "E78A89"))
        return f"x'{''.join(self.random.choices(forms, k=self.random.randrange(3)))}'"


@pytest.mark.parametrize(
    ("seed", "kind"),
    [
        *product(range(LIVES), [Life]),
        *(pytest.param(seed, TextLife, marks=pytest.mark.soak) for seed in range(-(-LIVES // 2))),
    ],
)
def test_whatever_select_tells_apart_stays_apart(
    server: MysqlServer, tmp_path: Path, seed: int, kind: type[Life]
) -> None:
    server.run_sql("DROP DATABASE IF EXISTS shop; CREATE DATABASE shop; RESET BINARY LOGS AND GTIDS;")
    server.run_sql("DROP DATABASE shop; CREATE DATABASE shop;")
    renames = list(Renames)[seed % 3]
    world = MirrorWorld(server, tmp_path, mode=list(Mode)[seed % 2], renames=lambda _: renames)
    random = Random(seed)
    odd = read_again = 0
    with server.connect("shop", init_command="SET time_zone = '+00:00', sql_mode = ''") as connection:
        life = kind(random, connection)
        for _ in range(ROUNDS):
            for _ in range(STEPS):
                life.step()
            life.run("SET sql_mode = ''")
            world.publish()
            for one in world.update().mirrors:
                # Of a default that has several forms nobody knows which it is.
                assert one.error is None or "inserted rows lack x" in one.error.message, one
                if one.error is not None or one.behind is not None:
                    assert one.error is not None or one.needs_dump, one
                    dump(world, one.table.partition(".")[2])
                    read_again += 1
            for table in life.kinds:
                mirror = world.mirror(table)
                assert mirror is not None, table
                assert (table, mirrored(mirror)) == (table, selected(connection, table, mirror.definition))
                odd += "_invalid" in mirror.schema.names
                if random.random() < 0.3:
                    compact(mirror)
                elif random.random() < 0.1:
                    dump(world, table)
    keyed = [table for table in life.kinds if table not in life.unkeyed]
    shown = [check_views(world, table) + check_histories(world, table) for table in keyed]
    print(f"{odd} mirrors with texts, {read_again} read again, {sum(shown)} views and histories")
    assert odd > ROUNDS * 4
    assert sum(shown) > len(shown)


def check_histories(world: MirrorWorld, table: str) -> int:
    """The versions that hold at the end are the mirror's rows. Gives how many readers could tell."""
    history, count = history_check.opened(world, table), 0
    for reader in history_check.READERS:
        found = history_check.reported(history, reader)
        if found is not None:
            last = found.filter(pc.is_null(found["_valid_to_seq"]))
            own = last.select(range(found.num_columns - len(VALIDITY)))
            assert (table, reader.__name__, values(own)) == (table, reader.__name__, mirror_values(world, table))
            count += 1
    return count


def check_views(world: MirrorWorld, table: str) -> int:
    """The view of now has the mirror's rows, where the stream has all of them. Gives whether there is one."""
    name = TableName("shop", table)
    made = make_views(world.lake, "s", world.engine, Dialect.DUCKDB, Through.FILES, lambda one: one == name)
    notes = [one.notes[0] for one in made if one.kind is ViewKind.NOW and one.statements]
    if not notes:
        return 0
    statements = [text for one in made for text in one.statements]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for text in statements:
            connection.execute(text)
        try:
            found = pa.table(connection.execute(f"SELECT * FROM shop.{table}").arrow())
        except duckdb.Error as error:
            if "the rows of the mirror" in notes[0] or not any(text in str(error) for text in history_check.NOT_TOLD):
                raise
            return 0
    assert (table, values(found)) == (table, mirror_values(world, table))
    return 1


def mirror_values(world: MirrorWorld, table: str) -> Counter[str]:
    mirror = world.mirror(table)
    assert mirror is not None
    return values(mirror.to_arrow([column.name for column in mirror.definition.columns]))


def values(rows: pa.Table) -> Counter[str]:
    return Counter(map(repr, zip(*(column.to_pylist() for column in rows.columns), strict=True)))
