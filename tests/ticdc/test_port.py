"""The contract of `changes/port.py`: a binlog of a real server and a sink with the same changes give the same lines of
a stream, and every token the rest of them. TiDB's values are those of MySQL."""

from __future__ import annotations

import base64
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.changes.jsonl import TableLines
from strata_cdc.schema.model.types import Family, TypeKind, parse_column_type
from strata_cdc.streams.stream import ChangeStream
from strata_cdc.ticdc.csv_form import CsvSettings
from strata_cdc.ticdc.land_sink import SinkLocation, land_sink
from strata_cdc.ticdc.limits import SinkLimits
from tests.streams.world import World, lines_of
from tests.ticdc.generator import START, Feed, FeedForm, Row, SinkColumn, SinkTable
from tests.ticdc.world import SinkWorld

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.schema.model.definition import Column, TableDefinition
    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql

FEED = "s"
TABLES = """
CREATE DATABASE shop; USE shop; SET sql_mode = '';
CREATE TABLE a (id INT PRIMARY KEY, name VARCHAR(40), price DECIMAL(30,9), made DATETIME(6), d DATE, doc JSON,
                raw VARBINARY(20), kind ENUM('x','y'), flags SET('p','q'), b BIT(9), f FLOAT, ts TIMESTAMP(3) NULL);
CREATE TABLE b (id BIGINT UNSIGNED PRIMARY KEY, n DOUBLE, t TIME(2), y YEAR, m TEXT, l BLOB, u TINYINT UNSIGNED);
"""
SETTERS = {
    "a": (
        "name = 'a\\\\\"\\r\\n{0}', price = {1}.000000001, made = '2026-02-03 04:05:06.789012', d = '1969-12-31'",
        "raw = x'00ff{0:02x}', kind = 'y', flags = 'p,q', b = {1}, f = 0.1, ts = '2001-01-01 00:00:01.5'",
        "doc = '{{\"k\": [1, null, \"{1}\"]}}', d = '0000-00-00', flags = ''",
    ),
    "b": ("n = {1} / 4, t = '-12:34:56.78', y = 1999, u = 255", "m = 'null', l = x'c3bf'", "t = NULL, m = ',||\"'"),
}
DDL = (
    (5, "ALTER TABLE a ADD more_{0} INT DEFAULT {0}"),
    (7, "ALTER TABLE b ADD KEY k_{0} (n)"),
    (12, "ALTER TABLE a MODIFY name VARCHAR({1})"),
    (11, "TRUNCATE b"),
)
FORMS = {
    "csv": FeedForm(old_value=True, terminator="\n"),
    "escaped": FeedForm(old_value=True, quote="", delimiter="||"),
    "canal": FeedForm(protocol="canal-json"),
}


def statements(chance: random.Random) -> Iterator[str]:
    """Transactions that change each key once, as TiCDC sees them: its deletes are first."""
    there: dict[str, set[int]] = {"a": set(), "b": set()}
    for number in range(60):
        if chance.random() < 0.15:
            _, ddl = chance.choice(DDL)
            yield ddl.format(number, 40 + number)
            if ddl.startswith("TRUNCATE"):
                there["b"].clear()
            continue
        table = chance.choice("ab")
        keys = chance.sample(range(1, 9), chance.randint(1, 5))
        gone = [key for key in keys if key in there[table] and chance.random() < 0.4]
        yield "BEGIN"
        yield from (f"DELETE FROM {table} WHERE id = {key}" for key in gone)
        for key in set(keys) - set(gone):
            values = chance.choice(SETTERS[table]).format(key, number)
            is_there = key in there[table]
            yield (
                f"UPDATE {table} SET {values} WHERE id = {key}"
                if is_there
                else f"INSERT INTO {table} SET id = {key}, {values}"
            )
        there[table] = there[table] - set(gone) | set(keys) - set(gone)
        yield "COMMIT"


def sink_column(column: Column, keys: tuple[str, ...]) -> SinkColumn:
    """A column as TiCDC describes it."""
    kind = parse_column_type(column.column_type)
    name = kind.kind.value.upper() + (" UNSIGNED" if kind.unsigned else "")
    is_time = kind.kind in {TypeKind.DATETIME, TypeKind.TIMESTAMP, TypeKind.TIME}
    length, scale = (None, kind.length or None) if is_time else (kind.length, kind.decimals)
    texts = [None if number is None else str(number) for number in (length, scale)]
    is_key = column.name in keys
    return SinkColumn(column.name, name, is_key, column.nullable, column.default, *texts, kind.labels)


def image(definition: TableDefinition, values: dict[str, Any] | None) -> dict[str, Any] | None:
    """The values of a line as TiCDC has them."""
    if values is None:
        return None
    families = {column.name: parse_column_type(column.column_type).kind.facts.family for column in definition.columns}
    return {
        name: base64.b64decode(value) if value is not None and families[name] in {Family.BYTES, Family.BLOB} else value
        for name, value in values.items()
    }


@pytest.fixture(scope="module", params=[1, 2])
def binlog(request: pytest.FixtureRequest, server: MysqlServer, tmp_path_factory: pytest.TempPathFactory) -> World:
    server.run_sql("DROP DATABASE IF EXISTS shop")
    server.run_sql("RESET BINARY LOGS AND GTIDS")
    chance = random.Random(request.param)
    server.run_sql(TABLES + "".join(f"{one};\n" for one in statements(chance)))
    world = World(server, tmp_path_factory.mktemp("binlog"), name=FEED)
    world.land()
    world.track()
    return world


@dataclass(frozen=True)
class Logged:
    """A row change of the binlog."""

    seq: int
    row: int
    table: str
    definition: TableDefinition
    line: dict[str, Any]


def logged(binlog: World) -> tuple[list[Logged], list[Any]]:
    """The rows and the DDL of the binlog, in order."""
    rows, ddl = list[Logged](), list[Any]()
    for span in binlog.stream("beginning", until="landed").spans():
        ddl += span.ddl
        for batch in span.batches:
            for line in TableLines(batch.table, batch.definition).objects(batch.batch):
                rows.append(Logged(line["seq"], line["row"], batch.table.table, batch.definition, line))
    return sorted(rows, key=lambda one: (one.seq, one.row)), ddl


@pytest.fixture(scope="module", params=FORMS)
def sink(request: pytest.FixtureRequest, binlog: World, tmp_path_factory: pytest.TempPathFactory) -> SinkWorld:
    """The same changes as a sink that has landed, with some of them written again."""
    world = SinkWorld(tmp_path_factory.mktemp("sink"))
    feed, chance = Feed(world.sink, FORMS[request.param]), random.Random(0)
    rows, ddl = logged(binlog)
    for name in "ab":
        mine = [one for one in rows if one.table == name]
        made = [one for one in ddl if any(table.table == name for table in one.named)]
        table = None
        for number, one in enumerate(made):
            begin = one.transaction.record.seq
            end = made[number + 1].transaction.record.seq if number + 1 < len(made) else 1 << 40
            known = next((row.definition for row in mine if row.seq > begin), mine[-1].definition)
            columns = [sink_column(column, known.primary_key) for column in known.columns]
            kind = next((kind for kind, text in DDL if one.statement.startswith(text[:11])), 3)
            if table is None:
                table = SinkTable("shop", name, (), 0)
            feed.ddl(table, START + 10 * begin, kind, one.statement, columns)
            write(feed, table, [row for row in mine if begin < row.seq < end], chance)
    feed.checkpoint(START + 10_000_000)
    utc, limits = CsvSettings(time_zone="UTC"), SinkLimits(block_bytes=2000, batch_rows=3)
    land_sink(SinkLocation(str(world.sink), world.settings.lake, "s", utc, segment_bytes=20_000, limits=limits))
    return world


def write(feed: Feed, table: SinkTable, rows: list[Logged], chance: random.Random) -> None:
    changes = [
        Row(START + 10 * one.seq, *(image(one.definition, one.line[side]) for side in ("after", "before")))
        for one in rows
    ]
    half = len(changes) // 2
    for part in (changes[:half], changes[half:], changes[chance.randint(0, half) :]):
        if part:
            feed.write(table, part)


def sink_lines(sink: SinkWorld, start: str = "beginning") -> list[dict[str, Any]]:
    return list(lines_of(ChangeStream(sink.source, start, heartbeat_seconds=3600)))


def bare(lines: list[dict[str, Any]]) -> list[Any]:
    """What a change is, without the order of rows in a transaction of which TiCDC keeps a part."""
    found = []
    for line in lines:
        if "ddl" in line:
            found.append(("ddl", line["ddl"]))
        elif "op" in line:
            sides = [line[side] and sorted(line[side].items(), key=str) for side in ("before", "after")]
            found.append((line["op"], line["table"], *sides))
    return found


def test_streams_give_the_same_lines(binlog: World, sink: SinkWorld) -> None:
    ours = bare(binlog.lines("beginning", until="landed"))
    theirs = bare(sink_lines(sink))
    # CREATE DATABASE is no DDL of a table.
    ours = [one for one in ours if one != ("ddl", "CREATE DATABASE shop")]
    assert sorted(map(str, theirs)) == sorted(map(str, ours))
    per_table = [
        [one for one in lines if one[0] == "ddl" or one[1] == name] for lines in (ours, theirs) for name in "ab"
    ]
    assert per_table[:2] == per_table[2:]
    assert len(theirs) > 60


def test_each_token_gives_the_rest_once(sink: SinkWorld) -> None:
    whole = sink_lines(sink)
    for at in random.Random(0).sample(range(len(whole)), 5):
        assert sink_lines(sink, whole[at]["token"]) == whole[at + 1 :]
