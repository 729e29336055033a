"""The client's statement that changed a row, from the landed segment in which the row event is.
Not here: the events (`binlog/events/client_statements.py`)."""

from __future__ import annotations

from collections import OrderedDict
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.binlog.bytes.files import open_extents
from strata_cdc.binlog.events.client_statements import statements_of_rows
from strata_cdc.errors import StrataError, StreamHoleError, Usage
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.schema.ddl.secrets import mask_secrets

if TYPE_CHECKING:
    from strata_cdc.binlog.events.client_statements import Texts
    from strata_cdc.binlog.events.model import TransactionRecord
    from strata_cdc.landing.landed import LandedSegment, LandedStream

_KEPT: Final = 1024
_KEPT_TRANSACTIONS: Final = 4
NOT_LOGGED: Final = "not logged"
_DELETED: Final = "its segment was deleted by age"


class ClientStatement(Struct, frozen=True):
    """A statement, or why its text is not known."""

    text: str | None = None
    """Without passwords; bytes that are not UTF-8 are written as `\\xff`."""
    unknown: str | None = None
    """Why there is no text, for people."""


_OF_A_SINK: Final = ClientStatement(unknown="a TiCDC sink has no statements of clients")


class ClientStatements:
    """The statements that changed rows of a source."""

    def __init__(self, stream: LandedStream) -> None:
        self._stream = stream
        self._known = lru_cache(_KEPT)(self._read)
        self._walked: OrderedDict[tuple[str, int], dict[int, Texts]] = OrderedDict()
        """The statements of transactions: up to the row event that was needed first, or of all row events."""

        self._newest: tuple[int, LandedSegment, TransactionRecord] | None = None
        """The transaction that was looked up last."""

    def statement_of(self, seq: int, binlog_file: str, binlog_pos: int) -> ClientStatement:
        """The statement of a change.

        Args:
            seq: Ordinal of its transaction.
            binlog_file: The server's file with the row event.
            binlog_pos: Offset of the row event there.
        """
        return self._known(seq, binlog_file, binlog_pos) if self._stream.has_server else _OF_A_SINK

    def _read(self, seq: int, binlog_file: str, binlog_pos: int) -> ClientStatement:
        try:
            located = self.transaction(seq, binlog_file, binlog_pos)
        except (StreamHoleError, Usage):
            # Nothing is left of the stream, or not the beginning.
            return ClientStatement(unknown=_DELETED)
        if located is None:
            return ClientStatement(unknown="its row event was not found in the landed segments")
        segment, record = located
        try:
            texts = self._texts(segment, record, binlog_pos - record.binlog_pos + record.begin)
        except StrataError as error:
            return ClientStatement(unknown=error.message)
        if len(texts) > 1:
            shown = "; ".join(NOT_LOGGED if text is None else _text(text) for text in texts)
            return ClientStatement(unknown=f"one of those of a compressed transaction: {shown}")
        text = texts[0] if texts else None
        return ClientStatement(unknown=NOT_LOGGED) if text is None else ClientStatement(_text(text))

    def _texts(self, segment: LandedSegment, record: TransactionRecord, offset: int) -> Texts:
        """The statements that a row event may belong to. Who needs a second one of a transaction may need many."""
        key = (segment.url, record.begin)
        known = self._walked.get(key)
        if known is None or offset not in known:
            with open_extents(segment.url, ()) as binlog:
                last = offset if known is None else None
                known = self._walked[key] = statements_of_rows(binlog, record.begin, record.end, last)
            if len(self._walked) > _KEPT_TRANSACTIONS:
                self._walked.popitem(last=False)
        return known.get(offset, ())

    def transaction(
        self, seq: int, binlog_file: str, binlog_pos: int
    ) -> tuple[LandedSegment, TransactionRecord] | None:
        """The transaction with a row event, and the segment in which it is; None if it is not there. That of a prepared
        transaction comes before the statement that commits it.

        Args:
            seq: Ordinal of the transaction.
            binlog_file: The server's file with the event.
            binlog_pos: Offset of the event there.

        Raises:
            StreamHoleError: Nothing is left of the stream there.
            Usage: The stream begins later.
        """
        newest = self._newest
        if newest is not None and newest[0] == seq and _has(newest[2], binlog_file, binlog_pos):
            return newest[1:]
        located = self._found(seq, binlog_file, binlog_pos)
        self._newest = None if located is None else (seq, *located)
        return located

    def _found(self, seq: int, binlog_file: str, binlog_pos: int) -> tuple[LandedSegment, TransactionRecord] | None:
        located = self._stream.record_at(seq)
        if _has(located[1], binlog_file, binlog_pos):
            return located
        try:
            at = self._stream.seq_at_position(BinlogPosition.from_offset(binlog_file, binlog_pos + 1))
            located = self._stream.record_at(at)
        except Usage:
            return None
        return located if _has(located[1], binlog_file, binlog_pos) else None


def _has(record: TransactionRecord, binlog_file: str, binlog_pos: int) -> bool:
    length = record.end - record.begin
    return record.binlog_file == binlog_file and record.binlog_pos <= binlog_pos < record.binlog_pos + length


def _text(statement: bytes) -> str:
    return mask_secrets(statement.decode("utf-8", "backslashreplace"))
