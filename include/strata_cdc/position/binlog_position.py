"""Positions in a server's binlog files.
Not here: GTID sets (`sets.py`); the map between both (`binlog/events/index.py`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from strata_cdc.errors import Usage

_MOST_DIGITS = 19
"""Digits of a file's number and of an offset, both below 2^63."""


@dataclass(frozen=True, slots=True, order=True)
class BinlogPosition:
    """A byte offset in a numbered binlog file; ordered by number, never by the text of the name.

    `binlog.999999` is followed by `binlog.1000000`, which sorts before it as text.
    """

    file_number: int
    offset: int
    file: str = field(compare=False)

    @classmethod
    def from_offset(cls, file: str, offset: int) -> Self:
        """Position `offset` (bytes) in the file named `file`, with or without folders.

        Raises:
            Usage: The name does not end in a dot and a number.
        """
        name = file.rsplit("/", 1)[-1]
        _, dot, digits = name.rpartition(".")
        if not dot or not _is_number(digits):
            raise Usage(
                f"{name[:60]!r} is not the name of a binlog file",
                remedy="Binlog files end in a dot and a number, as in `binlog.000042`.",
            )
        if offset < 0:
            raise Usage(f"{offset} is not an offset in a file")
        return cls(int(digits), offset, name)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `FILE:OFFSET`.

        Raises:
            Usage: The text has another form.
        """
        file, colon, offset = text.rpartition(":")
        if not colon or not _is_number(offset):
            raise Usage(
                f"{text[:60]!r} is not a position",
                remedy="Write FILE:OFFSET, as in `binlog.000042:1934`.",
            )
        return cls.from_offset(file, int(offset))

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


@dataclass(frozen=True, slots=True)
class ServerPosition:
    """A position in the binlog files of one server; files of another server may have the same names."""

    server_uuid: str
    position: BinlogPosition
