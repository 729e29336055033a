"""Where a server without GTIDs is.
Not here: offsets in files by themselves (`binlog_position.py`)."""

from __future__ import annotations

from msgspec import Struct

from strata_cdc.position.binlog_position import BinlogPosition  # noqa: TC001  msgspec asks for it when it packs


class FilePosition(Struct, frozen=True):
    """All that a server has written before an offset of its binlog; a transaction is where it begins."""

    server_uuid: str
    """Its files are its own: the same number on another server is another file."""
    at: BinlogPosition

    @property
    def counted(self) -> str:
        """The files of one server."""
        return f"files of server {self.server_uuid}"

    @property
    def is_shared(self) -> bool:
        """A replica writes files of its own."""
        return False

    def contains(self, transaction: BinlogPosition) -> bool:
        """Whether the transaction that begins there is before the offset."""
        return transaction < self.at

    def __le__(self, other: FilePosition) -> bool:
        """Whether `other` is here or farther on; a total order, as the files are those of one server."""
        return self.at <= other.at

    def __or__(self, other: FilePosition) -> FilePosition:
        """The farther one."""
        return FilePosition(self.server_uuid, max(self.at, other.at))

    def describe(self) -> dict[str, str | int]:
        """As `binlog_file`, `binlog_pos` and `server_uuid`."""
        return {"binlog_file": self.at.file, "binlog_pos": self.at.offset, "server_uuid": self.server_uuid}
