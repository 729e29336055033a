"""Event tokens: where one stream is, or several, as a value that compares four-valued and has a union.
Not here: the place of one source (`source_position.py`), the text form (`token_text.py`), who makes tokens of what."""

from __future__ import annotations

from enum import StrEnum
from functools import reduce
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from strata_cdc.position.file_position import FilePosition
from strata_cdc.position.source_position import Origin, SourcePosition, lineages_of
from strata_cdc.position.token_packed import packed_place
from strata_cdc.position.token_seal import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.position.port import Position


__all__ = ["FilePosition", "Order", "Origin", "SourcePosition", "Token", "merge"]
"""What those who make tokens need: places are among it."""


class Order(StrEnum):
    """How one token lies to another. It is a partial order: `UNKNOWN` says that neither holds all of the other."""

    BEFORE = "before"
    AFTER = "after"
    EQUAL = "equal"
    UNKNOWN = "unknown"


class Token(Struct, frozen=True):
    """Where a stream is: a place for each of its sources; mostly there is one.

    A source that a token does not name is one of which it asks nothing: every token holds that. Tokens are equal as
    values (`==`) if their commit times are so, too; `compare` looks at sources, lineages and positions alone.
    """

    places: tuple[SourcePosition, ...]
    """One for each source, in the order of their names. Use `of` and `over` to make them so."""

    def __str__(self) -> str:
        """The text that `from_text` (`token_text.py`) reads: about 75 characters for one server's GTIDs, 25 to 35 more
        for each further server, and 40 more for one that stands inside of a transaction."""
        return text_of([packed_place(place) for place in self.places])

    @classmethod
    def of(
        cls,
        source: str,
        position: Position,
        *,
        lineage: str = "",
        committed_at: int = 0,
        origins: Iterable[Origin] = (),
    ) -> Self:
        """A token of one source."""
        return cls((SourcePosition(source, position, lineage, committed_at, origins=lineages_of(origins)),))

    @classmethod
    def over(cls, places: Iterable[SourcePosition]) -> Self:
        """The least token that holds all of these places, of any sources in any order.

        Raises:
            IncomparableTokensError: Two places of one source have no union.
        """
        found: dict[str, SourcePosition] = {}
        for place in places:
            known = found.get(place.source)
            found[place.source] = place if known is None else known.union(place)
        return cls(tuple(found[source] for source in sorted(found)))

    def compare(self, other: Token, *, clock_bound: int | None = None) -> Order:
        """Whether this token is before the other one, after it, equal to it, or neither.

        BEFORE: who has reached `other` has executed all that this token stands for, and more.

        Args:
            other: The other one.
            clock_bound: By how much the clocks of two servers may differ (microseconds). Tokens that have no source in
                common, by copy neither, are then told apart by their commit times, where those are further apart. Such
                an answer is no part of the partial order: it may contradict what a third token says.
        """
        found = self._by_sets(other)
        if found is Order.UNKNOWN and clock_bound is not None and not self._shares_source(other):
            return self._by_clocks(other, clock_bound)
        return found

    def _by_sets(self, other: Token) -> Order:
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

    def _shares_source(self, other: Token) -> bool:
        return bool(self._sources() & other._sources())

    def _sources(self) -> set[str]:
        copied = {origin.source for place in self.places for origin in place.origins}
        return copied | {place.source for place in self.places}

    def _by_clocks(self, other: Token, bound: int) -> Order:
        mine, its = [place.committed_at for place in self.places], [place.committed_at for place in other.places]
        if not (all(mine) and all(its)):
            return Order.UNKNOWN
        if max(mine) + bound < min(its):
            return Order.BEFORE
        return Order.AFTER if max(its) + bound < min(mine) else Order.UNKNOWN

    def _is_within(self, other: Token) -> bool:
        reached = _Reached(other.places)
        reached.follow((*self.places, *other.places))
        return all(map(reached.holds, self.places))


class _Reached:
    """All that who is at some places provably holds, by copy too."""

    def __init__(self, places: Iterable[SourcePosition]) -> None:
        self._known: dict[tuple[str, str], SourcePosition] = {}
        for place in places:
            self._learn(place)

    def _learn(self, place: SourcePosition) -> None:
        known = self._known.get(place.history)
        self._known[place.history] = place if known is None else known.union(place)

    def holds(self, place: SourcePosition) -> bool:
        known = self._known.get(place.history)
        return known is not None and place.is_within(known)

    def follow(self, places: Iterable[SourcePosition]) -> None:
        """Learns what was copied from where, of any places that have been reached; whose token says so is no matter."""
        waiting = [place for place in places if place.origins]
        while found := [place for place in waiting if self.holds(place)]:
            waiting = [place for place in waiting if place not in found]
            for origin in (origin for place in found for origin in place.origins):
                self._learn(origin.place)


def merge(tokens: Iterable[Token]) -> Token:
    """The union of any number of tokens; of none it is the token of no source, which is before every other one.

    Raises:
        IncomparableTokensError: Two of them have no union.
    """
    return reduce(Token.__or__, tokens, Token(()))
