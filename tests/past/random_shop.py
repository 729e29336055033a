"""A shop whose tables change by random statements, DDL among them.
Not here: running them (`test_random_queries.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

PLAIN_NAMES = ["a", "b", "c", "zoo", "x y", "10", "a_b", "50%", "", "ä"]
NAMES = [*PLAIN_NAMES, "A", "Ä", "B ", "é", "E", "Zoo", "Ångström", "ñu", "ß"]
CREATE = {
    "customers": "id INT PRIMARY KEY, name VARCHAR(20) COLLATE utf8mb4_0900_ai_ci, mail VARCHAR(20) COLLATE "
    "utf8mb4_general_ci, code VARCHAR(10) COLLATE utf8mb4_bin, tier ENUM('gold', 'basic', 'none'), since DATE, "
    "credit DECIMAL(12, 2), latin VARCHAR(10) CHARACTER SET latin1",
    "orders": "id BIGINT UNSIGNED PRIMARY KEY, customer INT, total DECIMAL(10, 2), placed DATETIME(3), paid TIMESTAMP "
    "NULL, state VARCHAR(10) COLLATE utf8mb4_unicode_ci NOT NULL DEFAULT 'new', weight DOUBLE, doc JSON, n INT",
    "items": "order_id BIGINT UNSIGNED NOT NULL, line SMALLINT NOT NULL, what VARCHAR(15) COLLATE utf8mb4_0900_bin, "
    "price DECIMAL(8, 3), flags SET('x', 'y', 'z'), took TIME, made YEAR, raw VARBINARY(6), t TINYINT UNSIGNED, "
    "PRIMARY KEY (order_id, line)",
}
STATEMENTS = (
    "ALTER TABLE {t} ADD COLUMN {new} INT DEFAULT 7",
    "ALTER TABLE {t} ADD COLUMN {new} VARCHAR(8) COLLATE utf8mb4_general_ci FIRST",
    "ALTER TABLE {t} DROP COLUMN {old}",
    "ALTER TABLE {t} RENAME COLUMN {old} TO {new}",
    "ALTER TABLE orders MODIFY total DECIMAL(14, 4)",
    "ALTER TABLE orders MODIFY n BIGINT",
    "ALTER TABLE customers MODIFY tier ENUM('none', 'gold', 'basic', 'new')",
    "ALTER TABLE customers RENAME COLUMN mail TO code, RENAME COLUMN code TO mail",
    "ALTER TABLE items DROP PRIMARY KEY, ADD PRIMARY KEY (line, order_id)",
    "TRUNCATE TABLE {t}",
    "RENAME TABLE {t} TO gone_{t}, {t}_2 TO {t}, gone_{t} TO {t}_2",
    "CREATE TABLE IF NOT EXISTS {t}_2 LIKE {t}",
    "INSERT IGNORE INTO {t}_2 SELECT * FROM {t}",
    "ALTER TABLE {t} COMMENT = 'x'",
)


class RandomShop:
    """Statements, one after the other; whoever runs them ignores those that the server refuses.

    Args:
        random: Where chance comes from.
        images: Row images that sessions may have.
    """

    def __init__(self, random: Random, images: tuple[str, ...] = ("FULL", "FULL", "MINIMAL", "NOBLOB")) -> None:
        self._random, self._images = random, images

    def begin(self) -> list[str]:
        """The tables, with rows."""
        made = [f"CREATE TABLE {table} ({columns})" for table, columns in CREATE.items()]
        return made + [self._insert(table) for table in CREATE for _ in range(12)]

    def step(self) -> str:
        """The next statement."""
        pick = self._random.random()
        table = self._random.choice(list(CREATE))
        if pick < 0.12:
            new, old = (f"c{self._random.randrange(3)}" for _ in range(2))
            return self._random.choice(STATEMENTS).format(t=table, new=new, old=old)
        if pick < 0.17:
            return f"SET SESSION binlog_row_image = {self._random.choice(self._images)}"
        if pick < 0.60:
            return self._insert(table)
        return self._update(table) if pick < 0.87 else f"DELETE FROM {table} WHERE {self._where(table)}"

    def _where(self, table: str) -> str:
        if table == "items":
            return f"order_id = {self._random.randrange(8)} AND line = {self._random.randrange(3)}"
        return f"id = {self._random.randrange(14)}"

    def _insert(self, table: str) -> str:
        values = self._values(table)
        return f"REPLACE INTO {table} ({', '.join(values)}) VALUES ({', '.join(values.values())})"

    def _update(self, table: str) -> str:
        values = self._values(table)
        name = self._random.choice(list(values))
        where = self._where(table) if self._random.random() < 0.8 else "1"
        return f"UPDATE IGNORE {table} SET {name} = {values[name]} WHERE {where}"

    def _values(self, table: str) -> dict[str, str]:
        random, some = self._random, self._random.randrange(10)
        name = random.choice(NAMES if random.random() < 0.3 else PLAIN_NAMES)
        day = f"20{random.randrange(20, 27)}-{random.randrange(1, 13):02d}-{random.randrange(1, 29):02d}"
        clock = f"{random.randrange(24):02d}:{random.randrange(60):02d}:{random.randrange(60):02d}"
        values = {
            "customers": {
                "id": str(random.randrange(14)),
                "name": f"'{name}'",
                "mail": f"'{random.choice(PLAIN_NAMES)}{' ' * (some % 2)}'",
                "code": f"'{random.choice('aAbB')}'",
                "tier": random.choice(["'gold'", "'basic'", "'none'"]),
                "since": f"'{day}'",
                "credit": f"{random.randrange(-500, 5000)}.{random.randrange(100):02d}",
                "latin": f"'{random.choice(['a', 'A', 'b', 'z', 'ö'])}'",
            },
            "orders": {
                "id": str(random.randrange(14)),
                "customer": str(random.randrange(14)),
                "total": f"{random.randrange(1000)}.{random.randrange(100):02d}",
                "placed": f"'{day} {clock}.{random.randrange(1000):03d}'",
                "paid": f"'{day} {clock}'",
                "state": f"'{random.choice(['new', 'New', 'paid', 'sent', 'paid '])}'",
                "weight": random.choice(["0.5", "-1.25e3", "3", "1e-3", "0"]),
                "doc": f"""'{{"a": {some}, "b": {{"c": "{random.choice(PLAIN_NAMES)}"}}, "d": 2.5}}'""",
                "n": str(random.randrange(-9, 10)),
            },
            "items": {
                "order_id": str(random.randrange(8)),
                "line": str(random.randrange(3)),
                "what": f"'{random.choice(PLAIN_NAMES)}'",
                "price": f"{random.randrange(100)}.{random.randrange(1000):03d}",
                "flags": random.choice(["'x'", "'x,z'", "''", "'y'"]),
                "took": f"'{random.choice(['-', ''])}{clock}'",
                "made": str(random.randrange(1990, 2030)),
                "raw": f"0x{random.randrange(1 << 16):04x}",
                "t": str(random.randrange(256)),
            },
        }[table]
        keys = {"id", "order_id", "line", "state"}
        return {name: "NULL" if random.random() < 0.08 and name not in keys else one for name, one in values.items()}
