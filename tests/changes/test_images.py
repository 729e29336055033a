"""Row images, metadata, compression and partial JSON: whatever the server's settings are, the rows are the same."""

from __future__ import annotations

import random
from itertools import product

import pytest

from strata_cdc.schema.model.definition import TableName
from tests.changes.live import Live, changes, replayed

pytestmark = pytest.mark.mysql

IMAGES = ("FULL", "MINIMAL", "NOBLOB")
SETTINGS = list(product(IMAGES, ("MINIMAL", "FULL"), ("OFF", "ON"), ("", "PARTIAL_JSON")))
TABLE = """
CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a INT DEFAULT 7, b VARCHAR(20), c TEXT, d JSON, e JSON,
                f ENUM('x','y'), g INT GENERATED ALWAYS AS (a + 1) VIRTUAL, h INT AS (a + 2) STORED,
                i INT INVISIBLE DEFAULT 3, KEY functional ((a * 2)))
"""


def _update(dice: random.Random, rows: int) -> str:
    change = dice.choice(
        [
            "a = a + 1",
            "b = CONCAT(id, 'ü')",
            "b = NULL, a = NULL",
            "c = REPEAT('c', 300)",
            "d = JSON_SET(d, '$.n', n.id), e = '[1]'",
            "d = JSON_SET(d, '$.deep[1].x', 'new'), e = JSON_ARRAY_INSERT(e, '$[0]', 1.5)",
            "d = JSON_REMOVE(d, '$.s')",
            "e = JSON_REPLACE(e, '$[1]', JSON_OBJECT('k', 1))",
            "d = JSON_SET(d, '$.\"a b\"', 2, '$.s', REPEAT('s', 70))",
            "f = 'y', i = 9",
            "d = NULL",
            "e = JSON_REMOVE(e, '$[0]')",
        ]
    )
    return f"UPDATE t AS n SET {change} WHERE id % {dice.randint(1, 4)} = {dice.randint(0, 1)} AND id <= {rows}"


@pytest.mark.parametrize(("image", "metadata", "compression", "options"), SETTINGS)
def test_changes_lead_to_what_select_shows(mysql_server, image, metadata, compression, options):
    live = Live(mysql_server)
    dice = random.Random(f"{image}{metadata}{compression}{options}")
    live.run(f"SET GLOBAL binlog_row_metadata = '{metadata}'")
    live.run(f"SET binlog_row_image = '{image}', binlog_transaction_compression = {compression}")
    live.run(f"SET binlog_row_value_options = '{options}'")
    try:
        with live.recorded() as files:
            live.run(TABLE)
            for n in range(30):
                document = f'{{"n": {n}, "s": "{"x" * 80}", "deep": [1, {{"y": 2.50}}, null], "t": true}}'
                live.run(
                    "INSERT INTO t (b, c, d, e, f) VALUES (%s, 'c', %s, '[1, \"two\", 3]', 'x')", f"b{n}", document
                )
            live.run("INSERT INTO t (id) VALUES (100)")
            for _ in range(15):
                live.run(_update(dice, 30))
            live.run("DELETE FROM t WHERE id % 7 = 1")
            live.run("UPDATE t SET id = id + 1000 WHERE id % 5 = 2")
    finally:
        live.run("SET GLOBAL binlog_row_metadata = 'MINIMAL'")
    definition = live.definition("t")
    found = changes(files[0], {TableName(live.database, "t"): definition})
    truth = live.truth("t", definition)
    if image == "FULL":
        assert replayed(found) == truth
        return
    # What a partial image leaves out is the column's default in an insert, and what it was before in an update.
    defaults = {"a": 7, "b": None, "c": None, "d": None, "e": None, "f": None, "g": 8, "h": 9, "i": 3}
    for change in found:
        if change["op"] == "insert":
            change["after"] = {**defaults, **change["after"]}
            change["after"] |= {"g": change["after"]["a"] + 1, "h": change["after"]["a"] + 2}
    rows = replayed(found)
    kept = ["id", "a", "b", "c", "d", "e", "f", "i"]
    assert [{name: row[name] for name in kept} for row in rows] == [{name: row[name] for name in kept} for row in truth]


def test_a_row_without_any_column_is_one_row(mysql_server):
    live = Live(mysql_server)
    live.run("SET binlog_row_image = 'MINIMAL'")
    with live.recorded() as files:
        live.run("CREATE TABLE t (a INT DEFAULT 1, b INT)")
        live.run("INSERT INTO t VALUES ()")
    found = changes(files[0], {TableName(live.database, "t"): live.definition("t")})
    assert [(change["op"], change["after"]) for change in found] == [("insert", {})]


def test_the_generated_invisible_key_is_a_column(mysql_server):
    live = Live(mysql_server)
    live.run("SET sql_generate_invisible_primary_key = ON")
    with live.recorded() as files:
        live.run("CREATE TABLE t (a INT)")
        live.run("INSERT INTO t VALUES (5), (6)")
    found = changes(files[0], {TableName(live.database, "t"): live.definition("t")})
    assert [change["after"] for change in found] == [{"my_row_id": 1, "a": 5}, {"my_row_id": 2, "a": 6}]


def test_rows_are_numbered_across_tables_whether_or_not_they_are_wanted(mysql_server):
    live = Live(mysql_server)
    with live.recorded() as files:
        live.run("CREATE TABLE t (a INT)")
        live.run("CREATE TABLE u (a INT)")
        live.run("BEGIN")
        for n in range(3):
            live.run(f"INSERT INTO t VALUES ({n}), ({n})")
            live.run(f"INSERT INTO u VALUES ({n})")
        live.run("COMMIT")
        live.run("INSERT INTO u VALUES (9)")
    both = {TableName(live.database, name): live.definition(name) for name in ("t", "u")}
    everything = changes(files[0], both)
    only = changes(files[0], {TableName(live.database, "u"): both[TableName(live.database, "u")]})
    assert [(row["seq"], row["row"]) for row in everything] == [*((3, n) for n in range(9)), (4, 0)]
    assert only == [row for row in everything if row["table"] == "u"]
