"""Labels and defaults with characters that information_schema does not know: a snapshot takes nothing from the history,
and a table that only a snapshot tells of is decoded right."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from strata_cdc.binlog.protocol.connection import connect
from strata_cdc.errors import SchemaGapError
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.stream_positions import AtSeq
from strata_cdc.schema.live import exact_texts
from strata_cdc.schema.live.engine import read_definition
from strata_cdc.schema.model.charsets import CHARSETS
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.model.types import quoted_label
from tests.interposed import interposed
from tests.landing.landing import address_of
from tests.mirrors.world import MirrorWorld
from tests.properties import TIMES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from strata_cdc.schema.history.versions import StoredEntry
    from strata_cdc.schema.model.definition import TableDefinition
    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql


SEEDS = [random.randrange(1 << 30) for _ in range(TIMES)] or [7]
COLLATIONS = (
    "utf8mb4_bin", "utf8mb4_0900_ai_ci", "utf16_bin", "utf16le_bin", "utf32_bin", "ucs2_bin", "utf8mb3_bin",
    "gb18030_bin", "latin1_bin", "cp1251_bin", "binary",
)  # fmt: skip
CHARACTERS = ((0x21, 0x7E), (0xA1, 0x17F), (0x410, 0x44F), (0x4E00, 0x9FA5), (0x10000, 0x1F9FF), (0x20000, 0x10FFFD))


@pytest.fixture
def world(server: MysqlServer, tmp_path: Path) -> MirrorWorld:
    """A source whose stream begins behind its first tables."""
    server.run_sql("DROP DATABASE IF EXISTS shop; CREATE DATABASE shop; FLUSH BINARY LOGS")
    server.run_sql(f"PURGE BINARY LOGS TO '{server.binlogs()[-1].name}'")
    return MirrorWorld(server, tmp_path)


class Draw:
    """Columns with labels and defaults of what their charset can hold."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def text(self, charset: str) -> str:
        """One to four characters that the charset has; questions are as likely as others."""
        found: list[str] = []
        wanted = self.random.randint(1, 4)
        while len(found) < wanted:
            low, high = self.random.choice(CHARACTERS)
            one = self.random.choice(["?", "'", "\\", *(chr(self.random.randint(low, high)) for _ in range(5))])
            found += [one] if one != "," and fits(one, charset) else []
        return "".join(found)

    def table(self, name: str) -> tuple[str, str]:
        """A table of ENUM, SET and VARCHAR columns of some charsets; rows with each label, and with the defaults."""
        columns, rows = ["id INT PRIMARY KEY AUTO_INCREMENT"], [f"INSERT INTO {name} () VALUES ()"]
        for number, collation in enumerate(self.random.sample(COLLATIONS, 5)):
            charset = collation.partition("_")[0]
            # Two labels that differ by more than a collation may ignore.
            labels = [f"{at}{self.text(charset)}" for at in range(self.random.randint(1, 6))]
            listed = ", ".join(map(quoted_label, labels))
            form = f"CHARACTER SET {charset}" + (f" COLLATE {collation}" if charset != "binary" else "")
            default = f"{form} DEFAULT {quoted_label(self.random.choice(labels))}"
            columns.append(f"e{number} ENUM({listed}) {default}")
            rows += [f"INSERT INTO {name} (e{number}) VALUES ({at + 1})" for at in range(len(labels))]
            if charset != "binary":
                # The server (9.7.4) refuses SETs of binary with other labels than ASCII: error 3507.
                columns += [f"s{number} SET({listed}) {default}", f"v{number} VARCHAR(9) {default}"]
                rows += [f"INSERT INTO {name} (s{number}) VALUES ({1 << at})" for at in range(len(labels))]
        return f"CREATE TABLE {name} ({', '.join(columns)})", "; ".join(rows)


def fits(character: str, charset: str) -> bool:
    if charset in {"ucs2", "utf8mb3"}:
        return character <= "\uffff"
    codec = "utf_8" if charset == "binary" else CHARSETS[charset].codec or "ascii"
    try:
        return character.encode(codec).decode(codec) == character
    except UnicodeError:
        return False


def definitions(world: MirrorWorld, *tables: str) -> dict[str, TableDefinition]:
    """As the history has them at its end."""
    store = SchemaStore(world.engine)
    at = AtSeq(store.position("s").seq)
    return {table: History(store, "s").at(TableName("shop", table), at).definition for table in tables}


def entries(world: MirrorWorld) -> list[StoredEntry]:
    return SchemaStore(world.engine).all_entries("s")


def comparable(definition: TableDefinition) -> object:
    return replace(definition, engine=None).columns


@pytest.mark.parametrize("seed", SEEDS)
def test_snapshots_take_nothing_from_what_the_stream_proves(world: MirrorWorld, seed: int) -> None:
    draw = Draw(seed)
    older, newer = draw.table("older"), draw.table("newer")
    world.server.run_sql(older[0], "shop")
    world.server.run_sql("FLUSH BINARY LOGS")
    world.server.run_sql(f"PURGE BINARY LOGS TO '{world.server.binlogs()[-1].name}'; CREATE TABLE shop.first (a INT)")
    world.snapshot()
    # Rows first: the history of the table that is older than the stream comes of the snapshot alone.
    world.server.run_sql(f"{newer[0]}; {older[1]}; {newer[1]}", "shop")
    world.publish()
    tracked, told = definitions(world, "older", "newer"), entries(world)
    for _ in range(2):
        world.snapshot()
        world.server.run_sql("INSERT INTO older () VALUES (); INSERT INTO newer () VALUES ()", "shop")
        world.publish()
    assert SchemaStore(world.engine).drifts("s") == []
    assert entries(world) == told
    assert definitions(world, "older", "newer") == tracked
    with connect(world.source.address) as connection:
        for table, definition in tracked.items():
            found = read_definition(connection, TableName("shop", table))
            assert found is not None
            assert comparable(found) == comparable(definition)
    # All rows of the older one are in the stream from here on; the mirrors are judged by SELECT.
    world.server.run_sql(f"TRUNCATE TABLE older; {older[1]}", "shop")
    world.publish()
    world.update()
    world.assert_equal()


def test_labels_whose_bytes_are_cut_characters(world: MirrorWorld) -> None:
    """CONVERT TO leaves the bytes of labels: the last letter of `café` is not shown."""
    world.server.run_sql("CREATE TABLE t (id INT PRIMARY KEY, e ENUM('café', 'tea') CHARACTER SET latin1)", "shop")
    world.publish()
    world.server.run_sql("ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4", "shop")
    world.publish()
    [tracked] = definitions(world, "t").values()
    assert tracked.columns[1].label_bytes is not None
    with connect(world.source.address) as connection:
        found = read_definition(connection, TableName("shop", "t"))
    assert found is not None
    assert comparable(found) == comparable(tracked)


@pytest.mark.parametrize("engine", ["InnoDB", "MyISAM", "MEMORY"])
@pytest.mark.parametrize("rows", range(3))
def test_defaults_of_columns_that_are_never_null(mysql_server: MysqlServer, engine: str, rows: int) -> None:
    mysql_server.run_sql(
        "DROP DATABASE IF EXISTS d; CREATE DATABASE d; CREATE TABLE d.t (id INT, v VARCHAR(9) NOT NULL DEFAULT '😀?',"
        f" w VARCHAR(9) NOT NULL DEFAULT 'x?', e ENUM('😀', '?') NOT NULL DEFAULT '😀') ENGINE = {engine};"
        + "INSERT INTO d.t VALUES (1, 'a', 'b', '?');"
        * rows
    )
    with connect(address_of(mysql_server)) as connection:
        found = read_definition(connection, TableName("d", "t"))
    assert found is not None
    assert [column.default for column in found.columns] == [None, "😀?", "x?", "😀"]


class TestWhatCannotBeAsked:
    """Servers before 8.0, and users who may see a table and not read it."""

    @pytest.fixture
    def refused(self) -> Iterator[None]:
        with interposed(lambda *_: "WITH is not understood", (exact_texts._Question, "query")):
            yield

    def test_what_the_stream_says_stays(self, world: MirrorWorld, refused: None) -> None:
        world.snapshot()
        world.server.run_sql(
            "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a😀', 'a?'), v VARCHAR(9) DEFAULT '😀');"
            "CREATE TABLE plain (id INT PRIMARY KEY, e ENUM('a', 'b'))",
            "shop",
        )
        world.publish()
        tracked = definitions(world, "t", "plain")
        for _ in range(2):
            world.snapshot()
            world.server.run_sql("INSERT INTO t (id) SELECT COUNT(*) FROM t", "shop")
            world.publish()
        assert SchemaStore(world.engine).drifts("s") == []
        assert definitions(world, "t", "plain") == tracked

    def test_what_nothing_says_is_a_gap_by_name(self, world: MirrorWorld, refused: None) -> None:
        world.server.run_sql(
            "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a😀', 'b')); CREATE TABLE plain (e ENUM('a', 'b'));"
            "FLUSH BINARY LOGS",
            "shop",
        )
        world.server.run_sql(f"PURGE BINARY LOGS TO '{world.server.binlogs()[-1].name}'")
        world.snapshot()
        world.server.run_sql("INSERT INTO plain VALUES ('b')", "shop")
        world.publish()
        assert definitions(world, "plain")["plain"].columns[0].column_type == "enum('a','b')"
        with pytest.raises(SchemaGapError, match="characters of column e are not known"):
            definitions(world, "t")
        with connect(world.source.address) as connection, pytest.raises(SchemaGapError):
            read_definition(connection, TableName("shop", "t"))
