"""Queries are read, or refused by name and position; what nothing here reads is never passed over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlglot import exp

from strata_cdc.dialects.queries import aggregates, expressions, functions
from strata_cdc.dialects.queries.query import PastQuery, TableReference
from strata_cdc.dialects.queries.system_time import SystemTimeRange, WrittenMoment
from strata_cdc.errors import QueryError
from strata_cdc.schema.model.definition import Column, Key, KeyKind, KeyPart, TableDefinition

if TYPE_CHECKING:
    from strata_cdc.schema.model.view import ViewDefinition


def text(name: str, collation: str) -> Column:
    return Column(name, "varchar(20)", character_set=collation.partition("_")[0], collation=collation)


TABLE = TableDefinition(
    columns=(
        Column("id", "int"),
        Column("big", "bigint unsigned"),
        Column("total", "decimal(10,2)"),
        Column("weight", "double"),
        Column("placed", "datetime(3)"),
        Column("doc", "json"),
        text("name", "utf8mb4_0900_ai_ci"),
        text("mail", "utf8mb4_general_ci"),
        text("kanji", "utf8mb4_ja_0900_as_cs"),
    ),
    keys=(Key("PRIMARY", KeyKind.PRIMARY, (KeyPart("id"),)),),
)


class Tables:
    """Every name is this table's, except those of views.

    Args:
        views: By name.
    """

    def __init__(self, **views: ViewDefinition) -> None:
        self.views = views

    def table(self, reference: TableReference) -> TableDefinition:
        return TABLE

    def view(self, reference: TableReference) -> ViewDefinition | None:
        return self.views.get(reference.table)

    def when_made(self, view: ViewDefinition) -> Tables:
        return self


def translated(statement: str) -> list[str]:
    """The names of the columns."""
    found = PastQuery(statement).translate(Tables(), connection_collation="utf8mb4_0900_ai_ci")
    return [column.name for column in found.columns]


REFUSED = {
    "DELETE FROM d.t": "one SELECT",
    "SELECT 1; SELECT 2": "one SELECT",
    "SELEC 1": r"^this is no query that can be read, at line 1, column 7, near: 1\.",
    "SELECT id\nFROM d.t WHERE\n  'ä\U0001f600' = = 1 LIMIT 1": r"^[a-z ]*, at line 3, column 10, near: = 1 LIMIT 1\.",
    "SELECT id FROM d.t WHERE": r"^[a-z ]*, at line 1, column 20, near: WHERE\.",
    "SELECT id FROM d.t JOIN": r"^[a-z ]*, at line 1, column 20, near: JOIN\.",
    "SELECT x'0g'": "^this is no query that can be read: a literal is not complete",
    "SELECT 1e": "no DOUBLE, is not read, at character 8",
    "SELECT 5e400": "no DOUBLE",
    "SELECT id FROM d.t\nWHERE name = 'abc": r"^this has no end, at line 2, column 14, near: 'abc\.",
    "SELECT 1 /* remark": r"^this has no end, at line 1, column 10",
    "SELECT 'a' 'b', 1": r"called by the first on MySQL, and by all on MariaDB: 'a' 'b'\. Give it a name",
    "SELECT ('a' \"b\")": "Give it a name",
    "SELECT 5--3": "several ways, at character 9",
    "SELECT /*! 1 */ 2": "several ways",
    "SELECT @a": "several ways",
    "SELECT 'a' || 'b'": "several ways",
    "SELECT !1": "several ways",
    r"SELECT 'a\%'": "several ways",
    "SELECT id FROM d.t WHERE id = 1 = 1": "needs parentheses, at character 26",
    "SELECT id FROM d.t WHERE id < 3 IN (1)": "needs parentheses",
    "SELECT nme FROM d.t": "no column nme; near it are name, at character 8",
    "SELECT SOUNDEX(name) FROM d.t": "not translated, at character",
    "SELECT id & 1 FROM d.t": "not translated",
    "SELECT 1 XOR 1": "not translated",
    "SELECT id FROM d.t WHERE name = 5": "not compared",
    "SELECT id FROM d.t WHERE name": "only numbers are conditions",
    "SELECT id FROM d.t WHERE placed > '2024-1-1'": "full form",
    "SELECT id FROM d.t WHERE kanji = 'a'": "not known here",
    "SELECT id FROM d.t WHERE name = mail": "not mixed",
    "SELECT id FROM d.t WHERE name = '\u4e2d'": "not known here for a character",
    "SELECT SUM(weight) FROM d.t": "order of the rows",
    "SELECT AVG(total) + 1 FROM d.t": "ROUND",
    "SELECT total * weight FROM d.t": "floating-point",
    "SELECT name, COUNT(*) FROM d.t": "neither grouped",
    "SELECT id FROM d.t HAVING id > 1": "WHERE",
    "SELECT name FROM d.t GROUP BY id % 2": "neither grouped",
    "SELECT id, ROW_NUMBER() OVER (ORDER BY id) FROM d.t": "not translated",
    "SELECT id FROM d.t GROUP BY id WITH ROLLUP": "ROLLUP",
    "SELECT a.id FROM d.t a NATURAL JOIN d.t b": "not translated",
    "SELECT id FROM d.t FOR UPDATE": "not translated",
    "WITH RECURSIVE c AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM c) SELECT * FROM c": "RECURSIVE",
    "SELECT a.id FROM d.t a, d.t b JOIN d.t c ON c.id = b.id": "CROSS JOIN",
    "SELECT id FROM d.t a JOIN d.t b ON a.id = b.id": "several columns id",
    "SELECT GROUP_CONCAT(name) FROM d.t": "ORDER BY",
    "SELECT doc ->> '$[0]' FROM d.t": "path of keys",
    "SELECT doc = '{}' FROM d.t": "not compared",
    "SELECT MIN(doc) FROM d.t": "not translated",
    "SELECT id FROM d.t LIMIT 1 + 1": "whole number|no query",
    "SELECT id FROM d.t FOR SYSTEM_TIME EVER": "FOR SYSTEM_TIME has AS OF, ALL, BETWEEN",
    "SELECT id FROM d.t FOR SYSTEM_TIME BETWEEN '2024-01-01' TO '2024-02-01'": "has a moment, AND, and a second",
    "SELECT id FROM d.t FOR SYSTEM_TIME AS OF NOW()": "a literal",
    "SELECT CAST(weight AS DECIMAL(10, 2)) FROM d.t": "not translated",
    "SELECT ROUND(total, -1) FROM d.t": "at least 0",
    "SELECT EXTRACT(YEAR_MONTH FROM placed) FROM d.t": "not translated",
    "SELECT DATE_FORMAT(placed, '%W') FROM d.t": "DATE_FORMAT",
    "SELECT -big FROM d.t": "with a sign",
    "SELECT": "names no column",
    "SELECT id FROM d.t ORDER BY 2": "no column 2",
    "SELECT id FROM d.t GROUP BY 0": "no column 0",
    "SELECT * FROM (SELECT id, ID FROM d.t) x": "two columns of x are called ID",
    "SELECT b.id FROM d.t a": "no table b here",
    "SELECT " + "(" * 500 + "1" + ")" * 500: "nested too deeply",
    "SELECT " + " + ".join("1" * 2000): "nested too deeply",
    "SELECT id FROM d.t WHERE (id, big) IN (" + ", ".join(["(1, 2)"] * 1001) + ")": "1,000 rows",
}


@pytest.mark.parametrize("statement", REFUSED)
def test_what_is_not_known_is_refused_by_name(statement: str) -> None:
    with pytest.raises(QueryError, match=REFUSED[statement]):
        translated(statement)


NAMED = {
    "SELECT id, t.total, big AS b FROM d.t": ["id", "total", "b"],
    "SELECT 'a' 'b' AS c, CONCAT('a', 'b'), 'a' 'b' = 'ab' FROM d.t": ["c", "CONCAT('a', 'b')", "'a' 'b' = 'ab'"],
    "SELECT COUNT( * ),  id+1 , 'x' FROM d.t GROUP BY id": ["COUNT( * )", "id+1", "x"],
    "SELECT * FROM (SELECT id x FROM d.t) q": ["x"],
    "WITH c AS (SELECT id, name FROM d.t) SELECT c.* FROM c": ["id", "name"],
    "SELECT a.*, b.id FROM d.t a JOIN d.t b USING (id) LIMIT 1": [*(one.name for one in TABLE.columns), "id"],
    "SELECT name FROM d.t GROUP BY id": ["name"],
    "SELECT id FROM d.t # a remark, it's one\n": ["id"],
}


@pytest.mark.parametrize("statement", NAMED)
def test_columns_are_called_as_mysql_calls_them(statement: str) -> None:
    assert translated(statement) == NAMED[statement]


def test_a_text_that_looks_like_a_column_reads_none() -> None:
    """The SQL that is made is searched for the columns that it reads."""
    for number in (3, 99, 10**30):
        query = PastQuery(f'SELECT 1 FROM d.t WHERE name = \'"s0"."c{number}" key_nothing(\'')
        query.translate(Tables(), connection_collation="utf8mb4_0900_ai_ci")


def test_each_table_may_have_a_moment_before_or_after_its_alias() -> None:
    query = PastQuery(
        "SELECT 1 FROM d.a x FOR SYSTEM_TIME AS OF TIMESTAMP '2024-01-01 00:00:00' "
        "JOIN d.b FOR SYSTEM_TIME AS OF GTID 'u:1-3' AS y ON true JOIN d.c ON true"
    )
    assert query.references() == [
        TableReference("d", "a", "2024-01-01 00:00:00"),
        TableReference("d", "b", "u:1-3", at_gtid=True),
        TableReference("d", "c"),
    ]


def test_versions_of_rows_may_be_named_before_or_after_an_alias() -> None:
    query = PastQuery(
        "SELECT 1 FROM d.a x FOR SYSTEM_TIME ALL JOIN d.b FOR SYSTEM_TIME BETWEEN '2024-01-01' AND GTID 'u:1-3' AS y "
        "ON true JOIN d.c FOR SYSTEM_TIME FROM TIMESTAMP '2024-01-01' TO '2024-02-01' ON true"
    )
    first, second, last = WrittenMoment("2024-01-01"), WrittenMoment("u:1-3", is_gtid=True), WrittenMoment("2024-02-01")
    assert query.references() == [
        TableReference("d", "a", versions=SystemTimeRange()),
        TableReference("d", "b", versions=SystemTimeRange(first, second)),
        TableReference("d", "c", versions=SystemTimeRange(first, last, includes_end=False)),
    ]


def test_versions_have_their_columns_after_those_of_the_table() -> None:
    every = [one.name for one in TABLE.columns]
    assert translated("SELECT * FROM d.t FOR SYSTEM_TIME ALL") == [*every, "_valid_from", "_valid_to", "_gtid"]
    assert translated("SELECT * FROM d.t FOR SYSTEM_TIME AS OF '2024-01-01'") == every


WHOLE = (
    "SELECT id + 1, -id, total * 2, id / 3, id DIV 2, id % 2, CASE id WHEN 1 THEN 2 ELSE 3 END, IF(id = 1, 2, 3), "
    "IFNULL(id, 0), NULLIF(id, 1), CAST(total AS DECIMAL(12, 2)), DATE '2024-01-01', (SELECT MAX(id) FROM d.t), "
    "name COLLATE utf8mb4_bin, doc ->> '$.a', ROUND(total, 1), ABS(id), LEFT(name, 1), RIGHT(name, 1), UPPER(name), "
    "SUBSTRING(name, 1, 2), SUBSTRING_INDEX(name, ' ', 1), TRIM(name), REPLACE(name, 'a', 'b'), CHAR_LENGTH(name), "
    "CONCAT(name, 'x'), CONCAT_WS(',', name, 'x'), YEAR(placed), HOUR(placed), DATE(placed), LAST_DAY(placed), "
    "DATEDIFF(placed, placed), DATE_ADD(placed, INTERVAL 1 DAY), DATE_FORMAT(placed, '%Y'), GREATEST(id, 1), "
    "EXTRACT(YEAR FROM placed), SIGN(id), FLOOR(total), CEIL(total), DAYOFWEEK(placed) FROM d.t WHERE NOT id = 1 AND "
    "(id IN (1, 2) OR id BETWEEN 1 AND 2) AND name NOT LIKE 'a!%' ESCAPE '!' AND name LIKE 'x' AND id IS NOT NULL AND "
    "EXISTS (SELECT 1 FROM d.t) AND id <=> 1 AND id <> 2 AND id < 3",
    "SELECT COUNT(*), COUNT(DISTINCT id), SUM(total), AVG(total), MIN(id), MAX(name), ANY_VALUE(id), "
    "GROUP_CONCAT(id ORDER BY id SEPARATOR ';') FROM d.t GROUP BY id HAVING COUNT(*) > 1 ORDER BY COUNT(*)",
)


@pytest.mark.parametrize("statement", WHOLE)
def test_a_part_that_nothing_reads_is_refused(statement: str) -> None:
    """As if a newer sqlglot kept the DISTINCT of a function, or the NOT of a comparison, in a part of its own."""
    assert translated(statement)
    handled = {*expressions._VALUES, *expressions._PREDICATE_READERS, *expressions._COMPARED, *functions.FUNCTIONS}
    handled |= {*aggregates.AGGREGATES, exp.Select, exp.Table, exp.Join, exp.Star, exp.Ordered, exp.Order, exp.Where}
    count = sum(type(node) in handled for node in PastQuery(statement)._text.tree.walk())
    assert count > 15
    passed = []
    for number in range(count):
        query = PastQuery(statement)
        node = [node for node in query._text.tree.walk() if type(node) in handled][number]
        node.args["unheard_of"] = True
        try:
            query.translate(Tables(), connection_collation="utf8mb4_0900_ai_ci")
        except QueryError:
            continue
        passed.append(type(node).__name__)
    assert passed == []


RANGES: dict[str, object] = {
    "SELECT name FROM d.t WHERE id = 7 AND (big IN (1, 2) AND 3 >= id)": {
        0: [((7, 7),), ((None, 3),)],
        1: [((1, 1), (2, 2))],
    },
    "SELECT name FROM d.t WHERE id BETWEEN -2 AND 5 AND id < 9 AND total = 3": {0: [((-2, 5),), ((None, 8),)]},
    "SELECT o.name FROM d.u LEFT JOIN d.t o ON o.id = 4 WHERE o.big > 1": {1: [((2, None),)]},
    "SELECT (SELECT MAX(i.id) FROM d.t i WHERE i.id <= 5 AND i.big = u.big) FROM d.u": {0: [((None, 5),)]},
    # Nothing is known of other conditions, of texts, and of a table that is named twice.
    "SELECT name FROM d.t WHERE id = 1 OR id = 2": {},
    "SELECT name FROM d.t WHERE NOT id = 1": {},
    "SELECT name FROM d.t WHERE id + 1 = 3 AND id <> 4 AND name = 'a' AND id = 1.5 AND total = 2": {},
    "SELECT o.name FROM d.t JOIN d.t o ON o.id = t.big WHERE o.id = 1 AND t.id = 1": {},
    "SELECT id FROM d.u LEFT JOIN (SELECT id AS i FROM d.t) s ON s.i = 3 WHERE s.i = 3": {},
}


@pytest.mark.parametrize("statement", RANGES)
def test_what_a_query_says_of_whole_numbers(statement: str) -> None:
    found = PastQuery(statement).translate(Tables(), connection_collation="utf8mb4_0900_ai_ci").ranges
    known: dict[int, list[object]] = {}
    for one in found.get(TableReference("d", "t"), ()):
        known.setdefault(one.number, []).append(one.ranges)
    assert known == RANGES[statement]
