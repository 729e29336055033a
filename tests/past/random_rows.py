"""A table that changes by random statements, and what each of its rows was after each transaction, by SELECT: the model
knows which row and which column is which, and nothing else.
Not here: what is compared (`test_random_rows.py`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from random import Random

    from tests.past.past_world import PastWorld

TYPES = {
    "a": "VARCHAR(12)",
    "b": "INT",
    "c": "DECIMAL(8, 2)",
    "d": "DATETIME(3)",
    "e": "VARBINARY(6)",
}
WIDER = {"VARCHAR(12)": "VARCHAR(40)", "INT": "BIGINT", "DECIMAL(8, 2)": "DECIMAL(12, 4)", "BIGINT": "VARCHAR(20)"}
IMAGES = ("FULL", "FULL", "MINIMAL", "NOBLOB")


@dataclass(frozen=True)
class Moment:
    """The table after one transaction."""

    seq: int
    table: str | None
    """Its name; None if it does not exist."""
    columns: dict[int, str]
    """From the identity of each column to its name."""
    rows: dict[int, dict[int, str | None]]
    """From the identity of each row to its values, as texts, by the identity of the column."""
    key: int = 0
    """The identity of the column that is the primary key."""
    statement: str = ""


@dataclass
class RandomTable:
    """The table, as the model knows it."""

    world: PastWorld
    random: Random
    table: str | None = None
    key: int = 0
    columns: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Name and type."""
    rows: dict[str, int] = field(default_factory=dict)
    """From each key to the identity of its row."""
    moments: list[Moment] = field(default_factory=list)
    counted: int = 0

    def __post_init__(self) -> None:
        self.connection = self.world.server.connect("shop", init_command="SET time_zone = '+00:00', sql_mode = ''")
        with self.connection.cursor() as cursor:
            cursor.execute("SET binlog_rows_query_log_events = ON")
            cursor.execute("SELECT @@server_uuid")
            self.uuid = cursor.fetchone()[0]

    def gtid_set(self, seq: int) -> str:
        """What had been executed after a transaction."""
        return f"{self.uuid}:1-{seq}"

    def step(self) -> None:
        """One transaction."""
        if self.table is None:
            self._create()
            return
        chosen = self.random.random()
        if chosen < 0.08:
            image = self.random.choice(IMAGES)
            self._run(f"SET binlog_row_image = {image}", logged=False)
        elif chosen < 0.28:
            self._insert()
        elif chosen < 0.56:
            self._update()
        elif chosen < 0.70:
            self._move()
        elif chosen < 0.80:
            self._delete()
        else:
            self._alter()

    # Statements ----------------------------------------------------------------------------------

    def _create(self) -> None:
        name = self.random.choice(["t", "u", "we`ird 'name"])
        self.table, self.rows = name, {}
        self.key = self._number()
        self.columns = {self.key: ("id", "INT")}
        self.columns |= {self._number(): (column, kind) for column, kind in TYPES.items()}
        parts = ", ".join(f"{quoted(column)} {kind}" for column, kind in self.columns.values())
        self._run(f"CREATE TABLE {quoted(name)} ({parts}, PRIMARY KEY (id))")

    def _insert(self) -> None:
        keys = {str(self.random.randrange(12)) for _ in range(self.random.randrange(1, 4))} - set(self.rows)
        if not keys:
            return
        names = [name for name, _ in self.columns.values()]
        rows = []
        for key in sorted(keys):
            self.rows[key] = self._number()
            values = [key if number == self.key else self._value(kind) for number, (_, kind) in self.columns.items()]
            rows.append(f"({', '.join(values)})")
        self._run(f"INSERT INTO {self._name} ({', '.join(map(quoted, names))}) VALUES {', '.join(rows)}")

    def _update(self) -> None:
        others = [(name, kind) for number, (name, kind) in self.columns.items() if number != self.key]
        chosen = self.random.sample(others, min(len(others), self.random.randrange(1, 3)))
        if not chosen:
            return
        sets = ", ".join(f"{quoted(name)} = {self._value(kind)}" for name, kind in chosen)
        where = "" if self.random.random() < 0.15 else f" WHERE {self._key_name} = {self.random.randrange(12)}"
        statements = [f"UPDATE {self._name} SET {sets}{where}"]
        left = [one for one in others if one not in chosen]
        if left and self.random.random() < 0.2:
            name, kind = self.random.choice(left)
            statements.append(f"UPDATE {self._name} SET {quoted(name)} = {self._value(kind)}{where}")
        self._run(*statements)

    def _move(self) -> None:
        """Other keys: one row's, two that change places, or those of all rows."""
        key, keys = self._key_name, list(self.rows)
        if not keys:
            return
        chosen = self.random.random()
        if chosen < 0.15 and "INT" in self.columns[self.key][1]:
            self.rows = {str(int(old) + 1): row for old, row in self.rows.items()}
            self._run(f"UPDATE {self._name} SET {key} = {key} + 1 ORDER BY {key} DESC")
        elif chosen < 0.4 and len(keys) > 1:
            one, other = self.random.sample(keys, 2)
            self.rows[one], self.rows[other] = self.rows[other], self.rows[one]
            pairs = ((one, -1), (other, one), (-1, other))
            self._run(*(f"UPDATE {self._name} SET {key} = {new} WHERE {key} = {old}" for old, new in pairs))
        else:
            one, new = self.random.choice(keys), str(self.random.randrange(12))
            if new not in self.rows:
                self.rows[new] = self.rows.pop(one)
                self._run(f"UPDATE {self._name} SET {key} = {new} WHERE {key} = {one}")

    def _delete(self) -> None:
        key = str(self.random.randrange(12))
        if self.rows.pop(key, None) is None:
            return
        statements = [f"DELETE FROM {self._name} WHERE {self._key_name} = {key}"]
        if self.random.random() < 0.3:
            # Another row with the key, in the same transaction.
            self.rows[key] = self._number()
            names = [name for name, _ in self.columns.values()]
            values = [key if number == self.key else self._value(kind) for number, (_, kind) in self.columns.items()]
            columns = ", ".join(map(quoted, names))
            statements.append(f"INSERT INTO {self._name} ({columns}) VALUES ({', '.join(values)})")
        self._run(*statements)

    def _alter(self) -> None:
        picks = "rename,rename,rename table,rename table,add,add,drop,swap,modify,modify,truncate,drop table"
        pick = self.random.choice(picks.split(","))
        if pick == "rename table":
            new = self.random.choice(["t", "u", "v", "we`ird 'name"])
            if new != self.table:
                self._run(f"RENAME TABLE {self._name} TO {quoted(new)}", table=new)
        elif pick == "truncate":
            self.rows = {}
            self._run(f"TRUNCATE TABLE {self._name}")
        elif pick == "drop table":
            if self.random.random() < 0.4:
                self.rows, self.columns = {}, {}
                self._run(f"DROP TABLE {self._name}", is_gone=True)
        else:
            self._alter_column(pick)

    def _alter_column(self, pick: str) -> None:
        used = {name for name, _ in self.columns.values()}
        free = [name for name in ("a", "b", "c", "d", "e", "f g", 'q"`') if name not in used]
        others = [number for number in self.columns if number != self.key]
        if pick == "add" and free:
            name, kind = self.random.choice(free), self.random.choice(list(TYPES.values()))
            default = self._value(kind) if self.random.random() < 0.7 and "BINARY" not in kind else "NULL"
            self.columns[self._number()] = (name, kind)
            self._run(f"ALTER TABLE {self._name} ADD COLUMN {quoted(name)} {kind} DEFAULT {default}")
        elif pick == "drop" and len(others) > 1:
            number = self.random.choice(others)
            name, _ = self.columns.pop(number)
            self._run(f"ALTER TABLE {self._name} DROP COLUMN {quoted(name)}")
        elif pick == "swap" and len(others) > 1:
            one, other = self.random.sample(others, 2)
            (first, kind), (second, another) = self.columns[one], self.columns[other]
            self.columns[one], self.columns[other] = (second, kind), (first, another)
            steps = [f"RENAME COLUMN {quoted(old)} TO {quoted(new)}" for old, new in ((first, second), (second, first))]
            self._run(f"ALTER TABLE {self._name} {', '.join(steps)}")
        elif pick == "modify" and others:
            number = self.random.choice([*others, self.key])
            name, kind = self.columns[number]
            if kind in WIDER:
                self.columns[number] = (name, WIDER[kind])
                null = " NOT NULL" if number == self.key else ""
                self._run(f"ALTER TABLE {self._name} MODIFY {quoted(name)} {WIDER[kind]}{null}")
        elif pick == "rename" and free:
            number = self.random.choice([*others, self.key])
            name, kind = self.columns[number]
            new = self.random.choice(free)
            self.columns[number] = (new, kind)
            self._run(f"ALTER TABLE {self._name} RENAME COLUMN {quoted(name)} TO {quoted(new)}")

    # What the server has -------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return quoted(self.table or "")

    @property
    def _key_name(self) -> str:
        return quoted(self.columns[self.key][0])

    def _number(self) -> int:
        self.counted += 1
        return self.counted

    def _value(self, kind: str) -> str:
        if self.random.random() < 0.15:
            return "NULL"
        some = self.random.randrange(4)
        if kind.startswith("VARCHAR(20"):
            return f"'{some}'"
        if kind.startswith("VARCHAR"):
            return ("'x'", "'It''s'", "'ä'", "''")[some]
        if kind.startswith("VARBINARY"):
            return f"0x{some:02x}FF"
        if kind.startswith("DATETIME"):
            return f"'2024-02-0{some + 1} 12:00:00.{some}00'"
        return f"{some}.5" if kind.startswith("DECIMAL") else str(some)

    def _run(self, *statements: str, logged: bool = True, table: str | None = None, is_gone: bool = False) -> None:
        with self.connection.cursor() as cursor:
            if len(statements) > 1:
                cursor.execute("BEGIN")
            for statement in statements:
                cursor.execute(statement)
            if len(statements) > 1:
                cursor.execute("COMMIT")
            self.table = None if is_gone else table or self.table
            if not logged:
                return
            cursor.execute("SELECT @@GLOBAL.gtid_executed")
            seq = int(str(cursor.fetchone()[0]).rpartition("-")[2])
            if self.moments and seq == self.moments[-1].seq:
                return
            rows = {} if is_gone else self._selected(cursor)
        names = {number: name for number, (name, _) in self.columns.items()}
        self.moments.append(Moment(seq, self.table, {} if is_gone else names, rows, self.key, "; ".join(statements)))

    def _selected(self, cursor: Any) -> dict[int, dict[int, str | None]]:
        columns = [
            f"HEX({quoted(name)})" if "BINARY" in kind else f"CAST({quoted(name)} AS CHAR)"
            for name, kind in self.columns.values()
        ]
        cursor.execute(f"SELECT {', '.join(columns)} FROM {self._name}")
        found: dict[int, dict[int, str | None]] = {}
        for row in cursor.fetchall():
            values = dict(zip(self.columns, row, strict=True))
            found[self.rows[str(values[self.key])]] = values
        assert len(found) == len(self.rows), "the model and the server have the same rows"
        return found


def quoted(name: str) -> str:
    """An identifier."""
    return "`" + name.replace("`", "``") + "`"
