"""Where a binlog file or a landed segment begins, as every change source reports it; cheap to import, for the packages
of `schema/`. Not here: what is in it (`port.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from strata_cdc.position.port import Executed


class FileStart(Struct, frozen=True):
    """The binlog file or segment that comes next."""

    binlog_file: str
    """The server's name for it."""
    identity: str
    """What distinguishes files with the same name: the server's UUID if it is known, else the time of the first
    event."""
    begin_pos: int
    """Offset in the server's file from which the stream has it; 0 for its start."""
    previous: Executed | None
    """What the stream has before it; None if the server is too old to write PREVIOUS_GTIDS."""
    created_at: int
    """Microseconds UTC, of its first event."""
    restarted: bool = False
    """Whether the server had just been started, so that no earlier session exists."""
    is_landed: bool = False
    """Whether it is a landed segment: between it and the one before are at most files without transactions."""
    is_relay_log: bool = False
    """Whether its list of what had been executed is that of a replica's connection, which began at any transaction."""

    def starts_empty(self, *, is_anonymous: bool) -> bool:
        """Whether nothing can have been there before the file. A server without GTIDs writes an empty PREVIOUS_GTIDS
        into every file, so only its first file shows it."""
        if self.previous is None or self.previous or self.is_relay_log:
            return False
        return not is_anonymous or file_number(self.binlog_file) == 1

    def follows(self, binlog_file: str | None) -> bool:
        """Whether an anonymous stream that has been read in another file continues here, or is read again."""
        return binlog_file is None or file_number(self.binlog_file) <= file_number(binlog_file) + 1


def file_number(binlog_file: str) -> int:
    """The number at the end of a binlog file's name; 0 for a file with another name."""
    digits = binlog_file.rpartition(".")[2]
    return int(digits) if digits.isascii() and digits.isdigit() else 0
