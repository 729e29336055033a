"""A mirror: made from rows at a position, opened in its current or an earlier state, read in bounded memory.
Not here: changes (`apply.py`), DDL (`apply_ddl.py`), the log's form (`log.py`), the rows' files (`data_files.py`)."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.arrow_columns import no_rows
from strata_cdc.errors import DamagedFileError, Usage
from strata_cdc.mirrors.actions import has_invalid
from strata_cdc.mirrors.applied_files import AppliedFiles, applied_metadata
from strata_cdc.mirrors.checkpoint import write_checkpoint_if_due
from strata_cdc.mirrors.data_files import names_of, read_file_rows, write_rows
from strata_cdc.mirrors.exactness import EXACT, can_tell, doubtful_columns, has_lost
from strata_cdc.mirrors.layout import key_columns, mirror_url
from strata_cdc.mirrors.limits import MirrorLimits
from strata_cdc.mirrors.log import commit, newer, now_ms, read_snapshot, version_at
from strata_cdc.mirrors.modes import Mode, properties_of, protocol_of
from strata_cdc.mirrors.renames import (
    Renames,
    first_columns,
    highest_number,
    mapping_properties,
    with_invalid,
    without_invalid,
)
from strata_cdc.mirrors.rows_from import RowsFrom
from strata_cdc.mirrors.schema_text import columns_of, schema_text
from strata_cdc.mirrors.vectors import read_vector, rows_of
from strata_cdc.schema.model.definition import TableDefinition, TableName, definition_from_json
from strata_cdc.tables.layout import column_name
from strata_cdc.tables.port import CommitConflictError
from strata_cdc.tables.verbatim import INVALID_COLUMN, verbatim_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from strata_cdc.mirrors.actions import LiveFile, LogSnapshot
    from strata_cdc.mirrors.position import MirrorPosition

_DEFINITION, _FORMAT = "strata.definition", "strata.definition_format"
_IDENTITY, _MODE = "strata.mirror", "strata.mirror_mode"
_DROPPED = "strata.dropped"
_DIVERGED, _ROWS_FROM = "strata.diverged", "strata.rows_from"
GONE_COLUMNS: Final = "strata.gone_columns"
STOPPED: Final = "strata.stopped"
BEGUN: Final = {GONE_COLUMNS: None, STOPPED: None, _DIVERGED: None, _ROWS_FROM: RowsFrom.CREATE.value}
"""Properties of a mirror after a statement that removed all rows."""
_OWN: Final = {_DEFINITION, _FORMAT, _IDENTITY, _MODE}
_NONE: Final = np.empty(0, np.int64)


class Mirror(Struct, frozen=True):
    """One mirror after one commit; a value that never changes."""

    source: str
    table: TableName
    snapshot: LogSnapshot
    limits: MirrorLimits = MirrorLimits()

    @classmethod
    def create(  # noqa: PLR0913  the parts of a mirror
        cls,
        lake: str,
        source: str,
        table: TableName | str,
        definition: TableDefinition,
        batches: Iterable[pa.Table | pa.RecordBatch],
        position: MirrorPosition,
        *,
        mode: Mode = Mode.DELETION_VECTORS,
        renames: Renames = Renames.COPY,
        replacing: Mirror | None = None,
        rows_from: RowsFrom = RowsFrom.DUMP,
        limits: MirrorLimits = MirrorLimits(),
    ) -> Self:
        """Makes a mirror with these rows, in one commit; readers never see files of a call that was killed before it.

        Args:
            lake: Folder or URL of the lake.
            source: The source's name.
            table: The table.
            definition: Its definition at the position.
            batches: Rows in `state_schema(definition)`, or with texts (`exact_schema`); and a column `_seq`, if it is
                known. Read once, in bounded memory.
            position: The position in the stream at which the table has exactly these rows.
            mode: How it takes changes.
            renames: What will happen to columns that get another name.
            replacing: The existing mirror, whose rows these replace; its earlier positions stay readable. It keeps its
                identity unless the table was dropped meanwhile.
            rows_from: What makes it complete.
            limits: How large its files and commits become, in this value and all values that are made from it.

        Raises:
            Usage: There is already a mirror of this table.
            CommitConflictError: Another process has changed the mirror to be replaced, or has made one meanwhile.
            LakeUnavailableError: The storage refuses.
        """
        table = TableName.parse(table)
        url = mirror_url(lake, source, table)
        snapshot = read_snapshot(url)
        if snapshot is not None and replacing is not None and snapshot.version != replacing.snapshot.version:
            raise CommitConflictError
        if snapshot is not None and replacing is None:
            raise Usage(
                f"there is a mirror already, at transaction {snapshot.position.seq}",
                source=source,
                table=str(table),
                remedy="Open it, and give it as the one to be replaced; or move its folder away.",
            )
        identity = uuid.uuid4().hex
        if replacing is not None and not replacing.is_dropped:
            identity = replacing.identity
        columns = first_columns(definition, renames)
        added = list(write_rows(url, columns, batches, limits=limits))
        schema = with_invalid(columns) if has_invalid(added) else columns
        own = {
            "strata.source": source,
            "strata.table": str(table),
            _IDENTITY: identity,
            _MODE: mode.value,
            _ROWS_FROM: rows_from.value,
            **EXACT,
            _DEFINITION: definition.to_json(),
            _FORMAT: str(definition.stored_format),
            **mapping_properties(schema, {} if snapshot is None else snapshot.properties),
        }
        actions = [
            _transaction(source, table, position),
            protocol_of(mode, schema_text(schema)),
            _metadata(schema_text(schema), properties_of(mode, own)),
            *_ends(snapshot),
            *(file.added() for file in added),
        ]
        version = 0 if snapshot is None else snapshot.version + 1
        commit(url, version, actions, position, operation="CREATE TABLE AS SELECT", about={})
        made = cls.open(lake, source, table, limits=limits)
        if made is None:
            raise CommitConflictError
        if snapshot is not None:
            write_checkpoint_if_due(made.snapshot, snapshot, limits.checkpoint_commits)
        return made

    @classmethod
    def open(
        cls,
        lake: str,
        source: str,
        table: TableName | str,
        at: Callable[[MirrorPosition], bool] | None = None,
        *,
        limits: MirrorLimits = MirrorLimits(),
    ) -> Self | None:
        """The mirror in its current or an earlier state; None if the table has no mirror.

        Args:
            lake: Folder or URL of the lake.
            source: The source's name.
            table: The table.
            at: Whether a position is not after the requested point; the newest such position is opened.
            limits: As `create`.

        Raises:
            Usage: Its oldest position is after that point.
            DamagedFileError: The table is not complete, or Strata did not make it.
            LakeUnavailableError: The storage does not answer.
        """
        table = TableName.parse(table)
        url = mirror_url(lake, source, table)
        version = None if at is None else version_at(url, at)
        if version == -1:
            raise Usage(
                "the mirror does not reach back so far",
                source=source,
                table=str(table),
                remedy="`strata mirror list` shows from where on it can be opened.",
            )
        snapshot = read_snapshot(url, version)
        if snapshot is not None and not snapshot.properties.keys() >= _OWN:
            raise DamagedFileError(
                "another program has taken away what the mirror's table says of itself",
                source=source,
                table=str(table),
                file=url,
                remedy="Move the folder away and dump the table again; copy a mirror to change it.",
            )
        return None if snapshot is None else cls(source, table, snapshot, limits)

    @classmethod
    def open_before(cls, lake: str, source: str, table: TableName, seq: int) -> Self | None:
        """The mirror before a transaction; None if there was none.

        Raises:
            DamagedFileError: As `open`.
            LakeUnavailableError: The storage does not answer.
        """
        try:
            return cls.open(lake, source, table, lambda at: at.seq < seq)
        except Usage:
            return None

    def refreshed(self) -> Mirror:
        """The mirror in its newest state."""
        return replace(self, snapshot=newer(self.snapshot))

    @property
    def url(self) -> str:
        """The Delta table."""
        return self.snapshot.url

    @property
    def position(self) -> MirrorPosition:
        """Its position in the stream."""
        return self.snapshot.position

    @property
    def applied_files(self) -> AppliedFiles | None:
        """The published files that its rows come from; None if no file was applied since the rows were read."""
        return AppliedFiles.from_text(self.snapshot.applied)

    @property
    def definition(self) -> TableDefinition:
        """The table's definition at the position."""
        properties = self.snapshot.properties
        return definition_from_json(properties[_DEFINITION], int(properties[_FORMAT]))

    @property
    def mode(self) -> Mode:
        """How it takes changes."""
        return Mode(self.snapshot.properties[_MODE])

    @property
    def identity(self) -> str:
        """Distinguishes it from an earlier mirror of a table with the same name."""
        return self.snapshot.properties[_IDENTITY]

    @property
    def is_dropped(self) -> bool:
        """Whether the table no longer exists on the server; the mirror has the rows that the table had last."""
        return _DROPPED in self.snapshot.properties

    @property
    def stopped(self) -> str | None:
        """Why it is blocked at its position, or None."""
        return self.diverged or self.snapshot.properties.get(STOPPED)

    @property
    def diverged(self) -> str | None:
        """Why its rows are not the table's, until they are read again; None if no difference is known."""
        return self.snapshot.properties.get(_DIVERGED)

    @property
    def rows_from(self) -> RowsFrom | None:
        """What made it complete; None if an older version of Strata made it."""
        text = self.snapshot.properties.get(_ROWS_FROM)
        return None if text is None else RowsFrom(text)

    @property
    def is_exact(self) -> bool:
        """Whether it has the values that its columns do not hold, which mirrors of older versions of Strata lack."""
        return not doubtful_columns(self.definition, self.snapshot.properties)

    def lost_texts(self) -> tuple[str, ...]:
        """Columns of a mirror that is not exact which have lost values: reads the columns that may have lost some.

        For dates that may be NULL, this cannot be known.

        Raises:
            DamagedFileError: A file is gone or damaged.
            LakeUnavailableError: The storage does not answer.
        """
        doubtful = doubtful_columns(self.definition, self.snapshot.properties)
        names = {column_name(column.name): column for column in doubtful if can_tell(column)}
        batches = self.batches(list(names)) if names else ()
        lost = {name for rows in batches for name, column in names.items() if has_lost(rows[name], column)}
        return tuple(name for name in names if name in lost)

    @property
    def gone_columns(self) -> frozenset[str]:
        """Folded names in files of the columns that data files have and that the table no longer has."""
        return frozenset(filter(None, self.snapshot.properties.get(GONE_COLUMNS, "").split("\n")))

    @property
    def schema(self) -> pa.Schema:
        """Its columns, with what the log has of their names."""
        return columns_of(self.definition, self.snapshot.schema_text)

    @property
    def exact_schema(self) -> pa.Schema:
        """Its columns without the map, but with the text columns."""
        texts = [pa.field(name, pa.string()) for name in verbatim_names(self.definition).values()]
        return pa.schema([*without_invalid(self.schema), *texts])

    @property
    def key(self) -> tuple[str, ...]:
        """Columns whose values identify a row; none if only a whole row identifies itself."""
        return key_columns(self.definition)

    def dead_rows(self, file: LiveFile) -> NDArray[np.int64]:
        """Numbers of the dead rows of a file, ascending."""
        return _NONE if file.vector is None else rows_of(read_vector(self.url, file.vector))

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """All rows, in no order, a batch at a time.

        Args:
            columns: The requested columns; None for all.

        Raises:
            DamagedFileError: A file is gone or damaged.
            LakeUnavailableError: The storage does not answer.
        """
        schema = self.schema if columns is None else names_of(with_invalid(self.schema), columns)
        for file in self.snapshot.files.values():
            yield from read_file_rows(self.url, file, schema, self.dead_rows(file))

    def exact_batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """All rows in `exact_schema`, or in some of its columns, in no order, a batch at a time.

        Args:
            columns: The requested columns; None for all.
        """
        schema = names_of(self.exact_schema, columns)
        for file in self.snapshot.files.values():
            yield from read_file_rows(self.url, file, schema, self.dead_rows(file))

    def to_arrow(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows, in no order; with the map `_invalid` only if it is requested."""
        columns = without_invalid(self.schema).names if columns is None else columns
        schema = names_of(with_invalid(self.schema), columns)
        return pa.concat_tables([no_rows(schema), *self.batches(columns)])

    def commit(
        self,
        actions: Iterable[Mapping[str, Any]],
        position: MirrorPosition,
        *,
        operation: str,
        about: Mapping[str, str] | None = None,
        applied: str | None = None,
        unsynced: Sequence[str] = (),
    ) -> Mirror:
        """Adds one commit to this value.

        Args:
            actions: What it does.
            position: The position after it.
            operation: The operation, in Delta's words.
            about: More custom metadata of the commit.
            applied: The published files that the rows come from then (`AppliedFiles.text`); None: the same as before.
            unsynced: Files that must be on the disk before it.

        Raises:
            CommitConflictError: Another process has committed since; nothing is changed.
            LakeUnavailableError: The storage refuses.
        """
        version = self.snapshot.version + 1
        actions = [_transaction(self.source, self.table, position), *actions]
        about = applied_metadata(self.snapshot.applied if applied is None else applied) | dict(about or {})
        commit(self.url, version, actions, position, operation=operation, about=about, unsynced=unsynced)
        made = self.refreshed()
        write_checkpoint_if_due(made.snapshot, self.snapshot, self.limits.checkpoint_commits)
        return made

    def with_properties(self, changed: Mapping[str, str | None], position: MirrorPosition) -> Mirror:
        """The mirror with other properties and the same rows; None removes a property."""
        return self.commit([self.metadata(changed)], position, operation="SET TBLPROPERTIES")

    def metadata(
        self,
        changed: Mapping[str, str | None],
        definition: TableDefinition | None = None,
        schema: pa.Schema | None = None,
    ) -> dict[str, Any]:
        """The action that gives it other properties and, if they are passed, another definition and columns."""
        shown = self.definition if definition is None else definition
        columns = self.schema if schema is None else schema
        properties = {
            **self.snapshot.properties,
            _DEFINITION: shown.to_json(),
            _FORMAT: str(shown.stored_format),
            **mapping_properties(columns, self.snapshot.properties),
            **changed,
        }
        kept = {key: value for key, value in properties.items() if value is not None}
        return _metadata(schema_text(columns), kept, self.snapshot.table_id, self.snapshot.created_ms)

    def invalid_column(self, added: Iterable[LiveFile]) -> list[dict[str, Any]]:
        """The action that gives it the map `_invalid`, if new files are the first that have the map."""
        if INVALID_COLUMN in self.schema.names or not has_invalid(added):
            return []
        return [self.metadata({}, schema=with_invalid(self.schema, None, highest_number(self.snapshot.properties)))]

    def dropped(self, position: MirrorPosition) -> Mirror:
        """Marks it: the table no longer exists on the server. Its last rows stay readable; if it was `stopped`, the
        rows from when it was blocked."""
        return self.with_properties({_DROPPED: str(position.seq)}, position)

    def stopped_for(self, reason: str | None) -> Mirror:
        """Marks it as blocked at its position; None: no longer blocked."""
        return self if self.stopped == reason else self.with_properties({STOPPED: reason}, self.position)

    def diverged_for(self, reason: str) -> Mirror:
        """Marks it: its rows are not the table's. Only reading the rows again removes the mark, whatever is committed
        after the commit that caused it."""
        return self if self.diverged == reason else self.with_properties({_DIVERGED: reason}, self.position)

    def known_from(self, rows_from: RowsFrom) -> Mirror:
        """Marks it as complete, as its log has shown."""
        return self.with_properties({_ROWS_FROM: rows_from.value}, self.position)


def _transaction(source: str, table: TableName, position: MirrorPosition) -> dict[str, Any]:
    """Delta's action for the position: the version of the application transaction is its `seq`."""
    return {"txn": {"appId": f"strata:mirror:{source}.{table}", "version": position.seq, "lastUpdated": now_ms()}}


def _metadata(text: str, properties: Mapping[str, str], table_id: str = "", created_ms: int = 0) -> dict[str, Any]:
    return {
        "metaData": {
            "id": table_id or str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": text,
            "partitionColumns": [],
            "configuration": dict(properties),
            "createdTime": created_ms or now_ms(),
        }
    }


def _ends(snapshot: LogSnapshot | None) -> list[dict[str, Any]]:
    return [] if snapshot is None else [file.removed(now_ms()) for file in snapshot.files.values()]
