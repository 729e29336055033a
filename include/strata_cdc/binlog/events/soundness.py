"""How many of the next events are as they were written, and where: by their checksums and their positions.
Not here: following positions (`binlog/bytes/chain.py`), computing checksums (`binlog/bytes/frames.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.binlog.bytes.frames import count_sound
from strata_cdc.errors import ChecksumError, StrataError

if TYPE_CHECKING:
    from strata_cdc.binlog.bytes.chain import EventChain
    from strata_cdc.binlog.bytes.format import FormatDescription
    from strata_cdc.binlog.bytes.frames import EventIndex
    from strata_cdc.binlog.kernels.arrays import Bytes


def count_right(
    buffer: Bytes, index: EventIndex, form: FormatDescription, chain: EventChain
) -> tuple[int, StrataError | None]:
    """The number of undamaged events at the beginning, and what is wrong with the event after them; None if all are
    right.

    Args:
        buffer: The bytes that the events are in.
        index: The next events of the stream.
        form: How they are laid out.
        chain: Where they must lie; continues after them.
    """
    sound = count_sound(buffer, index) if form.has_checksum else len(index)
    linked, fault = chain.follow(buffer, index)
    if sound == len(index) or linked < sound:
        return linked, fault
    at = int(index.positions[sound])
    return sound, ChecksumError("the CRC32 of an event does not match its bytes", offset=at)
