"""A folder of binlog files, in their order: each file has the GTID set of what came before it.
Not here: landing them (`land_files.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.binlog.bytes.codes import (
    ENCRYPTED_MAGIC,
    EXECUTED_LISTS,
    HEADER_BYTES,
    LARGEST_HEAD_BYTES,
    MAGIC,
    EventType,
)
from strata_cdc.binlog.bytes.files import is_of_relay_log, open_bytes, refuse_engine_file, server_name
from strata_cdc.binlog.bytes.format import parse_format_description
from strata_cdc.binlog.events.parse import unsupported
from strata_cdc.errors import (
    CorruptEventError,
    EncryptedBinlogError,
    LakeUnavailableError,
    StrataError,
    TruncatedEventError,
    Usage,
)
from strata_cdc.files.storage import Folder
from strata_cdc.landing.recorder import FileHead

if TYPE_CHECKING:
    from typing import BinaryIO

    from strata_cdc.position.port import Executed


class ArchivedFile(Struct, frozen=True):
    """One binlog of the archive."""

    url: str
    head: FileHead
    """Its first events; the server's name for it has no `.gz` and the like."""
    previous: Executed
    """What had been executed before it."""

    @property
    def name(self) -> str:
        """The server's name for it."""
        return self.head.binlog_file


def read_archive(url: str) -> list[ArchivedFile]:
    """The binlogs of a folder, each after those that came before it by its own GTID set; other files are skipped.

    Names do not matter: of files with the same set, all but one have no transaction, or they are copies.

    Args:
        url: Folder or URL; files may be plain, or in gzip or zstd.

    Raises:
        Usage: The folder has no binlogs, or relay logs.
        EncryptedBinlogError: A file is encrypted at rest.
        UnsupportedEventError: A file is of a binlog in MariaDB's storage engine.
        CorruptEventError: The first events of a file are damaged.
        LakeUnavailableError: The folder cannot be read.
    """
    folder = Folder.open(url)
    try:
        heads = [_read_head(folder.join(name)) for name in folder.names()]
    except OSError as error:
        raise LakeUnavailableError(f"the files cannot be read: {error}", file=url) from error
    files = [file for file in heads if file is not None]
    if not files:
        raise Usage(
            "the folder has no binlog files, or is not there", file=url, remedy="Name the folder with copies of them."
        )
    _refuse_two_families(files)
    return sorted(files, key=lambda file: (file.previous.count(), file.name))


def _refuse_two_families(files: list[ArchivedFile]) -> None:
    first = {file.head.form.flavour.vendor: file for file in reversed(files)}
    if len(first) > 1:
        names = ", ".join(f"{file.name} of {vendor}" for vendor, file in sorted(first.items()))
        raise Usage(
            f"the folder has binlogs of two kinds of servers: {names}",
            remedy="Give the files of each server a folder and a source of their own.",
        )


def _read_head(url: str) -> ArchivedFile | None:
    try:
        with open_bytes(url) as stream:
            magic = stream.read(len(MAGIC))
            refuse_engine_file(magic)
            if magic == ENCRYPTED_MAGIC:
                raise EncryptedBinlogError(
                    "the binlog is encrypted at rest",
                    remedy="Land it from the server, which sends it decrypted: `strata land`.",
                )
            return _read_events(url, stream) if magic == MAGIC else None
    except StrataError as error:
        raise error.located(file=url) from None


def _read_events(url: str, stream: BinaryIO) -> ArchivedFile:
    format_event = _read_event(stream)
    if format_event[4] != EventType.FORMAT_DESCRIPTION:
        raise Usage("the first event is not a format description")
    if is_of_relay_log(format_event):
        raise Usage(
            "this is a replica's relay log, which does not say what its source had executed before it",
            remedy="Give a folder with the source's own binlogs, or with the replica's (`log_replica_updates`), and no "
            "relay logs. `strata decode FILES` reads relay logs.",
        )
    form = parse_format_description(format_event[HEADER_BYTES:])
    previous_event = _read_event(stream)
    if previous_event[4] == EventType.START_ENCRYPTION:
        raise unsupported(EventType.START_ENCRYPTION, len(MAGIC) + len(format_event))
    if previous_event[4] not in EXECUTED_LISTS:
        raise Usage(
            "the file does not say which transactions had been executed before it",
            remedy="MySQL writes that since 5.6; decode older files with `strata decode FILES --out FILE`.",
        )
    head = FileHead(server_name(url), form, format_event, previous_event)
    return ArchivedFile(url, head, head.previous())


def _read_event(stream: BinaryIO) -> bytes:
    header = stream.read(HEADER_BYTES)
    length = int.from_bytes(header[9:13], "little")
    if length > LARGEST_HEAD_BYTES:
        raise CorruptEventError(f"one of the first events says that it has {length} bytes")
    event = header + stream.read(max(length - HEADER_BYTES, 0))
    if len(header) < HEADER_BYTES or len(event) < length:
        raise TruncatedEventError("the file ends in its first events")
    return event
