"""What a transaction has to do with the two phases of XA, and which prepared ones are undecided.
Not here: the events' bytes (`parse.py`), where rows of prepared transactions take effect (`landing/prepared.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.binlog.events.model import Query, XaMark, XaPrepare, XaStep

if TYPE_CHECKING:
    from collections.abc import Iterable

_FORMAT_ID: Final = 0xFFFFFFFF
"""XA_PREPARE has the lower 32 bits of the format id, the statements have all of it (9.7, sql/xa.h)."""
_PART: Final = "X'((?:[0-9a-f]{2})*)'"
_DECISION: Final = re.compile(rf"XA (COMMIT|ROLLBACK) {_PART},{_PART},(\d+)", re.ASCII | re.IGNORECASE)
_OTHER: Final = re.compile(r"XA (COMMIT|ROLLBACK)\b(.*)", re.ASCII | re.IGNORECASE | re.DOTALL)


class PreparedTransaction(Struct, frozen=True, omit_defaults=True):
    """A prepared transaction that is neither committed nor rolled back."""

    seq: int
    xid: str
    is_empty: bool = False
    """Whether it is known to have neither rows nor statements, so that its decision changes nothing."""


class UndecidedTransactions:
    """The prepared transactions that are undecided at one point of a stream; each mark advances it."""

    def __init__(self, prepared: Iterable[PreparedTransaction] = ()) -> None:
        self._prepared = {transaction.xid: transaction for transaction in prepared}

    def apply(self, seq: int, mark: XaMark, *, is_empty: bool = False) -> int | None:
        """Applies the mark of the transaction `seq`; `is_empty` as of `PreparedTransaction`.

        Returns:
            Ordinal of the prepared transaction that it ends; None if there is none. If a transaction with
            the same XID follows, the earlier one was decided or lost in a crash without an event in the binlog: a
            server has an XID only once at a time.
        """
        ended = self._prepared.pop(mark.xid, None)
        if mark.step is XaStep.PREPARE:
            self._prepared[mark.xid] = PreparedTransaction(seq, mark.xid, is_empty)
        return None if ended is None else ended.seq

    def holds(self, xid: str) -> bool:
        """Whether one with this XID is undecided."""
        return xid in self._prepared

    def prepared(self) -> tuple[PreparedTransaction, ...]:
        """The undecided transactions, in stream order."""
        return tuple(sorted(self._prepared.values(), key=lambda transaction: transaction.seq))

    def empty(self) -> set[int]:
        """The ordinals of those that are known to be empty."""
        return {transaction.seq for transaction in self._prepared.values() if transaction.is_empty}


def mark_of(event: object) -> XaMark | None:
    """The mark of a transaction by the event that ends it: XA_PREPARE, or a QUERY that comes alone after its GTID."""
    if isinstance(event, XaPrepare):
        return None if event.one_phase else XaMark(XaStep.PREPARE, _xid(event.gtrid, event.bqual, event.format_id))
    if not isinstance(event, Query):
        return None
    text = event.statement.decode("ascii", "replace").strip()
    match = _DECISION.fullmatch(text)
    if match:
        step, gtrid, bqual, format_id = match.groups()
        return XaMark(_step(step), _xid(bytes.fromhex(gtrid), bytes.fromhex(bqual), int(format_id)))
    # Not in the form that servers write: it belongs to no known transaction, and is reported like any other such mark.
    other = _OTHER.fullmatch(text)
    return XaMark(_step(other[1]), other[2].strip()) if other else None


def _step(word: str) -> XaStep:
    return XaStep.COMMIT if word.upper() == "COMMIT" else XaStep.ROLLBACK


def _xid(gtrid: bytes, bqual: bytes, format_id: int) -> str:
    return f"X'{gtrid.hex()}',X'{bqual.hex()}',{format_id & _FORMAT_ID}"
