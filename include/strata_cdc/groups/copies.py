"""Copies: which transactions of a new source are what an old one has given, and which may be.
Not here: where new sources begin (`hops.py`), leaving transactions out of pieces (`pieces.py`).

Filtered replication of MySQL copies a transaction with its GTID. Other copiers write what they copy in transactions of
their own, and keep the old source's GTID set in a row of these (Vitess: `_vt.blp_checkpoint.pos`, `_vt.vreplication`).
What such a row has more than its before image is what the transaction copies.
"""

from __future__ import annotations

from enum import Enum
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from strata_cdc.changes.decode import ChangeBatch
from strata_cdc.errors import InvalidGtidSetError, SourceSettingsError
from strata_cdc.position.sets import GtidSet
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.streams.decoding import StreamBatch, row_seqs
from strata_cdc.streams.events import RowChange
from strata_cdc.streams.rendering import Rendering
from strata_cdc.streams.unreadable import UnreadableRows

if TYPE_CHECKING:
    from strata_cdc.binlog.protocol.server_clocks import Clocks
    from strata_cdc.groups.path import Path
    from strata_cdc.groups.pieces import SpanTransactions

Batch = TypeVar("Batch", ChangeBatch, UnreadableRows)


class CopyKind(Enum):
    """What a transaction of a new source is."""

    COPY = "copy"
    """All of it was given by an old source."""
    NEW = "new"
    """None of it was."""
    PARTLY = "partly"
    """The copier put several transactions into one, and some of these were."""


class PositionColumn:
    """The column in which a copier keeps the position of what it copies."""

    def __init__(self, text: str) -> None:
        """Takes `database.table.column`."""
        self.table, _, self.name = text.rpartition(".")
        self._folded = fold_name(self.table)

    def is_in(self, batch: ChangeBatch | UnreadableRows) -> bool:
        """Whether some rows are of its table."""
        return fold_name(str(batch.table)) == self._folded

    def read(self, rows: UnreadableRows) -> ChangeBatch:
        """Rows of its table of which other columns cannot be read.

        Raises:
            StrataError: It is this column: nobody knows what a transaction copies.
        """
        left = rows.of_columns({self.name.casefold()})
        if not left.is_readable.all():
            raise left.chosen(~left.is_readable).error()
        return rows.as_changes()

    def copied(self, change: RowChange) -> GtidSet:
        """What a change of its row says that the transaction copies.

        Raises:
            SourceSettingsError: The column has something else than a GTID set.
        """
        before, after = self._position(change.before), self._position(change.after)
        return after - before

    def _position(self, image: dict[str, Any] | None) -> GtidSet:
        value = next((found for name, found in (image or {}).items() if fold_name(name) == fold_name(self.name)), None)
        if value is None:
            return GtidSet()
        text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
        try:
            # Vitess writes the flavour in front: MySQL56/UUID:1-77.
            return GtidSet.parse(text.rpartition("/")[2])
        except InvalidGtidSetError:
            raise SourceSettingsError(
                f"{self.table}.{self.name} has something else than the GTID set of what was copied",
                table=self.table,
                remedy="`source_gtid_column` of the group names the column; docs/groups.md.",
            ) from None


class Copies:
    """Tells the copies of one group's new sources."""

    def __init__(self, path: Path, clocks: Clocks, column: str | None) -> None:
        """Takes the way over the hops, the servers' clocks, and `database.table.column` of the copier's positions, if
        there is one."""
        self._path, self._clocks, self._column = path, clocks, None if column is None else PositionColumn(column)
        self._rendering = Rendering()
        self._held: dict[str, list[StreamBatch]] = {}
        self._known: dict[str, dict[int, GtidSet]] = {}
        """By source and ordinal: what transactions copy."""

    def take(self, source: str, span: StreamBatch) -> list[StreamBatch]:
        """Takes a span; returns those that are whole. The copier's row may be the last one of a transaction: until it
        has come nobody knows what the transaction is.

        Args:
            source: The source.
            span: What has come of it.

        Raises:
            StrataError: As `PositionColumn.copied` and `PositionColumn.read`.
        """
        column = self._column
        if column is None:
            return [span]
        known = self._known.setdefault(source, {})
        held = self._held.setdefault(source, [])
        if not held:
            known.clear()
        rows, span.batches = _parted(span.batches, column)
        unread, span.unreadable = _parted(span.unreadable, column)
        if self._path.hop_to(source) is None:
            return [span] if span else []
        rows += map(column.read, unread)
        for change in self._rendering.events(StreamBatch(span.places, rows)):
            if isinstance(change, RowChange):
                known[change.seq] = known.get(change.seq, GtidSet()) | column.copied(change)
        held.append(span)
        if _is_inside(span, rows):
            return []
        self._held[source] = []
        return [one for one in held if one]

    def is_holding(self, source: str) -> bool:
        """Whether something of a source has come, and nobody knows what it is."""
        return bool(self._held.get(source))

    def sort_out(self, source: str, piece: SpanTransactions) -> None:
        """Leaves the copies out of a piece, and marks what may be one."""
        hop = self._path.hop_to(source)
        if hop is None:
            return
        piece.epoch, given = self._path.number(hop), self._path.copied(source)
        is_copy = piece.held_by(given)
        until = None if hop.copied_until is None else self._clocks.latest(source, hop.copied_until)
        may_be_copy = hop.may_be_copies(piece.times, until)
        for seq, copied in self._known.get(source, {}).items():
            # It says itself what it is.
            at = np.flatnonzero(piece.seqs == seq)
            kind = _kind(copied, given)
            if kind is not None:
                is_copy[at] |= kind is CopyKind.COPY
                may_be_copy[at] = kind is CopyKind.PARTLY
        piece.may_be_copy = may_be_copy
        piece.leave_out(is_copy)


def _kind(copied: GtidSet, given: GtidSet) -> CopyKind | None:
    """What a transaction is that copies some others, of which some were given; None: it copies none."""
    if not copied:
        return None
    rest = copied - given
    if not rest:
        return CopyKind.COPY
    return CopyKind.NEW if rest == copied else CopyKind.PARTLY


def _parted(batches: list[Batch], column: PositionColumn) -> tuple[list[Batch], list[Batch]]:
    mine = [batch for batch in batches if column.is_in(batch)]
    return mine, [batch for batch in batches if not column.is_in(batch)]


def _is_inside(span: StreamBatch, rows: list[ChangeBatch]) -> bool:
    """Whether a span ends inside of a transaction."""
    begun = [int(row_seqs(batch).max()) for _, batch in span.rows]
    begun += [int(row_seqs(batch.batch).max()) for batch in rows]
    begun += [one.place.record.seq for one in span.ddl]
    return reduce(max, begun, 0) > reduce(max, (place.record.seq for place in span.commits), 0)
