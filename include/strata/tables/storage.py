"""Files of the lake on any URL that `pyarrow.fs` opens: whole files, written once.
Not here: what is in them, and where they belong (`layout.py`)."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs

from strata.errors import LakeUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

TEMPORARY = ".writing-"
"""How names of half-written local files begin; a leading dot hides them from readers."""


def write_file(url: str, content: Any) -> None:
    """Writes a file so that it is there as a whole or not at all; one that exists is replaced.

    Object stores show a file once its upload is complete; local files get a temporary name first.

    Args:
        url: Local path or URL.
        content: Bytes or anything with their buffer.

    Raises:
        LakeUnavailableError: The storage does not take it.
    """
    with _as_lake_error(url):
        files, path = _open(url)
        if not isinstance(files, fs.LocalFileSystem):
            with files.open_output_stream(path) as stream:
                stream.write(content)
            return
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f"{TEMPORARY}{uuid4().hex}")
        try:
            with temporary.open("wb") as stream:
                stream.write(content)
                stream.flush()
                # Delta's log may refer to the file in a moment: it must outlive a power cut that the log outlives.
                os.fsync(stream.fileno())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


def read_file(url: str) -> bytes | None:
    """The content of a file, or None if there is none.

    Raises:
        LakeUnavailableError: The storage does not answer.
    """
    with _as_lake_error(url):
        files, path = _open(url)
        try:
            with files.open_input_file(path) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None


def list_files(url: str) -> list[str]:
    """URLs of all files in a folder and below, sorted; half-written ones included, nothing if there is no folder.

    Raises:
        LakeUnavailableError: The storage does not answer.
    """
    with _as_lake_error(url):
        files, path = _open(url)
        root = url.rstrip("/")
        found = files.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
        skip = len(path.rstrip("/"))
        return sorted(root + info.path[skip:] for info in found if info.type == fs.FileType.File)


def list_folders(url: str) -> list[str]:
    """Names of the folders in a folder, sorted; nothing if there is none.

    Raises:
        LakeUnavailableError: The storage does not answer.
    """
    with _as_lake_error(url):
        files, path = _open(url)
        found = files.get_file_info(fs.FileSelector(path, allow_not_found=True))
        return sorted(info.base_name for info in found if info.type == fs.FileType.Directory)


def delete_file(url: str) -> None:
    """Deletes a file; that it is gone already is no error.

    Raises:
        LakeUnavailableError: The storage does not answer.
    """
    with _as_lake_error(url):
        files, path = _open(url)
        try:
            files.delete_file(path)
        except FileNotFoundError:
            return


def place_file(source: str, target: str) -> None:
    """Makes a file appear under a second name, as a whole or not at all; both names stay.

    On a local disk it is a hard link where the file system allows, so no byte is copied.

    Raises:
        LakeUnavailableError: The source is gone, or the storage does not take the target.
    """
    with _as_lake_error(source):
        files, path = _open(source)
        target_files, target_path = _open(target)
        if not isinstance(files, fs.LocalFileSystem):
            target_files.copy_file(path, target_path)
            return
        if Path(target_path).exists():
            return
        Path(target_path).parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, target_path)
        except (FileExistsError, FileNotFoundError):
            if not Path(target_path).exists():
                raise
        except OSError:
            # The file system has no hard links, or the two names are on different disks.
            write_file(target, Path(path).read_bytes())


def arrow_file_system(url: str) -> tuple[Any, str]:
    """The file system of a URL and the path in it, for Arrow's own readers.

    Raises:
        LakeUnavailableError: No file system opens such a URL.
    """
    with _as_lake_error(url):
        return _open(url)


def _open(url: str) -> tuple[Any, str]:
    if "://" not in url:
        return fs.LocalFileSystem(), str(Path(url).absolute())
    files, path = fs.FileSystem.from_uri(url)
    return files, path


def _without_login(url: str) -> str:
    """`s3://KEY:SECRET@bucket/...` is a form that pyarrow takes; messages must hold neither it nor a query."""
    scheme, mark, rest = url.partition("://")
    if not mark:
        return url
    host, slash, path = rest.partition("?")[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


@contextmanager
def _as_lake_error(url: str) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        raise LakeUnavailableError(
            f"the lake cannot be read or written: {getattr(error, 'strerror', None) or error}",
            file=_without_login(url),
            remedy="Look at the space, the rights and the address of the lake, then run the step again.",
        ) from error
