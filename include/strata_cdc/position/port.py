"""What a position has to do, whatever family of servers or logs counts it.
Not here: MySQL's GTID sets (`sets.py`), places in the files of one server (`file_position.py`), the source, lineage and
time that go with a position (`source_position.py`)."""

from __future__ import annotations

from typing import Any, Protocol, Self


class Position(Protocol):
    """What has been executed, in one way to count it: a value with a partial order and unions.

    Positions compare only where they count the same things, so who has two of them looks at `counted` first. A
    transaction is what the family numbers: a GTID, or where it begins in a file.
    """

    @property
    def counted(self) -> str:
        """What it counts, for comparisons and for people: positions of two kinds never compare."""

    @property
    def is_shared(self) -> bool:
        """Whether other servers that have the transactions count them by the same numbers."""

    def contains(self, transaction: Any) -> bool:
        """Whether this one transaction has been executed."""

    def __le__(self, other: Any) -> bool:
        """Whether `other`, which counts the same things, contains all of this."""

    def __or__(self, other: Any) -> Self:
        """The least position that contains both; both count the same things."""

    def describe(self) -> dict[str, str | int]:
        """As the fields of JSON in which commands and pages show it."""
