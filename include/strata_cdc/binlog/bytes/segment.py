"""Landed segments: names that sort in stream order, and files that exist completely or not at all.
Not here: which bytes go into one (`landing/recorder.py`), reading them (`files.py`)."""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import shutil
import struct
import tempfile
import uuid
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from msgspec import Struct

from strata_cdc.binlog.bytes.codes import CHECKSUM_BYTES, HEADER_BYTES
from strata_cdc.errors import AlreadyRunningError, LakeUnavailableError, SourceSettingsError
from strata_cdc.files.objects import create_object, is_s3, write_object
from strata_cdc.files.storage import TEMPORARY_SUFFIX, content_digest, file_digest, require_room

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future

    import numpy.typing as npt

    from strata_cdc.files.storage import Folder

_COPY_BYTES = 8 << 20
_WRITE_BACK_BYTES = 32 << 20
_NAME = re.compile(r"(\d{10})-(.+)-(\d{12,})\.(binlog|rows)")


class SegmentForm(StrEnum):
    """What a segment holds; the end of its name."""

    BINLOG = "binlog"
    """Events, as a server sent them."""
    ROWS = "rows"
    """Rows in Arrow's form, of a source without a binlog (`ticdc/landed_rows.py`)."""


class SegmentName(Struct, frozen=True, order=True):
    """`0000000007-binlog.000042-000000000157.binlog`: the seventh segment, from byte 157 of the server's file.

    Of a source without a binlog: `0000000007-commits.000007-000000000000.rows`.
    """

    ordinal: int
    """From 1 in each source."""
    binlog_file: str
    """The server's name for the file."""
    offset: int
    """Bytes in the server's file, of the first event that was landed from it."""
    form: SegmentForm = SegmentForm.BINLOG

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Reads a file name (without folders); None if it is not the name of a segment."""
        match = _NAME.fullmatch(name)
        return cls(int(match[1]), match[2], int(match[3]), SegmentForm(match[4])) if match else None

    @staticmethod
    def is_one(name: str) -> bool:
        """Whether a file name (without folders) is the name of a segment."""
        return _NAME.fullmatch(name) is not None

    @staticmethod
    def ordinal_of(name: str) -> int:
        """The ordinal in the name of a segment."""
        return int(name[:10])

    def __str__(self) -> str:
        return f"{self.ordinal:010d}-{self.binlog_file}-{self.offset:012d}.{self.form}"


def require_form(folder: Folder, name: SegmentName, form: SegmentForm) -> None:
    """Checks that a landed segment is what the source's kind lands.

    Raises:
        SourceSettingsError: It is of the other kind.
    """
    if name.form is form:
        return
    kinds = ('a server (`kind = "mysql"`)', 'the folder of a TiCDC sink (`kind = "ticdc"`)')
    configured, landed = kinds if form is SegmentForm.BINLOG else kinds[::-1]
    raise SourceSettingsError(
        f"the settings say that it is {configured}, and what has landed under this name is of {landed}",
        file=folder.join(str(name)),
        remedy="Give the new one a source of its own, with another name; or set `kind` as it was.",
    )


class SegmentFile:
    """A segment that is being written, under a temporary name until it is complete."""

    def __init__(self, folder: Folder, head: bytes) -> None:
        """Starts a file in the folder, or on this machine if the folder is not.

        Args:
            folder: Where the segment will be.
            head: The first bytes: magic, format description, previous GTIDs.

        Raises:
            LakeUnavailableError: The storage refuses or is full.
        """
        self._folder = folder
        with storage_errors(folder):
            if folder.is_local:
                folder.filesystem.create_dir(folder.path, recursive=True)
            self.path = f"{staging_folder(folder)}/landing-{uuid.uuid4().hex}{TEMPORARY_SUFFIX}"
            # Not `mkstemp`: the umask decides who may read it.
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        self._file = os.fdopen(handle, "r+b", buffering=0)
        self._disk = _WriteBack(handle)
        self.size = 0
        try:
            self.append(head)
        except LakeUnavailableError:
            self.discard()
            raise

    def append(self, data: bytes | memoryview) -> None:
        """Adds bytes of events."""
        with storage_errors(self._folder):
            if self.size // _WRITE_BACK_BYTES != (self.size + len(data)) // _WRITE_BACK_BYTES:
                require_room(str(Path(self.path).parent), len(data))
            left = memoryview(data)
            while left:
                left = left[self._file.write(left) :]
            self.size += len(data)
            self._disk.note(self.size)

    def view(self) -> npt.NDArray[np.uint8]:
        """What was written so far, mapped; drop it before the next `append`, so that memory stays bounded."""
        return np.frombuffer(mmap.mmap(self._file.fileno(), self.size, access=mmap.ACCESS_COPY), np.uint8)

    def read_from(self, begin: int) -> bytes:
        """The bytes from `begin` to the end."""
        with storage_errors(self._folder):
            return os.pread(self._file.fileno(), self.size - begin, begin)

    def cut(self, size: int) -> None:
        """Drops what is after the first `size` bytes."""
        with storage_errors(self._folder):
            self._file.truncate(size)
            self._file.seek(size)
        self.size = size

    def publish(self, name: str, *, once: bool = False) -> None:
        """Gives the file its name: afterwards it exists and is complete.

        Args:
            name: The name.
            once: Of several processes only one may give it to a file; else the last one's file has it.

        Raises:
            LakeUnavailableError: The storage refuses or is full.
            AlreadyRunningError: Another process has given the name to its file.
        """
        with storage_errors(self._folder):
            self._disk.wait()
        self._file.close()
        if once and not self._folder.is_local:
            publish_once(self._folder, self.path, name)
        else:
            publish_file(self._folder, self.path, name)

    def discard(self) -> None:
        """Removes the file; does nothing if it has its name already."""
        with suppress(OSError):
            self._disk.wait()
        self._file.close()
        Path(self.path).unlink(missing_ok=True)


class _WriteBack:
    """Makes the disk write while more arrives, so that there is less to wait for when a file is complete."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="write-back")
        self._running: Future[None] | None = None
        self._begun = 0

    def note(self, size: int) -> None:
        """Notes that the file has this many bytes by now.

        Raises:
            OSError: The disk refuses earlier bytes. It reports this only once, so it must not be ignored.
        """
        if size - self._begun < _WRITE_BACK_BYTES or (self._running and not self._running.done()):
            return
        if self._running:
            self._running.result()
        self._running, self._begun = self._thread.submit(os.fdatasync, self._handle), size

    def wait(self) -> None:
        """Waits until nothing is being written; the file may be closed then.

        Raises:
            OSError: As of `note`.
        """
        self._thread.shutdown()
        if self._running:
            self._running.result()


def publish_file(folder: Folder, path: str, name: str) -> None:
    """Moves a finished local file into a folder: it exists completely or not at all.

    Raises:
        LakeUnavailableError: The storage refuses or is full.
    """
    with storage_errors(folder):
        if folder.is_local:
            folder.rename(path, f"{folder.path}/{name}")
            return
        if is_s3(folder.url):
            # Seen once it is complete, and of an upload that dies nothing is left.
            with Path(path).open("rb") as source, mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as content:
                write_object(folder.join(name), content)
            Path(path).unlink()
            return
        temporary = f"{folder.path}/{name}{TEMPORARY_SUFFIX}"
        with Path(path).open("rb") as source, folder.filesystem.open_output_stream(temporary) as target:
            shutil.copyfileobj(source, target, _COPY_BYTES)
        folder.rename(temporary, f"{folder.path}/{name}")
        Path(path).unlink()


def publish_once(folder: Folder, path: str, name: str) -> None:
    """Moves a finished local file into a folder on an object store, unless another file has its name there.

    On S3 the store refuses the second of two that do so at once; elsewhere Arrow cannot request that, so that a file
    that gets the name at the same moment is not seen.

    Raises:
        AlreadyRunningError: Another file has the name.
        LakeUnavailableError: The storage refuses or is full.
    """
    with storage_errors(folder):
        if not is_s3(folder.url):
            if folder.exists(name):
                raise _published_elsewhere(folder, name)
            publish_file(folder, path, name)
            return
        with Path(path).open("rb") as source, mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as content:
            # A request whose answer was lost is sent again, and then meets its own object.
            if not create_object(folder.join(name), content) and file_digest(folder.join(name)) != (
                len(content),
                content_digest(content),
            ):
                raise _published_elsewhere(folder, name)
        Path(path).unlink()


def _published_elsewhere(folder: Folder, name: str) -> AlreadyRunningError:
    return AlreadyRunningError(
        "another process lands the same source, and was first with this segment",
        file=folder.join(name),
        remedy="Nothing is lost or twice: what it has not landed yet, the next landing lands. Let one process at a "
        "time land a source.",
    )


def staging_folder(folder: Folder) -> str:
    """Where segments are written before they appear in a folder: the folder itself, or a folder on this machine.

    Raises:
        OSError: There is no such folder.
    """
    if folder.is_local:
        return folder.path
    # The same folder for each run, so that files of a killed run are found; it must belong to this user.
    name = f"strata-{os.getuid()}-{hashlib.sha256(folder.url.encode()).hexdigest()[:24]}"
    own = Path(tempfile.gettempdir(), name)
    own.mkdir(mode=0o700, exist_ok=True)
    if own.lstat().st_uid != os.getuid() or own.is_symlink():
        raise PermissionError(f"{own} belongs to another user")
    return str(own)


def remove_leftovers(folder: Folder, names: Sequence[str]) -> None:
    """Removes the incomplete files of a killed landing; needs the lock of the landing.

    Args:
        folder: The landing folder.
        names: Those that are in the folder, of `Folder.leftovers`.
    """
    for name in names:
        folder.delete(name)
    if not folder.is_local:
        with storage_errors(folder):
            for path in Path(staging_folder(folder)).glob(f"*{TEMPORARY_SUFFIX}"):
                path.unlink()


@contextmanager
def storage_errors(folder: Folder) -> Iterator[None]:
    """Turns errors of a landing's storage in a `with` block into LakeUnavailableError."""
    try:
        yield
    except OSError as error:
        raise LakeUnavailableError(
            f"the landing folder cannot be written: {error}",
            file=folder.url,
            remedy="Nothing that has landed is harmed. Free space or repair the storage, then run `strata land` again.",
        ) from error


def make_event(event_type: int, body: bytes, *, begin: int, flags: int, has_checksum: bool) -> bytes:
    """An event that no server wrote, for byte `begin` of a segment."""
    length = HEADER_BYTES + len(body) + (CHECKSUM_BYTES if has_checksum else 0)
    header = struct.pack("<IBIIIH", 0, event_type, 0, length, begin + length, flags)
    checksum = zlib.crc32(header + body).to_bytes(CHECKSUM_BYTES, "little") if has_checksum else b""
    return header + body + checksum
