"""Tables with columns of every type, and statements on their rows, drawn by lot.
Not here: what is done with them (`undo/test_random_undo.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

TEXTS = [
    "",
    "a",
    "A",
    "a ",
    "it''s",
    "back\\\\slash",
    "*/ -- x",
    "ünï",
    "日本",
    "line\\nbreak",
    'q"uote',
    "`tick`",
    "%s;",
    "\\0nul",
]
LATIN = ["", "a", "A", "ü", "ß", "x'';", "\\n"]
TYPES: dict[str, tuple[str, list[str]]] = {
    "i": ("INT", ["0", "-1", "2147483647", "NULL", "7"]),
    "big": ("BIGINT UNSIGNED", ["18446744073709551615", "0", "NULL", "9223372036854775808"]),
    "de": ("DECIMAL(20,6)", ["1.5", "-0.000001", "12345678901234.567891", "NULL", "0"]),
    "dl": ("DECIMAL(60,20)", ["1.00000000000000000001", "1234567890123456789012345678901234567890.5", "NULL"]),
    "f": ("FLOAT", ["0.1", "-1e30", "3.14159274", "NULL", "0", "16777217"]),
    "d": ("DOUBLE", ["0.1", "1e-300", "-1.7976931348623157e308", "NULL", "0", "3"]),
    "b1": ("BIT(1)", ["b'0'", "b'1'", "NULL"]),
    "b64": ("BIT(64)", ["b'0'", "18446744073709551615", "NULL", "5"]),
    "e": ("ENUM('x','y','Z''q','ü') CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", ["'x'", "'ü'", "NULL", "3"]),
    "s": ("SET('a','b','c')", ["'a,c'", "''", "NULL", "7"]),
    "v": ("VARCHAR(30) CHARACTER SET utf8mb4", [f"'{text}'" for text in TEXTS] + ["NULL"]),
    "c": ("CHAR(20) CHARACTER SET utf8mb4", [f"'{text}'" for text in TEXTS if text != "a "]),
    "la": ("VARCHAR(20) CHARACTER SET latin1", [f"'{text}'" for text in LATIN] + ["NULL"]),
    "u16": ("VARCHAR(20) CHARACTER SET utf16", [f"'{text}'" for text in TEXTS]),
    "sj": ("VARCHAR(20) CHARACTER SET sjis", ["'a'", "_sjis X'815F'", "_sjis X'5C'", "'日本'", "NULL"]),
    "tx": ("TEXT CHARACTER SET utf8mb4", [f"'{text}'" for text in TEXTS] + ["REPEAT('é', 500)", "NULL"]),
    "bi": ("BINARY(6)", ["X'00'", "X'FF00FF'", "'ab'", "NULL"]),
    "vb": ("VARBINARY(20)", ["X'00'", "X''", "X'2727005C'", "NULL"]),
    "bl": ("BLOB", ["X'00FF'", "''", "REPEAT('x', 700)", "NULL"]),
    "da": ("DATE", ["'2024-02-29'", "'0000-00-00'", "'2024-02-31'", "'1000-01-01'", "NULL"]),
    "dt": ("DATETIME(6)", ["'2024-02-29 12:00:00.123456'", "'0000-00-00'", "'9999-12-31 23:59:59'", "NULL"]),
    "ts": ("TIMESTAMP(3) NULL", ["'2024-03-31 02:30:00.123'", "'0000-00-00'", "'1970-01-01 00:00:01'", "NULL"]),
    "ti": ("TIME(2)", ["'-838:59:59'", "'00:00:00.01'", "'100:00:00'", "NULL"]),
    "y": ("YEAR", ["0", "1999", "2155", "NULL"]),
    "j": ("JSON", ["""'{"a": 1.5, "b": [1, "ü", null, true]}'""", "'1'", "'1.0'", "'\"x\"'", "NULL", "'{}'"]),
    "g": ("GEOMETRY", ["ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('LINESTRING(0 0,1 1)')", "NULL"]),
}
WIDER = {
    "i": "BIGINT",
    "de": "DECIMAL(28,9)",
    "f": "DOUBLE",
    "e": "ENUM('new','ü','Z''q','y','x') CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    "s": "SET('c','b','a','d')",
    "v": "VARCHAR(60) CHARACTER SET utf8mb4",
    "la": "VARCHAR(30) CHARACTER SET utf8mb4",
    "u16": "VARCHAR(30) CHARACTER SET utf8mb4",
    "vb": "VARBINARY(40)",
    "ti": "TIME(4)",
    "tx": "LONGTEXT CHARACTER SET utf8mb4",
    "dt": "DATETIME(6) NULL",
}
"""Types that can have the same values."""
KEYS = {
    "number": ("id INT AUTO_INCREMENT", "PRIMARY KEY (id)"),
    "two": ("id INT, k2 VARCHAR(10) COLLATE utf8mb4_general_ci", "PRIMARY KEY (id, k2)"),
    "text": ("id VARCHAR(20) COLLATE utf8mb4_general_ci", "PRIMARY KEY (id)"),
    "unique": ("id INT NOT NULL, other INT", "UNIQUE KEY (other), UNIQUE KEY (id)"),
    "bytes": ("id VARBINARY(10)", "PRIMARY KEY (id)"),
    "moment": ("id DATETIME(3)", "PRIMARY KEY (id)"),
    "float": ("id FLOAT", "PRIMARY KEY (id)"),
    "enum": ("id ENUM('a','b','c','d','e','f','g','h')", "PRIMARY KEY (id)"),
    "none": ("id INT", ""),
}
"""The columns and the definition of each kind of key."""


class RandomRows:
    """A table and statements on its rows.

    Args:
        random: Where chance comes from.
        key: One of `KEYS`.
    """

    def __init__(self, random: Random, key: str) -> None:
        self._random, self.key = random, key
        self.columns = {name: TYPES[name] for name in random.sample(list(TYPES), random.randrange(4, 12))}

    def create(self) -> str:
        columns, key = KEYS[self.key]
        own = [f"{name} {kind}" for name, (kind, _) in self.columns.items()]
        own.append("at TIMESTAMP(6) NULL ON UPDATE CURRENT_TIMESTAMP(6)")
        own += ["n2 INT DEFAULT 3", "made INT GENERATED ALWAYS AS (n2 + 1) STORED"]
        return f"CREATE TABLE t ({', '.join([columns, *own, *([key] if key else [])])})"

    def insert(self) -> str:
        names, values = ["id"], [self._id()]
        if self.key == "two":
            names, values = [*names, "k2"], [*values, self._random.choice(["'a'", "'b'", "'ü'"])]
        for name, (_, possible) in self.columns.items():
            if self._random.random() < 0.8:
                names.append(name)
                values.append(self._random.choice(possible))
        return f"INSERT INTO t ({', '.join(names)}) VALUES ({', '.join(values)})"

    def step(self) -> str:
        """INSERT, UPDATE of columns or of the key, DELETE."""
        pick = self._random.random()
        if pick < 0.3:
            return self.insert()
        if pick < 0.75:
            return f"UPDATE t SET {self._assignments()} {self._where()}"
        if pick < 0.88 and self.key != "none":
            return f"UPDATE IGNORE t SET id = {self._id()} WHERE id = {self._id()}"
        return f"DELETE FROM t WHERE id = {self._id()}"

    def _assignments(self) -> str:
        names = self._random.sample(list(self.columns), self._random.randrange(1, 4))
        return ", ".join(f"{name} = {self._random.choice(self.columns[name][1])}" for name in names)

    def _where(self) -> str:
        return "" if self._random.random() < 0.15 else f"WHERE id = {self._id()}"

    def _id(self) -> str:
        number = self._random.randrange(1, 9)
        return {
            "text": self._random.choice([f"'k{number}'", f"'K{number}'", "'it''s'"]),
            "bytes": f"X'0{number}'",
            "moment": f"'2024-01-0{number} 00:00:00.5'",
            "float": f"0.{number}",
            "enum": f"'{'abcdefgh'[number - 1]}'",
        }.get(self.key, str(number))
