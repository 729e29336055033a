"""Builds binlogs byte by byte, so that tests can say exactly what is in them.
Not here: binlogs that a server wrote (`tests/binlog/golden/`)."""

from __future__ import annotations

import struct
import zlib
from uuid import UUID

import zstandard

from strata_cdc.binlog.events.gtid import encode_gtid_set
from strata_cdc.position.sets import GtidSet

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
# Post-headers of types 1 to 42 as MySQL 9.7 lists them.
LENGTHS = tuple(bytes.fromhex("000d0008000000000400040000006300041a08000000080808020000000a0a0a2a2a001234000a280000"))


MARIADB_LENGTHS = (*LENGTHS[:42], *bytes(117), 0, 4, 19, 4, 21, 13, 8, 8, 8, 10, 10, 10)
"""The same of types 1 to 171 as MariaDB 11.8 lists them, as far as it writes them."""
_WITHOUT_POSITION = {19, 23, 24, 25, 30, 31, 32, 160, 166, 167, 168, 172}
"""Events to which MariaDB gives no end position from 11.4 on."""


def varint(number: int) -> bytes:
    """A number of `mysql::serialization`: the count of low bits that are set says how many bytes follow."""
    extra = next(n for n in range(8) if number < 1 << (7 * (n + 1)))
    return ((number << extra + 1) | (1 << extra) - 1).to_bytes(extra + 1, "little")


def _field(kind: int, value: int) -> bytes:
    packed = bytes([value]) if value < 251 else b"\xfe" + value.to_bytes(8, "little")
    return bytes([kind, len(packed)]) + packed


class Binlog:
    """A file that grows; every method adds one event and returns its offset."""

    def __init__(self, *, version: str = "9.7.4", checksum: bool = True, lengths: tuple[int, ...] = LENGTHS) -> None:
        self.data = bytearray(b"\xfebin")
        self.checksum, self.is_inner, self.version = checksum, False, version
        self.format(lengths)

    def format(self, lengths: tuple[int, ...]) -> int:
        """FORMAT_DESCRIPTION, which has a checksum whatever the other events have."""
        body = struct.pack("<H50sIB", 4, self.version.encode(), 0, 19) + bytes(lengths)
        with_checksums = tuple(int(part) for part in self.version.split("-")[0].split(".")) >= (5, 6, 1)
        if with_checksums:
            body += bytes([int(self.checksum)])
        return self._add(15, body, checksum=with_checksums)

    def event(self, kind: int, body: bytes, *, flags: int = 0, seconds: int = 1_700_000_000) -> int:
        return self._add(kind, body, checksum=self.checksum, flags=flags, seconds=seconds)

    def _add(self, kind: int, body: bytes, *, checksum: bool, flags: int = 0, seconds: int = 1_700_000_000) -> int:
        at = len(self.data)
        length = 19 + len(body) + (4 if checksum else 0)
        is_left_out = "MariaDB" in self.version and kind in _WITHOUT_POSITION
        end = 0 if self.is_inner or is_left_out else (at + length) & 0xFFFFFFFF
        event = struct.pack("<IBIIIH", seconds, kind, 1, length, end, flags) + body
        self.data += event + (zlib.crc32(event).to_bytes(4, "little") if checksum else b"")
        return at

    def previous(self, gtid_set: str = "") -> int:
        return self.event(35, encode_gtid_set(GtidSet.parse(gtid_set)), flags=0x80)

    def gtid(
        self,
        gno: int,
        *,
        micros: int | None = 0,
        original: int | None = None,
        server: str = SERVER,
        seconds: int = 1_700_000_000,
    ) -> int:
        """`micros` is None on servers that are too old for it; `original` is what a replica adds."""
        body = b"\1" + UUID(server).bytes + struct.pack("<qBqq", gno, 2, 0, 1)
        if micros is None:
            return self.event(33, body, seconds=seconds)
        if original is None:
            return self.event(33, body + micros.to_bytes(7, "little"))
        return self.event(33, body + (micros | 1 << 55).to_bytes(7, "little") + original.to_bytes(7, "little"))

    def anonymous(self, *, micros: int = 0) -> int:
        return self.event(34, b"\1" + bytes(24) + struct.pack("<Bqq", 2, 0, 1) + micros.to_bytes(7, "little"))

    def tagged(self, gno: int, tag: str, *, server: str = SERVER) -> int:
        numbers = b"".join(varint(byte) for byte in UUID(server).bytes)
        fields = varint(0) + varint(0) + varint(1) + numbers + varint(2) + varint(gno << 1)
        fields += varint(3) + varint(len(tag)) + tag.encode()
        return self.event(42, varint(1) + varint(len(fields) + 3) + varint(0) + fields)

    def payload(self, inner: Binlog, *, compress: bool = True, claims: int | None = None) -> int:
        """The events of another binlog, which is given no checksums and says 0 for their end positions."""
        events = bytes(inner.data)
        packed = zstandard.ZstdCompressor().compress(events) if compress else events
        fields = _field(1, len(packed)) + _field(2, 0 if compress else 255)
        fields += _field(3, len(events) if claims is None else claims)
        return self.event(40, fields + b"\0" + packed)

    @classmethod
    def inner(cls) -> Binlog:
        """One to put into a payload."""
        binlog = cls(checksum=False)
        binlog.data, binlog.is_inner = bytearray(), True
        return binlog

    def query(self, text: str, *, database: str = "d", variables: bytes = b"", seconds: int = 1_700_000_000) -> int:
        body = struct.pack("<IIBHH", 7, 0, len(database), 0, len(variables)) + variables
        return self.event(2, body + database.encode() + b"\0" + text.encode(), seconds=seconds)

    def table_map(self, table_id: int = 1, *, database: str = "d", table: str = "t") -> int:
        """A table of one nullable INT."""
        names = bytes([len(database)]) + database.encode() + b"\0" + bytes([len(table)]) + table.encode() + b"\0"
        return self.event(19, table_id.to_bytes(6, "little") + b"\1\0" + names + b"\1\3\0\1\1\1\0")

    def write(self, values: list[int], table_id: int = 1, *, last: bool = True, padding: int = 0) -> int:
        rows = b"".join(b"\0" + value.to_bytes(4, "little") for value in values)
        extra = struct.pack("<H", 2 + padding) + bytes(padding)
        body = table_id.to_bytes(6, "little") + struct.pack("<H", int(last)) + extra + b"\1\1" + rows
        return self.event(30, body)

    def xid(self, number: int = 1, *, seconds: int = 1_700_000_000) -> int:
        return self.event(16, number.to_bytes(8, "little"), seconds=seconds)

    def xa_prepare(self, gtrid: bytes, *, one_phase: bool = False, seconds: int = 1_700_000_000) -> int:
        return self.event(38, struct.pack("<?iII", one_phase, 1, len(gtrid), 0) + gtrid, seconds=seconds)

    def domain_gtid(self, number: int, *, flags: int = 0, domain: int = 0) -> int:
        """A GTID of MariaDB; flag 1 says that one statement follows."""
        return self.event(162, struct.pack("<QIBB", number, domain, flags, 0) + bytes(5), flags=8)

    def compressed(self, kind: int, plain: bytes, packed: bytes, *, claims: int | None = None) -> int:
        """An event of MariaDB of which `packed` is compressed, after `plain`."""
        size = len(packed) if claims is None else claims
        return self.event(kind, plain + b"\x82" + size.to_bytes(2, "big") + zlib.compress(packed))

    def fragment(self, number: int, total: int, chunk: bytes, *, size: int | None = None) -> int:
        """A fragment of a row event of MariaDB; the first one has its `size`."""
        head = struct.pack("<IIB", total, number, size is not None)
        return self.event(172, head + (b"" if size is None else size.to_bytes(8, "little")) + chunk)

    def fragments(self, kind: int, body: bytes, cuts: list[int]) -> None:
        """A row event in fragments, cut at these offsets."""
        whole = struct.pack("<IBIIIH", 1_700_000_000, kind, 1, 19 + len(body), 0, 0) + body
        ends = [*cuts, len(whole)]
        for number, (begin, end) in enumerate(zip([0, *cuts], ends, strict=True), start=1):
            self.fragment(number, len(ends), whole[begin:end], size=len(whole) if number == 1 else None)

    def insert(self, gno: int, values: list[int], *, micros: int = 0) -> int:
        """A whole transaction."""
        at = self.gtid(gno, micros=micros)
        self.query("BEGIN")
        self.table_map()
        self.write(values)
        self.xid()
        return at
