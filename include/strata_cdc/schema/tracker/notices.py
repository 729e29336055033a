"""What a run of the tracker has to tell somebody: by kind and table, each counted, the worst first.
Not here: finding it (`track.py`, `unlogged.py`), printing it (`cli/track.py`)."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.schema.model.definition import TableName

MOST_OF_A_KIND: Final = 10
LONGEST_TEXT: Final = 300
MISSING_NUMBERS: Final = (
    "numbers {} have not come, and no event is missing: members of a group take blocks of numbers, and replicas may "
    "write them out of order"
)


class NoticeKind(Enum):
    """What a notice is about, the worst first."""

    GAP = "gap"
    """A table became unknown."""
    STATEMENT = "statement"
    """A statement changed rows that the binlog does not hold."""
    DRIFT = "drift"
    """A snapshot found a table other than the replay has it."""
    REMOVAL = "removal"
    """DDL removed rows without delete rows."""
    REPEAT = "repeat"
    """A transaction came again."""
    LENGTH = "length"
    """The length of a key's part is not in the binlog."""
    UNSTORED = "unstored"
    """DDL that was noticed only, as the settings want it."""
    SNAPSHOT = "snapshot"
    """What became of a snapshot."""
    NUMBERS = "numbers"
    """GTIDs that have not come although no event is missing."""


class Notice(Struct):
    """Something that was seen, once or more often, of one table."""

    kind: NoticeKind
    table: str
    """`database.table`, `all tables of DATABASE`, `all tables`, or '' where it is about none."""
    text: str
    """Of the first time, with table and GTID."""
    count: int = 1

    def __str__(self) -> str:
        return self.text if self.count == 1 else f"{self.text} ({self.count:,} times)"


def add(notices: list[Notice], kind: NoticeKind, table: str, text: str) -> None:
    """Counts it where it was seen before, else adds it; of a kind there are the first, and those of all tables."""
    same = [notice for notice in notices if notice.kind is kind]
    for notice in same:
        if table and notice.table == table:
            notice.count += 1
            return
    if len(same) >= MOST_OF_A_KIND:
        narrow = [notice for notice in same if not _is_wide(notice)]
        if not (narrow and table.startswith("all tables")):
            return
        notices.remove(narrow[-1])
    notices.append(Notice(kind, table, text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "..."))


def worst_first(notices: Iterable[Notice]) -> list[Notice]:
    """By kind; within one, what is about all tables, then what was seen most often."""
    kinds = list(NoticeKind)
    return sorted(notices, key=lambda notice: (kinds.index(notice.kind), not _is_wide(notice), -notice.count))


def _is_wide(notice: Notice) -> bool:
    return notice.table.startswith("all tables")


def name_for_people(name: TableName) -> str:
    """A table, or what an entry that speaks for all of them means."""
    if name.table:
        return str(name)
    return f"all tables of {name.database}" if name.database else "all tables"
