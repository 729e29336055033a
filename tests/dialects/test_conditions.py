"""Conditions in MySQL's SQL: the same rows as the server's SELECT, or an error at its place."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pymysql
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strata_cdc.changes.arrow import arrow_type
from strata_cdc.dialects.conditions.condition import parse
from strata_cdc.dialects.conditions.read import ConditionError
from strata_cdc.dialects.conditions.terms import RULES
from strata_cdc.errors import Usage
from strata_cdc.schema.ddl.context import DdlContext
from strata_cdc.schema.ddl.read import read_ddl
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.replay.catalog import Catalog

if TYPE_CHECKING:
    from strata_cdc.schema.model.definition import TableDefinition
    from tests.mysql_server import MysqlServer

CREATE = """CREATE TABLE t (
    id INT PRIMARY KEY, i INT, small TINYINT, big BIGINT UNSIGNED, f FLOAT, x DOUBLE, dec1 DECIMAL(10,3), y YEAR,
    ci VARCHAR(20), gen VARCHAR(20) COLLATE utf8mb4_general_ci, bin VARCHAR(20) COLLATE utf8mb4_bin,
    exact VARCHAR(20) COLLATE utf8mb4_0900_bin, `odd ``name` INT, e ENUM('New','paid','it''s'),
    d DATE, dt DATETIME(3), ts TIMESTAMP(6) NULL, tm TIME(2), doc JSON)"""
OUT_OF_RANGE = 1690
MOMENT = datetime.fromisoformat("2024-02-29 12:34:56.789")
MIDNIGHT = datetime.fromisoformat("2024-02-29")
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
        "dt": (None, MOMENT, MIDNIGHT)[n % 3],
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
# Not '2024-02-29': beside `dt = '2024-02-29 00:00:00'` the server (9.7) puts one literal in the place of the column and
# compares the two as texts.
moments = st.sampled_from(["'2024-02-29 12:34:56.789'", "'2024-02-29 00:00:00'"])
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
    st.builds("{} {}LIKE {}".format, texts, st.sampled_from(["", "NOT "]), pattern),
    st.builds("{} NOT IN ({}, {})".format, texts, text, text),
    st.builds("{} IN ({})".format, whole, integer),
    st.builds("d {} {}".format, compared, dates),
    st.builds("dt {} {}".format, compared, moments),
    st.sampled_from(["dt >= '2024-02-29'", "dt < '2024-02-29'", "ts BETWEEN '2000-01-01' AND '2024-02-29'"]),
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


def _is_taken(cursor: Any, text: str) -> bool:
    """Whether the server has an answer: where numbers are too large for it, it has none."""
    try:
        cursor.execute(f"SELECT id FROM t WHERE {text} ORDER BY id")
    except pymysql.err.OperationalError as error:
        if error.args[0] != OUT_OF_RANGE:
            raise
        return False
    return True


@pytest.mark.mysql
def test_the_same_rows_as_the_server(rows):
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'America/New_York'")
        connection.register("given", pa.table(COLUMNS))
        # DuckDB 1.4 does not compare with IS NOT DISTINCT FROM while it scans Arrow.
        connection.execute("CREATE TABLE t AS FROM given")

        @settings(max_examples=250, suppress_health_check=list(HealthCheck))
        @given(conditions)
        def agree(text: str):
            if not _is_taken(rows, text):
                return
            theirs = [one for (one,) in rows.fetchall()]
            assert by_arrow(text) == theirs, text
            sql = parse(text, DEFINITION, "d.t").duckdb()
            assert connection.execute(f"SELECT id FROM t WHERE {sql} ORDER BY id").fetchall() == [
                (one,) for one in theirs
            ]

        agree()


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("i = 1 AND\n  statusx = 'x'", "line 2, column 3", "no column statusx"),
        ("smallx > 3", "line 1, column 1", "near it are small"),
        ("i = ", "line 1", "not MySQL's SQL"),
        ("i = 1 OR OR i = 2", "line 1, column 10", "not MySQL's SQL"),
        ("", "line 1, column 1", "no condition"),
        ("i = 'x", "line 1", "SQL: a quote, a comment or a literal is not complete (line"),
        ("i = 1e", "column 5", "no DOUBLE"),
        ("i = 5e400", "column 5", "no DOUBLE"),
        ("i = '5'", "column 5", "without quotes"),
        ("ci = 5", "column 1", "cast"),
        ("ci < 'x'", "column 1", "utf8mb4_0900_bin"),
        ("ci = 'é'", "column 1", "more than its characters"),
        ("ci COLLATE utf8mb4_lithuanian_ci = 'x'", "column 1", "lithuanian"),
        ("i / 2 = 1", "column 1", "DIV is not translated"),
        ("i DIV 2 = 1", "column 1", "INTDIV is not translated"),
        ("i % small = 1", "column 1", "not 0"),
        ("i = 1 || i = 2", "column 7", "sql_mode"),
        ("i = 1 -- 2", "column 6", "comment"),
        ("i /*! = 1 */", "column 2", "comment"),
        ("i = 1; i = 2", "column 6", "one expression"),
        ("i = NULL", "column 1", "IS NULL"),
        ("i = (SELECT 1)", "column 1", "not translated"),
        ("y = 70", "column 1", "four digits"),
        ("d = '2024-2-29'", "column 5", "written in full"),
        ("d = '2024-02-30'", "column 5", "written in full"),
        ("dt = '0000-00-00'", "column 6", "written in full"),
        ("dec1 = 1e0", "column 1", "double"),
        ("f = 0.1", "column 1", "double"),
        ("doc = '{}'", "column 1", "values of json"),
        ("UPPER(ci) = 'A'", "column 1", "UPPER"),
        ("ci LIKE 'a\\\\_'", "column 9", "escapes"),
        ("ci REGEXP 'a'", "column 1", "REGEXP"),
        ("u.i = 1", "column 1", "the condition is on d.t"),
        ("1 = 1", "column 1", "names a column"),
        ("i = 1 XOR i = 2", "column 1", "XOR() is not translated"),
        ("(i, small) = (1, 2)", "column 2", "TUPLE"),
        ("i == 1", "column 3", "the operator =="),
        ("i IN (1,,2)", "column 8", "a comma"),
        ("i IN (+, 2)", "column 7", "a plus"),
        ("i = 1.5.5", "column 5", "DOT is not translated"),
        ("i ISNULL", "column 3", "ISNULL"),
        ("i NOT IS TRUE", "column 3", "NOT before IS"),
        ("i NOT NULL", "column 3", "NOT NULL without IS"),
        ("i ! BETWEEN 0 AND 7", "column 3", "NOT before IS, or `!`"),
        ("i BETWEEN 0 7", "line 1", "not MySQL's SQL"),
        ("i NOT BETWEEN 1 small AND 2 AND i = 1", "line 1", "not MySQL's SQL"),
        ("i = 1 AS x", "column 7", "no AS"),
        ("CHAR_LENGTH(ALL ci) = 1", "column 13", "no ALL"),
        ("tm > DATE '12:34:56'", "column 11", "a DATE is written in full"),
        ("dt > TIMESTAMP '2024-02-29'", "column 16", "a TIMESTAMP is written in full"),
        ("dt > DATETIME '2024-02-29 00:00:00'", "column 15", "CAST() is not translated"),
    ],
)
def test_what_is_refused_and_where(text: str, place: str, message: str):
    with pytest.raises(ConditionError) as refused:
        parse(text, DEFINITION, "d.t")
    assert place in refused.value.message
    assert message in refused.value.message


def test_a_mistake_is_shown():
    with pytest.raises(ConditionError) as refused:
        parse("i > 3 AND\n  smalll = 1", DEFINITION, "d.t")
    assert refused.value.message == (
        "there is no column smalll; near it are small (line 2, column 3)\n    smalll = 1\n    ^"
    )


@pytest.mark.parametrize("text", ["ci = 'a'", "ci NOT LIKE 'a%'", "i = 1 OR ci IN ('x', 'y')"])
def test_text_that_is_not_plain_ends_the_evaluation(text: str):
    columns = {"ci": pa.array(["a", "ä"]), "i": pa.array([0, 0], pa.int32())}
    condition = parse(text, DEFINITION)
    with pytest.raises(Usage, match="COLLATE utf8mb4_0900_bin"):
        condition.evaluate(columns)
    with duckdb.connect() as connection:
        connection.register("t", pa.table(columns))
        with pytest.raises(duckdb.InvalidInputException, match="more than its characters"):
            connection.execute(f"SELECT i FROM t WHERE {condition.duckdb()}").fetchall()


@pytest.mark.mysql
@pytest.mark.parametrize("family", ["mysql", "mariadb"])
def test_plain_characters_differ_in_every_known_collation(request: pytest.FixtureRequest, family: str):
    """What folding rests on: of two plain characters only the cases of a letter are equal."""
    server: MysqlServer = request.getfixturevalue(f"{family}_server")
    known = {name: rule for name, rule in RULES.items() if ("0900" if family == "mariadb" else "uca1400") not in name}
    assert len(known) > 10
    plain = "".join(map(chr, range(0x20, 0x7F)))
    with server.connect() as connection, connection.cursor() as cursor:
        for collation, rule in sorted(known.items()):
            charset = collation.partition("_")[0]
            cursor.execute(
                f"WITH RECURSIVE n AS (SELECT 32 c UNION ALL SELECT c + 1 FROM n WHERE c < 126),"
                f" t AS (SELECT c, CONVERT(CHAR(c USING ascii) USING {charset}) COLLATE {collation} s FROM n)"
                " SELECT CHAR(a.c USING ascii), CHAR(b.c USING ascii)"
                " FROM t a JOIN t b ON CONCAT('x', a.s, 'x') = CONCAT('x', b.s, 'x')"
            )
            equal = {(one, other) for one, other in cursor.fetchall()}
            fold = str.lower if rule.folds else str
            assert equal == {(one, other) for one in plain for other in plain if fold(one) == fold(other)}, collation
            cursor.execute(
                f"SELECT CONVERT('a' USING {charset}) COLLATE {collation}"
                f" = CONVERT('a  ' USING {charset}) COLLATE {collation}"
            )
            assert bool(cursor.fetchone()[0]) is rule.trims, collation


@pytest.mark.mysql
def test_texts_of_plain_characters_are_equal_as_in_mariadb(mariadb_server: MysqlServer):
    """No two plain characters together have a weight of their own, and LIKE compares them one by one."""
    random = Random(1400)
    with mariadb_server.connect() as connection, connection.cursor() as cursor:
        for collation, rule in sorted((name, rule) for name, rule in RULES.items() if "uca1400" in name):
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS plain CHARACTER SET {collation.partition('_')[0]}")
            cursor.execute(
                f"CREATE OR REPLACE TABLE plain.t (n INT, one VARCHAR(9), other VARCHAR(9)) COLLATE {collation}"
            )
            pairs = []
            for number in range(400):
                one = "".join(random.choices("aAbB -.'0zZ~!chHlLsS", k=random.randrange(6)))
                other = "".join(random.choice([ch, ch.swapcase()]) for ch in one) + random.choice(["", "", " ", "s"])
                pairs.append((number, one, other))
            cursor.executemany("INSERT INTO plain.t VALUES (%s, %s, %s)", pairs)
            cursor.execute("SELECT n, one = other, one LIKE other FROM plain.t ORDER BY n")
            fold = str.lower if rule.folds else str
            strip = (lambda text: text.rstrip(" ")) if rule.trims else str
            expected = [
                (n, int(fold(strip(one)) == fold(strip(other))), int(fold(one) == fold(other)))
                for n, one, other in pairs
            ]
            assert list(cursor.fetchall()) == expected, collation
        cursor.execute("DROP DATABASE plain")
