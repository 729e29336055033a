"""Tables with ENGINE = MERGE: rows that are logged under another name than that of the table in which they lie."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.landing.landed import LandedStream
from strata_cdc.pipeline.plan.pending import RunRequest
from strata_cdc.pipeline.plan.plan_slices import plan_run
from strata_cdc.schema.model.definition import ROWS_ELSEWHERE
from strata_cdc.tracking.track_schema import track_landed
from tests.mariadb_server import FAMILIES, start_family
from tests.mirrors.world import MirrorWorld, outcomes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql
TABLES = """CREATE DATABASE shop; USE shop; CREATE TABLE a (id INT PRIMARY KEY) ENGINE = MyISAM; CREATE TABLE b LIKE a;
CREATE TABLE m (id INT PRIMARY KEY) ENGINE = MERGE UNION = (a, b) INSERT_METHOD = LAST;
INSERT INTO a VALUES (1); INSERT INTO b VALUES (2)"""


@pytest.fixture(scope="module", params=FAMILIES)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    with start_family(tmp_path_factory.mktemp("merge"), request.param) as running:
        yield running


def test_what_is_written_through_it_is_withheld_by_name(server: MysqlServer, tmp_path: Path) -> None:
    server.run_sql(TABLES)
    world = MirrorWorld(server, tmp_path)
    world.publish()
    world.update()
    found = outcomes(world)
    assert (found["m"].needs_dump, ROWS_ELSEWHERE in str(found["m"].behind)) == (False, True)
    assert (found["a"].rows, found["b"].rows) == (1, 1)
    server.run_sql("INSERT INTO m VALUES (3)", "shop")
    land_binlog(world.source.address, lake=world.lake, source=world.name)
    track_landed(world.lake, world.name, world.engine)
    stream = LandedStream.open(world.lake, world.name)
    now = max(stream.clock + 1, time.time_ns() // 1000)
    planned = plan_run(world.source, world.engine, stream, RunRequest(0, now), now=now)
    assert planned.refused == 1
    assert ROWS_ELSEWHERE in str(planned.reason)
