"""Where the events of a file or a stream must lie in their server's file, by what kind of file it is.
Not here: following them (`binlog/bytes/chain.py`), transactions without a GTID over several files
(`landing/continuity.py`)."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Final

from strata_cdc.binlog.bytes.chain import ChainKind, EventChain
from strata_cdc.binlog.bytes.codes import NUMBERED_GTIDS, EventType
from strata_cdc.errors import StrataError

if TYPE_CHECKING:
    from strata_cdc.binlog.bytes.chain import MayJump
    from strata_cdc.binlog.bytes.files import BinlogFile
    from strata_cdc.binlog.bytes.format import FormatDescription

_LAST: Final = frozenset({EventType.ROTATE, EventType.STOP})
_MASK: Final = 0xFFFFFFFF
_FORWARD: Final = 1 << 31


def chain_of(binlog: BinlogFile, begin: int, end: int | None = None) -> EventChain:
    """What follows in a file from an offset on, where an event begins.

    Args:
        binlog: The file.
        begin: Bytes from its start.
        end: Where the event before that ends in the server's file; by default it is known at the file's start only.
    """
    flavour, is_start = binlog.format.flavour, begin == binlog.first_event
    if binlog.segment is not None:
        end = binlog.segment.offset if is_start and end is None else end
        return EventChain(ChainKind.SEGMENT, end, flavour=flavour, may_jump=_landed_jumps(binlog.path))
    kind = ChainKind.RELAY_LOG if binlog.is_relay_log else ChainKind.BINLOG
    return EventChain(kind, begin if is_start else end, flavour=flavour)


def arriving_chain(form: FormatDescription, end: int | None) -> EventChain:
    """What a server sends: for a GTID set, it skips transactions in the middle of a file."""
    return EventChain(ChainKind.BINLOG, end, flavour=form.flavour, may_jump=_leaves_out)


def gapless_chain(form: FormatDescription, end: int | None) -> EventChain:
    """What a server's own file has from an offset on: every byte of it."""
    return EventChain(ChainKind.BINLOG, end, flavour=form.flavour)


def _leaves_out(kind: int, _offset: int, begin: int, before: int) -> bool:
    return (begin - before) & _MASK < _FORWARD and kind in NUMBERED_GTIDS | _LAST


def _landed_jumps(path: str) -> MayJump:
    """In a landed segment, transactions that had landed earlier are skipped; its index says before which
    transactions."""

    @cache
    def indexed() -> tuple[dict[int, int], int]:
        """Where transactions begin in the segment and in the server's file, and where the last one ends."""
        # Imported here: Arrow takes long to load, and few files have such a gap.
        from strata_cdc.binlog.events.index import SUFFIX, SegmentIndex  # noqa: PLC0415  see above
        from strata_cdc.files.storage import Folder  # noqa: PLC0415  see above

        folder, _, name = path.rpartition("/")
        begins: dict[int, int] = {}
        last = 0
        # Without an index it is not known that something was skipped.
        with suppress(StrataError):
            for batch in SegmentIndex.open(Folder.open(folder or "."), f"{name}{SUFFIX}").batches():
                begins.update(zip(batch.begins.tolist(), batch.positions.tolist(), strict=True))
                last = int(batch.ends[-1])
        return begins, last

    def may_jump(kind: int, offset: int, begin: int, _before: int) -> bool:
        begins, last = indexed()
        if kind in _LAST:
            return offset == last
        return offset in begins and begins[offset] & _MASK == begin

    return may_jump
