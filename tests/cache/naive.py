"""Caches as they are often made: values that expire and nothing else, and values that are deleted when a row changes.
The machine has to find what is wrong with both. Not here: the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strata_cdc.cache.reader import CachedValue
from strata_cdc.position.sets import GtidSet

if TYPE_CHECKING:
    from tests.cache.database import Database, Key


class Values:
    """A server that keeps values by key, with a time or without."""

    def __init__(self, client: Any = None) -> None:
        self.client = client
        self.values: dict[str, bytes] = {}
        if client is not None:
            client.flushall()

    def get(self, key: str) -> bytes | None:
        return self.values.get(key) if self.client is None else self.client.get(key)

    def set(self, key: str, value: bytes) -> None:
        if self.client is None:
            self.values[key] = value
        else:
            self.client.set(key, value, ex=60)

    def delete(self, key: str) -> None:
        if self.client is None:
            self.values.pop(key, None)
        else:
            self.client.delete(key)

    def flush(self) -> None:
        self.values.clear()
        if self.client is not None:
            self.client.flushall()

    expire = flush

    def copied(self) -> Any:
        if self.client is None:
            return dict(self.values)
        return {key.decode(): self.client.get(key) for key in self.client.scan_iter("*")}

    def promote(self, copied: Any) -> None:
        self.flush()
        for key, value in copied.items():
            self.set(key, value)

    def close(self) -> None:
        if self.client is not None:
            self.client.close()


class ExpiryOnly:
    """Values stay until their time is over; that a row has changed is nothing to it."""

    def __init__(self, database: Database, server: Values) -> None:
        self.database, self.server = database, server
        self.acknowledged = GtidSet()
        self._done = 0

    def read(self, key: Key, at_least: Any = None) -> CachedValue:
        found = self.server.get(str(key))
        return CachedValue("miss") if found is None else CachedValue("hit", found[1:] if found[:1] == b"V" else None)

    def fill(self, key: Key, value: bytes | None, token: Any) -> None:
        self.server.set(str(key), b"N" if value is None else b"V" + value)

    def step(self, number: int) -> None:
        if self._done < len(self.database.stream):
            self.invalidate(self.database.stream[self._done])
            self._done += 1
            self.acknowledged = self.database.set_of(self._done)

    def invalidate(self, write: Any) -> None:
        """There is none."""

    def crash(self, number: int) -> None:
        """Where it was is stored elsewhere."""

    def replay(self, number: int, count: int) -> None:
        self._done = max(0, self._done - count)

    def fault(self, number: int) -> None:
        self.server.flush()

    def evict(self, key: Key) -> None:
        self.server.delete(str(key))

    def evict_state(self) -> None:
        """There is none."""


class DeleteOnly(ExpiryOnly):
    """The row changes, the key is deleted: whoever fills it then may have read before."""

    def invalidate(self, write: Any) -> None:
        for key in write.changes():
            self.server.delete(str(key))
