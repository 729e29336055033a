"""What a stream reads: a source from where a reader begins. The stream itself does not know what the source's log is.
Not here: what transactions have done (`changes/port.py`), the binlog's way to give it (`binlog_stream.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from strata_cdc.changes.port import TransactionChanges
    from strata_cdc.position.port import Executed
    from strata_cdc.position.source_position import SourcePosition
    from strata_cdc.schema.model.definition import TableDefinition, TableName
    from strata_cdc.streams.transactions import StreamTransactions


class ChosenTransactions(Struct, frozen=True):
    """Some consecutive transactions of a source, those that are for a reader."""

    changes: TransactionChanges
    transactions: StreamTransactions
    given: Mapping[int, int]
    """How many steps of a transaction the reader already has, by ordinal."""


class SourceStream(Protocol):
    """One source, read once by one reader, from where the reader begins to where he ends."""

    @property
    def folds_names(self) -> bool:
        """Whether the server ignores the case of names."""

    @property
    def position(self) -> SourcePosition:
        """The position up to which everything has been read."""

    @property
    def executed(self) -> Executed | None:
        """All transactions up to there, if they have GTIDs."""

    @property
    def last_commit(self) -> int:
        """When the last transaction that was looked at was committed, by its server's clock (microseconds UTC); 0: not
        known."""

    @property
    def tracked_from(self) -> Executed | None:
        """How far the source has been read and tracked; None once that has reached the reader's begin."""

    def read_transactions(self) -> Generator[ChosenTransactions | None]:
        """Yields the transactions, in order; and None after each item of the source, also if nothing comes.

        `position` is after some transactions once what follows them is requested: until then they may be incomplete.

        Raises:
            StrataError: After everything before the fault.
        """

    def close(self) -> None:
        """Closes its connections."""

    def definition(self, table: TableName, seq: int | None) -> TableDefinition:
        """Returns the definition of a table for the rows of a transaction that has been read; with None, of the last
        one.

        Raises:
            SchemaGapError: It is not known.
        """
