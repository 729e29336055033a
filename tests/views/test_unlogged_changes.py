"""Views of rows that statements have changed without row events: they say it, or there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strata_cdc.dialects.engines import Dialect
from strata_cdc.dialects.relations import Through
from strata_cdc.schema.model.row_effects import IGNORES
from strata_cdc.views.make_views import ViewKind, make_views
from tests.mirrors.world import MirrorWorld

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mariadb_server import MariadbServer

pytestmark = pytest.mark.mysql


def test_a_view_of_rows_says_what_no_row_event_says(mariadb_server: MariadbServer, tmp_path: Path) -> None:
    mariadb_server.run_sql("RESET MASTER; DROP DATABASE IF EXISTS shop; CREATE DATABASE shop")
    mariadb_server.run_sql(
        """
        CREATE TABLE pruned (id INT PRIMARY KEY, a INT); INSERT INTO pruned VALUES (1, 1), (2, 1);
        ALTER IGNORE TABLE pruned ADD UNIQUE (a);
        CREATE TABLE emptied (id INT PRIMARY KEY, a INT); INSERT INTO emptied VALUES (1, 1), (2, 1);
        ALTER IGNORE TABLE emptied ADD UNIQUE (a); TRUNCATE TABLE emptied; INSERT INTO emptied VALUES (3, 3);
        CREATE TABLE old (id INT PRIMARY KEY); INSERT INTO old VALUES (1), (2);
        SET SESSION binlog_format = STATEMENT; DELETE FROM old WHERE id = 1; SET SESSION binlog_format = ROW;
        RENAME TABLE old TO counted;
        """,
        "shop",
    )
    world = MirrorWorld(mariadb_server, tmp_path)
    world.publish()
    made = make_views(world.lake, "s", world.engine, Dialect.DUCKDB, Through.FILES)
    now = {one.table.table: one for one in made if one.kind is ViewKind.NOW}
    assert (now["pruned"].statements, now["pruned"].notes) == ((), (IGNORES,))
    assert now["emptied"].statements
    assert now["counted"].statements
    assert "`DELETE FROM old WHERE id = 1` was logged as a statement" in now["counted"].notes[-1]
    assert not any("logged as a statement" in note for note in now["emptied"].notes)
