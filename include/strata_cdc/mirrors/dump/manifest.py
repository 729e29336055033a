"""What a dump has read so far, in its stored form: a manifest in the folder of the chunks' files.
Not here: the files (`folder.py`), reading (`read.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.errors import DamagedFileError
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.executed import parse_executed
from strata_cdc.schema.model.definition import TableName, definition_from_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.position.port import Executed
    from strata_cdc.schema.model.definition import TableDefinition

FORMAT: Final = 2
"""Newest number of the stored form; all older forms stay readable. Chunks of form 1 have no texts of values that
columns do not hold, so no dump continues from them."""


class ReadBounds(Struct, frozen=True):
    """The two states of the stream between which a consistent read is."""

    executed: str
    """GTID set that was executed before the read began: the rows have all of it."""
    end: str
    """The server's position FILE:OFFSET when the read had begun: the rows have nothing after it."""

    @property
    def executed_set(self) -> Executed:
        """`executed` as a value."""
        return parse_executed(self.executed)

    @property
    def end_position(self) -> BinlogPosition:
        """`end` as a value."""
        return BinlogPosition.parse(self.end)


class DumpedChunk(Struct, frozen=True):
    """A chunk of the table, from one consistent read."""

    file: str
    rows: int
    bytes: int
    """Bytes that the server sent."""
    bounds: ReadBounds
    border: tuple[str, ...] = ()
    """Literals of the key of its last row, after which the next chunk begins; empty for the last chunk."""
    invalid: dict[str, int] = {}
    """By column, how many values its Arrow type cannot distinguish from others, such as zero dates."""


class Manifest(Struct, frozen=True):
    """A dump, finished or not."""

    source: str
    database: str
    table: str
    version_id: int
    """Id of the version of the definition by which the rows are read."""
    definition: str
    definition_format: int
    server_uuid: str
    """UUID of the server that is read; chunks of two servers are never put together."""
    chunks: tuple[DumpedChunk, ...] = ()
    is_read: bool = False
    """Whether the last chunk has been read."""
    since: str = ""
    """GTID set that was executed before the first read; empty in manifests of older versions."""
    format: int = FORMAT

    @classmethod
    def begin(
        cls,
        source: str,
        table: TableName,
        version_id: int,
        definition: TableDefinition,
        server_uuid: str,
        since: str = "",
    ) -> Manifest:
        """A dump that has read nothing yet."""
        text, number = definition.to_json(), definition.stored_format
        return cls(source, table.database, table.table, version_id, text, number, server_uuid, since=since)

    @property
    def name(self) -> TableName:
        """The table."""
        return TableName(self.database, self.table)

    @property
    def rows(self) -> int:
        """Rows that were read so far."""
        return sum(chunk.rows for chunk in self.chunks)

    @property
    def sent_bytes(self) -> int:
        """Bytes of these rows, as the server sent them."""
        return sum(chunk.bytes for chunk in self.chunks)

    @property
    def border(self) -> tuple[str, ...]:
        """The key after which the next chunk begins; empty for the first chunk."""
        return self.chunks[-1].border if self.chunks else ()

    def read_definition(self) -> TableDefinition:
        """The definition as a value."""
        return definition_from_json(self.definition, self.definition_format)

    def with_chunk(self, chunk: DumpedChunk, *, is_last: bool) -> Manifest:
        """The manifest with one more chunk."""
        return replace(self, chunks=(*self.chunks, chunk), is_read=is_last)

    def goes_on_from(self, begun: Manifest) -> bool:
        """Whether it may be continued instead of starting with `begun`: same table, definition and server."""
        return replace(self, chunks=(), is_read=False, since=begun.since) == begun

    def reads(self) -> list[ReadBounds]:
        """The states of the stream between which its chunks were read."""
        return [chunk.bounds for chunk in self.chunks]

    def oldest_reads(self) -> list[Executed]:
        """To bring the rows to one position, all transactions of the stream after these sets are needed."""
        return earliest(self.reads()) or [parse_executed(self.since)]

    def to_json(self) -> bytes:
        """The stored form."""
        return msgspec.json.encode(self)


def read_manifest(content: bytes, where: str) -> Manifest:
    """Reads what `Manifest.to_json` wrote.

    Raises:
        DamagedFileError: A newer version wrote it, or it is not a manifest.
    """
    try:
        manifest = msgspec.json.decode(content, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedFileError(
            f"the manifest of a dump cannot be read: {error}",
            file=where,
            remedy="Delete the folder; the next dump of the table begins anew.",
        ) from None
    if manifest.format > FORMAT:
        raise DamagedFileError(
            f"the manifest of a dump has format {manifest.format}, this version reads up to {FORMAT}",
            file=where,
            remedy="Install the version of Strata that wrote it, or delete the folder and dump the table again.",
        )
    return manifest


def earliest(reads: Iterable[ReadBounds]) -> list[Executed]:
    """The sets that were executed before the reads, without those that contain another one of them."""
    positions: list[Executed] = []
    for read in reads:
        executed = read.executed_set
        if not any(other <= executed for other in positions):
            positions = [other for other in positions if not executed <= other] + [executed]
    return positions
