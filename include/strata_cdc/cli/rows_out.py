"""Where `strata decode` puts rows: a file of JSON lines, or a folder of Parquet files.
Not here: their form (`changes/jsonl.py`, `tables/write.py`)."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO

from msgspec import Struct

from strata_cdc.binlog.events.repeats import Repeat, describe_repeat
from strata_cdc.binlog.events.salvage import Damage, describe
from strata_cdc.changes.jsonl import JsonLines
from strata_cdc.changes.port import ChangeBatch, Hole, QuarantinedRows, Watermark
from strata_cdc.errors import StrataError, Usage
from strata_cdc.pipeline.decode.file_ranges import UndecidedRows
from strata_cdc.tables.limits import FileLimits
from strata_cdc.tables.named_columns import published
from strata_cdc.tables.row_groups import Encoder, RowGroups, parquet_writer, write_row_group

if TYPE_CHECKING:
    import pyarrow as pa

    from strata_cdc.pipeline.decode.decode_files import FileStep
    from strata_cdc.schema.model.definition import TableName


MOST_REPEATED = 10


class _RowsOutput:
    """What both have: counts, the reasons for what is excluded, and the rows in quarantine, as JSON lines."""

    def __init__(self, quarantine: Path | None) -> None:
        self.errors: list[StrataError] = []
        self.rows = 0
        self.quarantined: Counter[str] = Counter()
        """Rows by table."""
        self._reasons: Counter[tuple[str, str]] = Counter()
        """Rows by table and error, with the columns at fault."""
        self.skipped: list[Damage] = []
        self.repeated: list[str] = []
        """The first transactions that came again."""
        self.undecided: list[UndecidedRows] = []
        self.missing: list[StrataError] = []
        """Of `errors`, those about rows that are in no log."""
        self._quarantine = quarantine
        self._set_aside = JsonLines()
        self._aside: TextIO | None = None

    def report(self) -> dict[str, Any]:
        """What was written, and what was skipped."""
        report: dict[str, Any] = {"rows": self.rows, "quarantined": self.quarantined.total()}
        if self.quarantined:
            report["quarantined_rows_of"] = [f"{table}: {rows:,}" for table, rows in self.quarantined.most_common()]
            report["quarantined_because"] = [
                f"{table}: {rows:,}, {why}" for (table, why), rows in self._reasons.most_common()
            ]
            report["quarantine"] = self.quarantine
        if self.skipped:
            report["skipped"] = [describe(damage) for damage in self.skipped]
        if self.repeated:
            report["repeated"] = self.repeated
        if self.undecided:
            report["undecided"] = [str(prepared) for prepared in self.undecided]
        return report

    def messages(self, *, reported: bool) -> list[str]:
        """The lines for standard error: what is undecided, what was repeated if no report tells it, and what else is
        missing besides the first error, which comes last."""
        missing = (str(error) for error in self.missing if error is not self.errors[0])
        return [*map(str, self.undecided), *(() if reported else self.repeated), *missing]

    @property
    def quarantine(self) -> str:
        """Where the rows in quarantine are."""
        return (
            str(self._quarantine) if self._quarantine else "nowhere: give --out a file, and they are written beside it"
        )

    def count(self, step: FileStep) -> None:
        """Counts rows, and records why others are excluded."""
        if isinstance(step, ChangeBatch):
            self.rows += step.batch.num_rows
        elif isinstance(step, QuarantinedRows | Hole | Damage):
            self._count_error(step)
        elif isinstance(step, Repeat) and len(self.repeated) < MOST_REPEATED:
            self.repeated.append(describe_repeat(step))
        elif isinstance(step, UndecidedRows):
            self.undecided.append(step)
        elif isinstance(step, Watermark):
            self._write_aside()

    def _count_error(self, step: QuarantinedRows | Hole | Damage) -> None:
        self.errors.append(step.error)
        if isinstance(step, QuarantinedRows):
            self.quarantined[str(step.table)] += step.rows.num_rows
            why = f"{step.error.message} ({type(step.error).__name__})"
            self._reasons[str(step.table), why] += step.rows.num_rows
            self._set_aside.write(step.table, step.definition, step.rows, quarantined=step.error.message)
        elif isinstance(step, Hole):
            self.missing.append(step.error)
        else:
            self.skipped.append(step)

    def _write_aside(self) -> None:
        lines = list(self._set_aside.drain())
        if lines and self._quarantine is not None:
            if self._aside is None:
                self._quarantine.parent.mkdir(parents=True, exist_ok=True)
                self._aside = self._quarantine.open("w", encoding="utf-8")
            self._aside.writelines(f"{line}\n" for line in lines)

    def close_aside(self) -> None:
        """Writes the last rows in quarantine."""
        self._write_aside()
        if self._aside is not None:
            self._aside.close()


class JsonlOutput(_RowsOutput):
    """JSON lines in a file, or on standard output for `-`. Quarantined rows go to `FILE.quarantine`."""

    def __init__(self, out: str) -> None:
        super().__init__(None if out == "-" else Path(f"{out}.quarantine"))
        self._out = out
        self._lines = JsonLines()
        self._file: TextIO | None = None

    def __enter__(self) -> Self:
        try:
            self._file = sys.stdout if self._out == "-" else Path(self._out).open("w", encoding="utf-8")
        except OSError as error:
            raise Usage(f"the output cannot be written: {error.strerror}", file=self._out) from error
        return self

    def __exit__(self, *_: object) -> None:
        self.close_aside()
        if self._file is not None and self._file is not sys.stdout:
            self._file.close()

    def write(self, step: FileStep) -> None:
        """Takes a step of decoding."""
        self.count(step)
        if isinstance(step, ChangeBatch):
            self._lines.write(step.table, step.definition, step.batch)
        elif isinstance(step, Watermark):
            self._drain()

    def _drain(self) -> None:
        if self._file is not None:
            self._file.writelines(f"{line}\n" for line in self._lines.drain())


class ParquetOutput(_RowsOutput):
    """Parquet files in a folder, one or more a table and version; each is one row group of rows in stream order.
    Quarantined rows go to `quarantine.jsonl` there.

    Args:
        out: The folder.
        limits: How much of one row group is kept in memory.
        most_bytes: Of the row groups of all tables that are being gathered: of many tables none may ever have a whole
            one. By default as many as two have.
    """

    def __init__(self, out: str, limits: FileLimits = FileLimits(), most_bytes: int | None = None) -> None:
        super().__init__(Path(out) / "quarantine.jsonl")
        self._out, self._limits = out, limits
        self._most_bytes = 2 * limits.row_group_bytes if most_bytes is None else most_bytes
        self._gathered: dict[tuple[TableName, int | None], _PendingRows] = {}
        self._held_bytes = 0
        # Encoding takes longer than decoding, and both leave the interpreter alone.
        self._encoder = Encoder()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as last_steps:
            last_steps.callback(self._encoder.close)
            last_steps.callback(self._encoder.wait)
            last_steps.callback(self.close_aside)
            for gathered in self._gathered.values():
                last_steps.callback(self._write, gathered, gathered.groups.drain())

    def write(self, step: FileStep) -> None:
        """Takes a step of decoding."""
        self.count(step)
        if not isinstance(step, ChangeBatch):
            return
        key = (step.table, step.version_id)
        gathered = self._gathered.get(key)
        if gathered is None:
            gathered = self._gathered[key] = _PendingRows.begin(Path(self._out), *key, self._limits)
        self._held_bytes -= gathered.groups.held_bytes
        self._write(gathered, gathered.groups.add(published(step.batch)))
        self._held_bytes += gathered.groups.held_bytes
        if self._held_bytes > self._most_bytes:
            largest = max(self._gathered.values(), key=lambda each: each.groups.held_bytes)
            self._held_bytes -= largest.groups.held_bytes
            self._write(largest, largest.groups.drain())

    def _write(self, gathered: _PendingRows, table: pa.Table | None) -> None:
        if table is not None:
            self._encoder.run(partial(_write_file, gathered.next_path()), table)


class _PendingRows(Struct):
    """Rows of one version of one table that are not written yet."""

    folder: Path
    stem: str
    groups: RowGroups
    files: int = 0

    @classmethod
    def begin(cls, out: Path, table: TableName, version_id: int | None, limits: FileLimits) -> Self:
        """Makes the folder. What an earlier run wrote of this version is removed: its parts may be others."""
        gathered = cls(out / table.database / table.table, f"version-{version_id or 0}", RowGroups(limits))
        try:
            gathered.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Usage(f"the output cannot be written: {error.strerror}", file=str(gathered.folder)) from error
        for old in (
            *gathered.folder.glob(f"{gathered.stem}.parquet"),
            *gathered.folder.glob(f"{gathered.stem}.part-*.parquet"),
        ):
            old.unlink()
        return gathered

    def next_path(self) -> Path:
        """Of the next file."""
        self.files += 1
        return self.folder / f"{self.stem}{f'.part-{self.files:04d}' if self.files > 1 else ''}.parquet"


def _write_file(path: Path, table: pa.Table) -> None:
    with parquet_writer(path, table) as writer:
        write_row_group(writer, table)
