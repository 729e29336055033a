"""Random statements on partitioned tables; whoever runs them ignores those that the server refuses.
Not here: comparing (`test_partitions.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

TABLES = {
    "plain": ("id INT, k SMALLINT", "RANGE (k)", ["-5", "0", "3", "MAXVALUE"]),
    "big": ("id INT, k BIGINT UNSIGNED", "RANGE (k)", ["1", "9223372036854775808", "18446744073709551610"]),
    "years": ("id INT, k DATE NOT NULL", "RANGE (YEAR(k))", ["1999", "2001", "2024"]),
    "days": ("id INT, k DATETIME(3) NOT NULL", "RANGE (TO_DAYS(k))", ["TO_DAYS('2000-02-29')", "730900", "MAXVALUE"]),
    "stamps": (
        "id INT, k TIMESTAMP NOT NULL",
        "RANGE (UNIX_TIMESTAMP(k))",
        ["UNIX_TIMESTAMP('2000-01-01 00:00:00')", "978307200", "MAXVALUE"],
    ),
    "columns_": (
        "id INT, k DATE NOT NULL, j INT",
        "RANGE COLUMNS (k, j)",
        ["'2000-01-01', 3", "'2000-01-01', MAXVALUE", "'2001-06-15', -2", "MAXVALUE, MAXVALUE"],
    ),
    "moments": ("id INT, k DATETIME NOT NULL", "RANGE COLUMNS (k)", ["'2000-01-01'", "'2001-01-01 12:30:00'"]),
    "list_": ("id INT, k TINYINT", "LIST (k)", ["1, 2, NULL", "-3, 4", "5"]),
    "texts": ("id INT, k VARCHAR(5)", "LIST COLUMNS (k)", ["'de', 'AT'", "'us', NULL", "'fr'"]),
    "exact": ("id INT, k VARCHAR(5) COLLATE utf8mb4_bin", "LIST COLUMNS (k)", ["'de', 'AT'", "'us', 'at'", "'fr'"]),
    "pairs": ("id INT, k INT, j INT", "LIST COLUMNS (k, j)", ["(1, 1), (1, NULL)", "(2, 2), (NULL, 1)"]),
}
MORE = {
    "plain": ["1", "2", "50"],
    "big": ["7", "9223372036854775809"],
    "years": ["2000", "2030"],
    "days": ["730500", "TO_DAYS('2001-01-01')"],
    "stamps": ["UNIX_TIMESTAMP('2000-06-01 01:00:00')", "1000000000"],
    "columns_": ["'2000-05-01', 0"],
    "moments": ["'2000-06-01'", "'2030-01-01'"],
    "list_": ["6, 7", "2"],
    "texts": ["'it'", "'DE'"],
    "exact": ["'it'", "'DE'"],
    "pairs": ["(3, 3)", "(1, 2)"],
}
VALUES = {
    "plain": ["NULL", "-6", "-5", "-1", "0", "1", "2", "3", "40"],
    "big": ["NULL", "0", "1", "7", "9223372036854775807", "9223372036854775808", "18446744073709551609"],
    "years": ["'1998-12-31'", "'1999-01-01'", "'2000-12-31'", "'2001-01-01'", "'2023-05-05'"],
    "days": ["'2000-02-28 23:59:59.999'", "'2000-02-29'", "'2001-03-01 05:00:00'", "'2020-01-01'"],
    "stamps": ["'1999-12-31 23:59:59'", "'2000-01-01'", "'2000-12-31 23:59:59'", "'2001-01-01 02:00:00'"],
    "columns_": ["'1999-12-31'", "'2000-01-01'", "'2000-01-02'", "'2001-06-15'", "'2002-01-01'"],
    "moments": ["'1999-12-31 23:59:59'", "'2000-01-01'", "'2001-01-01 12:29:59'", "'2001-01-01 12:30:00'"],
    "list_": ["NULL", "1", "2", "-3", "4", "5", "6"],
    "texts": ["NULL", "'de'", "'DE'", "'at'", "'Us'", "'fr'", "'it'"],
    "exact": ["'de'", "'DE'", "'at'", "'AT'", "'fr'", "'it'"],
    "pairs": ["NULL", "1", "2", "3"],
}


class PartitionLife:
    """Statements, one after the other."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._next = 0
        self._names = {table: [f"p{n}" for n in range(len(found[2]))] for table, found in TABLES.items()}

    def begin(self) -> list[str]:
        """The tables, and one beside each for its rows to change places with."""
        return [text for table in TABLES for text in self._create(table)]

    def step(self) -> list[str]:
        """What one session does next."""
        table = self._random.choice(list(TABLES))
        choices = [self._insert, self._delete, self._drop, self._reorganize, self._add, self._exchange, self._other]
        return self._random.choices(choices, [14, 2, 5, 2, 2, 5, 2])[0](table)

    def _create(self, table: str) -> list[str]:
        columns, by, borders = TABLES[table]
        self._names[table] = [f"p{n}" for n in range(len(borders))]
        parts = ", ".join(self._part(table, f"p{n}", border) for n, border in enumerate(borders))
        return [
            f"CREATE TABLE {table} ({columns}) PARTITION BY {by} ({parts})",
            f"CREATE TABLE IF NOT EXISTS other_{table} ({columns})",
        ]

    def _part(self, table: str, name: str, border: str) -> str:
        if TABLES[table][1].startswith("LIST"):
            return f"PARTITION {name} VALUES IN ({border})"
        return f"PARTITION {name} VALUES LESS THAN {'MAXVALUE' if border == 'MAXVALUE' else f'({border})'}"

    def _name(self, table: str) -> str:
        # Those that it was made with, and the newest; the server refuses what is gone.
        return self._random.choice([*self._names[table][: len(TABLES[table][2])], *self._names[table][-2:]])

    def _row(self, table: str) -> str:
        self._next += 1
        more = [self._random.choice(["-3", "-2", "0", "1", "2", "3", "NULL"])] if "j INT" in TABLES[table][0] else []
        return f"({', '.join([str(self._next), self._random.choice(VALUES[table]), *more])})"

    def _insert(self, table: str) -> list[str]:
        into = self._random.choice([table, table, f"other_{table}"])
        rows = ", ".join(self._row(table) for _ in range(self._random.randrange(1, 6)))
        names = "id, k, j" if "j INT" in TABLES[table][0] else "id, k"
        return [f"INSERT IGNORE INTO {into} ({names}) VALUES {rows}"]

    def _delete(self, table: str) -> list[str]:
        return [f"DELETE FROM {self._random.choice([table, f'other_{table}'])} WHERE id % 5 = 2"]

    def _drop(self, table: str) -> list[str]:
        verb = self._random.choice(["DROP", "TRUNCATE", "TRUNCATE"])
        return [f"ALTER TABLE {table} {verb} PARTITION {self._name(table)}"]

    def _new(self, table: str) -> str:
        self._next += 1
        name = f"q{self._next}"
        self._names[table].append(name)
        return self._part(table, name, self._random.choice(MORE[table]))

    def _reorganize(self, table: str) -> list[str]:
        """A partition is parted, two become one, or one gets another name."""
        old = self._name(table)
        number = int(old[1:]) if old[0] == "p" and int(old[1:]) < len(TABLES[table][2]) else 0
        self._next += 1
        self._names[table].append(f"q{self._next}")
        same = self._part(table, f"q{self._next}", TABLES[table][2][number])
        # The server refuses a range without its old border; of a list it drops the rows that are in no list any more.
        into = self._random.choice([f"{self._new(table)}, {same}", same])
        return [f"ALTER TABLE {table} REORGANIZE PARTITION {old} INTO ({into})"]

    def _add(self, table: str) -> list[str]:
        return [f"ALTER TABLE {table} ADD PARTITION ({self._new(table)})"]

    def _exchange(self, table: str) -> list[str]:
        return [f"ALTER TABLE {table} EXCHANGE PARTITION {self._name(table)} WITH TABLE other_{table}"]

    def _other(self, table: str) -> list[str]:
        _, by, borders = TABLES[table]
        anew = ", ".join(self._part(table, f"p{n}", border) for n, border in enumerate(borders))
        return self._random.choice(
            [
                [f"ALTER TABLE {table} REBUILD PARTITION ALL"],
                [
                    f"ALTER TABLE {one} ALGORITHM = COPY, ADD COLUMN partition_c INT"
                    for one in (table, f"other_{table}")
                ],
                [f"ALTER TABLE {one} DROP COLUMN partition_c" for one in (table, f"other_{table}")],
                [f"TRUNCATE TABLE {table}"],
                [f"ALTER TABLE {table} PARTITION BY {by} ({anew})"],
                [f"RENAME TABLE {table} TO r_{table}", f"RENAME TABLE r_{table} TO {table}"],
                [
                    f"CREATE TABLE like_{table} LIKE {table}",
                    f"DROP TABLE {table}",
                    f"RENAME TABLE like_{table} TO {table}",
                ],
            ]
        )
