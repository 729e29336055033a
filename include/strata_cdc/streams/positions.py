"""Where a stream begins and ends: what people write, and which transactions of a batch it means.
Not here: reading from there (`live_handover.py`)."""

from __future__ import annotations

import re
from datetime import datetime
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Final, Self

import numpy as np
from msgspec import Struct

from strata_cdc.binlog.events.batch import gtid_spans
from strata_cdc.binlog.protocol.server_now import ServerNow
from strata_cdc.clock import from_micros, to_micros
from strata_cdc.config.source_kinds import no_position
from strata_cdc.errors import InvalidGtidSetError, Usage
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.commit_ts import COMMIT_STEP, CommitStep, refuse_commit_ts
from strata_cdc.position.domains import DomainSet
from strata_cdc.position.executed import NOTHING, is_executed, parse_executed
from strata_cdc.position.file_position import FilePosition
from strata_cdc.position.port import Executed
from strata_cdc.position.sets import DomainWriter
from strata_cdc.position.source_position import PartialTransaction, SourcePosition
from strata_cdc.position.token_text import from_text
from strata_cdc.time_text import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.binlog.events.batch import TransactionBatch
    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.changes.port import TransactionColumns
    from strata_cdc.position.port import Position
    from strata_cdc.position.sets import Gtid, Span, Writer
    from strata_cdc.position.token import Token

    Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d([T ].*)?")
_FORMS: Final = "beginning, now, landed, a token, a time as in `2026-11-21 03:30:00` (UTC), FILE:OFFSET or a GTID set"
_FILE: Final = re.compile(r"[^:,\s]+\.\d+:\d+")


class Edge(Enum):
    """A position that is given by a word."""

    BEGINNING = "beginning"
    """The first transaction that is available."""
    NOW = "now"
    """After everything that the server has executed when the stream is opened."""
    LANDED = "landed"
    """After everything that has landed when the stream is opened; it needs no server."""


ServerBound = Edge | SourcePosition | Executed | BinlogPosition | datetime
"""A position in the stream of a server."""
Bound = ServerBound | CommitStep
"""As an end, a time is exclusive: a stream can begin with the first transaction at or after the time, but ends before
it."""
StreamStart = Bound | ServerNow
"""Where a stream may begin: `now` may have been requested before the stream was opened."""


def parse_bound(text: str, source: str, lineage: str = "", *, is_sink: bool = False) -> Bound:
    """Reads `beginning`, `now`, `landed`, a token, a time, FILE:OFFSET, a commit timestamp of TiDB or a GTID set.

    Args:
        text: What the user wrote.
        source: Name of the source; a token must be of this source.
        lineage: Lineage of the source.
        is_sink: Whether the source is the folder of a TiCDC sink, which has no GTIDs.

    Raises:
        InvalidTokenError: The text looks like a token, but is not a token, or is damaged.
        InvalidGtidSetError: The text is none of these.
        Usage: The token is of another source or of another history of the source, or the text is not a time.
    """
    text = text.strip()
    if text in {edge.value for edge in Edge}:
        return Edge(text)
    if re.match(r"v\d+\.", text):
        return position_of(from_text(text), source, lineage)
    if _TIME.fullmatch(text):
        return from_micros(parse_time(text))
    if _FILE.fullmatch(text):
        return BinlogPosition.parse(text)
    if COMMIT_STEP.fullmatch(text):
        if not is_sink:
            raise refuse_commit_ts(text, _FORMS, source)
        return CommitStep.parse(text)
    return _executed_of_sink(text, source) if is_sink else parse_executed(text)


def _executed_of_sink(text: str, source: str) -> Executed:
    """A GTID set, which is refused later; what is none is no position of a sink.

    Raises:
        Usage: It is none.
    """
    try:
        return parse_executed(text)
    except InvalidGtidSetError:
        raise no_position(source, f"{text!r} is no position") from None


def position_of(token: Token, source: str, lineage: str = "") -> SourcePosition:
    """Returns the position of a source in a token.

    Raises:
        Usage: The token does not name the source, or is of another history of the source.
    """
    positions = [position for position in token.positions if position.source == source]
    if not positions:
        named = ", ".join(position.source for position in token.positions) or "no source"
        raise Usage(
            f"the token is of {named}, not of {source}",
            source=source,
            remedy="`strata token show TOKEN` shows what is in it.",
        )
    if positions[0].lineage != lineage:
        raise Usage(
            f"the token is of another history of the source: its lineage is {positions[0].lineage!r}, and that of the "
            f"settings is {lineage!r}",
            source=source,
            remedy="Its transactions are not in this stream. Begin with `--from beginning`, or at a time.",
        )
    return positions[0]


class HeldTransactions:
    """Which transactions of a batch are in a GTID set."""

    def __init__(self, executed: Executed) -> None:
        self._executed = executed
        self._spans: dict[Writer | DomainWriter, np.ndarray[tuple[int, ...], np.dtype[np.int64]]] = {}

    def mask(self, batch: TransactionColumns) -> Mask:
        """Returns a value for each transaction of a batch."""
        mask = np.zeros(len(batch), np.bool_)
        for number, sid in enumerate(batch.sids):
            if sid not in self._spans:
                self._spans[sid] = np.array(self._executed.spans_of(sid), np.int64)
            spans = self._spans[sid]
            if len(spans):
                at = np.searchsorted(spans[:, 0], batch.numbers, "right") - 1
                mask |= (batch.sid_numbers == number) & (at >= 0) & (batch.numbers <= spans[at, 1])
        return mask


def gtid_spans_of(batch: TransactionColumns, rows: Ints) -> Iterator[tuple[Writer, Span]]:
    """Yields the GTIDs of some transactions of a batch as spans of each server's numbers."""
    return gtid_spans(batch.sids, batch.sid_numbers[rows], batch.numbers[rows])


class Begin(Struct, frozen=True, dict=True):
    """Which transactions of a stream come after the position where a reader begins. At most one of `time`, `at` and
    `executed` is set; if none is, every transaction that comes is after the position."""

    time: int | None = None
    """Those that were committed at this time or later (microseconds UTC)."""
    at: BinlogPosition | None = None
    """Those that begin at this position or after it."""
    executed: Executed | None = None
    """Those that are not in this set."""
    parts: tuple[PartialTransaction, ...] = ()
    """Transactions of which the reader has a part: the rest of each comes."""

    @classmethod
    def from_bound(cls, bound: SourcePosition | Executed | BinlogPosition | datetime | None) -> Self:
        """Makes it from a position; None if every transaction that comes is after the position."""
        match bound:
            case SourcePosition():
                at, executed = _at_or_executed(bound.position)
                return cls(None, at, executed, bound.parts)
            case datetime():
                return cls(to_micros(bound))
            case BinlogPosition():
                return cls(None, bound)
            case _:
                return cls(None, None, bound)

    @cached_property
    def _held(self) -> HeldTransactions:
        return HeldTransactions(self.executed or NOTHING)

    def rows(self, batch: TransactionBatch, first: int, stop: int) -> Ints:
        """Returns which rows of a batch are to be yielded, of those from `first` to the last before `stop`."""
        rows = np.arange(first, stop)
        if self.time is not None:
            return rows[batch.committed_at[first:stop] >= self.time]
        if self.at is not None:
            return rows[first_at(batch.positions[first:stop], batch, self.at) :]
        if self.executed is None:
            return rows
        return rows[~self._held.mask(batch)[first:stop]]

    def steps_given(self, batch: TransactionBatch) -> dict[int, int]:
        """Returns how many steps the reader already has, by ordinal, of the transactions of a batch that are not new to
        the reader."""
        steps: dict[int, int] = {}
        for part in self.parts:
            rows = _rows_of(batch, part.transaction)
            steps |= dict.fromkeys((rows + batch.first_seq).tolist(), part.steps)
        return steps


class End(Struct, frozen=True):
    """Where a stream ends; one of the fields is set."""

    time: int | None = None
    """Before what was committed at this time or later (microseconds UTC)."""
    seq: int | None = None
    """After the transaction with this ordinal."""
    at: BinlogPosition | None = None
    """After the last transaction that begins before this position."""
    executed: Executed | None = None
    """When the reader has everything of this set."""

    @classmethod
    def from_bound(cls, bound: SourcePosition | Executed | BinlogPosition | datetime | int) -> Self:
        """Makes it from a position; a number is the ordinal of the last transaction."""
        match bound:
            case SourcePosition():
                at, _ = _at_or_executed(bound.position)
                return cls(None, None, at, bound.executed())
            case datetime():
                return cls(to_micros(bound))
            case int():
                return cls(None, bound)
            case BinlogPosition():
                return cls(None, None, bound)
            case _:
                return cls(None, None, None, bound)

    def stop(self, batch: TransactionBatch, first: int, had: Executed) -> int | None:
        """Returns where the end is in a batch.

        Args:
            batch: Some transactions.
            first: Row of the first that the reader does not have.
            had: What the reader has before that transaction.

        Returns:
            The row after the last one that is yielded, or None if the stream continues after the batch.
        """
        if self.executed is not None:
            return _stop_by_set(self.executed - had, batch, first)
        count = len(batch) - first
        if self.seq is not None:
            given = max(self.seq + 1 - batch.first_seq - first, 0)
            return first + given if given <= count else None
        unwanted, last = self._edges(batch, first)
        return first + min(unwanted, last + 1) if min(unwanted, last) < count else None

    def _edges(self, batch: TransactionBatch, first: int) -> tuple[int, int]:
        """The first transaction that is not yielded, and the first one with which the stream can end, counted from row
        `first`."""
        if self.at is None:
            return _first(batch.committed_at[first:] >= (self.time or 0)), len(batch) - first
        begins = batch.positions[first:]
        ends = begins + batch.ends[first:] - batch.begins[first:]
        return first_at(begins, batch, self.at), first_at(ends, batch, self.at)

    def is_reached(self, seq: int, had: Executed, at: BinlogPosition | None) -> bool:
        """Whether nothing more is to come after a position, as far as the position shows this.

        Args:
            seq: Ordinal of the last transaction that has been read.
            had: What the reader has.
            at: The position in the server's files, if the stream is by file and offset.
        """
        if self.executed is not None:
            return self.executed <= had
        if self.at is not None:
            return at is not None and at >= self.at
        return self.seq is not None and seq >= self.seq


def _stop_by_set(missing: Executed, batch: TransactionBatch, first: int) -> int | None:
    """The row after the one with which the set is complete; the row itself, if it shows that numbers of the set were
    skipped (MariaDB)."""
    held = HeldTransactions(missing).mask(batch)[first:]
    if not isinstance(missing, DomainSet):
        last = _first(np.cumsum(held) >= missing.count())
        return first + last + 1 if last < len(held) else None
    last = _first(_left_of_domains(missing, batch, first) <= 0)
    return first + last + int(held[last]) if last < len(held) else None


def _left_of_domains(missing: DomainSet, batch: TransactionBatch, first: int) -> Ints:
    """How many numbers of a position are still to come after each row of a batch: all below one that has come are
    not."""
    domains = np.array([sid.domain if isinstance(sid, DomainWriter) else -1 for sid in batch.sids], np.int64)
    domain, numbers = domains[batch.sid_numbers[first:]], batch.numbers[first:]
    left = np.zeros(len(numbers), np.int64)
    for known in missing.ranges:
        newest = np.maximum.accumulate(np.where(domain == known.domain, numbers, 0))
        left += known.last - np.clip(newest, known.first - 1, known.last)
    return left


def _at_or_executed(position: Position) -> tuple[BinlogPosition | None, Executed | None]:
    """The two ways to identify the transactions of a batch: by where they begin, or by their GTIDs."""
    match position:
        case FilePosition():
            return position.at, None
        case _ if is_executed(position):
            return None, position
        case _:
            raise TypeError(f"a stream cannot begin at {type(position).__name__}")


def _rows_of(batch: TransactionBatch, transaction: Gtid | BinlogPosition | CommitStep) -> Ints:
    """Which rows of a batch are a given transaction."""
    if isinstance(transaction, CommitStep):
        return np.empty(0, np.int64)
    if isinstance(transaction, BinlogPosition):
        if transaction.file_number != BinlogPosition.from_offset(batch.binlog_file, 0).file_number:
            return np.empty(0, np.int64)
        return np.flatnonzero(batch.positions == transaction.offset)
    if transaction.sid not in batch.sids:
        return np.empty(0, np.int64)
    mine = batch.sid_numbers == batch.sids.index(transaction.sid)
    return np.flatnonzero(mine & (batch.numbers == transaction.gno))


def first_at(offsets: Ints, batch: TransactionBatch, at: BinlogPosition) -> int:
    """Returns the first of some ascending offsets in a batch's file that is at a position or after it; if there is
    none, the number of offsets."""
    file = BinlogPosition.from_offset(batch.binlog_file, 0)
    if file.file_number != at.file_number:
        return 0 if file.file_number > at.file_number else len(offsets)
    return int(np.searchsorted(offsets, at.offset))


def _first(mask: Mask) -> int:
    """The first index that is true; if there is none, the number of values."""
    return int(mask.argmax()) if mask.any() else len(mask)
