"""Conditions in MySQL's SQL: the same rows as the server's SELECT, or an error at its place."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pymysql
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strata.dialects.conditions.collations import RULES
from strata.dialects.conditions.condition import parse
from strata.dialects.conditions.read import ConditionError
from strata.errors import Usage
from strata.rows.arrow import arrow_type
from strata.schema.ddl.context import DdlContext
from strata.schema.ddl.read import read_ddl
from strata.schema.model.definition import TableName
from strata.schema.replay.catalog import Catalog

if TYPE_CHECKING:
    from strata.schema.model.definition import TableDefinition
    from tests.mysql_server import MysqlServer

CREATE = """CREATE TABLE t (
    id INT PRIMARY KEY, i INT, small TINYINT, big BIGINT UNSIGNED, f FLOAT, x DOUBLE, dec1 DECIMAL(10,3), y YEAR,
    ci VARCHAR(20), gen VARCHAR(20) COLLATE utf8mb4_general_ci, bin VARCHAR(20) COLLATE utf8mb4_bin,
    exact VARCHAR(20) COLLATE utf8mb4_0900_bin, `odd ``name` INT, e ENUM('New','paid','it''s'),
    d DATE, dt DATETIME(3), ts TIMESTAMP(6) NULL, tm TIME(2), doc JSON)"""
OUT_OF_RANGE = 1690
TEXTS = (None, "", "a", "A", "a ", "ab", "Paid", "paid", "it's", "50%", "A_b", "\\", "z'\"")
ROWS: list[dict[str, Any]] = [
    {
        "id": n,
        "i": (None, 0, 1, -1, 7, 2147483647, -2147483648)[n % 7],
        "small": (None, 0, 1, -128, 127)[n % 5],
        "big": (None, 0, 1, 18446744073709551615, 9007199254740993)[n % 5],
        "f": (None, 0.0, 0.5, -1.25, 3.0)[n % 5],
        "x": (None, 0.1, 1e300, -2.5)[n % 4],
        "dec1": (None, Decimal("0.000"), Decimal("1.500"), Decimal("-9999999.999"))[n % 4],
        "y": (None, 1970, 2024)[n % 3],
        "ci": TEXTS[n % len(TEXTS)],
        "gen": TEXTS[(n + 3) % len(TEXTS)],
        "bin": TEXTS[(n + 5) % len(TEXTS)],
        "exact": TEXTS[(n * 7) % len(TEXTS)],
        "odd `name": n % 3,
        "e": (None, "New", "paid", "it's")[n % 4],
        "d": (None, date(2024, 2, 29), date(1999, 12, 31))[n % 3],
        "dt": (None, datetime(2024, 2, 29, 12, 34, 56, 789000), datetime(2024, 2, 29))[n % 3],
        "ts": (None, datetime(2024, 2, 29, 12, 34, 56, 1, UTC), datetime(2000, 1, 1, tzinfo=UTC))[n % 3],
        "tm": (None, 0, 45_296_500_000, -3_600_000_000)[n % 4],
        "doc": (None, "{}")[n % 2],
    }
    for n in range(60)
]


def definition_of(statement: str) -> TableDefinition:
    catalog = Catalog()
    catalog.put_database("d", "utf8mb4_0900_ai_ci")
    catalog.apply(read_ddl(statement, DdlContext("d")))
    found = catalog.get(TableName("d", "t"))
    assert found is not None
    return found


DEFINITION = definition_of(CREATE)
COLUMNS = {one.name: pa.array([row[one.name] for row in ROWS], arrow_type(one)) for one in DEFINITION.columns}

# A small grammar ----------------------------------------------------------------------------------

compared = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">=", "<=>"])
equal = st.sampled_from(["=", "<>", "<=>"])
whole = st.sampled_from(["i", "small", "big", "`odd ``name`", "I"])
integer = st.sampled_from(["0", "1", "-1", "7", "TRUE", "18446744073709551615", "2147483648", "9007199254740992"])
decimal = st.sampled_from(["0.5", "1.5", "-9999999.999", ".25", "1.0000", "3"])
text = st.sampled_from([one for one in TEXTS if one is not None]).map(
    lambda one: "'" + one.replace("\\", "\\\\").replace("'", "''") + "'"
)
pattern = st.sampled_from(["'a%'", "'%B'", "'_'", "'%a_d%'", "''", "'%'", "'50%'", "'A_b'"])
sums = st.recursive(
    whole | integer,
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from("+-"), inner)
        | st.builds("({} % {})".format, inner, st.sampled_from(["3", "-2"]))
        | st.builds("ABS({})".format, inner)
    ),
    max_leaves=3,
).filter(lambda one: "big" not in one and len(one) < 60)
texts = st.sampled_from(
    ["ci", "gen", "bin", "exact", "e", "ci COLLATE utf8mb4_0900_bin", "bin COLLATE utf8mb4_0900_ai_ci"]
)
dates = st.sampled_from(["'2024-02-29'", "DATE'1999-12-31'", "'2000-01-01'"])
moments = st.sampled_from(["'2024-02-29 12:34:56.789'", "'2024-02-29'", "'2024-02-29 00:00:00'"])
times = st.sampled_from(["'12:34:56.50'", "'-01:00:00'", "'838:59:59'"])
simple = st.one_of(
    st.builds("{} {} {}".format, whole, compared, integer | decimal),
    st.builds("{} {} {}".format, integer, compared, whole),
    st.builds("{} {} {}".format, sums, compared, sums).filter(
        lambda one: any(name in one for name in ("i", "small", "odd"))
    ),
    st.builds("dec1 {} {}".format, compared, decimal | integer | whole.filter(lambda one: one != "big")),
    st.builds(
        "{} {} {}".format,
        st.sampled_from(["f", "x"]),
        compared,
        st.sampled_from(["0.5", "0.1", "1e300", "3"]).filter(lambda one: "." not in one) | st.just("5e-1"),
    ),
    st.builds("y {} {}".format, compared, st.sampled_from(["1970", "2024", "2155"])),
    st.builds("{} {} {}".format, texts, equal, text),
    st.builds("{} {} {}".format, text, equal, texts),
    st.builds("exact {} {}".format, compared, text),
    st.builds("{} LIKE {}".format, texts, pattern),
    st.builds("{} NOT IN ({}, {})".format, texts, text, text),
    st.builds("{} IN ({})".format, whole, integer),
    st.builds("d {} {}".format, compared, dates),
    st.builds("dt {} {}".format, compared, moments),
    st.builds("ts {} {}".format, compared, moments),
    st.builds("tm {} {}".format, compared, times),
    st.builds("d BETWEEN {} AND {}".format, dates, dates),
    st.builds("{} NOT BETWEEN {} AND {}".format, whole, integer, integer),
    st.builds("{} IS {}NULL".format, st.sampled_from(["i", "ci", "doc", "tm"]), st.sampled_from(["", "NOT "])),
    st.builds("CHAR_LENGTH({}) > {}".format, st.sampled_from(["ci", "bin"]), st.sampled_from("012")),
    st.builds("t.{}".format, whole),
)
conditions = st.recursive(
    simple,
    lambda inner: (
        st.builds("({} AND {})".format, inner, inner)
        | st.builds("({} OR {})".format, inner, inner)
        | st.builds("NOT ({})".format, inner)
        | st.builds("({}) IS {}".format, inner, st.sampled_from(["TRUE", "NOT TRUE", "FALSE", "NOT FALSE", "UNKNOWN"]))
    ),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def rows(mysql_server: MysqlServer):
    """A cursor on the server's table."""
    with mysql_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE conditions")
        cursor.execute("USE conditions")
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(CREATE)
        names = ", ".join(f"`{name.replace('`', '``')}`" for name in ROWS[0])
        values = [tuple(_sent(name, value) for name, value in row.items()) for row in ROWS]
        cursor.executemany(f"INSERT INTO t ({names}) VALUES ({', '.join(['%s'] * len(ROWS[0]))})", values)
        yield cursor
        cursor.execute("DROP DATABASE conditions")


def _sent(name: str, value: Any) -> Any:
    if name == "tm" and value is not None:
        return (
            "-" if value < 0 else ""
        ) + f"{abs(value) // 3_600_000_000}:{abs(value) // 60_000_000 % 60}:{abs(value) / 1e6 % 60}"
    return value


def by_arrow(text: str) -> list[int]:
    mask = parse(text, DEFINITION, "d.t").evaluate(COLUMNS)
    return [row["id"] for row, holds in zip(ROWS, mask.to_pylist(), strict=True) if holds]


@pytest.mark.mysql
def test_the_same_rows_as_the_server(rows):
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'America/New_York'")
        connection.register("given", pa.table(COLUMNS))
        # DuckDB 1.4 does not compare with IS NOT DISTINCT FROM while it scans Arrow.
        connection.execute("CREATE TABLE t AS FROM given")

        @settings(max_examples=400, suppress_health_check=list(HealthCheck))
        @given(conditions)
        def agree(text: str):
            try:
                rows.execute(f"SELECT id FROM t WHERE {text} ORDER BY id".replace("%", "%%"), ())
            except pymysql.err.OperationalError as error:
                assert error.args[0] == OUT_OF_RANGE
                return
            theirs = [one for (one,) in rows.fetchall()]
            assert by_arrow(text) == theirs, text
            sql = parse(text, DEFINITION, "d.t").duckdb()
            assert connection.execute(f"SELECT id FROM t WHERE {sql} ORDER BY id").fetchall() == [
                (one,) for one in theirs
            ]

        agree()
