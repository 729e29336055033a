"""Columns that get other names, by every setting, as the server has them and as every reader of Delta tables does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake.exceptions import DeltaProtocolError

from strata_cdc.mirrors.compact import compact, vacuum
from strata_cdc.mirrors.limits import MirrorLimits
from strata_cdc.mirrors.renames import Renames, is_former, is_mapped, renames_by, same_as
from strata_cdc.schema.model.definition import TableName
from tests.mirrors import history_check
from tests.mirrors.delta_readers import READERS, by_deltalake, by_duckdb, by_polars
from tests.mirrors.world import MirrorWorld, mirror_of

if TYPE_CHECKING:
    import pyarrow as pa

    from strata_cdc.mirrors.table import Mirror
    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]


def policy_of(table: TableName) -> Renames:
    """Tables are called like what becomes of theirs."""
    return Renames(table.table.partition("_")[0])


@pytest.fixture
def world(server: MysqlServer, tmp_path: Path) -> MirrorWorld:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    return MirrorWorld(server, tmp_path, renames=policy_of)


def live(world: MirrorWorld, statements: str, *names: str) -> None:
    """The statements on each table, and the mirrors behind them, which are what the server has."""
    world.server.run_sql(";".join(statements.replace("{t}", name) for name in names), "shop")
    world.publish()
    assert {(one.behind, one.error) for one in world.update().mirrors} == {(None, None)}
    world.assert_equal()


BEGIN = (
    "CREATE TABLE {t} (id INT PRIMARY KEY, x INT, y INT, v VARCHAR(9), at DATETIME, g POINT);"
    "INSERT INTO {t} VALUES (1, 1, 10, 'a', '2026-01-01', POINT(1, 2)), (2, 2, 20, 'b', NULL, NULL)"
)
STEPS: tuple[tuple[str, bool], ...] = (
    ("ALTER TABLE {t} RENAME COLUMN x TO z; UPDATE {t} SET z = 7 WHERE id = 1", True),
    (
        "ALTER TABLE {t} RENAME COLUMN z TO x; DELETE FROM {t} WHERE id = 1;"
        "ALTER TABLE {t} RENAME COLUMN x TO y, RENAME COLUMN y TO x; UPDATE {t} SET x = 5 WHERE id = 2",
        True,
    ),
    (
        "ALTER TABLE {t} DROP COLUMN y, ADD COLUMN y INT; INSERT INTO {t} (id, y) VALUES (3, 3);"
        "ALTER TABLE {t} DROP COLUMN v; ALTER TABLE {t} ADD COLUMN v VARCHAR(9); UPDATE {t} SET v = 'new' WHERE id = 3",
        True,
    ),
    (
        "ALTER TABLE {t} CHANGE x X INT, RENAME COLUMN g TO G; UPDATE {t} SET X = 8 WHERE id = 3;"
        "ALTER TABLE {t} RENAME COLUMN id TO number; UPDATE {t} SET number = 9 WHERE number = 2",
        True,
    ),
    (
        "ALTER TABLE {t} RENAME COLUMN X TO w, ADD COLUMN X INT; UPDATE {t} SET X = w; SET binlog_row_image = MINIMAL;"
        "UPDATE {t} SET w = 6 WHERE number = 9; SET binlog_row_image = FULL; ALTER TABLE {t} RENAME COLUMN w TO id",
        True,
    ),
    (
        "ALTER TABLE {t} RENAME COLUMN v TO u, ADD COLUMN c INT NOT NULL DEFAULT 4; UPDATE {t} SET c = 5 WHERE X = 8;"
        "ALTER TABLE {t} RENAME COLUMN u TO v, MODIFY y BIGINT; TRUNCATE TABLE {t};"
        "INSERT INTO {t} (number, c, v) VALUES (1, 2, '3'), (4, 4, NULL)",
        False,
    ),
)
"""Statements, and whether their ALTERs leave the files where they are, if names are kept."""
TABLES = [f"{one}_t" for one in Renames]


def selected(world: MirrorWorld, table: str) -> list[dict[str, Any]]:
    with world.server.connect("shop") as connection, connection.cursor() as cursor:
        cursor.execute(f"SHOW COLUMNS FROM {table}")
        names = [row[0] for row in cursor.fetchall()]
        # Points as the mirror has them.
        shown = ", ".join(f"ST_AsWKB({name})" if name in "gG" else name for name in names)
        cursor.execute(f"SELECT {shown} FROM {table}")
        return sorted((dict(zip(names, row, strict=True)) for row in cursor.fetchall()), key=repr)


def read(found: pa.Table, names: list[str]) -> list[dict[str, Any]]:
    rows = found.select(names).to_pylist()
    for row in rows:
        row.update({name: row[name]["wkb"] for name in ("g", "G") if row.get(name)})
    return sorted(rows, key=repr)


def moves_files(mirror: Mirror, after: int) -> bool:
    """Whether an ALTER TABLE behind a version has written the table anew."""
    logs = [Path(mirror.url, "_delta_log", f"{n:020}.json") for n in range(after + 1, mirror.snapshot.version + 1)]
    commits = [[json.loads(line) for line in path.read_text().splitlines()] for path in logs]
    altering = [lines for lines in commits if lines[0]["commitInfo"]["operation"] == "ALTER TABLE"]
    assert altering
    return any("add" in line or "remove" in line for lines in altering for line in lines)


def test_every_reader_has_the_columns_of_the_server(world: MirrorWorld) -> None:
    """Random lives have the other mode."""
    world.limits = MirrorLimits(checkpoint_commits=5)
    live(world, BEGIN, *TABLES)
    seen: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for number, (statements, keeps) in enumerate(STEPS):
        before = mirror_of(world, "keep_t").snapshot.version
        live(world, statements, *TABLES)
        assert moves_files(mirror_of(world, "keep_t"), before) is not keeps, statements
        for table in TABLES:
            if number == 2:
                compact(mirror_of(world, table))
            mirror, rows = mirror_of(world, table), selected(world, table)
            seen[table, mirror.snapshot.version] = rows
            assert_read(mirror, rows)
    for (table, version), rows in seen.items():
        reader = by_deltalake if table == "keep_t" else by_polars
        assert read(reader(mirror_of(world, table).url, version), list(rows[0])) == rows
    for table in TABLES:
        assert vacuum(mirror_of(world, table), now_micros=4 * 10**15, retain_hours=0).log_files
        assert_read(mirror_of(world, table), selected(world, table))
    with pytest.raises(DeltaProtocolError, match="columnMapping"):
        by_polars(mirror_of(world, "keep_t").url, None)


def assert_read(mirror: Mirror, rows: list[dict[str, Any]]) -> None:
    policy = policy_of(mirror.table)
    assert is_mapped(mirror.schema) is (policy is Renames.KEEP)
    for reader in READERS if policy is not Renames.KEEP else (by_deltalake, by_duckdb):
        found = reader(mirror.url, None)
        assert read(found, list(rows[0])) == rows, reader.__name__
        if policy is not Renames.ADD:
            assert found.schema.names == [*rows[0], "_seq"]


def test_rows_without_a_key_are_found_under_other_names(world: MirrorWorld) -> None:
    live(world, "CREATE TABLE {t} (x INT, y INT); INSERT INTO {t} VALUES (1, 2), (1, 2), (3, 4)", *TABLES)
    live(world, "ALTER TABLE {t} RENAME COLUMN x TO z; DELETE FROM {t} WHERE z = 1 LIMIT 1", *TABLES)
    live(world, "UPDATE {t} SET y = 5 WHERE z = 1; INSERT INTO {t} VALUES (1, 5)", *TABLES)
    for table in TABLES:
        assert_read(mirror_of(world, table), selected(world, table))


FORMER: dict[str, dict[str, str]] = {
    "ALTER TABLE {t} RENAME COLUMN x TO z; UPDATE {t} SET z = 7 WHERE id = 1": {"x": "z"},
    "ALTER TABLE {t} RENAME COLUMN z TO w; INSERT INTO {t} (id, w) VALUES (3, 3)": {"x": "w", "z": "w"},
    "ALTER TABLE {t} RENAME COLUMN y TO z; ALTER TABLE {t} ADD COLUMN n INT": {"x": "w", "y": "z"},
    "ALTER TABLE {t} MODIFY w BIGINT; UPDATE {t} SET w = 5000000000 WHERE id = 3": {"x": "w", "y": "z"},
    "TRUNCATE TABLE {t}; INSERT INTO {t} (id, w, z) VALUES (1, 2, 3)": {"x": "w", "y": "z"},
    "ALTER TABLE {t} DROP COLUMN w": {"y": "z"},
    "ALTER TABLE {t} RENAME COLUMN z TO y": {"z": "y"},
    "ALTER TABLE {t} ADD COLUMN Z INT DEFAULT 5; INSERT INTO {t} (id, Z) VALUES (5, 5)": {},
}
"""Statements, and the names behind them that columns had, with those that they have."""


def test_a_former_name_has_the_value_until_another_column_takes_it(world: MirrorWorld) -> None:
    live(world, BEGIN, "add_t")
    for statements, former in FORMER.items():
        live(world, statements, "add_t")
        mirror = mirror_of(world, "add_t")
        assert {field.name: same_as(field) for field in mirror.schema if is_former(field)} == former, statements
        found = by_duckdb(mirror.url, None)
        for name, column in former.items():
            assert found[name].to_pylist() == found[column].to_pylist()


def test_the_setting_may_change(world: MirrorWorld) -> None:
    """What the mirror has to do for it is done at the next RENAME."""
    names = [f"{now}_{then}" for now in Renames for then in Renames]
    world.renames = lambda table: Renames(table.table.partition("_")[2])
    live(world, f"{BEGIN}; ALTER TABLE {{t}} RENAME COLUMN x TO z; ALTER TABLE {{t}} DROP COLUMN v", *names)
    assert is_mapped(mirror_of(world, "copy_keep").schema)
    world.renames = policy_of
    alter = "ALTER TABLE {t} RENAME COLUMN z TO v, RENAME COLUMN y TO x; UPDATE {t} SET v = 3 WHERE id = 2"
    live(world, alter, *names)
    for name in names:
        assert_read(mirror_of(world, name), selected(world, name))


def test_the_history_reaches_over_renames_that_are_kept(world: MirrorWorld) -> None:
    live(world, BEGIN, "keep")
    live(
        world,
        "ALTER TABLE {t} RENAME COLUMN x TO y, RENAME COLUMN y TO x; UPDATE {t} SET y = 5 WHERE id = 1;"
        "ALTER TABLE {t} DROP COLUMN v, ADD COLUMN v INT; DELETE FROM {t} WHERE id = 2",
        "keep",
    )
    history = history_check.opened(world, "keep")
    for reader in history_check.READERS:
        found = history_check.reported(history, reader)
        assert found is not None
        rows = sorted(found.select(["id", "x", "y", "_valid_to_seq"]).to_pylist(), key=repr)
        assert [(row["id"], row["x"], row["y"], row["_valid_to_seq"] is None) for row in rows] == [
            (1, 10, 1, False),
            (1, 10, 5, True),
            (2, 20, 2, False),
        ]


def test_the_setting_is_for_all_tables_or_by_pattern() -> None:
    of = renames_by({"shop.big*": "keep", "*.*": "add"}, folded=True)
    assert (of(TableName("SHOP", "Bigger")), of(TableName("shop", "t"))) == (Renames.KEEP, Renames.ADD)
    assert renames_by({"shop.big": "keep"}, folded=False)(TableName("shop", "t")) is Renames.COPY
    assert renames_by("keep", folded=False)(TableName("shop", "t")) is Renames.KEEP
