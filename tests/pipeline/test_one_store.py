"""One store for several sources: each is as in a store of its own, and the store's own writes are nobody's rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from strata_cdc.binlog.protocol.connection import ServerAddress
from strata_cdc.clock import now_micros
from strata_cdc.config.settings import Source, SourceSettings
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.landing.landed import LandedStream
from strata_cdc.pipeline.plan.pending import RunRequest
from strata_cdc.pipeline.plan.plan_slices import plan_run
from strata_cdc.runs.run_folder import read_plan, run_folder
from strata_cdc.schema.history.snapshot_ledger import pending_snapshots
from strata_cdc.store.database import open_store, reading
from strata_cdc.store.notified import NotifiedLedger
from strata_cdc.store.tables import METADATA
from strata_cdc.tracking.snapshot_schemas import snapshot_schemas
from strata_cdc.tracking.track_schema import track_landed
from tests.pipeline.owed_world import MINUTE, World

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.mysql_server import MysqlServer

PER_STORE = {"lake", "id", "version_id", "history", "snapshot_id"}
"""Columns with numbers that a store gives in the order of what comes to it."""
BY_THE_CLOCK = {"noticed_at", "published_at", "changed_at", "judged_at"}


@pytest.fixture(params=["sqlite", pytest.param("mysql", marks=pytest.mark.mysql)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/store.db"
        return
    server = request.getfixturevalue("mysql_server")
    server.run_sql("DROP DATABASE IF EXISTS one_store")
    yield f"{server.url}one_store"
    server.run_sql("DROP DATABASE one_store")


def life(world: World, tables: tuple[str, ...]) -> Iterator[None]:
    """A source's weeks, run by run: a check that fails, a run of one table, a table that is wanted later."""
    for number, table in enumerate(tables):
        world.now += MINUTE
        world.change(table, [world.gno, world.gno])
        world.now += 5 * MINUTE
        world.failing = frozenset({table} if number == 1 else ())
        world.wanted = ("d.a",) if number == 0 else ("d.*",)
        yield from world.steps(RunRequest())
        NotifiedLedger(world.engine).put_version(world.name, number)
        yield
    yield from world.steps(RunRequest(tables=("d.a", "d.c")))


def stored(world: World) -> dict[str, list[Any]]:
    """All that the store has of a source, but for what is the store's or the clock's."""
    found = {}
    with reading(world.engine) as connection:
        for table in METADATA.sorted_tables:
            if "source" in table.c:
                columns = [one for one in table.c if one.name not in PER_STORE | BY_THE_CLOCK | {"source", "details"}]
                rows = connection.execute(sa.select(*columns).where(table.c.source == world.name))
                found[table.name] = sorted(_by_span(repr(_without(world.source.lake, row))) for row in rows)
    return found


def _without(lake: str, row: sa.Row[Any]) -> tuple[Any, ...]:
    """A row without the place of the lake, which reasons name."""
    return tuple(value.replace(lake, "") if isinstance(value, str) else value for value in row)


def test_each_source_is_as_in_a_store_of_its_own(tmp_path: Path, store: str) -> None:
    # Names that a database could take for one.
    lives = {"shop": ("b", "a"), "Shop": ("c",)}
    together = [World(tmp_path / name / "together", name=name, store=store, lake=str(tmp_path)) for name in lives]
    alone = [World(tmp_path / name / "alone", name=name) for name in lives]
    steps = [life(world, lives[world.name]) for world in together]
    # Turn by turn, so that each step of one source finds what the other has just done.
    while steps:
        steps = [one for one in steps if next(one, StopIteration) is not StopIteration]
    for shared, own in zip(together, alone, strict=True):
        for _ in life(own, lives[own.name]):
            pass
        shared.assert_nothing_is_lost()
        assert stored(shared) == stored(own)
        assert {_by_span(run) for run in shared.runs()} == {_by_span(run) for run in own.runs()}


def _by_span(text: str) -> str:
    """Without the digest of a run's plan, in which numbers of the store and the lake's place are."""
    return re.sub(r"(Z-\w+-rows-)[0-9a-f]{10}\b", r"\1", text)


@pytest.mark.mysql
def test_what_the_store_writes_for_one_source_is_no_row_of_the_other(mysql_server: MysqlServer, tmp_path: Path) -> None:
    """The store is on the server of source `hub`: what is written for `files` is in the binlog of `hub`."""
    mysql_server.run_sql("DROP DATABASE IF EXISTS one_store; DROP DATABASE IF EXISTS shop; CREATE DATABASE shop")
    # Settings of which nothing is there are refused.
    mysql_server.run_sql("CREATE TABLE shop.before (id INT PRIMARY KEY)")
    store = f"{mysql_server.url}one_store"
    files = World(tmp_path / "files", name="files", store=store)
    address = ServerAddress(mysql_server.host, mysql_server.port, mysql_server.user, mysql_server.password)
    hub = Source("hub", address, str(tmp_path / "lake"), store, SourceSettings("-", tables=("shop.*", "one_store.*")))
    engine = open_store(store)

    def plan() -> list[str]:
        land_binlog(address, lake=hub.lake, source="hub")
        track_landed(hub.lake, "hub", engine)
        report = plan_run(hub, engine, LandedStream.open(hub.lake, "hub"), RunRequest(), now=now_micros())
        return sorted({one.name for one in read_plan(run_folder(hub.lake, "hub", report.run)).tables})

    plan()
    mysql_server.run_sql("CREATE TABLE shop.a (id INT PRIMARY KEY); INSERT INTO shop.a VALUES (1)")
    files.change("a", [1, 2])
    files.now += 10 * MINUTE
    files.run(RunRequest())
    files.assert_nothing_is_lost()
    assert plan() == ["shop.a"]
    snapshot_schemas(address, engine, "hub")
    (taken,) = pending_snapshots(engine, "hub")
    assert {name.database for name in taken.tables}.isdisjoint({"one_store"})
    assert pending_snapshots(engine, "files") == []
