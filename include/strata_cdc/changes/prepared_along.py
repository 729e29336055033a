"""Prepared transactions of a stream. Their rows are yielded at the position of their XA COMMIT, and are read from where
their XA PREPARE was.
Not here: reading XA steps (`binlog/events/xa.py`), slices of what has landed (`landing/prepared.py`)."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.binlog.bytes.files import BinlogFile, open_extents
from strata_cdc.binlog.events.model import XaStep
from strata_cdc.binlog.events.xa import UndecidedTransactions
from strata_cdc.changes.plan import Range
from strata_cdc.errors import LakeUnavailableError, StreamHoleError
from strata_cdc.files.storage import require_room

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    import numpy.typing as npt

    from strata_cdc.binlog.events.model import TransactionRecord
    from strata_cdc.binlog.sources.port import Transactions
    from strata_cdc.landing.landed import LandedStream

_IN_MEMORY: Final = 16 << 20
"""Bytes of a prepared transaction; a larger one is kept in a temporary file."""
_MARGIN: Final = 64


class PreparedRows(Struct, frozen=True):
    """Where the rows of a prepared transaction are, for the XA COMMIT that commits them."""

    open: Callable[[], AbstractContextManager[BinlogFile]]
    range: Range


class _KeptTransaction(Struct, frozen=True):
    record: TransactionRecord
    """Its offsets are offsets in the file of `url` or `binlog`."""
    url: str | None
    binlog: BinlogFile | None


class PreparedAlong:
    """The prepared transactions that are undecided at a position of a stream."""

    def __init__(self, landed: LandedStream, after_seq: int) -> None:
        """Begins with those that are undecided after a landed transaction."""
        self._undecided = landed.undecided_at(after_seq) if landed.segments else UndecidedTransactions()
        self._empty = self._undecided.empty()
        self._kept: dict[int, _KeptTransaction] = {}
        for prepared in self._undecided.prepared():
            if prepared.seq >= landed.first_seq:
                segment, record = landed.record_at(prepared.seq)
                self._kept[prepared.seq] = _KeptTransaction(record, segment.url, None)

    def apply(self, item: Transactions, record: TransactionRecord) -> PreparedRows | None:
        """Takes the next transaction with an XA mark; returns the rows that take effect with it.

        Raises:
            StreamHoleError: It commits a transaction that is no longer in the stream.
        """
        if record.mark is None:
            return None
        ended = self._undecided.apply(record.seq, record.mark)
        before = None if ended is None else self._kept.pop(ended, None)
        if record.mark.step is XaStep.PREPARE:
            self._kept[record.seq] = _keep(item, record)
            return None
        if record.mark.step is XaStep.ROLLBACK or (before is None and ended in self._empty):
            return None
        if before is None:
            raise StreamHoleError(
                f"{record.mark} has no XA PREPARE in the stream, which begins after it: rows are missing",
                gtid=str(record.gtid) if record.gtid else None,
                file=record.binlog_file,
                offset=record.binlog_pos,
                remedy="Begin before its XA PREPARE, if that can still be read.",
            )
        return _rows_of(before, record)


def _keep(item: Transactions, record: TransactionRecord) -> _KeptTransaction:
    binlog = item.bytes()
    if item.is_landed:
        return _KeptTransaction(record, binlog.path, None)
    # What a server has sent is freed with the next item, so it is copied; before the copy there is space, as in a file.
    parts = np.zeros(_MARGIN, np.uint8), binlog.buffer[record.begin : record.end]
    size = sum(map(len, parts))
    buffer = np.concatenate(parts) if size <= _IN_MEMORY else _in_file(parts, size)
    moved = replace(record, begin=_MARGIN, end=size)
    return _KeptTransaction(moved, None, BinlogFile(binlog.path, buffer, binlog.format, None))


def _in_file(parts: Iterable[npt.NDArray[np.uint8]], size: int) -> npt.NDArray[np.uint8]:
    """The same bytes, `size` of them, in a nameless file.

    Raises:
        LakeUnavailableError: The folder for temporary files is full.
    """
    try:
        require_room(tempfile.gettempdir(), size)
        with tempfile.NamedTemporaryFile(prefix="strata-") as file:
            # Written before it is mapped: where a mapped page finds no space, the process is killed.
            for part in parts:
                file.write(part.data)
            file.flush()
            return np.memmap(file.name, np.uint8, "r+", shape=(size,))
    except OSError as error:
        raise LakeUnavailableError(
            f"a large prepared transaction cannot be kept until its XA COMMIT: {error}",
            remedy="Free some space there, or set TMPDIR to another folder.",
        ) from error


def _rows_of(kept: _KeptTransaction, commit: TransactionRecord) -> PreparedRows:
    prepared = kept.record

    @contextmanager
    def opened() -> Iterator[BinlogFile]:
        if kept.binlog is not None:
            yield kept.binlog
        elif kept.url is not None:
            with open_extents(kept.url, [(prepared.begin, prepared.end)]) as binlog:
                yield binlog

    return PreparedRows(opened, Range.of_prepared(prepared, commit))
