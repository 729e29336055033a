"""GTIDs, and the algebra of MySQL's sets of them. Text and numbers in, sets out.
Not here: MariaDB's positions (`domains.py`), reading GTIDs from events (`binlog/events/parse.py`), storing them
(`schema/history/sql_store.py`)."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from strata_cdc.errors import InvalidGtidSetError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

MAX_GNO = (1 << 63) - 2
"""The largest transaction number that MySQL assigns (sql/rpl_gtid.h, GNO_END - 1)."""

_BRACES = re.compile(r"\{(\w{8}-\w{4}-\w{4}-\w{4}-\w{12})\}")
"""A form of the UUID that the server takes too."""
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}", re.IGNORECASE)
_RANGE = re.compile(r"([0-9]+)\s*-\s*([0-9]+)")
_PLAIN = re.compile(r"(?:[1-9][0-9]{0,17}[:-])*[1-9][0-9]{0,17}")
"""Numbers that are in bounds because of their length, without blanks, tags and leading zeros: what a server prints."""
_TWO_DASHES = re.compile(r"-[0-9]+-")
DOMAIN_GTID = re.compile(r"\s*([0-9]{1,10})-([0-9]{1,10})-([0-9]{1,20})(?:\.\.([0-9]{1,20}))?\s*")
"""The text of one GTID; `0-1-5..7` are the transactions from 5 to 7, which no server writes."""
_MANY_CHARACTERS = 1 << 10
_MOST_DIGITS = 100
"""Digits of a number, including leading zeros."""
_AFTER_ALL = (MAX_GNO + 2, MAX_GNO + 2)

Span = tuple[int, int]
"""Transaction numbers from the first (inclusive) to the last (inclusive)."""


class Sid(Struct, frozen=True, order=True):
    """The part of a GTID before the number: a server's UUID and, from MySQL 8.3 on, a tag."""

    uuid: str
    tag: str = ""

    @property
    def prefix(self) -> str:
        """The text of a GTID up to its number."""
        return f"{self}:"

    def __str__(self) -> str:
        return f"{self.uuid}:{self.tag}" if self.tag else self.uuid


class DomainWriter(Struct, frozen=True, order=True):
    """The part of a GTID before its number: the domain that counts, and the server that wrote the transaction."""

    domain: int
    server: int

    @property
    def prefix(self) -> str:
        """The text of a GTID up to its number."""
        return f"{self}-"

    def __str__(self) -> str:
        return f"{self.domain}-{self.server}"


Writer = Sid | DomainWriter
"""Who numbered a transaction: the prefix of its GTID, of MySQL or MariaDB."""


class Gtid(Struct, frozen=True):
    """The identity of one transaction, of MySQL or MariaDB. Deliberately without an order: GTIDs have none."""

    sid: Sid | DomainWriter
    """Who numbered it."""
    gno: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `UUID[:TAG]:NUMBER`, or MariaDB's `DOMAIN-SERVER-SEQUENCE`.

        Raises:
            InvalidGtidSetError: The text has another form, or names more than one transaction.
        """
        if (match := DOMAIN_GTID.fullmatch(text)) and match[4] is None:
            return cls(DomainWriter(int(match[1]), int(match[2])), int(match[3]))
        spans = [(sid, span) for sid, spans in GtidSet.parse(text).items() for span in spans]
        if len(spans) != 1 or spans[0][1][0] != spans[0][1][1]:
            raise InvalidGtidSetError(f"{text[:60]!r} is not one GTID")
        return cls(spans[0][0], spans[0][1][0])

    def __str__(self) -> str:
        return f"{self.sid.prefix}{self.gno}"


class GtidSet(Struct, frozen=True):
    """An immutable set of GTIDs, kept as sorted, disjoint, non-adjacent spans for each UUID and tag.

    Sets are only partially ordered: `a <= b` says that b contains a, and both `a <= b` and `b <= a` may be false.
    The text is MySQL's (manual, "GTID Sets"): `UUID[:TAG]:FIRST[-LAST][:...][, ...]`.
    """

    _spans: tuple[tuple[Sid, tuple[Span, ...]], ...] = ()

    @classmethod
    def from_spans(cls, spans: Mapping[Sid, Iterable[Span]]) -> Self:
        """From any spans, overlapping and in any order; a sid with an empty list of spans is not in the set."""
        merged = ((sid, _merge(given)) for sid, given in spans.items())
        return cls(tuple(sorted((sid, spans) for sid, spans in merged if spans)))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads MySQL's text form; blanks, newlines, empty parts and ranges that run backwards are read as MySQL reads
        them.

        Raises:
            InvalidGtidSetError: The text is not a GTID set; the message quotes the wrong part.
        """
        spans: dict[Sid, list[Span]] = {}
        for part in text.split(","):
            if part.strip():
                _parse_part(part, spans)
        return cls.from_spans(spans)

    def items(self) -> Iterator[tuple[Sid, tuple[Span, ...]]]:
        """Each UUID and tag, in order, with its spans."""
        return iter(self._spans)

    @property
    def counted(self) -> str:
        """GTIDs, from any servers."""
        return "GTIDs"

    @property
    def is_shared(self) -> bool:
        """True: a replica keeps the GTIDs of what it applies."""
        return True

    def contains(self, gtid: Gtid) -> bool:
        """Whether the set holds this one transaction."""
        spans = self.spans_of(gtid.sid)
        at = bisect_right(spans, (gtid.gno, MAX_GNO + 1)) - 1
        return at >= 0 and spans[at][0] <= gtid.gno <= spans[at][1]

    def count(self) -> int:
        """How many transactions the set holds."""
        return sum(last - first + 1 for _, spans in self._spans for first, last in spans)

    def largest(self) -> int:
        """The largest number of any server."""
        return max((spans[-1][1] for _, spans in self._spans), default=0)

    def gaps(self) -> GtidSet:
        """The numbers that are not in the set, between a server's first and last number in it."""
        return GtidSet.from_spans({sid: [(spans[0][0], spans[-1][1])] for sid, spans in self._spans}) - self

    def servers(self) -> frozenset[str]:
        """The UUIDs in it."""
        return frozenset(sid.uuid for sid, _ in self._spans)

    def add(self, gtid: Gtid) -> GtidSet:
        """The set with one more transaction. To add many, use `GtidSetBuilder`."""
        builder = self.builder()
        builder.add(gtid)
        return builder.build()

    def builder(self) -> GtidSetBuilder:
        """A set that begins as this one and grows."""
        return GtidSetBuilder(self)

    def __or__(self, other: GtidSet) -> GtidSet:
        if not other or self is other:
            return self
        if not self:
            return other
        union = dict(self._spans)
        for sid, spans in other._spans:
            union[sid] = _unite(union[sid], spans) if sid in union else spans
        return GtidSet(tuple(sorted(union.items())))

    def __sub__(self, other: GtidSet) -> GtidSet:
        left = ((sid, _subtract(spans, other.spans_of(sid))) for sid, spans in self._spans)
        return GtidSet(tuple((sid, spans) for sid, spans in left if spans))

    def __and__(self, other: GtidSet) -> GtidSet:
        return self - (self - other)

    def __le__(self, other: GtidSet) -> bool:
        """Whether `other` contains this set."""
        return all(_covers(other.spans_of(sid), spans) for sid, spans in self._spans)

    def __lt__(self, other: GtidSet) -> bool:
        return self != other and self <= other

    def __ge__(self, other: GtidSet) -> bool:
        return other <= self

    def __gt__(self, other: GtidSet) -> bool:
        return other < self

    def __bool__(self) -> bool:
        return bool(self._spans)

    def __str__(self) -> str:
        # One entry for each UUID, its untagged spans first, as Gtid_set::to_string writes it.
        parts: dict[str, str] = {}
        for sid, spans in self._spans:
            text = ":".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
            text = f"{sid.tag}:{text}" if sid.tag else text
            parts[sid.uuid] = f"{parts[sid.uuid]}:{text}" if sid.uuid in parts else f"{sid.uuid}:{text}"
        return ",".join(parts.values())

    def describe(self) -> dict[str, str | int]:
        """As `gtid_executed`."""
        return {"gtid_executed": str(self)}

    def spans_of(self, sid: Sid | DomainWriter) -> tuple[Span, ...]:
        """The numbers of one UUID and tag, in order."""
        return next((spans for known, spans in self._spans if known == sid), ())


class GtidSetBuilder:
    """A GTID set that grows along a stream; adding the next number of a server costs a comparison."""

    def __init__(self, start: GtidSet | None = None) -> None:
        self._spans: dict[Sid, list[Span]] = {sid: list(spans) for sid, spans in start.items()} if start else {}

    def add(self, gtid: Gtid) -> None:
        """Adds a transaction; a transaction that is already in the set changes nothing."""
        self.add_span(gtid.sid, (gtid.gno, gtid.gno))

    def add_span(self, sid: Sid | DomainWriter, span: Span) -> None:
        """Adds the transactions of one server from the first to the last number of `span`.

        Raises:
            InvalidGtidSetError: They are MariaDB's.
        """
        if not isinstance(sid, Sid):
            raise InvalidGtidSetError(f"{sid} is a domain and a server of MariaDB: the stream is of a MySQL server")
        spans = self._spans.setdefault(sid, [])
        first, last = span
        if not spans or first > spans[-1][1] + 1:
            spans.append(span)
        elif first == spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], last)
        else:
            # Not the server's newest span: a group-replication member assigns numbers in blocks, a replica commits out
            # of order.
            begin = max(bisect_right(spans, (first, 0)) - 1, 0)
            end = bisect_right(spans, (last + 1, MAX_GNO + 1))
            spans[begin:end] = _merge((*spans[begin:end], span))

    def contains(self, gtid: Gtid) -> bool:
        """Whether the set holds this one transaction by now."""
        return self.overlaps(gtid.sid, (gtid.gno, gtid.gno))

    def overlaps(self, sid: Sid | DomainWriter, span: Span) -> bool:
        """Whether the set holds any of the transactions of `span` by now."""
        spans = self._spans.get(sid, []) if isinstance(sid, Sid) else []
        at = bisect_right(spans, (span[1], MAX_GNO + 1)) - 1
        return at >= 0 and spans[at][1] >= span[0]

    def build(self) -> GtidSet:
        """The set as it is now."""
        return GtidSet(tuple(sorted((sid, tuple(spans)) for sid, spans in self._spans.items())))


def _parse_part(part: str, spans_by_sid: dict[Sid, list[Span]]) -> None:
    """One `UUID:...` of a set; a tag holds for the ranges that follow it, until the next tag."""
    uuid, _, ranges = (item.strip() for item in part.partition(":"))
    if braces := _BRACES.fullmatch(uuid):
        uuid = braces[1]
    if not _UUID.fullmatch(uuid):
        shown = part.strip()[:60]
        raise InvalidGtidSetError(f"{uuid[:60]!r} is not the UUID of a server, in the GTID set part {shown!r}")
    digits = uuid.replace("-", "").lower()
    uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    if ":" not in part:
        raise InvalidGtidSetError(f"no transaction numbers follow {uuid!r}")
    spans = spans_by_sid.setdefault(Sid(uuid), [])
    if len(ranges) >= _MANY_CHARACTERS and _PLAIN.fullmatch(ranges) and not _TWO_DASHES.search(ranges):
        # A set may have a hundred thousand ranges: as a JSON list of lists, all of them are parsed at once.
        pairs = json.loads(f"[[{ranges.replace(':', '],[').replace('-', ',')}]]")
        spans += [(pair[0], pair[-1]) for pair in pairs if pair[0] <= pair[-1]]
        return
    _parse_ranges(ranges, uuid, spans_by_sid)


def _parse_ranges(ranges: str, uuid: str, spans_by_sid: dict[Sid, list[Span]]) -> None:
    """Reads what follows a UUID, range by range and tag by tag."""
    spans = spans_by_sid[Sid(uuid)]
    for item in map(str.strip, ranges.split(":")):
        low, dash, high = item.partition("-")
        if not (low.isascii() and low.isdigit() and (not dash or (high.isascii() and high.isdigit()))):
            numbers = _RANGE.fullmatch(item)
            low, high = (numbers[1], numbers[2]) if numbers else ("", "")
        if low:
            # Python parses no number of more than 4,300 digits.
            is_long = max(len(low), len(high)) > _MOST_DIGITS
            first = 0 if is_long else int(low)
            last = int(high) if high and not is_long else first
            if not 1 <= first <= MAX_GNO or last > MAX_GNO:
                raise InvalidGtidSetError(f"{item[:60]!r} is outside 1-{MAX_GNO}, in the GTID set of {uuid}")
            if first <= last:
                spans.append((first, last))
        elif _TAG.fullmatch(item):
            spans = spans_by_sid.setdefault(Sid(uuid, item.lower()), [])
        else:
            shown = item[:60]
            raise InvalidGtidSetError(f"{shown!r} is neither a range of numbers nor a tag, in the GTID set of {uuid}")


def _shared_ends(own: Sequence[Span], other: Sequence[Span]) -> tuple[int, int]:
    """How many spans at the beginning, and how many more at the end, are the same in both.

    Large sets that are compared are mostly the same set at two times. Slices compare without a Python step per span.
    """
    shortest = min(len(own), len(other))
    front = _bisected(shortest, lambda begin, end: own[begin:end] == other[begin:end])
    ones, others = len(own), len(other)
    back = _bisected(
        shortest - front,
        lambda begin, end: own[ones - end : ones - begin] == other[others - end : others - begin],
    )
    return front, back


def _bisected(count: int, same: Callable[[int, int], bool]) -> int:
    """The largest n up to `count` for which all of [0, n) is the same; `same` compares ranges of it."""
    known, size = 0, count
    while size:
        while known + size <= count and same(known, known + size):
            known += size
            if known == count:
                return count
        size //= 2
    return known


def _unite(own: tuple[Span, ...], other: tuple[Span, ...]) -> tuple[Span, ...]:
    """The union of two lists that are both sorted, disjoint and non-adjacent."""
    if len(own) < len(other):
        own, other = other, own
    front, back = _shared_ends(own, other)
    added = other[front : len(other) - back]
    if not added:
        return own
    begin = max(bisect_right(own, (added[0][0], 0)) - 1, 0)
    end = bisect_right(own, (added[-1][1] + 1, MAX_GNO + 1))
    return (*own[:begin], *_merge((*own[begin:end], *added)), *own[end:])


def _merge(spans: Iterable[Span]) -> tuple[Span, ...]:
    merged: list[Span] = []
    begin, end = 0, -1
    for span in sorted(spans):
        if span[0] > end + 1:
            merged.append(span)
            begin, end = span
        elif span[1] > end:
            end = span[1]
            merged[-1] = (begin, end)
    return tuple(merged)


def _covers(spans: tuple[Span, ...], inner: tuple[Span, ...]) -> bool:
    """Whether each span of `inner` lies within one of `spans`; both are sorted, disjoint and non-adjacent."""
    front, back = _shared_ends(spans, inner)
    at, count = front, len(spans)
    for first, last in inner[front : len(inner) - back]:
        while at < count and spans[at][1] < last:
            at += 1
        if at == count or spans[at][0] > first:
            return False
    return True


def _subtract(spans: tuple[Span, ...], minus: tuple[Span, ...]) -> tuple[Span, ...]:
    if not minus:
        return spans
    front, back = _shared_ends(spans, minus)
    minus = minus[front : len(minus) - back]
    if not minus:
        return spans[front : len(spans) - back]
    begin = max(bisect_right(spans, (minus[0][0], 0), lo=front) - 1, front)
    end = bisect_right(spans, (minus[-1][1], MAX_GNO + 1), hi=len(spans) - back)
    return (*spans[front:begin], *_cut_out(spans[begin:end], minus), *spans[end : len(spans) - back])


def _cut_out(spans: tuple[Span, ...], minus: tuple[Span, ...]) -> list[Span]:
    """The part of `spans` that is not in `minus`; `minus` is not empty."""
    left: list[Span] = []
    cuts = iter(minus)
    low, high = next(cuts)
    for span in spans:
        first, last = span
        while high < first:
            low, high = next(cuts, _AFTER_ALL)
        while low <= last:
            if low > first:
                left.append((first, low - 1))
            first = high + 1
            if high >= last:
                # It may overlap the next span too.
                break
            low, high = next(cuts, _AFTER_ALL)
        if first <= last:
            left.append((first, last))
    return left
