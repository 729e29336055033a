"""A database with replicas as far as caches see it: transactions, a binlog that is ahead of the engine, replicas that
lag, a primary that changes, sessions with snapshots. Not here: caches."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from strata_cdc.binlog.protocol.visible_state import ISOLATION, KEEP_ISOLATION
from strata_cdc.cache.shapes import Shape, Shapes
from strata_cdc.cache.touched import TouchedEntries, Toucher
from strata_cdc.position.sets import Gtid, GtidSet, Sid
from strata_cdc.position.token import Token
from strata_cdc.streams.events import RowChange

if TYPE_CHECKING:
    from collections.abc import Sequence

UUIDS = ("3e11fa47-71ca-11e1-9e33-c80aa9429562", "5f22fa47-71ca-11e1-9e33-c80aa9429563")
SHAPES = Shapes.of("s", [Shape("order", {"d.o": ("id",)}), Shape("of", {"d.o": ("customer",), "d.c": ("id",)})])
KINDS = {"order": "i", "of": "i"}
Key = tuple[str, int]


@dataclass(frozen=True)
class Write:
    """A transaction that changes one row of a table, from one image to another."""

    gtid: Gtid
    table: str
    before: dict[str, int] | None
    after: dict[str, int] | None

    def touched(self) -> TouchedEntries:
        toucher, touched = Toucher(SHAPES), TouchedEntries()
        toucher.kinds = dict(KINDS)
        toucher.row(RowChange(None, "d", self.table, "update", self.before, self.after, 0, 1), touched)
        return touched

    def changes(self) -> set[Key]:
        return {(shape, json.loads(text)[0]) for shape, texts in self.touched().keys.items() for text in texts}


@dataclass
class Database:
    stream: list[Write] = field(default_factory=list)
    """As the binlog has it."""
    executed: list[int] = field(default_factory=lambda: [0, 0])
    """How many of them a read on each server sees, and its gtid_executed has."""
    primary: int = 0
    rows: dict[tuple[str, int], dict[str, int]] = field(default_factory=dict)

    def write(self, table: str, row: int, customer: int | None) -> None:
        """Inserts, updates or deletes a row. It is in the binlog at once, and visible with `commit`."""
        before = self.rows.pop((table, row), None)
        after = None if customer is None else {"id": row, "customer": customer}
        if before is None and after is None:
            return
        if after is not None:
            self.rows[table, row] = after
        mine = sum(one.gtid.sid.uuid == UUIDS[self.primary] for one in self.stream)
        self.stream.append(Write(Gtid(Sid(UUIDS[self.primary]), mine + 1), table, before, after))

    def commit(self) -> None:
        self.executed[self.primary] = len(self.stream)

    def replicate(self) -> None:
        other = 1 - self.primary
        self.executed[other] = min(self.executed[other] + 1, self.executed[self.primary])

    def fail_over(self) -> None:
        """To a replica that has all: what a replica lacks is another history."""
        self.executed = [len(self.stream)] * 2
        self.primary = 1 - self.primary

    def set_of(self, count: int) -> GtidSet:
        found = GtidSet()
        for one in self.stream[:count]:
            found = found.add(one.gtid)
        return found

    def token(self, server: int) -> Token:
        return Token.of("s", self.set_of(self.executed[server]))

    def session(self, server: int) -> Session:
        return Session(self, server)

    def query(self, server: int, key: Key, count: int | None = None) -> bytes | None:
        """What a query gives: the transactions that made it, so that its age can be told; None if there was none."""
        seen = self.stream[: self.executed[server] if count is None else count]
        made_by = [str(one.gtid) for one in seen if key in one.changes()]
        return json.dumps(made_by).encode() if made_by else None

    def lacks(self, value: bytes | None, key: Key, wanted: GtidSet) -> list[str]:
        """The transactions of a set that changed a key, and that a value does not have."""
        had = json.loads(value) if value is not None else []
        changed = [one.gtid for one in self.stream if key in one.changes() and wanted.contains(one.gtid)]
        return [str(gtid) for gtid in changed if str(gtid) not in had]


class InTransactionError(Exception):
    """What a driver raises of an error of the server's."""


class Session:
    """A session on one of the servers: as much of a connection as tokens ask of it."""

    is_refused = True
    """Whether the server refuses to change the level inside of a transaction."""

    def __init__(self, database: Database, server: int) -> None:
        self.database, self.server = database, server
        self.snapshot: int | None = None
        """How many transactions an open one sees."""
        self.catches_up = True
        """Whether the server executes in time what is waited for."""
        self._answer: tuple[Any, ...] = ()

    @property
    def connection(self) -> Session:
        return self

    def open_snapshot(self) -> None:
        self.snapshot = self.database.executed[self.server]

    def query(self, key: Key) -> bytes | None:
        return self.database.query(self.server, key, self.snapshot)

    def cursor(self) -> Session:
        return self

    def close(self) -> None:
        """Nothing is held."""

    def fetchall(self) -> list[tuple[Any, ...]]:
        return [self._answer]

    def execute(self, query: str, arguments: Sequence[str] | None = None) -> None:
        if query == KEEP_ISOLATION:
            if self.snapshot is not None and self.is_refused:
                raise InTransactionError(1568)
        elif "WAIT_FOR_EXECUTED_GTID_SET" in query:
            self._answer = ("ON", int(not self._reach(GtidSet.parse((arguments or [""])[0]))))
        elif query == f"SELECT {ISOLATION}":
            self._answer = ("REPEATABLE-READ",)
        else:
            self._answer = (UUIDS[self.server], "ON", str(self._executed()), "", 1, "9.7.0")

    def _executed(self) -> GtidSet:
        return self.database.set_of(self.database.executed[self.server])

    def _reach(self, wanted: GtidSet) -> bool:
        database = self.database
        if self.catches_up and not wanted <= self._executed():
            database.commit()
            while database.executed[self.server] < database.executed[database.primary]:
                database.replicate()
        return wanted <= self._executed()
