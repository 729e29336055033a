"""Where `strata decode` puts rows: a file of JSON lines, or a folder of Parquet files.
Not here: their form (`rows/jsonl.py`, `tables/write.py`)."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO

from msgspec import Struct, field

from strata.errors import StrataError, Usage
from strata.events.salvage import Damage, describe
from strata.rows.decode import ChangeBatch, QuarantinedRows
from strata.rows.jsonl import JsonLines
from strata.rows.stream import Hole, Settled
from strata.tables.columns import published
from strata.tables.row_groups import ROW_GROUP_BYTES, Encoder, RowGroups, parquet_writer, write_row_group

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow as pa

    from strata.rows.decode import Decoded
    from strata.schema.model import TableName


MOST_HELD_BYTES = 2 * ROW_GROUP_BYTES
"""Of the row groups of all tables that are being gathered: of many tables none may ever have a whole one."""


class _Output:
    """What both have: counts, and the reasons for what is left out."""

    def __init__(self) -> None:
        self.errors: list[StrataError] = []
        self.rows = 0
        self.quarantined = 0
        self.skipped: list[Damage] = []

    def report(self) -> dict[str, Any]:
        """What was written, and what was passed over."""
        report: dict[str, Any] = {"rows": self.rows, "quarantined": self.quarantined}
        if self.skipped:
            report["skipped"] = [describe(damage) for damage in self.skipped]
        return report

    def count(self, step: Decoded | Damage) -> None:
        """Counts rows, and notes why others are left out."""
        if isinstance(step, ChangeBatch):
            self.rows += step.batch.num_rows
        elif isinstance(step, QuarantinedRows):
            self.quarantined += step.rows.num_rows
            self.errors.append(step.error)
        elif isinstance(step, Hole):
            self.errors.append(step.error)
        elif isinstance(step, Damage):
            self.skipped.append(step)
            self.errors.append(step.error)


class JsonlOutput(_Output):
    """JSON lines in a file, or on standard output for `-`. Quarantined rows go to `FILE.quarantine`."""

    def __init__(self, out: str) -> None:
        super().__init__()
        self._out = out
        self._lines, self._set_aside = JsonLines(), JsonLines()
        self._file: TextIO | None = None
        self._aside: TextIO | None = None

    def __enter__(self) -> Self:
        try:
            self._file = sys.stdout if self._out == "-" else Path(self._out).open("w", encoding="utf-8")
        except OSError as error:
            raise Usage(f"the output cannot be written: {error.strerror}", file=self._out) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in (self._file, self._aside):
            if file is not None and file is not sys.stdout:
                file.close()

    def take(self, step: Decoded | Damage) -> None:
        """Takes a step of decoding."""
        self.count(step)
        if isinstance(step, ChangeBatch):
            self._lines.take(step.table, step.definition, step.batch)
        elif isinstance(step, QuarantinedRows):
            self._set_aside.take(step.table, step.definition, step.rows, quarantined=step.error.message)
        elif isinstance(step, Settled):
            self._drain()

    def _drain(self) -> None:
        if self._file is not None:
            self._file.writelines(f"{line}\n" for line in self._lines.drain())
        aside = list(self._set_aside.drain())
        if aside and self._out != "-":
            if self._aside is None:
                self._aside = Path(f"{self._out}.quarantine").open("w", encoding="utf-8")  # noqa: SIM115 - as above
            self._aside.writelines(f"{line}\n" for line in aside)


class ParquetOutput(_Output):
    """Parquet files in a folder, one or more a table and version; each is one row group of rows in stream order."""

    def __init__(self, out: str) -> None:
        super().__init__()
        self._out = out
        self._gathered: dict[tuple[TableName, int | None], _Gathered] = {}
        self._held_bytes = 0
        # Encoding takes longer than decoding, and both leave the interpreter alone.
        self._encoder = Encoder()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with ExitStack() as last_steps:
            last_steps.callback(self._encoder.close)
            last_steps.callback(self._encoder.wait)
            for gathered in self._gathered.values():
                last_steps.callback(self._write, gathered, gathered.groups.take())

    def take(self, step: Decoded | Damage) -> None:
        """Takes a step of decoding."""
        self.count(step)
        if not isinstance(step, ChangeBatch):
            return
        key = (step.table, step.version_id)
        gathered = self._gathered.get(key)
        if gathered is None:
            gathered = self._gathered[key] = _Gathered.begin(Path(self._out), *key)
        self._held_bytes -= gathered.groups.held_bytes
        self._write(gathered, gathered.groups.add(published(step.batch)))
        self._held_bytes += gathered.groups.held_bytes
        if self._held_bytes > MOST_HELD_BYTES:
            largest = max(self._gathered.values(), key=lambda each: each.groups.held_bytes)
            self._held_bytes -= largest.groups.held_bytes
            self._write(largest, largest.groups.take())

    def _write(self, gathered: _Gathered, table: pa.Table | None) -> None:
        if table is not None:
            self._encoder.run(partial(_write_file, gathered.next_path()), table)


class _Gathered(Struct):
    """Rows of one version of one table that are not written yet."""

    folder: Path
    stem: str
    groups: RowGroups = field(default_factory=RowGroups)
    files: int = 0

    @classmethod
    def begin(cls, out: Path, table: TableName, version_id: int | None) -> Self:
        """Makes the folder. What an earlier run wrote of this version is removed: its parts may be others."""
        found = cls(out / table.database / table.table, f"version-{version_id or 0}")
        try:
            found.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Usage(f"the output cannot be written: {error.strerror}", file=str(found.folder)) from error
        for old in (*found.folder.glob(f"{found.stem}.parquet"), *found.folder.glob(f"{found.stem}.part-*.parquet")):
            old.unlink()
        return found

    def next_path(self) -> Path:
        """Of the next file."""
        self.files += 1
        return self.folder / f"{self.stem}{f'.part-{self.files:04d}' if self.files > 1 else ''}.parquet"


def _write_file(path: Path, table: pa.Table) -> None:
    with parquet_writer(path, table) as writer:
        write_row_group(writer, table)
