"""Reads fields one after the other from the body of an event, and never beyond it.
Not here: which fields an event has (`format.py`, `binlog/events/`)."""

from __future__ import annotations

from strata_cdc.errors import CorruptEventError


class ByteCursor:
    """A position in some bytes; each read moves it forward.

    Raises:
        CorruptEventError: By every read that would go beyond the end.
    """

    __slots__ = ("_data", "at", "end")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self.at = at
        self.end = len(data)

    def left(self) -> int:
        """Bytes up to the end."""
        return self.end - self.at

    def next_bytes(self, count: int) -> bytes:
        """The next `count` bytes."""
        begin = self.at
        if count < 0 or count > self.end - begin:
            raise CorruptEventError(f"an event ends {count - (self.end - begin)} bytes before one of its fields")
        self.at = begin + count
        return self._data[begin : self.at]

    def rest(self) -> bytes:
        """All remaining bytes."""
        return self.next_bytes(self.left())

    def uint(self, size: int) -> int:
        """A little-endian number of `size` bytes."""
        return int.from_bytes(self.next_bytes(size), "little")

    def lenenc(self) -> int:
        """A length-encoded integer, as the client protocol has them ("packed integer")."""
        if self.at < self.end and (first := self._data[self.at]) < 251:
            # Nearly all: each compressed transaction has ten.
            self.at += 1
            return first
        first = self.uint(1)
        if first == 252:
            return self.uint(2)
        if first == 253:
            return self.uint(3)
        if first == 254:
            return self.uint(8)
        raise CorruptEventError(f"byte {first} does not start a length")

    def text(self, size: int) -> str:
        """Text of `size` bytes in UTF-8; other bytes are kept as surrogates."""
        return self.next_bytes(size).decode("utf-8", "surrogateescape")

    def terminated(self) -> bytes:
        """Bytes up to a NUL, which is skipped."""
        stop = self._data.find(b"\0", self.at, self.end)
        if stop < 0:
            raise CorruptEventError("a name in an event has no end")
        data = self._data[self.at : stop]
        self.at = stop + 1
        return data

    def varint(self) -> int:
        """An unsigned number of `mysql::serialization`: as many extra bytes as the first one ends in 1 bits."""
        first = self.uint(1)
        extra = 0
        while extra < 8 and first >> extra & 1:
            extra += 1
        if extra == 8:
            return self.uint(8)
        return (self.uint(extra) << (7 - extra)) | (first >> (extra + 1))

    def signed_varint(self) -> int:
        """A signed number of `mysql::serialization`: the lowest bit is the sign, negative numbers are complemented."""
        value = self.varint()
        return ~(value >> 1) if value & 1 else value >> 1
