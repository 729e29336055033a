"""Files of the lake: a folder or any URL that `pyarrow.fs` opens, written so that a file exists completely or not at
all. Not here: what is in them (`binlog/bytes/segment.py`, `tables/`, `pipeline/`), where they belong
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
from strata_cdc.files.objects import is_s3, list_objects, write_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

TEMPORARY_SUFFIX = ".part"
"""Ends the name of a file that is being written; readers of a folder skip such files."""
_SPARE_BYTES = 256 << 20
"""Bytes that writers without a bound leave free; less on a small disk."""
_BLOCK_BYTES = 1 << 20
_SYNCED_AT_ONCE = 8
_MOST_LISTINGS = 100
"""How often a folder is listed again if it is made or deleted meanwhile."""
_Contents = TypeVar("_Contents")


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
        """Whether `path` is on this machine."""
        return isinstance(self.filesystem, fs.LocalFileSystem)

    def folder(self, name: str) -> Folder:
        """A folder below this one."""
        return Folder(self.join(name), self.filesystem, f"{self.path}/{name}")

    def join(self, name: str) -> str:
        """The URL of a file in this folder."""
        return f"{self.url.rstrip('/')}/{name}"

    def names(self) -> list[str]:
        """Names of the finished files directly in this folder, sorted; none if there is no folder."""
        return [name for name in self._all_names() if not name.endswith(TEMPORARY_SUFFIX)]

    def names_from(self, first: str, unfinished: list[str] | None = None) -> list[str]:
        """Those of `names` that do not sort before `first`; on S3, no others are listed. No folder lies in this one.

        Args:
            first: The first name.
            unfinished: Gets the names of `leftovers`, on S3 those from there on.
        """
        with lake_errors(self.url):
            if is_s3(self.url):
                names = list(list_objects(self.url, first))
            else:
                names = _local_names(self.path) if self.is_local else self._all_names()
        if unfinished is not None:
            unfinished += (name for name in names if name.endswith(TEMPORARY_SUFFIX))
        return sorted(name for name in names if name >= first and not name.endswith(TEMPORARY_SUFFIX))

    def leftovers(self) -> list[str]:
        """Names of files directly in this folder that are being written, or were when their writer died."""
        return [name for name in self._all_names() if name.endswith(TEMPORARY_SUFFIX)]

    def _all_names(self) -> list[str]:
        with lake_errors(self.url):
            if self.is_local:
                return sorted(entry.name for entry in _local_entries(self.path) if entry.is_file())
            entries = listed(self.filesystem, self.path)
        return sorted(info.base_name for info in entries if info.type == fs.FileType.File)

    def is_there(self) -> bool:
        """Whether the folder exists; on an object store, whether anything is in it."""
        with lake_errors(self.url):
            info = self.filesystem.get_file_info(self.path)
        return bool(info.type == fs.FileType.Directory)

    def exists(self, name: str) -> bool:
        """Whether the complete file exists."""
        with lake_errors(self.join(name)):
            info = self.filesystem.get_file_info(f"{self.path}/{name}")
        return bool(info.type == fs.FileType.File)

    def read_file(self, name: str) -> bytes:
        """The content of a small file.

        Raises:
            LakeUnavailableError: It does not exist, or cannot be read.
        """
        with (
            lake_errors(self.join(name)),
            self.filesystem.open_input_stream(f"{self.path}/{name}") as stream,
        ):
            return bytes(stream.read())

    def write(self, name: str, content: bytes) -> None:
        """Writes a small file: afterwards it is complete, and until then the former content stays.

        Raises:
            LakeUnavailableError: The storage refuses or is full; the former content stays.
        """
        with lake_errors(self.join(name)):
            _write(self.join(name), self.filesystem, f"{self.path}/{name}", content)

    def stamps_of(self, names: Sequence[str]) -> dict[str, tuple[int, int]]:
        """The same as `stamps` of files that are directly in this folder, if their names are known; those that are not
        there are skipped."""
        if not names:
            return {}
        if is_s3(self.url):
            there = list_objects(self.url, min(names))
            return {name: there[name] for name in names if name in there} | self.stamps_by_name(
                [name for name in names if name not in there]
            )
        if not self.is_local:
            return self.stamps(set(names).__contains__)
        stamps: dict[str, tuple[int, int]] = {}
        with lake_errors(self.url):
            for name in names:
                with suppress(FileNotFoundError):
                    stat = os.stat(f"{self.path}/{name}")  # noqa: PTH116  a third of the time of a Path
                    stamps[name] = stat.st_size, stat.st_mtime_ns
        return stamps

    def stamps_by_name(self, names: Sequence[str]) -> dict[str, tuple[int, int]]:
        """The same by a request for each, which a store answers exactly even if it lists late."""
        with lake_errors(self.url):
            infos = self.filesystem.get_file_info([f"{self.path}/{name}" for name in names])
        # Whole seconds, as in a listing.
        return {
            info.base_name: (info.size, (info.mtime_ns or 0) // 10**9 * 10**9)
            for info in infos
            if info.type == fs.FileType.File
        }

    def stamps(self, wanted: Callable[[str], bool] = bool) -> dict[str, tuple[int, int]]:
        """Size (bytes) and time of the last change (nanoseconds) of the finished files directly in this folder whose
        names are wanted; by default of all."""
        if is_s3(self.url):
            return {name: stamp for name, stamp in list_objects(self.url).items() if wanted(name)}
        with lake_errors(self.url):
            if self.is_local:
                # Many times as fast as Arrow, which matters with 20,000 segments.
                stamps: dict[str, tuple[int, int]] = {}
                for entry in _local_entries(self.path):
                    # Another process may delete files meanwhile.
                    with suppress(FileNotFoundError):
                        if wanted(entry.name) and entry.is_file():
                            stat = entry.stat()
                            stamps[entry.name] = stat.st_size, stat.st_mtime_ns
                return stamps
            entries = listed(self.filesystem, self.path)
        files = (info for info in entries if info.type == fs.FileType.File and wanted(info.base_name))
        return {info.base_name: (info.size, info.mtime_ns or 0) for info in files}

    def delete(self, name: str) -> None:
        """Deletes a file; that it does not exist is no error.

        Raises:
            LakeUnavailableError: The storage refuses.
        """
        with lake_errors(self.join(name)):
            _delete(self.filesystem, f"{self.path}/{name}")

    def rename(self, temporary: str, final: str) -> None:
        """Gives a finished file (paths of the file system) its name, replacing a file that may have it."""
        if self.is_local:
            _sync(temporary)
            Path(temporary).replace(final)
        else:
            self.filesystem.move(temporary, final)


def write_file(url: str, *content: Any, unsynced: list[str] | None = None) -> None:
    """Writes a file so that it exists completely or not at all; an existing file is replaced.

    Args:
        url: Local path or URL.
        content: Bytes or objects with a buffer, written one after the other.
        unsynced: Gets the path if a power cut may still lose the content: the caller must call `sync_files` before
            anything refers to the file. None: the content is on disk when this returns.

    Raises:
        LakeUnavailableError: The storage refuses it.
    """
    with lake_errors(url):
        files, path = _open(url)
        _write(url, files, path, *content, unsynced=unsynced)


def sync_files(paths: Sequence[str]) -> None:
    """Waits until the disk has the content of local files.

    All at once, because a file system writes its journal once for all that wait: three files take 1 ms on ext4; one
    after the other, 5 ms.

    Raises:
        OSError: The disk refuses it.
    """
    others = [_syncing(os.getpid()).submit(_sync, path) for path in paths[1:]]
    for path in paths[:1]:
        _sync(path)
    for other in others:
        other.result()


@cache
def _syncing(_process: int) -> ThreadPoolExecutor:
    """Threads that wait for the disk; a forked process needs its own, because threads do not survive a fork."""
    return ThreadPoolExecutor(_SYNCED_AT_ONCE, thread_name_prefix="sync")


def _sync(path: str) -> None:
    with Path(path).open("rb") as stream:
        os.fsync(stream.fileno())


def read_file(url: str) -> bytes | None:
    """The content of a file, or None if there is none."""
    return _from_file(url, lambda stream: bytes(stream.read()))


def _from_file(url: str, take: Callable[[pa.NativeFile], _Contents]) -> _Contents | None:
    """What `take` reads from an opened file, or None if there is no file."""
    with lake_errors(url):
        files, path = _open(url)
        try:
            with files.open_input_file(path) as stream:
                return take(stream)
        except FileNotFoundError:
            return None


class FileBuffer:
    """Memory into which one file after the other is read: memory that is new to a process is slow at first."""

    def __init__(self) -> None:
        self._bytes = np.empty(0, np.uint8)

    def read_file(self, url: str) -> memoryview | None:
        """The content of a file, valid until the next file is read; None if there is no file."""
        return _from_file(url, self._take)

    def _take(self, stream: pa.NativeFile) -> memoryview:
        size = stream.size()
        if len(self._bytes) < size:
            # Not zeroed, and in large pages if the system has them.
            self._bytes = np.empty(size, np.uint8)
        view = self._bytes.data[:size]
        return view[: stream.readinto(view)]


def listed(files: fs.FileSystem, path: str, *, recursive: bool = False) -> list[fs.FileInfo]:
    """The content of a folder; nothing if there is no folder.

    Raises:
        OSError: The storage does not answer.
    """
    selector = fs.FileSelector(path, allow_not_found=True, recursive=recursive)
    for _ in range(_MOST_LISTINGS):
        # Arrow lists the folder, and if there is none, checks whether it exists: if it was made in between, Arrow
        # reports an error (`LocalFileSystem::GetFileInfo`, arrow/filesystem/localfs.cc).
        with suppress(FileNotFoundError):
            return list(files.get_file_info(selector))
    return list(files.get_file_info(selector))


def _local_entries(path: str) -> list[os.DirEntry[str]]:
    """What is in a folder of this machine; nothing if there is no folder."""
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except FileNotFoundError:
        return []


def _local_names(path: str) -> list[str]:
    """The names of what is in a folder of this machine: twice as fast as `_local_entries`, if only a few of tens of
    thousands are looked at."""
    try:
        return os.listdir(path)  # noqa: PTH208  a Path for each name would take longer than the listing
    except FileNotFoundError:
        return []


def list_files(url: str) -> list[str]:
    """URLs of all files in a folder and below, sorted; including incomplete files; nothing if there is no folder."""
    return sorted(file_times(url))


def file_times(url: str) -> dict[str, int]:
    """By URL, when each file in a folder and below was last changed: microseconds UTC; 0: the storage does not know."""
    with lake_errors(url):
        files, path = _open(url)
        root = url.rstrip("/")
        entries = listed(files, path, recursive=True)
        skip = len(path.rstrip("/"))
        return {
            root + info.path[skip:]: (info.mtime_ns or 0) // 1000 for info in entries if info.type == fs.FileType.File
        }


def list_folders(url: str) -> list[str]:
    """Names of the folders in a folder, sorted; nothing if there is none."""
    with lake_errors(url):
        files, path = _open(url)
        entries = listed(files, path)
        return sorted(info.base_name for info in entries if info.type == fs.FileType.Directory)


def delete_file(url: str) -> None:
    """Deletes a file; that it does not exist is no error."""
    with lake_errors(url):
        _delete(*_open(url))


def content_digest(content: Any) -> str:
    """SHA-256 of bytes, as hexadecimal digits.

    Processors have instructions for it: 1.8 GB/s on one core, against 0.9 of BLAKE2b and 0.5 of SHA-3 (OpenSSL 3.0).
    """
    return hashlib.sha256(content).hexdigest()


def file_digest(url: str) -> tuple[int, str] | None:
    """Size in bytes and `content_digest` of a file, or None if there is none."""
    with lake_errors(url):
        files, path = _open(url)
        try:
            with files.open_input_stream(path) as stream:
                size, digest = 0, hashlib.sha256()
                while block := stream.read(_BLOCK_BYTES):
                    size += len(block)
                    digest.update(block)
        except FileNotFoundError:
            return None
    return size, digest.hexdigest()


def delete_folder(url: str) -> None:
    """Deletes a folder and everything in it; that it does not exist is no error.

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
    """Checks that a local folder can get this many bytes, and that some space of its disk stays free for others.

    Raises:
        OSError: They would fill the disk.
    """
    disk = shutil.disk_usage(folder)
    if disk.free - size < min(_SPARE_BYTES, disk.total // 50):
        raise OSError(ENOSPC, f"no space for {size:,} more bytes: {disk.free:,} are free")


def arrow_file_system(url: str) -> tuple[Any, str]:
    """The file system of a URL and the path in it, for Arrow's own readers.

    Raises:
        LakeUnavailableError: No file system opens such a URL.
    """
    with lake_errors(url):
        return _open(url)


def _open(url: str) -> tuple[Any, str]:
    if "://" not in url:
        return fs.LocalFileSystem(), str(Path(url).absolute())
    files, path = fs.FileSystem.from_uri(url)
    return files, path


def _write(url: str, files: fs.FileSystem, path: str, *content: Any, unsynced: list[str] | None = None) -> None:
    if is_s3(url):
        write_object(url, *content)
        return
    if not isinstance(files, fs.LocalFileSystem):
        # Object stores show a file only when its upload is complete.
        with files.open_output_stream(path) as stream:
            for part in content:
                stream.write(part)
        return
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    # The leading dot hides it from programs that list a folder themselves, such as Spark.
    temporary = target.with_name(f".{uuid.uuid4().hex}{TEMPORARY_SUFFIX}")
    try:
        with temporary.open("wb") as stream:
            for part in content:
                stream.write(part)
            stream.flush()
            # Delta's log may refer to the file soon: it must survive a power cut if the log does.
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
    """`s3://KEY:SECRET@bucket/...` is a form that pyarrow accepts; messages must not have the login or a query."""
    scheme, mark, rest = url.partition("://")
    if not mark:
        return url
    host, slash, path = rest.partition("?")[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


_LAKE_REMEDY = "Check the space, the rights and the address of the lake, then run the step again."
_LAKE_REMEDIES = {
    ENOSPC: "Free space there, then run the step again.",
    EACCES: "Give the user of this process the right to read and write there, then run the step again.",
    EROFS: "The file system is read-only: let `lake` of the settings name another, or mount it again.",
    ENOTDIR: "Let `lake` of the settings name a folder: a part of this path is a file.",
}
"""The remedy by the system's error number."""


@contextmanager
def lake_errors(url: str) -> Iterator[None]:
    """Turns errors of the storage in a `with` block into LakeUnavailableError."""
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        raise LakeUnavailableError(
            f"the lake cannot be read or written: {getattr(error, 'strerror', None) or error}",
            file=_without_login(url),
            remedy=_LAKE_REMEDIES.get(getattr(error, "errno", None) or 0, _LAKE_REMEDY),
        ) from error
