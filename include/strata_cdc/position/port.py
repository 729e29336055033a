"""What a position has to do, for every family of servers or logs.
Not here: MySQL's GTID sets (`sets.py`), positions in the files of one server (`file_position.py`), the source, lineage
and time that go with a position (`source_position.py`)."""

from __future__ import annotations

from typing import Any, Protocol, Self


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
