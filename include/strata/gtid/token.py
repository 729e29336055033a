"""Event tokens: where one stream is, or several, as a value that compares four-valued and has a union.
Not here: the text form (`token_text.py`), GTID sets (`sets.py`), who makes tokens of what."""

from __future__ import annotations

from enum import StrEnum
from functools import reduce
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from strata.errors import IncomparableTokensError
from strata.gtid.position import BinlogPosition  # noqa: TC001  msgspec asks for it when it packs
from strata.gtid.sets import GtidSet

if TYPE_CHECKING:
    from collections.abc import Iterable


class Order(StrEnum):
    """How one token lies to another. It is a partial order: `UNKNOWN` says that neither holds all of the other."""

    BEFORE = "before"
    AFTER = "after"
    EQUAL = "equal"
    UNKNOWN = "unknown"


class FilePosition(Struct, frozen=True):
    """Where a server without GTIDs is: everything in front of an offset of its binlog."""

    server_uuid: str
    """Its files are its own: the same number on another server is another file."""
    at: BinlogPosition


class Place(Struct, frozen=True):
    """Where the stream of one source is."""

    source: str
    position: GtidSet | FilePosition
    """What has been executed."""
    lineage: str = ""
    """Names the history of the source. After `RESET BINARY LOGS AND GTIDS`, or when the source was built anew, the same
    numbers are other transactions: then it has to be another name. Places of two lineages never compare."""
    committed_at: int = 0
    """Commit time of the newest transaction (microseconds UTC); 0: not known. People read it; no comparison does."""

    def is_within(self, other: Place) -> bool:
        """Whether `other` has provably executed all of this: the same history, and it contains this position."""
        if not self._is_comparable(other):
            return False
        mine, its = self.position, other.position
        if isinstance(mine, GtidSet) and isinstance(its, GtidSet):
            return mine <= its
        if isinstance(mine, FilePosition) and isinstance(its, FilePosition):
            return mine.at <= its.at
        return False

    def union(self, other: Place) -> Place:
        """The least place that both are within.

        Raises:
            IncomparableTokensError: There is none: other histories, other servers' files, or a file and a GTID set.
        """
        if not self._is_comparable(other):
            raise IncomparableTokensError(
                f"tokens of two histories have no union: {self._history} and {other._history}",
                source=self.source,
                remedy="Keep the token of the history that goes on.",
            )
        mine, its = self.position, other.position
        position: GtidSet | FilePosition
        if isinstance(mine, GtidSet) and isinstance(its, GtidSet):
            position = mine | its
        else:
            position = self.position if other.is_within(self) else other.position
        return Place(self.source, position, self.lineage, max(self.committed_at, other.committed_at))

    def _is_comparable(self, other: Place) -> bool:
        return (self.source, self._history) == (other.source, other._history)

    @property
    def _history(self) -> str:
        """Equal for places whose positions count the same things."""
        numbered = (
            f"files of server {self.position.server_uuid}" if isinstance(self.position, FilePosition) else "GTIDs"
        )
        return f"{numbered}, lineage {self.lineage!r}"


class Token(Struct, frozen=True):
    """Where a stream is: a place for each of its sources; mostly there is one.

    A source that a token does not name is one of which it asks nothing: every token holds that. Tokens are equal as
    values (`==`) if their commit times are so, too; `compare` looks at sources, lineages and positions alone.
    """

    places: tuple[Place, ...]
    """One for each source, in the order of their names. Use `of` and `over` to make them so."""

    @classmethod
    def of(cls, source: str, position: GtidSet | FilePosition, *, lineage: str = "", committed_at: int = 0) -> Self:
        """A token of one source."""
        return cls((Place(source, position, lineage, committed_at),))

    @classmethod
    def over(cls, places: Iterable[Place]) -> Self:
        """The least token that holds all of these places, of any sources in any order.

        Raises:
            IncomparableTokensError: Two places of one source have no union.
        """
        found: dict[str, Place] = {}
        for place in places:
            known = found.get(place.source)
            found[place.source] = place if known is None else known.union(place)
        return cls(tuple(found[source] for source in sorted(found)))

    def compare(self, other: Token) -> Order:
        """Whether this token is before the other one, after it, equal to it, or neither.

        BEFORE: who has reached `other` has executed all that this token stands for, and more.
        """
        order = self._is_within(other), other._is_within(self)
        return {
            (True, True): Order.EQUAL,
            (True, False): Order.BEFORE,
            (False, True): Order.AFTER,
            (False, False): Order.UNKNOWN,
        }[order]

    def __or__(self, other: Token) -> Token:
        """The least token that is at or after both. Raises `IncomparableTokensError` if there is none."""
        return Token.over((*self.places, *other.places))

    def _is_within(self, other: Token) -> bool:
        its = {place.source: place for place in other.places}
        return all(place.source in its and place.is_within(its[place.source]) for place in self.places)


def merge(tokens: Iterable[Token]) -> Token:
    """The union of any number of tokens; of none it is the token of no source, which is before every other one.

    Raises:
        IncomparableTokensError: Two of them have no union.
    """
    return reduce(Token.__or__, tokens, Token(()))
