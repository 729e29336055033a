"""The data files of a sink, each read forward as far as its rows are needed.
Not here: the form of a file (`csv_rows.py`, `canal_rows.py`), the order of rows of several files (`windows.py`)."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from strata_cdc.errors import StrataError
from strata_cdc.ticdc.canal_rows import canal_rows
from strata_cdc.ticdc.csv_rows import csv_rows
from strata_cdc.ticdc.paths import FileForm
from strata_cdc.ticdc.records import rows_error

if TYPE_CHECKING:
    from collections.abc import Generator

    import pyarrow as pa

    from strata_cdc.ticdc.csv_form import CsvSettings
    from strata_cdc.ticdc.folder import FeedFile
    from strata_cdc.ticdc.history import SinkVersion
    from strata_cdc.ticdc.limits import SinkLimits

NEVER: Final = (1 << 63) - 1
"""Later than every commit timestamp."""


class SinkFile(Struct, frozen=True):
    """A data file, with what is known of its rows."""

    ordinal: int
    file: FeedFile
    version: SinkVersion
    """The version that its directory names."""
    first_ts: int
    """The commit timestamp of its first row, which is its smallest; `NEVER` if it has none, 0 if it is not known."""
    is_newest: bool = False
    """Whether it is the last one that its index names, of the newest day."""

    @property
    def may_be_written(self) -> bool:
        """Whether TiCDC may still write it: after a restart it uses the newest number again if that file is empty
        (pkg/sink/cloudstorage/path.go, `getNextFileIdxFromIndexFile`)."""
        return self.first_ts == NEVER and self.is_newest


def read_rows(
    file: FeedFile, version: SinkVersion, settings: CsvSettings, block_bytes: int
) -> Generator[pa.RecordBatch]:
    """The rows of a file, as `csv_rows` and `canal_rows` yield them.

    Raises:
        BadData: A row cannot be read; after all rows before it.
        Usage: The settings do not fit.
        LakeUnavailableError: The storage does not answer.
    """
    try:
        if file.form is FileForm.CSV:
            yield from csv_rows(file, version.table, version.definition, settings, block_bytes)
        else:
            yield from canal_rows(file, version.table, version.definition, settings.time_zone, block_bytes)
    except StrataError as error:
        raise error.located(table=str(version.table), file=file.path) from error.__cause__


def first_ts(file: FeedFile, version: SinkVersion, settings: CsvSettings, limits: SinkLimits) -> int:
    """The commit timestamp of the first row of a file, as in `SinkFile`; 0 if it cannot be read."""
    with closing(read_rows(file, version, settings, limits.first_bytes)) as rows:
        try:
            batch = next(rows, None)
        except StrataError:
            return 0
    return NEVER if batch is None else int(batch.column("ts")[0].as_py())


class FileCursor:
    """One file that is open. Its rows up to some timestamp are taken together."""

    def __init__(self, source: SinkFile, settings: CsvSettings, limits: SinkLimits) -> None:
        """Reads the first rows."""
        self.source = source
        self.error: StrataError | None = None
        """Why no more rows can be read."""
        self._rows = read_rows(source.file, source.version, settings, limits.block_bytes)
        self._held: list[pa.RecordBatch] = []
        self._last_ts = source.first_ts
        self._is_at_end = False
        self.advance()

    @property
    def bound(self) -> int:
        """All rows with smaller timestamps are held."""
        return NEVER if self._is_at_end and self.error is None else self._last_ts

    @property
    def is_done(self) -> bool:
        """Whether all rows have been taken."""
        return self._is_at_end and self.error is None and not self._held

    def advance(self) -> None:
        """Reads one block more."""
        try:
            batch = next(self._rows, None)
            if batch is not None:
                self._check(batch)
        except StrataError as error:
            self.error, batch = error, None
        if batch is None:
            self._is_at_end = True
            return
        self._held.append(batch)
        self._last_ts = int(batch.column("ts")[-1].as_py())

    def _check(self, batch: pa.RecordBatch) -> None:
        """Whether timestamps do not fall, as TiCDC promises."""
        stamps = np.append(self._last_ts if self._held or self.source.first_ts else 0, batch.column("ts").to_numpy())
        falls = np.flatnonzero(np.diff(stamps) < 0)
        if len(falls):
            row = int(batch.column("number")[int(falls[0])].as_py())
            raise rows_error(self.source.file, row, "its commit timestamp is smaller than that of the row before it")

    def take_below(self, after: int, limit: int) -> list[pa.RecordBatch]:
        """Takes the held rows with timestamps below `limit`, and returns those of them after `after`."""
        due, kept = [], []
        for batch in self._held:
            stamps = batch.column("ts").to_numpy()
            begin, end = (int(at) for at in np.searchsorted(stamps, (after, limit), side="left"))
            begin = int(np.searchsorted(stamps, after, side="right"))
            if begin < end:
                due.append(batch.slice(begin, end - begin))
            if end < len(stamps):
                kept.append(batch.slice(end))
        self._held = kept
        return due

    def close(self) -> None:
        """Closes the file."""
        self._rows.close()
