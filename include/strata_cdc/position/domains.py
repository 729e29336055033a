"""MariaDB's positions: the newest sequence number of each replication domain.
Not here: MySQL's GTID sets (`sets.py`), which family a text is of (`executed.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from msgspec import Struct

from strata_cdc.errors import InvalidGtidSetError
from strata_cdc.position.sets import DOMAIN_GTID, DomainWriter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strata_cdc.position.sets import Gtid, Span

MAX_DOMAIN: Final = (1 << 32) - 1
"""Domains and server ids are numbers of 32 bits."""
MAX_SEQUENCE: Final = (1 << 64) - 1
"""Sequence numbers have 64 bits (sql/rpl_gtid.h, rpl_gtid)."""


class DomainRange(Struct, frozen=True, order=True):
    """The transactions of one domain from one number to another."""

    domain: int
    first: int
    last: int
    server: int
    """The server that wrote the last transaction: a server sends what follows only from a position that it knows."""

    def __str__(self) -> str:
        text = f"{self.domain}-{self.server}-{self.last}"
        return text if self.first <= 1 else f"{self.domain}-{self.server}-{self.first}..{self.last}"


class DomainSet(Struct, frozen=True, eq=False):
    """The transactions up to a number in each domain (manual, "Global Transaction ID", `gtid_binlog_pos`).

    Numbers may jump, so that a position contains each number up to its newest, whether a transaction had it or not.
    Domains alone are compared: who wrote a transaction says nothing about what a server has. The difference of two
    positions has the numbers between them, in the same form.
    """

    ranges: tuple[DomainRange, ...] = ()
    """One for each domain, in order."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `DOMAIN-SERVER-SEQUENCE[,...]`; of several entries of a domain the newest counts, as in the list that
        begins a binlog file.

        Raises:
            InvalidGtidSetError: The text has another form.
        """
        ranges: dict[int, DomainRange] = {}
        for part in filter(str.strip, text.split(",")):
            read = _parse_range(part)
            ranges[read.domain] = _union(ranges.get(read.domain), read)
        return cls._of(ranges.values())

    @property
    def counted(self) -> str:
        """MariaDB's GTIDs, of all domains."""
        return "GTIDs of domains"

    @property
    def is_shared(self) -> bool:
        """True: a replica keeps the GTIDs of what it applies."""
        return True

    def contains(self, gtid: Gtid) -> bool:
        """Whether the transaction's number is among those of its domain, by any server."""
        return any(first <= gtid.gno <= last for first, last in self.spans_of(gtid.sid))

    def count(self) -> int:
        """How many numbers there are: at least as many as transactions."""
        return sum(known.last - known.first + 1 for known in self.ranges)

    def largest(self) -> int:
        """The newest number of any domain."""
        return max((known.last for known in self.ranges), default=0)

    def gaps(self) -> DomainSet:
        """Nothing: a position contains every number below its newest."""
        return DomainSet()

    def spans_of(self, sid: object) -> tuple[Span, ...]:
        """The numbers of a writer's domain."""
        known = self.range_of(sid.domain) if isinstance(sid, DomainWriter) else None
        return () if known is None else ((known.first, known.last),)

    def servers(self) -> frozenset[str]:
        """Empty: server ids are no UUIDs."""
        return frozenset()

    def add(self, gtid: Gtid) -> DomainSet:
        """The position with one more transaction."""
        builder = self.builder()
        builder.add(gtid)
        return builder.build()

    def builder(self) -> DomainSetBuilder:
        """A position that begins as this one and grows."""
        return DomainSetBuilder(self)

    def __or__(self, other: DomainSet) -> DomainSet:
        ranges = {known.domain: known for known in self.ranges}
        for known in _ranges_of(other):
            ranges[known.domain] = _union(ranges.get(known.domain), known)
        return DomainSet._of(ranges.values())

    def __sub__(self, other: DomainSet) -> DomainSet:
        return DomainSet(tuple(left for mine in self.ranges if (left := _without(mine, _find(other, mine.domain)))))

    def __and__(self, other: DomainSet) -> DomainSet:
        shared = ((mine, _find(other, mine.domain)) for mine in self.ranges)
        return DomainSet(tuple(both for mine, theirs in shared if theirs and (both := _intersection(mine, theirs))))

    def __le__(self, other: DomainSet) -> bool:
        """Whether `other` contains this position."""
        return not self - other

    def __lt__(self, other: DomainSet) -> bool:
        return self != other and self <= other

    def __ge__(self, other: DomainSet) -> bool:
        return other <= self

    def __gt__(self, other: DomainSet) -> bool:
        return other < self

    def __eq__(self, other: object) -> bool:
        """Whether both have the same numbers of the same domains."""
        return isinstance(other, DomainSet) and self._numbers() == other._numbers()

    def __ne__(self, other: object) -> bool:
        # A Struct has its own, which is not derived from the method above.
        return not self == other

    def __hash__(self) -> int:
        return hash(self._numbers())

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __str__(self) -> str:
        return ",".join(map(str, self.ranges))

    def describe(self) -> dict[str, str | int]:
        """As `gtid_executed`."""
        return {"gtid_executed": str(self)}

    @classmethod
    def _of(cls, ranges: Iterable[DomainRange]) -> Self:
        return cls(tuple(sorted(ranges)))

    def range_of(self, domain: int) -> DomainRange | None:
        """The numbers of one domain."""
        return next((known for known in self.ranges if known.domain == domain), None)

    def _numbers(self) -> tuple[tuple[int, int, int], ...]:
        return tuple((known.domain, known.first, known.last) for known in self.ranges)


class DomainSetBuilder:
    """A position that grows along a stream."""

    def __init__(self, start: DomainSet | None = None) -> None:
        self._ranges: dict[int, DomainRange] = {known.domain: known for known in start.ranges} if start else {}

    def add(self, gtid: Gtid) -> None:
        """Adds a transaction, and with it all numbers of its domain below it."""
        self.add_span(gtid.sid, (gtid.gno, gtid.gno))

    def add_span(self, sid: object, span: Span) -> None:
        """Adds the transactions of a domain up to the last number of `span`.

        Raises:
            InvalidGtidSetError: They are not those of a MariaDB server.
        """
        if not isinstance(sid, DomainWriter):
            raise InvalidGtidSetError(f"{sid} is not a domain and a server of MariaDB: the stream is of such a server")
        known = self._ranges.get(sid.domain)
        if known is None or span[1] > known.last:
            self._ranges[sid.domain] = DomainRange(sid.domain, 1, span[1], sid.server)

    def contains(self, gtid: Gtid) -> bool:
        """Whether it contains this one transaction by now."""
        return self.overlaps(gtid.sid, (gtid.gno, gtid.gno))

    def overlaps(self, sid: object, span: Span) -> bool:
        """Whether it contains any of the transactions of `span` by now."""
        known = self._ranges.get(sid.domain) if isinstance(sid, DomainWriter) else None
        return known is not None and span[0] <= known.last and known.first <= span[1]

    def build(self) -> DomainSet:
        """The position as it is now."""
        return DomainSet(tuple(sorted(self._ranges.values())))


def _parse_range(part: str) -> DomainRange:
    match = DOMAIN_GTID.fullmatch(part)
    if match is None:
        raise InvalidGtidSetError(f"{part.strip()[:60]!r} is not DOMAIN-SERVER-SEQUENCE, a GTID of MariaDB")
    domain, server, first = (int(text) for text in match.groups()[:3])
    last = first if match[4] is None else int(match[4])
    if max(domain, server) > MAX_DOMAIN or last > MAX_SEQUENCE:
        raise InvalidGtidSetError(
            f"{part.strip()[:60]!r} is outside the numbers of MariaDB: domains and servers have 32 bits, sequences 64"
        )
    return DomainRange(domain, 1 if match[4] is None else first, last, server)


def _ranges_of(other: object) -> Iterator[DomainRange]:
    return iter(other.ranges) if isinstance(other, DomainSet) else iter(())


def _find(other: object, domain: int) -> DomainRange | None:
    return other.range_of(domain) if isinstance(other, DomainSet) else None


def _union(known: DomainRange | None, further: DomainRange) -> DomainRange:
    """Of equal numbers the greater server's name stays, so that unions are equal in any order."""
    if known is None:
        return further
    last, server = max((known.last, known.server), (further.last, further.server))
    return DomainRange(known.domain, min(known.first, further.first), last, server)


def _without(mine: DomainRange, other: DomainRange | None) -> DomainRange | None:
    """The numbers after those of the other range; a range that begins within `mine` leaves it whole."""
    if other is None or other.last < mine.first or other.first > mine.first:
        return mine
    return None if other.last >= mine.last else DomainRange(mine.domain, other.last + 1, mine.last, mine.server)


def _intersection(mine: DomainRange, other: DomainRange) -> DomainRange | None:
    first, (last, server) = max(mine.first, other.first), min((mine.last, mine.server), (other.last, other.server))
    return None if first > last else DomainRange(mine.domain, first, last, server)
