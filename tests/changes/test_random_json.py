"""JSON that the server makes of whatever it has: decimals of any sums and quotients, dates, bytes, text of any charset,
in documents of any size and depth, and partial updates of them. The text is the server's, byte by byte."""

from __future__ import annotations

import os
import random
from base64 import b64decode
from typing import TYPE_CHECKING

import pytest

from strata_cdc.changes.port import ChangeBatch, QuarantinedRows
from strata_cdc.errors import UnreadableValueError
from strata_cdc.schema.model.definition import TableName
from tests.changes.live import Live, changes, replayed, steps
from tests.changes.planted import plant

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from strata_cdc.schema.model.definition import TableDefinition
    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql

DOCUMENTS = int(os.environ.get("STRATA_JSON_DOCUMENTS", "200"))
UPDATES = DOCUMENTS // 2
PLANTED = DOCUMENTS // 2
_TEXTS = ("", "a", "Zürich", "日本語", "€", "😀", '"\\/', "\x00\x1f\x7f", "x" * 300)
_WIDE = ("ucs2", "utf16", "utf16le", "utf32")
"""Charsets whose text is kept as it is, and printed as if it were UTF-8."""


class Expressions:
    """Draws expressions that are JSON, or can be put into it."""

    def __init__(self, dice: random.Random, charsets: list[str]) -> None:
        self._dice, self._charsets = dice, charsets

    def document(self, depth: int) -> str:
        dice = self._dice
        kind = dice.randint(0, 6)
        if depth == 0 or kind < 2:
            return f"JSON_ARRAY({self._scalar()})" if kind % 2 else f"JSON_OBJECT({self._key(0)}, {self._scalar()})"
        if kind == 2:
            members = ", ".join(f"{self._key(at)}, {self._value(depth)}" for at in range(dice.randint(0, 9)))
            return f"JSON_OBJECT({members})"
        if kind == 3:
            # Behind 64 KiB offsets have four bytes.
            times = dice.choice((60, 60, 60, 8000, 40000))
            return f"JSON_ARRAY(REPEAT('ab', {times}), {self._value(depth)}, {self._scalar()})"
        if kind == 4:
            return f"(SELECT JSON_ARRAYAGG(x) FROM (SELECT {self._scalar()} AS x UNION ALL SELECT {self._scalar()}) t)"
        if kind == 5:
            return f"(SELECT JSON_OBJECT('s', SUM(x), 'a', AVG(x), 'm', MAX(x)) FROM {self._decimals()})"
        return f"JSON_ARRAY({', '.join(self._value(depth) for _ in range(dice.randint(0, 9)))})"

    def _value(self, depth: int) -> str:
        return self.document(depth - 1) if self._dice.random() < 0.5 else self._scalar()

    def _key(self, at: int) -> str:
        text = self._dice.choice(("k", "ключ", "key" * 30, "€"))
        return f"CONCAT('{text}', {at})"

    def _scalar(self) -> str:
        draws: tuple[Callable[[], str], ...] = (
            self._integer, self._decimal, self._decimal, self._double, self._moment, self._bytes, self._text,
            self._text, self._other,
        )  # fmt: skip
        return self._dice.choice(draws)()

    def _integer(self) -> str:
        edge = self._dice.choice((0, 2**7, 2**15, 2**16, 2**31, 2**32, 2**63, 2**64)) + self._dice.randint(-2, 2)
        edge = min(edge, 2**64 - 1) * (self._dice.choice((1, -1)) if edge <= 2**63 else 1)
        return str(edge)

    def _decimal(self) -> str:
        dice = self._dice
        one, other = self._number(), self._number()
        sign = dice.choice("+-*/%")
        return dice.choice((one, f"({one} {sign} {other})", f"-{one}", f"ROUND({one}, {dice.randint(-3, 30)})"))

    def _number(self) -> str:
        dice = self._dice
        scale = dice.randint(0, 30)
        precision = dice.randint(max(scale, 1), 65)
        digits = "".join(dice.choices("0123456789", k=dice.randint(1, precision)))
        point = max(0, len(digits) - scale)
        text = dice.choice(("", "-")) + (digits[:point] or "0") + "." + digits[point:]
        return f"CAST('{text}' AS DECIMAL({precision},{scale}))"

    def _decimals(self) -> str:
        numbers = [self._number() for _ in range(self._dice.randint(1, 4))]
        return "(" + " UNION ALL ".join(f"SELECT {number} AS x" for number in numbers) + ") t"

    def _double(self) -> str:
        any_ = self._dice.uniform(-9, 9)
        number = self._dice.choice((0.0, 0.1, 1e15, 1e16, 1e-7, 1.7976931348623157e308, 5e-324, any_))
        kind = self._dice.choice(("DOUBLE", "DOUBLE", "FLOAT")) if number < 1e38 else "DOUBLE"
        return f"CAST({number!r} AS {kind})"

    def _moment(self) -> str:
        dice = self._dice
        fsp = dice.randint(0, 6)
        day = dice.choice(("0000-00-00", "2024-00-15", "1000-01-01", "9999-12-31", "2024-02-29", "2024-02-31"))
        hour, minute, second, micros = (dice.randint(0, most) for most in (23, 59, 59, 999_999))
        clock = f"{hour:02}:{minute:02}:{second:02}.{micros:06}"
        return dice.choice(
            (
                f"CAST('{day}' AS DATE)",
                f"CAST('{day} {clock}' AS DATETIME({fsp}))",
                f"CAST('{dice.choice(('', '-'))}{dice.randint(0, 837)}{clock[2:]}' AS TIME({fsp}))",
                f"TIMESTAMP '2024-01-02 {clock}'",
                "CAST(2024 AS YEAR)",
            )
        )

    def _bytes(self) -> str:
        data = self._dice.randbytes(self._dice.choice((0, 1, 2, 3, 56, 57, 58, 300))).hex()
        return self._dice.choice((f"x'{data}'", f"CAST(x'{data}' AS BINARY(80))", "b'1011'")) if data else "x''"

    def _text(self) -> str:
        dice = self._dice
        charset = dice.choice(self._charsets)
        text = dice.choice(("a", "")) if charset in _WIDE else dice.choice(_TEXTS)
        return f"CONVERT(CONVERT(x'{text.encode().hex()}' USING utf8mb4) USING {charset})"

    def _other(self) -> str:
        column = self._dice.choice(("e", "s", "b", "v", "t", "y", "g", "f", "w"))
        return self._dice.choice((f"(SELECT {column} FROM odd)", "NULL", "TRUE", "CAST('null' AS JSON)", "1 = 0"))


def _prepare(live: Live) -> Expressions:
    live.run(
        "CREATE TABLE odd (e ENUM('a','ä') CHARACTER SET latin1, s SET('a','ä'), b BIT(11), v VARBINARY(9), t TINYBLOB,"
        " y YEAR, g GEOMETRY SRID 4326, f FLOAT, w CHAR(3) CHARACTER SET utf16)"
    )
    live.run(
        "INSERT INTO odd VALUES ('ä', 'a,ä', b'10000000001', x'00ff', x'0102', 2024,"
        " ST_GeomFromText('POINT(1 2)', 4326), 0.1, 'ab')"
    )
    charsets = [name for (name,) in live.run("SELECT character_set_name FROM information_schema.character_sets")]
    return Expressions(random.Random(29), charsets)


def test_whatever_the_server_makes(mysql_server: MysqlServer) -> None:
    live = Live(mysql_server)
    drawn = _prepare(live)
    live.run("SET binlog_row_value_options = 'PARTIAL_JSON'")
    dice, taken = random.Random(30), 0
    with live.recorded() as files:
        live.run("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, j JSON)")
        for _ in range(DOCUMENTS):
            taken += _took(live, f"INSERT IGNORE INTO t (j) VALUES ({drawn.document(dice.randint(0, 4))})")
        for _ in range(UPDATES):
            verb = dice.choice(("SET", "REPLACE", "REMOVE"))
            path = dice.choice(("$[0]", "$[1]", "$.k0", "$.s", "$.a", "$[0][0]", "$.k0.k1", "$[last]", "$[last-1]"))
            value = "" if verb == "REMOVE" else f", {drawn.document(1)}"
            where = f"id % 7 = {dice.randint(0, 6)}"
            taken += _took(live, f"UPDATE IGNORE t SET j = JSON_{verb}(j, '{path}'{value}) WHERE {where}")
    assert taken > DOCUMENTS
    definition = live.definition("t")
    assert replayed(changes(files[0], {TableName(live.database, "t"): definition})) == live.truth("t", definition)


def test_documents_of_any_bytes(mysql_server: MysqlServer) -> None:
    """Those that the server prints are read as it does; a row with any other is put aside with its bytes. (Not with
    damage to objects and arrays: the server ends at an offset that leads nowhere.)"""
    live = Live(mysql_server)
    dice = random.Random(31)
    documents = [_opaque(kind, dice.randbytes(8)) for kind in range(256)]
    documents += [_decimal(dice) for _ in range(PLANTED)]
    documents += [_wide_text(dice) for _ in range(PLANTED)]
    path = plant(live, documents)
    printed = {number: _printed(live, number) for number in range(1, len(documents) + 1)}
    rows, aside = _decoded(path, TableName(live.database, "planted"), live.definition("planted"))
    assert rows.keys() | aside.keys() == printed.keys()
    assert not rows.keys() & aside.keys()
    assert rows == {number: text for number, text in printed.items() if text is not None}
    assert aside == {number: documents[number - 1] for number, text in printed.items() if text is None}
    assert len(aside) > PLANTED // 4


def _opaque(kind: int, data: bytes) -> bytes:
    return bytes([15, kind, len(data)]) + data


def _decimal(dice: random.Random) -> bytes:
    scale = dice.randint(0, 30)
    precision = dice.randint(max(scale, 1), 81)
    whole, rest = precision - scale, scale
    sizes = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4]
    groups = [whole % 9] * (whole % 9 > 0) + [9] * (whole // 9) + [9] * (rest // 9) + [rest % 9] * (rest % 9 > 0)
    packed = bytearray(b"".join(dice.randrange(10**digits).to_bytes(sizes[digits], "big") for digits in groups))
    packed[0] ^= 0x80
    if dice.random() < 0.5:
        packed = bytearray(byte ^ 0xFF for byte in packed)
    return _opaque(246, bytes([precision, scale]) + packed)


def _wide_text(dice: random.Random) -> bytes:
    text = "".join(dice.choices('ab"\\é日😀', k=dice.randint(0, 9)))
    return _opaque(253, text.encode(dice.choice(("utf-16-be", "utf-16-le", "utf-32-be", "utf-8"))))


def _printed(live: Live, number: int) -> str | None:
    """What the server prints for a document; None if it refuses, or if that is no text."""
    try:
        [(text,)] = live.run(f"SELECT HEX(j) FROM planted WHERE id = {number}")
        return None if text is None else bytes.fromhex(text).decode()
    except (live.connection.Error, UnicodeDecodeError):
        return None


def _decoded(path: Path, name: TableName, definition: TableDefinition) -> tuple[dict[int, str], dict[int, bytes]]:
    """Texts by row, and the bytes of those that are put aside."""
    rows: dict[int, str] = {}
    aside: dict[int, bytes] = {}
    for step in steps(path, {name: definition}):
        if isinstance(step, ChangeBatch):
            keys, texts = (step.batch.column(each).to_pylist() for each in ("id", "j"))
            rows |= dict(zip(keys, texts, strict=True))
        elif isinstance(step, QuarantinedRows):
            assert isinstance(step.error, UnreadableValueError)
            assert step.error.offset is not None
            keys, invalid = (step.rows.column(each).to_pylist() for each in ("id", "_invalid"))
            aside |= {key: b64decode(dict(found)["j"]) for key, found in zip(keys, invalid, strict=True)}
    return rows, aside


def _took(live: Live, statement: str) -> bool:
    try:
        live.run(statement)
    except live.connection.Error:
        return False
    return True
