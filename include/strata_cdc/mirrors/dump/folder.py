"""The files of a dump: `<lake>/dumps/<source>/<database>/<table>/`, a manifest, and a file of Arrow batches per chunk.
Not here: what is in the manifest (`manifest.py`), what is read (`read.py`)."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from strata_cdc.errors import DamagedFileError
from strata_cdc.files.lock import LOCK_FILE, hold_folder
from strata_cdc.files.storage import TEMPORARY_SUFFIX, Folder, lake_errors, list_folders
from strata_cdc.mirrors.dump.manifest import Manifest, read_manifest
from strata_cdc.schema.model.definition import TableName
from strata_cdc.tables.layout import name_of_path, path_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MANIFEST: Final = "manifest.json"
CHUNK_SUFFIX: Final = ".arrow"
ASIDE: Final = "aside-"
"""Prefix of files that exist only while a mirror is made (`aside.py`), under the mirror's lock."""


class DumpFolder:
    """One table's dump.

    Args:
        lake: Folder or URL of the lake.
        source: The source's name.
        table: The table.
    """

    def __init__(self, lake: str, source: str, table: TableName) -> None:
        root = Folder.open(lake)
        self._folder = root.folder("/".join(("dumps", *map(path_name, (source, table.database, table.table)))))

    @property
    def url(self) -> str:
        """URL of the folder."""
        return self._folder.url

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine, where `held` excludes other processes."""
        return self._folder.is_local

    @contextmanager
    def held(self) -> Iterator[None]:
        """Excludes a second dump of the same table, during a `with` block.

        Raises:
            AlreadyRunningError: There is another dump.
        """
        with hold_folder(self._folder, "dumping this table"):
            yield

    def manifest(self) -> Manifest | None:
        """What was read so far; None if no dump has begun.

        Raises:
            DamagedFileError: It cannot be read.
        """
        if not self._folder.exists(MANIFEST):
            return None
        return read_manifest(self._folder.read_file(MANIFEST), self._folder.join(MANIFEST))

    def changed_at(self) -> int | None:
        """When the manifest was written, microseconds UTC; None if there is none."""
        stamp = self._folder.stamps_of([MANIFEST]).get(MANIFEST)
        return None if stamp is None else stamp[1] // 1000

    def save(self, manifest: Manifest) -> None:
        """Stores the manifest: what was read so far."""
        self._folder.write(MANIFEST, manifest.to_json())

    def write(self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """Writes a chunk's file; afterwards it is there completely or not at all.

        Raises:
            LakeUnavailableError: The storage refuses, or is full.
        """
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with lake_errors(self._folder.join(name)):
            path = f"{self._folder.path}/{name}"
            if not self._folder.is_local:
                with self._folder.filesystem.open_output_stream(path) as sink:
                    _write(sink, schema, batches, options)
                return
            Path(self._folder.path).mkdir(parents=True, exist_ok=True)
            temporary = f"{self._folder.path}/.{uuid.uuid4().hex}{TEMPORARY_SUFFIX}"
            try:
                with pa.OSFile(temporary, "wb") as sink:
                    _write(sink, schema, batches, options)
                self._folder.rename(temporary, path)
            finally:
                Path(temporary).unlink(missing_ok=True)

    def read_chunk(self, name: str) -> Iterator[pa.RecordBatch]:
        """The batches of a chunk.

        Raises:
            DamagedFileError: The file is gone, or not complete.
            LakeUnavailableError: The storage does not answer.
        """
        with self._opened(name) as reader:
            for at in range(reader.num_record_batches):
                yield reader.get_batch(at)

    def read_one(self, name: str, at: int) -> pa.RecordBatch:
        """One batch of a file.

        Raises:
            DamagedFileError: The file is gone, or not complete.
            LakeUnavailableError: The storage does not answer.
        """
        with self._opened(name) as reader:
            return reader.get_batch(at)

    @contextmanager
    def _opened(self, name: str) -> Iterator[pa.RecordBatchFileReader]:
        where = self._folder.join(name)
        with lake_errors(where):
            try:
                with (
                    self._folder.filesystem.open_input_file(f"{self._folder.path}/{name}") as file,
                    pa.ipc.open_file(file) as reader,
                ):
                    yield reader
            except (FileNotFoundError, pa.ArrowInvalid) as error:
                raise DamagedFileError(
                    f"a chunk of a dump cannot be read: {error}",
                    file=where,
                    remedy=f"Delete {self.url}; the next dump of the table begins anew.",
                ) from None

    def clear_aside(self) -> None:
        """Deletes what was stored while a mirror was made; the caller holds the mirror's lock."""
        for name in self._folder.names():
            if name.startswith(ASIDE):
                self._folder.delete(name)

    def keep_only(self, names: Iterable[str]) -> None:
        """Deletes all other files: those of a dump that was abandoned, or of one that was killed while it wrote."""
        kept = {*names, MANIFEST, LOCK_FILE}
        for name in [*self._folder.names(), *self._folder.leftovers()]:
            if name not in kept and not name.startswith(ASIDE):
                self._folder.delete(name)

    def clear(self) -> None:
        """Deletes the whole folder: the mirror has the rows."""
        self._folder.delete(MANIFEST)
        self.keep_only(())


def begun_dumps(lake: str, source: str) -> Iterator[tuple[Manifest, int]]:
    """The dumps of a source that have begun and not ended, and the time of their last progress: microseconds UTC.

    Raises:
        DamagedFileError: A manifest cannot be read.
        LakeUnavailableError: The storage does not answer.
    """
    root = f"{lake.rstrip('/')}/dumps/{path_name(source)}"
    for database in list_folders(root):
        for table in list_folders(f"{root}/{database}"):
            folder = DumpFolder(lake, source, TableName(name_of_path(database), name_of_path(table)))
            manifest, changed = folder.manifest(), folder.changed_at()
            if manifest is not None and changed is not None:
                yield manifest, changed


def _write(sink: pa.NativeFile, schema: pa.Schema, batches: Iterable[pa.RecordBatch], options: object) -> None:
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
