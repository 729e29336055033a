"""What is written through views in statement format: the binlog names the view, and the rows of its tables change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strata_cdc.schema.history.sql_store import SchemaStore
from tests.mariadb_server import FAMILIES, start_family
from tests.mirrors.world import MirrorWorld, outcomes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql


@pytest.fixture(scope="module", params=FAMILIES[:2])
def any_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    with start_family(tmp_path_factory.mktemp("family"), request.param) as running:
        yield running


OLDER = """
CREATE DATABASE shop;
CREATE TABLE shop.a (id INT PRIMARY KEY, v INT); CREATE TABLE shop.b (id INT PRIMARY KEY, w INT);
CREATE TABLE shop.c (id INT PRIMARY KEY, v INT); CREATE DATABASE other;
INSERT INTO shop.a VALUES (1, 1), (2, 2); INSERT INTO shop.b VALUES (1, 1), (2, 2);
CREATE VIEW shop.of_a AS SELECT id, v FROM shop.a WHERE v > 0;
CREATE VIEW other.joined AS SELECT x.id, x.v, y.w FROM (shop.of_a x JOIN shop.b AS y ON x.id = y.id);
CREATE VIEW shop.of_server AS SELECT * FROM mysql.help_topic;
"""
NEWER = """
CREATE VIEW `of a, newer` AS SELECT id, (SELECT MAX(w) FROM b) AS most, v FROM a WHERE id > 0;
CREATE VIEW of_b AS SELECT * FROM a; ALTER VIEW of_b AS SELECT * FROM b; RENAME TABLE of_b TO of_renamed;
CREATE VIEW gone AS SELECT * FROM a; DROP VIEW gone; CREATE TABLE gone (id INT PRIMARY KEY);
CREATE VIEW named AS WITH q AS (SELECT 1 AS n) SELECT a.id, a.v FROM a JOIN q;
SET SESSION binlog_format = STATEMENT;
"""
WRITTEN = {
    "UPDATE of_a SET v = 3": "shop.a",
    "UPDATE other.joined SET w = 5": "shop.a shop.b",
    "DELETE FROM `of a, newer` WHERE id = 2": "shop.a",
    "INSERT INTO of_renamed VALUES (7, 7)": "shop.b",
    "INSERT INTO gone VALUES (1)": "shop.gone",
    "UPDATE of_a, b SET of_a.v = 4 WHERE b.id = of_a.id": "shop.a shop.b",
    # A name that is neither table nor view: what is written is not known.
    "UPDATE named SET v = 8": "",
}


def test_a_statement_changes_the_tables_of_its_views(any_server: MysqlServer, tmp_path: Path) -> None:
    """Views of before the stream are known from the snapshot, the others from their statements."""
    any_server.run_sql(OLDER + any_server.reset_sql)
    world = MirrorWorld(any_server, tmp_path)
    world.snapshot()
    any_server.run_sql(NEWER + ";".join(WRITTEN), "shop")
    world.publish()
    changes = SchemaStore(world.engine).statement_changes("s", 0, 1 << 40)
    assert {change.statement: " ".join(map(str, change.tables)) for change in changes} == WRITTEN


def test_a_mirror_stands_before_what_was_written_through_a_view(server: MysqlServer, tmp_path: Path) -> None:
    world = MirrorWorld(server, tmp_path)
    server.run_sql(OLDER)
    world.publish()
    assert {found.behind for found in outcomes(world).values()} == {None}
    server.run_sql("SET SESSION binlog_format = STATEMENT; UPDATE of_a SET v = 3", "shop")
    world.publish()
    found = outcomes(world)
    assert "`UPDATE of_a SET v = 3` was logged as a statement" in (found["a"].behind or "")
    assert (found["b"].behind, found["c"].behind) == (None, None)
