"""The server of a cache: its scripts, each of which is atomic, and what they answer; its faults as errors of ours.
Not here: when which script runs (`reader.py`, `invalidator.py`), the scripts themselves (`lua/`)."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from msgspec import Struct

from strata_cdc.cache.client import CacheClient
from strata_cdc.cache.shapes import state_key
from strata_cdc.errors import CacheRefusedError, CacheUnavailableError, Usage
from strata_cdc.position.executed import parse_executed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strata_cdc.cache.client import Node
    from strata_cdc.position.port import Executed

_LUA: Final = Path(__file__).with_name("lua")
_PARTS: Final = {
    "look": ("state",),
    "begin": ("state",),
    "claim": ("state",),
    "invalidate": ("gtids", "state"),
    "read": ("gtids", "state", "entry"),
    "fill": ("gtids", "state", "entry"),
}
_LOGGING: Final = ("begin", "claim", "invalidate", "fill")
"""Scripts that write to the log, which is their last key: while a slot migrates, a script that names all of its keys is
refused before it has done anything, and else in its midst (Redis 7.0, src/script.c, scriptVerifyClusterState)."""
FORMAT: Final = 2
"""Of the state, as `lua/state.lua` writes it; in form 1 keys of long decimals and of years had other texts."""
_EXACT: Final = 1 << 53
"""Numbers of Lua are exact up to here."""
_SECRET: Final = re.compile(r"//[^/@\s]*@")
_PASSING: Final = ("BUSY", "NOREPLICAS", "MISCONF")
"""How errors begin that a server answers with which is busy or without its replicas, or cannot save."""
TIMEOUT_SECONDS: Final = 5.0


class CacheState(Struct, frozen=True):
    """The state of a cache."""

    history: str
    epoch: str
    checkpoint: Executed
    owner: str
    is_here: bool
    """Whether an invalidator has caught up with this very server; else nothing is read from it."""
    is_current: bool
    """Whether its form is the one that is written now; of an older one keys may have had other texts."""
    shapes: dict[str, str]
    """Those that are served, with their words."""
    since: dict[str, int]
    """By shape, since when entries count: their `at`."""
    log: int
    records: int


@cache
def script(name: str) -> str:
    """The text of a script. None declares that it does not write: so replicas refuse all of them, and so does a primary
    that has lost its replicas, if `min-replicas-to-write` is set (Redis 7.0, src/script.c, scriptPrepareForRun)."""
    # A full cache still reads and invalidates; it takes no values.
    flags = "" if name == "fill" else " flags=allow-oom"
    parts = [(_LUA / f"{part}.lua").read_text() for part in (*_PARTS[name], name)]
    return f"#!lua{flags}\n" + "\n".join(parts)


@cache
def _digest(name: str) -> str:
    return hashlib.sha1(script(name).encode(), usedforsecurity=False).hexdigest()


class CacheServer:
    """One cache, by its name, on a Redis or Valkey. May be used by several threads."""

    def __init__(self, url: str, name: str, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        """Nothing is opened yet.

        Args:
            url: `redis://[user:password@]host:port/[database]`, `rediss://` with TLS, or `unix://`.
            name: Of the cache: several may be on one server.
            timeout_seconds: For each answer.

        Raises:
            Usage: The URL or the name is not valid.
            ModuleNotFoundError: The client is not installed (the extra `cache`).
        """
        import redis  # noqa: PLC0415  an extra: caches only need it

        self._redis = redis
        self.state_key = state_key(name)
        self.log_key = f"{self.state_key}:log"
        try:
            self._client = CacheClient(redis, url, timeout_seconds)
        except ValueError:
            # Its message may have the URL.
            raise Usage(
                "the URL of the cache is none, or has an option that redis-py does not know",
                remedy="Write redis://[user:password@]host:port/[database].",
            ) from None
        self.shown = _shown(url)

    def close(self) -> None:
        """Closes its connections."""
        self._client.close()

    def command(self, *words: Any, node: Node | None = None) -> Any:
        """Runs a command, in a cluster where its key is or else on a node of it; faults are errors of ours.

        Raises:
            CacheUnavailableError: It does not answer, or cannot just now.
            CacheRefusedError: It will not.
        """
        try:
            return self._client.run(words) if node is None else self._client.run_at(node, words)
        except self._redis.exceptions.NoScriptError:
            raise
        except (self._redis.exceptions.RedisError, OSError) as error:
            raise self._fault(error) from None

    def _fault(self, error: Exception) -> CacheRefusedError | CacheUnavailableError:
        errors = self._redis.exceptions
        if isinstance(error, (errors.AuthenticationError, errors.NoPermissionError)):
            remedy = _GRANTS if isinstance(error, errors.NoPermissionError) else _LOGIN
            return CacheRefusedError(f"the cache at {self.shown} does not let us in: {_plain(error)}", remedy=remedy)
        if isinstance(error, errors.ReadOnlyError):
            # For a while only, after another server was promoted.
            return CacheUnavailableError(
                f"the cache at {self.shown} is a replica: {_plain(error)}",
                remedy="Give the URL of its primary: readers and invalidators write there.",
            )
        if isinstance(error, (errors.ClusterDownError, errors.TryAgainError)):
            # The client has cut off the words CLUSTERDOWN, MASTERDOWN and TRYAGAIN.
            return self._passing(str(error))
        if isinstance(error, errors.AskError):
            # Its slot migrates, or its nodes do not agree, or the URL is a socket.
            return CacheUnavailableError(
                f"the cache at {self.shown} moves to another node of its cluster: {_plain(error)}",
                remedy="Give the URL of a node with its host and port.",
            )
        if isinstance(error, errors.ResponseError):
            return self._refused(str(error))
        return CacheUnavailableError(f"the cache at {self.shown} does not answer: {_plain(error)}")

    def _refused(self, text: str) -> CacheRefusedError | CacheUnavailableError:
        if "maxmemory" in text or text.startswith(_PASSING):
            return self._passing(text)
        return CacheRefusedError(
            f"the cache at {self.shown} refuses: {_SECRET.sub('//', text)}",
            remedy="Caches need a Redis 7 or newer, or a Valkey, that runs scripts.",
        )

    def _passing(self, text: str) -> CacheUnavailableError:
        return CacheUnavailableError(f"the cache at {self.shown} cannot just now: {_SECRET.sub('//', text)}")

    def run(self, name: str, entries: Sequence[str] = (), arguments: Sequence[str | bytes | int] = ()) -> list[Any]:
        """Runs one of the scripts. Raises as `command` does."""
        keys = [self.state_key, *entries, *([self.log_key] if name in _LOGGING else [])]
        try:
            return list(self.command("EVALSHA", _digest(name), len(keys), *keys, *arguments))
        except self._redis.exceptions.NoScriptError:
            return list(self.command("EVAL", script(name), len(keys), *keys, *arguments))

    # What invalidators ask ------------------------------------------------------------------------

    def look(self) -> CacheState | None:
        """The state of the cache; None if it knows nothing. Raises as `command` does."""
        here, flat = self.run("look")
        fields = {key.decode(): value.decode() for key, value in zip(flat[::2], flat[1::2], strict=True)}
        if "checkpoint" not in fields:
            return None
        if int(fields["format"]) > FORMAT:
            raise CacheRefusedError(
                f"the cache at {self.shown} has form {fields['format']}", remedy="Use a newer version of Strata."
            )
        shapes = {key.removeprefix("shape:"): word for key, word in fields.items() if key.startswith("shape:")}
        return CacheState(
            fields["history"],
            fields["epoch"],
            parse_executed(fields["checkpoint"]),
            fields["owner"],
            fields["server"] == here.decode(),
            int(fields["format"]) == FORMAT,
            shapes,
            {key.removeprefix("since:"): int(at) for key, at in fields.items() if key.startswith("since:")},
            int(fields["log"]),
            int(fields["records"]),
        )

    def log(self) -> Iterator[dict[str, str]]:
        """The records that the log still has, oldest first. Raises as `command` does."""
        after = "-"
        while True:
            records = self.command("XRANGE", self.log_key, after, "+", "COUNT", 1000)
            for at, flat in records:
                plain = [word.decode() for word in (_flat(flat))]
                yield dict(zip(plain[::2], plain[1::2], strict=True))
                after = f"({at.decode()}"
            if len(records) < 1000:
                return

    def values(self) -> Iterator[tuple[str, dict[str, bytes]]]:
        """The entries that have a value, with their fields.

        Raises:
            CacheUnavailableError: It does not answer; or its slot went to another node of the cluster meanwhile, so
                that entries may be missing.
            CacheRefusedError: It will not.
        """
        self.look()
        node, cursor = self._client.node(), 0
        while True:
            pattern = _glob(self.state_key) + ":*:*"
            cursor, keys = self.command("SCAN", cursor, "MATCH", pattern, "COUNT", 500, "TYPE", "hash", node=node)
            for key in keys:
                values = self.command("HMGET", key, "epoch", "at", "token", "value")
                if values[3] is not None:
                    names = ("epoch", "at", "token", "value")
                    yield key.decode(), dict(zip(names, values, strict=True))
            if int(cursor) == 0:
                break
        self.look()
        if self._client.node() != node:
            raise CacheUnavailableError(f"the cache at {self.shown} moved to another node while it was read")


def _flat(fields: Any) -> list[bytes]:
    if isinstance(fields, dict):
        return [part for pair in fields.items() for part in pair]
    return list(fields)


def _glob(text: str) -> str:
    return re.sub(r"([\[\]*?\\])", r"\\\1", text)


_GRANTS: Final = "The account needs +evalsha +eval +info +xadd +xrange +scan, hashes, and keys `strata:*`."
_LOGIN: Final = "Give its user and password in the URL: redis://user:password@host:port/database."


def _plain(error: Exception) -> str:
    return _SECRET.sub("//", str(error)).rstrip(".") or type(error).__name__


def _shown(url: str) -> str:
    """A URL without what is secret in it."""
    result = urlsplit(url)
    try:
        port = f":{result.port}" if result.port else ""
    except ValueError:
        port = ""
    return f"{result.scheme}://{result.hostname or ''}{port}{result.path}"


def set_text(gtids: Executed) -> str:
    """A position as the scripts compare it.

    Raises:
        Usage: A number is too large for them.
    """
    if gtids.largest() > _EXACT:
        raise Usage(f"the position has numbers above {_EXACT}, which a cache cannot compare", gtid=str(gtids))
    return str(gtids)
