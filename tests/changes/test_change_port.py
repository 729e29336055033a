"""The contract of `changes/port.py`: a binlog and a folder of JSON lines with the same changes give the same change
tables, verdicts, mirrors and lines of a stream. The changes are drawn at random, and made on a real server."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from msgspec.structs import replace

from strata_cdc.changes.binlog_changes import read_slice
from strata_cdc.changes.plan import PlannedVersion
from strata_cdc.changes.port import SchemaChange
from strata_cdc.errors import SchemaGapError
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.landing.landed import LandedStream
from strata_cdc.pipeline.decode.decode_slice import decode_slice_to_files, planned_tasks, store_decoded
from strata_cdc.pipeline.plan.pending import RunRequest
from strata_cdc.pipeline.plan.plan_slices import plan_run
from strata_cdc.quality.check_step.check_interval import check_interval
from strata_cdc.runs.run_folder import read_plan, read_verdicts, run_folder, write_plan
from strata_cdc.runs.run_plan import PlannedSlice
from strata_cdc.schema.model.definition import TableName, definition_from_json
from strata_cdc.store.table_intervals import TableInterval, TableIntervalLedger
from strata_cdc.streams.filter import filter_of
from strata_cdc.streams.opened import OpenedStream
from strata_cdc.streams.request import StreamRequest
from strata_cdc.streams.writing import Writing
from strata_cdc.tables.read import read_columns
from strata_cdc.tracking.track_schema import track_landed
from strata_cdc.values import to_plain
from tests.changes.json_folder import JsonFolder, JsonSourceStream, read_json_slice, rows_of, write_folder
from tests.mirrors.world import MirrorWorld
from tests.published import published_tables
from tests.publishing import publication_of
from tests.streams.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.changes.plan import Slice
    from strata_cdc.changes.port import ReadSlice
    from strata_cdc.runs.run_plan import RunPlan
    from strata_cdc.runs.verdict import IntervalVerdict
    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql

OF_ONE_LOG = {"_gtid", "_binlog_file", "_binlog_pos"}
"""Columns that say where a row was in its log."""
FEED = "s"
TABLES = """
CREATE DATABASE shop; USE shop; SET sql_mode = '';
CREATE TABLE a (id INT PRIMARY KEY, name VARCHAR(40), price DECIMAL(30,9), made DATETIME(6), d DATE, doc JSON,
                raw VARBINARY(20), kind ENUM('x','y'), flags SET('p','q'), b BIT(9), f FLOAT, ts TIMESTAMP(3) NULL);
CREATE TABLE b (id BIGINT UNSIGNED PRIMARY KEY, n DOUBLE, t TIME(2), y YEAR, g POINT);
"""
VALUES = {
    "a": (
        "REPLACE INTO a (id, price, made, d, raw, kind) VALUES ({0}, {1}.000000001, '2026-02-03 04:05:06.789012', "
        "'1969-12-31', x'00ff{0:02x}', 'y')",
        "REPLACE INTO a (id, flags, b, f, ts) VALUES ({0}, 'p,q', {1}, 0.1, '2001-01-01 00:00:01.5')",
        "REPLACE INTO a (id, doc, d) VALUES ({0}, '{{\"k\": [1, null, {1}]}}', '0000-00-00')",
        "UPDATE a SET doc = JSON_SET(doc, '$.k', {1}), name = 'one {1}' WHERE id = {0}",
    ),
    "b": (
        "REPLACE INTO b (id, n, t, y) VALUES (18446744073709551000 + {0}, {1} / 3, '-12:34:56.78', 1999)",
        "REPLACE INTO b (id, g) VALUES ({0}, ST_GeomFromText('POINT({0} {1})'))",
    ),
}
DDL = (
    "ALTER TABLE a ADD more_{0} INT DEFAULT {0}",
    "ALTER TABLE b MODIFY n DECIMAL(20,4)",
    "ALTER TABLE b ADD kept_{0} VARCHAR(9) DEFAULT 'x' FIRST",
    "CREATE TABLE c_{0} (id INT PRIMARY KEY) SELECT id FROM a",
    "ALTER TABLE a RENAME COLUMN f TO f_{0}, ADD f FLOAT",
    "TRUNCATE b",
)


SETTINGS = (
    "SET binlog_row_image = MINIMAL",
    "SET binlog_row_image = FULL",
    "SET binlog_row_value_options = PARTIAL_JSON",
    "SET binlog_row_value_options = ''",
    "SET binlog_transaction_compression = ON",
    "SET binlog_transaction_compression = OFF",
    "FLUSH BINARY LOGS",
)


def statements(chance: random.Random) -> Iterator[str]:
    """What an application does; with each setting for a while."""
    drawn = [chance.choice(SETTINGS) if chance.random() < 0.3 else "" for _ in range(40)]
    for at, setting in enumerate(SETTINGS):
        drawn[5 * at] = setting
    for number, setting in enumerate(drawn):
        yield setting or "DO 0"
        if chance.random() < 0.15:
            yield chance.choice(DDL).format(number)
            continue
        is_xa = chance.random() < 0.2
        yield f"XA START 'x{number}'" if is_xa else "BEGIN"
        for _ in range(chance.randint(0, 9)):
            table = chance.choice("ab")
            yield chance.choice(VALUES[table]).format(chance.randint(1, 9), chance.randint(1, 400))
            if chance.random() < 0.2:
                yield f"DELETE FROM {table} WHERE id = {chance.randint(1, 9)}"
        end = chance.choice(("COMMIT", "COMMIT", "ROLLBACK"))
        yield f"XA END 'x{number}'; XA PREPARE 'x{number}'; XA {end} 'x{number}'" if is_xa else end


@pytest.fixture(scope="module", params=[1, 2])
def binlog(request: pytest.FixtureRequest, server: MysqlServer, tmp_path_factory: pytest.TempPathFactory) -> World:
    """A source that has landed and is tracked."""
    chance = random.Random(request.param)
    server.run_sql("DROP DATABASE IF EXISTS shop")
    server.run_sql("RESET BINARY LOGS AND GTIDS")
    server.run_sql(TABLES + "".join(f"{one};\n" for one in statements(chance)))
    world = World(server, tmp_path_factory.mktemp("binlog"), name=FEED)
    world.land()
    world.track()
    return world


@pytest.fixture(scope="module")
def folder(binlog: World, tmp_path_factory: pytest.TempPathFactory) -> JsonFolder:
    """The same changes as JSON lines."""
    rows, ddl, definitions = [], list[SchemaChange](), {}
    for span in binlog.stream("beginning", until="landed").spans():
        for batch in span.batches:
            rows += rows_of(batch)
            definitions[batch.version_id] = batch.definition
        for one in span.ddl:
            databases = frozenset(name.database for name in one.named) or frozenset({"shop"})
            ddl.append(
                SchemaChange(one.transaction.record.seq, one.number, one.statement, databases, one.named, one.version)
            )
    landed = LandedStream.open(binlog.lake, binlog.name)
    times = {
        record.seq: (record.committed_at, record.commit_timestamp)
        for _, record in landed.records(landed.first_seq, landed.last_seq)
    }
    place = tmp_path_factory.mktemp("json") / "folder"
    write_folder(place, times, rows, ddl, definitions)
    return JsonFolder(place)


# Streams ------------------------------------------------------------------------------------------


def json_lines(folder: JsonFolder, token: str | None = None, tables: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """The lines of a stream over the folder, by the product's own stages."""
    wanted = filter_of(tables, None, frozenset(), folds_names=False)
    request = StreamRequest(World(None, folder.file.parent, name=FEED), tables=tables, heartbeat_seconds=3600)  # type: ignore[arg-type]
    stream = OpenedStream(JsonSourceStream(folder, FEED, wanted.table, token), wanted, request)
    written = (Writing().lines(span) for span in stream.read_batches())  # type: ignore[arg-type]  # no heartbeat is due
    return [json.loads(line) for lines in written for line in lines.splitlines()]


def without_log(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lines without what only one kind of log has."""
    return [{name: value for name, value in line.items() if name not in {"token", "gtid"}} for line in lines]


@pytest.mark.parametrize("tables", [(), ("shop.b",)])
def test_streams_give_the_same_lines(binlog: World, folder: JsonFolder, tables: tuple[str, ...]) -> None:
    ours = binlog.lines("beginning", until="landed", tables=tables)
    theirs = json_lines(folder, tables=tables)
    assert without_log(theirs) == without_log(ours)
    assert any("ddl" in line for line in ours)


def test_rows_have_the_definition_that_their_source_names(folder: JsonFolder) -> None:
    source = JsonSourceStream(folder, FEED, lambda _: True)
    batches = list(folder.batches(0, folder.lines, lambda _: True))
    for batch in batches:
        for seq in batch.batch.column(batch.batch.schema.get_all_field_indices("_seq")[-1]).to_pylist():
            assert source.definition(batch.table, seq) == batch.definition
    assert {batch.table for batch in batches} == {TableName("shop", name) for name in ("a", "b")}
    with pytest.raises(SchemaGapError):
        source.definition(TableName("shop", "none"), None)


@pytest.mark.parametrize("kind", ["binlog", "json"])
def test_each_token_gives_the_rest_once(binlog: World, folder: JsonFolder, kind: str) -> None:
    def read(token: str | None) -> list[dict[str, Any]]:
        if kind == "json":
            return json_lines(folder, token)
        return binlog.lines(token or "beginning", until="landed")

    whole = read(None)
    for at in random.Random(0).sample(range(len(whole)), 12):
        assert read(whole[at]["token"]) == whole[at + 1 :]


# Change tables, verdicts, mirrors -----------------------------------------------------------------


def json_slices(folder: JsonFolder, plan: RunPlan, chance: random.Random) -> tuple[PlannedSlice, ...]:
    """Slices of the folder for the intervals of a plan: each table has one version in a slice."""
    found = list[PlannedSlice]()
    for interval in plan.intervals:
        begin, tables = interval.after_seq, dict[TableName, PlannedVersion]()
        for at in range(interval.after_seq, interval.last_seq + 1):
            mine = {} if at == interval.last_seq else _tables_of(folder, at)
            is_cut = any(tables.get(name, table) != table for name, table in mine.items()) or chance.random() < 0.1
            if begin < at and (is_cut or at == interval.last_seq):
                offsets = (folder.begins[begin], folder.begins[at], folder.begins[begin])
                named = tuple(tables[name] for name in sorted(tables))
                piece = (plan.source, str(folder.file), folder.file.name, *offsets, begin + 1, 0, 0, None, (), named)
                found.append(PlannedSlice(*piece, interval_start=interval.start))
                begin, tables = at, {}
            tables.update(mine)
    return tuple(found)


def _tables_of(folder: JsonFolder, at: int) -> dict[TableName, PlannedVersion]:
    return {
        TableName(database, table): PlannedVersion(database, table, version, folder.definitions[version].to_json())
        for database, table, version, _ in folder.lines[at]["rows"]
    }


def publish(world: MirrorWorld, read: ReadSlice, folder: JsonFolder | None = None) -> list[Any]:
    """Plans, decodes, checks and publishes everything; returns the verdicts, without what names files."""
    land_binlog(world.source.address, lake=world.lake, source=world.name)
    track_landed(world.lake, world.name, world.engine)
    stream = LandedStream.open(world.lake, world.name)
    request = RunRequest(0, stream.clock + 1)
    planned = plan_run(world.source, world.engine, stream, request, now=time.time_ns() // 1000)
    run = run_folder(world.lake, world.name, planned.run)
    if folder is not None:
        plan = read_plan(run)
        write_plan(run, replace(plan, slices=json_slices(folder, plan, random.Random(3))))
    tasks = planned_tasks(planned.run_url)
    store_decoded(planned.run_url, [file for task in tasks for file in decode_slice_to_files(task, read=read)])
    check_interval(world.lake, world.name, planned.run, pytest.fail).raise_if_failed()
    ledger = TableIntervalLedger(world.engine)
    for outcome in publication_of(world.lake, world.name, planned.run).commit_tables():
        one = outcome.planned
        ledger.put([TableInterval(world.name, one.interval, one.database, one.table, one.counted, outcome.state)])
    verdicts = (read_verdicts(run) or {}).values()
    return [_without_log(one) for one in sorted(verdicts, key=lambda one: one.interval)]


@pytest.mark.parametrize("kind", [0, 1])
def test_a_killed_slice_gives_the_same_files(worlds: Any, tmp_path: Path, kind: int) -> None:
    world, read = worlds[kind][0], (read_slice, read_json_slice)[kind]
    chance, is_killed = random.Random(kind), 0

    def killed(piece: Slice) -> Iterator[Any]:
        for step in read(piece):
            yield step
            if chance.random() < 0.7:
                raise KeyboardInterrupt

    (name,) = (Path(world.lake) / "runs" / FEED).iterdir()
    for task in planned_tasks(str(name)):
        whole = decode_slice_to_files(replace(task, staging=str(tmp_path / "whole")), read=read)
        again = replace(task, staging=str(tmp_path / "again"))
        try:
            decode_slice_to_files(again, read=killed)
        except KeyboardInterrupt:
            is_killed += 1
        files = decode_slice_to_files(again, read=read)
        assert [replace(one, url="") for one in files] == [replace(one, url="") for one in whole]
    assert is_killed


def _without_log(verdict: IntervalVerdict) -> Any:
    """A verdict without what only one kind of log has."""
    plain = to_plain(replace(verdict, staged=""))
    for failure in (one for table in plain["tables"] for one in table["failures"]):
        failure["examples"] = [{**json.loads(one), "_gtid": None} for one in failure["examples"]]
    return plain


@pytest.fixture(scope="module")
def worlds(
    binlog: World, folder: JsonFolder, tmp_path_factory: pytest.TempPathFactory
) -> tuple[tuple[MirrorWorld, list[Any]], tuple[MirrorWorld, list[Any]]]:
    """Two lakes, and their verdicts: of the binlog, and of the folder."""
    ours = MirrorWorld(binlog.server, tmp_path_factory.mktemp("ours"), name=FEED)
    theirs = MirrorWorld(binlog.server, tmp_path_factory.mktemp("theirs"), name=FEED)
    made = (ours, publish(ours, read_slice)), (theirs, publish(theirs, read_json_slice, folder))
    for world, _ in made:
        world.update()
    return made


def test_verdicts_are_the_same(worlds: Any) -> None:
    (_, ours), (_, theirs) = worlds
    assert theirs == ours
    assert sum(table["rows"] for one in ours for table in one["tables"]) > 50


def test_change_tables_have_the_same_rows(worlds: Any) -> None:
    (ours, _), (theirs, _) = worlds
    names = published_tables(ours.lake, FEED)
    assert published_tables(theirs.lake, FEED) == names
    for name in names:
        for one, other in zip(*(read_columns(world.lake, FEED, name) for world in (ours, theirs)), strict=True):
            kept = [column for column in one.column_names if column not in OF_ONE_LOG]
            order = [("_seq", "ascending"), ("_row", "ascending")]
            assert other.select(kept).sort_by(order).equals(one.select(kept).sort_by(order)), name
            assert other["_gtid"].null_count == other.num_rows


def test_mirrors_have_the_rows_of_the_server(worlds: Any) -> None:
    for world, _ in worlds:
        world.assert_equal()


def test_values_survive_the_folder(folder: JsonFolder) -> None:
    """The folder is no weaker than the binlog: its rows, written again, are the same lines."""
    columns = folder.columns(0, len(folder.lines))
    again = [row for batch in folder.batches(0, columns.lines, lambda _: True) for row in rows_of(batch)]
    again.sort(key=lambda one: (one.seq, one.row))
    written = [[*name, version, values] for line in columns.lines for *name, version, values in line["rows"]]
    assert [[one.table.database, one.table.table, one.version, one.values] for one in again] == written
    assert np.all(np.diff(columns.ts) > 0)
    assert any(one.values[3] for one in again), "no row of a partial image was drawn"
    assert any(one.values[4] for one in again), "no value was drawn that its column cannot hold"
    assert all(definition_from_json(one.to_json()) == one for one in folder.definitions.values())
