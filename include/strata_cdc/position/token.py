"""Event tokens: the position in one stream, or in several, as a value with a four-valued comparison and a union.
Not here: the position of one source (`source_position.py`), the text form (`token_text.py`), who makes tokens from
what."""

from __future__ import annotations

from enum import StrEnum
from functools import reduce
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from strata_cdc.position.file_position import FilePosition
from strata_cdc.position.source_position import Origin, SourcePosition, lineages_of
from strata_cdc.position.token_packed import packed_source_position
from strata_cdc.position.token_seal import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.position.port import Position


__all__ = ["FilePosition", "Order", "Origin", "SourcePosition", "Token", "merge"]
"""Everything that is needed to make tokens, also positions of sources."""


class Order(StrEnum):
    """The order of two tokens. It is a partial order: `UNKNOWN` means that neither contains the other."""

    BEFORE = "before"
    AFTER = "after"
    EQUAL = "equal"
    UNKNOWN = "unknown"


class Token(Struct, frozen=True):
    """The position in a stream: a position for each of its sources; mostly there is one.

    A token requires nothing of a source that it does not name. Tokens are equal as values (`==`) only if their commit
    times are equal too; `compare` uses only sources, lineages and positions.
    """

    positions: tuple[SourcePosition, ...]
    """One for each source, in the order of their names. `of` and `over` make them so."""

    def __str__(self) -> str:
        """The text that `from_text` (`token_text.py`) reads: about 75 characters for one server's GTIDs, 25 to 35 more
        for each further server, and a few more for a token inside a transaction."""
        return text_of([packed_source_position(source_position) for source_position in self.positions])

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
    def over(cls, source_positions: Iterable[SourcePosition]) -> Self:
        """The smallest token that contains all of these positions, of any sources in any order.

        Raises:
            IncomparableTokensError: Two positions of one source have no union.
        """
        by_source: dict[str, SourcePosition] = {}
        for source_position in source_positions:
            known = by_source.get(source_position.source)
            by_source[source_position.source] = source_position if known is None else known.union(source_position)
        return cls(tuple(by_source[source] for source in sorted(by_source)))

    def compare(self, other: Token, *, clock_bound: int | None = None) -> Order:
        """Whether this token is before the other one, after it, equal to it, or neither.

        BEFORE: a server that has reached `other` has executed everything that this token covers, and more.

        Args:
            clock_bound: By how much the clocks of two servers may differ (microseconds). Tokens without a common
                source, also by copy, are then ordered by their commit times if these differ by more. Such a result is
                not part of the partial order: it may contradict comparisons with a third token.
        """
        order = self._by_sets(other)
        if order is Order.UNKNOWN and clock_bound is not None and not self._shares_source(other):
            return self._by_clocks(other, clock_bound)
        return order

    def _by_sets(self, other: Token) -> Order:
        order = self._is_within(other), other._is_within(self)
        return {
            (True, True): Order.EQUAL,
            (True, False): Order.BEFORE,
            (False, True): Order.AFTER,
            (False, False): Order.UNKNOWN,
        }[order]

    def __or__(self, other: Token) -> Token:
        """The smallest token that is at or after both. Raises `IncomparableTokensError` if there is none."""
        return Token.over((*self.positions, *other.positions))

    def _shares_source(self, other: Token) -> bool:
        return bool(self._sources() & other._sources())

    def _sources(self) -> set[str]:
        copied = {origin.source for source_position in self.positions for origin in source_position.origins}
        return copied | {source_position.source for source_position in self.positions}

    def _by_clocks(self, other: Token, bound: int) -> Order:
        own_times, other_times = (
            [source_position.committed_at for source_position in self.positions],
            [source_position.committed_at for source_position in other.positions],
        )
        if not (all(own_times) and all(other_times)):
            return Order.UNKNOWN
        if max(own_times) + bound < min(other_times):
            return Order.BEFORE
        return Order.AFTER if max(other_times) + bound < min(own_times) else Order.UNKNOWN

    def _is_within(self, other: Token) -> bool:
        reached = _ReachedPositions(other.positions)
        reached.follow((*self.positions, *other.positions))
        return all(map(reached.holds, self.positions))


class _ReachedPositions:
    """Everything that a server at some positions provably has, also by copy."""

    def __init__(self, positions: Iterable[SourcePosition]) -> None:
        self._known: dict[tuple[str, str], SourcePosition] = {}
        for source_position in positions:
            self._learn(source_position)

    def _learn(self, source_position: SourcePosition) -> None:
        known = self._known.get(source_position.history)
        self._known[source_position.history] = source_position if known is None else known.union(source_position)

    def holds(self, source_position: SourcePosition) -> bool:
        known = self._known.get(source_position.history)
        return known is not None and source_position.is_within(known)

    def follow(self, positions: Iterable[SourcePosition]) -> None:
        """Adds what was copied, for any of these positions that have been reached; it does not matter which token has
        them."""
        waiting = [source_position for source_position in positions if source_position.origins]
        while reached_positions := [source_position for source_position in waiting if self.holds(source_position)]:
            waiting = [source_position for source_position in waiting if source_position not in reached_positions]
            for origin in (origin for source_position in reached_positions for origin in source_position.origins):
                self._learn(origin.source_position)


def merge(tokens: Iterable[Token]) -> Token:
    """The union of any number of tokens; without any, the token of no source, which is before every other token.

    Raises:
        IncomparableTokensError: Two of them have no union.
    """
    return reduce(Token.__or__, tokens, Token(()))
