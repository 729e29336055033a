"""What lines state about their transactions: GTID, commit time and tokens as texts. If there are many, the texts are
made a column at a time.
Not here: lines (`writing.py`), the texts of similar tokens (`token_texts.py`), which transactions (`places.py`)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from msgspec import Struct

from strata_cdc.changes.texts import Texts
from strata_cdc.position.sets import GtidSet
from strata_cdc.position.token_packed import growing
from strata_cdc.streams.places import Places
from strata_cdc.streams.token_texts import heads_inside, texts_behind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.position.token_packed import Growing
    from strata_cdc.streams.events import TransactionPlace

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MANY: Final = 48
"""From this number of transactions on, columns are faster than one transaction at a time."""


class RowTexts(Struct, frozen=True, eq=False):
    """What lines of rows state about their transactions: some transactions of a span, in order."""

    statements: Ints
    """How many statements each transaction has."""
    gtids: tuple[Texts, Ints]
    """GTIDs as JSON, in quotes, or `null`; and which of these texts each transaction has."""
    times: tuple[Texts, Ints]
    """Commit times as `time_text` returns them; and which of these texts each transaction has."""
    heads: Texts
    """The begin of the tokens inside each transaction."""
    crcs: Ints
    """The CRCs, as in `StepTexts`."""
    ends: Texts | None
    """The text after a token's number: the token's last numbers, a quote, and more keys of the transaction's lines;
    None: only the quote."""


class EndTexts(Struct, frozen=True, eq=False):
    """What the lines for the ends of some transactions state about them."""

    gtids: tuple[Texts, Ints]
    times: tuple[Texts, Ints]
    tokens: Texts
    """The token after each transaction."""
    ends: Texts | None
    """The text after the token: a quote, and more keys of the transaction's lines; None: only the quote."""


class TransactionTexts:
    """Makes the texts of some transactions of a span, in order."""

    def __init__(self, places: Mapping[int, TransactionPlace], seqs: Ints) -> None:
        """Takes the places of the span, and the ordinals of the wanted transactions."""
        self._places, self._seqs = places, seqs
        self._columns = places if isinstance(places, Places) and len(seqs) >= _MANY else None
        self._rows = seqs - places.batch.first_seq if isinstance(places, Places) else seqs

    def of_rows(self) -> RowTexts:
        """Returns what lines of rows state about them."""
        ends = self._ends(inside=True)
        return RowTexts(self.statements(), self.gtids(), self.times(), *self.heads(), ends)

    def of_ends(self) -> EndTexts:
        """Returns what the lines for their ends state about them."""
        return EndTexts(self.gtids(), self.times(), self.behind(), self._ends(inside=False))

    def _each(self) -> list[TransactionPlace]:
        return [self._places[seq] for seq in self._seqs.tolist()]

    def statements(self) -> Ints:
        """Returns how many statements each transaction has."""
        if self._columns is not None:
            return self._columns.count_statements(self._rows)
        return np.array([place.statements for place in self._each()], np.int64)

    def gtids(self) -> tuple[Texts, Ints]:
        """Returns GTIDs as JSON, in quotes, or `null`; and which of these texts each transaction has."""
        if self._columns is None:
            texts = Texts.of([b'"%b"' % place.gtid.encode() if place.gtid else b"null" for place in self._each()])
            return texts, np.arange(len(texts))
        return self._mine(self._columns.gtid_texts, self._columns)

    def times(self) -> tuple[Texts, Ints]:
        """Returns commit times as `time_text` does; and which of these texts each transaction has."""
        if self._columns is None:
            texts = Texts.of([time_text(place.record.committed_at).encode() for place in self._each()])
            return texts, np.arange(len(texts))
        return self._mine(self._columns.time_texts, self._columns)

    def _mine(self, texts: Texts, columns: Places) -> tuple[Texts, Ints]:
        """From the texts of all transactions of a span, a range that has the texts of these; and which text of it each
        has."""
        ordinals = columns.ordinals(self._seqs)
        first = int(ordinals[0])
        return texts.between(first, int(ordinals[-1]) + 1), ordinals - first

    def behind(self) -> Texts:
        """Returns the token after each transaction."""
        found = []
        for known, seqs, rows in self._runs():
            if known is None:
                found.append(Texts.of([self._places[seq].after_text.encode() for seq in seqs.tolist()]))
            else:
                found.append(texts_behind(known, *rows))
        return Texts.joined(found)

    def heads(self) -> tuple[Texts, Ints]:
        """Returns the begin of the tokens inside each transaction, and their CRCs, as in `StepTexts`."""
        found: list[tuple[Texts, Ints]] = []
        for known, seqs, rows in self._runs():
            if known is None:
                steps = [self._places[seq].steps for seq in seqs.tolist()]
                crcs = np.array([one.crc for one in steps], np.int64)
                found.append((Texts.of([one.head.encode() for one in steps]), crcs))
            else:
                found.append(heads_inside(known, *rows))
        return Texts.joined([texts for texts, _ in found]), np.concatenate([crcs for _, crcs in found])

    def _ends(self, *, inside: bool) -> Texts | None:
        if isinstance(self._places, Places):
            return None
        return Texts.of(
            [b'%b"%b' % (one.steps.tail.encode() if inside else b"", shown_fields(one.shown)) for one in self._each()]
        )

    def _runs(self) -> Iterator[tuple[Growing | None, Ints, tuple[Ints, Ints]]]:
        """Yields runs of transactions that one server has numbered consecutively: what their tokens have in common, if
        that is known; their ordinals; their numbers and commit times."""
        if self._columns is None:
            yield None, self._seqs, (self._seqs, self._seqs)
            return
        batch, rows = self._columns.batch, self._rows
        sids, numbers = batch.sid_numbers, batch.numbers
        breaks = (np.diff(sids, prepend=-2) != 0) | (np.diff(numbers, prepend=0) != 1)
        begins = np.flatnonzero(np.diff(np.cumsum(breaks)[rows], prepend=-1))
        for begin, end in pairwise([*begins.tolist(), len(rows)]):
            at = begin
            while at < end:
                known, stop = self._known(at, end)
                mine = rows[at:stop]
                yield known, self._seqs[at:stop], (numbers[mine], batch.committed_at[mine])
                at = stop

    def _known(self, begin: int, end: int) -> tuple[Growing | None, int]:
        """What the tokens of the first transactions of a run have in common, and where these transactions end: the form
        of a set changes with a server's first transaction, and where one of its intervals joins the next."""
        if self._columns is None or end - begin < _MANY:
            return None, end
        first = self._columns[int(self._seqs[begin])]
        gtid, place = first.record.gtid, first.before
        found = None if gtid is None else growing(place, gtid)
        if found is None:
            return None, begin + 1 if isinstance(place.position, GtidSet) else end
        known, limit = found
        stop = begin + int(np.searchsorted(self._columns.batch.numbers[self._rows[begin:end]], limit))
        return (known, stop) if stop > begin else (None, begin + 1)


def shown_fields(shown: Mapping[str, Any]) -> bytes:
    """Returns more keys of a line, as JSON that comes after the keys that the line already has."""
    return b",%b" % msgspec.json.encode(shown)[1:-1] if shown else b""


def time_text(micros: int) -> str:
    """Returns a commit time as `2026-11-21T03:30:00.000000Z`."""
    seconds, fraction = divmod(micros, 1_000_000)
    return f"{_second_text(seconds)}.{fraction:06}Z"


@lru_cache(1 << 10)
def _second_text(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
