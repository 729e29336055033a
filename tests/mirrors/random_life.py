"""Random statements on tables of all kinds of keys: what a session may do to mirrors.
Not here: comparing (`test_random_lives.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

TABLES = {
    "ints": ("id INT PRIMARY KEY", "id"),
    "bigs": ("id BIGINT UNSIGNED PRIMARY KEY", "id"),
    "pairs": ("a VARCHAR(10), b SMALLINT, PRIMARY KEY (b, a)", "b, a"),
    "exact": ("id DECIMAL(12, 3) PRIMARY KEY", "id"),
    "bytes_": ("id VARBINARY(8) PRIMARY KEY", "id"),
    "days": ("id DATE PRIMARY KEY", "id"),
    "only_unique": ("id CHAR(12) NOT NULL, UNIQUE KEY u (id)", "id"),
    "keyless": ("id INT", ""),
    "floats": ("id DOUBLE PRIMARY KEY", "id"),
}
ODD = {
    "codes": ("a CHAR(6), b INT, PRIMARY KEY (a, b)", "a, b"),
    "moments": ("id DATETIME PRIMARY KEY", "id"),
    "zero_days": ("id DATE PRIMARY KEY", "id"),
}
"""Among them keys that are no dates, where `sql_mode` lets them in."""
DAYS = ("0000-00-00", "2024-00-15", "2024-02-31", "2024-02-28", "2024-03-01")
PLAIN = "n INT, t VARCHAR(30), e ENUM('x', 'y', 'z'), j JSON, d DECIMAL(8, 2), blo BLOB"
ALTERS = (
    "ADD COLUMN {new} INT",
    "ADD COLUMN {new} VARCHAR(5) NOT NULL DEFAULT 'web' FIRST",
    "ADD COLUMN {new} BIGINT DEFAULT 7",
    "DROP COLUMN {extra}",
    "RENAME COLUMN {extra} TO {new}",
    "RENAME COLUMN n TO t, RENAME COLUMN t TO n",
    "DROP COLUMN {extra}, ADD COLUMN {extra} DOUBLE",
    "MODIFY e ENUM('z', 'x', 'y', 'w')",
    "MODIFY d DECIMAL(12, 4)",
    "ADD INDEX (n)",
    "MODIFY {extra} BIGINT",
    "COMMENT = 'x'",
)


class RandomLife:
    """Statements, one after the other; whoever runs them ignores those that the server refuses."""

    alters: tuple[str, ...] = ALTERS

    def __init__(self, random: Random, tables: Mapping[str, tuple[str, str]] = TABLES) -> None:
        self._random = random
        self.tables = tables
        self._new = 0
        self._extra: dict[str, list[str]] = {}

    def begin(self) -> list[str]:
        """The tables."""
        return [self._create(table) for table in self.tables]

    def step(self) -> list[str]:
        """What one session does next."""
        table = self._random.choice(list(self.tables))
        made = self._random.choices(
            [self._insert, self._update, self._rekey, self._delete, self._transaction, self._alter, self._rare],
            [6, 5, 3, 2, 2, 1, 1],
        )[0]
        return made(table)

    def _create(self, table: str) -> str:
        self._extra[table] = []
        return f"CREATE TABLE {table} ({self.tables[table][0]}, {PLAIN})"

    def _key(self, table: str) -> list[str]:
        number = self._random.randrange(12)
        return {
            "ints": [str(number - 5)],
            "bigs": [str(2**64 - 1 - number)],
            "pairs": [f"'{self._random.choice('aAbBäÄ')}{' ' * (number % 2)}'", str(number % 4)],
            "codes": [f"'{self._random.choice(['', 'a', 'B', 'ü', 'aaaaaa'])}'", str(number % 3)],
            "exact": [f"{number - 6}.{number:03d}"],
            "bytes_": [f"0x{number:02x}00"],
            "days": [f"'2026-01-{number + 1:02d}'"],
            "only_unique": [f"'{'kK'[number % 2]}{number}'"],
            "keyless": [str(number % 3)],
            "moments": [f"'{self._random.choice(DAYS)} {number:02d}:00:00'"],
            "zero_days": [f"'{self._random.choice(DAYS)}'"],
            "floats": [self._random.choice(["0.5", "-1.25e300", "1e-300", "0", "3"])],
        }[table]

    def _where(self, table: str) -> str:
        names = _names(table)
        return " AND ".join(f"{name} = {value}" for name, value in zip(names, self._key(table), strict=True))

    def _plain(self) -> dict[str, str]:
        number = self._random.randrange(5)
        return {
            "n": str(number),
            "t": f"'{self._random.choice(['', 'x', 'ü', 'X ', '%'])}'",
            "e": self._random.choice(["'x'", "'z'", "NULL"]),
            "j": f"""'{{"a": [{number}, 2.50], "b": "c"}}'""",
            "d": f"{number}.25",
            "blo": f"0x{number:02x}ff",
        }

    def _insert(self, table: str) -> list[str]:
        verb = self._random.choice(["INSERT INTO", "REPLACE INTO", "INSERT IGNORE INTO"])
        names = _names(table)
        plain = self._plain()
        rows = ", ".join(
            f"({', '.join([*self._key(table), *plain.values()])})" for _ in range(self._random.randrange(1, 8))
        )
        more = " ON DUPLICATE KEY UPDATE n = n + 1" if verb == "INSERT INTO" else ""
        return [f"{verb} {table} ({', '.join([*names, *plain])}) VALUES {rows}{more}"]

    def _update(self, table: str) -> list[str]:
        name, value = self._random.choice(list(self._plain().items()))
        set_to = self._random.choice([f"{name} = {value}", "j = JSON_SET(j, '$.b', 'longer'), n = n + 1"])
        where = self._random.choice([self._where(table), f"n = {self._random.randrange(5)}", "1"])
        return [f"UPDATE {table} SET {set_to} WHERE {where}"]

    def _rekey(self, table: str) -> list[str]:
        """Keys change, alone or all, and two rows swap theirs."""
        if table in {"ints", "exact", "bigs"}:
            free = "100" if table != "bigs" else "1"
            one, other = self._key(table)[0], self._key(table)[0]
            swap = [
                f"UPDATE {table} SET id = {free} WHERE id = {one}",
                f"UPDATE {table} SET id = {one} WHERE id = {other}",
                f"UPDATE {table} SET id = {other} WHERE id = {free}",
            ]
            return self._random.choice([["BEGIN", *swap, "COMMIT"], swap[:1]])
        names = _names(table)
        values = zip(names, self._key(table), strict=True)
        return [f"UPDATE {table} SET {', '.join(f'{a} = {b}' for a, b in values)} WHERE {self._where(table)}"]

    def _delete(self, table: str) -> list[str]:
        limit = " LIMIT 2" if table == "keyless" else ""
        return [f"DELETE FROM {table} WHERE {self._where(table)}{limit}"]

    def _transaction(self, table: str) -> list[str]:
        inner = [
            statement
            for _ in range(self._random.randrange(2, 5))
            for statement in self._random.choice([self._insert, self._update, self._delete])(table)
        ]
        if self._random.random() < 0.2:
            return [
                "XA START 'x'",
                *inner,
                "XA END 'x'",
                "XA PREPARE 'x'",
                self._random.choice(["XA COMMIT 'x'", "XA ROLLBACK 'x'"]),
            ]
        return ["BEGIN", *inner, self._random.choice(["COMMIT", "COMMIT", "ROLLBACK"])]

    def _alter(self, table: str) -> list[str]:
        self._new += 1
        # A name comes back, so that columns are dropped and added under one name.
        new = f"c{self._new % 4}"
        extra = self._random.choice(["c0", "c1", "c2", "c3"])
        alter = self._random.choice(self.alters).format(new=new, extra=extra)
        return [f"ALTER TABLE {table} {alter}"]

    def _rare(self, table: str) -> list[str]:
        image = self._random.choice(["FULL", "MINIMAL", "NOBLOB"])
        return self._random.choice(
            [
                [f"TRUNCATE TABLE {table}"],
                [f"DROP TABLE {table}", self._create(table)],
                [f"SET SESSION binlog_row_image = {image}"],
                [f"SET SESSION binlog_transaction_compression = {self._random.choice(['ON', 'OFF'])}"],
                [f"RENAME TABLE {table} TO old_{table}", f"RENAME TABLE old_{table} TO {table}"],
                [
                    f"CREATE TABLE other_{table} LIKE {table}",
                    f"INSERT INTO other_{table} SELECT * FROM {table}",
                    f"RENAME TABLE {table} TO gone_{table}, other_{table} TO {table}",
                    f"DROP TABLE gone_{table}",
                ],
                [f"DROP TABLE IF EXISTS copy_{table}", f"CREATE TABLE copy_{table} SELECT * FROM {table}"],
            ]
        )


def _names(table: str) -> list[str]:
    return ["a", "b"] if table in {"pairs", "codes"} else ["id"]
