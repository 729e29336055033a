"""What is wrong with the event at which a walk over a stream stopped, for every kind of walk.
Not here: which event is allowed where (`binlog/kernels/grammar.py`), what damage leads to (`salvage.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.binlog.bytes.codes import ROW_EVENTS
from strata_cdc.binlog.bytes.format import FormatDescription
from strata_cdc.binlog.events.parse import parse_event, unsupported
from strata_cdc.binlog.kernels.grammar import STEPS
from strata_cdc.binlog.kernels.status import UNSUPPORTED
from strata_cdc.binlog.kernels.words import FAULT_SHIFT, Fault, Step
from strata_cdc.errors import CorruptEventError, StrataError, TruncatedEventError, UnsupportedEventError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_MESSAGES: dict[int, str] = {
    Fault.NESTED: "a transaction begins inside another",
    Fault.OUTSIDE: "an event is outside of any transaction",
    Fault.BAD_GTID: "a GTID event has impossible values",
    Fault.BAD_QUERY: "the lengths in a QUERY contradict each other",
    Fault.BAD_TABLE_MAP: "a TABLE_MAP is too short",
    Fault.BAD_ROWS: "the rows of an event do not fit its TABLE_MAP",
    Fault.NO_TABLE_MAP: "a row event follows no TABLE_MAP of its table",
    Fault.MISPLACED_PAYLOAD: "a compressed transaction follows no GTID",
    Fault.UNFINISHED_PAYLOAD: "a compressed transaction ends before its commit",
    Fault.NOT_PACKED: "an event is in a compressed transaction that cannot be in one",
    Fault.CUT_ROWS: "another event comes between the fragments of a row event",
}
_ABOUT_PLACE = frozenset({Fault.NESTED, Fault.OUTSIDE, Fault.NO_TABLE_MAP, Fault.MISPLACED_PAYLOAD, Fault.CUT_ROWS})
"""The event itself is right, as far as the walk read it."""


def fault_of(
    status: int, buffer: npt.NDArray[np.uint8], position: int, length: int, form: FormatDescription, *, packed: bool
) -> StrataError:
    """The error for an event.

    Args:
        status: The walk's status for it.
        buffer: The bytes that it is in.
        position: Its offset in there.
        length: Its bytes.
        form: How events are laid out.
        packed: Whether it is an inner event of a payload, which has no offset of its own.
    """
    kind = int(buffer[position + 4])
    if status == UNSUPPORTED:
        return unsupported(kind, position)
    if status == Fault.UNFINISHED:
        return TruncatedEventError("the file ends inside a transaction", offset=position)
    if kind not in ROW_EVENTS and not packed and status not in _ABOUT_PLACE:
        try:
            # The reader in Python says what exactly is wrong.
            parse_event(buffer, position, length, form)
        except StrataError as error:
            return error
    return CorruptEventError(_MESSAGES[status], offset=position)


def check_end(state: int, position: int, word: int) -> int:
    """The state after the end of a payload or of a file, which is not an event.

    Args:
        state: The state before it.
        position: Of the payload, or of the file's end.
        word: PAYLOAD_END or FILE_END.

    Raises:
        CorruptEventError: A transaction has begun and not ended.
    """
    step = int(STEPS[state, word])
    status = step >> FAULT_SHIFT
    if status == Fault.UNFINISHED:
        raise TruncatedEventError("the file ends inside a transaction", offset=position)
    if status:
        raise CorruptEventError(_MESSAGES[status], offset=position)
    return step & Step.NEXT


def compare_format(buffer: npt.NDArray[np.uint8], position: int, length: int, form: FormatDescription) -> None:
    """Reads a FORMAT_DESCRIPTION that comes after the one in force.

    Raises:
        CorruptEventError: It cannot be read.
        UnsupportedEventError: Events are laid out in another way from here on.
    """
    other = parse_event(buffer, position, length, form)
    if not isinstance(other, FormatDescription):
        raise CorruptEventError("a format description cannot be read", offset=position)
    if (other.has_checksum, other.header_lengths) != (form.has_checksum, form.header_lengths):
        raise UnsupportedEventError(
            "the layout of events changes within the file",
            remedy="Relay logs are like that after a change of `binlog_checksum`; read the source's own binlogs.",
            offset=position,
        )
