"""The model of the scripts, and readers and invalidators, with one rule left out each: what the machine has to find, or
the rule is not needed. Not here: the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strata_cdc import tokens
from strata_cdc.cache.reader import Cache
from strata_cdc.cache.touched import InvalidationBatch
from tests.cache.machine import Follower, NotCaughtUp, StaleServed, Strata
from tests.cache.model import ModelServer

if TYPE_CHECKING:
    from tests.cache.database import Session


class FillsWhatIsAbsent(ModelServer):
    """An entry that was evicted takes any fill."""

    def fill(self, entries: list[str], arguments: list[str]) -> list[Any]:
        if entries[0] not in self.entries and self.state:
            arguments = [*arguments[:3], self.state["checkpoint"], *arguments[4:]]
        return super().fill(entries, arguments)


class FillsOverMarks(ModelServer):
    """A mark is as little as nothing, and the checkpoint is not asked either."""

    def fill(self, entries: list[str], arguments: list[str]) -> list[Any]:
        if "value" not in self.entries.get(entries[0], {"value": 0}):
            self.entries[entries[0]]["token"] = ""
        return super().fill(entries, arguments)


class KeepsAllValues(ModelServer):
    """An invalidation takes each value for fresh enough."""

    def invalidate(self, entries: list[str], arguments: list[str]) -> list[Any]:
        values = {key: dict(entry) for key, entry in self.entries.items() if "value" in entry}
        found = super().invalidate(entries, arguments)
        if found[0] == "done":
            self.entries |= values
        return found


MUTANTS = [FillsOverMarks, FillsWhatIsAbsent, KeepsAllValues]


class Impatient(Strata):
    """Gives what a server has that lags."""

    class reads(Cache):  # noqa: N801  what the right one calls it
        def _token_with(self, connection: Any, *_: Any) -> Any:
            return tokens.include(connection, source="s")


class TrustsSnapshots(Strata):
    """Asks nobody whether a transaction is open."""

    def get(self, key: Any, session: Session) -> bytes | None:
        session.is_refused = False
        return super().get(key, session)


class StopsAtForeignTraffic(Strata):
    """Begins each step at what it touches."""

    class follows(Follower):  # noqa: N801  as above
        def _batch(self) -> InvalidationBatch:
            return InvalidationBatch(self._cache.state_key)


CACHES = [(Impatient, StaleServed), (TrustsSnapshots, StaleServed), (StopsAtForeignTraffic, NotCaughtUp)]
