"""What a sink's folder holds at one moment: the checkpoint, the schema files, and the data files that an index names.
Not here: the shapes of names (`paths.py`), the content of data files (`csv_rows.py`, `canal_rows.py`).

Nothing is ever written there. TiCDC writes a data file first and its index next, so a file that only a listing shows
may be incomplete or will be replaced, and is not read; below the checkpoint all files that an index names are final.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.counted import counted
from strata_cdc.errors import BadData, DamagedFileError, StreamHoleError, Usage
from strata_cdc.files.storage import Folder, list_files, read_file
from strata_cdc.schema.model.definition import TableName
from strata_cdc.ticdc.paths import METADATA, DataName, FileForm, IndexPath, SchemaPath, VersionFolder, meanings
from strata_cdc.ticdc.schema_files import read_schema_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from strata_cdc.errors import StrataError
    from strata_cdc.ticdc.schema_files import SchemaFile

_OTHER_FEED: Final = "Give each changefeed a folder of its own, and its URL to Strata."
_NO_SINK: Final = "Give the folder or URL of the changefeed's sink-uri: it has a file `metadata`."
_MOST_NAMED: Final = 3
_MOST_REQUESTED: Final = 100
"""Files of a directory that are requested by their names, because no listing has them."""


class _SinkMetadata(Struct, frozen=True):
    checkpoint_ts: int = msgspec.field(name="checkpoint-ts")


class SequenceState(Struct, frozen=True):
    """How far the numbered files of one directory and dispatcher are known."""

    indexed: int = 0
    """The largest number that an index has named."""
    read: int = 0
    """All files up to this number have been read, and are not needed again."""


class FolderState(Struct, frozen=True):
    """What earlier readings know of a folder."""

    checkpoint_ts: int = 0
    schema_digests: dict[str, str] = {}
    """Of the content of each schema file, by path."""
    sequences: dict[str, SequenceState] = {}
    """By `DataSequence.key`."""


class FeedFile(Struct, frozen=True):
    """A data file that is read."""

    url: str
    path: str
    """Relative to the folder."""
    number: int
    form: FileForm


class DataSequence(Struct, frozen=True):
    """The files of one directory and dispatcher, in the order of their numbers."""

    directory: str
    dispatcher: str
    version: VersionFolder
    files: tuple[FeedFile, ...]
    indexed: int
    """The number of the last file that the index names."""

    @property
    def key(self) -> str:
        """The same for the same sequence in each reading."""
        return f"{self.directory}:{self.dispatcher}"


class SinkContents(Struct, frozen=True):
    """A folder at one moment."""

    url: str
    checkpoint_ts: int
    """All rows with a smaller commit timestamp are in the files."""
    schema_files: tuple[SchemaFile, ...]
    sequences: tuple[DataSequence, ...]
    holes: tuple[StrataError, ...]
    """Files that are missing although they were never read: each is named."""
    unindexed: int
    """How many data files no index names yet."""


def read_contents(
    url: str, known: FolderState = FolderState(), wanted: Callable[[TableName], bool] = lambda _: True
) -> SinkContents:
    """What a folder holds now.

    Args:
        url: Of the folder: a local path or any URL that `files/storage.py` opens.
        known: What an earlier reading returned as `next_state`.
        wanted: The tables whose data files are read.

    Raises:
        Usage: The folder is no sink.
        BadData: Two changefeeds write into it; or its checkpoint, an index or a schema file contradicts what was read
            earlier.
        LakeUnavailableError: The storage does not answer.
    """
    root = url.rstrip("/")
    # First: below this checkpoint nothing is added by what is written meanwhile.
    checkpoint = _checkpoint(root)
    paths = [url_of_file[len(root) + 1 :] for url_of_file in list_files(root)]
    _refuse_other_feeds(root, paths)
    names = [path for path in map(SchemaPath.parse, paths) if path is not None]
    files = tuple(_schema_file(root, path, known) for path in names)
    if (newest := _checkpoint(root)) < checkpoint or checkpoint < known.checkpoint_ts:
        fallen = f"its checkpoint fell from {max(checkpoint, known.checkpoint_ts)} to {min(newest, checkpoint)}"
        raise BadData(f"{fallen}: two changefeeds write into it, or it was made anew", file=root, remedy=_OTHER_FEED)
    data = _DataFiles(root, paths)
    versions = _versions(names, files)
    there = tuple(data.sequences(set(versions), known))
    sequences = tuple(sequence for sequence in there if wanted(versions[sequence.version]))
    holes = (*_holes(sequences, known), *_gone(there, known))
    return SinkContents(
        root, checkpoint, files, sequences, holes, data.count - sum(len(sequence.files) for sequence in there)
    )


def next_state(contents: SinkContents, read: Mapping[str, int], known: FolderState) -> FolderState:
    """What the next reading has to know.

    Args:
        contents: What was read.
        read: By `DataSequence.key`, the number of the last file of which no row is needed any more.
        known: The state before.
    """
    sequences = dict(known.sequences)
    for sequence in contents.sequences:
        before = sequences.get(sequence.key, SequenceState())
        now = max(before.read, read.get(sequence.key, 0))
        sequences[sequence.key] = SequenceState(max(before.indexed, sequence.indexed), now)
    digests = {**known.schema_digests, **{file.path: file.digest for file in contents.schema_files}}
    return FolderState(contents.checkpoint_ts, digests, sequences)


def read_checkpoint(url: str) -> int:
    """The timestamp below which a sink's folder has all rows.

    Raises:
        Usage: The folder is no sink.
        LakeUnavailableError: The storage does not answer.
    """
    return _checkpoint(url.rstrip("/"))


def _checkpoint(root: str) -> int:
    content = read_file(f"{root}/{METADATA}")
    if content is None:
        below = [url[len(root) + 1 :].rpartition("/")[0] for url in list_files(root) if url.endswith(f"/{METADATA}")]
        inside = f"; these folders in it are: {', '.join(below[:_MOST_NAMED])}" if below else ""
        raise Usage(f"{root} is no folder of a TiCDC storage sink{inside}", remedy=_NO_SINK)
    try:
        return msgspec.json.decode(content, type=_SinkMetadata).checkpoint_ts
    except msgspec.DecodeError as error:
        raise Usage(f"{root} is no folder of a TiCDC storage sink: {METADATA}: {error}", remedy=_NO_SINK) from error


def _refuse_other_feeds(root: str, paths: list[str]) -> None:
    inner = next((path for path in paths if path.endswith(f"/{METADATA}")), None)
    if inner is not None:
        raise BadData(f"another changefeed writes into {inner.rpartition('/')[0]}", file=root, remedy=_OTHER_FEED)
    forms = {name.form: path for path in paths if (name := DataName.parse(path.rpartition("/")[2])) is not None}
    if len(forms) > 1:
        examples = " and ".join(sorted(forms.values()))
        raise BadData(f"two changefeeds write into it: it has {examples}", file=root, remedy=_OTHER_FEED)


def _schema_file(root: str, path: SchemaPath, known: FolderState) -> SchemaFile:
    file = read_schema_file(path, read_file(f"{root}/{path.path}") or b"")
    if known.schema_digests.get(path.path, file.digest) != file.digest:
        raise DamagedFileError(
            "the schema file has changed since it was read first",
            file=path.path,
            remedy="Let no other consumer work on this folder (tidb2dw empties the DDL in schema files): give Strata a "
            "copy, or a changefeed of its own.",
        )
    named = path.folder.split("/")
    is_named = named == ([file.schema, file.table] if file.table else [file.schema])
    if not is_named and not (file.table and len(named) == 1 and path.folder.isdigit()):
        raise DamagedFileError(f"it is the schema of {file.schema}.{file.table}", file=path.path, remedy=_OTHER_FEED)
    return file


def _versions(names: list[SchemaPath], files: tuple[SchemaFile, ...]) -> dict[VersionFolder, TableName]:
    """The versions that have a schema file, with the table of each."""
    tables = [(path, file) for path, file in zip(names, files, strict=True) if file.table]
    by_id = [path for path, file in tables if "/" not in path.folder]
    if by_id and len(by_id) < len(tables):
        raise BadData(
            f"two changefeeds write into it: some tables are named by their id ({by_id[0].path}), others are not",
            remedy=_OTHER_FEED,
        )
    paths: dict[VersionFolder, SchemaPath] = {}
    for path, _ in tables:
        other = paths.setdefault(VersionFolder(path.folder, path.version), path)
        if other is not path:
            raise BadData(f"{other.path} and {path.path} have one version", file=path.folder, remedy=_OTHER_FEED)
    return {VersionFolder(path.folder, path.version): TableName(file.schema, file.table) for path, file in tables}


class _DataFiles:
    """The data files of a listing, by directory and dispatcher."""

    def __init__(self, root: str, paths: list[str]) -> None:
        self._root = root
        self._files: dict[tuple[str, str], dict[int, DataName]] = defaultdict(dict)
        self._indexes = [index for index in map(IndexPath.parse, paths) if index is not None]
        self._add(paths)

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(map(len, self._files.values()))

    def _add(self, paths: Iterable[str]) -> None:
        for path in paths:
            directory, _, last = path.rpartition("/")
            name = DataName.parse(last)
            if name is not None:
                other = self._files[directory, name.dispatcher].setdefault(name.number, name)
                if other.name != name.name:
                    raise BadData(f"{other.name} and {name.name} have one number", file=directory, remedy=_OTHER_FEED)

    def sequences(self, versions: set[VersionFolder], known: FolderState) -> Iterator[DataSequence]:
        """The files that the indexes name, of each directory: all that have not been read, and others.

        Raises:
            DamagedFileError: An index cannot be read, or the schema of a directory is not there.
        """
        for index in self._indexes:
            name = self._last(index)
            last, version = name.number, _meaning(index.directory, versions)
            numbers = self._files[index.directory, index.dispatcher]
            if last not in numbers:
                # Written after the listing: list the directory again.
                listed = (url[len(self._root) + 1 :] for url in list_files(f"{self._root}/{index.directory}"))
                self._add(path for path in listed if path.rpartition("/")[0] == index.directory)
            sequence = DataSequence(index.directory, index.dispatcher, version, (), last)
            self._add_by_name(index.directory, name, known.sequences.get(sequence.key, SequenceState()).read)
            files = tuple(self._file(index, numbers[at]) for at in sorted(numbers) if at <= last)
            yield replace(sequence, files=files)

    def _add_by_name(self, directory: str, last: DataName, read: int) -> None:
        """Adds the newest files that were not read and are not listed: a store may list them later."""
        numbers = self._files[directory, last.dispatcher]
        missing = (last.numbered(at) for at in range(last.number, read, -1) if at not in numbers)
        names = [name.name for name in islice(missing, _MOST_REQUESTED)]
        if names:
            there = Folder.open(f"{self._root}/{directory}").stamps_by_name(names)
            self._add(f"{directory}/{name}" for name in there)

    def _last(self, index: IndexPath) -> DataName:
        path = f"{index.directory}/meta/CDC{f'_{index.dispatcher}' if index.dispatcher else ''}.index"
        text = (read_file(f"{self._root}/{path}") or b"").decode(errors="replace").strip()
        name = DataName.parse(text)
        if name is None or name.dispatcher != index.dispatcher:
            raise DamagedFileError("the index names no data file of its directory", file=path, remedy="Restore it.")
        return name

    def _file(self, index: IndexPath, name: DataName) -> FeedFile:
        path = f"{index.directory}/{name.name}"
        return FeedFile(f"{self._root}/{path}", path, name.number, name.form)


def _meaning(directory: str, versions: set[VersionFolder]) -> VersionFolder:
    possible = [meaning for meaning in meanings(directory) if meaning in versions]
    if len(possible) != 1:
        what = "several schema files may be meant" if possible else "no schema file has its version"
        raise DamagedFileError(
            f"the schema of the rows is not known: {what}",
            file=directory,
            remedy="Restore the table's folder `meta`; another consumer may have deleted from it.",
        )
    return possible[0]


def _holes(sequences: Iterable[DataSequence], known: FolderState) -> Iterator[StrataError]:
    """Numbers up to the index that have no file and were not read."""
    for sequence in sequences:
        before = known.sequences.get(sequence.key, SequenceState())
        if sequence.indexed < before.read:
            raise DamagedFileError(
                f"the index fell from {before.read} to {sequence.indexed}", file=sequence.directory, remedy=_OTHER_FEED
            )
        there = {file.number for file in sequence.files}
        missing = [number for number in range(before.read + 1, sequence.indexed + 1) if number not in there]
        if missing:
            yield _hole(sequence.directory, missing[0], missing[-1], len(missing))


def _gone(sequences: Iterable[DataSequence], known: FolderState) -> Iterator[StrataError]:
    """Directories that are gone with files that were not read."""
    there = {sequence.key for sequence in sequences}
    for key, before in known.sequences.items():
        if key not in there and before.read < before.indexed:
            yield _hole(key.partition(":")[0], before.read + 1, before.indexed, before.indexed - before.read)


def _hole(directory: str, first: int, last: int, count: int) -> StrataError:
    return StreamHoleError(
        f"{counted(count, 'data file')} missing, numbers {first} to {last}, and not read",
        file=directory,
        remedy="They expired (`file-expiration-days`) or were deleted: restore them, or read the table from TiDB. "
        "Before 2026 TiCDC wrote an index before its file: then the last one is there when you read again.",
    )
