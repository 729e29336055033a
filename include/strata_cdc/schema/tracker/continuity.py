"""Which parts of a stream have been read before, and what is missing between its files.
Not here: the consequences for the versions (`track.py`), which part of a file was read (`stream_state.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.binlog.sources.file_start import file_number
from strata_cdc.position.executed import ExecutedBuilder, parse_executed
from strata_cdc.position.sets import Gtid
from strata_cdc.schema.history.versions import VersionOrigin
from strata_cdc.schema.tracker.stream import is_at_or_after

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.binlog.sources.file_start import FileStart
    from strata_cdc.position.port import Executed
    from strata_cdc.schema.history.snapshot import SchemaSnapshot
    from strata_cdc.schema.history.versions import StoredEntry, TrackedPosition
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.schema.tracker.stream import QuietRun, TrackedTransaction


def has_come(transaction: TrackedTransaction, start: FileStart, at: TrackedPosition, executed: ExecutedBuilder) -> bool:
    """Whether a transaction of the file that begins with `start` has been read before: by its ordinal, its GTID, or its
    position in the server's files."""
    if transaction.seq is not None:
        return transaction.seq <= at.seq
    if transaction.gtid is not None:
        return executed.contains(transaction.gtid)
    if at.binlog_file is None or at.binlog_pos is None:
        return False
    number, reached = file_number(start.binlog_file), file_number(at.binlog_file)
    return number < reached or (number == reached and transaction.binlog_pos < at.binlog_pos)


def has_not_come(run: QuietRun, at: TrackedPosition, executed: ExecutedBuilder) -> bool:
    """Whether no transaction of a run has been read before: by their ordinals, or by their GTIDs. By GTIDs it is only
    true if each transaction has a GTID of its own."""
    if run.last_seq is not None:
        return run.last_seq - run.count >= at.seq
    if sum(last - first + 1 for _, (first, last) in run.spans) != run.count:
        return False
    return not any(executed.overlaps(sid, span) for sid, span in run.spans)


def newest_file(at: TrackedPosition, before: FileStart | None) -> str | None:
    """The newest file that has been read: that of the last transaction, or a later file without transactions.

    Args:
        at: The position of the stream.
        before: The file that was read last.
    """
    files = [at.binlog_file] if at.binlog_file else []
    if files and before is not None:
        files.append(before.binlog_file)
    return max(files, key=file_number, default=None)


def hole_before(start: FileStart, missing: Executed, executed: Executed, binlog_file: str | None) -> str | None:
    """Why the stream has a hole before a file; None if it has none.

    Args:
        missing: The transactions that the server had executed before the file, and that the stream does not have.
        executed: All transactions of the stream.
        binlog_file: The newest file that has been read.
    """
    if missing:
        return f"transactions {missing} are missing from the stream"
    is_anonymous = not start.previous and not executed and not start.is_landed
    if is_anonymous and not start.follows(binlog_file):
        return f"the binlog files between {binlog_file} and {start.binlog_file} are missing"
    return None


def names_changed_by(lost: Executed, entries: Iterable[StoredEntry]) -> set[TableName]:
    """The names that DDL of transactions has changed which a server never executed, and that are not known to lack it.

    Args:
        lost: The transactions.
        entries: All entries of the source, in stream order.
    """
    names: set[TableName] = set()
    for entry in entries:
        if entry.gtid and lost.contains(Gtid.parse(entry.gtid)):
            names.add(entry.name)
        elif entry.origin is VersionOrigin.GAP and not entry.is_statement:
            # It became unknown when the server's first file began. What its files do to it since then is known.
            names.discard(entry.name)
    return names


def has_passed(snapshot: SchemaSnapshot, start: FileStart | None, executed: Executed, binlog_pos: int) -> bool:
    """Whether the stream has passed the moment of a snapshot: by its GTID set, or its position in the server's files.

    Args:
        snapshot: A reading of the live server.
        start: Of the file that is being read, up to `binlog_pos`; None if there is no such file.
        executed: All transactions of the stream.
        binlog_pos: Offset in the server's file.
    """
    if snapshot.position is None:
        return parse_executed(snapshot.gtid_executed) <= executed
    if start is None or (start.is_landed and start.identity not in ("", snapshot.server_uuid)):
        return False
    return is_at_or_after(start.binlog_file, binlog_pos, snapshot.position)
