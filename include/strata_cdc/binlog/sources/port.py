"""The change source: the transactions of one stream in order, with the bytes that they are in. A reader does not
know whether the source is files, landed segments or a live server.
Not here: the kinds (`files.py`, `landing/change_source.py`, `live.py`), what readers do with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from strata_cdc.binlog.events.transactions import ddl_events, table_maps
from strata_cdc.binlog.sources.file_start import FileStart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strata_cdc.binlog.bytes.chain import EventChain
    from strata_cdc.binlog.bytes.files import BinlogFile
    from strata_cdc.binlog.events.batch import TransactionBatch
    from strata_cdc.binlog.events.model import TableMap, TransactionRecord
    from strata_cdc.binlog.events.salvage import Damage
    from strata_cdc.binlog.events.transactions import Statement
    from strata_cdc.position.binlog_position import BinlogPosition


class Transactions(Struct, frozen=True):
    """Complete consecutive transactions of one file."""

    batch: TransactionBatch
    """Its offsets are those of `bytes()`, its positions those of the server's file."""
    bytes: Callable[[], BinlogFile]
    """Opens the bytes of the transactions, if they are not open; call it before the next item is read."""
    chain: Callable[[], EventChain]
    """Where the events of the batch must lie in the server's file, for readers that scan them: their rows are what
    `decode_blocks` (`changes/decode.py`) gives of the range from the first one's `begin` to the last one's `end`."""
    first_seq: int = 0
    """The batch may begin with transactions that the reader did not request: those below this ordinal."""
    is_landed: bool = False
    """Whether the ordinals are those of the landed stream. Else they count what this source has yielded, from 1."""

    @property
    def is_quiet(self) -> bool:
        """Whether all were requested, and they have only rows."""
        return self.batch.first_seq >= self.first_seq and self.batch.is_quiet()

    def records(self) -> Iterator[TransactionRecord]:
        """The requested transactions, one by one."""
        return (record for record in self.batch.records() if record.seq >= self.first_seq)

    def statements(self, record: TransactionRecord) -> Iterator[Statement]:
        """The statements of one of them; the bytes are opened only if it has any.

        Raises:
            CorruptEventError: The bytes are not those that the batch is of.
        """
        if record.ddl_offsets:
            yield from ddl_events(self.bytes(), record)

    def table_maps(self, record: TransactionRecord) -> Iterator[TableMap]:
        """The first TABLE_MAPs of one of them.

        Raises:
            CorruptEventError: One is damaged.
        """
        yield from table_maps(self.bytes(), record)


class LostBytes(Struct, frozen=True):
    """Bytes that cannot be read, in order; a source yields them only if it is to continue after damage."""

    damage: Damage
    binlog_pos: int
    """Where they begin in the server's file."""
    end_pos: int


class NothingNew(Struct, frozen=True):
    """Nothing complete has arrived for now; only from a live server."""

    after_head: BinlogPosition | None = None
    """Where the transactions of a file begin, once the server has sent everything before them."""


class FileEnd(Struct, frozen=True):
    """The file or segment has ended."""

    end_pos: int
    """Its end in the server's file."""


Item = FileStart | Transactions | LostBytes | NothingNew | FileEnd


class ChangeSource(Protocol):
    """A source of the transactions of one stream of changes.

    `tests/binlog/test_change_sources.py` is the contract: over files, landed segments and a live server, the same
    history gives the same transactions, statements and rows.

    Slices are another way to cut the same stream: they are planned from the batches of landed segments
    (`changes/plan.py`), and their bytes are decoded by tasks that share nothing, so they need no source.

    What an update stream needs besides, which begins in landed segments and continues on the live server:

    - `LandedSource` up to its end, then `LiveSource` from `LandedStream.executed()` on: nothing is lost at the
      handover, because the second is requested by the GTID set that the first has reached. If the server has purged
      what comes next, it has to land, and the stream continues in the segments. Without GTIDs, FILE:OFFSET replaces
      the set.
    - The position after each transaction as an event token (`position/token.py`): the source's name, `executed` with
      the transaction's GTID added, its commit time, the server's lineage. Only a reader from the start has that set.
    - Ordinals: a live source counts from 1; after the handover, add the last ordinal that has landed.
    - The definitions that were true: `History` over the store up to what is tracked, and after it a `Tracker` that
      is fed with the same items. DDL comes before the rows that need it.
    - Prepared transactions: rows of XA PREPARE count with their XA COMMIT, which may come from the other source
      (`landing/prepared.py`).
    """

    def read_items(self) -> Iterator[Item]:
        """From where the source was opened to its end; a live server has none.

        FileStart, then what is in the file, then FileEnd, and so on. Request each item when the one before is done.

        Raises:
            CorruptEventError: After everything before the fault.
            StrataError: The source does not exist, or is not a binlog.
        """
