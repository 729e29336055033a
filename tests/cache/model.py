"""The scripts of caches in plain Python, as the second witness of what they do, and servers of caches that machines
break at will: the model, a real one, both side by side.
Not here: what is asked of them (`machine.py`)."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from strata_cdc.cache.server import CacheServer, CacheState
from strata_cdc.position.executed import parse_executed

if TYPE_CHECKING:
    from tests.redis_server import RedisServer

NAME = "c"


def within(inner: str, outer: str) -> bool:
    return parse_executed(inner) <= parse_executed(outer)


class ModelServer:
    """What a `CacheServer` is to its users, in memory."""

    state_key = f"strata:{{{NAME}}}"
    shown = "the model"

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}
        self.entries: dict[str, dict[str, Any]] = {}
        self.here = 1

    def run(self, name: str, entries: Any = (), arguments: Any = ()) -> list[Any]:
        found = getattr(self, name)(list(entries), [str(one) if isinstance(one, int) else one for one in arguments])
        return [one.encode() if isinstance(one, str) else one for one in found]

    def look(self) -> CacheState | None:
        state = self.state
        if not state:
            return None
        shapes = {name.removeprefix("shape:"): word for name, word in state.items() if name.startswith("shape:")}
        checkpoint = parse_executed(state["checkpoint"])
        is_here = state["server"] == self.here
        return CacheState(state["history"], state["epoch"], checkpoint, state["owner"], is_here, True, shapes, {}, 0, 0)

    def begin(self, _: list[str], arguments: list[str]) -> list[Any]:
        expected, history, epoch, checkpoint, owner, _log = arguments
        if self.state.get("checkpoint", "") != expected:
            return ["overtaken"]
        self.state = {"history": history, "epoch": epoch, "checkpoint": checkpoint, "owner": owner}
        self.state |= {"server": self.here, "at": 0}
        return ["done"]

    def claim(self, _: list[str], arguments: list[str]) -> list[Any]:
        assert self.state["owner"] == arguments[0]
        return ["done"]

    def invalidate(self, entries: list[str], arguments: list[str]) -> list[Any]:
        if not self.state:
            return ["lost"]
        if self.state["checkpoint"] != arguments[0]:
            return ["overtaken", self.state["checkpoint"]]
        at = 6 + int(arguments[5])
        for name in arguments[6:at]:
            self._close(name)
        words = arguments[at + 1 : at + 1 + 2 * int(arguments[at])]
        for name, word in zip(words[::2], words[1::2], strict=True):
            if self.state.get(f"shape:{name}", "") != word:
                self._close(name)
                self.state[f"shape:{name}"] = word
        dropped = kept = 0
        for key, gtids in zip(entries, arguments[at + 1 + len(words) :], strict=True):
            entry = self.entries.get(key)
            if entry is None:
                continue
            if entry["epoch"] != self.state["epoch"]:
                del self.entries[key]
            elif "value" in entry and within(gtids, entry["token"]):
                kept += 1
            else:
                dropped += entry.pop("value", None) is not None
                entry["token"], entry["expires"] = arguments[1], True
        self.state["checkpoint"] = arguments[1]
        if arguments[3] == "1":
            self.state["server"] = self.here
        return ["done", int(self.state["server"] == self.here), dropped, kept]

    def _close(self, name: str) -> None:
        self.state["at"] += 1
        self.state[f"since:{name}"] = self.state["at"]

    def _open(self, key: str, arguments: list[str]) -> tuple[str, dict[str, Any] | None]:
        state, shape = self.state, arguments[1]
        if not state:
            return "cold", None
        if state["history"] != arguments[0]:
            return "history", None
        if state["server"] != self.here:
            return "moved", None
        if state.get(f"shape:{shape}") != arguments[2]:
            return "shape", None
        entry = self.entries.get(key)
        live = entry and entry["epoch"] == state["epoch"] and entry["at"] >= state.get(f"since:{shape}", 0)
        return "", entry if live else None

    def read(self, entries: list[str], arguments: list[str]) -> list[Any]:
        why, entry = self._open(entries[0], arguments)
        if why:
            return [why, self.state["checkpoint"] if why in ("moved", "shape") else ""]
        wanted, checkpoint = arguments[3], self.state["checkpoint"]
        if entry is not None:
            if "value" in entry and (within(wanted, entry["token"]) or within(wanted, checkpoint)):
                return ["hit", entry["value"], entry["token"]]
            return ["miss", entry["token"]]
        self.entries[entries[0]] = {
            "epoch": self.state["epoch"],
            "at": self.state["at"],
            "token": checkpoint,
            "expires": True,
        }
        return ["miss", checkpoint]

    def fill(self, entries: list[str], arguments: list[str]) -> list[Any]:
        why, entry = self._open(entries[0], arguments)
        if why:
            return [why]
        needed = entry["token"] if entry else self.state["checkpoint"]
        if not within(needed, arguments[3]):
            return ["older", needed]
        self.entries[entries[0]] = {
            "epoch": self.state["epoch"],
            "at": self.state["at"],
            "token": arguments[3],
            "value": arguments[4],
        }
        return ["filled"]

    # Faults ---------------------------------------------------------------------------------------

    def evict(self, key: str) -> None:
        if key == self.state_key:
            self.state = {}
        self.entries.pop(key, None)

    def expire(self) -> None:
        """A clock jumps: all that has a time is over."""
        self.entries = {key: entry for key, entry in self.entries.items() if not entry.get("expires")}

    def flush(self) -> None:
        self.state, self.entries = {}, {}

    def copied(self) -> Any:
        return copy.deepcopy((self.state, self.entries))

    def promote(self, copied: Any) -> None:
        """A replica that is where the copy was made takes over."""
        self.state, self.entries = copy.deepcopy(copied)
        self.here += 1


class RealServer(CacheServer):
    """A real one; a replica that was promoted is the copy of all keys, under another replication ID."""

    def __init__(self, server: RedisServer) -> None:
        super().__init__(server.url, NAME)
        self._faults = server.client()
        self._faults.flushall()

    def evict(self, key: str) -> None:
        self._faults.delete(key)

    def expire(self) -> None:
        for key in self._faults.scan_iter("*"):
            if self._faults.ttl(key) >= 0:
                self._faults.delete(key)

    def flush(self) -> None:
        self._faults.flushall()

    def copied(self) -> Any:
        return [(key, self._faults.pttl(key), self._faults.dump(key)) for key in self._faults.scan_iter("*")]

    def promote(self, copied: Any) -> None:
        self._faults.flushall()
        for key, milliseconds, data in copied:
            self._faults.restore(key, max(0, milliseconds), data)
        self._faults.execute_command("DEBUG", "CHANGE-REPL-ID")

    def close(self) -> None:
        super().close()
        self._faults.close()


class BothServers:
    """The model beside a real one, which have to agree in each answer."""

    state_key, shown = ModelServer.state_key, "both"

    def __init__(self, real: RealServer) -> None:
        self._real, self._model = real, ModelServer()

    def run(self, name: str, entries: Any = (), arguments: Any = ()) -> list[Any]:
        real = self._real.run(name, entries, arguments)
        assert self._model.run(name, entries, arguments) == real
        return real

    def look(self) -> CacheState | None:
        real = self._real.look()
        model = self._model.look()
        assert (real and (real.epoch, real.checkpoint, real.is_here, real.shapes)) == (
            model and (model.epoch, model.checkpoint, model.is_here, model.shapes)
        )
        return real

    def copied(self) -> Any:
        return self._real.copied(), self._model.copied()

    def promote(self, copied: Any) -> None:
        self._real.promote(copied[0])
        self._model.promote(copied[1])

    def evict(self, key: str) -> None:
        self._real.evict(key)
        self._model.evict(key)

    def expire(self) -> None:
        self._real.expire()
        self._model.expire()

    def flush(self) -> None:
        self._real.flush()
        self._model.flush()

    def close(self) -> None:
        self._real.close()
