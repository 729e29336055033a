"""Mirrors of what only MariaDB has, from its binlog: they are what SELECT gives."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from msgspec.structs import replace

from strata_cdc.changes.jsonl import JSON_VALUES
from strata_cdc.changes.port import ChangeBatch
from strata_cdc.errors import Usage
from strata_cdc.mirrors.apply import Applier
from strata_cdc.mirrors.table import Mirror
from strata_cdc.schema.model.definition import Column, GeneratedKind, Key, KeyKind, KeyPart, TableDefinition, TableName
from strata_cdc.schema.model.types import parse_column_type
from strata_cdc.tables.named_columns import published
from strata_cdc.tables.state import apply_changes
from tests.changes.live import Live, steps
from tests.mariadb_server import VERSIONS_OF_LONG_TESTS, start_mariadb
from tests.mirrors.model import SOURCE, position

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.mysql

IMAGES = ("FULL", "MINIMAL", "NOBLOB", "FULL_NODUP")
PRIMARY = (Key("PRIMARY", KeyKind.PRIMARY, (KeyPart("id"),)),)


def generated(column: Column, expression: str) -> Column:
    return replace(column, generated=GeneratedKind.STORED, generation_expression=expression)


TIMES = tuple(
    generated(Column(name, "timestamp(6)", False, hidden=True), expression)
    for name, expression in (("row_start", "ROW START"), ("row_end", "ROW END"))
)


@pytest.fixture(scope="module", params=VERSIONS_OF_LONG_TESTS)
def live(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with start_mariadb(tmp_path_factory.mktemp("mariadb"), request.param) as server:
        yield Live(server)


def set_image(live: Live, image: str) -> None:
    if image == "FULL_NODUP" and "10.11" in live.run("SELECT VERSION()")[0][0]:
        pytest.skip("10.11 has no such row image")
    live.run(f"SET binlog_row_image = '{image}'")


def logged(path: Path, name: TableName, definition: TableDefinition) -> list[pa.Table]:
    batches = [step.batch for step in steps(path, {name: definition}) if isinstance(step, ChangeBatch)]
    return [pa.Table.from_batches([published(batch)]) for batch in batches]


def mirrored(lake: Path, changes: list[pa.Table], name: TableName, definition: TableDefinition) -> pa.Table:
    """The rows of a mirror that has taken the changes one by one."""
    mirror = Mirror.create(str(lake), SOURCE, str(name), definition, [], position(0))
    everything = pa.concat_tables(changes)
    for seq in sorted(set(everything["_seq"].to_pylist())):
        mirror = Applier(mirror).apply(everything.filter(pc.equal(everything["_seq"], seq)), position(seq))
    return mirror.to_arrow()


def as_lines(rows: pa.Table, definition: TableDefinition) -> list[dict[str, Any]]:
    """Rows as JSON lines have them."""
    columns = {}
    for column in definition.columns:
        kind = parse_column_type(column.column_type)
        columns[column.name] = JSON_VALUES[kind.kind](kind)(rows[column.name].combine_chunks())
    return [dict(zip(columns, row, strict=True)) for row in sorted(zip(*columns.values(), strict=True), key=repr)]


def check(
    live: Live, lake: Path, path: Path, table: str, definition: TableDefinition, *, has_whole_images: bool = True
) -> None:
    """A mirror, and of whole images also the changes applied at once, are the table."""
    name = TableName(live.database, table)
    changes = logged(path, name, definition)
    truth = sorted(live.truth(table, definition), key=lambda row: repr(tuple(row.values())))
    assert as_lines(mirrored(lake, changes, name, definition), definition) == truth
    if not has_whole_images:
        return
    empty = pa.schema([changes[0].schema.field(column.name) for column in definition.columns]).empty_table()
    assert as_lines(apply_changes(empty, pa.concat_tables(changes), definition), definition) == truth


@pytest.mark.parametrize("image", IMAGES)
@pytest.mark.parametrize("keys", [PRIMARY, ()])
def test_a_versioned_table_has_its_current_rows(live, tmp_path, image, keys):
    set_image(live, image)
    dice = random.Random(f"{image}{len(keys)}")
    live.run("DROP TABLE IF EXISTS t")
    with live.recorded() as files:
        key = ", PRIMARY KEY (id)" if keys else ""
        live.run(f"CREATE TABLE t (id INT NOT NULL, a INT, b TEXT{key}) WITH SYSTEM VERSIONING")
        for number in range(60):
            row = dice.randint(1, 8)
            live.run(
                dice.choice(
                    [
                        f"REPLACE INTO t (id, a, b) VALUES ({row}, {number}, 'b{number}')" if keys else "DO 1",
                        f"INSERT IGNORE INTO t (id, a, b) VALUES ({row}, {number}, NULL)",
                        f"UPDATE t SET a = {number} WHERE id = {row}",
                        f"UPDATE t SET b = REPEAT('x', {number}) WHERE id IN ({row}, {row + 1})",
                        f"UPDATE IGNORE t SET id = {row} WHERE id = {dice.randint(1, 8)}",
                        f"DELETE FROM t WHERE id = {row}",
                        "DELETE HISTORY FROM t",
                    ]
                )
            )
    definition = TableDefinition((*live.definition("t").columns, *TIMES), keys, versioned=True)
    check(live, tmp_path, files[0], "t", definition, has_whole_images=image == "FULL")


def test_a_sequence_has_one_row(live, tmp_path):
    live.run("DROP SEQUENCE IF EXISTS s")
    with live.recorded() as files:
        live.run("CREATE SEQUENCE s CACHE 3")
        for _ in range(10):
            live.run("SELECT NEXTVAL(s)")
        live.run("SELECT SETVAL(s, 77)")
        live.run("SELECT SETVAL(s, 80)")
    definition = TableDefinition(live.definition("s").columns, sequence=True)
    check(live, tmp_path, files[0], "s", definition)


@pytest.mark.parametrize("image", IMAGES)
def test_a_generated_column_is_known_or_refused(live, tmp_path, image):
    """From 11 on no update logs generated columns. What they are made of did not change, or the update is refused."""
    set_image(live, image)
    live.run("DROP TABLE IF EXISTS t")
    with live.recorded() as files:
        live.run("CREATE TABLE t (id INT PRIMARY KEY, a INT, b TEXT, s INT AS (a + 1) STORED, u INT AS (s * 2) STORED)")
        live.run("INSERT INTO t (id, a, b) VALUES (1, 1, 'x'), (2, NULL, NULL)")
        live.run("UPDATE t SET b = 'y'")
        # A MINIMAL image does not tell whether a column has changed that the statement sets.
        live.run(f"UPDATE t SET b = NULL{'' if image == 'MINIMAL' else ', a = NULL'} WHERE id = 2")
    expressions = {"s": "`a` + 1", "u": "`s` * 2"}
    columns = [
        generated(one, expressions[one.name]) if one.name in expressions else one
        for one in live.definition("t").columns
    ]
    definition = TableDefinition(tuple(columns), PRIMARY)
    check(live, tmp_path / "unchanged", files[0], "t", definition)
    with live.recorded() as files:
        live.run("UPDATE t SET a = 2 WHERE id = 1")
    name = TableName(live.database, "t")
    changes = logged(files[0], name, definition)
    has_all = changes[0]["_missing"].null_count or "s" not in changes[0]["_missing"][0].as_py()
    if has_all:
        assert "10.11" in live.run("SELECT VERSION()")[0][0]
        return
    with pytest.raises(Usage, match="updates of a lack s"):
        mirrored(tmp_path / "changed", changes, name, definition)
