"""Dumps one table into its mirror: chunks under a running stream, then the changes that they lack.
Not here: which tables (`dump_tables.py`), reading (`mirrors/dump/read.py`), the argument (`mirrors/dump/exact.py`)."""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from strata.errors import AlreadyRunningError, SchemaGapError, Usage
from strata.events.landed import LandedStream
from strata.jobs.dump.window import NotLandedError, Window, changes_of, happened, is_changed, window_of
from strata.mirrors.dump.exact import NotRepeatableError, exact_rows
from strata.mirrors.dump.folder import DumpFolder
from strata.mirrors.dump.manifest import Manifest, earliest, latest
from strata.mirrors.dump.read import TableAlteredError, TableReader
from strata.mirrors.layout import key_columns
from strata.mirrors.position import MirrorPosition
from strata.mirrors.table import Mirror
from strata.schema.history.historian import AtSeq, History
from strata.wire.connection import connect, open_connection, server_errors
from strata.wire.server_files import ServerFiles, has_no_transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from strata.gtid.position import BinlogPosition
    from strata.gtid.sets import GtidSet
    from strata.mirrors.dump.manifest import Bounds
    from strata.mirrors.modes import Mode
    from strata.schema.history.sql_store import SchemaStore
    from strata.schema.history.versions import SchemaVersion
    from strata.schema.model.definition import TableDefinition, TableName
    from strata.wire.connection import ServerAddress

_ATTEMPTS: Final = 8
"""Readings of a table that is altered again and again."""
_LANDING_SECONDS: Final = 60
"""Until the stream has come to where the server wrote; it has been asked for by then."""
_PAUSE_SECONDS: Final = 0.05


class DumpSettings(Struct, frozen=True):
    """How a table is read."""

    chunk_bytes: int
    pause_seconds: float
    """Between two chunks."""
    read_seconds: float | None = None
    """How long the server may be silent; None for ever."""


class DumpProgress(Struct, frozen=True):
    """How far a table has come."""

    table: str
    rows: int
    of_rows: int
    """By the server's guess."""
    bytes: int
    seconds_left: float | None
    """By the rate since this process began; None if that says nothing yet."""


class TableDumped(Struct, frozen=True):
    """One table, as it was dumped."""

    table: str
    rows: int
    bytes: int
    chunks: int
    changes: int
    """That were made to rows after they were read."""
    readings: int
    """More than one where the table was altered meanwhile."""
    seq: int
    gtid_executed: str
    invalid: dict[str, int]
    """Values of a column that no Arrow type expresses, as zero dates: they are NULL."""


class DumpSource(Struct, frozen=True):
    """What a dump needs of its source."""

    name: str
    address: ServerAddress
    lake: str
    store: SchemaStore
    catch_up: Callable[[], None]
    """Lands what the server has executed by now, and tracks it."""
    mode: Mode


class TableDump:
    """The dump of one table.

    Args:
        source: Where from, and where to.
        table: The table.
        settings: How it is read.
        tell: Is told of the progress after each chunk.
    """

    def __init__(
        self,
        source: DumpSource,
        table: TableName,
        settings: DumpSettings,
        tell: Callable[[DumpProgress], None] = lambda _: None,
    ) -> None:
        self._source, self._table, self._settings, self._tell = source, table, settings, tell
        self._folder = DumpFolder(source.lake, source.name, table)
        self._readings = 0

    def run(self) -> TableDumped:
        """Reads what is not read yet, and makes the mirror.

        Raises:
            AlreadyRunningError: Another process dumps the table.
            SchemaGapError: There is no such table, or its definition is not known.
            Usage: It cannot be dumped as it is, or is altered all the time.
            LakeUnavailableError: The storage refuses, or is full; what was read stays.
            SourceUnavailableError: The server went away; what was read stays.
        """
        with self._folder.held():
            reason = ""
            for _ in range(_ATTEMPTS):
                self._source.catch_up()
                try:
                    manifest = self._read()
                    return self._finish(manifest)
                except (TableAlteredError, NotRepeatableError) as error:
                    reason = error.reason
                    self._folder.clear()
            raise Usage(
                f"the table was read {_ATTEMPTS} times, and each time something came between: {reason}",
                source=self._source.name,
                table=str(self._table),
                remedy="Dump it once that has come to an end.",
            )

    # Reading ------------------------------------------------------------------------------------

    def _read(self) -> Manifest:
        """All chunks."""
        self._readings += 1
        source, settings = self._source, self._settings
        with server_errors(source.address):
            connection = open_connection(source.address, autocommit=True, read_timeout=settings.read_seconds)
            with connection:
                self._keep_others_out(connection)
                begun = self._begun(_uuid_of(connection))
                reader = TableReader(connection, self._folder, begun, settings.chunk_bytes, self._is_quiet)
                started, before = time.monotonic(), begun.rows
                while not reader.manifest.is_read:
                    reader.read_chunk()
                    self._report(reader, started, before)
                    if not reader.manifest.is_read:
                        time.sleep(settings.pause_seconds)
                return reader.manifest

    def _begun(self, server_uuid: str) -> Manifest:
        """The manifest to go on from."""
        store, name = self._source.store, self._source.name
        position = store.position(name)
        found = History(store, name).at(self._table, AtSeq((position.seq if position else 0) + 0))
        begun = Manifest.begin(name, self._table, found.version_id, found.definition, server_uuid)
        stored = self._folder.manifest()
        kept = stored if stored is not None and stored.goes_on_from(begun) else begun
        self._folder.keep_only(chunk.file for chunk in kept.chunks)
        self._folder.save(kept)
        return kept

    def _keep_others_out(self, connection: Any) -> None:
        """For a lake behind a URL, which has no lock of its own: a name that the connection holds while it lives."""
        if self._folder.is_local:
            return
        key = "strata-" + hashlib.sha256(self._folder.url.encode()).hexdigest()[:40]
        with connection.cursor() as cursor:
            cursor.execute("SELECT GET_LOCK(%s, 5), IS_USED_LOCK(%s)", (key, key))
            taken, owner = cursor.fetchone()
        if taken != 1:
            raise AlreadyRunningError(
                f"connection {owner} of the server dumps this table",
                source=self._source.name,
                table=str(self._table),
                remedy=f"Wait until it has ended; `KILL {owner}` on the server ends it.",
            )

    def _report(self, reader: TableReader, started: float, before: int) -> None:
        manifest, seconds = reader.manifest, time.monotonic() - started
        of_rows = max(reader.estimate.rows, manifest.rows)
        read = manifest.rows - before
        left = None if not read else seconds * (of_rows - manifest.rows) / read
        self._tell(DumpProgress(str(self._table), manifest.rows, of_rows, manifest.sent_bytes, left))

    def _is_quiet(self, bounds: Bounds) -> bool:
        stream, window = self._landed([bounds.executed_set], bounds.end_position)
        return not is_changed(stream, window, self._table)

    # Finishing ----------------------------------------------------------------------------------

    def _finish(self, manifest: Manifest) -> TableDumped:
        chunks = manifest.chunks
        stream, window = self._landed(earliest(chunks), latest(chunks))
        source, definition = self._source, manifest.read_definition()
        reason = happened(source.store, source.name, window, self._table, definition)
        if reason is not None:
            raise TableAlteredError(reason)
        version = self._version_at(window.last_seq, definition)
        definition = version.definition
        if not key_columns(definition) and is_changed(stream, window, self._table):
            raise NotRepeatableError("the table has no key, and was changed while it was read")
        changes = changes_of(stream, source.store, window, self._table, definition)
        position = MirrorPosition(
            seq=window.last_seq,
            gtid_executed=str(stream.executed_at(window.last_seq)),
            committed_at=stream.clock_at(window.last_seq),
            schema_version=version.version_id,
        )
        rows = exact_rows(self._batches(manifest), changes, definition)
        Mirror.create(
            source.lake,
            source.name,
            self._table,
            definition,
            rows,
            position,
            mode=source.mode,
            replacing=Mirror.open(source.lake, source.name, self._table),
        )
        self._folder.clear()
        return self._dumped(manifest, changes.num_rows, position)

    def _version_at(self, seq: int, definition: TableDefinition) -> SchemaVersion:
        """The version that holds at the end of the window, whose columns are those of the rows."""
        try:
            found = History(self._source.store, self._source.name).at(self._table, AtSeq(seq))
        except SchemaGapError as error:
            raise TableAlteredError(error.message) from error
        if found.definition.columns != definition.columns:
            raise TableAlteredError("its definition is another one")
        return found

    def _landed(self, executed: Sequence[GtidSet], end: BinlogPosition) -> tuple[LandedStream, Window]:
        """Lands until the stream reaches so far; as `window_of`."""
        until = time.monotonic() + _LANDING_SECONDS
        while True:
            stream = LandedStream.open(self._source.lake, self._source.name)
            try:
                return stream, window_of(stream, executed, end)
            except NotLandedError:
                if time.monotonic() > until:
                    raise Usage(
                        "the stream has not come to where the server wrote while the table was read",
                        source=self._source.name,
                        table=str(self._table),
                        remedy="`strata status` shows how far it is; then dump again, which goes on from here.",
                    ) from None
            self._source.catch_up()
            end = self._with_transactions(end)
            time.sleep(_PAUSE_SECONDS)

    def _with_transactions(self, end: BinlogPosition) -> BinlogPosition:
        """The same place, named by a file that has a transaction in front of it: a new one has landed with its first.

        Raises:
            SourceUnavailableError: The server does not answer.
        """
        with server_errors(self._source.address), connect(self._source.address) as connection:
            if not has_no_transaction(connection, end):
                return end
            return ServerFiles.read(connection).in_front(end.file) or end

    def _batches(self, manifest: Manifest) -> Iterator[pa.RecordBatch]:
        for chunk in manifest.chunks:
            yield from self._folder.read(chunk.file)

    def _dumped(self, manifest: Manifest, changes: int, position: MirrorPosition) -> TableDumped:
        invalid: dict[str, int] = {}
        for chunk in manifest.chunks:
            for name, count in chunk.invalid.items():
                invalid[name] = invalid.get(name, 0) + count
        return TableDumped(
            table=str(self._table),
            rows=manifest.rows,
            bytes=manifest.sent_bytes,
            chunks=len(manifest.chunks),
            changes=changes,
            readings=self._readings,
            seq=position.seq,
            gtid_executed=position.gtid_executed,
            invalid=invalid,
        )


def _uuid_of(connection: Any) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.server_uuid")
        return str(cursor.fetchone()[0])
