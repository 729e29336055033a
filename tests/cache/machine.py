"""A machine that does to a cache, its invalidators, readers and databases whatever can happen, in any order, and looks
at each value that is served: none may be older than what was acknowledged.
Not here: caches that are not right (`naive.py`), the tests."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from strata_cdc.cache.invalidator import Invalidator, Start, _CacheChangedError
from strata_cdc.cache.reader import Cache, CachedValue
from strata_cdc.cache.server import CacheServer
from strata_cdc.cache.shapes import entry_key
from strata_cdc.errors import CacheUnavailableError, SourceUnavailableError, Usage
from strata_cdc.position.sets import GtidSet
from tests.cache.database import KINDS, SHAPES, Database, Key

KEYS = st.sampled_from([("order", 1), ("of", 1), ("of", 2)])
ROWS, CUSTOMERS = st.sampled_from([1, 1, 2]), st.sampled_from([1, 2, None])
SERVERS = st.sampled_from([0, 0, 1])


class StaleServed(AssertionError):
    """A value was served that is older than what was acknowledged."""


class NotCaughtUp(AssertionError):
    """An invalidator stays where it is, though all that it needs is there."""


class Source:
    """As much of a source as an invalidator asks for its name."""

    name, lineage, address, lake, store_url = "s", "", None, "", ""


class Follower(Invalidator):
    """An invalidator that takes one transaction at a time from a database of the machine."""

    def __init__(self, database: Database, server: Any, acknowledged: Any) -> None:
        super().__init__(Source(), server, SHAPES, on_acknowledged=acknowledged)
        self._database = database
        self.start(Start.CHECKPOINT)

    def _executed(self) -> GtidSet:
        return self._database.set_of(self._database.executed[self._database.primary])

    def start(self, begin: Start) -> None:
        self._reached = self.at = self._take_over(begin)
        self._words = {shape.name: shape.word(KINDS[shape.name]) for shape in SHAPES.shapes}

    def go_back(self, count: int) -> None:
        """Begins so many transactions in front of the checkpoint, as from a time."""
        had = [one.gtid for one in self._database.stream if self.at.contains(one.gtid)]
        earlier = GtidSet()
        for gtid in had[: max(0, len(had) - count)]:
            earlier = earlier.add(gtid)
        self._reached = self.at = earlier

    def step(self) -> None:
        """The stream gives transactions that touch something; the others it passes over, and a heartbeat is behind."""
        batch, at = self._batch(), self.at
        for one in self._database.stream:
            if self.at.contains(one.gtid):
                continue
            if one.changes():
                batch.add(at, at.add(one.gtid), one.gtid, one.touched())
                break
            at = at.add(one.gtid)
        else:
            batch.stand_at(at, at)
        try:
            self._apply(batch)
        except _CacheChangedError:
            self.start(Start.CHECKPOINT)
        else:
            self.at = batch.after or self.at


class Strata:
    """The cache that is right."""

    follows, reads = Follower, Cache

    def __init__(self, database: Database, server: Any) -> None:
        self.database, self.server = database, server
        self.acknowledged = GtidSet()
        self._cache = self.reads("redis://nowhere", "c", SHAPES, only_proven=True)
        self._cache.server = server
        self._followers: list[Follower | None] = [None, None]

    def _acknowledge(self, found: GtidSet) -> None:
        self.acknowledged |= found

    def read(self, key: Key, at_least: Any = None) -> CachedValue:
        return self._cache.read(key[0], key[1:], at_least=at_least)

    def get(self, key: Key, session: Any) -> bytes | None:
        load = partial(session.query, key)
        return self._cache.get(key[0], key[1:], load, connection=session.connection, wait_seconds=1)

    def fill(self, key: Key, value: bytes | None, token: Any) -> None:
        self._cache.fill(key[0], key[1:], value, token)

    def follower(self, number: int) -> Follower:
        found = self._followers[number]
        if found is None:
            found = self._followers[number] = self.follows(self.database, self.server, self._acknowledge)
        return found

    def step(self, number: int) -> None:
        self.follower(number).step()

    def crash(self, number: int) -> None:
        self._followers[number] = None

    def replay(self, number: int, count: int) -> None:
        self.follower(number).go_back(count)

    def fault(self, number: int) -> None:
        """The stream cannot tell what happened."""
        self.follower(number).start(Start.EPOCH)

    def evict(self, key: Key) -> None:
        self.server.evict(entry_key(CacheServer("redis://nowhere", "c").state_key, key[0], json.dumps([key[1]])))

    def evict_state(self) -> None:
        self.server.evict(self.server.state_key)


class Machine(RuleBasedStateMachine):
    """All that can happen."""

    make: ClassVar[Any]
    """A cache over a database."""

    def __init__(self) -> None:
        super().__init__()
        self.database = Database()
        self.cache = type(self).make(self.database)
        self.readers: list[dict[str, Any]] = []
        self.copies: list[Any] = []
        self.sessions: list[Any] = []
        # Most of the time there is an invalidator; without one nothing is served.
        for _ in range(2):
            self.cache.step(0)

    def teardown(self) -> None:
        for session in self.sessions:
            session.close()
        getattr(self.cache.server, "close", lambda: None)()

    def check(self, found: CachedValue, key: Key, wanted: GtidSet) -> None:
        missing = self.database.lacks(found.value, key, wanted) if found.is_hit else []
        if missing:
            raise StaleServed(f"{key}: {found.value!r} lacks {missing}")

    # The database -----------------------------------------------------------------------------------

    @rule(row=ROWS, customer=CUSTOMERS, table=st.sampled_from("oooccx"), visible=st.sampled_from([True, True, False]))
    def write(self, row: int, customer: int | None, table: str, visible: bool) -> None:
        """If it is not visible, the stream has it before a read sees it. Table x is behind no shape."""
        self.database.write(table, row, customer)
        if visible:
            self.database.commit()

    @rule(what=st.sampled_from(["commit", "replicate", "fail_over"]))
    def in_database(self, what: str) -> None:
        getattr(self.database, what)()

    # Readers ------------------------------------------------------------------------------------------

    @rule(key=KEYS, server=SERVERS)
    def read(self, key: Key, server: int) -> None:
        found = self.cache.read(key)
        self.check(found, key, self.cache.acknowledged)
        if not found.is_hit:
            value = self.database.query(server, key)
            self.readers.append({"key": key, "server": server, "token": self.database.token(server), "value": value})

    @rule(key=KEYS, server=SERVERS)
    def read_and_fill(self, key: Key, server: int) -> None:
        found = self.cache.read(key)
        self.check(found, key, self.cache.acknowledged)
        if not found.is_hit:
            self.cache.fill(key, self.database.query(server, key), self.database.token(server))

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def query_later(self, data: st.DataObject) -> None:
        reader = data.draw(st.sampled_from(self.readers))
        reader["value"] = self.database.query(reader["server"], reader["key"])

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def fill(self, data: st.DataObject) -> None:
        reader = self.readers.pop(data.draw(st.integers(0, len(self.readers) - 1)))
        self.cache.fill(reader["key"], reader["value"], reader["token"])

    # Invalidators -------------------------------------------------------------------------------------

    @rule(number=SERVERS)
    def invalidate(self, number: int) -> None:
        self.cache.step(number)

    @rule()
    def invalidate_all(self) -> None:
        for _ in range(len(self.database.stream) + 4):
            self.cache.step(0)
        self.check_caught_up(self.database.set_of(len(self.database.stream)))

    def check_caught_up(self, executed: GtidSet) -> None:
        if not executed <= self.cache.acknowledged:
            raise NotCaughtUp(f"{executed - self.cache.acknowledged} is not invalidated")

    @rule(number=SERVERS, what=st.sampled_from(["crash", "replay", "fault"]), count=st.integers(1, 3))
    def in_invalidator(self, number: int, what: str, count: int) -> None:
        getattr(self.cache, what)(number, *([count] if what == "replay" else []))

    # The cache ----------------------------------------------------------------------------------------

    @rule(key=KEYS)
    def evict(self, key: Key) -> None:
        self.cache.evict(key)

    @rule(what=st.sampled_from(["copy", "promote", "evict_state", "flush", "clock_jump"]))
    def in_cache(self, what: str) -> None:
        server = self.cache.server
        if what == "copy":
            self.copies = [server.copied()]
        elif what == "promote":
            server.promote(self.copies[-1] if self.copies else server.copied())
        elif what == "evict_state":
            self.cache.evict_state()
        else:
            getattr(server, {"flush": "flush", "clock_jump": "expire"}[what])()


class OwnWrites(Machine):
    """The same, with readers that want to see what has been written, and that read through the cache."""

    @rule(key=KEYS)
    def read_own(self, key: Key) -> None:
        token = self.database.token(self.database.primary)
        self.check(self.cache.read(key, at_least=token), key, token.positions[0].executed())

    @rule(server=SERVERS)
    def open_snapshot(self, server: int) -> None:
        """A session that has begun to read, and has not ended its transaction."""
        session = self.database.session(server)
        session.open_snapshot()
        self.sessions.append(session)

    @rule(key=KEYS, server=SERVERS, has_snapshot=st.sampled_from([False, False, True]), catches_up=st.booleans())
    def get(self, key: Key, server: int, has_snapshot: bool, catches_up: bool) -> None:
        """Whatever a reader gets holds what was acknowledged before, of the cache or of a server that lags."""
        session = self.sessions[-1] if has_snapshot and self.sessions else self.database.session(server)
        session.catches_up = catches_up
        acknowledged = self.cache.acknowledged
        try:
            value = self.cache.get(key, session)
        except (Usage, SourceUnavailableError, CacheUnavailableError):
            pass
        else:
            self.check(CachedValue("hit", value), key, acknowledged)
        if session not in self.sessions:
            session.close()
