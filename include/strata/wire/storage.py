"""Files of the lake: a folder or any URL that `pyarrow.fs` opens, written so that a file is there whole or not at all.
Not here: what is in them (`segment.py`, `tables/`, `jobs/`)."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pyarrow import fs

from strata.errors import LakeUnavailableError

TEMPORARY_SUFFIX = ".part"
"""Ends the name of a file that is being written; readers of a folder leave it out."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of the lake. `url` is what the user wrote; names are relative to it, with `/`."""

    url: str
    filesystem: fs.FileSystem
    path: str

    @classmethod
    def open(cls, url: str) -> Self:
        """A folder by its URL or local path; it need not exist yet.

        Raises:
            LakeUnavailableError: No file system has this kind of URL, or it cannot be reached.
        """
        try:
            if "://" not in url:
                return cls(url, fs.LocalFileSystem(), str(Path(url).resolve()))
            filesystem, path = fs.FileSystem.from_uri(url)
        except (OSError, ValueError) as error:
            raise LakeUnavailableError(f"{url} cannot be opened: {error}") from None
        return cls(url, filesystem, path.rstrip("/"))

    @property
    def is_local(self) -> bool:
        """Whether `path` is a path of this machine."""
        return isinstance(self.filesystem, fs.LocalFileSystem)

    def folder(self, name: str) -> Folder:
        """A folder below this one."""
        return Folder(f"{self.url.rstrip('/')}/{name}", self.filesystem, f"{self.path}/{name}")

    def join(self, name: str) -> str:
        """The URL of a file in this folder."""
        return f"{self.url.rstrip('/')}/{name}"

    def names(self) -> list[str]:
        """Names of the finished files right in this folder, sorted; none if there is no folder."""
        found = self.filesystem.get_file_info(fs.FileSelector(self.path, allow_not_found=True))
        return sorted(
            info.base_name
            for info in found
            if info.type == fs.FileType.File and not info.base_name.endswith(TEMPORARY_SUFFIX)
        )

    def exists(self, name: str) -> bool:
        """Whether the file is there, whole."""
        info = self.filesystem.get_file_info(f"{self.path}/{name}")
        return bool(info.type == fs.FileType.File)

    def read(self, name: str) -> bytes:
        """The whole of a small file.

        Raises:
            LakeUnavailableError: It is not there, or cannot be read.
        """
        try:
            with self.filesystem.open_input_stream(f"{self.path}/{name}") as stream:
                return bytes(stream.read())
        except OSError as error:
            raise LakeUnavailableError(f"{name} cannot be read: {error}", file=self.join(name)) from None

    def write(self, name: str, content: bytes) -> None:
        """Writes a small file: afterwards it is there whole, and before that its former content is.

        Raises:
            LakeUnavailableError: The storage refuses or is full; the former content stands.
        """
        temporary = f"{self.path}/{name}.{uuid.uuid4().hex}{TEMPORARY_SUFFIX}"
        try:
            self.filesystem.create_dir(self.path, recursive=True)
            with self.filesystem.open_output_stream(temporary) as stream:
                stream.write(content)
            self.rename(temporary, f"{self.path}/{name}")
        except OSError as error:
            raise LakeUnavailableError(f"{name} cannot be written: {error}", file=self.join(name)) from None

    def delete(self, name: str) -> None:
        """Deletes a file; that it is gone already is no error.

        Raises:
            LakeUnavailableError: The storage refuses.
        """
        try:
            self.filesystem.delete_file(f"{self.path}/{name}")
        except FileNotFoundError:
            return
        except OSError as error:
            raise LakeUnavailableError(f"{name} cannot be deleted: {error}", file=self.join(name)) from None

    def rename(self, temporary: str, final: str) -> None:
        """Gives a finished file (paths of the file system) its name, over one that may be there."""
        if self.is_local:
            with Path(temporary).open("rb") as finished:
                os.fsync(finished.fileno())
            Path(temporary).replace(final)
        else:
            self.filesystem.move(temporary, final)
