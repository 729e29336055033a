"""CSV without old values: who needs the row before an update refuses it, whatever row a question is about.

An update that TiCDC has not split may have moved any row, also the one that is asked about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

from tests.serve.conftest import app_of, client_of
from tests.ticdc.generator import START, Feed, Row, SinkTable
from tests.ticdc.world import ID, NAME, SinkWorld, named

if TYPE_CHECKING:
    from pathlib import Path

UPDATES = {
    "split": [Row(START + 15, None, named(1)), Row(START + 15, named(9))],
    "not split": [Row(START + 15, named(9), named(1))],
}
OLD_VALUES_REMEDY = "`output-old-value = true`"


@pytest.fixture(params=UPDATES)
def world(tmp_path: Path, request: pytest.FixtureRequest) -> SinkWorld:
    """Rows in one file, updates in another that has no row with the key 1."""
    world = SinkWorld(tmp_path)
    feed = Feed(world.sink)
    table = SinkTable("shop", "a", (), START + 5)
    feed.ddl(table, START + 5, 3, "CREATE TABLE a (id INT PRIMARY KEY, name VARCHAR(20))", (ID, NAME))
    feed.write(table, [Row(START + 11, named(1)), Row(START + 12, named(2))])
    feed.checkpoint(START + 13)
    world.run()
    feed.write(table, [Row(START + 14, {"id": 2, "name": "other"}, named(2)), *UPDATES[request.param]])
    feed.checkpoint(START + 30)
    world.run()
    return world


@pytest.mark.parametrize("key", ["1", "2", "9", "77"])
def test_a_row_through_time_is_refused(world: SinkWorld, key: str) -> None:
    for line in (f"row history shop.a {key}", f"row blame shop.a {key}"):
        done = world.strata(*line.split())
        assert done.returncode == 1, done.stdout
        assert "nobody knows which row a change is of" in done.stderr
        assert OLD_VALUES_REMEDY in done.stderr
        assert not done.stdout
    assert "n1" in world.strata("row", "history", "shop.a", "1", "--to", str(START + 13)).stdout
    with client_of(app_of(lambda: world.settings)) as client:
        page = client.get("/row", params={"source": "s", "database": "shop", "table": "a", "key": key})
        assert page.status_code == 404
        assert "nobody knows which row a change is of" in page.text


@pytest.mark.parametrize("where", ["", " WHERE id = 1", " WHERE id = 2", " WHERE id = 77"])
def test_a_view_of_rows_without_a_mirror_fails(world: SinkWorld, where: str) -> None:
    script = world.strata("views", "--dialect", "duckdb", "--through", "files").stdout
    with duckdb.connect() as connection:
        connection.execute(script)
        for columns in ("*", "name", "count(*)", "1"):
            with pytest.raises(duckdb.Error, match=OLD_VALUES_REMEDY):
                connection.execute(f"SELECT {columns} FROM shop.a{where}").fetchall()
        changes = connection.execute("SELECT _op, id FROM shop.a__changes ORDER BY _seq, _row").fetchall()
    assert changes[:3] == [("insert", 1), ("insert", 2), ("update", 2)]
