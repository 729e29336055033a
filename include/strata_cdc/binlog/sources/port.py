"""The change source: the transactions of one stream in order, with the bytes that they are in. Who reads one does not
know whether files, landed segments or a live server stand behind it.
Not here: the kinds (`files.py`, `landing/change_source.py`, `live.py`), what readers make of it."""

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
    """Whole transactions of one file, one behind the other."""

    batch: TransactionBatch
    """Its offsets are those of `bytes()`, its positions those of the server's file."""
    bytes: Callable[[], BinlogFile]
    """Opens what the transactions lie in, if nobody has yet; to be asked before the source is asked for more."""
    chain: Callable[[], EventChain]
    """Where the events of the batch must lie in the server's file, for who walks over them: their rows are what
    `rows.decode.decode_blocks` gives of the range from the first one's `begin` to the last one's `end`."""
    first_seq: int = 0
    """The batch may begin with transactions that the reader did not ask for; those below this ordinal."""
    is_landed: bool = False
    """Whether the ordinals are those of the landed stream. Else they count what this source has given, from 1."""

    @property
    def is_quiet(self) -> bool:
        """Whether all were asked for, and rows are all that they have."""
        return self.batch.first_seq >= self.first_seq and self.batch.is_quiet()

    def records(self) -> Iterator[TransactionRecord]:
        """Those that were asked for, one by one."""
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


class Lost(Struct, frozen=True):
    """Bytes that cannot be read, in their place; a source gives them only if it was asked to go on behind damage."""

    damage: Damage
    binlog_pos: int
    """Where they begin in the server's file."""
    end_pos: int


class Waiting(Struct, frozen=True):
    """Nothing whole has come for now; only from a live server."""

    behind_head: BinlogPosition | None = None
    """Where the transactions of a file begin, once the server has sent all that is in front of them."""


class FileEnd(Struct, frozen=True):
    """The file or segment is over."""

    end_pos: int
    """Its end in the server's file."""


Item = FileStart | Transactions | Lost | Waiting | FileEnd


class ChangeSource(Protocol):
    """What gives the transactions of one source of changes.

    `tests/binlog/test_change_sources.py` is the contract: over files, landed segments and a live server, the same
    life gives the same transactions, statements and rows.

    Slices are another way to cut the same stream: they are planned from the batches of landed segments
    (`changes/plan.py`), and their bytes are decoded by tasks that share nothing, so they need no source.

    What an update stream needs besides, which begins in landed segments and goes over to the live server:

    - `LandedSource` up to its end, then `LiveSource` from `LandedStream.executed()` on: the two have no seam, because
      the second is asked by the GTID set that the first has come to. If the server has purged what comes next, it has
      to land, and the stream goes on in the segments. Without GTIDs, FILE:OFFSET stands in the place of the set.
    - The place behind each transaction as an event token (`position/token.py`): the source's name, `executed` with the
      transaction's GTID added, its commit time, the server's lineage. Only who reads from the start has that set.
    - Ordinals: a live source counts from 1; who goes over adds the last one that has landed.
    - The definitions that were true: `History` over the store up to what is tracked, and behind it a `Tracker` that
      is fed with the same items. DDL comes in front of the rows that need it.
    - Prepared transactions: rows of XA PREPARE count with their XA COMMIT, which may come from the other source
      (`landing/prepared.py`).
    """

    def read(self) -> Iterator[Item]:
        """From where the source was opened to its end; a live server has none.

        FileStart, then what is in the file, then FileEnd, and so on. Ask for each item when the one before is done.

        Raises:
            CorruptEventError: After everything before the fault.
            StrataError: What stands behind it is not there, or is not a binlog.
        """
