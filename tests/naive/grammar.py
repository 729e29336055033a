"""Reads the transactions of a binlog in plain Python, event by event: the second witness of where they begin and end.

It shares no code with `strata`. It knows one table shape, a nullable INT, which is all that the tests write with it.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

import zstandard

CORRUPT, TRUNCATED, UNSUPPORTED = "CorruptEventError", "TruncatedEventError", "UnsupportedEventError"
ENCRYPTED = "EncryptedBinlogError"
ROW_TYPES = (23, 24, 25, 30, 31, 32, 39)
KNOWN = (*range(2, 6), 9, 11, *range(13, 20), *range(23, 43), *range(160, 164), *range(165, 169), 172)
"""Without START_ENCRYPTION, and without what no server of today writes."""


class Fault(Exception):
    def __init__(self, kind: str, offset: int) -> None:
        super().__init__(kind, offset)
        self.kind, self.offset = kind, offset


@dataclass
class Transaction:
    begin: int
    gtid: str | None = None
    end: int = 0
    statements: list[int] = field(default_factory=list)
    lost: bool = False
    rows: list[tuple[str, int]] = field(default_factory=list)
    """Table and value of each row."""
    maps: dict[int, str] = field(default_factory=dict)
    has_begun: bool = False
    is_packed: bool = False
    is_over: bool = False
    """All of a payload has been read but its end."""
    is_xa: bool = False
    step: str = ""
    """`prepare`, `commit` or `rollback` of the XA transaction `xid`."""
    xid: str = ""


class Reader:
    """Goes through a file; `done` are the transactions that ended, `fault` what stopped it."""

    def __init__(self, file: bytes) -> None:
        self.file = file
        self.done: list[Transaction] = []
        self.open: Transaction | None = None
        self.fault: Fault | None = None
        self.lengths: bytes = b""
        self.fragments: list[bytes] = []
        """Of a row event that is not whole yet."""
        try:
            self.read()
        except Fault as fault:
            self.fault = fault

    def read(self) -> None:
        at = 4
        while at < len(self.file):
            if len(self.file) - at < 19:
                raise Fault(TRUNCATED, at)
            size = int.from_bytes(self.file[at + 9 : at + 13], "little")
            if size > len(self.file) - at:
                raise Fault(TRUNCATED, at)
            self.event(self.file[at : at + size - 4], at, at + size)
            at += size
        if self.open:
            raise Fault(TRUNCATED, len(self.file))

    def event(self, event: bytes, at: int, behind: int) -> None:  # noqa: C901, PLR0912, PLR0915 - a branch for each kind
        kind, flags, body = event[4], int.from_bytes(event[17:19], "little"), event[19:]
        bad = Fault(CORRUPT, at)
        is_known = kind in KNOWN or (kind != 164 and flags & 0x80)
        if self.fragments and is_known and kind not in (3, 4, 15, 35, 163, 172):
            raise bad
        if kind == 15:
            self.format(event, at)
        elif kind in (3, 4, 35, 163):
            self.between(at)
        elif kind in (27, 28, 36, 37, 41, 161):
            pass
        elif kind == 162:
            if self.open:
                raise bad
            number = int.from_bytes(body[:8], "little")
            if len(body) < 13 or number == 0:
                raise bad
            domain, server = int.from_bytes(body[8:12], "little"), int.from_bytes(event[5:9], "little")
            self.open = Transaction(at, f"{domain}-{server}-{number}", has_begun=not body[12] & 1)
        elif kind in (165, 166, 167, 168):
            if not self.open or self.open.is_packed:
                raise bad
            try:
                self.event(plain_event(event, bad), at, behind)
            except Fault as fault:
                raise Fault(fault.kind, at) from None
        elif kind == 172:
            if not self.open or self.open.is_packed or not self.open.has_begun:
                raise bad
            whole = self.fragment(body, bad)
            if whole:
                self.event(whole, at, behind)
        elif kind in (33, 34, 42):
            if self.open:
                raise bad
            self.open = Transaction(at, gtid(kind, body, bad))
        elif kind == 40:
            if not self.open or self.open.is_packed or self.open.has_begun:
                raise bad
            self.payload(body, at, behind)
        elif kind == 26:
            if self.open and self.open.is_packed:
                raise bad
            self.start(at).lost = True
            if not self.open.has_begun:
                self.end(at, behind)
        elif kind in (5, 9, 11, 13, 14, 17, 29, 160):
            self.start(at)
            self.refuse_if_over(at)
        elif kind in (2, 18):
            self.query(query_text(kind, body, bad), at, behind)
        elif kind == 19:
            self.refuse_if_over(at)
            if not self.open:
                raise bad
            self.table_map(body)
        elif kind in ROW_TYPES:
            self.refuse_if_over(at)
            if not self.open:
                raise bad
            self.rows(kind, body, bad)
        elif kind in (16, 38):
            self.refuse_if_over(at)
            if not self.open:
                raise bad
            if kind == 38 and not body[0]:
                split = 13 + int.from_bytes(body[5:9], "little")
                self.open.step = "prepare"
                self.open.xid = (
                    f"x'{body[13:split].hex()}',x'{body[split:].hex()}',{int.from_bytes(body[1:5], 'little')}"
                )
            self.end(at, behind)
        elif not flags & 0x80:
            raise Fault(ENCRYPTED if kind == 164 else UNSUPPORTED, at)

    def effects(self) -> list[tuple[int, int, str | None, str, int]]:
        """Each row with the transaction with which it takes effect: ordinal, ordinal in it, GTID, table and value."""
        prepared: dict[str, Transaction] = {}
        found = []
        # What is cut off gives the rows in front of the fault, unless it might have been prepared.
        cut = [self.open] if self.open and not self.open.is_xa else []
        for seq, one in enumerate(self.done + cut, start=1):
            rows = one.rows
            if one is self.open or not one.step:
                pass
            elif one.step == "prepare":
                prepared[one.xid], rows = one, []
            else:
                before = prepared.pop(one.xid, None)
                rows = before.rows if before and one.step == "commit" else []
            found += [(seq, at, one.gtid, table, value) for at, (table, value) in enumerate(rows)]
        return found

    def fragment(self, body: bytes, bad: Fault) -> bytes:
        """The row event that is whole now; nothing while fragments of it are to come."""
        total, number = (int.from_bytes(body[at : at + 4], "little") for at in (0, 4))
        if len(body) < 9 or number != len(self.fragments) + 1 or number > total or body[8] != (number == 1):
            raise bad
        if number == 1:
            self.size, self.total = int.from_bytes(body[9:17], "little"), total
        self.fragments.append(body[17 if number == 1 else 9 :])
        whole = b"".join(self.fragments)
        if total != self.total or len(whole) > self.size or (number == total and len(whole) < self.size):
            raise bad
        if number < total:
            return b""
        self.fragments = []
        if whole[4] not in (23, 24, 25, 166, 167, 168) or int.from_bytes(whole[9:13], "little") != len(whole):
            raise bad
        return whole

    def start(self, at: int) -> Transaction:
        if self.open is None:
            self.open = Transaction(at)
        return self.open

    def refuse_if_over(self, at: int) -> None:
        if self.open and self.open.is_over:
            raise Fault(CORRUPT, at)

    def between(self, at: int) -> None:
        if self.open:
            raise Fault(CORRUPT if self.open.is_packed else TRUNCATED, at)

    def format(self, event: bytes, at: int) -> None:
        self.between(at)
        lengths = event[19 + 57 : -1]
        if self.lengths and lengths != self.lengths:
            raise Fault(UNSUPPORTED, at)
        self.lengths = lengths

    def query(self, text: str | None, at: int, behind: int) -> None:
        word = (text or "a statement").upper()
        self.refuse_if_over(at)
        if word.startswith(("SAVEPOINT ", "ROLLBACK TO", "RELEASE SAVEPOINT ", "XA END")):
            return
        current = self.start(at)
        if word == "BEGIN" or word.startswith("XA START"):
            if current.has_begun:
                raise Fault(CORRUPT, at)
            current.has_begun, current.is_xa = True, word != "BEGIN"
        elif word in ("COMMIT", "ROLLBACK") or word.startswith("XA "):
            if word.startswith("XA ") and not current.has_begun:
                current.step, current.xid = word[3:].lower().split(" ", 1)
            self.end(at, behind)
        else:
            place = current.end if current.is_packed else at
            if place not in current.statements:
                current.statements.append(place)
            current.maps = {}
            if not current.has_begun:
                self.end(at, behind)

    def end(self, at: int, behind: int) -> None:
        assert self.open
        if self.open.is_over:
            raise Fault(CORRUPT, at)
        if self.open.is_packed:
            self.open.is_over = True
            return
        self.open.end = behind
        self.done.append(self.open)
        self.open = None

    def payload(self, body: bytes, at: int, behind: int) -> None:
        current = self.open
        assert current
        current.is_packed, current.end = True, at  # `end` says where its statements stand until it has one
        try:
            inner = inflate(body, at)
            place = 0
            while place < len(inner):
                size = int.from_bytes(inner[place + 9 : place + 13], "little")
                self.event(inner[place : place + size], at, behind)
                place += size
        except Fault as fault:
            raise Fault(fault.kind, at) from None
        if not current.is_over:
            raise Fault(CORRUPT, at)
        current.end = behind
        self.done.append(current)
        self.open = None

    def table_map(self, body: bytes) -> None:
        assert self.open
        database = body[9 : 9 + body[8]].decode()
        rest = body[9 + body[8] + 1 :]
        self.open.maps[int.from_bytes(body[:6], "little")] = f"{database}.{rest[1 : 1 + rest[0]].decode()}"
        self.open.has_begun = True

    def rows(self, kind: int, body: bytes, bad: Fault) -> None:
        assert self.open
        number, is_last = int.from_bytes(body[:6], "little"), body[6] & 1
        table = self.open.maps.get(number)
        if table is None:
            if not is_last or number not in (0xFFFFFFFF, 0xFFFFFFFFFFFF):
                raise bad
        else:
            images = body[8 + int.from_bytes(body[8:10], "little") if kind >= 30 else 8 :]
            if images[:1] != b"\1":
                raise bad
            bitmaps = 2 if kind in (24, 31) else 1
            self.open.rows += [(table, value) for value in cells(images[1 + bitmaps :], bitmaps, bad)]
        if is_last:
            self.open.maps = {}


def cells(data: bytes, images: int, bad: Fault) -> list[int | None]:
    """The last value of each row; each image is a byte of null bits and a number."""
    found, row = [], []
    while data:
        is_null, size = data[0] & 1, 1 if data[0] & 1 else 5
        if size > len(data):
            raise bad
        row.append(None if is_null else int.from_bytes(data[1:5], "little"))
        data = data[size:]
        if len(row) == images:
            found.append(row[-1])
            row = []
    if row:
        raise bad
    return found


def gtid(kind: int, body: bytes, bad: Fault) -> str | None:
    if kind == 42:
        return tagged(body, bad)
    if len(body) < 25:
        raise bad
    number = int.from_bytes(body[17:25], "little", signed=True)
    if kind == 34:
        return None
    if number < 1:
        raise bad
    return f"{uuid(body[1:17])}:{number}"


def uuid(data: bytes) -> str:
    text = data.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def tagged(body: bytes, bad: Fault) -> str:
    """Numbers of one to nine bytes; the count of low bits that are set says how many follow."""
    at = 0

    def number() -> int:
        nonlocal at
        if at >= len(body):
            raise bad
        more = 0
        while more < 8 and body[at] >> more & 1:
            more += 1
        value = int.from_bytes(body[at : at + 1 + more], "little") >> min(more + 1, 8)
        at += 1 + more
        return value

    for _ in range(3):
        number()
    assert number() == 0
    number()
    assert number() == 1
    server = bytes(number() for _ in range(16))
    assert number() == 2
    zigzag = number()
    if zigzag & 1 or zigzag < 2:
        raise bad
    assert number() == 3
    size = number()
    return f"{uuid(server)}:{body[at : at + size].decode()}:{zigzag >> 1}"


def query_text(kind: int, body: bytes, bad: Fault) -> str | None:
    """None for LOAD DATA, which is a statement whatever it says."""
    if kind == 18:
        return None
    text = 13 + int.from_bytes(body[11:13], "little") + body[8] + 1
    if len(body) < 13 or text > len(body):
        raise bad
    return body[text:].decode()


def plain_event(event: bytes, bad: Fault) -> bytes:
    """MariaDB's compressed event as the plain one: a byte that says how long the length is, the length, zlib."""
    kind, body = event[4], event[19:]
    at = 13 + int.from_bytes(body[11:13], "little") + body[8] + 1 if kind == 165 else 9 + (2 if kind == 167 else 1)
    size = body[at] & 7
    try:
        plain = zlib.decompress(body[at + 1 + size :])
    except zlib.error:
        raise bad from None
    if len(plain) != int.from_bytes(body[at + 1 : at + 1 + size], "big"):
        raise bad
    return event[:4] + bytes([{165: 2, 166: 23, 167: 24, 168: 25}[kind]]) + event[5:19] + body[:at] + plain


def inflate(body: bytes, at: int) -> bytes:
    """Fields of kind, length and value up to 0; 1 is the size, 2 the algorithm, 3 what it inflates to."""
    fields, place = {}, 0
    while body[place]:
        kind, size = body[place], body[place + 1]
        value = body[place + 2 : place + 2 + size]
        fields[kind] = value[0] if value[0] < 251 else int.from_bytes(value[1:], "little")
        place += 2 + size
    packed = body[place + 1 : place + 1 + fields[1]]
    inner = zstandard.ZstdDecompressor().decompressobj().decompress(packed) if fields[2] == 0 else packed
    if len(inner) != fields[3]:
        raise Fault(CORRUPT, at)
    return inner
