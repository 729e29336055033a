"""Opening a binlog: mapped into memory, its first event read.
Not here: its other events (`frames.py`, `binlog/events/`), names of segments (`segment.py`)."""

from __future__ import annotations

import gzip
import io
import mmap
import os
import re
import tempfile
import zlib
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import zstandard
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.binlog.bytes.codes import ENCRYPTED_MAGIC, ENGINE_MAGIC, HEADER_BYTES, MAGIC, EventFlag, EventType
from strata_cdc.binlog.bytes.format import (
    FormatDescription,
    names_checksum,
    parse_format_description,
    with_own_checksum,
)
from strata_cdc.binlog.bytes.frames import index_events, verify_checksums
from strata_cdc.binlog.bytes.ranged_bytes import HEAD_BYTES, RangedBytes
from strata_cdc.binlog.bytes.segment import SegmentName
from strata_cdc.errors import (
    CorruptEventError,
    EncryptedBinlogError,
    LakeUnavailableError,
    NotABinlogError,
    StrataError,
    TruncatedEventError,
    UnsupportedEventError,
    Usage,
)
from strata_cdc.files.objects import is_s3
from strata_cdc.files.storage import Folder, require_room

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

_COPY_BYTES = 8 << 20
_FLAGS = slice(17, 19)
"""In an event's header."""
_GZIP_MAGIC, _ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_COMPRESSED = re.compile(r"\.(gz|zst|zstd)$")


class BinlogFile(Struct, frozen=True):
    """An open binlog: its bytes, and how they are laid out."""

    path: str
    """As it was requested: a local path or a URL."""
    buffer: npt.NDArray[np.uint8]
    """The whole file, mapped copy-on-write (kernels are compiled for writable arrays); pages load as they are read."""
    format: FormatDescription
    segment: SegmentName | None
    """What the name says if the file is a landed segment."""
    remote: RangedBytes | None = None
    """Where bytes of the buffer come from before they are read; None if all of them are there."""

    def load(self, begin: int, end: int) -> None:
        """Waits until the bytes between two offsets are in the buffer; must be called before they are read.

        Raises:
            LakeUnavailableError: The file was replaced, or the storage does not answer.
        """
        if self.remote is not None:
            with _file_errors(self.path):
                self.remote.load(begin, end)

    def load_event(self, offset: int) -> int:
        """The same for one event; returns the offset after it, which is no further than the end of the file."""
        size = len(self.buffer)
        self.load(offset, offset + HEADER_BYTES)
        length = int.from_bytes(self.buffer[offset + 9 : offset + 13].tobytes(), "little")
        end = min(offset + max(length, HEADER_BYTES), size)
        self.load(offset, end)
        return end

    def expect(self, extents: Iterable[tuple[int, int]]) -> None:
        """Says which bytes are going to be read next, so that they are on their way before `load` waits for them.

        Args:
            extents: Offsets from and up to which they are, in this order.

        Raises:
            LakeUnavailableError: This machine has no space for them.
        """
        if self.remote is not None:
            with _file_errors(self.path):
                self.remote.expect(extents)

    @property
    def name(self) -> str:
        """The server's name for the file."""
        return self.segment.binlog_file if self.segment else server_name(self.path)

    @property
    def first_event(self) -> int:
        """Offset of FORMAT_DESCRIPTION."""
        return len(MAGIC)

    @property
    def is_relay_log(self) -> bool:
        """Whether a replica wrote the file, from what its source sent."""
        return is_of_relay_log(self.buffer[self.first_event : self.first_event + HEADER_BYTES].tobytes())


def is_of_relay_log(format_event: bytes) -> bool:
    """Whether a file that begins with this FORMAT_DESCRIPTION is a relay log."""
    return bool(int.from_bytes(format_event[_FLAGS], "little") & EventFlag.RELAY_LOG)


def refuse_missing(paths: Iterable[str]) -> None:
    """Checks that local files exist, without opening them; URLs are not checked.

    Raises:
        Usage: One of them does not exist, or is a folder.
    """
    for path in paths:
        if "://" not in path and not Path(path).exists():
            raise Usage("there is no such file", file=path)
        if "://" not in path and Path(path).is_dir():
            raise Usage("this is a folder, and files are needed", file=path, remedy="Name its files.")


@contextmanager
def open_binlog(path: str | os.PathLike[str]) -> Iterator[BinlogFile]:
    """Opens a binlog or a landed segment; a file at a URL, or in gzip or zstd, is copied to a temporary file first.

    Raises:
        NotABinlogError: The file does not start as a binlog.
        EncryptedBinlogError: It is encrypted at rest.
        UnsupportedEventError: A MySQL before 5.0 or a MariaDB before 10.6 wrote it, or it is of a binlog in MariaDB's
            storage engine.
        CorruptEventError: Its first event is damaged.
        Usage: There is no such file.
        LakeUnavailableError: It cannot be read.
    """
    text = os.fspath(path)
    with _file_errors(text), _local_file(text) as file:
        mapped = _map(file)
    buffer = np.frombuffer(mapped, np.uint8) if mapped is not None else np.empty(0, np.uint8)
    # No close of the map at the end: arrays over it may still be used, and the last of them unmaps it.
    del mapped
    yield _opened(text, buffer)


@contextmanager
def open_extents(path: str, extents: Iterable[tuple[int, int]]) -> Iterator[BinlogFile]:
    """Opens a landed segment to read parts of it: of a segment on S3, only these parts and the first event are read,
    and others if `BinlogFile.load` is called for them.

    Args:
        path: Local path or URL.
        extents: Offsets from and up to which bytes are going to be read, in this order.

    Raises:
        StrataError: As `open_binlog`.
    """
    if not is_s3(path):
        with open_binlog(path) as binlog:
            yield binlog
        return
    with ExitStack() as closing:
        with _file_errors(path):
            remote = closing.enter_context(RangedBytes(path, extents))
            buffer = remote.map()
            remote.load(0, HEAD_BYTES)
        yield replace(_opened(path, buffer), remote=remote)


def _opened(text: str, buffer: npt.NDArray[np.uint8]) -> BinlogFile:
    try:
        return BinlogFile(text, buffer, _read_format(buffer), SegmentName.parse(text.rsplit("/", 1)[-1]))
    except StrataError as error:
        raise error.located(file=text) from None


@contextmanager
def _file_errors(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise Usage("there is no such file", file=path) from error
    except OSError as error:
        raise LakeUnavailableError(f"the file cannot be read: {error}", file=path) from error


def server_name(path: str) -> str:
    """The server's name for a file, from its path in an archive."""
    return _COMPRESSED.sub("", path.rsplit("/", 1)[-1])


@contextmanager
def open_bytes(path: str) -> Iterator[BinaryIO]:
    """The bytes of a file in order; of a gzip or zstd file, the uncompressed bytes.

    Raises:
        TruncatedEventError: While they are read: the compressed file ends early, or is damaged.
        OSError: The file does not exist, or cannot be read.
    """
    with _open_raw(path) as raw:
        magic = raw.read(len(_ZSTD_MAGIC))
        raw.seek(0)
        try:
            if magic.startswith(_GZIP_MAGIC):
                yield gzip.GzipFile(fileobj=raw)  # type: ignore[misc]  # has all that is used of it
            elif magic == _ZSTD_MAGIC:
                yield zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
            else:
                yield raw
        except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
            raise TruncatedEventError(f"the compressed file is damaged: {error}", file=path) from None


def _open_raw(path: str) -> BinaryIO:
    if "://" not in path:
        return Path(path).open("rb")
    remote = Folder.open(path)
    opened: BinaryIO = remote.filesystem.open_input_file(remote.path)
    return opened


@contextmanager
def _local_file(text: str) -> Iterator[BinaryIO]:
    with open_bytes(text) as source:
        if isinstance(source, io.BufferedReader):
            yield source
            return
        with tempfile.TemporaryFile(prefix="strata-") as copy:
            while data := source.read(_COPY_BYTES):
                require_room(tempfile.gettempdir(), len(data))
                copy.write(data)
            copy.flush()
            yield copy


def _map(file: BinaryIO) -> mmap.mmap | None:
    size = os.fstat(file.fileno()).st_size
    return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) if size else None


def _read_format(buffer: npt.NDArray[np.uint8]) -> FormatDescription:
    _check_magic(buffer)
    begin = len(MAGIC)
    if len(buffer) < begin + HEADER_BYTES:
        raise TruncatedEventError("the file ends before its first event", offset=begin)
    kind = int(buffer[begin + 4])
    if kind == EventType.START_V3:
        raise UnsupportedEventError("a server before MySQL 5.0 wrote the file", offset=begin)
    length = int.from_bytes(buffer[begin + 9 : begin + 13].tobytes(), "little")
    if kind != EventType.FORMAT_DESCRIPTION or length < HEADER_BYTES:
        raise CorruptEventError("the first event is not a format description", offset=begin)
    if begin + length > len(buffer):
        raise TruncatedEventError("the file ends in its first event", offset=begin)
    try:
        form = parse_format_description(buffer[begin + HEADER_BYTES : begin + length].tobytes())
    except StrataError as error:
        raise error.located(offset=begin) from None
    if names_checksum(form.flavour):
        # This event has its checksum even in files without (`Format_description_log_event::write`).
        event = with_own_checksum(buffer[begin : begin + length].tobytes(), form)
        head = np.frombuffer(MAGIC + event, np.uint8)
        verify_checksums(head, index_events(head, begin, begin + length, form))
    return form


def refuse_engine_file(magic: bytes) -> None:
    """Checks the first four bytes of a file.

    Raises:
        UnsupportedEventError: It is a file of a binlog in MariaDB's storage engine.
    """
    if magic == ENGINE_MAGIC:
        raise UnsupportedEventError(
            "the file is of a binlog in the storage engine of MariaDB (`.ibb`), which has pages and no events",
            remedy="Land it from the server, which sends the events: `strata land`.",
        )


def _check_magic(buffer: npt.NDArray[np.uint8]) -> None:
    magic = buffer[: len(MAGIC)].tobytes()
    refuse_engine_file(magic)
    if magic == ENCRYPTED_MAGIC:
        raise EncryptedBinlogError(
            "the binlog is encrypted at rest",
            remedy="Land it from the server, which sends it decrypted: `strata land`; "
            "or set `binlog_encryption=OFF` and `FLUSH BINARY LOGS` for files to come.",
        )
    if magic != MAGIC:
        raise NotABinlogError("the file does not start as a binlog does")
