"""From rows that were read to a mirror at one position: applies the changes since then to the rows.
Not here: reading them (`dump_table.py`, `backups/`), the argument (`mirrors/dump/exact.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.config.source_kinds import no_server
from strata_cdc.errors import SchemaGapError
from strata_cdc.mirrors.dump.exact import NotRepeatableError, exact_rows
from strata_cdc.mirrors.dump.folder import DumpFolder
from strata_cdc.mirrors.dump.limits import DumpLimits
from strata_cdc.mirrors.dump.read import TableAlteredError
from strata_cdc.mirrors.dump.window import DumpWindow, changes_of, happened, is_changed, may_lack_changes
from strata_cdc.mirrors.layout import key_columns
from strata_cdc.mirrors.lock import MirrorLocks
from strata_cdc.mirrors.position import MirrorPosition
from strata_cdc.mirrors.renames import Renames
from strata_cdc.mirrors.table import Mirror
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.model.engines import discards_rows
from strata_cdc.store.own import own_database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from strata_cdc.binlog.protocol.connection import ServerAddress
    from strata_cdc.landing.landed import LandedStream
    from strata_cdc.mirrors.modes import Mode
    from strata_cdc.schema.history.sql_store import SchemaStore
    from strata_cdc.schema.history.versions import SchemaVersion
    from strata_cdc.schema.model.definition import TableDefinition, TableName

_WAIT_SECONDS: Final = 600.0
"""How long to wait for other writers of the mirror: reading the rows again costs more."""


class DumpSource(Struct, frozen=True):
    """What a dump needs of its source."""

    name: str
    server: ServerAddress | None
    """None for the folder of a sink."""
    lake: str
    store: SchemaStore
    catch_up: Callable[[], None]
    """Lands and tracks what the server has executed by now."""
    mode: Mode
    begin: Callable[[TableName], bool] = lambda _: True
    """Whether a table must still be dumped; called when no other process dumps it."""
    done: Callable[[TableName], None] = lambda _: None
    """Called when a table's mirror has its rows."""
    renames: Callable[[TableName], Renames] = lambda _: Renames.COPY
    """What will happen to a table's columns that get another name."""
    limits: DumpLimits = DumpLimits()
    lock_place: ServerAddress | str | None = None
    """What holds the locks of a sink's mirrors if the lake is at a URL; those of a server are there."""

    @property
    def address(self) -> ServerAddress:
        """Its server.

        Raises:
            SourceSettingsError: It is the folder of a sink.
        """
        if self.server is None:
            raise no_server(self.name)
        return self.server


class DumpedMirror(Struct, frozen=True):
    """A mirror that was made."""

    position: MirrorPosition
    changes: int
    """Number of changes that were applied to the rows."""


def version_at(source: DumpSource, table: TableName, seq: int, definition: TableDefinition) -> SchemaVersion:
    """The version after a transaction, if its columns are those of the rows.

    Raises:
        TableAlteredError: Its columns are different.
    """
    try:
        version = History(source.store, source.name).after(table, seq)
    except SchemaGapError as error:
        raise TableAlteredError(error.message) from error
    if version.definition.columns != definition.columns:
        raise TableAlteredError("its definition is another one")
    return version


def _tracked(source: DumpSource, stream: LandedStream, window: DumpWindow) -> DumpWindow:
    """The window up to what is tracked, if only the store's own writes follow. These change no table of the source.
    They are not tracked by themselves, because that would be one more write (`tracking/track_schema.py`)."""
    position = source.store.position(source.name)
    end = position.seq if position else 0
    own = own_database(source.store.engine, stream.servers()) if end < window.last_seq else ()
    if own and stream.is_only_of(own, end + 1, window.last_seq):
        return DumpWindow(min(window.after_seq, end), end)
    return window


def make_mirror(
    source: DumpSource,
    table: TableName,
    definition: TableDefinition,
    landed: tuple[LandedStream, DumpWindow],
    batches: Iterator[pa.RecordBatch],
) -> DumpedMirror:
    """The mirror of a table at the end of a window.

    Args:
        source: The source, and where its mirrors are.
        table: The table.
        definition: The definition of the rows.
        landed: The stream, and the range of its transactions in which the rows were read.
        batches: The rows.

    Raises:
        TableAlteredError: The table was altered within the window.
        NotRepeatableError: Its changes cannot be applied to rows that may already have them.
        AlreadyRunningError: Other processes write to the mirror all the time.
        LakeUnavailableError: The storage refuses, or is full.
    """
    stream, window = landed[0], _tracked(source, *landed)
    reason = happened(source.store, source.name, window, table, definition)
    if reason is not None:
        raise TableAlteredError(reason)
    version = version_at(source, table, window.last_seq, definition)
    definition = version.definition
    is_kept = not discards_rows(definition)
    if is_kept and not key_columns(definition) and is_changed(stream, window, table):
        raise NotRepeatableError("the table has no key, and was changed while it was read")
    count = _Count()
    # The server logs rows of such a table, but does not keep them.
    logged = changes_of(stream, source.store, window, table, definition) if is_kept else iter(())
    changes = count.passing(logged)
    folder = DumpFolder(source.lake, source.name, table)
    rows = exact_rows(batches, changes, definition, folder, source.limits)
    return DumpedMirror(create_mirror(source, table, version, (stream, window.last_seq), rows), count.rows)


def create_mirror(
    source: DumpSource,
    table: TableName,
    version: SchemaVersion,
    at: tuple[LandedStream, int],
    rows: Iterator[pa.Table],
) -> MirrorPosition:
    """The mirror of a table with these rows, instead of the one that there may be.

    Args:
        source: The source, and where its mirrors are.
        table: The table.
        version: Its version at the position.
        at: The stream, and the ordinal of the last transaction that the rows have.
        rows: The rows, in `exact_mirror_schema`.

    Raises:
        AlreadyRunningError: Other processes write to the mirror all the time.
        LakeUnavailableError: The storage refuses, or is full.
    """
    stream, seq = at
    position = MirrorPosition(
        seq=seq,
        gtid_executed=str(stream.executed_at(seq)),
        committed_at=stream.clock_at(seq),
        schema_version=version.version_id,
    )
    locks = MirrorLocks(source.lake, source.name, source.server or source.lock_place, wait_seconds=_WAIT_SECONDS)
    with locks.alone(table, purpose="making this mirror from a dump"):
        replaced = _ended(source, Mirror.open(source.lake, source.name, table), stream, position)
        Mirror.create(
            source.lake,
            source.name,
            table,
            version.definition,
            rows,
            position,
            mode=source.mode,
            renames=source.renames(table),
            replacing=replaced,
        )
    return position


def _ended(source: DumpSource, mirror: Mirror | None, stream: LandedStream, position: MirrorPosition) -> Mirror | None:
    """Prepares a mirror that will be replaced. If the changes after its position could be missing in tables that get
    its rows, it is marked: no other mirror will ever have that state."""
    if mirror is None or mirror.is_dropped or mirror.stopped:
        return mirror
    skipped = DumpWindow(mirror.position.seq, position.seq)
    if not may_lack_changes(stream, source.store, skipped, mirror.table):
        return mirror
    return mirror.stopped_for("a dump took its place before its last changes were applied")


class _Count:
    """Counts the rows that pass."""

    def __init__(self) -> None:
        self.rows = 0

    def passing(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self.rows += batch.num_rows
            yield batch
