"""Makes the texts of the tokens of many transactions of a group at once. If each source that moves has numbered its
transactions consecutively, each token differs from the next in two numbers of each source.
Not here: the texts of one source's tokens (`streams/token_texts.py`), one token (`vector.py`)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
from msgspec import Struct

from strata_cdc.changes.texts import Texts
from strata_cdc.groups.batch import shown_of
from strata_cdc.position.sets import GtidSet
from strata_cdc.position.token_packed import array_head, growing
from strata_cdc.streams.token_texts import sealed
from strata_cdc.streams.transaction_texts import EndTexts, RowTexts, TransactionTexts, shown_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.groups.batch import GroupBatch, GroupPlaces
    from strata_cdc.groups.vector import GroupPosition
    from strata_cdc.position.sets import Gtid
    from strata_cdc.position.source_position import SourcePosition
    from strata_cdc.position.token_packed import Growing, PackedPlace
    from strata_cdc.streams.events import TransactionPlace

_MANY: Final = 48
"""From this number of transactions on, columns are faster than one transaction at a time."""
_NOTHING: Final = array_head(0)
_encode: Final = msgspec.msgpack.encode


class _Moving(Struct, frozen=True, eq=False):
    """A source that has transactions in a segment."""

    known: Growing
    before: Ints
    """How many transactions of this source come before each transaction of the segment; then, how many there are in
    all."""
    numbers: Ints
    """The number of the last executed transaction: first before all of them, then after each."""
    committed_at: Ints
    """The commit times of these transactions (microseconds UTC)."""


class _Segment(Struct, frozen=True, eq=False):
    """Transactions of a batch whose tokens have the same form."""

    begin: int
    end: int
    """Exclusive."""
    packed: Mapping[str, PackedPlace] = {}
    """The packed positions of all sources before the segment, in the order of the names."""
    moving: dict[str, _Moving] | None = None
    """The sources with transactions in it; None: the tokens are made one by one."""

    def behind(self, ranks: Ints) -> Texts:
        """Returns the tokens after some of the transactions."""
        version = b"v3." if self._is_copied else b"v1."
        return sealed(version, self._columns(ranks + 1, None), b"")[0]

    def inside(self, ranks: Ints, source: str) -> tuple[Texts, Ints]:
        """Returns the begin of the tokens inside some of the transactions, and their CRCs, as in `StepTexts`.

        Args:
            ranks: Ordinals of the transactions in the batch.
            source: The source of these transactions.
        """
        version = b"v3." if self._is_copied else b"v2."
        return sealed(version, self._columns(ranks, source), b".")

    @property
    def _is_copied(self) -> bool:
        return any(packed.is_copied for packed in self.packed.values())

    def _columns(self, ranks: Ints, inside: str | None) -> list[bytes | Ints]:
        """What is packed into the tokens before some transactions, or inside them: then all are of the source
        `inside`."""
        found: list[bytes | Ints] = [array_head(len(self.packed))]
        # The length of the array for a source: four, five or six (`token_text.py`).
        fields = 6 if self._is_copied else 4 if inside is None else 5
        for name, packed in self.packed.items():
            moving = (self.moving or {}).get(name)
            if moving is None:
                found.append({4: packed.whole, 5: packed.partial, 6: packed.copied}[fields])
                continue
            known, at = moving.known, moving.before[ranks - self.begin] + (name == inside)
            numbers = moving.numbers[at]
            executed = numbers - 1 if name == inside else numbers
            found += [array_head(fields) + known.name, moving.committed_at[at], known.before, executed, known.behind]
            if fields > 4:
                found += [known.inside, numbers] if name == inside else [_NOTHING]
            if fields > 5:
                found.append(known.origins or _NOTHING)
        return _together(found)


def _together(parts: Sequence[bytes | Ints]) -> list[bytes | Ints]:
    """Joins bytes that are next to each other."""
    found: list[bytes | Ints] = []
    for part in parts:
        if found and isinstance(part, bytes) and isinstance(found[-1], bytes):
            found[-1] += part
        else:
            found.append(part)
    return found


class GroupBatchTexts:
    """Makes the tokens of a batch."""

    def __init__(self, stretch: GroupBatch, parts: Sequence[GroupPlaces], many: int = _MANY) -> None:
        """Takes the batch, its parts, and from how many transactions on it makes columns."""
        self._stretch, self._parts, self._many = stretch, parts, many
        borders, met = {0, len(stretch.due)}, set[str]()
        for places in parts:
            borders |= set(_borders(places, begins=places.part.source in met))
            met.add(places.part.source)
        ordered = sorted(rank for rank in borders if rank <= len(stretch.due))
        self.segments = [segment for begin, end in pairwise(ordered) for segment in self._segments(begin, end)]

    def each(self, ranks: Ints) -> Iterator[tuple[_Segment, slice]]:
        """Yields the segments that have some of the given transactions, and which of these."""
        for segment in self.segments:
            some = slice(*np.searchsorted(ranks, [segment.begin, segment.end]).tolist())
            if some.start < some.stop:
                yield segment, some

    def _segments(self, begin: int, end: int, known: frozenset[str] = frozenset()) -> Iterator[_Segment]:
        """Yields the segments between two borders. It cuts before and after a transaction if the source's position
        after it is not simply the position before it with one more number.

        Args:
            begin: Rank of the first transaction.
            end: Rank after the last transaction.
            known: Sources whose position did not lead up to their first transaction, and which were already cut there.
        """
        if end - begin < self._many:
            yield _Segment(begin, end)
            return
        front, moving = self._stretch.at(begin), dict[str, _Moving]()
        for places in self._parts:
            first, stop = np.searchsorted(places.ranks, [begin, end]).tolist()
            found = _moving(places, range(begin, end), front) if first < stop else None
            source = places.part.source
            if isinstance(found, _Moving):
                moving[source] = found
            elif first < stop and (found is not None or source not in known):
                known = known if found is not None else known | {source}
                yield from self._cut(begin, int(places.ranks[first if found is None else found]), end, known)
                return
        yield _Segment(begin, end, front.packed, moving if self._is_plain(begin, end, front, moving) else None)

    def _cut(self, begin: int, rank: int, end: int, known: frozenset[str]) -> Iterator[_Segment]:
        for first, stop in ((begin, rank), (rank, rank + 1), (rank + 1, end)):
            if first < stop:
                yield from self._segments(first, stop, known)

    def _is_plain(self, begin: int, end: int, front: GroupPosition, moving: Mapping[str, _Moving]) -> bool:
        """Whether the tokens of a segment can be made in columns: this needs that no source is inside a transaction."""
        count = sum(int(one.before[-1]) for one in moving.values())
        return count == end - begin and not any(packed.steps for packed in front.packed.values())


def _borders(places: GroupPlaces, *, begins: bool) -> Iterator[int]:
    """The borders at which the form of the tokens that name transactions of a part changes.

    Args:
        places: The part's transactions.
        begins: Whether the first transaction is a border, too: a segment has only one part of each source.
    """
    begin, end, ranks = places.part.begin, places.part.end, places.ranks
    if begins:
        yield int(ranks[0])
    yield from ranks[1:][np.diff(places.piece.runs[begin:end]) != 0].tolist()
    if places.piece.given(end - 1):
        yield from (int(ranks[-1]), int(ranks[-1]) + 1)


def _moving(places: GroupPlaces, segment: range, front: GroupPosition) -> _Moving | int | None:
    """The transactions of a part that are in a segment, at least one. Or the ordinal of the transaction that changes
    the form of the set. Or None, if the source's position before the segment is not the position before the first
    transaction, or does not lead up to it."""
    part, piece = places.part, places.piece
    first, stop = (int(np.searchsorted(places.ranks, rank)) for rank in (segment.start, segment.stop))
    transaction, place = piece.place(part.begin + first), front.places.get(part.source)
    gtid = transaction.record.gtid
    found = None if gtid is None or place is None else growing(transaction.before, gtid)
    if found is None or gtid is None or place is None:
        return None
    known, limit = found
    rows = piece.rows[part.begin + first : part.begin + stop]
    numbers, before = piece.own.batch.numbers[rows], _last_before(gtid, place)
    fields = known.name + _encode(place.committed_at) + known.before + _encode(before) + known.behind
    if front.packed[part.source].copied != array_head(6) + fields + _NOTHING + (known.origins or _NOTHING):
        return None
    if numbers[-1] >= limit:
        # There the interval joins the next interval.
        return first + int(np.searchsorted(numbers, limit))
    is_here = np.zeros(len(segment) + 1, np.int64)
    is_here[places.ranks[first:stop] - segment.start + 1] = 1
    return _Moving(
        known,
        np.cumsum(is_here),
        np.append(before, numbers),
        np.append(place.committed_at, piece.own.batch.committed_at[rows]),
    )


def _last_before(gtid: Gtid, place: SourcePosition) -> int:
    """The last number of a transaction's server, below the transaction's own number, that a position has; 0: none."""
    position = place.position
    spans = dict(position.items()).get(gtid.sid, ()) if isinstance(position, GtidSet) else ()
    return max((end for _, end in spans if end < gtid.gno), default=0)


class GroupTexts:
    """Makes what lines state about some transactions of a part: the same as lines of the source, except for the
    tokens."""

    def __init__(self, tokens: GroupBatchTexts, places: GroupPlaces, seqs: Ints) -> None:
        """Takes the tokens of the batch, the part, and the ordinals of the wanted transactions."""
        self._of_source = TransactionTexts(places.piece.own, seqs)
        self._tokens, self._group, self._ordinals = tokens, places, places.ordinals(seqs)
        self._ranks = places.ranks[self._ordinals]

    def of_rows(self) -> RowTexts:
        """Returns the same as `TransactionTexts.of_rows`."""
        own, ends = self._of_source, self.ends(inside=True)
        return RowTexts(own.statements(), own.gtids(), own.times(), *self.heads(), ends)

    def of_ends(self) -> EndTexts:
        """Returns the same as `TransactionTexts.of_ends`."""
        own = self._of_source
        return EndTexts(own.gtids(), own.times(), self.behind(), self.ends(inside=False))

    def behind(self) -> Texts:
        """Returns the token after each transaction."""
        found = []
        for segment, some in self._tokens.each(self._ranks):
            if segment.moving is None:
                found.append(Texts.of([place.after_text.encode() for place in self._some(some)]))
            else:
                found.append(segment.behind(self._ranks[some]))
        return Texts.joined(found)

    def heads(self) -> tuple[Texts, Ints]:
        """Returns the begin of the tokens inside each transaction, and their CRCs, as in `StepTexts`."""
        found: list[tuple[Texts, Ints]] = []
        for segment, some in self._tokens.each(self._ranks):
            if segment.moving is None:
                steps = [place.steps for place in self._some(some)]
                crcs = np.array([one.crc for one in steps], np.int64)
                found.append((Texts.of([one.head.encode() for one in steps]), crcs))
            else:
                found.append(segment.inside(self._ranks[some], self._group.part.source))
        return Texts.joined([texts for texts, _ in found]), np.concatenate([crcs for _, crcs in found])

    def ends(self, *, inside: bool) -> Texts | None:
        """Returns `ends` of `RowTexts` or `EndTexts`."""
        piece = self._group.piece
        marked = piece.may_be_copy[self._group.part.begin + self._ordinals]
        segments = [(inside and one.moving is None, some) for one, some in self._tokens.each(self._ranks)]
        if not piece.epoch and not marked.any() and not any(has_tails for has_tails, _ in segments):
            return None
        shown = [b'"' + shown_fields(shown_of(piece.epoch, may_be_copy=one)) for one in (False, True)]
        found = []
        for has_tails, some in segments:
            tails = [place.steps.tail.encode() for place in self._some(some)] if has_tails else None
            found.append(_ends(tails, shown, marked[some].tolist()))
        return Texts.joined(found)

    def _some(self, some: slice) -> Iterator[TransactionPlace]:
        """The places of some transactions, one by one."""
        return (self._group[seq] for seq in self._group.seqs[self._ordinals[some]].tolist())


def _ends(tails: Sequence[bytes] | None, shown: Sequence[bytes], marked: Sequence[bool]) -> Texts:
    """The text after the numbers of some tokens: the tokens' tails, if there are any, and more keys of the lines."""
    if tails is None and all(one == marked[0] for one in marked):
        text = np.frombuffer(shown[marked[0]], np.uint8)
        return Texts(np.tile(text, len(marked)), np.arange(len(marked) + 1) * len(text))
    return Texts.of([tail + shown[one] for tail, one in zip(tails or [b""] * len(marked), marked, strict=True)])
