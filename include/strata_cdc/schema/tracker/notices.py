"""What a run of the tracker reports to people: notices by kind and table, each counted, the worst first.
Not here: making notices (`reporter.py`), printing them (`cli/track.py`)."""

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
    """The subject of a notice, the worst first."""

    GAP = "gap"
    """A table became unknown."""
    STATEMENT = "statement"
    """A statement changed rows that are not in the binlog."""
    DRIFT = "drift"
    """A snapshot differs from the replay for a table."""
    REMOVAL = "removal"
    """DDL removed rows without delete rows."""
    REPEAT = "repeat"
    """A transaction came again."""
    LENGTH = "length"
    """The length of a key's part is not in the binlog."""
    UNSTORED = "unstored"
    """DDL of which only a notice was kept, according to the settings."""
    SNAPSHOT = "snapshot"
    """The result of a snapshot."""
    NUMBERS = "numbers"
    """GTIDs that have not come although no event is missing."""


class Notice(Struct):
    """An observation about one table, made once or several times."""

    kind: NoticeKind
    table: str
    """`database.table`, `all tables of DATABASE`, `all tables`, or '' if it is about no table."""
    text: str
    """The text of the first time, with table and GTID."""
    count: int = 1

    def __str__(self) -> str:
        return self.text if self.count == 1 else f"{self.text} ({self.count:,} times)"


def add(notices: list[Notice], kind: NoticeKind, table: str, text: str) -> None:
    """Counts a notice that exists already, else adds it. Of each kind, the first ones and those for all tables are
    kept."""
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
    """By kind; within a kind, first those about all tables, then those with the highest count."""
    kinds = list(NoticeKind)
    return sorted(notices, key=lambda notice: (kinds.index(notice.kind), not _is_wide(notice), -notice.count))


def _is_wide(notice: Notice) -> bool:
    return notice.table.startswith("all tables")


def name_for_people(name: TableName) -> str:
    """A table, or the meaning of an entry for all tables."""
    if name.table:
        return str(name)
    return f"all tables of {name.database}" if name.database else "all tables"
