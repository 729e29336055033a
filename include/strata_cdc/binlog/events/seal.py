"""Checksums in a Parquet file, so that a reader sees whether it is as it was written.

Parquet has checksums of its pages, but none of its footer at the end of the file. Two more checksums are in a field of
the footer: that of the footer, with the field blank, and that of everything before it.
Not here: what the file holds (`index.py`), what is done with a damaged file (`landing/repair.py`).
"""

from __future__ import annotations

import zlib
from pathlib import Path

from msgspec import Struct

FIELD = b"strata.checksums"
BLANK = b"crc32:" + b"0" * 16
"""What the field has while the file is written; the digits are of the footer, then of the rest."""
_MAGIC = b"PAR1"
_LENGTH_BYTES = 4
_TAIL_BYTES = _LENGTH_BYTES + len(_MAGIC)


class Seal(Struct, frozen=True):
    """Where a footer lies in a file, and its two checksums."""

    begin: int
    """Offset of the footer."""
    footer: bytes
    """As it was before it was sealed."""
    checksums: bytes
    """As in the field."""

    def is_whole(self) -> bool:
        """Whether the footer is as it was written."""
        return self.checksums[:8] == _digits(self.footer)

    def holds(self, content: bytes) -> bool:
        """Whether all of a file is as it was written."""
        return self.is_whole() and self.checksums[8:] == _digits(content[: self.begin])


def footer_bytes(size: int, tail: bytes) -> int:
    """How many bytes at the end of a file of `size` bytes have its footer, if `tail` ends it.

    Raises:
        ValueError: It is no Parquet file.
    """
    length = int.from_bytes(tail[-_TAIL_BYTES : -len(_MAGIC)], "little") + _TAIL_BYTES
    if tail[-len(_MAGIC) :] != _MAGIC or length > size:
        raise ValueError("it does not end as a Parquet file does")
    return length


def read_seal(size: int, end: bytes) -> Seal | None:
    """The seal of a file of `size` bytes from the bytes of its footer up to its end; None if it never had one."""
    footer = end[:-_TAIL_BYTES]
    prefix = BLANK[:6]
    at = footer.rfind(prefix, 0, len(footer))
    if FIELD not in footer and at < 0:
        return None
    begin, stop = at + len(prefix), at + len(BLANK)
    blank = footer[:begin] + BLANK[len(prefix) :] + footer[stop:]
    return Seal(size - len(end), blank, footer[begin:stop])


def seal_file(path: str) -> None:
    """Writes the checksums of a finished file into its field."""
    with Path(path).open("r+b") as file:
        content = file.read()
        end = content[-footer_bytes(len(content), content[-_TAIL_BYTES:]) :]
        seal = read_seal(len(content), end)
        if seal is None:
            raise ValueError("the file has no field for its checksums")
        file.seek(seal.begin + end.rfind(BLANK) + BLANK.index(b"0" * 16))
        file.write(_digits(seal.footer) + _digits(content[: seal.begin]))


def _digits(data: bytes) -> bytes:
    return f"{zlib.crc32(data):08x}".encode()
