"""The position of a server without GTIDs.
Not here: offsets in files by themselves (`binlog_position.py`)."""

from __future__ import annotations

from msgspec import Struct

from strata_cdc.position.binlog_position import BinlogPosition  # noqa: TC001  msgspec asks for it when it packs


class FilePosition(Struct, frozen=True):
    """Everything that a server has written before an offset of its binlog; a transaction is identified by its begin."""

    server_uuid: str
    """The server of the files: the same number on another server is another file."""
    at: BinlogPosition

    @property
    def counted(self) -> str:
        """The files of one server."""
        return f"files of server {self.server_uuid}"

    @property
    def is_shared(self) -> bool:
        """False: a replica writes its own files."""
        return False

    def contains(self, transaction: BinlogPosition) -> bool:
        """Whether the transaction that begins at a position is before the offset."""
        return transaction < self.at

    def __le__(self, other: FilePosition) -> bool:
        """Whether `other` is the same position or a later one; a total order, because the files are those of one
        server."""
        return self.at <= other.at

    def __or__(self, other: FilePosition) -> FilePosition:
        """The later of both positions."""
        return FilePosition(self.server_uuid, max(self.at, other.at))

    def describe(self) -> dict[str, str | int]:
        """As `binlog_file`, `binlog_pos` and `server_uuid`."""
        return {"binlog_file": self.at.file, "binlog_pos": self.at.offset, "server_uuid": self.server_uuid}
