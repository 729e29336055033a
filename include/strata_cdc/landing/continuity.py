"""Whether transactions without a GTID follow each other directly in their server's files, so that none is missing.
Not here: transactions with GTIDs, whose numbers show it (`position/sets.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.position.binlog_position import BinlogPosition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strata_cdc.binlog.events.model import TransactionRecord


class Continuity:
    """A walk over transactions in stream order."""

    def __init__(self, before: TransactionRecord | None) -> None:
        """Begins after a transaction; None if the first transaction cannot be compared with anything."""
        self._before = before
        self.broken_at: str | None = None
        """FILE:OFFSET of the first transaction before which something is missing; None if nothing is."""

    def follow(self, records: Iterable[TransactionRecord]) -> Iterator[TransactionRecord]:
        """Passes the records on."""
        for record in records:
            before, self._before = self._before, record
            if record.gtid is None and before is not None and self.broken_at is None and not follows(record, before):
                self.broken_at = f"{record.binlog_file}:{record.binlog_pos}"
            yield record


def follows(record: TransactionRecord, before: TransactionRecord) -> bool:
    """Whether nothing can be between two landed transactions of one server: they are adjacent, or the later transaction
    is the first of its file. Files without transactions may be between their files; such files do not land."""
    if record.binlog_file == before.binlog_file:
        return record.binlog_pos == before.server_end
    # A segment begins with the head of its file, so the first transaction of the file has the same offset in both.
    is_first = record.begin == record.binlog_pos
    return is_first and BinlogPosition.from_offset(record.binlog_file, 0) > BinlogPosition.from_offset(
        before.binlog_file, 0
    )
