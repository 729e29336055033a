"""Rows that were rolled back, and that MariaDB's binlog has all the same.

If a transaction has also changed a table without transactions, or has taken a number of a sequence, MariaDB does not
cut undone rows from its binlog: the group of events has SAVEPOINT and ROLLBACK TO with the rows between them, or ends
with ROLLBACK (sql/log.cc, `binlog_savepoint_rollback`, `binlog_rollback`). Tables without transactions have groups of
their own, so all rows in between are undone. MySQL cuts them.
Not here: the walks, which pass over them (`scanner.py`, `changes/windows.py`).
"""

from __future__ import annotations

import re
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

import numpy as np

from strata_cdc.binlog.bytes.codes import COMPRESSED_EVENTS, HEADER_BYTES, ROW_EVENTS, EventType
from strata_cdc.binlog.bytes.frames import EventIndex, index_events, next_of_types
from strata_cdc.binlog.events.model import Query
from strata_cdc.binlog.events.parse import parse_event
from strata_cdc.binlog.kernels import status as codes
from strata_cdc.errors import StrataError
from strata_cdc.flavour import Vendor

if TYPE_CHECKING:
    from strata_cdc.binlog.bytes.files import BinlogFile
    from strata_cdc.binlog.bytes.format import FormatDescription
    from strata_cdc.binlog.kernels.arrays import Bytes, Ints

_STATEMENT: Final = re.compile(rb"(SAVEPOINT|ROLLBACK TO|RELEASE SAVEPOINT) `(.*)`|ROLLBACK", re.IGNORECASE | re.DOTALL)
"""As the server writes them."""
_OF_ROWS: Final = tuple(
    ROW_EVENTS
    | {EventType.TABLE_MAP, EventType.PARTIAL_ROW_DATA}
    | (COMPRESSED_EVENTS.keys() - {EventType.QUERY_COMPRESSED})
)
_MATTERS: Final = np.isin(np.arange(256), (EventType.DOMAIN_GTID, EventType.QUERY, EventType.QUERY_COMPRESSED)).astype(
    np.uint8
)
"""Which types of events end a group, or may say that its rows are undone."""
_FIRST_LOOK: Final = 16
"""Events; most transactions have fewer. The look ahead is doubled each time."""

_FIRST_LOOK_BYTES: Final = 64 << 10
"""The same of a file whose bytes are on an object store."""

Point = TypeVar("Point")


class Undo(Enum):
    """What a statement does to the rows of its transaction."""

    SAVEPOINT = b"SAVEPOINT"
    ROLLBACK_TO = b"ROLLBACK TO"
    RELEASE = b"RELEASE SAVEPOINT"
    ROLLBACK = b"ROLLBACK"


class UndoStatement(NamedTuple):
    """A statement about rows that are undone, or that may be."""

    event: int
    """Its event's number in the index."""
    undo: Undo
    name: str
    """Of the savepoint, folded: servers compare names without case."""


def has_undone_rows(form: FormatDescription) -> bool:
    """Whether a file may have rows that were undone: MariaDB wrote it."""
    return form.flavour.vendor is Vendor.MARIADB


def undo_statements(buffer: Bytes, index: EventIndex, count: int, form: FormatDescription) -> list[UndoStatement]:
    """The statements about undone rows among the first `count` events of a file for which `has_undone_rows` holds.

    A statement that cannot be read is none of them: the walk over the events reports it.
    """
    statements: list[UndoStatement] = []
    for at in _candidates(buffer, index, count):
        query: object = None
        with suppress(StrataError):
            query = parse_event(buffer, int(index.positions[at]), int(index.lengths[at]), form)
        match = _STATEMENT.fullmatch(query.statement) if isinstance(query, Query) else None
        if match:
            name = (match[2] or b"").decode("utf-8", "surrogateescape").casefold()
            statements.append(UndoStatement(at, Undo((match[1] or b"ROLLBACK").upper()), name))
    return statements


def _candidates(buffer: Bytes, index: EventIndex, count: int) -> list[int]:
    """The QUERY events that begin with S or R, and the compressed ones: COMMIT, of which there may be many, is none."""
    types = index.types[:count]
    queries = np.flatnonzero((types == EventType.QUERY) | (types == EventType.QUERY_COMPRESSED))
    if not len(queries):
        return []
    is_plain = types[queries] == EventType.QUERY
    packed, plain = queries[~is_plain], queries[is_plain]
    bodies, ends = index.positions[plain] + HEADER_BYTES, index.positions[plain] + index.lengths[plain]
    whole = bodies + 13 < ends
    plain, bodies, ends = plain[whole], bodies[whole], ends[whole]
    variables = buffer[bodies + 11].astype(np.int64) | buffer[bodies + 12].astype(np.int64) << 8
    texts = bodies + 13 + variables + buffer[bodies + 8] + 1
    first = buffer[np.minimum(texts, ends - 1)] & 0xDF
    chosen = plain[np.isin(first, tuple(b"RS"))]
    return sorted([*packed.tolist(), *chosen.tolist()])


class Savepoints(Generic[Point]):
    """The savepoints of an open transaction, each with a point of the walk."""

    def __init__(self) -> None:
        self._points: list[tuple[str, Point]] = []

    def set(self, name: str, point: Point) -> None:
        """Sets a savepoint; an earlier one of this name is forgotten."""
        self._points = [known for known in self._points if known[0] != name]
        self._points.append((name, point))

    def release(self, name: str) -> None:
        """Forgets a savepoint and those after it."""
        number = self._number(name)
        if number is not None:
            del self._points[number:]

    def rolled_back_to(self, name: str) -> Point | None:
        """The point of a savepoint, after which others are forgotten; None if it is not known."""
        number = self._number(name)
        if number is None:
            return None
        del self._points[number + 1 :]
        return self._points[number][1]

    def clear(self) -> None:
        """Another transaction has begun."""
        self._points.clear()

    def _number(self, name: str) -> int | None:
        return next((number for number, (known, _) in enumerate(self._points) if known == name), None)


class UndoneRows:
    """Which rows of a file were undone, while it is read forwards."""

    def __init__(self, binlog: BinlogFile) -> None:
        """Begins before all events."""
        self._binlog, self._has_undone_rows = binlog, has_undone_rows(binlog.format)
        self._ranges: list[tuple[int, int]] = []
        """Offsets from and up to which rows were undone."""
        self._followed_from = self._followed_to = 0
        """Between these offsets all such ranges are known."""
        self._group = 0
        """Offset of the GTID event of the group that is open at `_followed_to`."""
        self._savepoints: Savepoints[int] = Savepoints()

    def mask(self, index: EventIndex, count: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
        """Which of the next events are rows that were undone, or their TABLE_MAPs; None if there are none.

        Args:
            index: The next events.
            count: How many of them are as they were written.
        """
        if not self._has_undone_rows or not count:
            return None
        at = int(index.positions[0])
        if not self._followed_from <= at <= self._followed_to:
            # Rows of a prepared transaction are read where it is committed.
            self._followed_from = self._followed_to = at
            self._savepoints.clear()
        self._follow(index, count)
        self._look_ahead()
        ranges = [(begin, end) for begin, end in self._ranges if end > at and begin < index.next]
        if not ranges:
            return None
        undone = np.zeros(len(index), np.bool_)
        for begin, end in ranges:
            undone |= (index.positions >= begin) & (index.positions < end)
        return undone & np.isin(index.types, _OF_ROWS)

    def _follow(self, index: EventIndex, count: int) -> None:
        """Follows the first `count` events, as far as they have not been followed."""
        first = int(np.searchsorted(index.positions[:count], self._followed_to))
        if first == count:
            return
        self._followed_to = int(index.positions[count - 1] + index.lengths[count - 1])
        if not _MATTERS[index.types[first:count]].any():
            return
        groups = index.positions[first:count][index.types[first:count] == EventType.DOMAIN_GTID]
        for statement in undo_statements(self._binlog.buffer, index, count, self._binlog.format):
            if statement.event >= first:
                self._enter(groups, int(index.positions[statement.event]))
                self._apply(statement, int(index.positions[statement.event]))
        if len(groups):
            self._enter(groups, int(groups[-1]) + 1)

    def _enter(self, groups: Ints, position: int) -> None:
        """Enters the group that has an offset."""
        number = int(np.searchsorted(groups, position))
        if number and groups[number - 1] != self._group:
            self._group = int(groups[number - 1])
            self._savepoints.clear()

    def _apply(self, statement: UndoStatement, position: int) -> None:
        if statement.undo is Undo.SAVEPOINT:
            self._savepoints.set(statement.name, position)
        elif statement.undo is Undo.RELEASE:
            self._savepoints.release(statement.name)
        elif statement.undo is Undo.ROLLBACK:
            self._ranges.append((self._group, position))
        else:
            # A savepoint from before a split point is not known: then no row after the split point is undone by it.
            begin = self._savepoints.rolled_back_to(statement.name)
            self._ranges.append((position if begin is None else begin, position))

    def _look_ahead(self) -> None:
        """Follows the events up to the end of the open group; most groups have no statement that undoes rows."""
        buffer, form, size = self._binlog.buffer, self._binlog.format, _FIRST_LOOK
        length = self._find_next()
        is_whole = self._followed_to + HEADER_BYTES <= len(buffer)
        if is_whole and buffer[self._followed_to + 4] == EventType.DOMAIN_GTID:
            return
        while self._followed_to < len(buffer):
            end = self._loaded(length)
            index = index_events(buffer, self._followed_to, end, form, size)
            heads = np.flatnonzero(index.types == EventType.DOMAIN_GTID)
            count = int(heads[0]) if len(heads) else len(index)
            self._follow(index, count)
            is_cut = index.status == codes.TRUNCATED and end < len(buffer)
            if len(heads) or (count < size and not is_cut):
                return
            size, length = 2 * size, 2 * length

    def _find_next(self) -> int:
        """Goes to the next event that matters; returns how many bytes to look at then."""
        buffer = self._binlog.buffer
        length = len(buffer) if self._binlog.remote is None else _FIRST_LOOK_BYTES
        while True:
            end = self._loaded(length)
            self._followed_to = at = next_of_types(buffer[:end], self._followed_to, self._binlog.format, _MATTERS)
            if end == len(buffer) or (at + HEADER_BYTES <= end and _MATTERS[buffer[at + 4]]):
                return length
            length *= 2

    def _loaded(self, length: int) -> int:
        """Loads so many of the next bytes; returns where they end."""
        end = min(self._followed_to + length, len(self._binlog.buffer))
        self._binlog.load(self._followed_to, end)
        return end
