"""The position in the stream of one source: what a token is made of.
Not here: tokens over several sources (`token.py`), GTID sets (`sets.py`)."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.errors import IncomparableTokensError
from strata_cdc.position.executed import is_executed
from strata_cdc.position.sets import Gtid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strata_cdc.position.binlog_position import BinlogPosition
    from strata_cdc.position.commit_ts import CommitStep
    from strata_cdc.position.port import Executed, Position


class PartialTransaction(Struct, frozen=True):
    """A transaction of which a reader has received only a part."""

    transaction: Gtid | BinlogPosition | CommitStep
    """Identified as by its position: in a file, the transaction that begins at the position."""
    steps: int
    """How many of its statements and rows were received, in the order of the stream."""


class Origin(Struct, frozen=True):
    """What a source has of another source, whose rows a resharding or a filtered replication copied."""

    source: str
    position: Position
    """Everything up to here has been copied, as far as the copy has these tables. If the copy kept the GTIDs, this is
    the copy's own position."""
    lineage: str = ""
    """Lineage of the other source."""

    @property
    def source_position(self) -> SourcePosition:
        """As a position of the other source."""
        return SourcePosition(self.source, self.position, self.lineage)


def kept_origins(copied_from: Mapping[str, str], position: Position) -> tuple[Origin, ...]:
    """What a position has of other sources by copies that kept their GTIDs.

    Args:
        copied_from: Names of the other sources, and their lineages.
        position: Position of the copy. A position in files says nothing about another server's files.
    """
    if not position.is_shared:
        return ()
    return tuple(Origin(source, position, lineage) for source, lineage in sorted(copied_from.items()))


class SourcePosition(Struct, frozen=True):
    """The position in the stream of one source."""

    source: str
    position: Position
    """What has been executed."""
    lineage: str = ""
    """The name of the source's history. After `RESET BINARY LOGS AND GTIDS`, or after the source was built again, the
    same GTIDs are other transactions: then another name is needed. Positions of two lineages never compare."""
    committed_at: int = 0
    """Commit time of the newest transaction (microseconds UTC); 0: not known. It is for people; the
    only comparison that uses it is that of tokens of different histories with a bound of the clocks
    (`Token.compare`)."""
    parts: tuple[PartialTransaction, ...] = ()
    """Transactions after the position that were received in part, in the order of their texts; a stream has at most
    one."""
    origins: tuple[Origin, ...] = ()
    """Other sources whose rows it has by copy, each history once, in the order of `lineages_of`. A server that has
    reached the position has them too."""

    def is_within(self, other: SourcePosition) -> bool:
        """Whether `other` has provably executed all of this: the same history, and it contains this position."""
        if not self._is_comparable(other):
            return False
        return self.position <= other.position and all(map(other._has, self.parts))

    def _has(self, part: PartialTransaction) -> bool:
        if self.position.contains(part.transaction):
            return True
        return any(mine.transaction == part.transaction and mine.steps >= part.steps for mine in self.parts)

    def union(self, other: SourcePosition) -> SourcePosition:
        """The smallest position that contains both.

        Raises:
            IncomparableTokensError: There is none: different histories, other servers' files, or a file and a GTID set.
        """
        if not self._is_comparable(other):
            raise IncomparableTokensError(
                f"tokens of two histories have no union: {self._history} and {other._history}",
                source=self.source,
                remedy="Keep the token of the history that continues.",
            )
        position = self.position | other.position
        parts = _farthest(part for part in (*self.parts, *other.parts) if not position.contains(part.transaction))
        committed_at = max(self.committed_at, other.committed_at)
        return SourcePosition(
            self.source, position, self.lineage, committed_at, parts, lineages_of(self.origins + other.origins)
        )

    def _is_comparable(self, other: SourcePosition) -> bool:
        return self.history == other.history

    def executed(self) -> Executed | None:
        """All transactions that it covers, including those of which it has only a part; None for a file."""
        if not is_executed(self.position):
            return None
        inside = (part.transaction for part in self.parts if isinstance(part.transaction, Gtid))
        return reduce(lambda executed, gtid: executed.add(gtid), inside, self.position)

    @property
    def history(self) -> tuple[str, str]:
        """Equal for source positions that count the same things."""
        return self.source, self._history

    @property
    def _history(self) -> str:
        return f"{self.position.counted}, lineage {self.lineage!r}"


def _farthest(parts: Iterable[PartialTransaction]) -> tuple[PartialTransaction, ...]:
    """The part with the most steps for each transaction, in the order of their texts."""
    transactions: dict[str, PartialTransaction] = {}
    for part in parts:
        known = transactions.get(str(part.transaction))
        transactions[str(part.transaction)] = part if known is None or known.steps < part.steps else known
    return tuple(transactions[text] for text in sorted(transactions))


def lineages_of(origins: Iterable[Origin]) -> tuple[Origin, ...]:
    """Each history once, in order."""
    positions: dict[tuple[str, str], SourcePosition] = {}
    for origin in origins:
        source_position = origin.source_position
        known = positions.get(source_position.history)
        positions[source_position.history] = source_position if known is None else known.union(source_position)
    return tuple(
        Origin(source_position.source, source_position.position, source_position.lineage)
        for _, source_position in sorted(positions.items())
    )
