"""A store that is lost without a backup: the landed segments alone give the same versions, and the same rows again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strata_cdc.lake.known_lake import known_store
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.store.database import open_store
from strata_cdc.tables.read import read_changes
from tests.past.past_world import PastWorld

if TYPE_CHECKING:
    import pyarrow as pa

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql

LIFE = (
    "CREATE TABLE items (id INT PRIMARY KEY, price INT); INSERT INTO items VALUES (1, 10), (2, 20);"
    "ALTER TABLE items ADD COLUMN tag VARCHAR(9) FIRST; UPDATE items SET tag = 'a'",
    "ALTER TABLE items RENAME COLUMN price TO amount, MODIFY tag VARCHAR(20);"
    "CREATE TABLE other LIKE items; INSERT INTO other SELECT * FROM items; RENAME TABLE other TO more",
    "TRUNCATE items; ALTER TABLE more DROP COLUMN tag; DELETE FROM more WHERE id = 1; DROP TABLE items",
)


def rows(world: PastWorld, table: str) -> pa.Table:
    found = read_changes(world.lake, "shop", table).drop_columns(["_interval"])
    return found.sort_by([("_seq", "ascending"), ("_row", "ascending")])


def test_the_segments_give_the_same_versions_and_rows(server: MysqlServer, tmp_path: Path) -> None:
    for name in ("former", "new"):
        (tmp_path / name).mkdir()
    former = PastWorld(server, tmp_path / "former", name="shop")
    server.run_sql("CREATE DATABASE shop")
    for part in LIFE:
        server.run_sql(part, "shop")
        former.publish()
        known_store(former.readable)
    shutil.copytree(Path(former.lake) / "landing", tmp_path / "new" / "lake" / "landing")
    new = PastWorld(server, tmp_path / "new", name="shop")
    # What every command does first: the copy has the lake's id, and no tables of another store.
    known_store(new.readable)
    new.publish()
    entries, others = (SchemaStore(world.engine).all_entries("shop") for world in (former, new))
    assert len(entries) >= 9
    assert others == entries
    for entry in entries:
        if entry.fingerprint:
            assert SchemaStore(open_store(new.readable.store_url)).definition(entry.fingerprint) == SchemaStore(
                former.engine
            ).definition(entry.fingerprint)
    for table in ("shop.items", "shop.more", "shop.other"):
        assert rows(new, table).equals(rows(former, table)), table
        assert rows(new, table).num_rows
