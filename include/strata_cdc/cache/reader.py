"""Reading through a cache: a value that is there, or the query's own result, which fills the cache if it is provably as
fresh as all that has been invalidated.
Not here: what is cached (`shapes.py`), what makes entries go (`invalidator.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from strata_cdc import tokens
from strata_cdc.cache.keys import key_text, kinds_of
from strata_cdc.cache.server import TIMEOUT_SECONDS, CacheServer, set_text
from strata_cdc.cache.shapes import ANY_KINDS, entry_key
from strata_cdc.errors import CacheUnavailableError, SourceUnavailableError, Usage
from strata_cdc.position.executed import NOTHING, is_executed, parse_executed
from strata_cdc.position.token import Token

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strata_cdc.cache.shapes import Shapes
    from strata_cdc.position.port import Executed
    from strata_cdc.position.source_position import SourcePosition
    from strata_cdc.tokens.queries import Connection

MARK_SECONDS: Final = 60
"""How long a mark stays. One that has gone costs a fill, and nothing else."""


class CachedValue(Struct, frozen=True):
    """What the cache has of a key."""

    outcome: str
    """`hit` or `miss`; else why nothing is read or filled: `cold`, `moved`, `history`, `shape`, `format`."""
    value: bytes | None = None
    """Of a hit; None: it is known that there is nothing."""
    token: str = ""
    """GTID set that the value holds; of a miss that a fill has to hold; of `shape` and `moved` what was invalidated."""

    @property
    def is_proof(self) -> bool:
        """Whether the token has all acknowledged invalidations of the key: with it nothing is too old. The state of
        a cache that was moved may lack some."""
        return self.outcome in ("hit", "miss", "shape")

    @property
    def is_hit(self) -> bool:
        """Whether there is an answer."""
        return self.outcome == "hit"


class Counts(Struct):
    """What a reader has met."""

    hits: int = 0
    misses: int = 0
    filled: int = 0
    refused: int = 0
    """Values that were not provably fresh enough to be kept."""
    without: int = 0
    """Reads while the cache did not answer, or nobody served the shape."""


class Cache:
    """A cache as an application reads it. Several threads may share it, each with its own connection to MySQL.

    Nothing is served that is older than an acknowledged invalidation of its key; docs/caches.md has the conditions.
    """

    def __init__(
        self,
        url: str,
        name: str,
        shapes: Shapes,
        *,
        expire_seconds: float | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        only_proven: bool = False,
    ) -> None:
        """Nothing is opened yet.

        Args:
            url: Of the Redis or Valkey.
            name: Of the cache.
            shapes: As its invalidator has them.
            expire_seconds: How long values stay; None: until they are invalidated, or evicted.
            timeout_seconds: For each answer of the cache; what takes longer is read from MySQL.
            only_proven: Whether `get` fails where the cache does not know what has been invalidated: it does not
                answer, has forgotten all, or was moved. Else it gives what MySQL has, which on a replica may be older.
        """
        self.server = CacheServer(url, name, timeout_seconds=timeout_seconds)
        self.shapes, self._expire, self._only_proven = shapes, expire_seconds, only_proven
        self.counts = Counts()

    def get(
        self,
        shape: str,
        key: Sequence[Any],
        load: Callable[[], bytes | None],
        *,
        connection: Connection,
        at_least: Token | None = None,
        wait_seconds: float = 1.0,
    ) -> bytes | None:
        """The value of a key: of the cache, or what `load` returns once the server has executed what was invalidated.

        Args:
            shape: Name of the shape.
            key: The values of its columns, typed as they are: int, Decimal, str, bytes, date.
            load: Queries MySQL, on `connection`; None means that there is nothing, which is cached, too.
            connection: To a primary or a replica, with no transaction open.
            at_least: What the answer has to hold, as the token of the caller's own commit (`strata_cdc.tokens.own`).
            wait_seconds: How long a replica may take to have it, and what has been invalidated.

        Raises:
            Usage: A value can be no key; the token is of another source; a transaction is open.
            SourceUnavailableError: The server does not receive what is required, or what was invalidated, in time.
            CacheUnavailableError: The cache does not know what was invalidated, and only proven values are wanted.
        """
        entry = self._peek(shape, key, at_least)
        if entry is not None and entry.is_hit:
            self.counts.hits += 1
            return entry.value
        self.counts.misses += 1
        if self._only_proven and (entry is None or not entry.is_proof):
            raise CacheUnavailableError(
                "the cache cannot say what has been invalidated" + (f": {entry.outcome}" if entry else ""),
                remedy="It can once `strata cache follow` has caught up.",
            )
        needed = parse_executed(entry.token) if entry is not None else NOTHING
        if at_least is not None:
            needed |= self._executed(at_least)
        # Before the query: what is read next is at least as fresh.
        token = self._token_with(connection, needed, wait_seconds)
        value = load()
        if entry is not None and entry.outcome == "miss":
            self._keep(shape, key, value, token)
        else:
            self.counts.without += 1
        return value

    def _token_with(self, connection: Connection, needed: Executed, wait_seconds: float) -> Token:
        """What the server has executed, once that holds what is needed."""
        source, lineage = self.shapes.source, self.shapes.lineage
        token = tokens.include(connection, source=source, lineage=lineage)
        if needed <= self._position(token):
            return token
        if not tokens.wait(connection, Token.of(source, needed, lineage=lineage), wait_seconds, source=source):
            raise SourceUnavailableError(
                f"the server has not executed what is required, or was invalidated, within {wait_seconds} s",
                source=source,
                remedy="A replica lags: wait longer, or ask another server.",
            )
        return tokens.include(connection, source=source, lineage=lineage)

    def read(self, shape: str, key: Sequence[Any], *, at_least: Token | None = None) -> CachedValue:
        """What the cache has. A miss leaves a mark there, which shows whether a fill came too late.

        Raises:
            Usage: As for `get`.
            CacheUnavailableError: It does not answer.
            CacheRefusedError: It will not.
        """
        entry, word = self._entry(shape, key)
        wanted = "" if at_least is None else set_text(self._executed(at_least))
        arguments: list[str | bytes | int] = [self.shapes.history, shape, word, wanted, MARK_SECONDS * 1000]
        answer = self.server.run("read", [entry], arguments)
        status = answer[0].decode()
        if status == "hit":
            return CachedValue(status, answer[1][1:] if answer[1][:1] == b"V" else None, answer[2].decode())
        return CachedValue(status, None, answer[1].decode())

    def fill(self, shape: str, key: Sequence[Any], value: bytes | None, token: Token) -> str:
        """Puts a value in, if it is provably at least as fresh as what has been invalidated and what is there.

        Args:
            shape: Name of the shape.
            key: As for `get`.
            value: None: there is nothing.
            token: Of `strata_cdc.tokens.include`, taken before the query on the same connection: a token that
                somebody else has brought is no proof.

        Returns:
            `filled`, `older`, or why nothing is filled, as `CachedValue.outcome`.

        Raises:
            Usage: As for `get`.
            CacheUnavailableError: It does not answer, or is full.
            CacheRefusedError: It will not.
        """
        entry, word = self._entry(shape, key)
        stored = b"N" if value is None else b"V" + value
        milliseconds = 0 if self._expire is None else max(1, int(self._expire * 1000))
        position = set_text(self._position(token))
        arguments: list[str | bytes | int] = [self.shapes.history, shape, word, position, stored, milliseconds]
        return str(self.server.run("fill", [entry], arguments)[0].decode())

    def close(self) -> None:
        """Closes its connections."""
        self.server.close()

    def _peek(self, shape: str, key: Sequence[Any], at_least: Token | None) -> CachedValue | None:
        try:
            return self.read(shape, key, at_least=at_least)
        except CacheUnavailableError:
            return None

    def _keep(self, shape: str, key: Sequence[Any], value: bytes | None, token: Token) -> None:
        try:
            fill = self.fill(shape, key, value, token)
        except CacheUnavailableError:
            return
        if fill == "filled":
            self.counts.filled += 1
        else:
            self.counts.refused += 1

    def _entry(self, name: str, key: Sequence[Any]) -> tuple[str, str]:
        """Key of the entry, and the shape's word."""
        shape = self.shapes.named(name)
        requested_kinds = kinds_of(key)
        widths = {len(columns) for columns in shape.tables.values() if columns}
        if widths and widths != {len(key)}:
            raise Usage(f"a key of shape {name} has {widths.pop()} values, and {len(key)} are given")
        kinds = requested_kinds if widths else ANY_KINDS
        return entry_key(self.server.state_key, name, key_text(key, requested_kinds)), shape.word(kinds)

    def _executed(self, token: Token) -> Executed:
        """All that a token asks for: of transactions of which it has a part, the whole."""
        return self._source_position(token).executed() or NOTHING

    def _position(self, token: Token) -> Executed:
        """What a token promises: no transaction of which it has only a part."""
        position = self._source_position(token).position
        return position if is_executed(position) else NOTHING

    def _source_position(self, token: Token) -> SourcePosition:
        for position in token.positions:
            mine = (position.source, position.lineage) == (self.shapes.source, self.shapes.lineage)
            if mine and is_executed(position.position):
                return position
        raise Usage(
            f"the token is not one of GTIDs of {self.shapes.source} with lineage {self.shapes.lineage!r}",
            source=self.shapes.source,
            remedy="Give `source` and `lineage` where the token is made. Servers without GTIDs have no caches.",
        )
