"""A stream whose source has yielded its first item. Its transactions are decoded, and the result is yielded in spans.
Not here: where it begins and ends (`opening.py`), its source (`port.py`, `binlog_stream.py`), what is in transactions
(`decoding.py`), reading DDL (`schema/ddl/`)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from strata_cdc.errors import StatementFormatError, StreamHoleError
from strata_cdc.schema.history.shell_words import word
from strata_cdc.streams.decoding import Decoding
from strata_cdc.streams.events import Ddl, Heartbeat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.changes.port import SchemaChange
    from strata_cdc.errors import StrataError
    from strata_cdc.streams.decoding import StreamBatch
    from strata_cdc.streams.events import StreamTransaction
    from strata_cdc.streams.filter import StreamFilter
    from strata_cdc.streams.port import ChosenTransactions, SourceStream
    from strata_cdc.streams.request import StreamRequest

_PASSABLE: Final = (StatementFormatError, StreamHoleError)
"""Faults of a single transaction; a reader can continue after that transaction."""


class OpenedStream:
    """A stream that one reader reads from a source."""

    def __init__(self, source: SourceStream, wanted: StreamFilter, request: StreamRequest) -> None:
        """Nothing has been yielded yet.

        Args:
            source: The source, from where the reader begins.
            wanted: Which tables and columns the reader wants.
            request: What the reader requests.
        """
        self._wanted, self._request = wanted, request
        self._decoding = Decoding(request.permit, everything=wanted.everything)
        self.source = source
        """The source, and how far it has been read."""
        self.stopped_at: StreamTransaction | None = None
        """The transaction whose fault has ended the stream, if a reader can continue after it."""
        self.unreadable_rows = 0
        """How many of the yielded rows cannot be read."""

    def read_batches(self) -> Iterator[StreamBatch | Heartbeat]:
        """Yields everything that there is for the reader, up to the end."""
        pause = self._request.heartbeat_seconds
        due = time.monotonic() + pause
        for span in self._items_in_spans():
            if span is not None:
                yield span
                due = time.monotonic() + pause
            elif time.monotonic() >= due:
                yield Heartbeat(self.source.position)
                # Not counted from now: the time is checked in steps, so each heartbeat would come a step later.
                due = max(due, time.monotonic() - pause) + pause

    def _items_in_spans(self) -> Iterator[StreamBatch | None]:
        """Yields what each item has, and None at the end of each item: a span is freed before the next item comes."""
        for chosen in self.source.read_transactions():
            if chosen is None:
                yield None
            else:
                yield from self._spans(chosen)

    def _spans(self, chosen: ChosenTransactions) -> Iterator[StreamBatch]:
        try:
            for span in self._decoding.decode(chosen, statements_of(chosen, self._wanted)):
                if span:
                    self.unreadable_rows += sum(rows.batch.num_rows for rows in span.unreadable)
                    yield span
        except _PASSABLE as error:
            self.stopped_at = self._position_of(error, chosen)
            if self.stopped_at is not None and "--from" not in (error.remedy or ""):
                error.remedy = (
                    f"{error.remedy or ''} To skip it, continue after its transaction, with the same options otherwise:"
                    f" `strata stream --source {self._request.source.name} --from {word(self.stopped_at.after_text)}`."
                ).strip()
            raise

    def _position_of(self, error: StrataError, chosen: ChosenTransactions) -> StreamTransaction | None:
        """The transaction of an error, by its GTID; where transactions have none, by the decoder's ordinal."""
        if error.gtid is None:
            return chosen.transactions.get(self._decoding.failed_seq)
        return next((given for given in chosen.transactions.values() if given.gtid == error.gtid), None)


def statements_of(chosen: ChosenTransactions, wanted: StreamFilter) -> list[Ddl]:
    """Returns the statements that the reader wants, in order, also those that the reader has.

    Args:
        chosen: The transactions.
        wanted: The tables and databases that the reader wants.

    Raises:
        CorruptEventError: A statement cannot be read.
    """
    transactions = chosen.transactions
    return [
        Ddl(
            transactions[schema_change.seq],
            schema_change.statement,
            schema_change.number,
            tuple(sorted(map(str, schema_change.tables))),
            schema_change.version,
            schema_change.tables,
        )
        for schema_change in chosen.changes.schema_changes()
        if _is_wanted(schema_change, wanted)
    ]


def _is_wanted(change: SchemaChange, wanted: StreamFilter) -> bool:
    if not any(map(wanted.database, change.databases)):
        return False
    return wanted.everything or any(map(wanted.table, change.tables))
