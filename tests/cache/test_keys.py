"""Keys of random values of every type that makes keys: rows that a query by equality finds answer to that key, and
rows that the server tells apart have no text in common. The server is the judge. Not here: readers, invalidators."""

from __future__ import annotations

import random
from datetime import date, timedelta
from decimal import Decimal
from itertools import product
from typing import TYPE_CHECKING, Any

import pymysql
import pytest

from strata_cdc.cache.keys import key_text, key_texts, kinds_of
from strata_cdc.cache.serving import kind_of_column
from strata_cdc.errors import Usage
from strata_cdc.schema.model.definition import TableName
from strata_cdc.streams.events import RowChange
from tests.seeds import seeds

if TYPE_CHECKING:
    from tests.streams.world import World

pytestmark = pytest.mark.mysql
LETTERS = "aAáÁßsñnÿ0~ \t\0é\\'\"%_中🙂"
NOT_IN_CHARSET = 3854
"""ER_CANNOT_CONVERT_STRING."""
ZERO_DATES = ["0000-00-00", "2024-00-15", "2024-01-00", "0000-01-01", "2024-02-31", "2024-02-30", "0001-01-01"]


def integer(bits: int, *, signed: bool) -> Any:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return lambda drawn: max(
        low, min(high, drawn.choice([low, high, 0, drawn.randint(low, high), drawn.randint(0, 9)]))
    )


def decimal(digits: int, decimals: int) -> Any:
    """Many that differ in their last digits only."""

    def make(drawn: random.Random) -> Decimal:
        near = drawn.choice([0, 10**digits - 3, 10 ** (digits - 1), 10**decimals, 5 * 10 ** (digits // 2)])
        number = max(1 - 10**digits, min(10**digits - 1, near + drawn.randint(-3, 3)))
        # Arithmetic would round to the 28 digits of the context.
        return Decimal((number < 0, tuple(map(int, str(abs(number)))), -decimals))

    return make


def text(alphabet: str, longest: int) -> Any:
    return lambda drawn: "".join(drawn.choices(alphabet, k=drawn.randint(0, longest)))


def octets(longest: int) -> Any:
    return lambda drawn: bytes(drawn.choices(b"\0\0a \xff", k=drawn.randint(0, longest)))


def day(drawn: random.Random) -> Any:
    return drawn.choice([drawn.choice(ZERO_DATES), date(2024, 1, 1) + timedelta(days=drawn.randint(-3, 400))])


TYPES: dict[str, Any] = {
    "TINYINT": integer(8, signed=True),
    "TINYINT(1)": integer(8, signed=True),
    "SMALLINT UNSIGNED": integer(16, signed=False),
    "MEDIUMINT": integer(24, signed=True),
    "INT(5) UNSIGNED ZEROFILL": integer(32, signed=False),
    "BIGINT": integer(64, signed=True),
    "BIGINT UNSIGNED": integer(64, signed=False),
    "YEAR": lambda drawn: drawn.choice([0, 1901, 2155, drawn.randint(1965, 2075)]),
    "DECIMAL(5,2)": decimal(5, 2),
    "DECIMAL(28,0)": decimal(28, 0),
    "DECIMAL(29,5)": decimal(29, 5),
    "DECIMAL(39,1)": decimal(39, 1),
    "DECIMAL(65,0)": decimal(65, 0),
    "DECIMAL(65,30)": decimal(65, 30),
    "DECIMAL(30,30)": decimal(30, 30),
    "DATE": day,
    "BINARY(4)": octets(4),
    "VARBINARY(6)": octets(6),
    "CHAR(4) COLLATE utf8mb4_bin": text(LETTERS, 4),
    "VARCHAR(6) COLLATE utf8mb4_bin": text(LETTERS, 6),
    "VARCHAR(6) COLLATE utf8mb4_0900_bin": text(LETTERS, 6),
    "VARCHAR(6) COLLATE utf8mb3_bin": text(LETTERS[:-1], 6),
    "VARCHAR(6) COLLATE latin1_bin": text("aAáÁß~ ÿ\\0", 6),
    "VARCHAR(6) COLLATE sjis_bin": text("aA~中\\ 0", 4),
    "VARCHAR(6) COLLATE utf16_bin": text(LETTERS, 6),
    "CHAR(9) COLLATE ascii_bin": text("aA~ \\0", 4),
}
ODD_KEYS: dict[str, list[Any]] = {
    "YEAR": [*range(100), 100, 1900, 2156],
    "DECIMAL": [
        Decimal("0E-10"), Decimal("-0"), Decimal("1.10"), Decimal("1E+2"), Decimal("9" * 65), Decimal("9" * 66),
        Decimal("1E+70"), Decimal("9" * 70), Decimal("1E-31"), Decimal("1E+999999"), Decimal("NaN"),
    ],
    "CHAR": ["", "?", "a\t", "¥", "‾", "中", "\ud83d"],
    "BINARY": [b"", b"a", b"a\0\0\0"],
    "INT": [1 << 64, -(1 << 63) - 1, 10**70, True],
    "DATE": [date(1, 1, 1), date(9999, 12, 31)],
}  # fmt: skip


@pytest.fixture
def connection(world: World) -> Any:
    with world.server.connect("d") as found:
        yield found


def run(connection: pymysql.Connection, statement: str, *arguments: Any) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments or None)
        return cursor.fetchall()


@pytest.mark.parametrize("seed", seeds())
@pytest.mark.parametrize("column_type", TYPES)
def test_rows_that_a_query_finds_answer_to_its_key(
    world: World, connection: pymysql.Connection, column_type: str, seed: int
):
    drawn = random.Random(f"{column_type} {seed}")
    run(connection, "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'")
    run(connection, "DROP TABLE IF EXISTS k")
    run(connection, f"CREATE TABLE k (id INT PRIMARY KEY, c {column_type}, KEY (c))")
    values = [TYPES[column_type](drawn) for _ in range(30)]
    begin = run(connection, "SELECT @@GLOBAL.gtid_executed")[0][0]
    for number, value in enumerate(values):
        run(connection, "INSERT INTO k VALUES (%s, %s)", number, value)
    kind, rows = as_the_stream_has_it(world, begin)
    texts = {number: set(key_texts([value], kind)) for number, value in rows.items()}
    assert len(texts) == len(values)
    equal = set(run(connection, "SELECT a.id, b.id FROM k a JOIN k b ON a.c = b.c"))
    for (one, its), (other, others) in product(texts.items(), repeat=2):
        # The server takes them for one another, or no key means both.
        assert (one, other) in equal or not its & others or blanks_apart(rows, one, other), (rows[one], rows[other])
    keys = [*(row[0] for row in run(connection, "SELECT DISTINCT c FROM k")), *values, *odd_keys(column_type)]
    asked = 0
    for key in keys:
        try:
            wanted = key_text([key], kinds_of([key]))
        except Usage:
            continue
        if kinds_of([key]) != kind.replace("y", "i"):
            # The reader is not served.
            continue
        asked += 1
        try:
            found = {row[0] for row in run(connection, "SELECT id FROM k WHERE c = %s", key)}
        except pymysql.OperationalError as error:
            if error.args[0] != NOT_IN_CHARSET:
                raise
            continue
        assert all(wanted in texts[number] for number in found), (key, [rows[number] for number in found])
        others = [rows[number] for number in texts if wanted in texts[number] and number not in found]
        assert all(isinstance(other, str) and other.endswith(" ") for other in others), (key, others)
    assert asked > 10


def odd_keys(column_type: str) -> list[Any]:
    return [key for name, keys in ODD_KEYS.items() if name in column_type for key in keys]


def blanks_apart(rows: dict[int, Any], one: int, other: int) -> bool:
    """NO PAD tells them apart; readers can ask for neither, or for the one without."""
    return isinstance(rows[one], str) and rows[one].rstrip(" ") == rows[other].rstrip(" ")


def as_the_stream_has_it(world: World, begin: str) -> tuple[str, dict[int, Any]]:
    stream, kind, found = world.stream(begin, tables=["d.k"]), "", {}
    for event in stream:
        if isinstance(event, RowChange) and event.after is not None:
            found[event.after["id"]] = event.after["c"]
            column = stream.definition(TableName("d", "k"), event.seq).column("c")
            assert column is not None
            kind = kind_of_column(column) or ""
    assert kind
    return kind, found


def test_texts_of_charsets_that_make_keys_are_one_to_one(connection: pymysql.Connection):
    """All letters in all charsets: which of them the server writes as another one."""
    run(connection, "CREATE TEMPORARY TABLE letters (c VARCHAR(1) CHARACTER SET utf32 COLLATE utf32_bin)")
    letters = [number for number in range(1, 0x10000) if not 0xD800 <= number < 0xE000]
    run(connection, "INSERT INTO letters VALUES " + ", ".join(f"(0x{number:08X})" for number in letters))
    shared = set()
    for charset, *_ in run(connection, "SHOW CHARACTER SET"):
        # What it does not have becomes a question mark.
        query = (
            f"SELECT COUNT(*), COUNT(DISTINCT h) FROM (SELECT c, HEX(CONVERT(c USING {charset})) h FROM letters) t"
            f" WHERE h <> HEX(CONVERT('?' USING {charset})) OR c = '?'"
        )
        [(count, distinct)] = run(connection, query)
        if count != distinct:
            shared.add(charset)
    assert shared == {"cp932"}
