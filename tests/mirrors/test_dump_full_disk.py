"""Dumps on a disk that fills up: what was read is kept, and the dump goes on there once there is room."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata_cdc.errors import LakeUnavailableError
from strata_cdc.mirrors.table import Mirror
from strata_cdc.schema.model.definition import TableName
from tests.disks import enlarge, small_disk
from tests.mirrors.test_dump import assert_equal, dump, manifest_of, world

__all__ = ["world"]

pytestmark = pytest.mark.mysql


@pytest.mark.parametrize(("what", "room"), [("dumps", 400 << 10), ("dumps", 1 << 20), ("mirrors", 64 << 10)])
def test_a_disk_that_fills_up(world, what, room):
    world.database = f"filled_{what}_{room}"
    world.server.run_sql(
        f"CREATE DATABASE {world.database}; USE {world.database}; SET cte_max_recursion_depth = 10000;"
        "CREATE TABLE random (id INT PRIMARY KEY, b VARBINARY(600)) WITH RECURSIVE r AS "
        "(SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 2500) SELECT n AS id, RANDOM_BYTES(600) AS b FROM r;"
    )
    disk = Path(world.lake, what)
    disk.mkdir(parents=True, exist_ok=True)
    with small_disk(disk, room):
        with pytest.raises(LakeUnavailableError, match="Free space there"):
            dump(world, "random")
        assert Mirror.open(world.lake, world.name, TableName(world.database, "random")) is None
        manifest = manifest_of(world, "random")
        read = 0 if manifest is None else len(manifest.chunks)
        assert read == {400 << 10: 0, 1 << 20: 1, 64 << 10: 3}[room]
        enlarge(disk, 16 << 20)
        chunks = []
        assert dump(world, "random", tell=chunks.append).chunks == 3
        assert len(chunks) == 3 - read
        mirror = Mirror.open(world.lake, world.name, TableName(world.database, "random"))
        assert_equal(world, "random", mirror.to_arrow())
