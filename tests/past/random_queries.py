"""Queries over the tables of `random_shop.py`: written ones, and random ones over the columns of a moment.
Not here: asking them (`past_world.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

    Columns = dict[str, list[tuple[str, str, str | None]]]

WRITTEN = (
    "SELECT * FROM {db}.customers",
    "SELECT * FROM {db}.orders",
    "SELECT * FROM {db}.items",
    "SELECT COUNT(*) FROM {db}.items",
    "SELECT c.*, o.id AS order_id FROM {db}.customers c JOIN {db}.orders o ON o.customer = c.id",
    "SELECT c.id, o.id, o.total FROM {db}.customers AS c LEFT JOIN {db}.orders AS o ON o.customer = c.id "
    "ORDER BY c.id, o.id /* ordered */",
    "SELECT c.id, COUNT(o.id) AS orders, SUM(o.total) AS total FROM {db}.customers c LEFT JOIN {db}.orders o "
    "ON o.customer = c.id GROUP BY c.id HAVING orders > 0 ORDER BY total DESC, c.id /* ordered */",
    "SELECT c.id, c.name, AVG(o.total) FROM {db}.customers c JOIN {db}.orders o ON o.customer = c.id GROUP BY c.id",
    "SELECT state, COUNT(*), MIN(placed), MAX(placed) FROM {db}.orders GROUP BY state",
    "SELECT state COLLATE utf8mb4_bin AS s, COUNT(*) FROM {db}.orders GROUP BY s ORDER BY s /* ordered */",
    "SELECT DATE_FORMAT(placed, '%Y-%m') AS month, SUM(total), ROUND(AVG(total), 2) FROM {db}.orders GROUP BY month "
    "ORDER BY month /* ordered */",
    "SELECT YEAR(placed), MONTH(placed), DATE(placed), HOUR(placed), QUARTER(placed) FROM {db}.orders",
    "SELECT id, placed FROM {db}.orders WHERE placed >= '2022-01-01' AND placed < '2024-06-01 12:00:00'",
    "SELECT id, paid FROM {db}.orders WHERE paid BETWEEN '2021-01-01 00:00:00' AND '2025-01-01 00:00:00'",
    "SELECT id, DATEDIFF(placed, paid), placed + INTERVAL 1 MONTH, DATE_SUB(paid, INTERVAL 3 DAY) FROM {db}.orders",
    "SELECT id, since, since + INTERVAL 1 YEAR, LAST_DAY(since) FROM {db}.customers WHERE since > DATE '2021-05-05'",
    "SELECT id, doc ->> '$.a', doc ->> '$.b.c', JSON_UNQUOTE(JSON_EXTRACT(doc, '$.b.c')) FROM {db}.orders",
    "SELECT id, FIELD(state, 'PAID', 'new', NULL, 'x'), FIELD(n, 1, 7, -3) FROM {db}.orders "
    "ORDER BY FIELD(state, 'sent', 'paid'), id /* ordered */",
    "SELECT tier, FIELD(tier, 'Gold', 'none'), FIELD(name, 'b', 'A') FROM {db}.customers",
    "SELECT id, UNIX_TIMESTAMP(paid), UNIX_TIMESTAMP(paid) % 86400 FROM {db}.orders",
    "SELECT id, UNIX_TIMESTAMP(since) FROM {db}.customers WHERE since > DATE '1970-01-02'",
    "SELECT doc ->> '$.b.c' AS what, COUNT(*) FROM {db}.orders GROUP BY what",
    "SELECT id, doc ->> '$.d' FROM {db}.orders",
    "SELECT id FROM {db}.customers WHERE name = 'A'",
    "SELECT id FROM {db}.customers WHERE name LIKE '%O%' OR mail LIKE 'a\\\\_b%' OR latin LIKE 'A%'",
    "SELECT id FROM {db}.customers WHERE mail = 'A   ' OR latin = 'Z' OR code = 'a '",
    "SELECT DISTINCT code FROM {db}.customers",
    "SELECT COUNT(DISTINCT name), COUNT(DISTINCT mail), COUNT(DISTINCT latin, tier) FROM {db}.customers",
    "SELECT tier, COUNT(*) FROM {db}.customers GROUP BY tier ORDER BY tier /* ordered */",
    "SELECT id, tier FROM {db}.customers WHERE tier IN ('GOLD', 'none') ORDER BY tier DESC, id /* ordered */",
    "SELECT id, name FROM {db}.customers ORDER BY name, id /* ordered */",
    "SELECT id, mail FROM {db}.customers ORDER BY mail DESC, id LIMIT 5 /* ordered */",
    "SELECT id, latin FROM {db}.customers ORDER BY latin, id DESC LIMIT 3, 4 /* ordered */",
    "SELECT id, state FROM {db}.orders ORDER BY state, id LIMIT 6 OFFSET 1 /* ordered */",
    "SELECT order_id, line, price * t, price + 1, price - 0.5, -price, price * 2.50 FROM {db}.items",
    "SELECT order_id, line, price / 3, t / 7, price / t, t DIV 3, t % 4, ROUND(price, 1), ROUND(price / 3, 2) "
    "FROM {db}.items",
    "SELECT SUM(price), AVG(price), MIN(price), MAX(t), AVG(t), SUM(t > 100), COUNT(took) FROM {db}.items",
    "SELECT what, GROUP_CONCAT(line ORDER BY order_id, line SEPARATOR '; ') FROM {db}.items GROUP BY what",
    "SELECT order_id, took, made, raw, flags FROM {db}.items WHERE made > 2000 OR took > '12:00:00' OR flags = 'x,z'",
    "SELECT id FROM {db}.orders WHERE id IN (SELECT order_id FROM {db}.items WHERE t > 50)",
    "SELECT id FROM {db}.orders o WHERE NOT EXISTS (SELECT 1 FROM {db}.items i WHERE i.order_id = o.id)",
    "SELECT id, (SELECT MAX(price) FROM {db}.items i WHERE i.order_id = o.id) AS top FROM {db}.orders o",
    "SELECT * FROM (SELECT customer, SUM(total) AS s FROM {db}.orders GROUP BY customer) q WHERE q.s > 500",
    "WITH big AS (SELECT * FROM {db}.orders WHERE total > 300), few AS (SELECT id FROM big WHERE n < 0) "
    "SELECT b.id, b.total FROM big b JOIN few f ON f.id = b.id",
    "SELECT id FROM {db}.orders UNION SELECT customer FROM {db}.orders ORDER BY 1 /* ordered */",
    "SELECT code FROM {db}.customers UNION ALL SELECT code FROM {db}.customers",
    "SELECT id, IF(total > 500, 'much', 'little'), IFNULL(n, 0), COALESCE(total, 0), NULLIF(n, 0) FROM {db}.orders",
    "SELECT id, CASE WHEN n > 0 THEN 1 WHEN n < 0 THEN -1 ELSE 0 END AS side, n <=> NULL, n IS NULL FROM {db}.orders",
    "SELECT id, weight, weight * 2, weight + n, weight / 4 FROM {db}.orders WHERE weight > 0.1",
    "SELECT id, CONCAT(code, '-', id), CHAR_LENGTH(name), LENGTH(name), LEFT(name, 1), UPPER(code) FROM {db}.customers",
    "SELECT id, SUBSTRING(mail, 2), SUBSTRING(mail, -2, 1), TRIM(mail), REPLACE(mail, 'o', '0') FROM {db}.customers",
    "SELECT id, SUBSTRING_INDEX(mail, ' ', 1), CONCAT_WS(',', name, NULL, code) FROM {db}.customers",
    "SELECT ABS(n), SIGN(n), GREATEST(n, 2), LEAST(total, 100), FLOOR(total), CEIL(total) FROM {db}.orders",
    "SELECT n, COUNT(*) AS c FROM {db}.orders GROUP BY n ORDER BY c DESC, n DESC /* ordered */",
    "SELECT a.id, b.id FROM {db}.customers a JOIN {db}.customers b ON a.name = b.name AND a.id < b.id",
    "SELECT a.id, b.order_id FROM {db}.customers a JOIN {db}.items b ON a.code = b.what",
    "SELECT id, customer, total FROM {db}.orders WHERE (customer, n) IN (SELECT id, 1 FROM {db}.customers)",
    "SELECT 1 + 1, 'x', NULL, TRUE, 7 / 2, 1.5 * 2, DATE '2024-02-29'",
    "SELECT MAX(name), MIN(mail) FROM {db}.customers",
    "SELECT DISTINCT customer, n > 0 FROM {db}.orders",
    "SELECT o.id FROM {db}.orders o JOIN {db}.items i ON i.order_id = o.id GROUP BY o.id, o.n HAVING COUNT(*) > 1",
    "SELECT id FROM {db}.orders WHERE n",
    "SELECT * FROM {db}.orders WHERE id = 3",
    "SELECT * FROM {db}.orders WHERE (id IN (1, 2, 77) AND -1 <= n)",
    "SELECT * FROM {db}.items WHERE order_id = 3 AND line BETWEEN 0 AND 1",
    "SELECT c.id, o.id, o.n FROM {db}.customers c LEFT JOIN {db}.orders o ON o.customer = c.id WHERE o.id < 5",
    "SELECT c.id, o.id FROM {db}.orders o RIGHT JOIN {db}.customers c ON o.customer = c.id AND o.id > 2 WHERE c.id > 4",
    "SELECT id FROM {db}.customers c WHERE id > 2 AND NOT EXISTS (SELECT 1 FROM {db}.orders WHERE id = 4 AND n = c.id)",
    "SELECT id FROM {db}.orders WHERE id > 18446744073709551614 OR id = 2",
    "SELECT id FROM {db}.orders WHERE NOT n = 1 AND (n > 3) = (total > 200)",
    "SELECT ANY_VALUE(1), COUNT(*) FROM {db}.orders WHERE id = 999",
)

NUMBER, EXACT, TEXT, MOMENT = "number", "exact", "text", "moment"


class RandomQueries:
    """Random queries.

    Args:
        random: Where chance comes from.
        columns: Names, types and collations of the columns of each table.
    """

    def __init__(self, random: Random, columns: Columns) -> None:
        self._random = random
        self._columns = {table: columns[table] for table in columns if not table.endswith("_2")}

    def query(self) -> str:
        """One query; `{db}` stands for the database."""
        shape = self._random.choice([self._rows, self._rows, self._groups, self._join, self._nested, self._union])
        return shape()

    def _source(self) -> tuple[str, list[tuple[str, str]]]:
        """A table with its alias, and its columns with their kinds."""
        table = self._random.choice(sorted(self._columns))
        alias = self._random.choice(["a", "b"])
        return f"{{db}}.{table} {alias}", self._of(table, alias)

    def _of(self, table: str, alias: str) -> list[tuple[str, str]]:
        return [(f"{alias}.{name}", kind_of(kind)) for name, kind, _ in self._columns[table]]

    def _rows(self) -> str:
        source, columns = self._source()
        items = [f"{self._expression(columns)} AS e{number}" for number in range(self._random.randrange(1, 4))]
        distinct = self._random.choice(["", "", "DISTINCT "])
        return f"SELECT {distinct}{', '.join(items)} FROM {source} WHERE {self._condition(columns)}"

    def _groups(self) -> str:
        source, columns = self._source()
        group = self._column(columns, self._random.choice([NUMBER, EXACT, TEXT, MOMENT]))
        totals = ", ".join(f"{self._aggregate(columns)} AS g{number}" for number in range(2))
        having = self._random.choice(["", f" HAVING {self._aggregate(columns, EXACT)} > 3"])
        return f"SELECT {group}, {totals} FROM {source} WHERE {self._condition(columns)} GROUP BY {group}{having}"

    def _join(self) -> str:
        first, second = (self._random.choice(sorted(self._columns)) for _ in range(2))
        left, right = self._of(first, "a"), self._of(second, "b")
        kind = self._random.choice([EXACT, EXACT, TEXT])
        on = f"{self._column(left, kind)} = {self._column(right, kind)}"
        how = self._random.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN"])
        items = f"{self._expression(left)} AS e0, {self._expression(right)} AS e1"
        where = self._condition([*left, *right])
        return f"SELECT {items} FROM {{db}}.{first} a {how} {{db}}.{second} b ON {on} WHERE {where}"

    def _nested(self) -> str:
        source, columns = self._source()
        table = self._random.choice(sorted(self._columns))
        inner = self._of(table, "i")
        kind = self._random.choice([EXACT, TEXT])
        mine, theirs = self._column(columns, kind), self._column(inner, kind)
        where = self._random.choice(
            [
                f"{mine} IN (SELECT {theirs} FROM {{db}}.{table} i WHERE {self._condition(inner)})",
                f"EXISTS (SELECT 1 FROM {{db}}.{table} i WHERE {theirs} = {mine} AND {self._condition(inner)})",
                f"{self._column(columns, EXACT)} > (SELECT {self._aggregate(inner, EXACT)} FROM {{db}}.{table} i)",
            ]
        )
        return f"SELECT {self._expression(columns)} AS e0 FROM {source} WHERE {where}"

    def _union(self) -> str:
        kind = self._random.choice([EXACT, TEXT, MOMENT])
        parts = []
        for _ in range(2):
            source, columns = self._source()
            parts.append(f"SELECT {self._typed(columns, kind)} AS u FROM {source} WHERE {self._condition(columns)}")
        return self._random.choice([" UNION ", " UNION ALL "]).join(parts)

    def _column(self, columns: list[tuple[str, str]], kind: str) -> str:
        fitting = [name for name, own in columns if own == kind or (kind == NUMBER and own == EXACT)]
        return self._random.choice(fitting or [columns[0][0]])

    def _aggregate(self, columns: list[tuple[str, str]], kind: str | None = None) -> str:
        exact = self._typed(columns, EXACT)
        found = [f"SUM({exact})", f"AVG({exact})", f"MIN({exact})", "COUNT(*)", f"COUNT(DISTINCT {exact})"]
        if kind is None:
            found += [f"MAX({self._typed(columns, MOMENT)})", f"MIN({self._column(columns, TEXT)})"]
            found += [f"COUNT(DISTINCT {self._column(columns, TEXT)})", f"ROUND(AVG({exact}), 1)"]
        return self._random.choice(found)

    def _expression(self, columns: list[tuple[str, str]]) -> str:
        return self._typed(columns, self._random.choice([EXACT, EXACT, NUMBER, TEXT, TEXT, MOMENT, "condition"]))

    def _typed(self, columns: list[tuple[str, str]], kind: str, depth: int = 2) -> str:
        if kind == "condition":
            return f"({self._condition(columns)})"
        if depth == 0 or self._random.random() < 0.35:
            return self._column(columns, kind) if self._random.random() < 0.8 else self._literal(kind)
        inner = [self._typed(columns, kind, depth - 1) for _ in range(2)]
        text, moment = self._typed(columns, TEXT, 0), self._column(columns, MOMENT)
        condition = self._comparison(columns)
        chosen = [f"IF({condition}, {inner[0]}, {inner[1]})", f"COALESCE({inner[0]}, {inner[1]})"]
        chosen.append(f"CASE WHEN {condition} THEN {inner[0]} END")
        return self._random.choice(chosen + self._calls(kind, inner, text, moment))

    def _calls(self, kind: str, inner: list[str], text: str, moment: str) -> list[str]:
        one, other = inner
        number = self._random.randrange(-3, 5)
        if kind == TEXT:
            return [
                f"CONCAT({one}, {other})", f"LEFT({one}, {abs(number)})", f"RIGHT({one}, 2)", f"UPPER({one})",
                f"SUBSTRING({one}, {number}, 2)", f"TRIM({one})", f"REPLACE({one}, 'a', 'xy')", f"LOWER({one})",
                f"CONCAT_WS('/', {one}, {other})", f"NULLIF({one}, {other})", f"{one} COLLATE utf8mb4_0900_ai_ci",
            ]  # fmt: skip
        if kind == MOMENT:
            return [
                f"{one} + INTERVAL {number} DAY", f"DATE_ADD({one}, INTERVAL {number} MONTH)", f"DATE({one})",
                f"{one} - INTERVAL {number} HOUR", f"LAST_DAY({one})", f"NULLIF({one}, {other})",
            ]  # fmt: skip
        return [
            f"({one} + {other})", f"({one} - {other})", f"({one} * {other})", f"({one} / {number})", f"-{one}",
            f"ABS({one})", f"ROUND({one}, 1)", f"({one} DIV 3)", f"({one} % 3)", f"GREATEST({one}, {other})",
            f"LEAST({one}, {other})", f"CHAR_LENGTH({text})", f"YEAR({moment})", f"DATEDIFF({moment}, '2024-01-01')",
            f"NULLIF({one}, {other})", f"FLOOR({one})", f"SIGN({one})", f"MONTH({moment})", f"DAYOFWEEK({moment})",
        ]  # fmt: skip

    def _literal(self, kind: str) -> str:
        random = self._random
        if kind == TEXT:
            return random.choice(["'a'", "'A'", "'zoo'", "'b '", "''", "'Ä'", "'x y'", "'new'", "'50%'"])
        if kind == MOMENT:
            return random.choice(["DATE '2023-03-31'", "TIMESTAMP '2024-02-29 11:12:13.5'"])
        return random.choice(["0", "1", "-3", "2.50", "0.001", "1000", "12345.678"])

    def _condition(self, columns: list[tuple[str, str]]) -> str:
        parts = [self._comparison(columns) for _ in range(self._random.choice([1, 1, 2]))]
        made = self._random.choice([" AND ", " OR "]).join(parts)
        return f"NOT ({made})" if self._random.random() < 0.15 else made

    def _comparison(self, columns: list[tuple[str, str]]) -> str:
        kind = self._random.choice([EXACT, NUMBER, TEXT, TEXT, MOMENT])
        one, other = self._column(columns, kind), self._literal(kind)
        if self._random.random() < 0.25:
            other = self._column(columns, kind)
        if kind == MOMENT:
            other = self._random.choice([other, "'2023-06-15'", "'2024-01-01 00:00:00'"])
        forms = [f"{one} {operator} {other}" for operator in ("=", "<>", "<", ">=", "<=>")]
        forms += [f"{one} IS NULL", f"{one} IS NOT NULL", f"{one} IN ({other}, {self._literal(kind)})"]
        forms.append(f"{one} BETWEEN {self._literal(kind)} AND {self._literal(kind)}")
        if kind == TEXT:
            pattern = self._random.choice(["'%a%'", "'A%'", "'_'", "'%o_'", "'x y'", "'%'"])
            forms += [f"{one} LIKE {pattern}", f"{one} NOT LIKE {pattern}"]
        return self._random.choice(forms)


def kind_of(kind: str) -> str:
    """The kind of a column, by its type in MySQL."""
    begin = kind.partition("(")[0].split()[0]
    if begin in {"int", "bigint", "smallint", "tinyint", "decimal"}:
        return EXACT
    if begin == "double":
        return NUMBER
    if begin in {"date", "datetime", "timestamp"}:
        return MOMENT
    return TEXT if begin in {"varchar", "enum"} else begin
