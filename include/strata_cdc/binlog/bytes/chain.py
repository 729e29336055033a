"""Whether each event begins where the one before it ended in the server's file: the proof that none is missing, was
added, or was moved.
Not here: where jumps are allowed (`binlog/events/places.py`), checksums (`frames.py`), GTIDs, which are no proof.

An event's header has its end position, modulo 2**32. From MariaDB 11.4 on, those in a transaction have 0 (MDEV-31273),
and lie directly after the event before them. In a relay log that is the position in the source's binlog, and a
ROTATE says where the source's events continue, also where the source skipped what its replica had
(`write_rotate_to_master_pos_into_relay_log`, sql/rpl_replica.cc). Of MariaDB, a list of GTIDs that is made for the
connection says that (`fake_gtid_list_event`, sql/sql_repl.cc). Events of the relay log itself have their own positions
in it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from strata_cdc.binlog.bytes.codes import EXECUTED_LISTS, HEADER_BYTES, EventFlag, EventType
from strata_cdc.binlog.kernels.end_positions import fill_end_positions
from strata_cdc.errors import MisplacedEventError
from strata_cdc.flavour import Vendor

if TYPE_CHECKING:
    import numpy.typing as npt

    from strata_cdc.binlog.bytes.frames import EventIndex
    from strata_cdc.flavour import Flavour

_MASK: Final = 0xFFFFFFFF
_NONE: Final = -1
_IS_HEAD: Final = np.isin(np.arange(256), (EventType.FORMAT_DESCRIPTION, *EXECUTED_LISTS))
"""Whether events of a type are in the head that each segment has copied, by type code."""
_MADE: Final = np.isin(np.arange(256), (EventType.FORMAT_DESCRIPTION, EventType.GTID_LIST))
"""Events without an end position that a server makes for a connection, besides those with the flag."""
_ARTIFICIAL: Final = int(EventFlag.ARTIFICIAL)
_OF_NO_FILE: Final = int(EventFlag.RELAY_LOG | EventFlag.ARTIFICIAL)
"""Flags of events that are in no file of the source."""
_FIRST_WITH_POSITIONS: Final = (5, 1, 17)
"""Before that, positions in a transaction counted from its start (bug 22540)."""

MayJump = Callable[[int, int, int, int], bool]
"""Whether the stream may continue with an event that does not follow: its type, its offset in the buffer, where it
begins in the server's file, and where the one before it ended there, both modulo 2**32."""


class ChainKind(Enum):
    """What is read."""

    BINLOG = 0
    """A server's own file, or its stream."""
    SEGMENT = 1
    """A landed part of such a file, after a copied head."""
    RELAY_LOG = 2


def never(_kind: int, _offset: int, _begin: int, _before: int) -> bool:
    """In a whole binlog nothing may be skipped."""
    return False


class EventChain:
    """A walk over the headers of a stream."""

    def __init__(self, kind: ChainKind, end: int | None, *, flavour: Flavour, may_jump: MayJump = never) -> None:
        """Begins before an event.

        Args:
            kind: What is read.
            end: Where the event before it ends in the server's file, or in the relay log; None if that is not known.
            flavour: Flavour of the server that wrote the file.
            may_jump: What may follow besides an event at the next byte.
        """
        self._kind = kind
        self._is_whole = end is not None
        """Whether the first event is at its position in the file."""
        self._end = None if end is None or kind is ChainKind.RELAY_LOG else end & _MASK
        self._may_jump = may_jump
        self._leaves_out_positions = flavour.vendor is Vendor.MARIADB
        self._has_positions = self._leaves_out_positions or flavour.is_mysql(*_FIRST_WITH_POSITIONS)

    @property
    def kind(self) -> ChainKind:
        """What is read."""
        return self._kind

    def follow(self, buffer: npt.NDArray[np.uint8], index: EventIndex) -> tuple[int, MisplacedEventError | None]:
        """How many of the next events are where they belong, and the fault after them if not all are."""
        if not self._has_positions:
            return len(index), None
        if self._leaves_out_positions:
            index = self._filled(index)
        at = 0
        for special in (*self._specials(index), len(index)):
            end = self._follow(index, at, special)
            if end is None and special < len(index):
                end = self._take_special(buffer, index, special)
            if end is not None:
                return end, _fault(index, end, self._end, self._remedy())
            at = special + 1
        return len(index), None

    def _remedy(self) -> str:
        if self._kind is ChainKind.RELAY_LOG and self._leaves_out_positions:
            # `request_dump`, sql/slave.cc: then it does not ask for ANNOTATE_ROWS, and nothing tells these from rows.
            return (
                "The relay log of a MariaDB without `log_slave_updates` lacks events of its source; read the source's "
                "own binlogs."
            )
        return "Copy the file again from the server or from a backup; `--skip-corrupt` continues after this."

    def _filled(self, index: EventIndex) -> EventIndex:
        """The index with the end positions that the server does not write, as far as others show them; `_NONE` where
        none is known. A position of 0 is then that of an event that ends at a multiple of 2**32."""
        ends = index.log_positions.copy()
        made = _MADE[index.types] | (index.flags & _ARTIFICIAL != 0)
        before = _NONE if self._end is None else self._end
        lacking = fill_end_positions(index.positions, index.lengths, made.view(np.uint8), before, ends)
        return replace(index, log_positions=ends) if lacking else index

    def _specials(self, index: EventIndex) -> list[int]:
        """Events whose end position is not that of an event in the stream."""
        special = index.log_positions == (_NONE if self._leaves_out_positions else 0)
        if self._kind is ChainKind.SEGMENT:
            special |= _IS_HEAD[index.types]
        if self._kind is ChainKind.RELAY_LOG:
            special |= (index.flags & _OF_NO_FILE != 0) | (index.types == EventType.ROTATE)
        positions: list[int] = np.flatnonzero(special).tolist()
        return positions

    def _follow(self, index: EventIndex, begin: int, after: int) -> int | None:
        """Follows plain events; the first that does not belong there, None if all do."""
        if begin >= after:
            return None
        ends = index.log_positions[begin:after]
        begins = (ends - index.lengths[begin:after]) & _MASK
        jumps = (np.flatnonzero(begins[1:] != ends[:-1]) + 1).tolist()
        if self._end is not None and begins[0] != self._end:
            jumps.insert(0, 0)
        for at in jumps:
            before = int(ends[at - 1]) if at else self._end or 0
            number = begin + at
            kind, offset = int(index.types[number]), int(index.positions[number])
            if not self._may_jump(kind, offset, int(begins[at]), before):
                self._end = before
                return number
        self._end = int(ends[-1])
        return None

    def _take_special(self, buffer: npt.NDArray[np.uint8], index: EventIndex, at: int) -> int | None:
        if self._kind is not ChainKind.RELAY_LOG:
            # Made for a connection and copied with the others, as by `mysqlbinlog --raw`.
            return None
        position, end = int(index.positions[at]), max(0, int(index.log_positions[at]))
        if index.flags[at] & EventFlag.RELAY_LOG:
            is_here = (end - int(index.lengths[at])) & _MASK == position & _MASK
            return None if is_here or not end or not self._is_whole else at
        is_made = index.flags[at] & _ARTIFICIAL
        after = self._follow(index, at, at + 1) if end and not is_made else None
        if index.types[at] == EventType.ROTATE:
            body = position + HEADER_BYTES
            self._end = int.from_bytes(buffer[body : body + 4].tobytes(), "little")
        elif is_made and end:
            self._end = end
        return after


def _fault(index: EventIndex, at: int, end: int | None, remedy: str) -> MisplacedEventError:
    begin = int(index.log_positions[at] - index.lengths[at]) & _MASK
    before = "" if end is None else f", and the one before it ends at {end}"
    return MisplacedEventError(
        f"events are missing, added or moved here: the server wrote this one at byte {begin}{before}",
        remedy=remedy,
        offset=int(index.positions[at]),
    )
