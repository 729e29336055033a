"""JSON documents of all kinds: the text is the server's, byte by byte."""

from __future__ import annotations

import json
import random
import struct

import pytest

from strata_cdc.schema.model.definition import TableName
from tests.changes.live import Live, changes

pytestmark = pytest.mark.mysql

EXPRESSIONS = (
    "CAST('null' AS JSON)", "CAST('true' AS JSON)", "CAST('false' AS JSON)", "'\"\"'", "'{}'", "'[]'", "'[[],{}]'",
    "CAST(1 AS JSON)", "CAST(-1 AS JSON)", "'[32767,32768,-32768,-32769,65535,65536]'",
    "'[2147483647,2147483648,-2147483648,-2147483649,4294967295,4294967296]'",
    "'[9223372036854775807,-9223372036854775808,18446744073709551615,18446744073709551616]'",
    "'[1.0,0.1,1e15,1e16,1e-15,1e-16,1.5e300,-2.5e-300,5e-324,1.7976931348623157e308,0.0,-0.0,100000.5]'",
    "JSON_ARRAY(1.50, -0.001, 0.5, 12345678901234567890.123456789, CAST('1e20' AS DECIMAL(30,5)), 0)",
    "JSON_ARRAY(CAST('2024-02-29' AS DATE), CAST('2024-02-29 01:02:03.4' AS DATETIME(1)), CAST('0000-00-00' AS DATE))",
    "JSON_ARRAY(CAST('-12:34:56.789' AS TIME(3)), CAST('838:59:59' AS TIME), CAST('00:00:00' AS TIME))",
    "JSON_OBJECT('t', TIMESTAMP('2024-01-02 03:04:05.678901'), 'y', CAST(2024 AS YEAR))",
    "JSON_ARRAY(x'00ff10', CAST('abc' AS BINARY), b'101', REPEAT(x'ab', 100))",
    "JSON_ARRAY(CAST(REPEAT('x', 1000) AS BINARY))",
    "JSON_QUOTE(CONVERT(x'5c222f000108090a0c0d1f7f' USING utf8mb4))",
    "'\"ä€😀中\\\\u0001\\\\u007f\\\\u2028\"'",
    "JSON_OBJECT('b', 1, 'a', 2, 'aa', 3, 'ä', 4, '', 5, 'k\"q', 6)",
    "JSON_OBJECT('long', REPEAT('x', 70000), 'n', 1)",
    "JSON_ARRAY(REPEAT('a', 127), REPEAT('b', 128), REPEAT('c', 16383), REPEAT('d', 16384))",
    "ST_AsGeoJSON(ST_GeomFromText('POINT(1.5 2)'))",
    "CAST(ST_GeomFromText('POINT(1 2)') AS JSON)",
    "JSON_ARRAY(CAST(1.5 AS FLOAT), CAST(0.1 AS DOUBLE), 1e0, 3)",
)  # fmt: skip


def _document(dice: random.Random, depth: int) -> object:
    kind = dice.randint(0, 9 if depth else 6)
    if kind == 0:
        return dice.choice([None, True, False])
    if kind in (1, 2):
        return dice.choice([-1, 1]) * dice.getrandbits(dice.choice([3, 15, 16, 31, 32, 63]))
    if kind == 3:
        number = struct.unpack("<d", dice.randbytes(8))[0]
        return number if abs(number) < 1e308 else dice.uniform(-1e20, 1e20)
    if kind == 4:
        return round(dice.uniform(-1e6, 1e6), dice.randint(0, 6))
    if kind in (5, 6):
        return "".join(dice.choices('abc äß€😀"\\\n\t/', k=dice.randint(0, 200)))
    if kind in (7, 8):
        return {f"k{dice.randint(0, 99)}": _document(dice, depth - 1) for _ in range(dice.randint(0, 8))}
    return [_document(dice, depth - 1) for _ in range(dice.randint(0, 8))]


def test_texts_are_those_of_the_server(mysql_server):
    live = Live(mysql_server)
    dice = random.Random(7)
    documents = [json.dumps(_document(dice, 4)) for _ in range(500)]
    documents += [json.dumps(list(range(20000))), json.dumps({f"key{n}": n for n in range(5000)})]
    deep: object = 1
    for _ in range(99):
        deep = [deep]
    documents.append(json.dumps(deep))
    numbers = [dice.uniform(-1, 1) * 10.0 ** dice.randint(-30, 30) for _ in range(2000)]
    documents.append(json.dumps(numbers))
    with live.recorded() as files:
        live.run("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, j JSON)")
        live.run("INSERT INTO t (j) VALUES (NULL)")
        for expression in EXPRESSIONS:
            live.run(f"INSERT INTO t (j) VALUES ({expression})")
        live.insert("t", "j", [(document,) for document in documents])
    definition = live.definition("t")
    found = changes(files[0], {TableName(live.database, "t"): definition})
    truth = live.truth("t", definition)
    assert len(found) == len(truth) == 1 + len(EXPRESSIONS) + len(documents)
    for change, row in zip(found, truth, strict=True):
        assert change["after"] == row
