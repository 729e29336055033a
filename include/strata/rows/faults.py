"""Values that a column's Arrow type cannot express, found while its cells are gathered.
Not here: what becomes of their rows (`batch.py`)."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct, field


class FaultKind(Enum):
    """What follows from a fault."""

    INVALID = "invalid"
    """The row stays: a value that MySQL allows and Arrow does not, as a zero date."""
    UNREADABLE = "unreadable"
    """The row is quarantined: the bytes have no meaning in the column's type."""

    @property
    def quarantines(self) -> bool:
        """Whether the row goes into quarantine."""
        return self is FaultKind.UNREADABLE


class Fault(Struct, frozen=True):
    """One value."""

    row: int
    """In its batch."""
    verbatim: str
    """The text that MySQL prints, or base64 of the cell's bytes where it has none."""
    kind: FaultKind
    reason: str
    """Without the value: it may be one that must not be shown."""


class CorruptCell(Exception):
    """A cell contradicts its type; whoever knows the place makes it a CorruptEventError.

    The reason is without the value: it may be one that must not be shown.
    """

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row
        self.reason = reason
        self.column = ""
        """Its name, once it is known."""


class Faults(Struct):
    """The faults of one column of one image of a batch."""

    found: list[Fault] = field(default_factory=list)

    def add(self, row: int, verbatim: str, kind: FaultKind, reason: str) -> None:
        """Notes a fault."""
        self.found.append(Fault(row, verbatim, kind, reason))
