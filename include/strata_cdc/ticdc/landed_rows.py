"""The file of a landed segment that holds rows of a sink: written once, read by tables and ordinals.
Not here: what is landed (`land_sink.py`), the index beside it (`binlog/events/index.py`), planned slices
(`landed_slice.py`).

After the magic there are parts, each one Arrow stream with rows of one table and version in the order of commits, and
one with the timestamps of all commits. Then come the index, as it lies beside the segment (the first sinks that were
landed have none here), the contents (JSON, zlib), their size and checksum. The contents also have the DDL and the state
from which the next landing continues, so that rows, index and state become visible together.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
from msgspec import Struct

from strata_cdc.binlog.events.index import SUFFIX, check_index
from strata_cdc.errors import DamagedFileError, DamagedIndexError, ErrorFacts, Location, StoreFormatError
from strata_cdc.files.storage import lake_errors
from strata_cdc.files.stored import decode_stored
from strata_cdc.position.commit_ts import CommitStep
from strata_cdc.ticdc.folder import FolderState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    import numpy.typing as npt

    from strata_cdc.binlog.bytes.segment import SegmentName
    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.files.storage import Folder
    from strata_cdc.landing.landed import LandedSegment

MAGIC: Final = b"strata rows 1\n"
FORMAT: Final = 1
COMMITS: Final = "commits"
"""Begins the name of the file in which positions of a sink's commits are, as a server's binlog files have names."""
_TAIL: Final = struct.Struct("<QI")
"""Bytes of the contents, and their CRC-32."""
_REMEDY: Final = "Restore the segment from a backup of the lake: nothing else has its rows if the sink's files expired."


class LandedTable(Struct, frozen=True, omit_defaults=True):
    """A table as a change of the schema leaves it."""

    database: str
    table: str
    definition: str | None = None
    """As JSON; None if the table is gone."""
    renamed_from: tuple[str, str] | None = None


class LandedSchemaChange(Struct, frozen=True, omit_defaults=True):
    """A DDL, or the state of tables whose rows follow."""

    seq: int
    """Ordinal of its commit; a state is that of the first rows of its tables."""
    number: int
    """Of the statement in its commit, from 1; 0 for a state."""
    offset: int
    ts: int
    """Its commit timestamp; of a state, of its newest schema file."""
    tables: tuple[LandedTable, ...] = ()
    query: str = ""
    database: str = ""
    kind: str = ""


class UnloggedValues(Struct, frozen=True):
    """Values that the sink may lack, though users wrote them."""

    seq: int
    offset: int
    database: str
    table: str
    error: ErrorFacts


class LandedPart(Struct, frozen=True, omit_defaults=True):
    """Rows of one table and version."""

    offset: int
    size: int
    crc: int
    database: str
    table: str
    definition: int
    """In `SegmentContents.definitions`."""
    first_seq: int
    last_seq: int
    rows: int
    error: ErrorFacts | None = None
    """Why they are set aside."""


class LandedSteps(Struct, frozen=True):
    """Where the commits' timestamps are in the file."""

    offset: int
    size: int
    crc: int


class CrossedRows(Struct, frozen=True):
    """Rows of one commit and table whose data are of another schema than the valid one."""

    seq: int
    database: str
    table: str
    kind: str
    """Of the DDL that they lie across."""
    quadrant: str
    rows: int
    row: Location | None = None
    """The first of them; None: it was landed before this was kept."""
    made_at: Location | None = None
    """The schema that the DDL made; None likewise."""


class NewestCrossed(Struct, frozen=True):
    """The newest rows of a table across one kind of DDL."""

    table: str
    kind: str
    quadrant: str
    row: Location
    made_at: Location


class SinkCounts(Struct, frozen=True):
    """What has been counted of a sink since it was landed first."""

    crossed: tuple[tuple[str, str, str, int], ...] = ()
    """Table, DDL, quadrant, and rows."""
    repeats: dict[str, int] = {}
    """Rows that came again, by table."""
    dropped: tuple[tuple[str, str, int], ...] = ()
    """Table, column, and how many of its values were dropped because the valid schema lacks it."""
    newest: tuple[NewestCrossed, ...] = ()
    """The places of the newest of `crossed`."""


class LandingState(Struct, frozen=True):
    """Where the next landing continues."""

    url: str = ""
    folder: FolderState = FolderState()
    end_ts: int = 0
    """Everything with smaller timestamps has landed."""
    known: dict[str, str] = {}
    """From DATABASE.TABLE, as JSON of both, to the fingerprint of the definition that later rows have."""
    counts: SinkCounts = SinkCounts()
    last: CommitStep = CommitStep(0)
    """The last commit that has landed."""


class SegmentContents(Struct, frozen=True):
    """All about a segment."""

    first_seq: int
    transactions: int
    state: LandingState
    parts: tuple[LandedPart, ...] = ()
    definitions: tuple[str, ...] = ()
    schema: tuple[LandedSchemaChange, ...] = ()
    unlogged: tuple[UnloggedValues, ...] = ()
    crossed: tuple[CrossedRows, ...] = ()
    before: CommitStep = CommitStep(0)
    """The last commit before its first one."""
    steps: LandedSteps | None = None
    """None: it was landed before timestamps were kept."""
    format: int = FORMAT


def encode_part(batches: Sequence[pa.RecordBatch]) -> bytes:
    """Batches of one schema as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        for batch in batches:
            writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def encode_steps(stamps: Ints, is_ddl: npt.NDArray[np.bool_]) -> bytes:
    """What has each ordinal, as an Arrow stream: the timestamp, and whether it is that of a DDL."""
    return encode_part([pa.RecordBatch.from_arrays([pa.array(stamps), pa.array(is_ddl)], names=["ts", "is_ddl"])])


def encode_contents(contents: SegmentContents) -> bytes:
    """The end of a segment's file."""
    packed = zlib.compress(msgspec.json.encode(contents))
    return packed + _TAIL.pack(len(packed), zlib.crc32(packed))


def _read_contents(file: pa.NativeFile, url: str) -> tuple[SegmentContents, int]:
    """The contents of a segment, and where they begin in its file."""
    size = file.size()
    head = file.read_at(min(size, len(MAGIC)), 0)
    length, crc = _TAIL.unpack(file.read_at(_TAIL.size, max(0, size - _TAIL.size)).ljust(_TAIL.size, b"\0"))
    begin = size - _TAIL.size - length
    packed = file.read_at(length, begin) if begin >= len(MAGIC) else b""
    if head != MAGIC or zlib.crc32(packed) != crc or not packed:
        raise DamagedFileError("the landed segment is not as it was written", file=url, remedy=_REMEDY)
    return decode_stored(zlib.decompress(packed), SegmentContents, newest=FORMAT, file=url, remedy=_REMEDY), begin


def take_out_index(folder: Folder, name: SegmentName) -> None:
    """Takes the index out of a segment, and puts it beside it.

    Raises:
        DamagedFileError: The segment is not as it was written, or has no index.
        LakeUnavailableError: The storage does not answer, or is full.
    """
    file = f"{name}{SUFFIX}"
    folder.write(file, _index_within(folder, str(name)))
    try:
        check_index(folder, file)
    except DamagedIndexError as error:
        folder.delete(file)
        raise DamagedFileError(
            "the index in the landed segment is not as it was written, and none is beside it",
            file=folder.join(str(name)),
            remedy=f"Restore {file} from a backup of the lake: the segment's rows may be whole.",
        ) from error


def _index_within(folder: Folder, name: str) -> bytes:
    url = folder.join(name)
    with lake_errors(url), folder.filesystem.open_input_file(f"{folder.path}/{name}") as file:
        contents, end = _read_contents(file, url)
        ends = [part.offset + part.size for part in contents.parts]
        if contents.steps is not None:
            ends.append(contents.steps.offset + contents.steps.size)
        begin = max(ends, default=len(MAGIC))
        index: bytes = file.read_at(end - begin, begin)
    if not index:
        raise DamagedFileError("the landed segment has lost its index", file=url, remedy=_REMEDY)
    return index


class SegmentRows:
    """A landed segment with rows, as it is stored."""

    def __init__(self, segment: LandedSegment) -> None:
        """Reads its contents.

        Raises:
            DamagedFileError: It is not as it was written.
            StoreFormatError: A newer Strata wrote it.
            LakeUnavailableError: The storage does not answer.
        """
        self.url = segment.url
        self._filesystem, self._path = segment.folder.filesystem, f"{segment.folder.path}/{segment.name}"
        with lake_errors(self.url), self._filesystem.open_input_file(self._path) as file:
            self.contents, _ = _read_contents(file, self.url)
            size = file.size()
        summary = segment.summary
        mine = (self.contents.first_seq, self.contents.transactions, size)
        if mine != (summary.first_seq, summary.transactions, summary.bytes):
            raise DamagedFileError("the index beside it is that of another segment", file=self.url, remedy=_REMEDY)

    def batches(self, part: LandedPart) -> Iterator[pa.RecordBatch]:
        """The rows of a part.

        Raises:
            DamagedFileError: It is not as it was written.
            LakeUnavailableError: The storage does not answer.
        """
        with pa.ipc.open_stream(self._part(part, f"{part.database}.{part.table}")) as reader:
            yield from reader

    def steps(self) -> tuple[CommitStep, ...]:
        """What has each of its ordinals.

        Raises:
            DamagedFileError: They are not as they were written.
            StoreFormatError: A former version landed it, and kept no timestamps.
            LakeUnavailableError: The storage does not answer.
        """
        if self.contents.steps is None:
            raise StoreFormatError(
                "the landed segment has no commit timestamps: an early version of Strata landed it",
                file=self.url,
                remedy="Land the folder as a source of another name, and stream that one.",
            )
        with pa.ipc.open_stream(self._part(self.contents.steps)) as reader:
            table = reader.read_all()
        return tuple(map(CommitStep, table["ts"].to_pylist(), table["is_ddl"].to_pylist()))

    def commit_ts(self, seq: int) -> int | None:
        """The timestamp of a commit; None if a former version landed it, and kept no timestamps.

        Raises:
            DamagedFileError: The timestamps are not as they were written.
            LakeUnavailableError: The storage does not answer.
        """
        if self.contents.steps is None:
            return None
        with pa.ipc.open_stream(self._part(self.contents.steps)) as reader:
            ts: int = reader.read_all()["ts"][seq - self.contents.first_seq].as_py()
        return ts

    def _part(self, part: LandedPart | LandedSteps, table: str | None = None) -> bytes:
        with lake_errors(self.url), self._filesystem.open_input_file(self._path) as file:
            content: bytes = file.read_at(part.size, part.offset)
        if zlib.crc32(content) != part.crc:
            raise DamagedFileError(
                "rows of the landed segment are not as they were written",
                table=table,
                file=self.url,
                offset=part.offset,
                remedy=_REMEDY,
            )
        return content
