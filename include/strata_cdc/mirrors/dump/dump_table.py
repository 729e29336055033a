"""Dumps one table into its mirror: chunks while the stream continues, then the changes that they lack.
Not here: which tables (`dump_tables.py`), reading (`mirrors/dump/read.py`), the argument (`mirrors/dump/exact.py`)."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from strata_cdc.binlog.protocol.connection import fetch_rows, open_connection, server_errors
from strata_cdc.binlog.protocol.source_lock import SourceLock
from strata_cdc.binlog.protocol.visible_state import read_visible_state
from strata_cdc.errors import StrataError, Usage
from strata_cdc.landing.arrival import has_arrived
from strata_cdc.landing.landed import LandedStream
from strata_cdc.mirrors.dump.exact import NotRepeatableError
from strata_cdc.mirrors.dump.finish import DumpSource, make_mirror
from strata_cdc.mirrors.dump.folder import DumpFolder
from strata_cdc.mirrors.dump.manifest import Manifest
from strata_cdc.mirrors.dump.read import TableAlteredError, TableReader
from strata_cdc.mirrors.dump.window import DumpWindow, is_changed, window_of
from strata_cdc.mirrors.table import Mirror
from strata_cdc.position.binlog_position import ServerPosition
from strata_cdc.schema.history.historian import History

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from strata_cdc.mirrors.dump.manifest import ReadBounds
    from strata_cdc.mirrors.position import MirrorPosition
    from strata_cdc.schema.model.definition import TableName

_ATTEMPTS: Final = 8
"""How often a table is read if it is altered again and again."""
_LANDING_SECONDS: Final = 60
"""How long to wait until the stream has come to the server's position; landing was requested before."""


class DumpSettings(Struct, frozen=True):
    """How a table is read."""

    chunk_bytes: int
    pause_seconds: float
    """Pause between two chunks."""


class DumpProgress(Struct, frozen=True):
    """How far the dump of a table is."""

    table: str
    rows: int
    of_rows: int
    """The server's estimate."""
    bytes: int
    seconds_left: float | None
    """By the rate since this process began; None if that rate is not known yet."""


class TableDumped(Struct, frozen=True):
    """The result of the dump of one table."""

    table: str
    rows: int
    bytes: int
    chunks: int
    changes: int
    """Changes that were made to rows after they were read."""
    readings: int
    """More than one if the table was altered meanwhile."""
    seq: int
    gtid_executed: str
    invalid: dict[str, int]
    """By column, the number of values that the column of the lake cannot express, such as zero dates: the mirror keeps
    them in `_invalid`."""


class NotWantedError(Exception):
    """The table need not be dumped any more: another process has dumped it meanwhile."""


class TableDump:
    """The dump of one table.

    Args:
        source: The source to read, and where its mirrors are.
        table: The table.
        settings: How it is read.
        tell: Called with the progress after each chunk.
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
        self._server_uuid = ""

    def run(self) -> TableDumped:
        """Reads what has not been read yet, and makes the mirror.

        Raises:
            NotWantedError: The source reports that the table need not be dumped any more.
            DamagedFileError: There is a mirror whose log is not complete, or a table of another program instead.
            AlreadyRunningError: Another process dumps the table.
            SchemaGapError: There is no such table, or its definition is not known.
            Usage: It cannot be dumped in its current form, or is altered all the time.
            LakeUnavailableError: The storage refuses, or is full; what was read stays.
            SourceUnavailableError: The server went away; what was read stays.
        """
        with self._alone():
            try:
                return self._attempts()
            except StrataError:
                self._forget_what_read_nothing()
                raise

    def _attempts(self) -> TableDumped:
        reason = ""
        # If the existing mirror cannot be replaced, reading the table is useless.
        Mirror.open(self._source.lake, self._source.name, self._table)
        for _ in range(_ATTEMPTS):
            self._source.catch_up()
            try:
                manifest = self._read()
                return self._finish(manifest)
            except (TableAlteredError, NotRepeatableError) as error:
                reason = str(error)
                self._folder.clear()
        raise Usage(
            f"the table was read {_ATTEMPTS} times, and each time something came between: {reason}",
            source=self._source.name,
            table=str(self._table),
            remedy="Dump it once that has come to an end.",
        )

    def _forget_what_read_nothing(self) -> None:
        """Deletes a dump that has read nothing: nothing can continue from it, but segments would be kept for it."""
        with suppress(StrataError):
            manifest = self._folder.manifest()
            if manifest is not None and not manifest.chunks:
                self._folder.clear()

    # Reading ------------------------------------------------------------------------------------

    def _read(self) -> Manifest:
        """Reads all chunks."""
        self._readings += 1
        source = self._source
        with server_errors(source.address):
            connection = open_connection(source.address, autocommit=True)
            with connection:
                if self._readings == 1 and not source.begin(self._table):
                    raise NotWantedError
                self._server_uuid, executed = _state_of(connection)
                begun = self._begun(self._server_uuid, executed)
                reader = TableReader(connection, self._folder, begun, self._settings.chunk_bytes, self._is_quiet)
                started, before = time.monotonic(), begun.rows
                while not reader.manifest.is_read:
                    reader.read_chunk()
                    self._report(reader, started, before)
                    if not reader.manifest.is_read:
                        time.sleep(self._settings.pause_seconds)
                return reader.manifest

    def _begun(self, server_uuid: str, executed: str) -> Manifest:
        """The manifest to continue from; from now on, retention keeps the part of the stream that it needs."""
        store, name = self._source.store, self._source.name
        position = store.position(name)
        version = History(store, name).after(self._table, position.seq if position else 0)
        begun = Manifest.begin(name, self._table, version.version_id, version.definition, server_uuid, executed)
        stored = self._folder.manifest()
        kept = stored if stored is not None and stored.goes_on_from(begun) and self._reaches_back(stored) else begun
        self._folder.keep_only(chunk.file for chunk in kept.chunks)
        self._folder.save(kept)
        return kept

    def _reaches_back(self, stored: Manifest) -> bool:
        """Whether the stream still has what the chunks of an older process lack; otherwise they are useless."""
        stream = LandedStream.open(self._source.lake, self._source.name)
        return all(stream.executed_before() <= executed for executed in stored.oldest_reads())

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Excludes a second dump of the table: by the folder's lock; if the lake is at a URL, by the server's."""
        if self._folder.is_local:
            with self._folder.held():
                yield
            return
        lock = SourceLock(self._source.address, f"strata-dump-{self._folder.url}", "dumps this table")
        try:
            lock.acquire()
            yield
        finally:
            lock.release()

    def _report(self, reader: TableReader, started: float, before: int) -> None:
        manifest, seconds = reader.manifest, time.monotonic() - started
        of_rows = max(reader.estimate.rows, manifest.rows)
        read = manifest.rows - before
        left = None if not read else seconds * (of_rows - manifest.rows) / read
        self._tell(DumpProgress(str(self._table), manifest.rows, of_rows, manifest.sent_bytes, left))

    def _is_quiet(self, bounds: ReadBounds) -> bool:
        stream, window = self._landed([bounds], self._server_uuid)
        return not is_changed(stream, window, self._table)

    # Finishing ----------------------------------------------------------------------------------

    def _finish(self, manifest: Manifest) -> TableDumped:
        landed = self._landed(manifest.reads(), manifest.server_uuid)
        batches = self._batches(manifest)
        made = make_mirror(self._source, self._table, manifest.read_definition(), landed, batches)
        self._folder.clear()
        self._source.done(self._table)
        return self._dumped(manifest, made.changes, made.position)

    def _landed(self, reads: Sequence[ReadBounds], server_uuid: str) -> tuple[LandedStream, DumpWindow]:
        """Lands until the stream reaches the end of the window; see `window_of`."""
        source, until = self._source, time.monotonic() + _LANDING_SECONDS
        position = ServerPosition(server_uuid, max(bounds.end_position for bounds in reads))
        while True:
            stream = LandedStream.open(source.lake, source.name)
            if has_arrived(source.address, stream, position):
                return stream, window_of(stream, reads, server_uuid)
            if time.monotonic() > until:
                raise Usage(
                    "the stream has not come to where the server wrote while the table was read",
                    source=source.name,
                    table=str(self._table),
                    remedy="`strata status` shows how far it is; then dump again, which goes on from here.",
                )
            source.catch_up()

    def _batches(self, manifest: Manifest) -> Iterator[pa.RecordBatch]:
        for chunk in manifest.chunks:
            yield from self._folder.read_chunk(chunk.file)

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


def _state_of(connection: Any) -> tuple[str, str]:
    """The server's identity, and what it has executed."""
    now = read_visible_state(partial(fetch_rows, connection))
    return now.identity, now.executed
