"""What sessions do to MariaDB's tables, beyond what both families have: sequences, system versioning, conditional
clauses, replication domains. Not here: who executes it (`pair.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.mirrors.random_life import ALTERS, ODD, TABLES, RandomLife

if TYPE_CHECKING:
    from random import Random

KINDS = TABLES | ODD | {"uuids": ("id UUID PRIMARY KEY", "id"), "versioned": ("id INT PRIMARY KEY", "id")}
IMAGES = ("FULL", "MINIMAL", "NOBLOB", "FULL_NODUP")
METADATA = ("NO_LOG", "MINIMAL", "FULL")
SWITCH = ("ON", "OFF")


class MariadbLife(RandomLife):
    """Statements for MariaDB, each step in a replication domain."""

    alters = (
        *ALTERS,
        "ADD COLUMN IF NOT EXISTS {new} INET6 DEFAULT '::1'",
        "DROP COLUMN IF EXISTS {extra}",
        "ADD COLUMN ({new} UUID)",
        "CHANGE COLUMN IF EXISTS {extra} {new} BIGINT",
        "ADD COLUMN {new} TEXT COMPRESSED DEFAULT 'web', ADD COLUMN IF NOT EXISTS {extra} INT INVISIBLE DEFAULT 3",
        "MODIFY blo BLOB COMPRESSED",
        "MODIFY blo BLOB",
        # A hidden column keeps its hash.
        "ADD COLUMN {new} TEXT UNIQUE",
        "ALTER COLUMN n SET DEFAULT 4",
        "CONVERT TO CHARACTER SET utf8mb4",
        "FORCE",
    )

    def __init__(self, random: Random, *, has_domains_by_table: bool) -> None:
        super().__init__(random, KINDS)
        self._has_domains_by_table = has_domains_by_table

    def begin(self) -> list[str]:
        """The tables, and a sequence."""
        return [*super().begin(), "CREATE SEQUENCE numbers CACHE 3"]

    def step(self) -> list[str]:
        """What one session does next, in its domain."""
        tables = list(self.tables)
        table = self._random.choice([*tables, "numbers"])
        domain = self.domain_of(table)
        made = self._sequence() if table == "numbers" else self._any(table)
        # Replicas that apply domains at once have the XA transactions of several of them.
        return [domain, *(one.replace("'x'", f"'x{domain[-1]}'") if one.startswith("XA ") else one for one in made)]

    def held(self) -> list[str]:
        """A prepared transaction whose session ends; its name says how another session will end it."""
        name = f"{self._random.choice(['COMMIT', 'ROLLBACK'])} {self._number()}"
        return [
            self.domain_of("ints"),
            f"XA START '{name}'",
            *self._insert("ints"),
            f"XA END '{name}'",
            f"XA PREPARE '{name}'",
        ]

    def domain_of(self, table: str) -> str:
        """Sets the domain for a table. Replicas that apply domains at once keep no order between them: then all of a
        table is in one domain."""
        if self._has_domains_by_table:
            return f"SET gtid_domain_id = {0 if table == 'numbers' else len(table) % 3}"
        return f"SET gtid_domain_id = {self._random.choice([0, 0, 0, 1, 7])}"

    def _any(self, table: str) -> list[str]:
        made = self._random.choices(
            [self._insert, self._update, self._rekey, self._delete, self._transaction, self._alter, self._rare],
            [6, 5, 3, 2, 2, 1, 1],
        )[0]
        if made == self._rare and self._random.random() < 0.5:
            return self._settings(table)
        return made(table)

    def _number(self) -> int:
        self._new += 1
        return self._new

    def _create(self, table: str) -> str:
        replaced = (
            super()
            ._create(table)
            .replace("CREATE TABLE", self._random.choice(["CREATE TABLE", "CREATE OR REPLACE TABLE"]))
        )
        return f"{replaced} WITH SYSTEM VERSIONING" if table == "versioned" else replaced

    def _key(self, table: str) -> list[str]:
        number = self._random.randrange(12)
        if table == "uuids":
            return [f"'{number:08x}-0000-7000-8000-0000000000{'00' if number % 2 else 'ff'}'"]
        return [str(number)] if table == "versioned" else super()._key(table)

    def _settings(self, table: str) -> list[str]:
        """A setting that changes what the log has, or a rare statement of MariaDB."""
        random = self._random
        settings = [
            f"SET SESSION binlog_row_image = {random.choice(IMAGES)}",
            f"SET GLOBAL binlog_row_metadata = {random.choice(METADATA)}",
            f"SET GLOBAL log_bin_compress = {random.choice(SWITCH)}",
            f"SET SESSION binlog_alter_two_phase = {random.choice(SWITCH)}",
            f"SET SESSION system_versioning_alter_history = {random.choice(['KEEP', 'ERROR'])}",
        ]
        statements = [
            f"CREATE OR REPLACE TABLE copy_{table} SELECT * FROM {table}",
            self._create(table).replace("CREATE TABLE", "CREATE OR REPLACE TABLE"),
            f"RENAME TABLE IF EXISTS nothing TO anything, {table} TO old_{table}, old_{table} TO {table}",
            f"DELETE HISTORY FROM {table}",
            f"ALTER TABLE {table} {random.choice(['ADD', 'DROP'])} SYSTEM VERSIONING",
        ]
        return [random.choice(settings + statements)]

    def _sequence(self) -> list[str]:
        number = self._random.randrange(100)
        return self._random.choice(
            [
                ["SELECT NEXTVAL(numbers)"] * 4,
                [f"SELECT SETVAL(numbers, {number})"],
                [f"ALTER SEQUENCE numbers RESTART {number}"],
                ["ALTER SEQUENCE numbers INCREMENT 3"],
                [f"CREATE OR REPLACE SEQUENCE numbers START {number + 1} CACHE 4"],
                ["BEGIN", "SELECT NEXTVAL(numbers)", "DELETE FROM days", "ROLLBACK"],
            ]
        )
