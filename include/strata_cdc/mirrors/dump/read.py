"""Reads a table in chunks, in the order of its key; what was read stays, however the process ends.
Not here: which changes are missing from chunks (`exact.py`), when it has to begin again (`mirrors/dump/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pymysql
from msgspec import Struct

from strata_cdc.binlog.protocol.connection import fetch_rows
from strata_cdc.changes.select.keys import select_key
from strata_cdc.changes.select.rows import SelectedRows, ServerSelect
from strata_cdc.changes.select.statement import prepare_session
from strata_cdc.errors import SchemaMismatchError, Usage
from strata_cdc.mirrors.dump.manifest import DumpedChunk
from strata_cdc.mirrors.dump.snapshot import SnapshotReader
from strata_cdc.schema.live.masking import refuse_masked
from strata_cdc.tables.convert import state_schema
from strata_cdc.tables.verbatim import verbatim_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.binlog.protocol.client import Client
    from strata_cdc.mirrors.dump.folder import DumpFolder
    from strata_cdc.mirrors.dump.manifest import Manifest, ReadBounds

_ALTERED = frozenset({1054, 1146, 1176, 1412})
"""Unknown column, no such table, no such key, and a table that was altered after the read began."""
_LEAST_ROWS = 1000
_LEAST_ROW_BYTES = 64
"""For the first chunk, if the server has no estimate."""
_ATTEMPTS_FOR_QUIET = 60


class TableAlteredError(Exception):
    """The table is no longer as in its definition: the dump begins again with the next definition."""


class Estimate(Struct, frozen=True):
    """The server's estimates for a table."""

    rows: int
    row_bytes: int


class TableReader:
    """Reads one table over one connection.

    Args:
        connection: In autocommit mode; its session cannot be used for anything else.
        folder: The folder for the chunks.
        manifest: What was read before; it has the definition that is expected to be the current one.
        chunk_bytes: The intended size of a chunk.
        is_quiet: For a table without a key to read by: whether no transaction within some bounds, of which it is not
            known whether the read has it, has changed the table. Called while the read is open.

    Raises:
        SourceSettingsError: The server has no GTIDs, or no binlog.
        Usage: A column has a masking policy.
        pymysql.err.MySQLError: The server refuses, or disconnects.
    """

    def __init__(
        self,
        connection: Client,
        folder: DumpFolder,
        manifest: Manifest,
        chunk_bytes: int,
        is_quiet: Callable[[ReadBounds], bool],
    ) -> None:
        prepare_session(connection)
        self._connection, self._folder, self._is_quiet = connection, folder, is_quiet
        self._snapshot = SnapshotReader(connection)
        self.manifest = manifest
        self._definition = manifest.read_definition()
        self._key = select_key(self._definition)
        self.estimate = self._estimated()
        self._chunk_bytes = chunk_bytes
        self._columns = self._shown_columns()
        refuse_masked(connection, manifest.name)

    def read_chunk(self) -> DumpedChunk:
        """Reads the next chunk and notes it in the manifest.

        Raises:
            TableAlteredError: The table was altered, dropped or renamed.
            Usage: Its engine has no consistent reads; or it has no key, and was changed each time that it was going to
                be read.
            UndecodableTextError: A value is not text in its column's charset.
            LakeUnavailableError: The storage refuses, or is full.
            pymysql.err.MySQLError: The server refuses, or disconnects.
        """
        try:
            return self._read_chunk()
        except pymysql.err.MySQLError as error:
            if error.args and error.args[0] in _ALTERED:
                raise TableAlteredError(str(error.args[-1])) from error
            raise
        except SchemaMismatchError as error:
            raise TableAlteredError(error.message) from error

    def _read_chunk(self) -> DumpedChunk:
        self._refuse_altered()
        bounds = self._begin()
        names = tuple(state_schema(self._definition).names)
        border = self._key.columns if self._key else ()
        most = self._chunk_rows()
        texts = verbatim_names(self._definition)
        selection = ServerSelect(self.manifest.name, self._definition, self._tail(most), border, names, texts)
        rows = SelectedRows(self._connection, selection)
        number = len(self.manifest.chunks) + 1
        name = f"chunk-{number:06}.arrow"
        self._folder.write(name, rows.schema, rows)
        self._snapshot.end()
        # A masking policy that came before the read is in no definition.
        self._refuse_altered()
        is_last = self._key is None or rows.rows < most
        chunk = DumpedChunk(name, rows.rows, rows.bytes, bounds, () if is_last else rows.border or (), rows.invalid)
        self.manifest = self.manifest.with_chunk(chunk, is_last=is_last)
        self._folder.save(self.manifest)
        return chunk

    def _refuse_altered(self) -> None:
        if self._shown_columns() != self._columns:
            raise TableAlteredError("its columns are others")

    def _begin(self) -> ReadBounds:
        if self._key is not None:
            return self._snapshot.begin(self.manifest.name)
        for _ in range(_ATTEMPTS_FOR_QUIET):
            bounds = self._snapshot.begin(self.manifest.name)
            if self._is_quiet(bounds):
                return bounds
            self._snapshot.end()
        raise Usage(
            "the table has no key that identifies its rows, and was changed in each of "
            f"{_ATTEMPTS_FOR_QUIET} moments in which its rows were to be read",
            table=str(self.manifest.name),
            remedy="Give it a primary key, or dump it while fewer write to it.",
        )

    def _chunk_rows(self) -> int:
        """How many rows the next chunk may have, from the sizes of those so far."""
        manifest = self.manifest
        guess = manifest.sent_bytes // manifest.rows if manifest.rows else self.estimate.row_bytes
        return max(_LEAST_ROWS, self._chunk_bytes // max(guess, 1 if manifest.rows else _LEAST_ROW_BYTES))

    def _tail(self, most: int) -> str:
        key = self._key
        if key is None:
            return ""
        after = key.after(self.manifest.border)
        where = f"WHERE {after} " if after else ""
        return f"{key.hint()} {where}{key.order} LIMIT {most}"

    def _estimated(self) -> Estimate:
        rows = self._rows(
            "SELECT TABLE_ROWS, AVG_ROW_LENGTH FROM information_schema.TABLES "
            "WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
        )
        return Estimate(*(int(value or 0) for value in rows[0])) if rows else Estimate(0, 0)

    def _shown_columns(self) -> list[tuple[Any, ...]]:
        """What changes with most DDL, and is cheap to request. The history shows the DDL that this does not show."""
        return self._rows(
            "SELECT COLUMN_NAME, COLUMN_TYPE, COLLATION_NAME, IS_NULLABLE, EXTRA "
            "FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION"
        )

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        return fetch_rows(self._connection, query, (self.manifest.database, self.manifest.table))
