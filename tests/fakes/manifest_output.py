"""A second output behind the table port: plain Parquet files in a folder, and numbered manifests (JSON) beside them, of
which the newest says what the table is. Local folders only.
Not here: publishing to it, which is the product's (`tables/commit.py`)."""

from __future__ import annotations

import base64
import json
import os
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.tables.port import CommitConflictError, FileCommit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from strata_cdc.tables.port import DataFile

FOLDER = "_manifests"


class Manifest(Struct, frozen=True):
    """What one commit has made of a table."""

    version: int
    columns: str
    """Arrow's IPC form of the schema, in base64."""
    files: dict[str, int]
    marks: dict[str, int]
    about: dict[str, str]
    changes_rows: bool = True


class ManifestTable(Struct):
    """See `OutputTable`."""

    folder: Path
    manifest: Manifest

    @property
    def version(self) -> int:
        return self.manifest.version

    @property
    def columns(self) -> pa.Schema:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self.manifest.columns)))

    def files(self, start: int | None = None, end: int | None = None) -> dict[str, int]:
        return {
            path: interval
            for path, interval in self.manifest.files.items()
            if (start is None or start <= interval) and (end is None or interval < end)
        }

    def bounds(self, column: str, after: int | None = None, last: int | None = None) -> dict[str, tuple[int, int]]:
        found = {}
        for path in self.manifest.files:
            values = pq.read_table(self.folder / path, columns=[column], partitioning=None)[column]
            if values.null_count == 0 and len(values):
                low, high = pc.min(values).as_py(), pc.max(values).as_py()
                if (after is None or high > after) and (last is None or low <= last):
                    found[path] = (low, high)
        return found

    def mark(self, name: str) -> int | None:
        return self.manifest.marks.get(name)

    def upgraded(self, source: str) -> ManifestTable:
        return self

    def left_beside(self) -> Sequence[ManifestTable]:
        return ()

    def with_columns(self, added: Sequence[pa.Field]) -> ManifestTable:
        if not added:
            return self
        known = {field.name: field for field in self.columns}
        for field in added:
            inner = [*known[field.name].type.fields, *field.type.fields] if field.name in known else None
            known[field.name] = field if inner is None else pa.field(field.name, pa.struct(inner))
        return self._next(columns=encoded(pa.schema(list(known.values()))))

    def commit(
        self,
        source: str,
        added: Sequence[DataFile],
        removed: Mapping[str, int],
        *,
        marks: Mapping[str, int] | None = None,
        about: Mapping[str, str] | None = None,
    ) -> None:
        files = {path: interval for path, interval in self.manifest.files.items() if path not in removed}
        files |= {file.path: file.interval for file in added}
        about = {**(about or {}), "source": source}
        marks = {**self.manifest.marks, **(marks or {})}
        self.manifest = self._next(files=files, marks=marks, about=about, changes_rows=True).manifest

    def rearrange(self, source: str, added: Sequence[DataFile], removed: Mapping[str, int]) -> None:
        files = {path: interval for path, interval in self.manifest.files.items() if path not in removed}
        files |= {file.path: file.interval for file in added}
        self.manifest = self._next(files=files, about={"source": source}, changes_rows=False).manifest

    def trim(self, *, log_hours: int, removed_hours: int, needed: int | None) -> int:
        assert removed_hours
        before = time.time() - log_hours * 3600
        last = self.version - 1 if needed is None else min(needed, self.version - 1)
        paths = [self.folder / FOLDER / f"{number:020}.json" for number in range(last + 1)]
        gone = [path for path in paths if path.exists() and path.stat().st_mtime < before]
        for path in gone:
            path.unlink()
        return len(gone)

    def unneeded(self, hours: int) -> Sequence[str]:
        before = time.time() - hours * 3600
        recent = [path for path in (self.folder / FOLDER).glob("*.json") if path.stat().st_mtime > before]
        kept = {*self.manifest.files, *(file for path in recent for file in stored(self.folder, int(path.stem)).files)}
        found = [path for path in (self.folder / "data").rglob("*") if path.is_file() and path.stat().st_mtime < before]
        return sorted({str(path.relative_to(self.folder)) for path in found} - kept)

    def commits_since(self, version: int) -> Sequence[FileCommit] | None:
        if not all((self.folder / FOLDER / f"{number:020}.json").exists() for number in range(version, self.version)):
            return None
        commits, before = [], stored(self.folder, version).files
        for number in range(version + 1, self.version + 1):
            manifest = stored(self.folder, number)
            added = tuple(start for path, start in manifest.files.items() if path not in before)
            removed = tuple(start for path, start in before.items() if path not in manifest.files)
            commits.append(FileCommit(manifest.changes_rows, added, removed))
            before = manifest.files
        return commits

    def read_rows(self, columns: Sequence[str] | None, start: int | None, end: int | None) -> pa.Table:
        paths = [
            str(self.folder / path)
            for path, interval in self.manifest.files.items()
            if (start is None or interval >= start) and (end is None or interval < end)
        ]
        schema = self.columns
        found = ds.dataset(paths, schema=schema).to_table() if paths else schema.empty_table()
        # The dataset gives the columns without their metadata.
        return (found if columns is None else found.select(columns)).cast(
            schema if columns is None else pa.schema([schema.field(name) for name in columns])
        )

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        paths, schema = [str(self.folder / path) for path in self.manifest.files], self.columns
        for file in ds.dataset(paths, schema=schema).get_fragments() if paths else ():
            for group in file.split_by_row_group():
                found = group.to_table(schema).cast(schema)
                yield found if columns is None else found.select(columns)

    def _next(self, **changes: Any) -> ManifestTable:
        manifest = replace(self.manifest, version=self.manifest.version + 1, **changes)
        store(self.folder, manifest)
        return ManifestTable(self.folder, manifest)


class ManifestOutput:
    """See `Output`."""

    def open(self, url: str) -> ManifestTable | None:
        newest = max((Path(url) / FOLDER).glob("*.json"), default=None)
        return None if newest is None else ManifestTable(Path(url), stored(Path(url), int(newest.stem)))

    def with_commit(self, known: Mapping[str, int]) -> frozenset[str]:
        found = {url: self.open(url) for url in known}
        return frozenset(url for url, table in found.items() if table is not None and table.version >= known[url])

    def create(self, url: str, columns: Sequence[pa.Field]) -> ManifestTable:
        manifest = Manifest(0, encoded(pa.schema(list(columns))), {}, {}, {})
        store(Path(url), manifest)
        return ManifestTable(Path(url), manifest)

    def stored(self, columns: pa.Schema) -> pa.Schema:
        """As they are, but dictionaries, which are a matter of the single file."""
        kinds = [one.type.value_type if pa.types.is_dictionary(one.type) else one.type for one in columns]
        return pa.schema(list(zip(columns.names, kinds, strict=True)))


def encoded(columns: pa.Schema) -> str:
    """A schema as text."""
    return base64.b64encode(columns.serialize().to_pybytes()).decode()


def stored(folder: Path, number: int) -> Manifest:
    """The manifest with a number."""
    return Manifest(**json.loads((folder / FOLDER / f"{number:020}.json").read_bytes()))


def store(folder: Path, manifest: Manifest) -> None:
    """Puts a manifest in its place, if there is none with its number: `link` makes the file whole or not at all.

    Raises:
        CommitConflictError: There is one.
    """
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    temporary = folder / FOLDER / f"{uuid.uuid4()}.part"
    with temporary.open("w") as file:
        json.dump({name: getattr(manifest, name) for name in manifest.__struct_fields__}, file)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(temporary, folder / FOLDER / f"{manifest.version:020}.json")
    except FileExistsError as error:
        raise CommitConflictError from error
    finally:
        temporary.unlink()
