"""What the tracker takes and gives: transactions and statements of a stream, and its report.
Not here: tracking (`track.py`), what gives them (`binlog/sources/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from strata_cdc.binlog.sources.file_start import file_number
from strata_cdc.schema.tracker.notices import Notice, NoticeKind, add, worst_first

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.binlog.bytes.format import FormatDescription
    from strata_cdc.binlog.events.model import Query, TableMap
    from strata_cdc.flavour import Flavour
    from strata_cdc.position.binlog_position import BinlogPosition
    from strata_cdc.position.sets import Gtid, Sid, Span
    from strata_cdc.schema.model.definition import TableName


class TrackedStatement(Struct, frozen=True):
    """A statement of a transaction that is no frame of one."""

    query: Query
    format: FormatDescription
    """Of the file that it is in."""
    binlog_pos: int
    """Offset of its event in the server's file."""


class TrackedTransaction(Struct, frozen=True):
    """What the tracker needs of a transaction; the statements are read only where there are some."""

    gtid: Gtid | None
    binlog_pos: int
    end_pos: int
    committed_at: int
    seq: int | None = None
    """Its ordinal in the landed stream; None in plain files, where the tracker counts."""
    ran_first_on: Flavour | None = None
    """The server that ran it first; None if not known."""
    statements: Iterable[TrackedStatement] = ()
    incident: str | None = None
    tables: tuple[TableName, ...] = ()
    """Those whose rows it changes."""
    table_maps: Iterable[TableMap] = ()
    """The first ones; read only where a table of it is not known."""


class QuietRun(Struct, frozen=True):
    """Consecutive transactions of one file without a statement. Most are: the tracker takes them all at once."""

    count: int
    spans: tuple[tuple[Sid, Span], ...]
    """Their GTIDs."""
    binlog_pos: int
    """Of the first one."""
    end_pos: int
    committed_at: int
    """Of the last one, by the commit clock."""
    tables: tuple[TableName, ...]
    """Those whose rows they change."""
    last_seq: int | None = None
    """As `TrackedTransaction.seq`, of the last one."""


class TrackReport(Struct):
    """What a run of the tracker did; small, however much it did."""

    source: str
    transactions: int = 0
    """New ones."""
    skipped: int = 0
    """Those that had been tracked before."""
    repeated: int = 0
    """Transactions that came again behind others that are new; they count once."""
    statements: int = 0
    """DDL statements among the new ones."""
    versions: int = 0
    gaps: int = 0
    """Tables that became unknown, each time counted."""
    statement_changes: int = 0
    """Statements that changed rows which the binlog does not hold."""
    removals: int = 0
    """Statements that removed rows without row events: TRUNCATE, DROP PARTITION and their kin."""
    drifts: int = 0
    """Tables that a snapshot found other than the replay has them."""
    notices: list[Notice] = field(default_factory=list)
    """What somebody should look at, by kind and table."""
    seq: int = 0
    """Ordinal of the last transaction that has been tracked."""
    gtid_executed: str = ""
    committed_at: int = 0
    """Of that transaction, microseconds UTC."""

    def note(self, kind: NoticeKind, table: str, text: str) -> None:
        """Adds or counts a notice, if there is room."""
        add(self.notices, kind, table, text)

    @property
    def examples(self) -> list[str]:
        """The notices as text, the worst first."""
        return [str(notice) for notice in worst_first(self.notices)]


def is_at_or_behind(binlog_file: str, binlog_pos: int, position: BinlogPosition) -> bool:
    """Whether a place is at or behind a position in the same server's files; a file without a number never is."""
    return (file_number(binlog_file), binlog_pos) >= (position.file_number, position.offset)
