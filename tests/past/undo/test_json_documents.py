"""Documents come back in the binary form that they had: a real MySQL logs the same bytes a second time."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from strata_cdc.past.undo.choice import Choice
from tests.past.undo.undo_world import UndoWorld, fresh

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]
LEAVES = (
    "CAST('1.50' AS DECIMAL(5,2))", "CAST('1.5' AS DECIMAL(5,1))", "CAST('7' AS DECIMAL(5,0))",
    "CAST('-123456789012345678901234567890.000000001' AS DECIMAL(65,30))", "CAST(0 AS DECIMAL(3,3))",
    "CAST(7 AS UNSIGNED)", "CAST(70000 AS UNSIGNED)", "CAST(5000000000 AS UNSIGNED)", "18446744073709551615", "-7", "7",
    "DATE'2024-02-29'", "TIMESTAMP'2024-01-01 10:00:00'", "TIMESTAMP'9999-12-31 23:59:59.123456'",
    "TIME'-838:59:59'", "TIME'10:00:00.000001'", "X'00FF'", "b'101'", "REPEAT(X'00', 200)",
    "1.5e0", "0.00001e0", "1e300", "-0e0", "'2024-02-29'", "'10:00:00.000000'", "'base64:type15:AP8='", "''", "NULL",
    "CAST('true' AS JSON)", "'ü 日本 😀 \"quoted\" \\\\ back'", "CAST('{}' AS JSON)", "CAST('[]' AS JSON)",
    "REPEAT('long ', 20000)", "CAST('{\"a\": [1, 2.5, null]}' AS JSON)",
)  # fmt: skip
KEYS = ("'a'", "'b c'", "'it''s'", "'\"q\"'", "'ü😀'", "''", "'$.x'", "'back\\\\slash'")


def document(random: Random, depth: int = 0) -> str:
    """An expression that makes a document."""
    if depth > 2 or random.random() < 0.4:
        return random.choice(LEAVES)
    values = [document(random, depth + 1) for _ in range(random.randrange(4))]
    if random.random() < 0.5:
        return f"JSON_ARRAY({', '.join(values)})"
    keys = random.sample(KEYS, len(values))
    return f"JSON_OBJECT({', '.join(f'{key}, {value}' for key, value in zip(keys, values, strict=True))})"


@pytest.mark.parametrize("compression", ["OFF", "ON"])
def test_documents_have_the_same_bytes_again(mysql_server: MysqlServer, tmp_path: Path, compression: str) -> None:
    fresh(mysql_server)
    world, random = UndoWorld(mysql_server, tmp_path, name="shop"), Random(compression)
    init = f"SET sql_mode = '', binlog_transaction_compression = {compression}"
    with mysql_server.connect("shop", init_command=init) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, j JSON)")
        for number in range(60):
            made = random.choice(LEAVES) if number < len(LEAVES) else document(random)
            made = LEAVES[number] if number < len(LEAVES) else made
            cursor.execute(f"INSERT INTO t SELECT {number}, JSON_ARRAY({made})")
            cursor.execute(f"INSERT INTO t SELECT {number + 100}, JSON_EXTRACT(JSON_ARRAY({made}), '$[0]')")
    look = "SELECT id, j, JSON_STORAGE_SIZE(j), JSON_TYPE(j), JSON_TYPE(JSON_EXTRACT(j, '$[0]')) FROM t ORDER BY id"
    before = mysql_server.run_sql(look, "shop")
    session = f"SET binlog_transaction_compression = {compression};"
    by_row = "".join(f"DELETE FROM t WHERE id = {number};" for number in range(200))
    scripts = []
    for statements in (by_row, by_row):
        gtids = world.changed(session + statements)
        world.publish()
        script, report = world.script(Choice(gtids=gtids))
        assert dict(report.skipped) == {}, report.skipped
        world.execute(script)
        assert mysql_server.run_sql(look, "shop") == before
        scripts.append([line for line in script.splitlines() if line.startswith("INSERT")])
    assert scripts[0] == scripts[1]
    gtids = world.changed(f"{session} UPDATE t SET j = JSON_OBJECT('x', 1)")
    world.publish()
    script, report = world.script(Choice(gtids=gtids))
    world.execute(script)
    kept = {line.split("\t")[0] for line in mysql_server.run_sql(look, "shop").splitlines() if line in before}
    refused = sum(report.skipped.values())
    assert len(kept) + refused >= len(before.splitlines())
    assert all("several documents with this text" in why for _, why in report.skipped)


def test_documents_of_a_state_are_written_by_their_texts_and_named(mysql_server: MysqlServer, tmp_path: Path) -> None:
    fresh(mysql_server)
    world = UndoWorld(mysql_server, tmp_path, name="shop")
    mysql_server.run_sql(
        "CREATE TABLE t (id INT PRIMARY KEY, j JSON); INSERT INTO t VALUES "
        "(1, JSON_ARRAY(CAST('1.5' AS DECIMAL(5,1)))), (2, JSON_ARRAY(X'00')), "
        "(3, JSON_ARRAY(CAST('1.50' AS DECIMAL(5,2)))), "
        "(4, '[\"x\"]')",
        "shop",
    )
    gtids = world.changed("DROP TABLE t")
    world.publish()
    script, report = world.script(Choice(gtids=gtids))
    assert "some documents in j are written by their texts" in script
    assert "the document has bytes in it" in script
    assert "the document has a DECIMAL" in script
    world.execute(script)
    assert world.rows("t") == [(1, "[1.5]"), (4, '["x"]')]
    assert sum(report.skipped.values()) == 2
