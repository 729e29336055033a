"""Files of the lake: a folder or any URL that `pyarrow.fs` opens, written so that a file is there whole or not at all.
Not here: what is in them (`binlog/bytes/segment.py`, `tables/`, `pipeline/`), where they belong
(`tables/layout.py`)."""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from errno import EACCES, ENOSPC, ENOTDIR, EROFS
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import pyarrow as pa
from msgspec import Struct
from pyarrow import fs

from strata_cdc.errors import LakeUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

TEMPORARY_SUFFIX = ".part"
"""Ends the name of a file that is being written; readers of a folder leave it out."""
_SPARE_BYTES = 256 << 20
"""Is left free by what may grow without end; less on a small disk."""
_BLOCK_BYTES = 1 << 20
_SYNCED_AT_ONCE = 8
_MOST_LISTINGS = 100
"""Of a folder that is made, or gone, each time."""
_Taken = TypeVar("_Taken")


class Folder(Struct, frozen=True):
    """A folder of the lake. `url` is what the user wrote; names are relative to it, with `binlog/bytes/`."""

    url: str
    filesystem: fs.FileSystem
    path: str

    @classmethod
    def open(cls, url: str) -> Self:
        """A folder by its URL or local path; it need not exist yet.

        Raises:
            LakeUnavailableError: No file system has this kind of URL, or it cannot be reached.
        """
        filesystem, path = arrow_file_system(url)
        return cls(url, filesystem, path.rstrip("/"))

    @property
    def is_local(self) -> bool:
        """Whether `path` is a path of this machine."""
        return isinstance(self.filesystem, fs.LocalFileSystem)

    def folder(self, name: str) -> Folder:
        """A folder below this one."""
        return Folder(self.join(name), self.filesystem, f"{self.path}/{name}")

    def join(self, name: str) -> str:
        """The URL of a file in this folder."""
        return f"{self.url.rstrip('/')}/{name}"

    def names(self) -> list[str]:
        """Names of the finished files right in this folder, sorted; none if there is no folder.

        Raises:
            LakeUnavailableError: The storage does not answer.
        """
        return [name for name in self._all_names() if not name.endswith(TEMPORARY_SUFFIX)]

    def leftovers(self) -> list[str]:
        """Names of files right in this folder that are being written, or were when their writer died.

        Raises:
            LakeUnavailableError: The storage does not answer.
        """
        return [name for name in self._all_names() if name.endswith(TEMPORARY_SUFFIX)]

    def _all_names(self) -> list[str]:
        with lake_errors(self.url):
            found = listed(self.filesystem, self.path)
        return sorted(info.base_name for info in found if info.type == fs.FileType.File)

    def is_there(self) -> bool:
        """Whether there is such a folder; on an object store, whether anything is in it.

        Raises:
            LakeUnavailableError: The storage does not answer.
        """
        with lake_errors(self.url):
            info = self.filesystem.get_file_info(self.path)
        return bool(info.type == fs.FileType.Directory)

    def exists(self, name: str) -> bool:
        """Whether the file is there, whole.

        Raises:
            LakeUnavailableError: The storage does not answer.
        """
        with lake_errors(self.join(name)):
            info = self.filesystem.get_file_info(f"{self.path}/{name}")
        return bool(info.type == fs.FileType.File)

    def read(self, name: str) -> bytes:
        """The whole of a small file.

        Raises:
            LakeUnavailableError: It is not there, or cannot be read.
        """
        with (
            lake_errors(self.join(name)),
            self.filesystem.open_input_stream(f"{self.path}/{name}") as stream,
        ):
            return bytes(stream.read())

    def write(self, name: str, content: bytes) -> None:
        """Writes a small file: afterwards it is there whole, and before that its former content is.

        Raises:
            LakeUnavailableError: The storage refuses or is full; the former content stands.
        """
        with lake_errors(self.join(name)):
            _write(self.filesystem, f"{self.path}/{name}", content)

    def stamps(self) -> dict[str, tuple[int, int]]:
        """Size (bytes) and time of the last change (nanoseconds) of the finished files right in this folder.

        Raises:
            LakeUnavailableError: The storage does not answer.
        """
        with lake_errors(self.url):
            found = listed(self.filesystem, self.path)
        return {info.base_name: (info.size, info.mtime_ns or 0) for info in found if info.type == fs.FileType.File}

    def delete(self, name: str) -> None:
        """Deletes a file; that it is gone already is no error.

        Raises:
            LakeUnavailableError: The storage refuses.
        """
        with lake_errors(self.join(name)):
            _delete(self.filesystem, f"{self.path}/{name}")

    def rename(self, temporary: str, final: str) -> None:
        """Gives a finished file (paths of the file system) its name, over one that may be there."""
        if self.is_local:
            _sync(temporary)
            Path(temporary).replace(final)
        else:
            self.filesystem.move(temporary, final)


def write_file(url: str, *content: Any, unsynced: list[str] | None = None) -> None:
    """Writes a file so that it is there as a whole or not at all; one that exists is replaced.

    Args:
        url: Local path or URL.
        content: Bytes or anything with their buffer, one behind the other.
        unsynced: Gets the path if a power cut may still take the content: the caller owes `sync_files` before anything
            refers to the file. None: the disk has it when this returns.

    Raises:
        LakeUnavailableError: The storage does not take it.
    """
    with lake_errors(url):
        files, path = _open(url)
        _write(files, path, *content, unsynced=unsynced)


def sync_files(paths: Sequence[str]) -> None:
    """Waits until the disk has the content of local files.

    At once, since a file system writes its journal once for all who wait: three files take 1 ms on ext4, one after the
    other 5 ms.

    Raises:
        OSError: The disk does not take it.
    """
    others = [_syncing(os.getpid()).submit(_sync, path) for path in paths[1:]]
    for path in paths[:1]:
        _sync(path)
    for other in others:
        other.result()


@cache
def _syncing(_process: int) -> ThreadPoolExecutor:
    """Threads that wait for the disk; those of another process do not live on in one that was forked from it."""
    return ThreadPoolExecutor(_SYNCED_AT_ONCE, thread_name_prefix="sync")


def _sync(path: str) -> None:
    with Path(path).open("rb") as stream:
        os.fsync(stream.fileno())


def read_file(url: str) -> bytes | None:
    """The content of a file, or None if there is none.

    Raises:
        LakeUnavailableError: The storage does not answer.
    """
    return _taken(url, lambda stream: bytes(stream.read()))


def _taken(url: str, take: Callable[[pa.NativeFile], _Taken]) -> _Taken | None:
    """What is taken of an opened file, or None if there is none."""
    with lake_errors(url):
        files, path = _open(url)
        try:
            with files.open_input_file(path) as stream:
                return take(stream)
        except FileNotFoundError:
            return None


class FileBuffer:
    """Memory that one file after the other is read into: what is new to a process is slow at first."""

    def __init__(self) -> None:
        self._bytes = np.empty(0, np.uint8)

    def read(self, url: str) -> memoryview | None:
        """The content of a file until the next one is read, or None if there is none.

        Raises:
            LakeUnavailableError: The storage does not answer.
        """
        return _taken(url, self._take)

    def _take(self, stream: pa.NativeFile) -> memoryview:
        size = stream.size()
        if len(self._bytes) < size:
            # Not zeroed, and in large pages where the system has them.
            self._bytes = np.empty(size, np.uint8)
        view = self._bytes.data[:size]
        return view[: stream.readinto(view)]


def listed(files: fs.FileSystem, path: str, *, recursive: bool = False) -> list[fs.FileInfo]:
    """What is in a folder; nothing if there is no folder.

    Raises:
        OSError: The storage does not answer.
    """
    selector = fs.FileSelector(path, allow_not_found=True, recursive=recursive)
    for _ in range(_MOST_LISTINGS):
        # Arrow lists, and where there was no folder looks whether there is one: it takes one that has been made in
        # between for a fault (`LocalFileSystem::GetFileInfo`, arrow/filesystem/localfs.cc).
        with suppress(FileNotFoundError):
            return list(files.get_file_info(selector))
    return list(files.get_file_info(selector))


def list_files(url: str) -> list[str]:
    """URLs of all files in a folder and below, sorted; half-written ones included, nothing if there is no folder.

    Raises:
        LakeUnavailableError: The storage does not answer.
    """
    return sorted(file_times(url))


def file_times(url: str) -> dict[str, int]:
    """By URL, when each file in a folder and below was last changed: microseconds UTC, 0 if the storage does not say.

    Raises:
        LakeUnavailableError: The storage does not answer.
    """
    with lake_errors(url):
        files, path = _open(url)
        root = url.rstrip("/")
        found = listed(files, path, recursive=True)
        skip = len(path.rstrip("/"))
        return {
            root + info.path[skip:]: (info.mtime_ns or 0) // 1000 for info in found if info.type == fs.FileType.File
        }


def list_folders(url: str) -> list[str]:
    """Names of the folders in a folder, sorted; nothing if there is none.

    Raises:
        LakeUnavailableError: The storage does not answer.
    """
    with lake_errors(url):
        files, path = _open(url)
        found = listed(files, path)
        return sorted(info.base_name for info in found if info.type == fs.FileType.Directory)


def delete_file(url: str) -> None:
    """Deletes a file; that it is gone already is no error.

    Raises:
        LakeUnavailableError: The storage does not answer.
    """
    with lake_errors(url):
        _delete(*_open(url))


def content_digest(content: Any) -> str:
    """SHA-256 of bytes, as hexadecimal digits.

    Processors have instructions for it: 1.8 GB/s on one core, against 0.9 of BLAKE2b and 0.5 of SHA-3 (OpenSSL 3.0).
    """
    return hashlib.sha256(content).hexdigest()


def file_digest(url: str) -> tuple[int, str] | None:
    """Size in bytes and `content_digest` of a file, or None if there is none.

    Raises:
        LakeUnavailableError: The storage does not answer.
    """
    with lake_errors(url):
        files, path = _open(url)
        try:
            with files.open_input_stream(path) as stream:
                size, found = 0, hashlib.sha256()
                while block := stream.read(_BLOCK_BYTES):
                    size += len(block)
                    found.update(block)
        except FileNotFoundError:
            return None
    return size, found.hexdigest()


def delete_folder(url: str) -> None:
    """Deletes a folder and all that is in it; that it is gone already is no error.

    Raises:
        LakeUnavailableError: The storage refuses.
    """
    with lake_errors(url):
        files, path = _open(url)
        try:
            files.delete_dir(path)
        except FileNotFoundError:
            return


def require_room(folder: str, size: int) -> None:
    """For a local folder that is about to get so many bytes: a little of its disk stays free for everybody else.

    Raises:
        OSError: They would fill the disk.
    """
    disk = shutil.disk_usage(folder)
    if disk.free - size < min(_SPARE_BYTES, disk.total // 50):
        raise OSError(ENOSPC, f"no room for {size:,} more bytes: {disk.free:,} are free")


def arrow_file_system(url: str) -> tuple[Any, str]:
    """The file system of a URL and the path in it, for Arrow's own readers.

    Raises:
        LakeUnavailableError: No file system opens such a URL.
    """
    with lake_errors(url):
        return _open(url)


def object_store_options(url: str) -> dict[str, str] | None:
    """What delta-rs has to be told of the storage of a URL beside what it takes from the environment; None for nothing.

    It refuses an endpoint without TLS unless it is allowed; whoever names one in `AWS_ENDPOINT_URL` has allowed it.
    """
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    if not url.startswith("s3://") or not endpoint.lower().startswith("http://"):
        return None
    return {"allow_http": "true", "aws_endpoint": endpoint}


def _open(url: str) -> tuple[Any, str]:
    if "://" not in url:
        return fs.LocalFileSystem(), str(Path(url).absolute())
    files, path = fs.FileSystem.from_uri(url)
    return files, path


def _write(files: fs.FileSystem, path: str, *content: Any, unsynced: list[str] | None = None) -> None:
    if not isinstance(files, fs.LocalFileSystem):
        # Object stores show a file once its upload is complete.
        with files.open_output_stream(path) as stream:
            for part in content:
                stream.write(part)
        return
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    # The leading dot hides it from those who read a folder by themselves, as Spark does.
    temporary = target.with_name(f".{uuid.uuid4().hex}{TEMPORARY_SUFFIX}")
    try:
        with temporary.open("wb") as stream:
            for part in content:
                stream.write(part)
            stream.flush()
            # Delta's log may refer to the file in a moment: it must outlive a power cut that the log outlives.
            if unsynced is None:
                os.fsync(stream.fileno())
        temporary.replace(target)
        if unsynced is not None:
            unsynced.append(path)
    finally:
        temporary.unlink(missing_ok=True)


def _delete(files: fs.FileSystem, path: str) -> None:
    try:
        files.delete_file(path)
    except FileNotFoundError:
        return


def _without_login(url: str) -> str:
    """`s3://KEY:SECRET@bucket/...` is a form that pyarrow takes; messages must hold neither it nor a query."""
    scheme, mark, rest = url.partition("://")
    if not mark:
        return url
    host, slash, path = rest.partition("?")[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


_LAKE_REMEDY = "Look at the space, the rights and the address of the lake, then run the step again."
_LAKE_REMEDIES = {
    ENOSPC: "Make room there, then run the step again.",
    EACCES: "Give the user of this process the right to read and write there, then run the step again.",
    EROFS: "The file system is read-only: let `lake` of the settings name another, or mount it anew.",
    ENOTDIR: "Let `lake` of the settings name a folder: a part of this path is a file.",
}
"""By the system's number of the error."""


@contextmanager
def lake_errors(url: str) -> Iterator[None]:
    """Within it, what the storage refuses is a LakeUnavailableError."""
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        raise LakeUnavailableError(
            f"the lake cannot be read or written: {getattr(error, 'strerror', None) or error}",
            file=_without_login(url),
            remedy=_LAKE_REMEDIES.get(getattr(error, "errno", None) or 0, _LAKE_REMEDY),
        ) from error
