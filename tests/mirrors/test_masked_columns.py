"""Columns with a masking policy (MySQL 9.7): the log has what is stored, a SELECT does not. The free server lacks the
component that has the policies: it takes them, and a SELECT is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strata_cdc.errors import Usage
from strata_cdc.mirrors.dump.dump_table import DumpSettings
from strata_cdc.mirrors.dump.dump_tables import dump_tables
from strata_cdc.quality.reconcile.report import ComparisonOutcome
from strata_cdc.schema.model.definition import TableName
from tests.mirrors.test_dump import source_of
from tests.mirrors.world import MirrorWorld, assert_rows, mirror_of
from tests.quality.live_world import LiveWorld

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql
TABLE = (
    "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('ä', 'b') DEFAULT 'ä' MASKING POLICY p, a VARCHAR(9) MASKING POLICY q);"
    "INSERT INTO t VALUES (1, 'b', 'stored')"
)
UNMASKED = "ALTER TABLE t ALTER e DROP MASKING POLICY, ALTER a DROP MASKING POLICY"


@pytest.fixture
def server(server: MysqlServer) -> MysqlServer:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    return server


def test_rows_are_read_once_no_policy_is_there(server: MysqlServer, tmp_path: Path) -> None:
    server.run_sql(f"{TABLE}; FLUSH BINARY LOGS; PURGE BINARY LOGS TO 'binlog.000002'", "shop")
    world = MirrorWorld(server, tmp_path)
    world.snapshot()
    server.run_sql("INSERT INTO t VALUES (2, 'ä', 'logged')", "shop")
    world.publish()
    table, settings = [TableName("shop", "t")], DumpSettings(1 << 20, 0)
    with pytest.raises(Usage, match="stored in column e, a: there is a masking policy"):
        dump_tables(source_of(world), table, settings)
    server.run_sql(UNMASKED, "shop")
    dump_tables(source_of(world), table, settings)
    assert_rows(mirror_of(world, "t"), ((1, "b", "stored"), (2, "ä", "logged")))


def test_a_mirror_that_follows_from_the_log_has_what_is_stored(server: MysqlServer, tmp_path: Path) -> None:
    server.run_sql(f"{TABLE}; UPDATE t SET a = 'changed' WHERE id = 1", "shop")
    world = MirrorWorld(server, tmp_path)
    world.publish()
    world.update()
    assert_rows(mirror_of(world, "t"), ((1, "b", "changed"),))


def test_masked_values_are_compared_with_nothing(server: MysqlServer, tmp_path: Path) -> None:
    server.run_sql(TABLE, "shop")
    world = LiveWorld(server, tmp_path)
    world.run()
    report = world.said("t")
    assert report.outcome is ComparisonOutcome.INCONCLUSIVE
    assert "there is a masking policy" in report.reasons[0]
    world.sql(UNMASKED)
    assert world.said("t").outcome is ComparisonOutcome.MATCH
