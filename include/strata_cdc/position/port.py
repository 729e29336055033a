"""What a position has to do, for every family of servers or logs.
Not here: MySQL's GTID sets (`sets.py`), MariaDB's domains (`domains.py`), positions in the files of one server
(`file_position.py`), the source, lineage and time that go with a position (`source_position.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self

if TYPE_CHECKING:
    from strata_cdc.position.sets import DomainWriter, Gtid, Sid, Span


class Position(Protocol):
    """What has been executed, in one way of counting: a value with a partial order and unions.

    Positions compare only if they count the same things, so compare `counted` of both first. How a transaction is
    identified depends on the family: by a GTID, or by where it begins in a file.
    """

    @property
    def counted(self) -> str:
        """What the position counts, for comparisons and for people: positions that count different things never
        compare."""

    @property
    def is_shared(self) -> bool:
        """Whether other servers that have the transactions identify them by the same numbers."""

    def contains(self, transaction: Any) -> bool:
        """Whether this one transaction has been executed."""

    def __le__(self, other: Any) -> bool:
        """Whether `other`, which counts the same things, contains all of this."""

    def __or__(self, other: Any) -> Self:
        """The least position that contains both; both count the same things."""

    def describe(self) -> dict[str, str | int]:
        """As the JSON fields in which commands and pages show it."""


class Executed(Position, Protocol):
    """A position that counts GTIDs: a MySQL server's set, or the newest numbers of a MariaDB server's domains.

    Its text is the one that the server prints and reads; `executed.parse_executed` reads every family's.
    """

    def __sub__(self, other: Any) -> Self:
        """The transactions that `other` does not contain."""

    def __and__(self, other: Any) -> Self:
        """The transactions that both contain."""

    def __bool__(self) -> bool:
        """Whether there is any transaction."""

    def builder(self) -> Any:
        """A position of this family that begins as this one and grows; `ExecutedBuilder` (`executed.py`) is of any."""

    def count(self) -> int:
        """How many transactions there are; at most so many where a server may skip numbers (MariaDB)."""

    def largest(self) -> int:
        """The largest number that it contains of any server or domain; 0 of nothing."""

    def gaps(self) -> Self:
        """The numbers between others that are not contained; none where a position contains all below its newest."""

    def spans_of(self, sid: Sid | DomainWriter) -> tuple[Span, ...]:
        """The numbers of one server or domain, in order."""

    def servers(self) -> frozenset[str]:
        """UUIDs of the servers that numbered transactions; empty where GTIDs do not name them by UUID (MariaDB)."""

    def add(self, gtid: Gtid) -> Self:
        """The position with one more transaction."""
