"""Mirrors of a real server while intervals become one, files are merged and old ones deleted: mirrors stay what SELECT
gives, and change tables keep their rows."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from strata_cdc.config.settings import SourceSettings
from strata_cdc.pipeline.housekeep.merge_intervals import IntervalMergeLimits, merge_steps
from strata_cdc.pipeline.plan.pending import RunRequest, WorkChoice
from strata_cdc.store.ledgers import IntervalLedger
from strata_cdc.tables.layout import table_url
from strata_cdc.tables.read import read_columns
from tests.mirrors.world import MirrorWorld
from tests.published import published_tables
from tests.seeds import seeds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from strata_cdc.pipeline.housekeep.merge_intervals import MergeStep
    from strata_cdc.store.ledgers import ClosedInterval
    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]
TABLES = ("keyed", "loose", "quiet")
HOUR = 3_600_000_000


@pytest.fixture
def world(server: MysqlServer, tmp_path: Path) -> MirrorWorld:
    server.run_sql(
        "DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop;"
        "CREATE TABLE shop.keyed (id INT PRIMARY KEY, name VARCHAR(20), price DECIMAL(8,2));"
        "CREATE TABLE shop.loose (id INT, name VARCHAR(20)); CREATE TABLE shop.quiet (id INT PRIMARY KEY, note TEXT)"
    )
    world = MirrorWorld(server, tmp_path)
    world.publish()
    world.update()
    return world


def merging(world: MirrorWorld, *, most: int = 1, rows: int = 1_000_000) -> Iterator[MergeStep]:
    """The upkeep, step by step, an hour from now: all that is published lies in spans that have ended."""
    world.source = type(world.source)(
        world.name,
        world.source.address,
        world.lake,
        "",
        SourceSettings("unused", merge_minutes=60, keep_merged_hours=0),
    )
    limits = IntervalMergeLimits(most=most, age_seconds=0, rows=rows, run_hours=-1_000_000, log_hours=0)
    return merge_steps(world.source, world.engine, limits=limits, now=lambda: time.time_ns() // 1000 + HOUR)


def update(world: MirrorWorld) -> None:
    """Updates the mirrors; nothing is wrong with any of them."""
    report = world.update()
    assert not [(one.table, one.behind, one.error) for one in report.mirrors if one.behind or one.error]


def merge(world: MirrorWorld) -> list[str]:
    return [step.line for step in merging(world)]


def intervals(world: MirrorWorld) -> list[ClosedInterval]:
    return IntervalLedger(world.engine).all(world.name)


def changes(world: MirrorWorld) -> dict[str, list[dict[str, Any]]]:
    """All that change tables have, but for the interval."""
    found = {}
    for name in published_tables(world.lake, world.name):
        whole = pa.concat_tables(read_columns(world.lake, world.name, name), promote_options="permissive")
        rows = whole.sort_by([("_seq", "ascending"), ("_row", "ascending")]).drop_columns(["_interval"])
        found[str(name)] = rows.to_pylist()
    return found


def statement(chance: random.Random, number: int) -> str:
    """A change of some rows."""
    key = chance.randrange(30)
    return chance.choice(
        [
            f"INSERT INTO keyed (id, name, price) VALUES ({100 + number}, 'n{number}', {number}.25)",
            f"UPDATE keyed SET price = price + 1, name = 'u{number}' WHERE id % 30 = {key}",
            f"UPDATE keyed SET id = id + 10000 WHERE id = {100 + chance.randrange(number + 1)}",
            f"DELETE FROM keyed WHERE id % 30 = {key}",
            f"INSERT INTO loose (id, name) VALUES ({number}, NULL), ({number}, 'x')",
            f"UPDATE loose SET name = 'u{number}' WHERE id % 7 = {key % 7}",
            f"DELETE FROM loose WHERE id = {chance.randrange(number + 1)} LIMIT 1",
            f"INSERT INTO quiet (id, note) VALUES ({number}, REPEAT('q', {number}))",
        ]
    )


def a_past(world: MirrorWorld, chance: random.Random) -> RunRequest:
    """A span of time in which something was published."""
    known = intervals(world)
    start, end = sorted((chance.choice(known).start, chance.choice(known).end))
    return RunRequest(start, end if end > start else start + 1)


def live(world: MirrorWorld, chance: random.Random, number: int) -> None:
    statements = [statement(chance, number * 10 + at) for at in range(chance.randrange(1, 5))]
    if chance.random() < 0.1:
        table = chance.choice(TABLES)
        statements.append(f"ALTER TABLE {table} ADD COLUMN c{number} INT DEFAULT {number}")
    world.server.run_sql("USE shop; " + "; ".join(statements))
    world.publish(choice=WorkChoice.PENDING)


@pytest.mark.parametrize("seed", seeds())
def test_mirrors_go_on_and_changes_stay(world: MirrorWorld, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    steps: Iterator[MergeStep] | None = None
    merged = 0
    for number in range(20):
        live(world, chance, number)
        if chance.random() < 0.6:
            update(world)
        if chance.random() < 0.15:
            world.publish(a_past(world, chance))
        if chance.random() < 0.2:
            # Before it, the log may be cut, as far as the mirror has followed.
            name = chance.choice(published_tables(world.lake, world.name))
            DeltaTable(table_url(world.lake, world.name, name)).create_checkpoint()
        if steps is None and chance.random() < 0.5:
            steps = merging(world, rows=chance.choice([10, 50, 1_000_000]))
        # An upkeep ends anywhere, and others begin beside it.
        for _ in range(chance.randrange(5) if steps else 0):
            merged += next(steps, None) is not None
        steps = None if chance.random() < 0.4 else steps
    merge(world)
    assert merged
    update(world)
    world.assert_equal()
    # One for each hour in which something began, and a first one that may be long.
    assert len(intervals(world)) <= 3
    (tmp_path / "other").mkdir()
    other = MirrorWorld(world.server, tmp_path / "other")
    other.publish()
    assert changes(world) == changes(other)
